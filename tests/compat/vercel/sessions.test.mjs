// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { Sandbox, Snapshot } from "@vercel/sandbox";
import { enc, failure, out, sh, test } from "./rig.mjs";

const DAY = 86_400_000;
const unique = () => `t-${Math.random().toString(36).slice(2)}`;
const all = async (pages) => (await pages).toArray();

test("a sandbox has the settings that it was asked for", async (make) => {
  const sandbox = await make({ resources: { vcpus: 4 }, timeout: 60_000, runtime: "node24", tags: { k: "v" }, name: `N_${unique()}` });
  assert.deepEqual([sandbox.vcpus, sandbox.memory, sandbox.runtime, sandbox.persistent], [4, 8192, "node24", false]);
  assert.ok(Math.abs(sandbox.expiresAt - Date.now() - 60_000) < 30_000);
  const clash = await failure(Sandbox.create({ name: sandbox.name }));
  assert.deepEqual([clash.status, clash.code], [400, "bad_request"]);
  assert.equal((await failure(Sandbox.create({ name: "sessions" }))).status, 400);
  assert.equal((await failure(Sandbox.create({ image: "nobody/nothing:1" }))).status, 404);
});

test("a persistent sandbox goes on from where it was stopped", async (make) => {
  const sandbox = await make({ persistent: true });
  const resumed = [];
  const first = sandbox.currentSession().sessionId;
  await sandbox.writeFiles([{ path: "kept", content: enc("kept") }]);
  const stopped = await sandbox.stop();
  assert.deepEqual([sandbox.status, stopped.snapshot.id], ["stopped", sandbox.currentSnapshotId]);
  assert.equal(typeof sandbox.totalDurationMs, "number");
  await sandbox.stop();
  const found = await Sandbox.get({ name: sandbox.name, onResume: () => resumed.push(1) });
  assert.equal(found.status, "stopped");
  assert.equal((await found.readFileToBuffer({ path: "kept" })).toString(), "kept");
  assert.notEqual(found.currentSession().sessionId, first);
  assert.deepEqual(resumed, [1]);
  assert.equal((await all(found.listSessions())).length, 2);
  const page = await found.listSessions({ limit: 1 });
  assert.equal(page.sessions.length, 1);
  assert.equal((await page.toArray()).length, 2);
});

test("one that is at its end is resumed by the next call", async (make) => {
  const sandbox = await make({ persistent: true, timeout: 1000 });
  await sh(sandbox, "echo before > /tmp/before");
  const first = sandbox.currentSession().sessionId;
  const late = await failure(sandbox.runCommand("sleep", ["1000"]));
  assert.equal(late.code, "sandbox_stream_closed");
  assert.equal(await out(sandbox, "cat", ["/tmp/before"]), "before\n");
  assert.notEqual(sandbox.currentSession().sessionId, first);
});

test("one that keeps nothing cannot be resumed", async (make) => {
  const sandbox = await make();
  await sandbox.stop();
  const gone = await failure(sandbox.runCommand("true"));
  assert.deepEqual([gone.status, gone.code], [410, "snapshot_not_found"]);
});

test("calls that come while it stops wait, and make one new session", async (make) => {
  const sandbox = await make({ persistent: true });
  const first = sandbox.currentSession().sessionId;
  const stop = sandbox.stop();
  while ((await Sandbox.get({ name: sandbox.name })).status === "running"); /* what comes before the stop is cut by it */
  const done = await sandbox.runCommand("echo", ["here"]);
  await stop;
  assert.equal(done.exitCode, 0);
  assert.notEqual(sandbox.currentSession().sessionId, first);
  await sandbox.stop();
  const handles = await Promise.all(Array.from({ length: 5 }, () => Sandbox.get({ name: sandbox.name })));
  const codes = await Promise.all(handles.map((handle) => handle.runCommand("true")));
  assert.ok(codes.every((code) => code.exitCode === 0));
  assert.equal(new Set(handles.map((handle) => handle.currentSession().sessionId)).size, 1);
});

test("getOrCreate makes what is not there, and makes anew what cannot be resumed", async (make) => {
  const name = unique();
  const created = [];
  const options = { name, onCreate: () => created.push(1) };
  const first = make.keep(await Sandbox.getOrCreate(options));
  await Sandbox.getOrCreate(options);
  assert.deepEqual(created, [1]);
  const { snapshot } = await first.stop();
  await (await Snapshot.get({ snapshotId: snapshot.id })).delete();
  const again = await Sandbox.getOrCreate({ ...options, resume: true });
  assert.deepEqual([created.length, again.status], [2, "running"]);
});

test("a snapshot ends its session, holds all files and outlives its sandbox", async (make) => {
  const sandbox = await make();
  await sh(sandbox, "mkdir /tmp/tree && printf '\\0\\377' > /tmp/tree/b && chmod 751 /tmp/tree/b && ln -s b /tmp/tree/l");
  const snapshot = await sandbox.snapshot();
  assert.equal(snapshot.status, "created");
  assert.ok(Math.abs(snapshot.expiresAt - Date.now() - 30 * DAY) < DAY);
  assert.equal((await all(sandbox.listSnapshots())).length, 1);
  const copy = await make({ source: { type: "snapshot", snapshotId: snapshot.snapshotId } });
  assert.equal(copy.sourceSnapshotId, snapshot.snapshotId);
  assert.equal(await out(copy, "sh", ["-c", "stat -c '%a %s' /tmp/tree/b; readlink /tmp/tree/l; od -An -tx1 /tmp/tree/b"]), "751 2\nb\n 00 ff\n");
  await sh(copy, "rm /tmp/tree/b");
  assert.equal(await out(sandbox, "stat", ["-c", "%s", "/tmp/tree/b"]), "2\n");
  assert.equal((await sandbox.snapshot({ expiration: 0 })).expiresAt, undefined);
  await snapshot.delete();
  const listed = (await all(Snapshot.list({ name: sandbox.name }))).find((s) => s.id === snapshot.snapshotId);
  assert.equal(listed.status, "deleted");
  const gone = await failure(make({ source: { type: "snapshot", snapshotId: snapshot.snapshotId } }));
  assert.deepEqual([gone.status, gone.code], [410, "snapshot_not_found"]);
  assert.equal((await failure(Snapshot.get({ snapshotId: "snap_none" }))).status, 404);
});

test("snapshots are kept as many as it says, told as a tree, and gone back to", async (make) => {
  const sandbox = await make({ persistent: true, keepLastSnapshots: { count: 2 } });
  assert.deepEqual(sandbox.keepLastSnapshots, { count: 2, deleteEvicted: true });
  const ids = [];
  for (const word of ["one", "two", "three"]) {
    await sh(sandbox, `echo ${word} > /tmp/word`);
    ids.push((await sandbox.stop()).snapshot.id);
  }
  const listed = await all(sandbox.listSnapshots());
  assert.deepEqual(listed.filter((s) => s.status === "created").map((s) => s.id), [ids[2], ids[1]]);
  const tree = await Snapshot.tree({ snapshotId: ids[2] });
  assert.equal(typeof tree.snapshots[0].count, "string");
  await sandbox.update({ currentSnapshotId: ids[1], keepLastSnapshots: null });
  assert.equal(sandbox.keepLastSnapshots, undefined);
  assert.equal(await out(sandbox, "cat", ["/tmp/word"]), "two\n");
});

test("a fork has the settings and files of its source, and what it says itself", async (make) => {
  const source = await make({ persistent: true, env: { A: "1" }, tags: { k: "v" }, resources: { vcpus: 1 } });
  await sh(source, "echo file > /tmp/file");
  await source.stop();
  const fork = make.keep(await Sandbox.fork({ sourceSandbox: source.name, env: { A: "2" }, persistent: false }));
  assert.equal(fork.sourceSnapshotId, source.currentSnapshotId);
  assert.deepEqual([fork.vcpus, fork.persistent, fork.tags], [1, false, { k: "v" }]);
  assert.equal(await out(fork, "sh", ["-c", "echo $A; cat /tmp/file"]), "2\nfile\n");
  assert.equal((await failure(Sandbox.fork({ sourceSandbox: unique() }))).status, 404);
});

test("time is extended by just so much, and not for ever", async (make) => {
  const sandbox = await make();
  const time = () => sandbox.currentSession().timeout;
  const before = time();
  await sandbox.extendTimeout(300_000);
  assert.equal(time(), before + 300_000);
  const refused = await failure(sandbox.extendTimeout(5 * DAY));
  assert.deepEqual([refused.status, refused.code], [400, "sandbox_timeout_invalid"]);
  await sandbox.update({ timeout: before + 600_000 });
  assert.deepEqual([time(), sandbox.timeout], [before + 600_000, before + 600_000]);
});

test("settings are changed and told again", async (make) => {
  const sandbox = await make();
  await sandbox.update({ resources: { vcpus: 1 }, persistent: true, snapshotExpiration: DAY, tags: { a: "b" }, networkPolicy: "deny-all" });
  const found = await Sandbox.get({ name: sandbox.name });
  assert.deepEqual([found.vcpus, found.memory, found.persistent, found.snapshotExpiration, found.tags, found.networkPolicy], [1, 2048, true, DAY, { a: "b" }, "deny-all"]);
});

test("lists are in order, in pages, and of what was asked for", async (make) => {
  const prefix = unique();
  for (const letter of ["b", "a", "c"]) await make({ name: `${prefix}${letter}`, tags: { list: prefix } });
  const names = async (query) => (await all(Sandbox.list(query))).map((s) => s.name.slice(prefix.length));
  assert.deepEqual(await names({ namePrefix: prefix, sortBy: "name", sortOrder: "asc", limit: 1 }), ["a", "b", "c"]);
  assert.deepEqual(await names({ tags: { list: prefix } }), ["c", "a", "b"]);
  assert.deepEqual(await names({ tags: { list: "no" } }), []);
});

test("what is deleted is gone, with its own snapshots if that is asked for", async (make) => {
  const sandbox = await make({ persistent: true });
  const { snapshot } = await sandbox.stop();
  await sandbox.delete({ deleteOrphanSnapshots: true });
  assert.equal((await failure(Sandbox.get({ name: sandbox.name }))).status, 404);
  assert.equal((await failure(sandbox.delete())).status, 404);
  assert.equal((await Snapshot.get({ snapshotId: snapshot.id })).status, "deleted");
});

test("a sandbox that goes out of scope is stopped", async (make) => {
  const sandbox = await make({ persistent: true });
  await sandbox[Symbol.asyncDispose](); /* what `await using` does */
  assert.equal((await Sandbox.get({ name: sandbox.name })).status, "stopped");
});

test("a wrong key is refused", async () => {
  const { fetch } = await import("cloche/vercel");
  const key = process.env.CLOCHE_API_KEY;
  process.env.CLOCHE_API_KEY = `clo_${"0".repeat(40)}`;
  try {
    const refused = await failure(Sandbox.create({ token: "x", teamId: "local", projectId: "local", fetch }));
    assert.equal(refused.status, 401);
  } finally {
    process.env.CLOCHE_API_KEY = key;
  }
});
