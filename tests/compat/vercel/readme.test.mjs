// SPDX-License-Identifier: Apache-2.0
// What Vercel's own front pages begin with, in our words: no options but those that they show. Sources are in test_vercel_network.py.
import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { Sandbox } from "@vercel/sandbox";
import { enc, out, test } from "./rig.mjs";

const unique = () => `r-${Math.random().toString(36).slice(2)}`;
const SERVER = 'require("http").createServer((_, reply) => reply.end("served")).listen(3000, () => console.log("ready"));';

/** Collects what is written to it. */
function collected() {
  const pieces = [];
  return { stream: new Writable({ write: (piece, _, done) => (pieces.push(piece), done()) }), text: () => Buffer.concat(pieces).toString() };
}

/** Starts the server, looks at it once it answers, and ends it. */
async function serve(sandbox) {
  const command = await sandbox.runCommand({ cmd: "node", args: ["app/server.js"], detached: true });
  for await (const log of command.logs()) if (log.data.includes("ready")) break;
  assert.equal(await (await fetch(sandbox.domain(3000))).text(), "served");
  await command.kill();
  await command.wait();
}

test("a project is installed and its server opened, and found again by name", async (make) => {
  const name = unique();
  const sandbox = make.keep(await Sandbox.create({ name, resources: { vcpus: 4 }, ports: [3000] }));
  assert.equal(sandbox.name, name);
  await sandbox.writeFiles([{ path: "app/server.js", content: enc(SERVER) }]);
  const { stream, text } = collected();
  const install = await sandbox.runCommand({ cmd: "node", args: ["--version"], cwd: "app", stdout: stream, stderr: stream });
  assert.deepEqual([install.exitCode, text().startsWith("v")], [0, true]);
  await serve(sandbox);
  await sandbox.stop();
  const resumed = await Sandbox.get({ name });
  await serve(resumed);
});

test("a first command says hello", async (make) => {
  const sandbox = make.keep(await Sandbox.create());
  assert.equal(await (await sandbox.runCommand("echo", ["hello"])).stdout(), "hello\n");
  await sandbox.stop();
});

test("files are written, and the sandbox goes with its scope", async (make) => {
  const sandbox = make.keep(await Sandbox.create());
  await sandbox.writeFiles([{ path: "app/index.ts", content: 'console.log("hi")' }]);
  assert.equal(await sandbox.fs.readFile("app/index.ts", "utf8"), 'console.log("hi")');
  await sandbox[Symbol.asyncDispose]();
  assert.equal((await Sandbox.get({ name: sandbox.name })).status, "stopped");
});

test("credentials that are given in the call do as well", async (make) => {
  const { VERCEL_TEAM_ID: teamId = "team", VERCEL_PROJECT_ID: projectId = "project" } = process.env;
  const token = process.env.CLOCHE_API_KEY;
  const sandbox = make.keep(await Sandbox.create({ teamId, projectId, token, resources: { vcpus: 4 }, timeout: 300_000, ports: [3000] }));
  assert.equal(await out(sandbox, "pwd"), "/vercel/sandbox\n");
});

test("the default user becomes root where it asks to", async (make) => {
  const sandbox = make.keep(await Sandbox.create());
  assert.equal(await (await sandbox.runCommand({ cmd: "whoami", sudo: true })).stdout(), "root\n");
});
