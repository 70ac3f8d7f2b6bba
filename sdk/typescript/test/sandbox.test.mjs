// SPDX-License-Identifier: Apache-2.0
// The SDK against a real daemon, which CLOCHE_URL and CLOCHE_API_KEY name.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { after, before, describe, test } from "node:test";
import * as cloche from "cloche";

const { Client, Sandbox } = cloche;
const client = new Client();
let sandbox;

before(async () => {
  sandbox = await Sandbox.create({ client, tags: { suite: "typescript" } });
});
after(async () => {
  await sandbox.close();
  client.close();
});

async function lastOf(iterable) {
  let last;
  for await (const item of iterable) last = item;
  return last;
}

describe("a sandbox", () => {
  test("is found by id and among the list", async () => {
    const same = await Sandbox.attach(sandbox.id, { client });
    assert.equal(same.info.state, "running");
    const ids = [];
    for await (const one of Sandbox.list({ client, tag: "suite:typescript", pageSize: 1 })) ids.push(one.id);
    assert.ok(ids.includes(sandbox.id));
  });

  test("is made by its first call when it was only constructed", async () => {
    const late = new Sandbox({ client });
    assert.throws(() => late.id, { hint: "await sandbox.open()" });
    assert.equal((await late.run("echo here")).stdout, "here\n");
    await late.close();
    assert.equal((await late.refresh()).ended.cause, "deleted");
  });

  test("is made by the first call to its files, interpreters or execs, too, and once", async () => {
    const late = new Sandbox({ client });
    const [entry, contexts] = await Promise.all([late.files.write("a", "b"), late.contexts.list(), late.fs.mkdir("c")]);
    assert.deepEqual([entry.size, Array.isArray(contexts), await late.fs.readFile("a", "utf8")], [1, true, "b"]);
    await late.close();
    const later = new Sandbox({ client });
    await assert.rejects(later.exec("ex_none"), cloche.NotFound);
    await later.close();
  });

  test("is one for all who ask for a name, and tells who made it", async () => {
    const name = `ts-${randomBytes(4).toString("hex")}`;
    const calls = [];
    const options = { client, name, onCreate: () => calls.push("create"), onResume: () => calls.push("resume") };
    const made = await Promise.all([1, 2, 3, 4].map(() => Sandbox.getOrCreate(options)));
    assert.equal(new Set(made.map((s) => s.id)).size, 1);
    assert.deepEqual(calls, ["create"]);
    await made[0].close();
    await Sandbox.getOrCreate(options);
    assert.deepEqual(calls, ["create", "resume"]);
    await made[0].delete();
  });

  test("pauses, resumes, extends and changes", async () => {
    assert.equal((await sandbox.pause()).state, "paused");
    assert.equal((await sandbox.resume()).state, "running");
    await sandbox.update({ lifetimeMs: 60_000, tags: { suite: "typescript", a: "b" } });
    const before = sandbox.info.expiresAt;
    await sandbox.extend(60_000);
    assert.ok(sandbox.info.expiresAt > before);
    assert.equal(sandbox.info.tags.a, "b");
  });

  test("takes the words of other sandboxes", async () => {
    const other = await Sandbox.create({
      client,
      runtime: "host",
      timeout: 60_000,
      idle_timeout_seconds: 30,
      networkPolicy: "deny-all",
      resources: { vcpu: 0.5, memory: 256 },
      ports: [],
    });
    const { raw, limits } = other.info;
    assert.deepEqual([raw.template, raw.timeout_ms, raw.idle_timeout_ms, raw.network], ["host", 60_000, 30_000, "deny-all"]);
    assert.deepEqual([limits.vcpus, limits.memory_mib], [0.5, 256]);
    await other.writeFiles([{ path: "src/main.sh", content: Buffer.from("echo to stdout; echo to stderr >&2; exit 3\n") }]);
    const result = await other.runCommand("sh", ["src/main.sh"]);
    assert.deepEqual([result.exitCode, await result.stdout(), await result.stderr()], [3, "to stdout\n", "to stderr\n"]);
    const { stdout, exitCode } = await other.exec({ cmd: ["echo", "$HOME"], timeoutMs: 15_000 });
    assert.deepEqual([stdout, exitCode], ["$HOME\n", 0]);
    const running = await other.runCommand({ cmd: "sh", args: ["-c", "id -u; echo $A >&2; exec sleep 7654"], env: { A: "b" }, sudo: true, detached: true });
    assert.equal(running.exitCode, null);
    const logs = running.logs();
    const first = [(await logs.next()).value, (await logs.next()).value];
    assert.deepEqual([...first].sort((a, b) => (a.stream < b.stream ? 1 : -1)), [{ stream: "stdout", data: "0\n" }, { stream: "stderr", data: "b\n" }]);
    const again = await other.getCommand(running.cmdId);
    await again.kill();
    const finished = await running.wait();
    assert.deepEqual([finished.exitCode, running.exitCode, await finished.stdout(), await again.output()], [143, 143, "0\n", first.map((l) => l.data).join("")]);
    await other.stop();
    await other.delete();
  });

  test("ends with its scope", async () => {
    const scoped = await Sandbox.create({ client });
    await scoped[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
    assert.equal((await scoped.refresh()).ended.cause, "deleted");
    await scoped.close(); // again is fine
  });
});

describe("a command", () => {
  test("gives output, exit code and the error of its cause", async () => {
    const result = await sandbox.run("cat; exit 3", { stdin: "in" });
    assert.deepEqual([result.stdout, result.exitCode], ["in", 3]);
    assert.throws(() => result.check(), cloche.ExecFailed);
    const late = await sandbox.run("sleep 60", { timeoutMs: 50 });
    assert.throws(() => late.check(), cloche.ExecTimedOut);
  });

  test("keeps every byte, and streams text that is cut in two whole", async () => {
    const bytes = await sandbox.run(["printf", "\\377\\000x"]);
    assert.deepEqual([...bytes.stdoutBytes], [255, 0, 120]);
    let text = "";
    const halves = "printf '\\303'; sleep 0.2; printf '\\251'; printf err >&2";
    let errors = "";
    const whole = await sandbox.run(halves, { onStdout: (s) => (text += s), onStderr: (s) => (errors += s) });
    assert.deepEqual([text, errors], ["é", "err"]);
    assert.deepEqual([whole.stdout, whole.stderr, whole.stdoutTruncated], ["é", "err", false]);
    const failed = await sandbox.runCode("import sys; print('seen', end='', file=sys.stderr); 1/0", { onStderr: () => undefined });
    assert.deepEqual([failed.printedStderr, failed.stderr.split("\n")[0]], ["seen", "seen"]);
    assert.match(failed.stderr, /ZeroDivisionError: division by zero\n$/);
  });

  test("goes on by itself, and is found, fed, watched and killed", async () => {
    const exec = await sandbox.start("while read line; do echo got $line; done; exit 7", { openStdin: true });
    await exec.writeStdin("one\n");
    await exec.writeStdin("two\n", { eof: true });
    assert.equal((await exec.wait()).exitCode, 7);
    const again = await sandbox.exec(exec.id);
    let text = "";
    for await (const event of again.output()) if (event.type === "stdout") text += new TextDecoder().decode(event.data);
    assert.equal(text, "got one\ngot two\n");
    const sleeper = await sandbox.start(["sleep", "1000"]);
    assert.equal((await sleeper.wait({ timeoutMs: 10 })).isOver, false);
    assert.equal((await sleeper.kill()).signal, 9);
    assert.ok((await sandbox.execs()).some((e) => e.id === sleeper.id));
  });

  test("has a terminal of the size that is asked for", async () => {
    const result = await sandbox.run("test -t 0 && stty size", { pty: { rows: 33, cols: 99 } });
    assert.match(result.stdout, /33 99/);
  });

  test("is given up by an abort, and killed if it was told so", async () => {
    const stop = new AbortController();
    const marker = `/tmp/${randomBytes(4).toString("hex")}`;
    const call = sandbox.run(`trap 'touch ${marker}; exit 0' TERM HUP; sleep 1000 & wait`, {
      signal: stop.signal,
      killOnDisconnect: true,
      onStdout: () => undefined,
    });
    setTimeout(() => stop.abort(new Error("enough")), 100);
    await assert.rejects(call, { message: "enough" });
    for (let i = 0; i < 600; i++) {
      if (!(await sandbox.execs()).some((e) => e.info.state === "running")) return;
      await new Promise((go) => setTimeout(go, 50));
    }
    assert.fail("it still runs");
  });
});

describe("code", () => {
  test("keeps its state from call to call", async () => {
    await sandbox.runCode("x = 20");
    const result = await sandbox.runCode("print('hi'); x + 1");
    assert.deepEqual([result.stdout, result.text, result.status, result.exitCode], ["hi\n", "21", "ok", 0]);
  });

  test("fails without an exception, and says how", async () => {
    const result = await sandbox.runCode("1/0");
    assert.deepEqual([result.status, result.error.name, result.exitCode], ["error", "ZeroDivisionError", 1]);
    assert.match(result.error.traceback.join("\n"), /ZeroDivisionError/);
  });

  test("streams output and results", async () => {
    let out = "";
    const shown = [];
    const result = await sandbox.runCode("for i in range(3): print(i)\n'last'", {
      onStdout: (chunk) => (out += chunk),
      onResult: (r) => shown.push(r.text),
    });
    assert.deepEqual([out, shown, result.stdout], ["0\n1\n2\n", ["'last'"], "0\n1\n2\n"]);
    const last = await lastOf(sandbox.runCodeStream("echo $((6*7))", "bash"));
    assert.deepEqual([last.type, last.code], ["exit", 0]);
  });

  test("runs in contexts that know nothing of each other", async () => {
    const [a, b] = [await sandbox.contexts.create(), await sandbox.contexts.create({ language: "bash" })];
    await sandbox.runCode("y = 1", { context: a.id });
    assert.equal((await sandbox.runCode("echo $0", { context: b.id })).status, "ok");
    assert.equal((await sandbox.runCode("y")).error.name, "NameError");
    assert.deepEqual((await sandbox.contexts.list()).filter((c) => [a.id, b.id].includes(c.id)).length, 2);
    await sandbox.contexts.restart(a.id);
    assert.equal((await sandbox.runCode("y", { context: a.id })).error.name, "NameError");
    await sandbox.contexts.remove(a.id);
    await assert.rejects(sandbox.contexts.get(a.id), cloche.NotFound);
  });
});

describe("files", () => {
  test("are written, read, listed, moved and removed", async () => {
    const { files } = sandbox;
    const data = randomBytes(300_000);
    const entry = await files.write("dir/a.bin", data, { parents: true, mode: 0o640 });
    assert.deepEqual([entry.size, entry.mode, entry.isFile], [300_000, 0o640, true]);
    assert.deepEqual(Buffer.from(await files.read("dir/a.bin")), data);
    assert.deepEqual(Buffer.from(await files.read("dir/a.bin", { offset: 10, length: 5 })), data.subarray(10, 15));
    await files.append("dir/text", "one");
    await files.append("dir/text", "two");
    assert.equal(await files.readText("dir/text"), "onetwo");
    await files.copy("dir", "copy", { recursive: true });
    await files.move("copy/text", "copy/moved");
    await files.symlink("copy/link", "moved");
    await files.chmod("copy/moved", 0o600);
    const names = (await files.list("copy")).map((e) => e.name).sort();
    assert.deepEqual(names, ["a.bin", "link", "moved"]);
    assert.equal((await files.stat("copy/link")).target, "moved");
    assert.equal((await files.stat("copy/link", { follow: true })).mode, 0o600);
    await files.remove("copy", { recursive: true });
    assert.equal(await files.exists("copy"), false);
    await assert.rejects(files.read("copy"), cloche.FileMissing);
    await files.remove("copy", { missingOk: true });
  });

  test("stream both ways, and as archives", async () => {
    const piece = randomBytes(64 * 1024);
    async function* pieces() {
      for (let i = 0; i < 32; i++) yield piece;
    }
    await sandbox.files.write("big", pieces());
    let length = 0;
    for await (const part of sandbox.files.readStream("big")) length += part.length;
    assert.equal(length, 32 * piece.length);
    await sandbox.files.mkdir("out/deep", { parents: true });
    const archive = sandbox.files.tarOut("dir", { compress: "gzip" });
    assert.ok((await sandbox.files.tarIn("out", archive, { compress: "gzip" })).entries > 0);
    assert.equal(await sandbox.files.readText("out/text"), "onetwo");
  });

  test("tell of their changes", async () => {
    await sandbox.files.mkdir("watched");
    for await (const event of sandbox.files.watch("watched")) {
      if (event.type === "ready") await sandbox.files.write("watched/new", "x");
      if ((event.to ?? event.path) === "new") break;
    }
  });
});

describe("the rest", () => {
  test("errors name the field and say what to do", async () => {
    await assert.rejects(Sandbox.create({ client, limits: { memory_mib: 1 } }), (error) => {
      assert.ok(error instanceof cloche.InvalidField);
      assert.equal(error.field, "limits.memory_mib");
      assert.ok(error.requestId);
      return true;
    });
    const nobody = new Client({ url: "unix:/nonexistent/cloche.sock" });
    await assert.rejects(nobody.createKey("x"), cloche.ConnectionFailed);
    assert.throws(() => new Client({ url: "ftp://x" }), TypeError);
  });

  test("an end may come twice", async () => {
    const sandbox = await Sandbox.create({ client });
    for (let i = 0; i < 3; i++) assert.equal((await sandbox.delete()).id, sandbox.id);
    assert.equal((await sandbox.stop()).id, sandbox.id);
  });

  test("one call runs a command or code in a sandbox of its own", async () => {
    assert.equal((await client.run(["echo", "once"])).stdout, "once\n");
    const file = { path: "in.txt", text: "text of the file" };
    let out = "";
    await client.runCode("print(open('in.txt').read())", { files: [file], onStdout: (s) => (out += s) });
    assert.equal(out, "text of the file\n");
  });

  test("policies, ports, usage and events are told", async () => {
    assert.equal((await sandbox.network()).kind, "deny-all");
    await sandbox.setNetwork({ allow: ["example.com"] });
    assert.equal((await sandbox.explainNetwork("https://example.com/")).allowed, true);
    assert.equal((await sandbox.explainNetwork("https://example.org/")).allowed, false);
    await sandbox.setNetwork("deny-all");
    assert.match(await sandbox.portUrl(3000), /3000/);
    assert.deepEqual((await sandbox.ports()).map((p) => p.port), [3000]);
    await sandbox.closePort(3000);
    assert.ok((await sandbox.usage()).usage.execs > 0);
    const types = new Set();
    for await (const event of client.events({ sandbox: sandbox.id })) types.add(event.type);
    assert.ok(types.has("sandbox.created") && types.has("exec.exited"));
    assert.equal((await client.templates())[0].name, "host");
    assert.ok(Array.isArray(await client.usage()));
  });

  test("fetch does where Node's own HTTP must not be used", async () => {
    const url = process.env.CLOCHE_URL;
    if (url.startsWith("unix:")) return;
    const fetching = new Client({ fetch: (...args) => fetch(...args) });
    const same = await Sandbox.get(sandbox.id, { client: fetching });
    async function* pieces() {
      yield Buffer.from("by ");
      yield Buffer.from("fetch");
    }
    await same.files.write("fetched", pieces());
    let out = "";
    await same.run(["cat", "fetched"], { onStdout: (s) => (out += s) });
    assert.equal(out, "by fetch");
    await assert.rejects(same.files.read("no-such-file"), cloche.FileMissing);
  });

  test("CommonJS programs have the same", () => {
    const required = createRequire(import.meta.url)("cloche");
    assert.deepEqual(Object.keys(required).sort(), Object.keys(cloche).sort());
  });
});
