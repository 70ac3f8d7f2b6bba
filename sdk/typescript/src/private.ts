// SPDX-License-Identifier: Apache-2.0
/**
 * Where the daemon is when nobody says: CLOCHE_URL, then the local socket, and then one of our own.
 *
 * A private daemon is started where a `cloche` program is at hand (CLOCHE_PROGRAM, or in PATH) and this process may run it. All
 * clients of the process share it, and it ends with the process, however that ends: it holds the other end of a pipe that only
 * this process has open. Its files are in a directory of its own, which is deleted; where a process was killed, by the next one.
 */
import { ConnectionFailed } from "./errors.js";
import { DEFAULT_SOCKET, type Endpoint, env, parseEndpoint } from "./wire.js";

const PLACE = "/var/tmp/cloche-private-"; // then the process's id, and something that is new
const READY_MS = 60_000;
const STOP_MS = 60_000;

let running: Promise<Endpoint> | undefined;

export async function locate(): Promise<Endpoint> {
  const usual = parseEndpoint(env("CLOCHE_URL") ?? `unix:${DEFAULT_SOCKET}`);
  if (env("CLOCHE_URL")) return usual;
  const program = await findProgram().catch(() => undefined); // a runtime without Node's modules
  if (program === undefined) return usual;
  return (running ??= start(program).catch((error) => {
    running = undefined;
    throw error;
  }));
}

/** What to run, where a private daemon is needed and may be had. */
async function findProgram(): Promise<string | undefined> {
  const { existsSync } = await import("node:fs");
  const { delimiter, join } = await import("node:path");
  if (existsSync(DEFAULT_SOCKET) || process.geteuid?.() !== 0) return undefined;
  const paths = (env("PATH") ?? "").split(delimiter).map((path) => join(path, "cloche"));
  return env("CLOCHE_PROGRAM") ?? paths.find((path) => existsSync(path));
}

async function start(program: string): Promise<Endpoint> {
  const fs = await import("node:fs");
  const { spawn } = await import("node:child_process");
  await sweep();
  const dir = fs.mkdtempSync(`${PLACE}${process.pid}-`);
  fs.chmodSync(dir, 0o755); // its gateway is another user
  const log = fs.openSync(`${dir}/log`, "w");
  const places = ["--data", `${dir}/data`, "--run", `${dir}/run`, "--listen", "none"];
  const child = spawn(program, ["serve", ...places, "--rm", "--ready-fd", "3", "--life-fd", "4"], {
    stdio: ["ignore", log, log, "pipe", "pipe"],
    detached: true,
  });
  fs.closeSync(log);
  const [ready, life] = [child.stdio[3] as import("node:net").Socket, child.stdio[4] as import("node:net").Socket];
  try {
    await saysReady(child, ready);
  } catch (error) {
    life.destroy();
    const said = fs.readFileSync(`${dir}/log`, "utf8").trim().split("\n").pop();
    fs.rmSync(dir, { recursive: true, force: true });
    throw new ConnectionFailed(`a private daemon (${program}) did not start: ${said || (error as Error).message}`, { cause: error });
  }
  ready.destroy();
  life.unref();
  child.unref();
  process.once("exit", () => {
    child.kill();
    const clock = new Int32Array(new SharedArrayBuffer(4)); // the only way to wait here
    for (const end = Date.now() + STOP_MS; Date.now() < end && fs.existsSync(`/proc/${child.pid}/exe`); ) Atomics.wait(clock, 0, 0, 10);
    fs.rmSync(dir, { recursive: true, force: true });
  });
  return { origin: "http://localhost", socketPath: `${dir}/run/cloche.sock` };
}

function saysReady(child: import("node:child_process").ChildProcess, ready: import("node:net").Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("it was not ready in time")), READY_MS);
    ready.once("data", () => {
      clearTimeout(timer);
      resolve();
    });
    child.once("error", reject);
    child.once("exit", () => reject(new Error("it ended")));
  });
}

/** Deletes what processes left that were killed. */
async function sweep(): Promise<void> {
  const fs = await import("node:fs");
  const { basename, dirname, join } = await import("node:path");
  for (const name of fs.readdirSync(dirname(PLACE))) {
    if (!name.startsWith(basename(PLACE))) continue;
    const path = join(dirname(PLACE), name);
    const owner = name.slice(basename(PLACE).length).split("-")[0];
    if (!fs.existsSync(`/proc/${owner}`) && !(await answers(`${path}/run/cloche.sock`))) fs.rmSync(path, { recursive: true, force: true });
  }
}

async function answers(path: string): Promise<boolean> {
  const { connect } = await import("node:net");
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
