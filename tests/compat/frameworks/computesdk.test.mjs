// SPDX-License-Identifier: Apache-2.0
// ComputeSDK with its provider of E2B's sandboxes, as its front page shows it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { e2b } from "@computesdk/e2b";

test("a sandbox of ComputeSDK runs commands and keeps files", { timeout: 60_000 }, async () => {
  const compute = e2b({ apiKey: process.env.E2B_API_KEY });
  const sandbox = await compute.sandbox.create();
  try {
    const done = await sandbox.runCommand("echo out; echo err >&2; exit 3");
    assert.deepEqual([done.exitCode, done.stdout, done.stderr], [3, "out\n", "err\n"]);
    await sandbox.filesystem.mkdir("/home/user/d");
    await sandbox.filesystem.writeFile("/home/user/d/a.txt", "ö");
    assert.equal(await sandbox.filesystem.readFile("/home/user/d/a.txt"), "ö");
    assert.deepEqual((await sandbox.filesystem.readdir("/home/user/d")).map((entry) => entry.name), ["a.txt"]);
    await sandbox.filesystem.remove("/home/user/d/a.txt");
    assert.equal(await sandbox.filesystem.exists("/home/user/d/a.txt"), false);
    const found = await compute.sandbox.getById(sandbox.sandboxId);
    assert.equal((await found.runCommand("echo again")).stdout, "again\n");
    assert.ok((await compute.sandbox.list()).some((one) => one.sandboxId === sandbox.sandboxId));
  } finally {
    await sandbox.destroy();
  }
});
