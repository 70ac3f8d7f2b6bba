// SPDX-License-Identifier: Apache-2.0
// Cuts JavaScript into tokens, and the top level of it into statements.
//
// It is no parser: it knows just enough grammar to answer three questions that a tokenizer alone cannot. Is this slash a
// division or a regular expression? Is this brace a block, a function's body or an object? Does a new line begin a
// statement? For that it keeps a stack of frames, one per open bracket, and for each token whether an operand ends with
// it. It never fails: what is no JavaScript gives some tokens, and the engine's own compiler says what is wrong.
'use strict';

const NAME = /(?:[\p{ID_Continue}$\u200c\u200d]|\\u[\da-fA-F]{4}|\\u\{[\da-fA-F]+\})+/uy;
const NUMBER = /0[xX][\da-fA-F_]+n?|0[bBoO][\d_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?n?/y;
const PUNCTUATOR =
	/>>>=|\.\.\.|===|!==|>>>|>>=|<<=|\*\*=|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--|[-+*/%&|^]=|<<|>>|\*\*|[^]/y;
const BLANK = /[\s\ufeff]/;
const LINE_END = /[\n\r\u2028\u2029]/;

const BEFORE_OPERAND = new Set(
	'return typeof case in of instanceof new delete void throw do else await yield extends default let const var'.split(' '));
const BEFORE_PAREN = new Set('if while for with switch catch'.split(' ')); // their parentheses are no operand
const BEFORE_STATEMENT = new Set('else do try finally'.split(' '));
const CONTINUES = new Set('else catch finally'.split(' ')); // the statement before them
const CONTINUES_LINE = new Set('in of instanceof'.split(' '));
const BEGINS_LINE = new Set(['{', '++', '--', '!', '~', '@', '#']); // after an operand and a new line
const HOLDS_STATEMENTS = new Set(['block', 'function']);

class Scanner {
	constructor(source) {
		this.source = source;
		this.at = 0;
		this.tokens = [];
		this.statements = []; // of the top level: {first, last}, indexes of tokens
		this.stack = [];
		this.frame = this.newFrame('block', {});
		this.prev = undefined;
	}

	newFrame(kind, more) {
		const inFunction = kind === 'function' || Boolean(this.frame?.inFunction);
		return { kind, inFunction, start: HOLDS_STATEMENTS.has(kind), sub: false, ternaries: 0, dos: 0, ...more };
	}

	scan() {
		const { source } = this;
		let newline = false;

		if (source.startsWith('#!'))
			this.skipLine();
		while (this.at < source.length) {
			const c = source[this.at];

			if (c === '/' && source[this.at + 1] === '/') {
				this.skipLine();
			} else if (c === '/' && source[this.at + 1] === '*') {
				const end = source.indexOf('*/', this.at + 2);
				const stop = end < 0 ? source.length : end + 2;
				newline ||= LINE_END.test(source.slice(this.at, stop));
				this.at = stop;
			} else if (BLANK.test(c)) {
				newline ||= LINE_END.test(c);
				this.at++;
			} else {
				this.token(c, newline);
				newline = false;
			}
		}
		return { tokens: this.tokens, statements: this.statements, balanced: this.stack.length === 0 };
	}

	skipLine() {
		while (this.at < this.source.length && !LINE_END.test(this.source[this.at]))
			this.at++;
	}

	// Where a match of the sticky expression ends, or the next character where it has none.
	matchEnd(expression) {
		expression.lastIndex = this.at;
		return expression.test(this.source) ? expression.lastIndex : this.at + 1;
	}

	token(c, newline) {
		const start = this.at;
		const token = { kind: 'punct', text: '', start, end: start, newline, operand: false, begins: false };

		if (c === '"' || c === "'") {
			token.kind = 'string';
			token.end = this.quotedEnd(c);
		} else if (c === '`' || (c === '}' && this.frame.kind === 'template')) {
			this.template(token, c);
			return;
		} else if (/\d/.test(c) || (c === '.' && /\d/.test(this.source[start + 1] ?? ''))) {
			token.kind = 'number';
			token.end = this.matchEnd(NUMBER);
		} else if (c === '/' && !this.prev?.operand) {
			token.kind = 'regex';
			token.end = this.regexEnd();
		} else {
			NAME.lastIndex = start;
			token.kind = NAME.test(this.source) ? 'name' : 'punct';
			token.end = token.kind === 'name' ? NAME.lastIndex : this.matchEnd(PUNCTUATOR);
		}
		token.text = this.source.slice(start, token.end);
		this.at = token.end;
		if (token.kind === 'name')
			this.name(token);
		else if (token.kind === 'punct')
			this.punctuator(token);
		else
			this.operand(token);
	}

	quotedEnd(quote) {
		let i = this.at + 1;

		while (i < this.source.length && this.source[i] !== quote && this.source[i] !== '\n')
			i += this.source[i] === '\\' ? 2 : 1;
		return Math.min(i + 1, this.source.length);
	}

	regexEnd() {
		let i = this.at + 1;
		let inClass = false;

		for (; i < this.source.length && this.source[i] !== '\n'; i++) {
			const c = this.source[i];
			if (c === '\\')
				i++;
			else if (c === '[')
				inClass = true;
			else if (c === ']')
				inClass = false;
			else if (c === '/' && !inClass)
				break;
		}
		this.at = Math.min(i + 1, this.source.length);
		NAME.lastIndex = this.at;
		return NAME.test(this.source) ? NAME.lastIndex : this.at; // the flags
	}

	// A piece of a template: from a backtick or the brace that ends a substitution to the next ${ or backtick.
	template(token, c) {
		let i = this.at + 1;

		if (c === '}')
			this.pop();
		while (i < this.source.length && this.source[i] !== '`' && !this.source.startsWith('${', i))
			i += this.source[i] === '\\' ? 2 : 1;
		token.kind = 'template';
		token.end = Math.min(this.source[i] === '$' ? i + 2 : i + 1, this.source.length);
		token.text = this.source.slice(token.start, token.end);
		this.at = token.end;
		this.operand(token);
		if (this.source[i] === '$') {
			token.operand = false;
			this.push('template', {});
		}
	}

	push(kind, more) {
		this.stack.push(this.frame);
		this.frame = this.newFrame(kind, more);
	}

	pop() {
		const closed = this.frame;

		if (this.stack.length)
			this.frame = this.stack.pop();
		return closed;
	}

	// Files a token under the frame it stands in, and says whether it begins a statement there.
	file(token) {
		const { frame, prev } = this;

		token.depth = this.stack.length;
		token.inFunction = frame.inFunction;
		if (HOLDS_STATEMENTS.has(frame.kind)) {
			const ended = frame.importing && prev?.kind === 'string'; // no expression: import 'm' ends where it can
			const broken = token.newline && prev?.operand && !frame.classPending && (ended || this.cannotContinue(token));

			token.begins = frame.start || Boolean(broken);
			if (broken)
				frame.sub = false;
			if (token.begins)
				this.beginStatement(token);
		}
		this.tokens.push(token);
		if (this.stack.length === 0 && this.statements.length)
			this.statements[this.statements.length - 1].last = this.tokens.length - 1;
		this.prev = token;
	}

	cannotContinue(token) {
		if (token.kind === 'punct')
			return BEGINS_LINE.has(token.text);
		return token.kind !== 'template' && !CONTINUES_LINE.has(token.text);
	}

	beginStatement(token) {
		const { frame } = this;
		const tail = token.text === 'while' && frame.dos > 0 && !frame.sub; // of do … while (…)
		const goesOn = frame.sub || tail || (token.kind === 'name' && CONTINUES.has(token.text));

		frame.start = frame.sub = false;
		frame.ternaries = 0;
		frame.importing = token.text === 'import' && !/^\s*[.(]/.test(this.source.slice(token.end, token.end + 64));
		frame.doTail = tail;
		if (tail)
			frame.dos--;
		if (this.stack.length === 0 && !goesOn && token.text !== ';')
			this.statements.push({ first: this.tokens.length, last: this.tokens.length });
	}

	endStatement() {
		this.frame.start = true;
		this.frame.sub = false;
	}

	subStatement() {
		this.frame.start = this.frame.sub = true;
	}

	operand(token) {
		this.file(token);
		token.operand = true;
	}

	name(token) {
		const isProperty = this.prev?.text === '.' || this.prev?.text === '?.';
		const { prev } = this;

		this.file(token);
		token.operand = isProperty || !BEFORE_OPERAND.has(token.text);
		if (isProperty || this.isKey(token))
			return;
		if (token.text === 'function') {
			const async = prev?.text === 'async' && !token.newline;
			this.frame.functionPending = { declares: token.begins || (async && prev.begins) };
		} else if (token.text === 'class') {
			this.frame.classPending = { declares: token.begins };
		} else if (HOLDS_STATEMENTS.has(this.frame.kind) && BEFORE_STATEMENT.has(token.text)) {
			if (token.text === 'do')
				this.frame.dos++;
			this.subStatement();
		}
	}

	// A word in an object or class that is a key, not a keyword: {class: 1}, {if() {}}.
	isKey(token) {
		if (this.frame.kind !== 'object' && this.frame.kind !== 'class')
			return false;
		return /^\s*[:(,}=;]/.test(this.source.slice(token.end, token.end + 64)) && token.text !== 'function';
	}

	punctuator(token) {
		switch (token.text) {
		case '(':
			return this.openParen(token);
		case '[':
			this.file(token);
			return this.push('bracket', {});
		case '{':
			return this.openBrace(token);
		case ')':
		case ']':
		case '}':
			return this.close(token);
		case '++':
		case '--': {
			const postfix = this.prev?.operand && !token.newline;
			this.file(token);
			token.operand = Boolean(postfix);
			return undefined;
		}
		default:
			return this.operator(token);
		}
	}

	operator(token) {
		const { frame } = this;

		this.file(token);
		if (token.text === '?')
			frame.ternaries++;
		else if (token.text === ';' && HOLDS_STATEMENTS.has(frame.kind))
			this.endStatement();
		else if (token.text === ':' && frame.ternaries > 0)
			frame.ternaries--;
		else if (token.text === ':' && HOLDS_STATEMENTS.has(frame.kind))
			this.subStatement(); // after a label or a case
	}

	openParen(token) {
		const { frame, prev } = this;
		const before = prev?.text === 'await' ? this.tokens[this.tokens.length - 2] : prev;
		const isMember = ['.', '?.'].includes(this.tokens[this.tokens.length - 2]?.text);
		const control = HOLDS_STATEMENTS.has(frame.kind) && before?.kind === 'name' && !isMember &&
			BEFORE_PAREN.has(before.text);
		const takes = frame.functionPending;

		frame.functionPending = undefined;
		this.file(token);
		this.push('paren', { control, takes, ends: control && frame.doTail });
		if (control)
			frame.doTail = false;
	}

	openBrace(token) {
		const { frame, prev } = this;
		const inStatements = HOLDS_STATEMENTS.has(frame.kind);

		this.file(token);
		if (frame.classPending) {
			this.push('class', { ends: frame.classPending.declares });
			frame.classPending = undefined;
		} else if (prev?.text === '=>') {
			this.push('function', {});
		} else if (prev?.takes) {
			this.push('function', { ends: prev.takes.declares });
		} else if (inStatements && token.begins) {
			this.push('block', { ends: true });
		} else if (prev?.text === ')' && !inStatements) {
			this.push('function', {}); // a method
		} else if (prev?.text === 'catch') {
			this.push('block', { ends: true });
		} else if (frame.kind === 'class' && prev?.text === 'static') {
			this.push('function', {});
		} else {
			this.push('object', {});
		}
	}

	close(token) {
		const closed = this.pop();
		const { frame } = this;

		// The frame's statement is still open: a closing bracket never begins one.
		frame.start = false;
		this.file(token);
		token.operand = true;
		token.takes = closed.takes;
		if (closed.ends) {
			token.operand = false;
			this.endStatement();
		} else if (closed.control) {
			token.operand = false;
			this.subStatement();
		} else if (closed.takes) {
			token.operand = false;
		}
	}
}

module.exports = { scan: (source) => new Scanner(source).scan() };
