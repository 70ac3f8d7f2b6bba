// SPDX-License-Identifier: Apache-2.0
// The driver's end of fd 3: frames of PROTOCOL.md, read as events and written at once.
//
// Reading goes through the event loop, so that timers and servers of the user's go on between calls. Writing is a blocking
// loop: a message is out when send() returns, whatever the code does next.
'use strict';

const fs = require('node:fs');
const net = require('node:net');

const { writeSync } = fs; // the code may replace it
const { stringify } = JSON;
const { exit } = process;

const FD = 3;
const MAX_LINE = 64;
const MAX_PAYLOAD = 16 << 20;
const PEER_IS_BROKEN = 70;
const pause = new Int32Array(new SharedArrayBuffer(4));

// Writes what goes and returns how much that was; waits where a pipe is full that some process made non-blocking.
function writeSome(fd, bytes) {
	try {
		return writeSync(fd, bytes);
	} catch (error) {
		if (error.code !== 'EAGAIN' && error.code !== 'EINTR')
			throw error;
		Atomics.wait(pause, 0, 0, 1);
		return 0;
	}
}

function writeAll(fd, bytes) {
	for (let at = 0; at < bytes.length;)
		at += writeSome(fd, at ? bytes.subarray(at) : bytes);
}

// JSON that every reader takes: a NUL or half a surrogate pair, which stringify() writes as escapes, is replaced.
function toJson(value) {
	const text = stringify(value);

	return text.includes('\\u')
		? text.replace(/\\(?:u0000|ud[89a-f][\da-f]{2}|[^])/g, (m) => (/^\\u(?:0000|d)/.test(m) ? '\ufffd' : m))
		: text;
}

let unsent = Buffer.alloc(0); // of messages: an interrupt may come between two parts of one

function send(verb, id, payload) {
	const body = Buffer.from(toJson(payload));

	unsent = Buffer.concat([unsent, Buffer.from(`${verb} ${id} ${body.length}\n`), body]);
	try {
		while (unsent.length)
			unsent = unsent.subarray(writeSome(FD, unsent));
	} catch {
		exit(0); // the host is gone, or the code closed the socket: there is no one to talk to
	}
}

// Calls onMessage(verb, id, payload) for each message.
function listen(onMessage) {
	const socket = new net.Socket({ fd: FD, readable: true, writable: false });
	let held = Buffer.alloc(0);

	socket.on('data', (bytes) => {
		held = held.length ? Buffer.concat([held, bytes]) : bytes;
		for (let message; (message = take());)
			onMessage(message.verb, message.id, message.payload);
	});
	socket.on('error', () => exit(0));
	socket.on('close', () => exit(0));

	function take() {
		const end = held.subarray(0, MAX_LINE).indexOf(10);
		if (end < 0 && held.length >= MAX_LINE)
			exit(PEER_IS_BROKEN);
		if (end < 0)
			return undefined;
		const line = /^(run|env|renew|sync) (\d{1,18}) (\d{1,8})$/.exec(held.toString('latin1', 0, end));
		if (!line || Number(line[3]) > MAX_PAYLOAD)
			exit(PEER_IS_BROKEN);
		const start = end + 1;
		const stop = start + Number(line[3]);
		if (held.length < stop)
			return undefined;
		const message = { verb: line[1], id: line[2], payload: held.subarray(start, stop) };
		held = held.subarray(stop);
		return message;
	}
}

module.exports = { listen, send, writeAll };
