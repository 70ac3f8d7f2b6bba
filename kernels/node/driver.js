// SPDX-License-Identifier: Apache-2.0
// The JavaScript and TypeScript driver of PROTOCOL.md, for Node 18 and later: node driver.js [--typescript]
//
//	wire.js     frames on fd 3               cell.js     a cell made a script, by scan.js and edits.js
//	output.js   stdout and stderr            modules.js  require and import
//	show.js     values as MIME bundles       fault.js    errors with the user's lines
//	random.js   renew
//
// Cells run in the main context, one at a time. A call ends when its code has run, or when the promise of a cell with await
// is settled; then one turn of the event loop passes, so that an error nobody caught in it is the call's own.
//
// SIGINT ends code that runs by vm's breakOnSigint, and code that waits by a listener. What cannot be interrupted is a loop
// that begins after an await or in a callback: there is no frame of ours below it that V8 could unwind to. Around the start
// and the end of what runs, node:vm exchanges its signal handler for ours: a SIGINT can get lost there, so the host repeats
// it, and for some microseconds it ends the process.
'use strict';

require('./output.js').install();

const nodeModule = require('node:module');
const vm = require('node:vm');
const { asObject, transform } = require('./cell.js');
const fault = require('./fault.js');
const modules = require('./modules.js');
const random = require('./random.js');
const show = require('./show.js');
const wire = require('./wire.js');

const typescript = process.argv.includes('--typescript');
const { stdout, stderr } = process;
const exitProcess = process.exit;
const cpuUsage = process.cpuUsage.bind(process);
const { getOwnPropertyDescriptor, defineProperty } = Object;
const later = setImmediate;

const INTERRUPTED = {
	name: 'InterruptError',
	message: 'the call was interrupted',
	traceback: ['InterruptError: the call was interrupted'],
};

let call; // {id} of the call that runs
let count = 0;
let unanswered; // the id of a sync that came while a call ran
let step; // what guard runs
let callEnv; // the variables of the next call

const guard = new vm.Script('__cloche.step()', { filename: `${__dirname}/guard` });

// Runs a function so that SIGINT ends it, with an error of that code.
function guarded(fn) {
	step = fn;
	return guard.runInThisContext({ breakOnSigint: true, displayErrors: false });
}

function finish(status, more) {
	const { id, cpuBefore, lent } = call;
	const { user, system } = cpuUsage(cpuBefore);

	call = undefined;
	takeBackEnv(lent);
	wire.send('done', id, { status, count, cpu_us: user + system, ...more });
	if (unanswered !== undefined)
		answer(unanswered);
	unanswered = undefined;
}

function answer(id) {
	wire.send('done', id, { status: 'ok', count, env: true });
}

// Sets the call's variables; gives each with its value and the one before.
function lendEnv() {
	const lent = (callEnv ?? []).map(([name, value]) => [name, value, process.env[name]]);

	for (const [name, value] of lent)
		process.env[name] = value;
	callEnv = undefined;
	return lent;
}

function takeBackEnv(lent) {
	for (const [name, value, before] of lent) {
		if (process.env[name] !== value)
			continue; // the code has set it
		if (before === undefined)
			delete process.env[name];
		else
			process.env[name] = before;
	}
}

function readEnv(payload) {
	return payload.toString().split('\n').filter((line) => line.includes('='))
		.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]);
}

function fail(thrown) {
	let described = INTERRUPTED;

	try {
		if (thrown?.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED')
			described = guarded(() => fault.describe(thrown)); // it reads what the code made
	} catch (worse) {
		described = { name: 'Error', message: 'an error that cannot be shown', traceback: [String(worse?.message)] };
	}
	wire.send('error', call.id, described);
	finish('error');
}

// Ends the call with a value, after the errors that the event loop has in store for it.
function succeed(mine, payload) {
	later(() => {
		if (call !== mine)
			return;
		if (payload)
			wire.send('result', mine.id, payload);
		finish('ok');
	});
}

function stripTypes(source) {
	const { emitWarning } = process;

	if (!nodeModule.stripTypeScriptTypes)
		throw new SyntaxError(`TypeScript needs Node 22.13 or newer here: this is ${process.version}`);
	process.emitWarning = () => {}; // that it is experimental
	try {
		return nodeModule.stripTypeScriptTypes(source);
	} catch (error) {
		if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')
			throw error;
		return nodeModule.stripTypeScriptTypes(source, { mode: 'transform' }); // enum, namespace
	} finally {
		process.emitWarning = emitWarning;
	}
}

// shown is the text that errors quote: the user's own, where stripping types left its lines in place.
function compile(source, shown, file) {
	const object = asObject(source);

	if (object) {
		try {
			const script = new vm.Script(object, { filename: file });
			fault.remember(file, shown, (line, column) => (line === 1 ? Math.max(1, column - 1) : column));
			return { script, names: [], isAsync: false, hasValue: true };
		} catch {
			// It is a block.
		}
	}
	const cell = transform(source);
	fault.remember(file, shown, cell.column);
	return { script: new vm.Script(cell.code, { filename: file }), ...cell };
}

// A global that cannot be assigned to (crypto, navigator) can be declared by a cell all the same.
function makeAssignable(name) {
	const property = getOwnPropertyDescriptor(globalThis, name);

	if (property?.configurable && !property.writable)
		defineProperty(globalThis, name, { value: undefined, writable: true, enumerable: true, configurable: true });
}

function run(id, payload) {
	const mine = { id, cpuBefore: cpuUsage(), lent: lendEnv() };
	const file = `cell-${++count}.${typescript ? 'ts' : 'js'}`;

	call = mine;
	try {
		const written = payload.toString();
		const source = typescript ? stripTypes(written) : written;
		const cell = compile(source, source.length === written.length ? written : source, file);
		cell.names.forEach(makeAssignable);
		const outcome = guarded(() => {
			const value = cell.script.runInThisContext({ displayErrors: false });
			return cell.isAsync ? { promise: value } : { payload: cell.hasValue ? resultOf(value) : undefined };
		});
		if (outcome.promise)
			settle(mine, outcome.promise);
		else
			succeed(mine, outcome.payload);
	} catch (error) {
		if (call === mine)
			fail(error);
	}
}

function resultOf(value) {
	return value === undefined ? undefined : show.bundle(value);
}

// To show an object may run code of its own.
function showSafely(value) {
	return typeof value === 'object' || typeof value === 'function' ? guarded(() => resultOf(value)) : resultOf(value);
}

function settle(mine, promise) {
	promise.then(
		(returned) => {
			if (call !== mine)
				return;
			try {
				succeed(mine, showSafely(returned?.value));
			} catch (error) {
				fail(error);
			}
		},
		(error) => {
			if (call === mine)
				fail(error);
		});
}

// An error that nobody caught ends the call it falls into; between calls it is told on stderr, and the process goes on.
function onUncaught(error) {
	if (call)
		fail(error);
	else
		stderr.write(`Uncaught after its call:\n${fault.describe(error).traceback.join('\n')}\n`);
}

// The code's own exit listeners run first, and what they print comes before `done`.
function exit(code) {
	process.once('exit', (actual) => {
		if (call)
			finish('exit', { exit_code: Number(process.exitCode ?? actual) });
	});
	exitProcess(code);
}

// Without a call, in a timer that outlived it, there is nothing to show it in but the output.
function display(...values) {
	for (const value of values) {
		const payload = show.displayed(value);
		if (call)
			wire.send('display', call.id, payload);
		else
			stdout.write(`${payload.data['text/plain']}\n`);
	}
}

modules.install();
defineProperty(globalThis, '__cloche', { value: Object.freeze({ ...modules.helpers, step: () => step() }) });
defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true });
process.exit = exit;
process.on('uncaughtException', onUncaught);
process.on('unhandledRejection', onUncaught);
process.on('SIGINT', () => {
	if (call)
		fail({ code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' });
});

wire.send('ready', 0, { language: typescript ? 'typescript' : 'javascript', version: process.version.slice(1), pid: process.pid, env: true });
wire.listen((verb, id, payload) => {
	if (verb === 'run') {
		run(id, payload);
	} else if (verb === 'env') {
		callEnv = readEnv(payload);
	} else if (verb === 'sync' && call) {
		unanswered = id;
	} else {
		if (verb === 'renew')
			random.renew(payload);
		answer(id);
	}
});
