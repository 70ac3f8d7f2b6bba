// SPDX-License-Identifier: Apache-2.0
// smoke.mjs in a world that has what the web's standards name and nothing of Node's: as on an edge runtime, to import a module of
// Node's fails there, and so does any import but of the package. Run by node --experimental-vm-modules.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import vm from "node:vm";

const names = ["AbortController", "AbortSignal", "ArrayBuffer", "Blob", "Headers", "ReadableStream", "Request", "Response", "TextDecoder", "TextEncoder",
  "URL", "URLSearchParams", "Uint8Array", "WritableStream", "atob", "btoa", "clearTimeout", "console", "crypto", "fetch", "setTimeout"];
const world = Object.fromEntries(names.map((name) => [name, globalThis[name]]));
const { CLOCHE_URL: url, CLOCHE_API_KEY: apiKey } = process.env;
const context = vm.createContext(world);
const modules = new Map();

function load(url) {
  if (!modules.has(url)) {
    const importModuleDynamically = (name) => Promise.reject(new Error(`there is no ${name} here`));
    modules.set(url, new vm.SourceTextModule(readFileSync(fileURLToPath(url), "utf8"), { context, identifier: url, importModuleDynamically }));
  }
  return modules.get(url);
}

function link(name, from) {
  if (name.startsWith(".")) return load(new URL(name, from.identifier).href);
  if (name === "cloche") return load(new URL("node_modules/cloche/dist/esm/index.js", import.meta.url).href);
  throw new Error(`${from.identifier} imports ${name}`);
}

const program = load(new URL("smoke.mjs", import.meta.url).href);
await program.link(link);
await program.evaluate();
await program.namespace.smoke({ url, apiKey });
console.log("ok");
