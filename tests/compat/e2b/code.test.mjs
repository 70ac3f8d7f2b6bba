// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { NotFoundError, TimeoutError } from "e2b";
import { test } from "./rig.mjs";

test("code keeps its state, and tells what it prints, shows and fails with", async (make) => {
  const sandbox = await make();
  const first = await sandbox.runCode("x = 1; x");
  assert.deepEqual([first.text, first.results.length, first.results[0].isMainResult, first.executionCount], ["1", 1, true, 1]);
  const printed = [];
  const second = await sandbox.runCode("import sys; print('hé', x); print('e', file=sys.stderr)", { onStdout: (m) => printed.push(m.line) });
  assert.deepEqual([second.logs.stdout, second.logs.stderr, printed], [["hé 1\n"], ["e\n"], ["hé 1\n"]]);
  const { error } = await sandbox.runCode("nothing_of_that_name");
  assert.equal(error.name, "NameError");
  assert.match(error.traceback, /nothing_of_that_name/);
  assert.deepEqual((await sandbox.runCode("!pwd")).logs.stdout.join("").trim(), "/home/user");
  await assert.rejects(sandbox.runCode("while True: pass", { timeoutMs: 500 }), TimeoutError);
  assert.equal((await sandbox.runCode("x + 1")).text, "2"); // interrupted, and as it was
});

test("contexts have a state and a directory of their own, until they are removed", async (make) => {
  const sandbox = await make();
  const context = await sandbox.createCodeContext({ cwd: "/tmp" });
  await sandbox.runCode("x = 'of the default'");
  assert.equal((await sandbox.runCode("import os; x = os.getcwd(); x", { context })).text, "/tmp");
  assert.equal((await sandbox.runCode("x")).text, "of the default");
  assert.equal((await sandbox.listCodeContexts()).at(-1).id, context.id);
  await sandbox.restartCodeContext(context);
  assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
  await sandbox.removeCodeContext(context);
  // Their client leaves the timer of a refused run behind: without one, this program need not wait for it.
  await assert.rejects(sandbox.runCode("x", { context, requestTimeoutMs: 0 }), NotFoundError);
});

test("variables are of one run, and languages are told apart", async (make) => {
  const sandbox = await make({ envs: { FOO: "of the box" } });
  const show = "import os; os.environ['FOO']";
  assert.deepEqual([(await sandbox.runCode(show, { envs: { FOO: "of the run" } })).text, (await sandbox.runCode(show)).text], ["of the run", "of the box"]);
  assert.deepEqual((await sandbox.runCode("console.log(await Promise.resolve(6 * 7))", { language: "js" })).logs.stdout, ["42\n"]);
  assert.deepEqual((await sandbox.runCode("echo $((6 * 7))", { language: "bash" })).logs.stdout, ["42\n"]);
});

test("a plot comes as a picture and as a chart, a table as its columns", async (make) => {
  const sandbox = await make();
  const drawn = await sandbox.runCode(`
import matplotlib.pyplot as plt
plt.bar(["a", "b"], [3, 5])
plt.title("sold")
plt.show()`);
  const [plot] = drawn.results;
  assert.ok(Buffer.from(plot.png, "base64").subarray(1, 4).equals(Buffer.from("PNG")), JSON.stringify(drawn.error));
  assert.deepEqual([plot.chart.type, plot.chart.title], ["bar", "sold"]);
  assert.deepEqual(plot.chart.elements.map((e) => [e.label, Number(e.value)]), [["a", 3], ["b", 5]]);
  const table = (await sandbox.runCode("import pandas as pd\npd.DataFrame({'n': [1, 2]})")).results[0];
  assert.deepEqual(table.data, { n: [1, 2] });
  assert.match(table.html, /<table/);
});
