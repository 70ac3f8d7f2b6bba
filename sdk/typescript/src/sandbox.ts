// SPDX-License-Identifier: Apache-2.0
/**
 * One isolated computer.
 *
 *     await using sandbox = await Sandbox.create();
 *     const { stdout } = await sandbox.run("echo $((6*7))");
 */
import { Client } from "./client.js";
import { type CodeOptions, CodeResult, Contexts, type Language, collectCode } from "./code.js";
import { ClocheError, Gone, NotFound } from "./errors.js";
import {
  type CallOptions,
  type Command,
  type Ended,
  Exec,
  type ExecEvent,
  ExecInfo,
  ExecResult,
  type RunOptions,
  type StartOptions,
  collect,
  events,
  execBody,
} from "./exec.js";
import { Files, type WriteOptions } from "./files.js";
import { type CommandParams, FinishedCommand, type OtherSpellings, ownWords } from "./spellings.js";
import { FOREVER, type Json, NDJSON, type RequestParts, type Source, request } from "./wire.js";

export interface Limits {
  vcpus?: number;
  memory_mib?: number;
  disk_mib?: number;
  inodes?: number;
  pids?: number;
  open_files?: number;
  output_mib?: number;
  execs?: number;
}

/** "deny-all" (the default), "allow-all", or a policy such as {allow: ["api.example.com", "*.example.com"]}. */
export type NetworkPolicy = "deny-all" | "allow-all" | Json;

/** What a sandbox is filled with before it runs; credentials never come inside. */
export interface SandboxSource {
  type: "git" | "tarball";
  url: string;
  revision?: string;
  depth?: number;
  path?: string;
  timeout_ms?: number;
  credentials?: { username?: string; password: string };
}

export interface SandboxOptions {
  client?: Client;
  name?: string;
  template?: string;
  /** Installed in it, once per set: "pip:pandas", "npm:zod@3", "apt:jq", or bare names of the template's language. */
  packages?: readonly string[];
  tags?: Record<string, string>;
  env?: Record<string, string>;
  limits?: Limits;
  /** `onTimeout` happens this long after its creation or last resume, whatever it does. */
  lifetimeMs?: number;
  /** `onTimeout` happens when this long nothing ran in it. */
  idleTimeoutMs?: number;
  onTimeout?: "delete" | "stop" | "pause";
  /** Its files outlive its end, and it goes on over them when it is next used. */
  persistent?: boolean;
  /** A call to it while it is paused resumes it. */
  autoResume?: boolean;
  engine?: "auto" | "jail" | "vm";
  /** Refuses weaker isolation. */
  minGrade?: "process" | "emulated" | "hardware";
  network?: NetworkPolicy;
  /** Opened to the outside: portUrl() says where. */
  ports?: readonly number[];
  source?: SandboxSource;
  /** Calls with one key make one sandbox, and are sent again when the connection breaks. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export interface GetOrCreateOptions extends SandboxOptions {
  onCreate?: (sandbox: Sandbox) => unknown;
  onResume?: (sandbox: Sandbox) => unknown;
}

export type SandboxState = "creating" | "running" | "pausing" | "paused" | "stopping" | "stopped" | "failed";

export class SandboxInfo {
  readonly id: string;
  readonly state: SandboxState;
  readonly name: string | null;
  readonly template: string;
  readonly packages: string[];
  readonly tags: Record<string, string>;
  readonly limits: Limits;
  readonly isolation: { engine: string; grade: string; walls: string[]; gaps: string[] } | null;
  readonly createdAt: Date;
  /** When its lifetime is up. */
  readonly expiresAt: Date | null;
  /** Why it does not run; null while it does, or is paused. */
  readonly ended: Ended | null;
  readonly persistent: boolean;
  readonly resumes: number;
  /** By the call that this came from. */
  readonly created: boolean;
  readonly resumed: boolean;

  constructor(readonly raw: Json) {
    this.id = raw["id"];
    this.state = raw["state"];
    this.name = raw["name"] ?? null;
    this.template = raw["template"] ?? "";
    this.packages = raw["packages"] ?? [];
    this.tags = raw["tags"] ?? {};
    this.limits = raw["limits"] ?? {};
    this.isolation = raw["isolation"] ?? null;
    this.createdAt = new Date((raw["created_us"] ?? 0) / 1000);
    this.expiresAt = raw["expires_us"] ? new Date(raw["expires_us"] / 1000) : null;
    this.ended = raw["ended"] ?? null;
    this.persistent = raw["persistent"] ?? false;
    this.resumes = raw["resumes"] ?? 0;
    this.created = raw["created"] ?? false;
    this.resumed = raw["resumed"] ?? false;
  }
}

export interface Port {
  port: number;
  public: boolean;
  url: string | null;
  host_url: string | null;
  token?: string;
  created_us: number;
  expires_us: number | null;
}

export function createBody(options: SandboxOptions): Json {
  return {
    name: options.name,
    template: options.template,
    packages: options.packages,
    tags: options.tags,
    env: options.env,
    limits: options.limits,
    timeout_ms: options.lifetimeMs,
    idle_timeout_ms: options.idleTimeoutMs,
    on_timeout: options.onTimeout,
    persistent: options.persistent,
    auto_resume: options.autoResume,
    engine: options.engine,
    min_grade: options.minGrade,
    network: options.network,
    ports: options.ports,
    source: options.source,
  };
}

const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

export class Sandbox {
  readonly client: Client;
  private opened: Promise<void> | undefined;
  private current: SandboxInfo | undefined;
  private readonly portUrls = new Map<number, string>();
  private parts: { files: Files; contexts: Contexts } | undefined;

  /** One that is yet to be made, by open() or the first call to it. */
  constructor(private readonly options: SandboxOptions & OtherSpellings = {}) {
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
    options: { client?: Client; tag?: string; state?: SandboxState; pageSize?: number } = {},
  ): AsyncGenerator<Sandbox> {
    const client = options.client ?? new Client();
    const { tag, state, pageSize: limit } = options;
    for await (const one of client.pages(["sandboxes"], "sandboxes", { tag, state, limit }))
      yield Sandbox.of(client, new SandboxInfo(one));
  }

  private static of(client: Client, info: SandboxInfo): Sandbox {
    const sandbox = new Sandbox({ client });
    sandbox.opened = Promise.resolve();
    sandbox.current = info;
    return sandbox;
  }

  /** Makes it, if that has not been done. */
  async open(): Promise<this> {
    await (this.opened ??= this.make({}));
    return this;
  }

  private async make(more: Json): Promise<void> {
    const own = ownWords(this.options);
    const req = request("POST", ["sandboxes"], {
      body: { ...createBody(own), ...more },
      idempotencyKey: own.idempotencyKey,
      timeoutMs: own.source || own.packages ? FOREVER : undefined, // the source has its own, packages take what they take
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

  private faces() {
    return (this.parts ??= { files: new Files(this.client, this.id), contexts: new Contexts(this.client, this.id) });
  }

  /** A call below /v1/sandboxes/ID. */
  private async call(method: string, path: readonly string[], parts?: RequestParts): Promise<Json> {
    await this.open();
    return this.client.call(request(method, ["sandboxes", this.id, ...path], parts));
  }

  private async change(method: string, path: readonly string[], parts?: RequestParts): Promise<SandboxInfo> {
    return (this.current = new SandboxInfo(await this.call(method, path, parts)));
  }

  refresh(): Promise<SandboxInfo> {
    return this.change("GET", []);
  }

  /** Changes what is given; `lifetimeMs` is counted from now. */
  update(
    options: Pick<SandboxOptions, "name" | "tags" | "env" | "limits" | "lifetimeMs" | "idleTimeoutMs" | "onTimeout" | "autoResume">,
  ): Promise<SandboxInfo> {
    return this.change("PATCH", [], { body: createBody(options) });
  }

  /** Stops all processes where they are; resume() lets them go on. */
  pause(): Promise<SandboxInfo> {
    return this.change("POST", ["pause"], { timeoutMs: FOREVER });
  }
  /** Lets a paused one go on, or starts a stopped persistent one over its files. */
  resume(): Promise<SandboxInfo> {
    return this.change("POST", ["resume"], { timeoutMs: FOREVER });
  }
  /** Ends all processes. The files of a persistent one stay, any other has ended with this. */
  stop(): Promise<SandboxInfo> {
    return this.change("POST", ["stop"], { timeoutMs: FOREVER });
  }
  /** Adds to its lifetime. */
  extend(ms: number): Promise<SandboxInfo> {
    return this.change("POST", ["extend"], { body: { ms }, timeoutMs: FOREVER });
  }
  /** Ends it; resolves once nothing of it is left on the host. */
  delete(): Promise<SandboxInfo> {
    return this.change("DELETE", [], { timeoutMs: FOREVER });
  }

  /** Stops a persistent one and deletes any other; one that is already gone is fine. */
  async close(): Promise<void> {
    if (!this.opened) return;
    try {
      await this.open();
      await (this.info.persistent ? this.stop() : this.delete());
    } catch (error) {
      if (!(error instanceof NotFound || error instanceof Gone)) throw error;
    }
  }

  async [asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Runs a command to its end. */
  async run(command: Command, options: RunOptions = {}): Promise<ExecResult> {
    const { onStdout, onStderr, signal } = options;
    if (onStdout || onStderr) return collect(this.stream(command, options), onStdout, onStderr);
    const body = { ...execBody(command, options), kill_on_disconnect: options.killOnDisconnect || undefined };
    return ExecResult.fromJson(await this.call("POST", ["execs"], { body, timeoutMs: FOREVER, signal }));
  }

  /** Starts a command and gives its events as they come. */
  async *stream(command: Command, options: RunOptions = {}): AsyncGenerator<ExecEvent> {
    await this.open();
    const body = { ...execBody(command, options), kill_on_disconnect: options.killOnDisconnect || undefined };
    const parts = { body, accept: NDJSON, timeoutMs: FOREVER, signal: options.signal };
    const reply = await this.client.open(request("POST", ["sandboxes", this.id, "execs"], parts));
    yield* events(reply.pieces());
  }

  /** Starts a command that goes on by itself, whoever watches. */
  async start(command: Command, options: StartOptions = {}): Promise<Exec> {
    const body = { ...execBody(command, options), detached: true };
    const reply = await this.call("POST", ["execs"], { body, signal: options.signal });
    return new Exec(this.client, this.id, new ExecInfo(reply["exec"]));
  }

  async execs(): Promise<Exec[]> {
    const reply = await this.call("GET", ["execs"]);
    return (reply["execs"] as Json[]).map((j) => new Exec(this.client, this.id, new ExecInfo(j)));
  }

  /** One that was started before, by id; with an object it runs a command: exec({cmd: ["python", "-c", code], timeoutMs}). */
  exec(id: string): Promise<Exec>;
  exec(command: { cmd: Command } & RunOptions): Promise<ExecResult>;
  async exec(what: string | ({ cmd: Command } & RunOptions)): Promise<Exec | ExecResult> {
    if (typeof what !== "string") return this.run(what.cmd, what);
    return new Exec(this.client, this.id, new ExecInfo(await this.call("GET", ["execs", what])));
  }

  /**
   * Runs code in an interpreter whose state stays from call to call: Python, unless another is named. Code that fails is no
   * exception here: see `error` of the result.
   */
  async runCode(code: string, options: CodeOptions | Language = {}): Promise<CodeResult> {
    const how: CodeOptions = typeof options === "string" ? { language: options } : options;
    const parts: RequestParts = { body: codeBody(code, how), timeoutMs: FOREVER, signal: how.signal };
    if (how.onStdout || how.onStderr || how.onResult) return collectCode(this.runCodeStream(code, how), how);
    return CodeResult.fromJson(await this.call("POST", ["code"], parts));
  }

  /** The same, event by event. */
  async *runCodeStream(code: string, options: CodeOptions | Language = {}): AsyncGenerator<ExecEvent> {
    await this.open();
    const how: CodeOptions = typeof options === "string" ? { language: options } : options;
    const parts = { body: codeBody(code, how), accept: NDJSON, timeoutMs: FOREVER, signal: how.signal };
    const reply = await this.client.open(request("POST", ["sandboxes", this.id, "code"], parts));
    for await (const event of events(reply.pieces())) yield event;
  }

  /** Runs a program with arguments; its output is asked for by `await result.stdout()`. */
  async runCommand(command: string | CommandParams, args: readonly string[] = []): Promise<FinishedCommand> {
    const how: CommandParams = typeof command === "string" ? { cmd: command, args } : command;
    const { cwd, env, sudo, timeoutMs, signal } = how;
    const argv = [how.cmd, ...(how.args ?? [])];
    const result = await this.run(argv, { cwd, env, timeoutMs, signal, user: sudo ? "root" : undefined });
    const exit = result.exitCode ?? 128 + (result.signal ?? 0);
    return new FinishedCommand(result.exec.id, exit, result.stdout, result.stderr);
  }

  async writeFile(path: string, data: Source, options: WriteOptions = {}): Promise<void> {
    await this.open();
    await this.files.write(path, data, { parents: true, ...options });
  }

  /** Missing directories are made. */
  async writeFiles(files: readonly { path: string; content: Source; mode?: number }[]): Promise<void> {
    for (const { path, content, mode } of files) await this.writeFile(path, content, { mode });
  }

  async readFile(path: string): Promise<Uint8Array> {
    await this.open();
    return this.files.read(path);
  }

  /** The same as writeFile() and readFile(). */
  upload(path: string, data: Source): Promise<void> {
    return this.writeFile(path, data);
  }
  download(path: string): Promise<Uint8Array> {
    return this.readFile(path);
  }

  /** {kind, policy, in_force}: what it may reach; secrets are left out. */
  network(): Promise<Json> {
    return this.call("GET", ["network"]);
  }
  /** From its end on the policy holds: what it forbids was cut, what it allows can be reached. */
  setNetwork(policy: NetworkPolicy): Promise<Json> {
    return this.call("PUT", ["network"], { body: { policy } });
  }
  /** {policy, complete, upto}: the smallest policy that would have sufficed while its policy had mode "record". */
  suggestNetwork(options: { after?: number } = {}): Promise<Json> {
    return this.call("GET", ["network", "suggestion"], { query: { after: options.after } });
  }
  /** What the network wall decided, the oldest first. */
  async *networkDecisions(): AsyncGenerator<Json> {
    await this.open();
    yield* this.client.pages(["sandboxes", this.id, "network", "decisions"], "decisions", {});
  }
  /** {allowed, rule, strength, …}: which rule decides about a URL, and how strongly. */
  explainNetwork(url: string, options: { method?: string } = {}): Promise<Json> {
    return this.call("POST", ["network", "explain"], { body: { url, method: options.method } });
  }

  /** {usage, now, …}: what it has used since it was created, and what it holds at this moment. */
  usage(): Promise<Json> {
    return this.call("GET", ["usage"]);
  }

  /**
   * Opens a port to the outside. Opening it again makes a new token. The url lets in whoever has it, for expiresInMs or as
   * long as the sandbox lives; a public one needs none.
   */
  async expose(port: number, options: { expiresInMs?: number; public?: boolean } = {}): Promise<Port> {
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

function codeBody(code: string, how: CodeOptions): Json {
  return {
    code,
    language: how.language,
    context: how.context,
    timeout_ms: how.timeoutMs,
    on_busy: how.onBusy,
    cwd: how.cwd,
    env: how.env,
    kill_on_disconnect: how.killOnDisconnect || undefined,
  };
}
