// SPDX-License-Identifier: Apache-2.0
// Makes a script of a cell: what is declared at its top level stays for later cells, and can be declared anew there.
//
// A script's own let, const and class can be declared once in a process. So they become var, whose names are properties
// of the global object; const loses its check with that. A cell with await or import at its top level becomes the
// body of an async function:
//
//	const {a} = await f()      var a;(async()=>{void ({a} = await f())
//	import b from 'c'          void ({"default":b}=__cloche.pick(await __cloche.load('c'),…))
//	a + b                      return {value:(a + b)}})()
//
// Edits keep the lines, and columns can be mapped back, so that errors speak of the user's own text.
'use strict';

const { scan } = require('./scan.js');
const { Edits } = require('./edits.js');

const NO_EXPRESSION = new Set(('var let const class function import export if for while do switch try return throw break ' +
	'continue with debugger { ;').split(' '));

class Cell {
	constructor(source) {
		Object.assign(this, scan(source));
		this.source = source;
		this.edits = new Edits(source);
		this.names = new Set(); // declared at the top level
		this.isAsync = this.tokens.some((t, i) => this.waits(t, i));
	}

	waits(token, i) {
		if (token.inFunction || token.kind !== 'name' || this.text(i - 1) === '.')
			return false;
		return token.text === 'await' || (token.text === 'import' && token.begins && this.isImport(i));
	}

	isImport(i) {
		return this.text(i) === 'import' && this.text(i + 1) !== '(' && this.text(i + 1) !== '.';
	}

	text(i) {
		return this.tokens[i]?.text;
	}

	// {code, column, names, isAsync, hasValue}: column maps places back, hasValue tells a last expression.
	transform() {
		const { statements } = this;
		const last = statements[statements.length - 1];
		const hasValue = Boolean(last) && this.isExpression(last);
		const functions = [];

		this.rewriteLoads();
		for (const statement of statements)
			this.declare(statement, functions);
		if (this.isAsync) {
			this.hoistNestedVars();
			if (hasValue)
				this.returnValue(last);
			this.wrap(functions);
		}
		return {
			code: this.edits.apply(),
			column: (line, column) => this.edits.column(line, column),
			names: [...this.names],
			isAsync: this.isAsync,
			hasValue,
		};
	}

	isExpression({ first }) {
		const text = this.text(first);

		if (text === 'import')
			return !this.isImport(first);
		if (text === 'let')
			return !this.declaresLet(first);
		if (text === 'async')
			return !this.isAsyncFunction(first);
		if (this.tokens[first].kind === 'name' && this.text(first + 1) === ':')
			return false; // a label
		return !NO_EXPRESSION.has(text);
	}

	declaresLet(i) {
		const next = this.tokens[i + 1];

		return next !== undefined && (next.kind === 'name' || next.text === '{' || next.text === '[');
	}

	isAsyncFunction(i) {
		return this.text(i + 1) === 'function' && !this.tokens[i + 1].newline;
	}

	// import() and import.meta mean nothing in a script.
	rewriteLoads() {
		this.tokens.forEach((token, i) => {
			if (token.text !== 'import' || token.kind !== 'name' || this.text(i - 1) === '.')
				return;
			if (this.text(i + 1) === '(')
				this.edits.replace(token.start, token.end, '__cloche.load');
			else if (this.text(i + 1) === '.' && this.text(i + 2) === 'meta')
				this.edits.replace(token.start, this.tokens[i + 2].end, '__cloche.meta');
		});
	}

	declare(statement, functions) {
		const { first } = statement;
		const text = this.text(first);

		if (text === 'const' || text === 'var' || (text === 'let' && this.declaresLet(first)))
			this.declareVariables(statement);
		else if (text === 'class')
			this.declareClass(statement);
		else if (text === 'function' || (text === 'async' && this.isAsyncFunction(first)))
			this.declareFunction(statement, functions);
		else if (this.isImport(first))
			this.declareImport(statement);
	}

	declareVariables({ first }) {
		const word = this.tokens[first];
		const { declarators, end } = this.declarators(first + 1);

		for (const { names, last, hasValue } of declarators) {
			names.forEach((name) => this.names.add(name));
			if (!hasValue && word.text !== 'var')
				this.edits.insert(this.tokens[last].end, '=void 0'); // a let without value is a new variable
		}
		if (!this.isAsync) {
			this.edits.replace(word.start, word.end, 'var');
		} else if (declarators.length) {
			this.edits.replace(word.start, word.end, 'void (');
			this.edits.insert(this.tokens[end - 1].end, ')');
		}
	}

	declareClass({ first, last }) {
		const name = this.tokens[first + 1];

		if (name?.kind !== 'name')
			return;
		this.names.add(name.text);
		this.edits.insert(this.tokens[first].start, `${this.isAsync ? '' : 'var '}${name.text}=`);
		this.edits.insert(this.tokens[last].end, ';');
	}

	declareFunction({ first }, functions) {
		let i = first;

		while (this.text(i) === 'async' || this.text(i) === 'function' || this.text(i) === '*')
			i++;
		if (this.tokens[i]?.kind === 'name') {
			this.names.add(this.text(i));
			functions.push(this.text(i));
		}
	}

	// import d, {a as b}, * as n from 'm' with {…}
	declareImport({ first, last }) {
		const wanted = []; // [export, local name]
		let i = first + 1;
		let all;

		for (; i <= last && this.tokens[i].kind !== 'string' && this.text(i) !== 'from'; i++) {
			if (this.text(i) === '*') {
				all = this.text(i + 2);
				i += 2;
			} else if (this.text(i) === '{') {
				i = this.importNames(i + 1, wanted);
			} else if (this.tokens[i].kind === 'name') {
				wanted.push(['default', this.text(i)]);
			}
		}
		if (this.text(i) === 'from')
			i++;
		if (this.tokens[i]?.kind !== 'string')
			return; // no import: the compiler will say so
		this.replaceImport(first, last, this.importCode(i, last, wanted, all));
	}

	importNames(i, wanted) {
		for (; i < this.tokens.length && this.text(i) !== '}'; i++) {
			if (this.text(i) === ',')
				continue;
			const token = this.tokens[i];
			const name = token.kind === 'string' ? token.text.slice(1, -1) : token.text;
			const renamed = this.text(i + 1) === 'as';
			wanted.push([name, renamed ? this.text(i + 2) : name]);
			i += renamed ? 2 : 0;
		}
		return i;
	}

	importCode(i, last, wanted, all) {
		const from = this.text(i);
		const withWord = this.text(i + 1) === 'with' || this.text(i + 1) === 'assert';
		const close = this.text(last) === ';' ? last - 1 : last;
		const options = withWord
			? `,{${this.text(i + 1)}:${this.source.slice(this.tokens[i + 2].start, this.tokens[close].end)}}` : '';
		const load = `await __cloche.load(${from}${options})`;

		wanted.forEach(([, local]) => this.names.add(local));
		if (all)
			this.names.add(all);
		const pattern = wanted.map(([name, local]) => `${JSON.stringify(name)}:${local}`).join(',');
		const names = wanted.map(([name]) => JSON.stringify(name)).join(',');
		const parts = [];
		if (all)
			parts.push(`${all}=${load}`);
		if (wanted.length)
			parts.push(`{${pattern}}=__cloche.pick(${all ?? load},${from},[${names}])`);
		return `void (${parts.join(',') || load});`;
	}

	// The lines after an import keep their numbers.
	replaceImport(first, last, code) {
		const start = this.tokens[first].start;
		const end = this.tokens[last].end;

		this.edits.replace(start, end, code + '\n'.repeat(this.source.slice(start, end).split('\n').length - 1));
	}

	// The declarators from token i on: the names of each, its pattern's last token, whether it has a value.
	declarators(i) {
		const declarators = [];

		for (;;) {
			const names = [];
			const after = this.target(i, names);
			const hasValue = this.text(after) === '=';
			if (after === i)
				break;
			declarators.push({ names, last: after - 1, hasValue });
			i = hasValue ? this.skipValue(after + 1) : after;
			if (this.text(i) !== ',')
				break;
			i++;
		}
		return { declarators, end: i };
	}

	// Past a name or pattern at token i; its names are added.
	target(i, names) {
		const token = this.tokens[i];

		if (token?.kind === 'name') {
			names.push(token.text);
			return i + 1;
		}
		return token?.text === '{' || token?.text === '[' ? this.pattern(i, names) : i;
	}

	pattern(open, names) {
		const { depth } = this.tokens[open];
		const isObject = this.text(open) === '{';
		let i = open + 1;

		while (i < this.tokens.length && this.tokens[i].depth > depth) {
			if (this.text(i) === ',' || this.text(i) === '...') {
				i++;
				continue;
			}
			if (isObject)
				i = this.skipKey(i);
			const after = this.target(i, names);
			i = this.text(after) === '=' ? this.skipValue(after + 1) : Math.max(after, i + (after === i));
		}
		return i + 1;
	}

	// Past `key:` or `[key]:` of an object pattern; a shorthand name stays.
	skipKey(i) {
		if (this.text(i) === '[') {
			const { depth } = this.tokens[i];
			do
				i++;
			while (i < this.tokens.length && this.tokens[i].depth > depth);
			return i + 2;
		}
		return this.text(i + 1) === ':' ? i + 2 : i;
	}

	// Past an initializer whose first token is i: to a comma, an end of the statement or of the brackets around it.
	skipValue(i) {
		const depth = this.tokens[i]?.depth;

		for (; i < this.tokens.length && this.tokens[i].depth >= depth; i++) {
			const token = this.tokens[i];
			if (token.depth === depth && (token.begins || token.text === ',' || token.text === ';'))
				break;
		}
		return i;
	}

	// A var in a block or a loop's head is the function's, and must not end with it.
	hoistNestedVars() {
		this.tokens.forEach((token, i) => {
			if (token.text !== 'var' || token.kind !== 'name' || token.inFunction || this.text(i - 1) === '.')
				return;
			const isTop = token.depth === 0 && this.statements.some(({ first }) => first === i);
			const inHead = this.text(i - 1) === '(';
			if (isTop || (!inHead && this.text(i + 1) === '{') || this.text(i + 1) === ':')
				return;
			for (const { names } of this.declarators(i + 1).declarators)
				names.forEach((name) => this.names.add(name));
			this.edits.replace(token.start, token.end, '');
		});
	}

	returnValue({ first, last }) {
		const end = this.text(last) === ';' ? last - 1 : last;

		this.edits.insert(this.tokens[first].start, 'return {value:(');
		this.edits.insert(this.tokens[end].end, ')}');
	}

	wrap(functions) {
		const names = this.names.size ? `var ${[...this.names].join(',')};` : '';
		const isDirective = this.statements[0] && this.tokens[this.statements[0].first].kind === 'string' &&
			this.statements.length > 1;
		const start = isDirective ? this.tokens[this.statements[0].last].end : this.tokens[0].start;
		const copies = functions.map((name) => `globalThis.${name}=${name};`).join('');

		this.edits.list.unshift({ start: this.tokens[0].start, end: this.tokens[0].start, text: `${names}(async()=>{` });
		if (copies)
			this.edits.list.splice(1, 0, { start, end: start, text: (isDirective ? ';' : '') + copies });
		this.edits.insert(this.source.length, '\n})()');
	}
}

// A cell that is one object literal would be a block.
function asObject(source) {
	if (!/^\s*[{/]/.test(source)) // a comment may stand before it
		return undefined;
	const { tokens, balanced } = scan(source);
	const last = tokens[tokens.length - 1];

	return balanced && tokens[0]?.text === '{' && last.text === '}' &&
		tokens.every((t, i) => t.depth > 0 || i === 0 || t === last) ? `(${source}\n)` : undefined;
}

function transform(source) {
	return new Cell(source).transform();
}

module.exports = { transform, asObject };
