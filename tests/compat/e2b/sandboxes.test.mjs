// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import http from "node:http";
import { AuthenticationError, RateLimitError, Sandbox, SandboxNotFoundError } from "e2b";
import { test } from "./rig.mjs";

test("a sandbox is made, told of, found and killed once", async (make) => {
  const metadata = { "of this test": `a&b=c ${process.pid}` };
  const [one, two] = [await make({ metadata }), await make({ metadata })];
  assert.match(one.sandboxId, /^[a-z0-9]+$/);
  assert.equal(await one.isRunning(), true);
  const info = await one.getInfo();
  assert.deepEqual([info.sandboxId, info.state, info.metadata], [one.sandboxId, "running", metadata]);
  assert.ok(info.endAt > info.startedAt && info.cpuCount > 0 && info.memoryMB > 0);
  const pages = Sandbox.list({ query: { metadata }, limit: 1 });
  const found = [];
  while (pages.hasNext) found.push(...(await pages.nextItems()).map((s) => s.sandboxId));
  assert.deepEqual(found, [two.sandboxId, one.sandboxId]);
  assert.deepEqual([await one.kill(), await one.kill(), await one.isRunning()], [true, false, false]);
  for (const call of [() => Sandbox.connect(one.sandboxId), () => Sandbox.getInfo(one.sandboxId), () => one.setTimeout(5000)])
    await assert.rejects(call, SandboxNotFoundError);
  assert.equal(await Sandbox.kill("nonexistingsandbox"), false);
});

test("a connect never shortens a sandbox's time, and setTimeout does", async (make) => {
  const sandbox = await make();
  const end = async () => (await sandbox.getInfo()).endAt.getTime();
  const first = await end();
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 });
  assert.equal(await end(), first);
  await again.files.write("by-the-other", "x");
  assert.equal(await sandbox.files.read("by-the-other"), "x");
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 600_000 });
  const later = await end();
  assert.ok(later > first);
  await sandbox.setTimeout(60_000);
  assert.ok((await end()) < later);
});

test("a wrong key and a template that is not there are told as such", async () => {
  // The second where many were refused just before.
  const isRefused = (error) => error instanceof AuthenticationError || error instanceof RateLimitError;
  await assert.rejects(Sandbox.create({ apiKey: `e2b_${"0".repeat(40)}` }), isRefused);
  await assert.rejects(Sandbox.create("no-such-template"), /^SandboxError: 404:/);
});

test("a pause is seen, and a connect brings files, variables and processes back", async (make) => {
  const sandbox = await make({ envs: { KEPT: "yes" } });
  const { pid } = await sandbox.commands.run("sleep 1000", { background: true });
  await sandbox.files.write("kept", "by the pause");
  assert.deepEqual([await sandbox.pause(), await sandbox.pause(), await sandbox.isRunning()], [true, false, false]);
  assert.equal((await sandbox.getInfo()).state, "paused");
  const woken = await Sandbox.connect(sandbox.sandboxId);
  assert.equal(woken.sandboxId, sandbox.sandboxId);
  assert.equal(await woken.files.read("kept"), "by the pause");
  assert.equal((await woken.commands.run("echo $KEPT")).stdout, "yes\n");
  assert.ok((await woken.commands.list()).some((p) => p.pid === pid));
  await assert.rejects(Sandbox.pause("nonexistingsandbox"), SandboxNotFoundError);
});

test("a snapshot and a fork begin with the files of their source, and go their own way", async (make) => {
  const source = await make();
  await source.files.write("state", "first");
  const { snapshotId } = await source.createSnapshot();
  try {
    await source.files.write("state", "second");
    const copy = make.keep(await Sandbox.create(snapshotId));
    assert.deepEqual([await copy.files.read("state"), await source.files.read("state")], ["first", "second"]);
    for (const sandbox of await source.fork({ count: 2 })) {
      make.keep(sandbox);
      assert.equal(await sandbox.files.read("state"), "second");
      await sandbox.files.write("state", "of the fork");
    }
    assert.equal(await source.files.read("state"), "second");
  } finally {
    assert.deepEqual([await Sandbox.deleteSnapshot(snapshotId), await Sandbox.deleteSnapshot(snapshotId)], [true, false]);
  }
});

/** What a visitor of a name is answered; the name leads to the daemon, as DNS would have it. */
function visit(host) {
  const { hostname, port } = new URL(process.env.E2B_API_URL);
  return new Promise((resolve, reject) => {
    const read = async (reply) => {
      let text = "";
      for await (const piece of reply.setEncoding("utf8")) text += piece;
      resolve({ status: reply.statusCode, text });
    };
    http.get({ hostname, port, headers: { Host: host } }, read).on("error", reject);
  });
}

test("getHost names a server inside, and nobody when the sandbox is gone", async (make) => {
  const sandbox = await make();
  await sandbox.files.write("index.html", "from inside");
  await sandbox.commands.run("python3 -m http.server 8000 --bind 127.0.0.1", { background: true });
  await sandbox.commands.run("until curl -sf -o /dev/null http://127.0.0.1:8000/; do :; done");
  const host = sandbox.getHost(8000);
  assert.ok(host.startsWith(`8000-${sandbox.sandboxId}.`));
  assert.deepEqual(await visit(host), { status: 200, text: "from inside" });
  await sandbox.kill();
  const gone = await visit(host);
  assert.deepEqual([gone.status, JSON.parse(gone.text).message], [502, "The sandbox was not found"]);
});

test("metrics are a row of readings, and none of a time before", async (make) => {
  const sandbox = await make();
  let readings = [];
  while (readings.length < 3) readings = await sandbox.getMetrics();
  for (const [i, reading] of readings.entries()) {
    assert.ok(i === 0 || reading.timestamp > readings[i - 1].timestamp);
    assert.ok(reading.cpuUsedPct >= 0 && reading.memUsed > 0 && reading.memTotal > reading.memUsed && reading.diskTotal > 0, JSON.stringify(reading));
  }
  const before = (seconds) => new Date(readings[0].timestamp.getTime() - seconds * 1000);
  assert.deepEqual(await sandbox.getMetrics({ start: before(120), end: before(60) }), []);
});
