// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { enc, failure, out, sh, test } from "./rig.mjs";

test("a command tells its code and both streams apart, in one request", async (make) => {
  const sandbox = await make();
  assert.equal(sandbox.status, "running");
  assert.ok(sandbox.name);
  const done = await sh(sandbox, "echo out; echo err >&2; exit 3");
  assert.equal(done.exitCode, 3);
  assert.equal(await done.stdout(), "out\n");
  assert.equal(await done.stderr(), "err\n");
  assert.equal(typeof done.cmdId, "string");
  assert.ok(done.startedAt > 1e12);
  assert.equal((await sandbox.runCommand("false")).exitCode, 1);
  assert.equal((await sh(sandbox, "nosuch")).exitCode, 127);
  const missing = await failure(sandbox.runCommand("nosuch-binary"));
  assert.deepEqual([missing.status, missing.code], [400, "executable_not_found"]);
  const place = await failure(sandbox.runCommand({ cmd: "true", cwd: "/no/such" }));
  assert.deepEqual([place.status, place.code], [400, "bad_request"]);
});

test("words arrive as they were sent, and text comes back whole", async (make) => {
  const sandbox = await make();
  for (const word of ['hello "world" é € 𝄞', "a\nb'c\\d", "x".repeat(100_000), ""])
    assert.equal(await out(sandbox, "printf", ["%s", word]), word);
  const text = await out(sandbox, "sh", ["-c", "yes 'é€𝄞' | head -c 1000000"]);
  assert.ok(!text.includes("\ufffd".repeat(4)));
  assert.equal(text.replace(/\ufffd+$/, "").replaceAll("é€𝄞\n", "").length < 4, true);
  assert.equal(await out(sandbox, "printf", ["\\377"]), "\ufffd");
});

test("variables of the sandbox hold for all, those of a command come before them and go with it", async (make) => {
  const sandbox = await make({ env: { A: "1" } });
  assert.equal(await out(sandbox, "printenv", ["A"]), "1\n");
  assert.equal(await out(sandbox, { cmd: "printenv", args: ["A"], env: { A: "2" } }), "2\n");
  await sh(sandbox, "export B=1");
  assert.equal((await sandbox.runCommand("printenv", ["B"])).exitCode, 1);
});

test("a command runs in the session's directory, or in one that is named", async (make) => {
  const sandbox = await make();
  await sandbox.mkDir("sub");
  assert.equal(await out(sandbox, "pwd"), "/vercel/sandbox\n");
  assert.equal(await out(sandbox, { cmd: "pwd", cwd: "/tmp" }), "/tmp\n");
  assert.equal(await out(sandbox, { cmd: "pwd", cwd: "sub" }), "/vercel/sandbox/sub\n");
});

test("sudo is root with the caller's variables", async (make) => {
  const sandbox = await make();
  assert.equal(await out(sandbox, { cmd: "id", args: ["-u"], sudo: true }), "0\n");
  const env = await out(sandbox, { cmd: "env", sudo: true, env: { FOO: "bar" } });
  for (const line of ["FOO=bar", "USER=root", "HOME=/root", "SUDO_USER=ubuntu"]) assert.ok(env.split("\n").includes(line), env);
  const path = /^PATH=(.*)$/m.exec(env)[1].split(":");
  assert.ok(path.includes("/vercel/bin") && path.includes("/usr/local/bin"));
});

test("the user is called as with Vercel: in its images, and in the older runtimes", async (make) => {
  const told = "id -un; id -gn; echo $USER $HOME; touch ~/mine && stat -c %U ~/mine; sudo -n sh -c 'id -un; echo $SUDO_USER'; id -u; id user | grep -c uid=1000";
  const words = ["ubuntu", "ubuntu", "ubuntu /vercel", "ubuntu", "root", "ubuntu", "1000", "1", ""];
  const sandbox = await make({ persistent: true });
  assert.equal(await (await sh(sandbox, told)).stdout(), words.join("\n"));
  await sandbox.stop();
  assert.equal(await (await sh(sandbox, told)).stdout(), words.join("\n"), "it stays so in the next session");
  await sandbox.writeFiles([{ path: "by-file", content: enc("x") }]);
  assert.equal(await out(sandbox, "stat", ["-c", "%U:%G", "by-file"]), "ubuntu:ubuntu\n");
  const older = await make({ runtime: "node24" });
  const there = words.map((word) => word.replace("/vercel", "/home/vercel-sandbox").replace("ubuntu", "vercel-sandbox"));
  assert.equal(await (await sh(older, told)).stdout(), there.join("\n"));
  assert.match(await out(older, { cmd: "env", sudo: true }), /^SUDO_USER=vercel-sandbox$/m);
});

test("output comes as it is made", async (make) => {
  const sandbox = await make();
  const pieces = [];
  let touched;
  const stdout = new Writable({
    write(piece, _, next) {
      pieces.push(String(piece));
      touched ??= sh(sandbox, "touch /tmp/go");
      next();
    },
  });
  const done = await sandbox.runCommand({ cmd: "sh", args: ["-c", "echo 1; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo 2"], stdout });
  assert.equal(done.exitCode, 0);
  assert.equal((await touched).exitCode, 0);
  assert.equal(pieces.join(""), "1\n2\n");
});

test("a detached command can be awaited, found again and read by many", async (make) => {
  const sandbox = await make();
  const command = await sandbox.runCommand({ cmd: "sh", args: ["-c", "while [ ! -e /tmp/go ]; do sleep 0.05; done; seq 1 1000"], detached: true });
  assert.equal(command.exitCode, null);
  const again = await sandbox.getCommand(command.cmdId);
  assert.equal(again.cmdId, command.cmdId);
  const early = [command.stdout(), again.stdout()];
  await sh(sandbox, "touch /tmp/go");
  assert.equal((await command.wait()).exitCode, 0);
  const late = await (await sandbox.getCommand(command.cmdId)).stdout();
  assert.equal(late.split("\n").length, 1001);
  assert.deepEqual(await Promise.all(early), [late, late]);
  const unknown = await failure(sandbox.getCommand("ex_" + "a".repeat(26)));
  assert.equal(unknown.status, 404);
});

test("signals and time end a command with 128 and their number", async (make) => {
  const sandbox = await make();
  for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGKILL", 137]]) {
    const command = await sandbox.runCommand({ cmd: "sleep", args: ["1000"], detached: true });
    await command.kill(signal);
    assert.equal((await command.wait()).exitCode, code);
  }
  assert.equal((await sandbox.runCommand({ cmd: "sleep", args: ["1000"], timeoutMs: 200 })).exitCode, 137);
  const detached = await sandbox.runCommand({ cmd: "sleep", args: ["1000"], timeoutMs: 200, detached: true });
  assert.equal((await detached.wait()).exitCode, 137);
});

test("a command whose caller leaves goes on, and one whose session stops is told so", async (make) => {
  const sandbox = await make();
  const left = new AbortController();
  const pieces = new Writable({ write: (piece, _, next) => (left.abort(), next()) });
  const gone = await failure(sandbox.runCommand({ cmd: "sh", args: ["-c", "echo begun; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo over >/tmp/over"], stdout: pieces, signal: left.signal }));
  assert.equal(gone.error.name, "AbortError");
  await sh(sandbox, "touch /tmp/go; while [ ! -s /tmp/over ]; do sleep 0.05; done");
  const stops = new Writable({ write: (piece, _, next) => (sandbox.stop().catch(() => {}), next()) });
  const cut = await failure(sandbox.runCommand({ cmd: "sh", args: ["-c", "echo begun; sleep 1000"], stdout: stops }));
  assert.equal(cut.code, "sandbox_stream_closed");
});
