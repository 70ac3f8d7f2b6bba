// SPDX-License-Identifier: Apache-2.0
// By require(), with the end of a sandbox by the symbol that `await using` compiles to. Prints "ok".
const assert = require("node:assert/strict");
const { Client, FileMissing, Sandbox } = require("cloche");
const parts = ["ai-sdk", "anthropic", "eve", "mastra", "openai-agents", "vercel"].map((name) => require(`cloche/${name}`));

async function main() {
  assert.ok(parts.every((part) => Object.keys(part).length > 0));
  const client = new Client();
  const sandbox = await Sandbox.create({ client });
  try {
    assert.equal((await sandbox.run(["echo", "out"])).check().stdout, "out\n");
    await assert.rejects(sandbox.files.read("none"), FileMissing);
  } finally {
    await sandbox[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
  }
  assert.equal((await sandbox.refresh()).ended.cause, "deleted");
  client.close();
  console.log("ok");
}

main();
