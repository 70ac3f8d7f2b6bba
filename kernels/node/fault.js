// SPDX-License-Identifier: Apache-2.0
// From a thrown value to the error that the host is told: name, message, and a stack of the user's own lines.
//
// The sources of cells are kept, so that a function of an early cell that fails in a late one can be shown; the
// oldest go when they are more than a bound.
'use strict';

const { inspect } = require('./show.js');

const DRIVER = __dirname;
const PLACE = /(cell-\d+\.[jt]s):(\d+)(?::(\d+))?/;
const MAX_SOURCES = 8 << 20;
const MAX_MESSAGE = 64 << 10;
const MAX_CAUSES = 4;

const cells = new Map(); // file name → {lines, column, size}
let held = 0;

function remember(file, source, column) {
	cells.set(file, { lines: source.split('\n'), column, size: source.length });
	held += source.length;
	for (const [oldest, { size }] of cells) {
		if (held <= MAX_SOURCES || oldest === file)
			break;
		cells.delete(oldest);
		held -= size;
	}
}

function describe(thrown) {
	if (!(thrown instanceof Error) && typeof thrown?.stack !== 'string') {
		const message = cut(inspect(thrown));
		return { name: 'Uncaught', message, traceback: [`Uncaught ${message}`] };
	}
	const name = nameOf(thrown);
	const message = cut(text(() => thrown.message));
	return { name, message, traceback: traceback(thrown, `${name}${message && ': '}${message}`, MAX_CAUSES) };
}

// Whatever the code made of a property, it is text here.
function text(get) {
	try {
		return String(get() ?? '');
	} catch {
		return '';
	}
}

function cut(message) {
	return message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
}

function nameOf(error) {
	const name = text(() => error.name) || 'Error';
	const own = text(() => error.constructor.name);

	return name === 'Error' && own !== 'Object' && own ? own : name;
}

function traceback(error, title, causes) {
	const { head, frames } = split(text(() => error.stack));
	const first = PLACE.exec(head[0] ?? '')?.[0] === head[0]?.trim() ? head : frames;
	const lines = [...excerpt(first, head), ...title.split('\n'), ...frames];
	let cause;

	try {
		cause = error.cause;
	} catch {
		cause = undefined;
	}
	if (cause instanceof Error && causes > 0) {
		const message = cut(text(() => cause.message));
		lines.push('caused by:', ...traceback(cause, `${nameOf(cause)}: ${message}`, causes - 1));
	}
	return lines;
}

// Parts a stack into what is before its frames and the frames that are not the driver's, with places in the source.
function split(stack) {
	const lines = stack.split('\n');
	const start = lines.findIndex((line) => /^ {4}at /.test(line));
	const frames = [];

	for (const line of start < 0 ? [] : lines.slice(start)) {
		if (line.includes(DRIVER) || line.includes('(node:vm:') || line.includes('at new Script'))
			break;
		if (!/\(?node:internal\/(?:process|timers|modules)/.test(line))
			frames.push(line.replace(PLACE, place));
	}
	return { head: start < 0 ? lines : lines.slice(0, start), frames };
}

function place(whole, file, line, column) {
	const cell = cells.get(file);

	return cell && column ? `${file}:${line}:${cell.column(Number(line), Number(column))}` : whole;
}

// The source line of the topmost place in a cell, with a caret under it.
function excerpt(lines, head) {
	const found = lines.map((line) => PLACE.exec(line)).find(Boolean);
	const cell = found && cells.get(found[1]);

	if (!cell)
		return [];
	const line = Math.min(Number(found[2]), cell.lines.length);
	const source = cell.lines[line - 1];
	let column = Number(found[3] ?? 0);
	if (!column && head.length > 2) // a SyntaxError: V8 wrote the place, its own line and carets
		column = cell.column(line, (head[2].indexOf('^') + 1) || 1);
	if (source.length > 500)
		return [`${found[1]}:${line}`];
	const indent = source.slice(0, Math.max(0, column - 1)).replace(/[^\t]/g, ' ');
	return [`${found[1]}:${line}`, source, `${indent}^`, ''];
}

module.exports = { describe, remember };
