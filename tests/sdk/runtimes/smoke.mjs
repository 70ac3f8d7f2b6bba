// SPDX-License-Identifier: Apache-2.0
// What a program does with the SDK, in whichever runtime it is run, with a client of these options.
import { Client, ConnectionFailed, FileMissing, Sandbox } from "cloche";

function same(given, wanted, what) {
  const [a, b] = [JSON.stringify(given), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
}

async function fails(promise, kind, what) {
  const error = await promise.then(() => undefined, (e) => e);
  if (!(error instanceof kind)) throw new Error(`${what}: ${error}, not ${kind.name}`);
}

async function commands(sandbox) {
  const done = await sandbox.run("echo out; echo err >&2; exit 3");
  same([done.stdout, done.stderr, done.exitCode], ["out\n", "err\n", 3], "a command");
  const exec = await sandbox.start("read x; echo got $x; sleep 7654", { openStdin: true });
  await exec.writeStdin("line\n");
  for await (const event of exec.output()) {
    same(new TextDecoder().decode(event.data), "got line\n", "output while it runs");
    break; // leaves the rest
  }
  same((await exec.kill()).signal, 9, "a kill");
  const abort = new AbortController();
  const late = sandbox.run("sleep 7654", { signal: abort.signal, killOnDisconnect: true });
  setTimeout(() => abort.abort(new RangeError("enough")), 50);
  await fails(late, RangeError, "an abort");
}

async function terminal(sandbox) {
  const exec = await sandbox.start("stty size; read x; echo got $x", { pty: { rows: 40, cols: 120 } });
  let screen = "";
  for await (const event of exec.output()) {
    if (!screen && event.data.length) await exec.writeStdin("line\n");
    screen += new TextDecoder().decode(event.data);
  }
  same([screen.startsWith("40 120\r\n"), screen.endsWith("got line\r\n")], [true, true], `a terminal: ${screen}`);
}

async function code(sandbox) {
  const printed = [];
  await sandbox.runCode("x = 20\nprint('grün')", { onStdout: (chunk) => printed.push(chunk) });
  same([printed.join(""), (await sandbox.runCode("x + 22")).text], ["grün\n", "42"], "code");
}

async function files(sandbox) {
  const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i % 256);
  await sandbox.files.write("d/blob", bytes, { parents: true });
  const back = await sandbox.files.read("d/blob");
  same([back.length, back.every((b, i) => b === bytes[i])], [bytes.length, true], "bytes");
  await sandbox.files.write("d/stream", new Blob([bytes, "end"]).stream());
  same((await sandbox.files.stat("d/stream")).size, bytes.length + 3, "a stream");
  let size = 0;
  for await (const piece of sandbox.files.readStream("d/stream")) size += piece.length;
  same(size, bytes.length + 3, "a stream back");
  await fails(sandbox.files.read("none"), FileMissing, "a missing file");
}

async function all(client) {
  const sandbox = await Sandbox.create({ client });
  try {
    await commands(sandbox);
    await terminal(sandbox);
    await code(sandbox);
    await files(sandbox);
  } finally {
    await sandbox.close();
  }
  same((await sandbox.refresh()).ended.cause, "deleted", "its end");
  client.close();
}

export async function smoke(options) {
  await all(new Client(options));
  const nobody = new Client({ ...options, url: "http://127.0.0.1:1" });
  await fails(nobody.run("true"), ConnectionFailed, "nobody there");
}
