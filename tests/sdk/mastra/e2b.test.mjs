// SPDX-License-Identifier: Apache-2.0
// Mastra's own provider of E2B's sandboxes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Workspace } from "@mastra/core/workspace";
import { E2BSandbox } from "@mastra/e2b";

test("a workspace of Mastra's runs commands in a sandbox of E2B's wire", { timeout: 60_000 }, async () => {
  const sandbox = new E2BSandbox({ apiKey: process.env.E2B_API_KEY, template: "base", timeout: 60_000, env: { A: "told" } });
  const workspace = new Workspace({ sandbox });
  await workspace.init();
  try {
    const done = await sandbox.executeCommand("echo $A; echo err >&2", []);
    assert.deepEqual([done.exitCode, done.stdout, done.stderr, done.success], [0, "told\n", "err\n", true]);
    const failed = await sandbox.executeCommand("exit 3", []); // with output, Mastra 0.8.0 tells that twice
    assert.deepEqual([failed.exitCode, failed.success], [3, false]);
    const process = await sandbox.processes.spawn("read x; echo got $x");
    await process.sendStdin("it\n");
    assert.equal((await process.wait()).stdout, "got it\n");
  } finally {
    await workspace.destroy();
  }
});
