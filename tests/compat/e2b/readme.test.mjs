// SPDX-License-Identifier: Apache-2.0
// What E2B's own front pages begin with, in our words: no options but those that they show. Their own programs are run by test_readmes.py.
import assert from "node:assert/strict";
import * as interpreter from "@e2b/code-interpreter";
import { test } from "./rig.mjs";

test("a client that is given its settings needs no variables", async (make) => {
  const { E2B_API_KEY: apiKey, E2B_API_URL: apiUrl, E2B_SANDBOX_URL: sandboxUrl } = process.env;
  const client = new interpreter.E2B({ apiKey, apiUrl, sandboxUrl });
  const sandbox = make.keep(await client.Sandbox.create());
  assert.equal((await sandbox.runCode("x = 1; x += 1; x")).text, "2");
  assert.equal(await client.Template.exists("no-such-template"), false);
  assert.ok((await client.Sandbox.list().nextItems()).some((s) => s.sandboxId === sandbox.sandboxId));
});

test("data is uploaded, worked on and brought home", async (make) => {
  const sandbox = make.keep(await interpreter.Sandbox.create());
  await sandbox.files.write("/home/user/data.csv", "n\n1\n2\n3\n");
  const { error } = await sandbox.runCode(`
import csv
with open("data.csv") as source, open("sum.txt", "w") as result:
    result.write(str(sum(int(row["n"]) for row in csv.DictReader(source))))`);
  assert.equal(error, undefined);
  assert.equal(await sandbox.files.read("/home/user/sum.txt"), "6");
});

test("output streams while code runs, with a packaged answer at its end", async (make) => {
  const sandbox = make.keep(await interpreter.Sandbox.create());
  const [lines, results] = [[], []];
  const execution = await sandbox.runCode("for i in range(3): print(i, flush=True)\n'done'", {
    onStdout: (message) => lines.push(message.line),
    onResult: (result) => results.push(result.text),
  });
  assert.deepEqual([lines.join(""), results, execution.text], ["0\n1\n2\n", ["done"], "done"]);
});
