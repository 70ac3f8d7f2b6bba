// SPDX-License-Identifier: Apache-2.0
// Snapshots and forks, the face of node:fs/promises, and the words of other sandboxes' programs.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as cloche from "cloche";
import { Client, Sandbox } from "cloche";

const client = new Client();
let sandbox;
before(async () => {
  sandbox = await Sandbox.create({ client });
});
after(async () => {
  await sandbox.close();
  client.close();
});

async function allOf(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("snapshots", () => {
  test("are what others go on from, and what one goes back to", async () => {
    await sandbox.files.write("state", "saved");
    const saved = await sandbox.snapshot();
    await sandbox.files.write("state", "changed");
    const copy = await Sandbox.create({ client, snapshot: saved });
    assert.deepEqual([await copy.files.readText("state"), copy.info.snapshotId], ["saved", saved.id]);
    await copy.close();
    await sandbox.rollback(saved);
    assert.equal(await sandbox.files.readText("state"), "saved");
    assert.deepEqual((await allOf(sandbox.snapshots())).map((s) => s.id), [saved.id]);
    assert.ok((await sandbox.tree()).nodes.length >= 2);
    assert.equal((await client.updateSnapshot(saved.id, { name: "of-typescript" })).name, "of-typescript");
    assert.equal((await client.snapshot("of-typescript")).id, saved.id);
    await client.deleteSnapshot(saved.id);
    await assert.rejects(client.snapshot(saved.id), cloche.NotFound);
  });

  test("forks go their own ways, and one of them may be gone on with", async () => {
    const parent = await Sandbox.create({ client });
    await parent.files.write("who", "parent");
    const [first, second] = await parent.fork(2, { memory: false, tags: { kind: "fork" } });
    assert.equal(first.info.tags.kind, "fork");
    await second.files.write("who", "second");
    const old = parent.id;
    await parent.mergeInto(second);
    await first.close();
    await second.close();
    assert.equal(await parent.files.readText("who"), "second");
    await assert.rejects(second.run("true"), cloche.Gone);
    assert.equal((await Sandbox.get(old, { client })).info.ended.cause, "deleted");
    await parent.close();
  });
});

describe("fs", () => {
  test("does what node:fs/promises does", async () => {
    const { fs } = sandbox;
    await fs.mkdir("fs/deep", { recursive: true });
    await fs.writeFile("fs/a.txt", "grün", { mode: 0o600 });
    await fs.appendFile("fs/a.txt", "!");
    assert.equal(await fs.readFile("fs/a.txt", "utf8"), "grün!");
    assert.equal((await fs.readFile("fs/a.txt")).length, 6);
    await fs.symlink("a.txt", "fs/link");
    assert.equal(await fs.readlink("fs/link"), "a.txt");
    assert.deepEqual([(await fs.lstat("fs/link")).isSymbolicLink(), (await fs.stat("fs/link")).isFile()], [true, true]);
    await fs.rename("fs/a.txt", "fs/deep/b.txt");
    await fs.copyFile("fs/deep/b.txt", "fs/c.txt");
    await fs.cp("fs/deep", "fs/copy", { recursive: true });
    await fs.chmod("fs/c.txt", 0o640);
    assert.equal((await fs.stat("fs/c.txt")).mode & 0o777, 0o640);
    assert.deepEqual((await fs.readdir("fs")).sort(), ["c.txt", "copy", "deep", "link"]);
    const all = await fs.readdir("fs", { withFileTypes: true, recursive: true });
    assert.deepEqual(all.filter((e) => e.isFile()).map((e) => `${e.parentPath}/${e.name}`).sort(), ["fs/c.txt", "fs/copy/b.txt", "fs/deep/b.txt"]);
    await fs.unlink("fs/c.txt");
    await fs.rm("fs", { recursive: true });
    await fs.rm("fs", { recursive: true, force: true });
  });

  test("fails with Node's codes", async () => {
    const { fs } = sandbox;
    await assert.rejects(fs.readFile("nothing"), { code: "ENOENT", path: "nothing", syscall: "open" });
    await assert.rejects(fs.access("nothing"), (e) => e instanceof cloche.FsError && e.cause instanceof cloche.FileMissing);
    await fs.mkdir("there");
    await assert.rejects(fs.mkdir("there"), { code: "EEXIST" });
    await assert.rejects(fs.writeFile("/etc/passwd-", "x"), { code: "EACCES" });
    await assert.rejects(fs.readlink("there"), { code: "EINVAL" });
  });
});

describe("other words", () => {
  test("code is checked where that is asked for", async () => {
    assert.equal((await sandbox.runCode("1")).check().text, "1");
    await assert.rejects(async () => (await sandbox.runCode("1/0")).check(), /ZeroDivisionError/);
  });

  test("uploads take the path first or the bytes", async () => {
    await sandbox.upload("up/a", new Uint8Array([49]));
    await sandbox.upload(new Uint8Array([50]), "up/b");
    assert.deepEqual([...(await sandbox.download("up/a")), ...(await sandbox.download("up/b"))], [49, 50]);
  });

  test("events of code carry text, values and the exit code", async () => {
    const events = await allOf(sandbox.runCodeStream("print('ü')\n42\n"));
    assert.deepEqual(events.map((e) => e.type), ["stdout", "result", "exit"]);
    assert.deepEqual([events[0].data, events[1].data.text, events[2].code], ["ü\n", "42", 0]);
    const failing = await allOf(sandbox.runCodeStream("1/0"));
    assert.deepEqual([failing[0].data.name, failing.at(-1).code], ["ZeroDivisionError", 1]);
  });
});

describe("what people write", () => {
  test("an option that does not exist is refused with the one that was meant", async () => {
    await assert.rejects(Sandbox.create({ client, templat: "python" }), /a sandbox has no option 'templat'; did you mean 'template'\?/);
    await assert.rejects(Sandbox.create({ client, idle_timeout_ms: 1000 }), /did you mean 'idleTimeoutMs'\?/);
    await assert.rejects(Sandbox.create({ client, vcpus: 2 }), /write limits: { vcpus: … }/);
    await assert.rejects(sandbox.run("true", { timeout: 5 }), /run\(\) has no option 'timeout'; did you mean 'timeoutMs'\?/);
    await assert.rejects(sandbox.runCode("1", { onStdOut: () => {} }), /did you mean 'onStdout'\?/);
    await assert.rejects(sandbox.snapshot({ nmae: "a" }), /snapshot\(\) has no option 'nmae'; did you mean 'name'\?/);
    await assert.rejects(sandbox.fork(1, { onConection: "close" }), /fork\(\) has no option 'onConection'; did you mean 'onConnection'\?/);
    await assert.rejects(sandbox.pause({ onto: "disk" }), /pause\(\) has no option 'onto'/);
    await assert.rejects(sandbox.expose(3000, { expiresIn: 5 }), /did you mean 'expiresInMs'\?/);
    await assert.rejects(sandbox.files.write("a", "b", { parent: true }), /did you mean 'parents'\?/);
    await assert.rejects(sandbox.contexts.create({ lang: "py" }), /create\(\) has no option 'lang'/);
    await assert.rejects(client.run("true", { timeout: 5 }), /run\(\) has no option 'timeout'; did you mean 'timeoutMs'\?/);
    await assert.rejects(client.createKey("a", { scop: "read" }), /did you mean 'scope'\?/);
    await assert.rejects(allOf(Sandbox.list({ client, page_size: 5 })), /did you mean 'pageSize'\?/);
  });

  test("a language may be named shortly", async () => {
    assert.equal((await sandbox.runCode("6 * 7", "py")).text, "42");
  });

  test("memory as a number is its limit in MiB", async () => {
    const small = await Sandbox.create({ client, memory: 96 });
    assert.equal(small.info.limits.memory_mib, 96);
    await small.close();
  });

  test("a result is JSON as a person expects it", async () => {
    const told = JSON.parse(JSON.stringify(await sandbox.run("echo out; echo err >&2; exit 3")));
    assert.deepEqual([told.exitCode, told.stdout, told.stderr, told.stdoutTruncated], [3, "out\n", "err\n", false]);
    const code = JSON.parse(JSON.stringify(await sandbox.runCode("print('a')\n6 * 7")));
    assert.deepEqual([code.status, code.text, code.stdout, code.error], ["ok", "42", "a\n", null]);
  });

  test("a command that the lifetime of its sandbox cuts off says so", async () => {
    const brief = await Sandbox.create({ client, lifetimeMs: 1500 });
    const done = await brief.run("sleep 100");
    assert.throws(() => done.check(), /lifetime of 1500 ms/);
    await brief.delete(); // it is gone, and that is fine
    const other = await Sandbox.create({ client, lifetimeMs: 1500 });
    assert.match(await (await other.runCommand("sleep", ["100"])).stderr(), /lifetime of 1500 ms/);
  });
});

describe("a list of a cluster whose node is silent", () => {
  const missing = { node: "c", why: "it is silent", as_of_us: null };
  const answer = { volumes: [], snapshots: [], next_cursor: null, incomplete: [missing] };
  const silent = (more) => new Client({ url: "http://127.0.0.1:1", fetch: async () => Response.json(answer), ...more });

  test("is told to who asks for it, and may be made an error", async () => {
    const told = [];
    const lists = silent({ onIncomplete: (list) => told.push(list) });
    await lists.volumes();
    await allOf(lists.snapshots());
    assert.deepEqual(told.map((list) => [list.name, list.field, list.incomplete]), [["IncompleteList", "volumes", [missing]], ["IncompleteList", "snapshots", [missing]]]);
    const refuse = (list) => {
      throw list;
    };
    await assert.rejects(silent({ onIncomplete: refuse }).volumes(), cloche.IncompleteList);
  });

  test("is a warning otherwise", async () => {
    const warned = new Promise((resolve) => process.once("warning", resolve));
    await silent({}).volumes();
    assert.match((await warned).message, /the list of volumes may not be whole: node c: it is silent/);
  });
});
