// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { Volume, VolumeNotFoundError, VolumePathNotFoundError } from "e2b";
import { test } from "./rig.mjs";

const unique = () => `v-${Math.random().toString(36).slice(2)}`;

/** A volume for the time of a function. */
async function withVolume(fn) {
  const volume = await Volume.create(unique());
  try {
    await fn(volume);
  } finally {
    await Volume.destroy(volume.volumeId);
  }
}

test("files are put into a volume, found, changed and removed without a sandbox", () =>
  withVolume(async (volume) => {
    await volume.makeDir("/a/b", { force: true });
    const made = await volume.writeFile("/a/b/x.txt", "hello", { mode: 0o600, uid: 1000 });
    assert.deepEqual([made.path, made.name, made.type, made.size, made.mode, made.uid], ["/a/b/x.txt", "x.txt", "file", 5, 0o600, 1000]);
    assert.equal(await volume.readFile("/a/b/x.txt"), "hello");
    await assert.rejects(volume.writeFile("/a/b/x.txt", "again"));
    await volume.writeFile("/a/b/x.txt", new Uint8Array(3_000_000), { force: true });
    assert.equal((await volume.readFile("/a/b/x.txt", { format: "bytes" })).length, 3_000_000);
    assert.deepEqual((await volume.list("/", { depth: 3 })).map((e) => e.path).sort(), ["/a", "/a/b", "/a/b/x.txt"]);
    assert.deepEqual((await volume.list("/a")).map((e) => [e.name, e.type]), [["b", "directory"]]);
    assert.equal((await volume.updateMetadata("/a/b", { mode: 0o700 })).mode, 0o700);
    await volume.remove("/a");
    assert.equal(await volume.exists("/a"), false);
    await assert.rejects(volume.readFile("/a/b/x.txt"), VolumePathNotFoundError);
  }));

test("a sandbox has the volumes that it was made with, and their files stay behind it", (make) =>
  withVolume(async (volume) => {
    await volume.writeFile("/in.txt", "in");
    const sandbox = await make({ volumeMounts: { "/mnt/data": volume } });
    assert.equal((await sandbox.commands.run("cat /mnt/data/in.txt; echo out > /mnt/data/out.txt")).stdout, "in");
    const { volumeMounts } = await sandbox.getInfo();
    assert.deepEqual(volumeMounts, [{ name: volume.name, path: "/mnt/data" }]);
    await sandbox.kill();
    assert.equal(await volume.readFile("/out.txt"), "out\n");
  }));

test("volumes are listed, connected to and told as gone", async () => {
  const volume = await Volume.create(unique());
  assert.ok((await Volume.list()).some((one) => one.volumeId === volume.volumeId));
  const again = await Volume.connect(volume.volumeId);
  assert.deepEqual([again.name, again.token], [volume.name, volume.token]);
  assert.equal(await Volume.destroy(volume.volumeId), true);
  assert.equal(await Volume.destroy(volume.volumeId), false);
  await assert.rejects(Volume.connect(volume.volumeId), VolumeNotFoundError);
});

test("what is no place for one, or no volume, is refused", (make) =>
  withVolume(async (volume) => {
    for (const mounts of [{ relative: volume }, { "/etc": volume }, { "/a": volume, "/a/b": volume }, { "/a": "no-such-volume" }])
      await assert.rejects(make({ volumeMounts: mounts }), /^\w*Error: 400/);
  }));
