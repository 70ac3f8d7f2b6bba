// SPDX-License-Identifier: Apache-2.0
// process.stdout and process.stderr that have written when write() returns.
//
// Node's own streams queue what a full pipe does not take, so that output could come after the reply or be lost at an
// exit, and they make the pipe non-blocking for every child that shares it. Where /proc allows it these write to
// a copy of the descriptor, so that code which closes fd 1 does not silence the calls after it.
'use strict';

const fs = require('node:fs');
const { Writable } = require('node:stream');
const { writeAll } = require('./wire.js');

class Output extends Writable {
	constructor(fd) {
		super();
		this.fd = fd;
		this.copy = copyOf(fd);
		this._type = 'pipe';
	}

	// Without the machinery of Writable: an interrupt in the middle of a write would leave it waiting for ever.
	write(chunk, encoding, done) {
		const after = typeof encoding === 'function' ? encoding : done;

		if (typeof chunk !== 'string' && !ArrayBuffer.isView(chunk))
			throw new TypeError('The "chunk" argument must be of type string or an instance of Buffer or Uint8Array');
		try {
			writeAll(this.copy, typeof chunk === 'string'
				? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk);
		} catch {
			// The reader is gone: output ends there, the interpreter does not.
		}
		if (typeof after === 'function')
			process.nextTick(after);
		return true;
	}

	// As with Node's own, neither call closes the stream.
	end(chunk, encoding, done) {
		const last = [chunk, encoding, done].find((x) => typeof x === 'function');

		if (chunk !== undefined && chunk !== null && typeof chunk !== 'function')
			this.write(chunk, typeof encoding === 'string' ? encoding : undefined);
		if (last)
			process.nextTick(last);
		return this;
	}

	destroy() {
		return this;
	}
}

function copyOf(fd) {
	try {
		return fs.fstatSync(fd).isFIFO() ? fs.openSync(`/proc/self/fd/${fd}`, 'w') : fd;
	} catch {
		return fd;
	}
}

function install() {
	for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
		const value = new Output(fd);
		Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => value });
	}
}

module.exports = { install };
