// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { enc, failure, out, sh, test } from "./rig.mjs";

test("files are written with parents, mode, owner and every byte", async (make) => {
  const sandbox = await make();
  const bytes = randomBytes(300_000);
  const long = "n".repeat(200);
  await sandbox.writeFiles([
    { path: "deep/er/a.txt", content: enc("relative") },
    { path: "/tmp/b.bin", content: bytes },
    { path: "run.sh", content: enc("#!/bin/sh\necho ran\n"), mode: 0o755 },
    { path: `é€/${long}`, content: enc("named") },
  ]);
  assert.equal(await out(sandbox, "cat", ["deep/er/a.txt"]), "relative");
  assert.deepEqual(await sandbox.readFileToBuffer({ path: "/tmp/b.bin" }), bytes);
  assert.equal(await out(sandbox, "./run.sh"), "ran\n");
  assert.equal(await out(sandbox, "cat", [`é€/${long}`]), "named");
  assert.equal(await out(sandbox, "stat", ["-c", "%U %a", "deep/er/a.txt"]), "ubuntu 644\n");
  await sandbox.writeFiles([{ path: "deep/er/a.txt", content: enc("new") }]);
  assert.equal(await out(sandbox, "cat", ["deep/er/a.txt"]), "new");
  await sandbox.writeFiles([]);
  const refused = await failure(sandbox.writeFiles([{ path: "/root/x", content: enc("x") }]));
  assert.equal(refused.status, 400);
});

test("a file is read as a stream, by its directory, or is null", async (make) => {
  const sandbox = await make();
  await sandbox.writeFiles([{ path: "/tmp/d/x", content: enc("data") }, { path: "/tmp/empty", content: enc("") }]);
  const pieces = [];
  for await (const piece of await sandbox.readFile({ path: "x", cwd: "/tmp/d" })) pieces.push(piece);
  assert.equal(Buffer.concat(pieces).toString(), "data");
  assert.equal(await sandbox.readFile({ path: "/tmp/nothing" }), null);
  assert.equal((await sandbox.readFileToBuffer({ path: "/tmp/empty" })).length, 0);
  assert.equal((await failure(sandbox.readFile({ path: "/tmp" }))).status, 400);
  const here = await mkdtemp(join(tmpdir(), "cloche-vercel-"));
  try {
    const to = join(here, "sub", "x");
    assert.equal(await sandbox.downloadFile({ path: "/tmp/d/x" }, { path: to }, { mkdirRecursive: true }), to);
    assert.equal(await readFile(to, "utf8"), "data");
    assert.equal(await sandbox.downloadFile({ path: "/tmp/nothing" }, { path: to }), null);
  } finally {
    await rm(here, { recursive: true });
  }
});

test("a directory is made where there is none and its parent is", async (make) => {
  const sandbox = await make();
  await sandbox.mkDir("/tmp/x");
  assert.equal((await failure(sandbox.mkDir("/tmp/no/y"))).status, 400);
  assert.equal((await failure(sandbox.mkDir("/tmp/x"))).status, 400);
});

test("the fs facade does as node's", async (make) => {
  const { fs } = await make();
  await fs.mkdir("/tmp/f/g", { recursive: true });
  await fs.writeFile("/tmp/f/a", "one");
  await fs.appendFile("/tmp/f/a", " two");
  assert.equal(await fs.readFile("/tmp/f/a", "utf8"), "one two");
  await fs.symlink("a", "/tmp/f/l");
  assert.equal(await fs.readlink("/tmp/f/l"), "a");
  assert.equal(await fs.realpath("/tmp/f/l"), "/tmp/f/a");
  assert.deepEqual((await fs.readdir("/tmp/f")).sort(), ["a", "g", "l"]);
  const kinds = Object.fromEntries((await fs.readdir("/tmp/f", { withFileTypes: true })).map((e) => [e.name, [e.isFile(), e.isDirectory(), e.isSymbolicLink()]]));
  assert.deepEqual(kinds, { a: [true, false, false], g: [false, true, false], l: [false, false, true] });
  await fs.chmod("/tmp/f/a", 0o600);
  const stat = await fs.stat("/tmp/f/a");
  assert.deepEqual([stat.size, stat.mode & 0o777, stat.isFile()], [7, 0o600, true]);
  await fs.truncate("/tmp/f/a", 3);
  await fs.copyFile("/tmp/f/a", "/tmp/f/b");
  await fs.rename("/tmp/f/b", "/tmp/f/g/b");
  assert.equal(await fs.readFile("/tmp/f/g/b", "utf8"), "one");
  assert.equal((await failure(fs.rmdir("/tmp/f"))).error.code, "ENOTEMPTY");
  assert.equal((await failure(fs.stat("/tmp/none"))).error.code, "ENOENT");
  assert.match(await fs.mkdtemp("/tmp/m-"), /^\/tmp\/m-/);
  await fs.rm("/tmp/f", { recursive: true });
  assert.equal(await fs.exists("/tmp/f"), false);
});

test("users and groups that are made inside have their own homes and share what they are to", async (make) => {
  const sandbox = await make();
  const alice = await sandbox.createUser("alice");
  const bob = await sandbox.createUser("bob");
  assert.equal(await out(alice, "whoami"), "alice\n");
  await alice.writeFiles([{ path: "mine", content: enc("secret") }]);
  assert.equal((await alice.readFileToBuffer({ path: "mine" })).toString(), "secret");
  assert.notEqual((await bob.runCommand("cat", ["/home/alice/mine"])).exitCode, 0);
  const group = await sandbox.createGroup("team");
  await alice.addToGroup("team");
  await bob.addToGroup("team");
  assert.equal((await alice.runCommand("sh", ["-c", `echo shared > ${group.sharedDir ?? "/shared/team"}/s`])).exitCode, 0);
  assert.equal(await out(bob, "cat", ["/shared/team/s"]), "shared\n");
});

test("a file of many megabytes goes in and out as it is", async (make) => {
  const sandbox = await make();
  const bytes = randomBytes(20_000_000);
  await sandbox.writeFiles([{ path: "/tmp/big", content: bytes }]);
  assert.equal((await out(sandbox, "sh", ["-c", "wc -c < /tmp/big"])).trim(), "20000000");
  assert.ok((await sandbox.readFileToBuffer({ path: "/tmp/big" })).equals(bytes));
});
