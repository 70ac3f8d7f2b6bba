// SPDX-License-Identifier: Apache-2.0
// The contracts of Mastra's workspaces, without Mastra, which wants a newer Node: tests/sdk/mastra has its agents.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client, Sandbox } from "cloche";
import { clocheWorkspace } from "cloche/mastra";

const client = new Client();
after(() => client.close());

async function withWorkspace(fn, options = {}) {
  const parts = clocheWorkspace({ client, ...options });
  try {
    return await fn(parts);
  } finally {
    await parts.sandbox.destroy();
  }
}

test("a command is a shell line with words behind it, and tells how it ended", async () => {
  await withWorkspace(async ({ sandbox }) => {
    const heard = [];
    const failed = await sandbox.executeCommand("echo out; echo err >&2; exit 3", [], { onStdout: (text) => heard.push(text) });
    assert.deepEqual([failed.success, failed.exitCode, failed.stdout, failed.stderr, heard.join("")], [false, 3, "out\n", "err\n", "out\n"]);
    assert.equal((await sandbox.executeCommand("printf '%s|'", ["a b", "it's", "$HOME"])).stdout, "a b|it's|$HOME|");
    sandbox.setEnv((env) => ({ ...env, A: "overlay", B: "overlay" }));
    assert.equal((await sandbox.executeCommand("echo $A $B; pwd", [], { env: { B: "own" }, cwd: "sub" })).stdout, "overlay own\n/tmp/sub\n");
    const late = await sandbox.executeCommand("sleep 7654", [], { timeout: 100 });
    assert.deepEqual([late.exitCode, late.timedOut, late.killed], [124, true, undefined]);
    const abort = new AbortController();
    const aborted = await sandbox.executeCommand("echo begun; sleep 7654", [], { abortSignal: abort.signal, onStdout: () => abort.abort() });
    assert.deepEqual([aborted.success, aborted.exitCode, aborted.killed, aborted.stdout], [false, 137, true, "begun\n"]);
    const tail = await sandbox.executeCommand("seq 1000; printf ä", [], { maxRetainedBytes: 7 });
    assert.deepEqual([tail.stdout, tail.stdoutTruncated, tail.stdoutDroppedBytes], ["1000\nä", true, 3888]);
  }, { workingDirectory: "/tmp", sandbox: await withDirectory("/tmp/sub") });
});

/** A sandbox of the caller's: destroy() leaves it. */
async function withDirectory(path) {
  const sandbox = await Sandbox.create({ client });
  await sandbox.files.mkdir(path);
  after(() => sandbox.close());
  return sandbox;
}

test("a process takes input, streams, is found again by its pid and killed", async () => {
  await withWorkspace(async ({ sandbox: { processes } }) => {
    const heard = [];
    const cat = await processes.spawn("cat; exit 4", { onStdout: (text) => heard.push(text) });
    await cat.sendStdin("héllo");
    await cat.closeStdin();
    const done = await cat.wait();
    assert.deepEqual([done.exitCode, done.stdout, heard.join(""), cat.exitCode, cat.stdout], [4, "héllo", "héllo", 4, "héllo"]);
    processes.release(cat.pid);
    assert.deepEqual([await processes.list(), (await (await processes.get(cat.pid)).wait()).stdout], [[], "héllo"]);
    const sleeper = await processes.spawn("sleep 7654");
    assert.deepEqual((await processes.list()).map((p) => [p.pid === sleeper.pid, p.running]).at(-1), [true, true]);
    assert.deepEqual([await processes.kill(sleeper.pid), (await sleeper.wait()).killed, await processes.kill("ex_none")], [true, true, false]);
    const abort = new AbortController();
    const aborted = await processes.spawn("sleep 7654", { abortSignal: abort.signal });
    abort.abort();
    assert.equal((await aborted.wait()).exitCode, 137);
  });
});

test("a process speaks over Node's streams", { skip: !process.getBuiltinModule && `Node ${process.version} cannot` }, async () => {
  await withWorkspace(async ({ sandbox }) => {
    const cat = await sandbox.processes.spawn("cat");
    const { reader, writer } = cat;
    writer.end("through");
    let text = "";
    for await (const piece of reader) text += piece;
    assert.equal(text, "through");
  });
});

test("files are those that the commands see", async () => {
  await withWorkspace(async ({ sandbox, filesystem }) => {
    await filesystem.writeFile("d/e/a.txt", "one\n");
    await filesystem.appendFile("d/e/a.txt", "two\n");
    await sandbox.writeFiles([{ path: "d/run.sh", content: "echo ran", mode: 0o755 }]);
    assert.equal((await sandbox.executeCommand("cat d/e/a.txt; ./d/run.sh; ln -s e d/link")).stdout, "one\ntwo\nran\n");
    assert.deepEqual(await filesystem.readFile("d/e/a.txt"), Buffer.from("one\ntwo\n"));
    const all = [
      { name: "e", type: "directory" },
      { name: "e/a.txt", type: "file", size: 8 },
      { name: "link", type: "directory", isSymlink: true, symlinkTarget: "e" },
    ];
    assert.deepEqual((await filesystem.readdir("d", { recursive: true, extension: "txt" })).sort((a, b) => (a.name < b.name ? -1 : 1)), all);
    assert.equal((await filesystem.readdir("d", { recursive: true, maxDepth: 0 })).length, 3);
    const { name, type, size } = await filesystem.stat("d/e/a.txt");
    assert.deepEqual([name, type, size, (await filesystem.stat("d")).type], ["a.txt", "file", 8, "directory"]);
    await filesystem.copyFile("d", "copy", { recursive: true });
    await filesystem.moveFile("copy/run.sh", "moved/run.sh");
    await filesystem.mkdir("x/y");
    await filesystem.deleteFile("moved/run.sh");
    await filesystem.deleteFile("moved/run.sh", { force: true });
    await filesystem.rmdir("copy", { recursive: true });
    assert.deepEqual(await Promise.all(["copy", "x/y", "moved/run.sh"].map((path) => filesystem.exists(path))), [false, true, false]);
    await assert.rejects(sandbox.writeFiles([{ path: "a", content: "", mode: 0o4755 }]), /mode/);
  });
});

test("it is made at its first use, stops with its files, goes on, and ends", async () => {
  const id = `mastra-${Math.random().toString(36).slice(2, 10)}`;
  await withWorkspace(async ({ sandbox, filesystem }) => {
    assert.equal(sandbox.status, "pending");
    await Promise.all([filesystem.writeFile("kept", "yes"), sandbox.ensureRunning()]);
    assert.equal(sandbox.status, "running");
    const other = clocheWorkspace({ client, id }).sandbox;
    assert.deepEqual(await other.start(), { outcome: "connected" });
    await sandbox.stop();
    assert.deepEqual([sandbox.status, (await Sandbox.get(id, { client })).info.state], ["stopped", "stopped"]);
    assert.equal(await filesystem.readFile("kept", { encoding: "utf-8" }), "yes");
    assert.match(await sandbox.networking.getPortUrl(3000), /^http/);
    assert.equal(sandbox.getInfo().metadata.sandboxId, (await sandbox.sandbox()).id);
  }, { id });
  await withWorkspace(async ({ sandbox }) => {
    const { pid } = await sandbox.processes.spawn("while read x; do echo got $x; done");
    await sandbox.stop();
    assert.equal((await sandbox.sandbox()).info.state, "running");
    const reader = await sandbox.processes.get(pid);
    await reader.sendStdin("on\n");
    await reader.closeStdin();
    assert.equal((await reader.wait()).stdout, "got on\n");
  });
  const ended = [];
  for await (const one of Sandbox.list({ client })) ended.push(one.info.name);
  assert.ok(!ended.includes(id));
});
