// SPDX-License-Identifier: Apache-2.0
/**
 * Client and Sandbox: the daemon, and one isolated computer that it runs. A client makes sandboxes, and a sandbox that is given no
 * client makes one: so both are here. What else a client can ask is in daemon.ts.
 *
 *     await using sandbox = await Sandbox.create();
 *     const { stdout } = await sandbox.run("echo $((6*7))");
 */
import { CodeEvent, type CodeOptions, CodeResult, Contexts, codeBody, codeEvents, collectCode } from "./code.js";
import { Daemon, type DiffOptions } from "./daemon.js";
import { ApplyConflict, ClocheError, ConnectionFailed, Gone, NotFound, Unavailable, errorOfBody } from "./errors.js";
import {
  type Command,
  Exec,
  type ExecEvent,
  ExecResult,
  type RunOptions,
  type StartOptions,
  collect,
  events,
  execBody,
} from "./exec.js";
import { type CallOptions, ExecInfo } from "./exec-info.js";
import { Files, type WriteOptions } from "./files.js";
import { Fs } from "./fs.js";
import { checkNames } from "./names.js";
import { checkOptions } from "./option-names.js";
import { type LanguageWord, type NetworkPolicy, type Port, type SandboxFields, SandboxInfo, type SandboxState, type Snapshot, createBody, idOf } from "./options.js";
import { type CommandParams, FinishedCommand, type OtherSpellings, RunningCommand, ownWords } from "./spellings.js";
import { readAll } from "./transport.js";
import { FOREVER, type Json, NDJSON, type RequestParts, type Source, jsonLines, request } from "./wire.js";

export interface SandboxOptions extends SandboxFields {
  client?: Client;
}

export interface GetOrCreateOptions extends SandboxOptions {
  onCreate?: (sandbox: Sandbox) => unknown;
  onResume?: (sandbox: Sandbox) => unknown;
}

export interface SnapshotOptions {
  name?: string;
  /** Save running programs, too. */
  memory?: boolean;
  /** What to do with `memory` about an open TCP connection: take no snapshot ("refuse", the default), or let the copies find it closed. */
  onConnection?: "refuse" | "close";
  /** Removes the snapshot after this time. Default: never. */
  expiresInMs?: number;
  /** Keeps only so many of this sandbox's snapshots and removes older ones; those with a name stay. */
  keepLast?: number;
}

/** The result of fork(). Both fields are null if only files were copied. */
export interface Forks extends Array<Sandbox> {
  memoryBy: "imprint" | "criu" | "machine" | null;
  memoryWhy: string | null;
}

/** With several forks, -1, -2 … is appended to `name` and `alias`. */
export interface ForkOptions
  extends Pick<SandboxOptions, "name" | "group" | "alias" | "tags" | "env" | "network" | "lifetimeMs" | "idleTimeoutMs" | "onTimeout" | "persistent" | "results"> {
  /** Copy running programs, too. Default: true. */
  memory?: boolean;
  /** What to do about an open TCP connection: do not fork ("refuse", the default), or let the copies find it closed ("close"). */
  onConnection?: "refuse" | "close";
}

const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

export class Sandbox {
  readonly client: Client;
  private opened: Promise<void> | undefined;
  private current: SandboxInfo | undefined;
  private readonly portUrls = new Map<number, string>();
  private parts: { files: Files; contexts: Contexts; fs: Fs } | undefined;
  private isGivenUp = false;

  /** One that is yet to be made, by open() or the first call to it. */
  constructor(private readonly options: SandboxOptions & OtherSpellings = {}) {
    checkOptions("sandbox", options);
    this.client = options.client ?? new Client();
  }

  /** Creates a sandbox. It runs when this resolves. */
  static async create(options: SandboxOptions & OtherSpellings = {}): Promise<Sandbox> {
    return new Sandbox(options).open();
  }

  /**
   * Gets the sandbox of that name (`default` without one). Creates it if it does not exist, and resumes it if it is stopped or
   * paused. All callers, in any process, get the same sandbox. `onCreate` is awaited if this call created it, `onResume` if
   * this call resumed it.
   */
  static async getOrCreate(options: GetOrCreateOptions & OtherSpellings = {}): Promise<Sandbox> {
    const { onCreate, onResume, ...rest } = options;
    const sandbox = new Sandbox({ persistent: true, ...rest, name: rest.name ?? "default" });
    await sandbox.make({ get_or_create: true });
    if (sandbox.info.created) await onCreate?.(sandbox);
    if (sandbox.info.resumed) await onResume?.(sandbox);
    return sandbox;
  }

  /** Gets an existing sandbox by its id or name, also one that another program created. */
  static async get(idOrName: string, options: { client?: Client } & CallOptions = {}): Promise<Sandbox> {
    checkNames("get", { client: 1, signal: 1 }, options);
    const client = options.client ?? new Client();
    const req = request("GET", ["sandboxes", idOrName], { signal: options.signal });
    return Sandbox.of(client, new SandboxInfo(await client.call(req)));
  }

  /** The same as get(). */
  static attach(idOrName: string, options: { client?: Client } & CallOptions = {}): Promise<Sandbox> {
    return Sandbox.get(idOrName, options);
  }

  /** Lists the sandboxes that match, newest first. Further pages are fetched as needed. `tag` is NAME:VALUE. */
  static async *list(
    options: { client?: Client; tag?: string; state?: SandboxState; group?: string; pageSize?: number } = {},
  ): AsyncGenerator<Sandbox> {
    checkNames("list", { client: 1, tag: 1, state: 1, group: 1, pageSize: 1 }, options);
    const client = options.client ?? new Client();
    const { tag, state, group, pageSize: limit } = options;
    for await (const one of client.pages(["sandboxes"], "sandboxes", { tag, state, group, limit }))
      yield Sandbox.of(client, new SandboxInfo(one));
  }

  /** Creates many equal sandboxes: see Client.createMany(). */
  static async *createMany(count: number, options: SandboxOptions & OtherSpellings = {}): AsyncGenerator<Sandbox> {
    checkOptions("sandbox", options);
    const client = options.client ?? new Client();
    const own = ownWords(options);
    const req = request("POST", ["sandboxes:batch"], {
      body: { ...createBody(own), count },
      accept: NDJSON,
      idempotencyKey: own.idempotencyKey ?? globalThis.crypto.randomUUID(),
      timeoutMs: FOREVER,
      signal: own.signal,
    });
    const seen = new Set<number>();
    const failed = new Map<number, ClocheError>();
    let batchId = "";
    for (let tries = 0; ; tries++) {
      try {
        for await (const line of jsonLines((await client.open(req)).pieces())) {
          batchId = line["batch_id"] ?? batchId;
          if (line["type"] === "ended") {
            if (failed.size > 0) throw new BatchError(batchId, failed);
            return;
          }
          if ((line["type"] !== "sandbox" && line["type"] !== "failed") || seen.has(line["index"])) continue;
          seen.add(line["index"]);
          tries = 0;
          if (line["type"] === "failed") failed.set(line["index"], errorOfBody(0, line));
          else yield Sandbox.of(client, new SandboxInfo(line["sandbox"]));
        }
        throw new ConnectionFailed("the daemon ended the list of a batch early");
      } catch (error) {
        const passes = error instanceof ConnectionFailed || error instanceof Unavailable;
        if (!passes || tries >= 5 || own.signal?.aborted) throw error;
        await new Promise((go) => setTimeout(go, 100 * 2 ** tries));
      }
    }
  }

  private static of(client: Client, info: SandboxInfo): Sandbox {
    const sandbox = new Sandbox({ client });
    sandbox.opened = Promise.resolve();
    sandbox.current = info;
    return sandbox;
  }

  /** Creates the sandbox, if that has not happened yet. */
  async open(): Promise<this> {
    if (this.isGivenUp) throw new Gone("this handle was given up by mergeInto()", { code: "gone" });
    await (this.opened ??= this.make({}));
    return this;
  }

  private async make(more: Json): Promise<void> {
    const own = ownWords(this.options);
    const req = request("POST", ["sandboxes"], {
      body: { ...createBody(own), ...more },
      idempotencyKey: own.idempotencyKey,
      timeoutMs: own.source || own.packages || own.image || own.waitMs ? FOREVER : undefined, // the source has its own, packages take what they take, a wait ends by itself
      signal: own.signal,
    });
    this.current = new SandboxInfo(await this.client.call(req));
    for (const port of (this.current.raw["ports"] ?? []) as Port[]) this.remember(port);
    this.opened = Promise.resolve();
  }

  get info(): SandboxInfo {
    if (!this.current) throw new ClocheError("the sandbox is not open yet", { hint: "await sandbox.open()" });
    return this.current;
  }
  get id(): string {
    return this.info.id;
  }
  /** The same as id. */
  get sandboxId(): string {
    return this.id;
  }
  get name(): string | null {
    return this.info.name;
  }
  get files(): Files {
    return this.faces().files;
  }
  /** The named interpreters. */
  get contexts(): Contexts {
    return this.faces().contexts;
  }

  /** Its files by the names and errors of node:fs/promises. */
  get fs(): Fs {
    return this.faces().fs;
  }

  private faces() {
    if (this.parts) return this.parts;
    const idOf = async () => (await this.open()).id;
    const files = new Files(this.client, idOf);
    return (this.parts = { files, contexts: new Contexts(this.client, idOf), fs: new Fs(files) });
  }

  /** A call below /v1/sandboxes/ID. */
  private async call(method: string, path: readonly string[], parts?: RequestParts): Promise<Json> {
    await this.open();
    return this.client.call(request(method, ["sandboxes", this.id, ...path], parts));
  }

  private async change(method: string, path: readonly string[], parts?: RequestParts): Promise<SandboxInfo> {
    return (this.current = new SandboxInfo(await this.call(method, path, parts)));
  }

  /** Asks the daemon for the current state, and updates `info`. */
  refresh(): Promise<SandboxInfo> {
    return this.change("GET", []);
  }

  /** Changes the fields that are given. `lifetimeMs` counts from now. */
  async update(
    options: Pick<SandboxOptions, "name" | "tags" | "env" | "limits" | "lifetimeMs" | "idleTimeoutMs" | "onTimeout" | "onIdle" | "autoResume" | "pausedTimeCounts">,
  ): Promise<SandboxInfo> {
    checkNames("update", { name: 1, tags: 1, env: 1, limits: 1, lifetimeMs: 1, idleTimeoutMs: 1, onTimeout: 1, onIdle: 1, autoResume: 1, pausedTimeCounts: 1 }, options);
    return this.change("PATCH", [], { body: createBody(options) });
  }

  /**
   * Pauses all processes. resume() lets them go on; so does the next call, if the pause is on disk. `to: "disk"` saves
   * processes, memory and files; the sandbox then uses no memory and survives a restart of the machine. `to: "memory"` takes
   * effect at once; calls then resume it only with `autoResume`. Default: disk where possible, else memory; `info.pausedTo`
   * says which. An open TCP connection prevents a pause to disk, unless `onConnection: "close"` is given: then the program
   * finds the connection closed after the resume.
   */
  async pause(options: { to?: "disk" | "memory"; onConnection?: "refuse" | "close" } = {}): Promise<SandboxInfo> {
    checkNames("pause", { to: 1, onConnection: 1 }, options);
    const body = { to: options.to, on_connection: options.onConnection };
    return this.change("POST", ["pause"], { body, timeoutMs: FOREVER });
  }
  /**
   * Resumes a paused sandbox, or starts a stopped persistent one from its files. With `memory: false` a sandbox that is paused
   * on disk is started from its files only: its programs are lost.
   */
  async resume(options: { memory?: boolean } = {}): Promise<SandboxInfo> {
    checkNames("resume", { memory: 1 }, options);
    return this.change("POST", ["resume"], { body: { memory: options.memory }, timeoutMs: FOREVER });
  }
  /** Ends all processes. A persistent sandbox keeps its files; any other one has ended. It is no error if it is already gone. */
  stop(): Promise<SandboxInfo> {
    return this.unlessGone(this.change("POST", ["stop"], { timeoutMs: FOREVER }));
  }
  /** Adds this time to its lifetime. */
  extend(ms: number): Promise<SandboxInfo> {
    return this.change("POST", ["extend"], { body: { ms }, timeoutMs: FOREVER });
  }
  /**
   * Ends the sandbox and removes its files. Resolves when nothing of it is left on the host. It is no error if it is already
   * gone.
   */
  delete(): Promise<SandboxInfo> {
    return this.unlessGone(this.change("DELETE", [], { timeoutMs: FOREVER }));
  }

  /** So that the end of a program, in a `finally`, does not hide what went wrong in it. */
  private async unlessGone(ending: Promise<SandboxInfo>): Promise<SandboxInfo> {
    try {
      return await ending;
    } catch (error) {
      if (error instanceof NotFound || error instanceof Gone) return this.info;
      throw error;
    }
  }

  /** Stops a persistent sandbox, and deletes any other. It is no error if it is already gone or was never created. */
  async close(): Promise<void> {
    if (!this.opened || this.isGivenUp) return;
    await this.open();
    await (this.info.persistent ? this.stop() : this.delete());
  }

  async [asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Runs a command and waits for its end. A string is a command line for /bin/sh, an array is a program with its arguments. */
  async run(command: Command, options: RunOptions = {}): Promise<ExecResult> {
    checkOptions("run", options);
    const { onStdout, onStderr, signal } = options;
    if (onStdout || onStderr) return collect(this.stream(command, options), onStdout, onStderr);
    const body = { ...execBody(command, options), kill_on_disconnect: options.killOnDisconnect || undefined };
    return ExecResult.fromJson(await this.call("POST", ["execs"], { body, timeoutMs: FOREVER, signal }));
  }

  /** Starts a command and yields its events as they come. */
  async *stream(command: Command, options: RunOptions = {}): AsyncGenerator<ExecEvent> {
    checkOptions("run", options);
    await this.open();
    const body = { ...execBody(command, options), kill_on_disconnect: options.killOnDisconnect || undefined };
    const parts = { body, accept: NDJSON, timeoutMs: FOREVER, signal: options.signal };
    const reply = await this.client.open(request("POST", ["sandboxes", this.id, "execs"], parts));
    yield* events(reply.pieces());
  }

  /** Starts a command and resolves at once. The command runs on, even if this program ends. */
  async start(command: Command, options: StartOptions = {}): Promise<Exec> {
    checkOptions("start", options);
    const body = { ...execBody(command, options), detached: true };
    const reply = await this.call("POST", ["execs"], { body, signal: options.signal });
    return new Exec(this.client, this.id, new ExecInfo(reply["exec"]));
  }

  /** Lists the commands that run in it, and those that have ended and are kept. */
  async execs(): Promise<Exec[]> {
    const reply = await this.call("GET", ["execs"]);
    return (reply["execs"] as Json[]).map((j) => new Exec(this.client, this.id, new ExecInfo(j)));
  }

  /**
   * With an id: gets a command that was started before. With an object: runs a command: exec({cmd: ["python", "-c", code],
   * timeoutMs}).
   */
  exec(id: string): Promise<Exec>;
  exec(command: { cmd: Command } & RunOptions): Promise<ExecResult>;
  async exec(what: string | ({ cmd: Command } & RunOptions)): Promise<Exec | ExecResult> {
    if (typeof what !== "string") {
      const { cmd, ...how } = what;
      return this.run(cmd, how);
    }
    const info = new ExecInfo(await this.call("GET", ["execs", what]));
    return new Exec(this.client, this.id, info);
  }

  /**
   * Runs code in an interpreter that keeps its state from call to call. The language is Python, unless you name another. Code
   * that fails throws nothing: see `error` of the result, and check().
   */
  async runCode(code: string, options: CodeOptions | LanguageWord = {}): Promise<CodeResult> {
    const how: CodeOptions = typeof options === "string" ? { language: options } : options;
    checkOptions("runCode", how);
    const parts: RequestParts = { body: codeBody(code, how), timeoutMs: FOREVER, signal: how.signal };
    if (how.onStdout || how.onStderr || how.onResult) return collectCode(this.codeStream(code, how), how);
    return CodeResult.fromJson(await this.call("POST", ["code"], parts));
  }

  /** Like runCode(), but yields the events as they come: stdout, stderr, result, error, and at last exit. */
  runCodeStream(code: string, options: CodeOptions | LanguageWord = {}): AsyncGenerator<CodeEvent> {
    const how: CodeOptions = typeof options === "string" ? { language: options } : options;
    checkOptions("runCode", how);
    return codeEvents(this.codeStream(code, how));
  }

  private async *codeStream(code: string, how: CodeOptions): AsyncGenerator<ExecEvent> {
    await this.open();
    const parts = { body: codeBody(code, how), accept: NDJSON, timeoutMs: FOREVER, signal: how.signal };
    const reply = await this.client.open(request("POST", ["sandboxes", this.id, "code"], parts));
    yield* events(reply.pieces());
  }

  /** Runs a program with arguments; its output is asked for by `await result.stdout()`. With `detached` it goes on by itself. */
  runCommand(command: CommandParams & { detached: true }): Promise<RunningCommand>;
  runCommand(command: string | CommandParams, args?: readonly string[]): Promise<FinishedCommand>;
  async runCommand(command: string | CommandParams, args: readonly string[] = []): Promise<RunningCommand | FinishedCommand> {
    const how: CommandParams = typeof command === "string" ? { cmd: command, args } : command;
    const { cwd, env, sudo, timeoutMs, signal } = how;
    const argv = [how.cmd, ...(how.args ?? [])];
    const options = { cwd, env, timeoutMs, signal, user: sudo ? "root" : undefined };
    if (how.detached) return new RunningCommand(await this.start(argv, options));
    return FinishedCommand.of(await this.run(argv, options));
  }

  /** Gets a command that runCommand() has started, also in another program. */
  async getCommand(cmdId: string): Promise<RunningCommand> {
    return new RunningCommand(await this.exec(cmdId));
  }

  /** Writes files, and creates missing directories. */
  async writeFile(path: string, data: Source, options: WriteOptions = {}): Promise<void> {
    await this.files.write(path, data, { parents: true, ...options });
  }

  /** Writes files, and creates missing directories. */
  async writeFiles(files: readonly { path: string; content: Source; mode?: number }[]): Promise<void> {
    for (const { path, content, mode } of files) await this.writeFile(path, content, { mode });
  }

  /** The bytes. */
  readFile(path: string): Promise<Uint8Array> {
    return this.files.read(path);
  }

  /** The same as writeFile(). The two arguments may also be given the other way round: bytes, then the path. */
  upload(path: string | Exclude<Source, string>, data: Source): Promise<void> {
    return typeof path === "string" ? this.writeFile(path, data) : this.writeFile(String(data), path);
  }
  /** The same as readFile(). */
  download(path: string): Promise<Uint8Array> {
    return this.readFile(path);
  }

  /**
   * Reads one of its `results` after its end: a file's bytes, or a directory as a tar. Throws NotFound, with the reason, if
   * the path could not be kept.
   */
  async readResult(path: string): Promise<Uint8Array> {
    return readAll(await this.client.open(request("GET", ["sandboxes", this.id, "results"], { query: { path }, timeoutMs: FOREVER })));
  }

  /**
   * Saves its current state as a snapshot, from which other sandboxes can start. `memory` saves running programs, too. They
   * may have an open TCP connection, which cannot be saved: `onConnection: "refuse"` (the default) then takes no snapshot,
   * "close" takes it and the copies find the connection closed. `keepLast` keeps only so many of this sandbox's snapshots and
   * removes older ones; those with a name stay.
   */
  async snapshot(options: SnapshotOptions = {}): Promise<Snapshot> {
    checkNames("snapshot", { name: 1, memory: 1, onConnection: 1, expiresInMs: 1, keepLast: 1 }, options);
    const { name, memory = false, onConnection, expiresInMs, keepLast } = options;
    const body = { name, memory, on_connection: onConnection, expires_in_ms: expiresInMs, keep_last: keepLast };
    return (await this.call("POST", ["snapshots"], { body, timeoutMs: FOREVER })) as Snapshot;
  }
  /** Lists the snapshots of this sandbox, newest first. */
  async *snapshots(): AsyncGenerator<Snapshot> {
    await this.open();
    yield* this.client.snapshots({ sandbox: this.id });
  }
  /**
   * Creates `count` new sandboxes that go on from the current state of this one; with `memory: false` from its files only. If
   * some forks fail, ForkError has the forks that were made (`sandboxes`) and the errors of the others (`failed`). The
   * returned list has `memoryBy`, how the memory was copied, and `memoryWhy`, why it was not an imprint.
   */
  async fork(count = 1, options: ForkOptions = {}): Promise<Forks> {
    checkNames("fork", { memory: 1, onConnection: 1, name: 1, group: 1, alias: 1, tags: 1, env: 1, network: 1, lifetimeMs: 1, idleTimeoutMs: 1, onTimeout: 1, persistent: 1, results: 1 }, options);
    const { memory = true, onConnection, ...rest } = options;
    const body = { count, memory, on_connection: onConnection, ...createBody(rest) };
    const made = await this.call("POST", ["fork"], { body, timeoutMs: FOREVER });
    const list = (made["sandboxes"] as Json[]).map((j) => Sandbox.of(this.client, new SandboxInfo(j)));
    const sandboxes: Forks = Object.assign(list, { memoryBy: made["memory_by"] ?? null, memoryWhy: made["memory_why"] ?? null });
    const failed = made["failed"] as Json[];
    if (failed.length) throw new ForkError(sandboxes, failed);
    return sandboxes;
  }
  /**
   * Applies the file changes of a fork (or of a snapshot, by id or name) to this sandbox: {applied, changes, conflict_count,
   * conflicts}. A path that both have changed since their common snapshot (or `base`) is a conflict. Then nothing is applied
   * and ApplyConflict lists the paths, unless `onConflict` is "skip" (apply the others) or "theirs" (take the fork's files).
   */
  async apply(fork: string | { id: string }, options: { onConflict?: "fail" | "skip" | "theirs"; base?: string } = {}): Promise<Json> {
    checkNames("apply", { onConflict: 1, base: 1 }, options);
    const body = { from: idOf(fork), on_conflict: options.onConflict, base: options.base };
    const result = await this.call("POST", ["apply"], { body, timeoutMs: FOREVER });
    if (!result["applied"]) throw new ApplyConflict(result["conflicts"], result["conflict_count"]);
    return result;
  }
  /** Goes back to a snapshot (or its id or name): ends all processes, and starts the sandbox again with the snapshot's files. */
  rollback(snapshot: string | { id: string }): Promise<SandboxInfo> {
    return this.change("POST", ["rollback"], { body: { snapshot: idOf(snapshot) }, timeoutMs: FOREVER });
  }
  /**
   * Lists how its files differ from those of a snapshot or another sandbox: see Client.diff(). `paths` limits it to these
   * paths and what is below them. The reply also has lists of the paths that were `added`, `removed` and `modified`.
   */
  async diff(
    other: string | Snapshot | Sandbox,
    options: ({ paths?: readonly string[] } & DiffOptions) | readonly string[] = {},
  ): Promise<Json> {
    await this.open();
    const { paths, ...how } = isList(options) ? { paths: options } : options;
    const tops = paths?.map((path) => path.replace(/\/+$/, ""));
    const old = other instanceof Sandbox ? (await other.open()).id : idOf(other);
    const told = await this.client.diff(old, this.id, how);
    const isMeant = (path: string) => !tops || tops.some((top) => path === top || path.startsWith(`${top}/`));
    const changes = (told["changes"] as Json[]).filter((change) => isMeant(change["path"]));
    const of = (kind: string) => changes.filter((change) => change["kind"] === kind).map((change) => change["path"] as string);
    return { ...told, changes, added: of("added"), removed: of("deleted"), modified: of("modified") };
  }
  /** {root_id, nodes}: all sandboxes and snapshots with the same origin as this one, parents before their children. */
  tree(): Promise<Json> {
    return this.call("GET", ["tree"]);
  }
  /**
   * Replaces this sandbox by the winner's: this object controls the winner's sandbox from now on, and its old sandbox is
   * deleted. No files are merged. The object `winner` must not be used afterwards: its calls fail, and closing it does
   * nothing.
   */
  async mergeInto(winner: Sandbox): Promise<void> {
    await winner.open();
    const loser = Sandbox.of(this.client, this.info);
    this.current = winner.info;
    this.parts = undefined;
    this.portUrls.clear();
    winner.isGivenUp = true;
    await loser.delete();
  }

  /** {kind, policy, in_force}: its network policy, without secrets. */
  network(): Promise<Json> {
    return this.call("GET", ["network"]);
  }
  /** Replaces its network policy. The new one is in force when this resolves: open connections that it forbids were cut. */
  setNetwork(policy: NetworkPolicy): Promise<Json> {
    return this.call("PUT", ["network"], { body: { policy } });
  }
  /**
   * Allows one more host, a name or a range. The rule is added after all others, so it decides only about what they do not
   * match.
   */
  async allowNetwork(host: string, options: { port?: number } = {}): Promise<Json> {
    checkNames("allowNetwork", { port: 1 }, options);
    return this.call("POST", ["network", "allow"], { body: { host, port: options.port } });
  }
  /**
   * {policy, complete, upto}: the smallest policy that allows everything that was reached while its policy had the mode
   * "record". With `after`, the `upto` of an earlier call, only what was reached since.
   */
  async suggestNetwork(options: { after?: number } = {}): Promise<Json> {
    checkNames("suggestNetwork", { after: 1 }, options);
    return this.call("GET", ["network", "suggestion"], { query: { after: options.after } });
  }
  /** Lists which connections the network wall has allowed or denied, oldest first. */
  async *networkDecisions(): AsyncGenerator<Json> {
    await this.open();
    yield* this.client.pages(["sandboxes", this.id, "network", "decisions"], "decisions", {});
  }
  /** {allowed, rule, strength, …}: which rule decides about a URL, and how strongly. */
  async explainNetwork(url: string, options: { method?: string } = {}): Promise<Json> {
    checkNames("explainNetwork", { method: 1 }, options);
    return this.call("POST", ["network", "explain"], { body: { url, method: options.method } });
  }

  /**
   * {token, token_id, audience, expires_us}: a signed token that tells `audience` which sandbox this is. The network policy
   * must name the audience.
   */
  identityToken(audience: string): Promise<Json> {
    return this.call("POST", ["identity-token"], { body: { audience } });
  }

  /** {usage, now, …}: what it has used since its creation, and what it uses at this moment. */
  usage(): Promise<Json> {
    return this.call("GET", ["usage"]);
  }
  /** Its last readings, oldest first: at_us, cpu_ns, memory_bytes, disk_bytes, pids, network_in_bytes, network_out_bytes. */
  async usageSamples(): Promise<Json[]> {
    return (await this.call("GET", ["usage", "samples"]))["samples"];
  }

  /** What it used in the last "1h", "24h", "7d" or "30d": see the client's history(). Works also after it has ended. */
  async history(options: { range?: "1h" | "24h" | "7d" | "30d" } = {}): Promise<Json> {
    checkNames("history", { range: 1 }, options);
    await this.open();
    return this.client.history({ scope: "sandbox", id: this.id, range: options.range });
  }

  /**
   * Opens a port to the outside. Opening it again makes a new token. Whoever has the url can connect, for `expiresInMs` or as
   * long as the sandbox exists. With `public` no token is needed.
   */
  async expose(port: number, options: { expiresInMs?: number; public?: boolean } = {}): Promise<Port> {
    checkNames("expose", { expiresInMs: 1, public: 1 }, options);
    const body = { port, public: options.public ?? false, expires_in_ms: options.expiresInMs };
    const opened = (await this.call("POST", ["ports"], { body })) as Port;
    this.remember(opened);
    return opened;
  }
  /** The URL for a browser of the server on that port. The first call opens the port. */
  async portUrl(port: number): Promise<string> {
    if (!this.portUrls.has(port)) await this.expose(port);
    return this.portUrls.get(port)!;
  }
  /** Lists the open ports, without their tokens. */
  async ports(): Promise<Port[]> {
    return (await this.call("GET", ["ports"]))["ports"];
  }
  /** Closes the port, and cuts open connections to it. */
  async closePort(port: number): Promise<void> {
    this.portUrls.delete(port);
    await this.call("DELETE", ["ports", String(port)]);
  }

  private remember(port: Port): void {
    const url = port.host_url ?? port.url;
    if (url) this.portUrls.set(port.port, url);
  }
}

/** A connection to the daemon: it makes sandboxes and finds them, and has all that Daemon has. */
export class Client extends Daemon {
  /** Creates a sandbox. It runs when this resolves. */
  create(options: SandboxFields & OtherSpellings = {}): Promise<Sandbox> {
    return Sandbox.create({ ...options, client: this });
  }

  /**
   * Creates `count` equal sandboxes, and yields each as soon as it runs. Their tags have `batch` and `batch_index`. With
   * `waitMs` they come in their order, as there is room. If some could not be created, BatchError is thrown after all
   * others were yielded. If the connection breaks, it reconnects: no sandbox is created or yielded twice.
   */
  createMany(count: number, options: SandboxFields & OtherSpellings = {}): AsyncGenerator<Sandbox> {
    return Sandbox.createMany(count, { ...options, client: this });
  }
  /** Ends all sandboxes of a batch, and the creates that still wait. Returns {batch_id, deleted}. */
  deleteBatch(batchId: string): Promise<Json> {
    return this.call(request("DELETE", ["batches", batchId]));
  }

  /**
   * Lists the project's creates that wait for room (`waitMs`), in their order: {position, request_id, batch_id, why, message,
   * waited_ms, left_ms}.
   */
  async waitingCreates(): Promise<Json[]> {
    return this.items(["creates"], "creates");
  }

  /**
   * Announces that `count` creates with these options will come within `durationMs` (ten minutes), so that their sandboxes are
   * made ahead. Only creates of this project get them. The reply, and later reservation(), says how many are `ready` and what
   * limits the number.
   */
  reserve(count: number, options: SandboxFields & OtherSpellings & { durationMs?: number } = {}): Promise<Json> {
    const { durationMs, ...fields } = options;
    checkOptions("sandbox", fields);
    const own = ownWords(fields);
    return this.call(
      request("POST", ["pool"], {
        body: { ...createBody(own), count, duration_ms: durationMs },
        idempotencyKey: own.idempotencyKey ?? globalThis.crypto.randomUUID(),
        timeoutMs: FOREVER,
      }),
    );
  }
  /** Lists the project's reservations that still hold. */
  async reservations(): Promise<Json[]> {
    return this.items(["pool"], "reservations");
  }
  /** Gets one reservation. NotFound if it has expired or all its creates have come. */
  reservation(reservationId: string): Promise<Json> {
    return this.call(request("GET", ["pool", reservationId]));
  }
  /** Ends a reservation, and its sandboxes that nobody has taken. */
  async release(reservationId: string): Promise<void> {
    await this.call(request("DELETE", ["pool", reservationId]));
  }

  /** Gets an existing sandbox by its id or name, also one that another program created. */
  get(idOrName: string, options: CallOptions = {}): Promise<Sandbox> {
    return Sandbox.get(idOrName, { ...options, client: this });
  }

  /** Lists the sandboxes that match, newest first. Further pages are fetched as needed. `tag` is NAME:VALUE. */
  list(options: { tag?: string; state?: SandboxState; pageSize?: number } = {}): AsyncGenerator<Sandbox> {
    return Sandbox.list({ ...options, client: this });
  }
}

/** Some sandboxes of a batch could not be made: `failed` has the error of each by its index; the others run. */
export class BatchError extends ClocheError {
  constructor(
    readonly batchId: string,
    readonly failed: Map<number, ClocheError>,
  ) {
    super(`${failed.size} sandboxes of batch ${batchId} failed: ${[...failed.values()][0]?.message}`, { code: "batch_failed" });
  }
}

/** Some forks could not be made: `sandboxes` has those that were made, `failed` the errors of the others by their index. */
export class ForkError extends ClocheError {
  constructor(
    readonly sandboxes: Forks,
    readonly failed: Json[],
  ) {
    super(`${failed.length} of ${sandboxes.length + failed.length} forks failed: ${failed[0]?.["message"]}`, { code: "fork_failed" });
  }
}

function isList<T>(value: object | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}
