// SPDX-License-Identifier: Apache-2.0
// How cells reach modules: require and import as if the cell were a file in the current directory.
'use strict';

const Module = require('node:module');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

let here; // {cwd, require, load} of the directory last used

function fromHere() {
	const cwd = process.cwd();

	if (here?.cwd !== cwd) {
		const file = path.join(cwd, 'cell.js');
		const module = new Module(file);
		module.filename = file;
		module.paths = Module._nodeModulePaths(cwd);
		// Only code that belongs to a file can import relative to it, so a module is made that lends its own import.
		module._compile('module.exports = (what, options) => import(what, options);', file);
		here = { cwd, require: Module.createRequire(file), load: module.exports };
	}
	return here;
}

// The exports that an import statement names; what a CommonJS module has only at run time counts too.
function pick(namespace, from, names) {
	const found = {};

	for (const name of names) {
		const origin = name in namespace ? namespace : namespace.default;
		if (origin === undefined || origin === null || !(name in Object(origin)))
			throw new SyntaxError(`The requested module '${from}' does not provide an export named '${name}'`);
		found[name] = origin[name];
	}
	return found;
}

const helpers = {
	load: (what, options) => fromHere().load(what, options),
	pick,
	meta: {
		get url() { return pathToFileURL(path.join(process.cwd(), 'cell.js')).href; },
		get filename() { return path.join(process.cwd(), 'cell.js'); },
		get dirname() { return process.cwd(); },
		resolve: (what) => {
			const found = fromHere().require.resolve(what);
			return path.isAbsolute(found) ? pathToFileURL(found).href : found;
		},
	},
};

// Gives cells what a file has: require, module, exports and the names of file and directory.
function install() {
	const module = new Module('cell');
	const require = (what) => fromHere().require(what);

	require.resolve = Object.assign((...args) => fromHere().require.resolve(...args),
		{ paths: (what) => fromHere().require.resolve.paths(what) });
	require.cache = Module._cache;
	require.extensions = Module._extensions;
	require.main = module; // so that `require.main === module` holds
	const values = { require, module, exports: module.exports };
	for (const [name, value] of Object.entries(values))
		Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
	for (const [name, get] of [['__filename', () => helpers.meta.filename], ['__dirname', () => helpers.meta.dirname]])
		Object.defineProperty(globalThis, name, { get, configurable: true });
}

module.exports = { install, helpers };
