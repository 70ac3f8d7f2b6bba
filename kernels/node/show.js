// SPDX-License-Identifier: Apache-2.0
// From a value to the MIME bundle that shows it.
//
// A value says how it looks by a method under Symbol.for('cloche.mimebundle') or Symbol.for('Jupyter.display') that
// gives {mime: data}, or by methods named as in Python's notebooks (_repr_html_ and so on). All others are inspected, and
// plain data comes as JSON too.
'use strict';

const util = require('node:util');

const { stringify } = JSON;

const HOOKS = [Symbol.for('cloche.mimebundle'), Symbol.for('Jupyter.display')];
const METHODS = {
	_repr_html_: 'text/html', _repr_svg_: 'image/svg+xml', _repr_png_: 'image/png', _repr_jpeg_: 'image/jpeg',
	_repr_markdown_: 'text/markdown', _repr_latex_: 'text/latex', _repr_json_: 'application/json',
};
const MIME = /^[a-z]+\/[\w.+-]+$/;
const JSON_MIME = /json$/;
const INSPECT = { colors: false, depth: 4, maxArrayLength: 200, maxStringLength: 2 << 20, breakLength: 80 };
const MAX_BUNDLE = 8 << 20;
const MAX_TEXT = 1 << 20;
const MAX_JSON = 256 << 10;
const MAX_JSON_VALUES = 10_000;
const MAX_JSON_DEPTH = 32;

function inspect(value) {
	try {
		return util.inspect(value, INSPECT);
	} catch (error) {
		return `[value that cannot be shown: ${error?.message}]`;
	}
}

// The payload of a result or display message.
function bundle(value) {
	const data = {};

	for (const [mime, content] of Object.entries(isObject(value) ? shapes(value) : {})) {
		if (MIME.test(mime) && content !== undefined && content !== null)
			data[mime] = encode(mime, content);
	}
	data['text/plain'] ??= inspect(value);
	return bounded(data);
}

// What display() was given: a bundle already, or a value.
function displayed(value) {
	const keys = isPlainObject(value) ? Object.keys(value) : [];

	if (!keys.length || !keys.every((key) => MIME.test(key)))
		return bundle(value);
	const data = Object.fromEntries(keys.map((mime) => [mime, encode(mime, value[mime])]));
	data['text/plain'] ??= `<${keys[0]}>`;
	return bounded(data);
}

function isObject(value) {
	return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

function shapes(value) {
	for (const hook of HOOKS) {
		if (typeof value[hook] === 'function') {
			const made = value[hook]();
			return isObject(made) ? made : {};
		}
	}
	const made = {};
	for (const [method, mime] of Object.entries(METHODS)) {
		if (typeof value[method] === 'function')
			made[mime] = value[method]();
	}
	if (!Object.keys(made).length) {
		const plain = plainJson(value);
		if (plain !== undefined)
			made['application/json'] = plain;
	}
	return made;
}

function encode(mime, content) {
	if (JSON_MIME.test(mime))
		return content;
	if (ArrayBuffer.isView(content))
		return Buffer.from(content.buffer, content.byteOffset, content.byteLength)
			.toString(mime.startsWith('text/') || mime.endsWith('+xml') ? 'utf8' : 'base64');
	return typeof content === 'string' ? content : inspect(content);
}

// The value where JSON says all of it and is small, else undefined.
function plainJson(value) {
	const own = typeof value.toJSON === 'function' && !isPlainObject(value) && !Array.isArray(value) ? value.toJSON() : value;
	let left = MAX_JSON_VALUES;

	function isPlain(v, depth) {
		if (--left < 0 || depth > MAX_JSON_DEPTH)
			return false;
		if (v === null || typeof v === 'string' || typeof v === 'boolean')
			return true;
		if (typeof v === 'number')
			return Number.isFinite(v);
		if (Array.isArray(v))
			return v.every((x) => isPlain(x, depth + 1));
		return isPlainObject(v) && Object.values(v).every((x) => isPlain(x, depth + 1));
	}

	if (!isObject(own) || !isPlain(own, 0))
		return undefined;
	return stringify(own).length <= MAX_JSON ? own : undefined;
}

function isPlainObject(value) {
	if (typeof value !== 'object' || value === null)
		return false;
	const prototype = Object.getPrototypeOf(value);
	return prototype === Object.prototype || prototype === null;
}

// A bundle within bounds: long text is cut, and what is too big as a whole is left with its text.
function bounded(data) {
	const text = data['text/plain'];
	const isLong = text.length > MAX_TEXT;
	let size = 0;

	if (isLong)
		data['text/plain'] = `${text.slice(0, MAX_TEXT)}… (${text.length} characters)`;
	try {
		size = Buffer.byteLength(stringify(data));
	} catch {
		size = Infinity; // a cycle or a BigInt in what was called JSON
	}
	if (size > MAX_BUNDLE)
		return { data: { 'text/plain': data['text/plain'] }, metadata: {}, truncated: true };
	return isLong ? { data, metadata: {}, truncated: true } : { data, metadata: {} };
}

module.exports = { bundle, displayed, inspect };
