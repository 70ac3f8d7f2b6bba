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
  /** Its running programs too. */
  memory?: boolean;
  onConnection?: "refuse" | "close";
  expiresInMs?: number;
  keepLast?: number;
}

/** What fork() gives. Of files alone both are null. */
export interface Forks extends Array<Sandbox> {
  memoryBy: "imprint" | "criu" | "machine" | null;
  memoryWhy: string | null;
}

/** With several forks `name` and `alias` get -1, -2 … behind them. */
export interface ForkOptions
  extends Pick<SandboxOptions, "name" | "group" | "alias" | "tags" | "env" | "network" | "lifetimeMs" | "idleTimeoutMs" | "onTimeout" | "persistent"> {
  memory?: boolean;
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

  /** A new one; it runs when this resolves. */
  static async create(options: SandboxOptions & OtherSpellings = {}): Promise<Sandbox> {
    return new Sandbox(options).open();
  }

  /**
   * The sandbox of that name (`default` without one), made or resumed if need be. Any number of callers, in any process, get
   * one sandbox. The callback that fits what this call did is awaited before it resolves.
   */
  static async getOrCreate(options: GetOrCreateOptions & OtherSpellings = {}): Promise<Sandbox> {
    const { onCreate, onResume, ...rest } = options;
    const sandbox = new Sandbox({ persistent: true, ...rest, name: rest.name ?? "default" });
    await sandbox.make({ get_or_create: true });
    if (sandbox.info.created) await onCreate?.(sandbox);
    if (sandbox.info.resumed) await onResume?.(sandbox);
    return sandbox;
  }

  /** By id or name, from anywhere. */
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

  /** All that match, newest first; pages are fetched as they are needed. `tag` is NAME:VALUE. */
  static async *list(
    options: { client?: Client; tag?: string; state?: SandboxState; group?: string; pageSize?: number } = {},
  ): AsyncGenerator<Sandbox> {
    checkNames("list", { client: 1, tag: 1, state: 1, group: 1, pageSize: 1 }, options);
    const client = options.client ?? new Client();
    const { tag, state, group, pageSize: limit } = options;
    for await (const one of client.pages(["sandboxes"], "sandboxes", { tag, state, group, limit }))
      yield Sandbox.of(client, new SandboxInfo(one));
  }

  /** As Client.createMany(). */
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

  /** Makes it, if that has not been done. */
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

  /** Asks the daemon how it is now: `info` has it. */
  refresh(): Promise<SandboxInfo> {
    return this.change("GET", []);
  }

  /** Changes what is given; `lifetimeMs` is counted from now. */
  async update(
    options: Pick<SandboxOptions, "name" | "tags" | "env" | "limits" | "lifetimeMs" | "idleTimeoutMs" | "onTimeout" | "onIdle" | "autoResume" | "pausedTimeCounts">,
  ): Promise<SandboxInfo> {
    checkNames("update", { name: 1, tags: 1, env: 1, limits: 1, lifetimeMs: 1, idleTimeoutMs: 1, onTimeout: 1, onIdle: 1, autoResume: 1, pausedTimeCounts: 1 }, options);
    return this.change("PATCH", [], { body: createBody(options) });
  }

  /**
   * Stops all processes where they are; resume() or the next call lets them go on. `to` is "disk": processes, memory and files
   * are saved, nothing stays in memory, and it outlives the machine's restart; or "memory", at once, which only autoResume lets
   * a call end. By default to disk where that can be done: `info.pausedTo` tells. An open TCP connection prevents a pause to disk, unless
   * `onConnection: "close"` lets it be found closed afterwards.
   */
  async pause(options: { to?: "disk" | "memory"; onConnection?: "refuse" | "close" } = {}): Promise<SandboxInfo> {
    checkNames("pause", { to: 1, onConnection: 1 }, options);
    const body = { to: options.to, on_connection: options.onConnection };
    return this.change("POST", ["pause"], { body, timeoutMs: FOREVER });
  }
  /**
   * Lets a paused one go on, or starts a stopped persistent one over its files. With `memory: false` one that is paused on disk
   * is started over its files, too: its programs are lost.
   */
  async resume(options: { memory?: boolean } = {}): Promise<SandboxInfo> {
    checkNames("resume", { memory: 1 }, options);
    return this.change("POST", ["resume"], { body: { memory: options.memory }, timeoutMs: FOREVER });
  }
  /** Ends all processes. The files of a persistent one stay, any other has ended with this. One that is already gone is fine. */
  stop(): Promise<SandboxInfo> {
    return this.unlessGone(this.change("POST", ["stop"], { timeoutMs: FOREVER }));
  }
  /** Adds to its lifetime. */
  extend(ms: number): Promise<SandboxInfo> {
    return this.change("POST", ["extend"], { body: { ms }, timeoutMs: FOREVER });
  }
  /** Ends it; resolves once nothing of it is left on the host. One that is already gone is fine. */
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

  /** Stops a persistent one and deletes any other; one that is already gone, or was never made, is fine. */
  async close(): Promise<void> {
    if (!this.opened || this.isGivenUp) return;
    await this.open();
    await (this.info.persistent ? this.stop() : this.delete());
  }

  async [asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Runs a command to its end. */
  async run(command: Command, options: RunOptions = {}): Promise<ExecResult> {
    checkOptions("run", options);
    const { onStdout, onStderr, signal } = options;
    if (onStdout || onStderr) return collect(this.stream(command, options), onStdout, onStderr);
    const body = { ...execBody(command, options), kill_on_disconnect: options.killOnDisconnect || undefined };
    return ExecResult.fromJson(await this.call("POST", ["execs"], { body, timeoutMs: FOREVER, signal }));
  }

  /** Starts a command and gives its events as they come. */
  async *stream(command: Command, options: RunOptions = {}): AsyncGenerator<ExecEvent> {
    checkOptions("run", options);
    await this.open();
    const body = { ...execBody(command, options), kill_on_disconnect: options.killOnDisconnect || undefined };
    const parts = { body, accept: NDJSON, timeoutMs: FOREVER, signal: options.signal };
    const reply = await this.client.open(request("POST", ["sandboxes", this.id, "execs"], parts));
    yield* events(reply.pieces());
  }

  /** Starts a command that goes on by itself, whoever watches. */
  async start(command: Command, options: StartOptions = {}): Promise<Exec> {
    checkOptions("start", options);
    const body = { ...execBody(command, options), detached: true };
    const reply = await this.call("POST", ["execs"], { body, signal: options.signal });
    return new Exec(this.client, this.id, new ExecInfo(reply["exec"]));
  }

  /** Commands that run or ran in it. */
  async execs(): Promise<Exec[]> {
    const reply = await this.call("GET", ["execs"]);
    return (reply["execs"] as Json[]).map((j) => new Exec(this.client, this.id, new ExecInfo(j)));
  }

  /** One that was started before, by id; with an object it runs a command: exec({cmd: ["python", "-c", code], timeoutMs}). */
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
   * Runs code in an interpreter whose state stays from call to call: Python, unless another is named. Code that fails is no
   * exception here: see `error` of the result.
   */
  async runCode(code: string, options: CodeOptions | LanguageWord = {}): Promise<CodeResult> {
    const how: CodeOptions = typeof options === "string" ? { language: options } : options;
    checkOptions("runCode", how);
    const parts: RequestParts = { body: codeBody(code, how), timeoutMs: FOREVER, signal: how.signal };
    if (how.onStdout || how.onStderr || how.onResult) return collectCode(this.codeStream(code, how), how);
    return CodeResult.fromJson(await this.call("POST", ["code"], parts));
  }

  /** The same, event by event: stdout, stderr, result, error, and at last exit. */
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

  /** One that runCommand() has started, from anywhere. */
  async getCommand(cmdId: string): Promise<RunningCommand> {
    return new RunningCommand(await this.exec(cmdId));
  }

  /** Missing directories are made. */
  async writeFile(path: string, data: Source, options: WriteOptions = {}): Promise<void> {
    await this.files.write(path, data, { parents: true, ...options });
  }

  /** Missing directories are made. */
  async writeFiles(files: readonly { path: string; content: Source; mode?: number }[]): Promise<void> {
    for (const { path, content, mode } of files) await this.writeFile(path, content, { mode });
  }

  /** The bytes. */
  readFile(path: string): Promise<Uint8Array> {
    return this.files.read(path);
  }

  /** The same as writeFile(). Bytes may also come first, and the path behind them. */
  upload(path: string | Exclude<Source, string>, data: Source): Promise<void> {
    return typeof path === "string" ? this.writeFile(path, data) : this.writeFile(String(data), path);
  }
  /** The same as readFile(). */
  download(path: string): Promise<Uint8Array> {
    return this.readFile(path);
  }

  /** One of its `results`, once it has ended: a file's bytes, or a directory as a tar. NotFound where none could be kept, and why. */
  async readResult(path: string): Promise<Uint8Array> {
    return readAll(await this.client.open(request("GET", ["sandboxes", this.id, "results"], { query: { path }, timeoutMs: FOREVER })));
  }

  /**
   * Saves what it is at this moment, to start others from. With `memory` its running programs
   * too; a TCP connection that is open is then refused, or found closed in the copies (`onConnection`). With `keepLast` so
   * many of this sandbox stay, and the older ones without a name go.
   */
  async snapshot(options: SnapshotOptions = {}): Promise<Snapshot> {
    checkNames("snapshot", { name: 1, memory: 1, onConnection: 1, expiresInMs: 1, keepLast: 1 }, options);
    const { name, memory = false, onConnection, expiresInMs, keepLast } = options;
    const body = { name, memory, on_connection: onConnection, expires_in_ms: expiresInMs, keep_last: keepLast };
    return (await this.call("POST", ["snapshots"], { body, timeoutMs: FOREVER })) as Snapshot;
  }
  /** Those that were taken of it, the newest first. */
  async *snapshots(): AsyncGenerator<Snapshot> {
    await this.open();
    yield* this.client.snapshots({ sandbox: this.id });
  }
  /**
   * New sandboxes that go on from what this one is now; with `memory: false` from its files alone. When some could not be made
   * ForkError has those that were, as `sandboxes`, and why not, as `failed`. The list has `memoryBy` and `memoryWhy`: how the memory
   * went over, and why it was no imprint.
   */
  async fork(count = 1, options: ForkOptions = {}): Promise<Forks> {
    checkNames("fork", { memory: 1, onConnection: 1, name: 1, group: 1, alias: 1, tags: 1, env: 1, network: 1, lifetimeMs: 1, idleTimeoutMs: 1, onTimeout: 1, persistent: 1 }, options);
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
   * Brings what a fork (or a snapshot, by id or name) has changed to this sandbox: {applied, changes, conflict_count, conflicts}.
   * What both have changed since the snapshot that they have in common (or `base`) is a conflict: then nothing is applied and
   * ApplyConflict tells the paths, unless `onConflict` says "skip" (all but those) or "theirs" (the fork's files win).
   */
  async apply(fork: string | { id: string }, options: { onConflict?: "fail" | "skip" | "theirs"; base?: string } = {}): Promise<Json> {
    checkNames("apply", { onConflict: 1, base: 1 }, options);
    const body = { from: idOf(fork), on_conflict: options.onConflict, base: options.base };
    const result = await this.call("POST", ["apply"], { body, timeoutMs: FOREVER });
    if (!result["applied"]) throw new ApplyConflict(result["conflicts"], result["conflict_count"]);
    return result;
  }
  /** Back to what a snapshot (or its id or name) has: its processes end and it starts anew over those files. */
  rollback(snapshot: string | { id: string }): Promise<SandboxInfo> {
    return this.change("POST", ["rollback"], { body: { snapshot: idOf(snapshot) }, timeoutMs: FOREVER });
  }
  /**
   * What it has changed since a snapshot, or what it has that another sandbox has not: see Client.diff(). With `paths` only what
   * is there or below. Besides there are lists of the paths that were `added`, `removed` and `modified`.
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
  /** {root_id, nodes}: what it comes from, and all that came from that; parents before their children. */
  tree(): Promise<Json> {
    return this.call("GET", ["tree"]);
  }
  /**
   * This handle drives the winner's sandbox from now on, and the one that it drove is deleted; nothing is merged. What the
   * winner's own handle is asked after is an error, and to close it does nothing.
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

  /** {kind, policy, in_force}: what it may reach; secrets are left out. */
  network(): Promise<Json> {
    return this.call("GET", ["network"]);
  }
  /** From its end on the policy holds: what it forbids was cut, what it allows can be reached. */
  setNetwork(policy: NetworkPolicy): Promise<Json> {
    return this.call("PUT", ["network"], { body: { policy } });
  }
  /** One host more, a name or a range, behind all rules of its policy: decides about what none of them matches. */
  async allowNetwork(host: string, options: { port?: number } = {}): Promise<Json> {
    checkNames("allowNetwork", { port: 1 }, options);
    return this.call("POST", ["network", "allow"], { body: { host, port: options.port } });
  }
  /** {policy, complete, upto}: the smallest policy that would have sufficed while its policy had mode "record". */
  async suggestNetwork(options: { after?: number } = {}): Promise<Json> {
    checkNames("suggestNetwork", { after: 1 }, options);
    return this.call("GET", ["network", "suggestion"], { query: { after: options.after } });
  }
  /** What the network wall decided, the oldest first. */
  async *networkDecisions(): AsyncGenerator<Json> {
    await this.open();
    yield* this.client.pages(["sandboxes", this.id, "network", "decisions"], "decisions", {});
  }
  /** {allowed, rule, strength, …}: which rule decides about a URL, and how strongly. */
  async explainNetwork(url: string, options: { method?: string } = {}): Promise<Json> {
    checkNames("explainNetwork", { method: 1 }, options);
    return this.call("POST", ["network", "explain"], { body: { url, method: options.method } });
  }

  /** {token, token_id, audience, expires_us}: says to the audience what this sandbox is. Its policy must name the audience. */
  identityToken(audience: string): Promise<Json> {
    return this.call("POST", ["identity-token"], { body: { audience } });
  }

  /** {usage, now, …}: what it has used since it was created, and what it holds at this moment. */
  usage(): Promise<Json> {
    return this.call("GET", ["usage"]);
  }
  /** Its last readings, the oldest first: at_us, cpu_ns, memory_bytes, disk_bytes, pids, network_in_bytes, network_out_bytes. */
  async usageSamples(): Promise<Json[]> {
    return (await this.call("GET", ["usage", "samples"]))["samples"];
  }

  /** What it used in the last "1h", "24h", "7d" or "30d": see the client's history(). Told also when it has ended. */
  async history(options: { range?: "1h" | "24h" | "7d" | "30d" } = {}): Promise<Json> {
    checkNames("history", { range: 1 }, options);
    await this.open();
    return this.client.history({ scope: "sandbox", id: this.id, range: options.range });
  }

  /**
   * Opens a port to the outside. Opening it again makes a new token. The url lets in whoever has it, for expiresInMs or as
   * long as the sandbox lives; a public one needs none.
   */
  async expose(port: number, options: { expiresInMs?: number; public?: boolean } = {}): Promise<Port> {
    checkNames("expose", { expiresInMs: 1, public: 1 }, options);
    const body = { port, public: options.public ?? false, expires_in_ms: options.expiresInMs };
    const opened = (await this.call("POST", ["ports"], { body })) as Port;
    this.remember(opened);
    return opened;
  }
  /** Where a browser finds the server on that port; opens the port at the first call. */
  async portUrl(port: number): Promise<string> {
    if (!this.portUrls.has(port)) await this.expose(port);
    return this.portUrls.get(port)!;
  }
  /** Ports that are open, without their tokens. */
  async ports(): Promise<Port[]> {
    return (await this.call("GET", ["ports"]))["ports"];
  }
  /** Lets nobody in any more, and cuts who is. */
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
  /** A new sandbox; it runs when this resolves. */
  create(options: SandboxFields & OtherSpellings = {}): Promise<Sandbox> {
    return Sandbox.create({ ...options, client: this });
  }

  /**
   * `count` new sandboxes of one spec, each as soon as it runs; their tags have `batch` and `batch_index`. With `waitMs` they come
   * as there is room, in their order. When some could not be made, BatchError tells of them after all others came. A connection that
   * breaks is made again, and no sandbox is made or given twice.
   */
  createMany(count: number, options: SandboxFields & OtherSpellings = {}): AsyncGenerator<Sandbox> {
    return Sandbox.createMany(count, { ...options, client: this });
  }
  /** Ends all sandboxes of a batch, and those that it still waits for: {batch_id, deleted}. */
  deleteBatch(batchId: string): Promise<Json> {
    return this.call(request("DELETE", ["batches", batchId]));
  }

  /** The project's creates that wait for room (`waitMs`), in their order: {position, request_id, batch_id, why, message, waited_ms, left_ms}. */
  async waitingCreates(): Promise<Json[]> {
    return (await this.call(request("GET", ["creates"])))["creates"];
  }

  /**
   * Says that `count` creates with these options will come within `durationMs` (ten minutes), so that their sandboxes are made ahead.
   * Only creates of this project get them. The reply, and reservation() later, tells how many are `ready`, and what limits them.
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
  /** The project's reservations that still hold. */
  async reservations(): Promise<Json[]> {
    return (await this.call(request("GET", ["pool"])))["reservations"];
  }
  /** One of them; NotFound once it has expired or all its creates have come. */
  reservation(reservationId: string): Promise<Json> {
    return this.call(request("GET", ["pool", reservationId]));
  }
  /** Ends a reservation, with those of its sandboxes that nobody has taken. */
  async release(reservationId: string): Promise<void> {
    await this.call(request("DELETE", ["pool", reservationId]));
  }

  /** By id or name, from anywhere. */
  get(idOrName: string, options: CallOptions = {}): Promise<Sandbox> {
    return Sandbox.get(idOrName, { ...options, client: this });
  }

  /** All that match, newest first; pages are fetched as they are needed. `tag` is NAME:VALUE. */
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

/** Some forks could not be made: `sandboxes` are those that were, `failed` tells of the others by their index. */
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
