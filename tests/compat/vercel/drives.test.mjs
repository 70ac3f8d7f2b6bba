// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { Drive } from "@vercel/sandbox";
import { failure, out, sh, test } from "./rig.mjs";

const unique = () => `d-${Math.random().toString(36).slice(2)}`;
const all = async (pages) => (await pages).toArray();

test("a drive is made once, found, and has what sandboxes leave in it", async (make) => {
  const name = unique();
  const drive = await Drive.getOrCreate({ name, maxSize: 64 << 20 });
  const same = await Drive.getOrCreate({ name, maxSize: 1 << 20 });
  assert.deepEqual([drive.name, same.name, same.maxSize], [name, name, 64 << 20]);
  const first = await make({ mounts: { "/data": drive } });
  await sh(first, "echo kept > /data/x");
  const attached = (await all(Drive.list({ namePrefix: name })))[0];
  assert.deepEqual([attached.currentSandboxName, attached.currentSessionId], [first.name, first.currentSession().sessionId]);
  assert.equal((await failure(drive.delete())).status, 409);
  const second = await failure(make({ mounts: { "/data": drive } }));
  assert.deepEqual([second.status, second.code], [400, "bad_request"]);
  const reader = await make({ mounts: { "/seen": drive.snapshot() } });
  assert.equal(await out(reader, "cat", ["/seen/x"]), "kept\n");
  assert.notEqual((await sh(reader, "echo no > /seen/x")).exitCode, 0);
  await reader.stop();
  await first.stop();
  const next = await make({ mounts: { "/elsewhere": same } });
  assert.equal(await out(next, "cat", ["/elsewhere/x"]), "kept\n");
  await next.stop();
  await drive.delete();
  assert.equal((await failure(drive.delete())).status, 404);
});

test("a persistent sandbox has its drive again in its next session, and another after an update", async (make) => {
  const [one, other] = [await Drive.getOrCreate({ name: unique() }), await Drive.getOrCreate({ name: unique() })];
  const sandbox = await make({ persistent: true, mounts: { "/d": one } });
  await sh(sandbox, "echo 1 > /d/x");
  await sandbox.stop();
  assert.equal(await out(sandbox, "cat", ["/d/x"]), "1\n");
  await sandbox.update({ mounts: { "/d": other } });
  await sandbox.stop();
  assert.equal(await out(sandbox, "ls", ["/d"]), "");
  await sandbox.stop();
  await Promise.all([one.delete(), other.delete()]);
});

test("a place that is none and a drive that is not there are refused", async (make) => {
  for (const mounts of [{ relative: { name: "x" } }, { "/etc/x": { name: "x" } }, { "/d": { name: unique() } }])
    assert.equal((await failure(make({ mounts }))).status, 400);
});
