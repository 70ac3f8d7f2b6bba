// SPDX-License-Identifier: Apache-2.0
// Changes to a text that can be asked, afterwards, where a place in the new text was in the old one.
//
// No edit changes the number of lines, so a line keeps its number and only columns move.
'use strict';

class Edits {
	constructor(source) {
		this.source = source;
		this.list = []; // {start, end, text}
	}

	replace(start, end, text) {
		this.list.push({ start, end, text });
	}

	insert(at, text) {
		this.replace(at, at, text);
	}

	apply() {
		let out = '';
		let at = 0;

		this.list.sort((a, b) => a.start - b.start || a.end - b.end); // stable: equal ones stay in order
		for (const { start, end, text } of this.list) {
			out += this.source.slice(at, start) + text;
			at = end;
		}
		return out + this.source.slice(at);
	}

	// The column in the source, from 1, of a column in the new text's line, both from 1.
	column(line, column) {
		const begin = lineStart(this.source, line);
		let shift = 0; // of new columns against old ones, after the edits looked at

		for (const { start, end, text } of this.list) {
			if (start < begin)
				continue;
			const from = start - begin + 1 + shift;
			if (column < from)
				break;
			if (column < from + text.length)
				return start - begin + 1;
			shift += text.length - (end - start);
		}
		return Math.max(1, column - shift);
	}
}

function lineStart(source, line) {
	let at = 0;

	for (let i = 1; i < line; i++) {
		const end = source.indexOf('\n', at);
		if (end < 0)
			return source.length;
		at = end + 1;
	}
	return at;
}

module.exports = { Edits };
