// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { AuthenticationError, CommandExitError, InvalidArgumentError, NotFoundError, TimeoutError } from "e2b";
import { bytes, heard, test } from "./rig.mjs";

test("a command tells its streams and its code, and how it failed", async (make) => {
  const sandbox = await make({ envs: { OF_BOX: "1" } });
  const run = (line, options) => sandbox.commands.run(line, options);
  assert.equal((await run(`printf '%s' 'ö "$x" \\n
second'`)).stdout, 'ö "$x" \\n\nsecond');
  assert.equal((await run("cat")).exitCode, 0); // it has no input, and knows
  const failed = await run("echo out; echo err >&2; exit 3").catch((error) => error);
  assert.ok(failed instanceof CommandExitError);
  assert.deepEqual([failed.exitCode, failed.error, failed.stdout, failed.stderr], [3, "exit status 3", "out\n", "err\n"]);
  const killed = await run("kill -9 $$").catch((error) => error);
  assert.deepEqual([killed.exitCode, killed.error], [-1, "signal: killed"]);
  await assert.rejects(run("sleep 100", { timeoutMs: 300 }), TimeoutError);
  assert.equal((await run("head -c 3000000 /dev/zero | tr '\\0' x")).stdout.length, 3_000_000);
});

test("directory, user and variables are a command's own", async (make) => {
  const sandbox = await make({ envs: { FOO: "of the box" } });
  const out = async (line, options) => (await sandbox.commands.run(line, options)).stdout.trim();
  assert.deepEqual([await out("pwd"), await out("pwd", { cwd: "/tmp" })], ["/home/user", "/tmp"]);
  assert.deepEqual([await out("whoami"), await out("whoami", { user: "root" })], ["user", "root"]);
  assert.deepEqual([await out("echo $FOO", { envs: { FOO: "of the run" } }), await out("echo $FOO")], ["of the run", "of the box"]);
  await assert.rejects(out("pwd", { cwd: "/nowhere" }), InvalidArgumentError);
  await assert.rejects(out("true", { user: "nobody-here" }), AuthenticationError);
});

test("a command in the background is listed, left, found again, fed and killed", async (make) => {
  const sandbox = await make();
  const output = heard();
  const cat = await sandbox.commands.run("cat", { background: true, stdin: true, onStdout: output.tell });
  await sandbox.commands.sendStdin(cat.pid, "one\n");
  await output.until((all) => all.join("") === "one\n"); // before its end
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === cat.pid));
  await cat.disconnect();
  const again = await sandbox.commands.connect(cat.pid);
  await sandbox.commands.sendStdin(cat.pid, "two\n");
  await sandbox.commands.closeStdin(cat.pid);
  const done = await again.wait();
  assert.deepEqual([again.pid, done.exitCode], [cat.pid, 0]);
  assert.ok(done.stdout.endsWith("two\n"));
  const sleep = await sandbox.commands.run("sleep 1000", { background: true });
  assert.deepEqual([await sandbox.commands.kill(sleep.pid), await sandbox.commands.kill(999999)], [true, false]);
  await assert.rejects(sleep.wait(), CommandExitError);
  assert.deepEqual(await sandbox.commands.list(), []);
  await assert.rejects(sandbox.commands.connect(999999), NotFoundError);
});

test("whoever waits for a command is told when its sandbox is killed", async (make) => {
  const sandbox = await make();
  const sleep = await sandbox.commands.run("sleep 1000", { background: true });
  const ended = assert.rejects(sleep.wait(), TimeoutError);
  await sandbox.kill();
  await ended;
});

test("a terminal is typed into, resized, found again and killed", async (make) => {
  const sandbox = await make();
  const screen = heard();
  const shown = (all) => all.map((piece) => Buffer.from(piece).toString()).join("");
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, envs: { ABC: "123" }, onData: screen.tell });
  const type = (line) => sandbox.pty.sendInput(pty.pid, bytes(`${line}\n`));
  await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 });
  await type("echo $ABC-$(stty size | tr ' ' x)");
  await screen.until((all) => shown(all).includes("123-30x100"));
  await pty.disconnect();
  const again = heard();
  const same = await sandbox.pty.connect(pty.pid, { onData: again.tell });
  await type("echo a$((1 + 1))b");
  await again.until((all) => shown(all).includes("a2b"));
  await type("exit");
  assert.equal((await same.wait()).exitCode, 0);
  const other = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} });
  assert.deepEqual([await sandbox.pty.kill(other.pid), await sandbox.pty.kill(999999)], [true, false]);
});
