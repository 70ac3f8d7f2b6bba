// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { AuthenticationError, FileNotFoundError, FilesystemEventType, InvalidArgumentError, Sandbox, SandboxError } from "e2b";
import { bytes, heard, test } from "./rig.mjs";

test("what is written is read, in all forms", async (make) => {
  const { files } = await make();
  const made = await files.write("a.txt", "ö");
  assert.deepEqual([made.name, made.type, made.path], ["a.txt", "file", "/home/user/a.txt"]);
  const data = Uint8Array.from({ length: 100_000 }, (_, i) => (i * 7) % 256);
  for (const form of [data.buffer, new Blob([data]), new Blob([data]).stream()]) {
    await files.write("new/dirs/b", form);
    assert.deepEqual(await files.read("new/dirs/b", { format: "bytes" }), data);
  }
  assert.deepEqual((await files.write([{ path: "z", data: "1" }, { path: "/tmp/y", data: "2" }])).map((f) => f.path), ["/home/user/z", "/tmp/y"]);
  assert.equal((await files.write("mine", "x", { user: "root" })).path, "/root/mine");
  assert.equal(await (await files.read("a.txt", { format: "blob" })).text(), "ö");
  assert.equal(await new Response(await files.read("a.txt", { format: "stream" })).text(), "ö");
  await files.write("empty", "");
  assert.equal(await files.read("empty"), "");
  await assert.rejects(files.read("missing"), FileNotFoundError);
  await assert.rejects(files.read("new"), InvalidArgumentError);
});

test("files are listed, told of, moved and removed", async (make) => {
  const { files } = await make();
  assert.deepEqual([await files.makeDir("d/sub"), await files.makeDir("d")], [true, false]);
  await files.write("d/sub/x", "xyz");
  await files.write("d/a", "");
  const names = async (depth) => (await files.list("d", { depth })).map((e) => e.path);
  assert.deepEqual(await names(1), ["/home/user/d/a", "/home/user/d/sub"]);
  assert.deepEqual(await names(2), ["/home/user/d/a", "/home/user/d/sub", "/home/user/d/sub/x"]);
  const info = await files.getInfo("d/sub/x");
  assert.deepEqual([info.size, info.mode, info.permissions, info.owner, info.group], [3, 0o644, "-rw-r--r--", "user", "user"]);
  assert.equal((await files.rename("d/sub/x", "d/moved")).path, "/home/user/d/moved");
  assert.deepEqual([await files.exists("d/moved"), await files.exists("d/sub/x")], [true, false]);
  await assert.rejects(files.rename("missing", "x"), FileNotFoundError);
  await assert.rejects(files.getInfo("missing"), FileNotFoundError);
  await files.remove("d");
  assert.equal(await files.exists("d"), false);
  await files.remove("d");
});

test("a watcher tells what is written below it, in new directories too, until it is stopped", async (make) => {
  const { files } = await make();
  await files.makeDir("w/old");
  const [events, ends] = [heard(), heard()];
  const handle = await files.watchDir("w", events.tell, { recursive: true, onExit: ends.tell });
  await files.write("w/old/file", "x");
  const saw = (name, type) => (all) => all.some((e) => e.name === name && e.type === type);
  await events.until(saw("old/file", FilesystemEventType.WRITE));
  await files.makeDir("w/new");
  await events.until(saw("new", FilesystemEventType.CREATE));
  await files.write("w/new/file", "x");
  await events.until(saw("new/file", FilesystemEventType.WRITE));
  await handle.stop();
  await ends.until((all) => all.length === 1);
  await files.write("w/single", "");
  await assert.rejects(files.watchDir("missing", () => {}), FileNotFoundError);
  await assert.rejects(files.watchDir("w/single", () => {}), SandboxError);
});

test("a signed address opens its file to whoever has it, and a token opens its own sandbox alone", async (make) => {
  const [sandbox, other] = [await make(), await make()];
  const form = new FormData();
  form.append("file", new Blob([bytes("sent")]), "s.txt");
  const sent = await fetch(await sandbox.uploadUrl("s.txt"), { method: "POST", body: form });
  assert.deepEqual([sent.status, (await sent.json())[0].path], [200, "/home/user/s.txt"]);
  const url = await sandbox.downloadUrl("s.txt", { useSignatureExpiration: 60_000 });
  assert.equal(await (await fetch(url)).text(), "sent");
  assert.equal((await fetch(url.replace("s.txt", "t.txt"))).status, 401);
  for (const envdAccessToken of [undefined, other.envdAccessToken]) {
    const { sandboxId, sandboxDomain } = sandbox;
    const stranger = new Sandbox({ sandboxId, sandboxDomain, envdVersion: "0.6.13", envdAccessToken });
    await assert.rejects(stranger.files.read("s.txt"), AuthenticationError);
    await assert.rejects(stranger.commands.run("true"), AuthenticationError);
  }
});
