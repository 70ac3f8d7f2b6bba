// SPDX-License-Identifier: Apache-2.0
// Makes the table's calls with the TypeScript SDK, and prints what each gave.
import { readFileSync } from "node:fs";
import { Client, ClocheError, Sandbox } from "cloche";

const [table, engine, template, id] = process.argv.slice(2);
const SECONDS = new Set(["timeout", "idle_timeout", "expires_in", "duration"]);
const client = new Client({ timeoutMs: 150_000 }); // a vm that is emulated boots slowly
const place = { engine, template: template || undefined };
const sandbox = await (id ? Sandbox.get(id, { client }) : Sandbox.create({ client, ...place }));
const kept = { client, Sandbox, ...place, sandbox };

const camel = (name) => name.replace(/_(\w)/g, (_, c) => c.toUpperCase());

function plain(value) {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("latin1");
  return Array.isArray(value) ? value.map(plain) : value;
}

function field(value, path) {
  for (const name of path.split(".")) value = value?.[camel(name)] ?? value?.[name];
  return plain(value) ?? null;
}

function shown(value, names) {
  if (names?.length === 0) return null;
  if (names === null) return ["string", "boolean", "number"].includes(typeof value) || value instanceof Uint8Array ? plain(value) : null;
  if (Array.isArray(value)) return value.map((v) => shown(v, names));
  return Object.fromEntries(names.map((name) => [name, field(value, name)]));
}

function resolve(value) {
  if (typeof value !== "object" || value === null || !("$" in value)) return value;
  const [name, ...path] = value.$.split(".");
  return path.length ? field(kept[name], path.join(".")) : kept[name];
}

function optionsOf(row) {
  const made = Object.entries(row.options).map(([name, value]) =>
    SECONDS.has(name) ? [`${camel(name)}Ms`, value * 1000] : [camel(name), resolve(value)],
  );
  return made.length ? [Object.fromEntries(made)] : [];
}

async function settled(value) {
  value = await value;
  if (!value?.[Symbol.asyncIterator]) return value;
  const all = [];
  for await (const item of value) all.push(item);
  return all;
}

async function make(row) {
  const [name, ...path] = row.call.split(".");
  const verb = camel(path.pop());
  const target = path.reduce((at, part) => at[camel(part)], kept[name]);
  try {
    const value = await settled(target[verb](...row.args.map(resolve), ...optionsOf(row)));
    if (row.keep) kept[row.keep] = value;
    return { gives: shown(value ?? null, row.show) };
  } catch (error) {
    if (!(error instanceof ClocheError)) throw error;
    return { fails: error.constructor.name, code: error.code, field: error.field ?? null };
  }
}

const results = [];
for (const row of JSON.parse(readFileSync(table, "utf8"))) results.push(await make(row));
console.log(JSON.stringify(results));
client.close();
