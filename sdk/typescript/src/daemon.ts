// SPDX-License-Identifier: Apache-2.0
/**
 * The daemon: a connection to it, and what belongs to no single sandbox. Objects that only tell something come as the API
 * tells them (see the API reference), with its names.
 */
import { packContext, readDockerfile } from "./build-context.js";
import { type CodeOptions, CodeResult, collectCode } from "./code.js";
import { ClocheError, ConnectionFailed, IncompleteList, type MissingPart, errorOfBody } from "./errors.js";
import { type Command, ExecResult, type RunOptions, collect, events } from "./exec.js";
import type { CallOptions } from "./exec-info.js";
import { type Names, checkNames } from "./names.js";
import { type LanguageWord, type SandboxFields, type Snapshot, idOf, volumePlaces } from "./options.js";
import { type Caller, type Reply, Transport, readAll } from "./transport.js";
import {
  FOREVER,
  type Json,
  NDJSON,
  type Request,
  type RequestParts,
  type Source,
  env,
  jsonLines,
  parseEndpoint,
  request,
} from "./wire.js";

function warnOf(list: IncompleteList): void {
  if (typeof process !== "undefined" && typeof process.emitWarning === "function") process.emitWarning(list);
  else console.warn(list.message);
}

export interface ClientOptions {
  /**
   * http://HOST:PORT, https://HOST:PORT or unix:/PATH; without it CLOCHE_URL, then the local socket, then a private daemon if
   * a `cloche` program is in PATH.
   */
  url?: string;
  /** Another word for url. */
  host?: string;
  /** Without it CLOCHE_API_KEY. */
  apiKey?: string;
  /** Goes with every request (W3C). */
  traceparent?: string;
  /** How long the daemon may stay silent in a call that does not wait for work in a sandbox. Default: 60,000. */
  timeoutMs?: number;
  /**
   * Gets lists that may not be whole, because a node of a cluster did not answer; to throw the list there makes it an error.
   * Without it a warning is emitted (`process.emitWarning`, else `console.warn`).
   */
  onIncomplete?: (list: IncompleteList) => void;
  /** A fetch function to use for all requests, instead of the runtime's own client. */
  fetch?: typeof fetch;
}

/** Options of a sandbox that is created for one command or one piece of code. */
export interface OnceOptions extends Pick<SandboxFields, "name" | "group" | "alias" | "template" | "image" | "pull" | "snapshot" | "packages" | "volumes" | "results" | "tags" | "env" | "limits" | "engine" | "minGrade" | "waitMs" | "network" | "source"> {
  files?: { path: string; text?: string; base64?: string; mode?: string }[];
  cwd?: string;
  user?: string;
  timeoutMs?: number;
  onStdout?: (chunk: string) => void;
  onStderr?: (chunk: string) => void;
  signal?: AbortSignal;
}

const ONCE: Names<OnceOptions> = {
  name: 1,
  group: 1,
  alias: 1,
  template: 1,
  image: 1,
  pull: 1,
  snapshot: 1,
  packages: 1,
  volumes: 1,
  results: 1,
  tags: 1,
  env: 1,
  limits: 1,
  engine: 1,
  minGrade: 1,
  waitMs: 1,
  network: 1,
  source: 1,
  files: 1,
  cwd: 1,
  user: 1,
  timeoutMs: 1,
  onStdout: 1,
  onStderr: 1,
  signal: 1,
};

export interface BuildOptions {
  /** A recipe's text; without it `name` is one that comes with cloche. */
  recipe?: string;
  /** With a Dockerfile, the name of what is built. */
  name?: string;
  /** A Dockerfile's text, instead of a recipe. */
  dockerfile?: string;
  /** The files that the Dockerfile copies: the value that uploadBuildFiles() returned. */
  files?: string;
  buildArgs?: Record<string, string>;
  /** The stage that becomes the template. */
  target?: string;
  shared?: boolean;
  /** Does not use results of earlier builds. */
  fresh?: boolean;
  /** How often the build is started again, after a pause, if a step fails. */
  retries?: number;
}

export interface DiffOptions extends CallOptions {
  patch?: boolean;
  limit?: number;
}

/** The calls of a client that do not return a Sandbox. */
export class Daemon implements Caller {
  private readonly transport: Transport;
  private readonly onIncomplete: (list: IncompleteList) => void;

  constructor(options: ClientOptions = {}) {
    this.onIncomplete = options.onIncomplete ?? warnOf;
    const url = options.url ?? options.host ?? env("CLOCHE_URL");
    this.transport = new Transport(url ? parseEndpoint(url) : undefined, {
      apiKey: options.apiKey ?? env("CLOCHE_API_KEY"),
      traceparent: options.traceparent,
      timeoutMs: options.timeoutMs ?? 60_000,
      fetch: options.fetch,
    });
  }

  /** Sends a request and resolves with its reply, the body unread; errors are thrown. */
  open(req: Request): Promise<Reply> {
    return this.transport.open(req);
  }

  /** Sends a request and resolves with its JSON. */
  async call(req: Request): Promise<Json> {
    const data = await readAll(await this.open(req));
    return data.length ? JSON.parse(new TextDecoder().decode(data)) : {};
  }

  /** Lets go of idle connections. */
  close(): void {
    this.transport.close();
  }

  private tellIncomplete(field: string, answer: Json): void {
    const parts = (answer["incomplete"] ?? []) as MissingPart[];
    if (parts.length > 0) this.onIncomplete(new IncompleteList(field, parts));
  }

  /** The items of a list without pages. */
  async items(path: readonly string[], field: string): Promise<Json[]> {
    const answer = await this.call(request("GET", path));
    this.tellIncomplete(field, answer);
    return answer[field] as Json[];
  }

  /** The items of a list that comes in pages. */
  async *pages(path: readonly string[], field: string, query: NonNullable<RequestParts["query"]>): AsyncGenerator<Json> {
    let cursor: string | undefined;
    do {
      const page = await this.call(request("GET", path, { query: { ...query, cursor } }));
      this.tellIncomplete(field, page);
      yield* page[field] as Json[];
      cursor = page["next_cursor"] ?? undefined;
    } while (cursor);
  }

  /** {status, ready, version, …}: whether the daemon works, and what its host can do. */
  health(): Promise<Json> {
    return this.call(request("GET", ["health"]));
  }

  /** Figures of all running sandboxes of the project, from their last readings, and how many sandboxes are in each state. */
  figures(options: CallOptions = {}): Promise<Json> {
    return this.call(request("GET", ["figures"], { signal: options.signal }));
  }
  /** What the daemon's host can do, what is missing and how to get it: {jail, checks}; for admins of "default". */
  doctor(): Promise<Json> {
    return this.call(request("GET", ["doctor"]));
  }
  /** The daemon's settings: {file, settings}, each with its value, default, origin and what a change needs; for admins of "default". */
  settings(): Promise<Json> {
    return this.call(request("GET", ["settings"]));
  }
  /**
   * The nodes of the cluster, by their beats: {cluster, as_of_us, nodes: [{name, state, cordoned, load, problem, …}]}. On a machine that is in
   * no cluster `cluster` is null and `nodes` is empty. For admins of "default".
   */
  nodes(): Promise<Json> {
    return this.call(request("GET", ["nodes"]));
  }

  /** Creates a sandbox, runs one command in it and removes it, in one call. */
  async run(command: Command, options: OnceOptions & Pick<RunOptions, "stdin"> = {}): Promise<ExecResult> {
    checkNames("run", { ...ONCE, stdin: 1 }, options);
    const { onStdout, onStderr, stdin, ...rest } = options;
    const what = typeof command === "string" ? { command } : { argv: [...command] };
    const text = typeof stdin === "string" ? stdin : stdin && new TextDecoder().decode(stdin);
    const body = { ...what, ...onceBody(rest), stdin: text };
    const parts: RequestParts = { body, timeoutMs: FOREVER, signal: options.signal };
    if (!onStdout && !onStderr) return ExecResult.fromJson(await this.call(request("POST", ["run"], parts)));
    const reply = await this.open(request("POST", ["run"], { ...parts, accept: NDJSON }));
    return collect(events(reply.pieces()), onStdout, onStderr);
  }

  /** Creates a sandbox, runs code in it and removes it, in one call. */
  async runCode(code: string, options: OnceOptions & Pick<CodeOptions, "onResult"> & { language?: LanguageWord } = {}): Promise<CodeResult> {
    checkNames("runCode", { ...ONCE, onResult: 1, language: 1 }, options);
    const { onStdout, onStderr, onResult } = options;
    const body = { code, language: options.language, ...onceBody(options) };
    const parts: RequestParts = { body, timeoutMs: FOREVER, signal: options.signal };
    if (!onStdout && !onStderr && !onResult) return CodeResult.fromJson(await this.call(request("POST", ["run"], parts)));
    const reply = await this.open(request("POST", ["run"], { ...parts, accept: NDJSON }));
    return collectCode(events(reply.pieces()), options);
  }

  /**
   * {from_us, step_ms, series: [{name, unit, aggregate, values}], …}: what was used in the last "1h", "24h", "7d" or "30d".
   * `scope` is "project" (one's own, or for admins of "default" the one with the id or name `id`), "sandbox" (`id`, also of a
   * removed one) or "host". A value of null is a gap: the daemon or the sandbox did not run.
   */
  history(
    options: { range?: "1h" | "24h" | "7d" | "30d"; scope?: "host" | "project" | "sandbox"; id?: string } & CallOptions = {},
  ): Promise<Json> {
    checkNames("history", { range: 1, scope: 1, id: 1, signal: 1 }, options);
    const { range, scope, id, signal } = options;
    return this.call(request("GET", ["history"], { query: { range, scope, id }, signal }));
  }

  /**
   * The sandboxes that ran at a moment: id, name, template, began_us, ended_us, and cpu_milli and memory_bytes at that moment.
   */
  async runningAt(atUs: number, options: { project?: string } = {}): Promise<Json[]> {
    checkNames("runningAt", { project: 1 }, options);
    const ran: Json[] = [];
    for await (const one of this.pages(["history", "running"], "sandboxes", { at_us: atUs, project: options.project })) ran.push(one);
    return ran;
  }

  /** Rows of usage, from day to day (UTC), both included. Default: this month. */
  async usage(
    options: { groupBy?: "project" | "sandbox" | "day"; from?: string; to?: string; project?: string } = {},
  ): Promise<Json[]> {
    checkNames("usage", { groupBy: 1, from: 1, to: 1, project: 1 }, options);
    const { groupBy = "project", from, to, project } = options;
    const rows: Json[] = [];
    for await (const row of this.pages(["usage"], "rows", { group_by: groupBy, from, to, project })) rows.push(row);
    return rows;
  }

  /**
   * Entries of the event log after `after`: the `seq` of an entry, or with `all` (entries of all projects) its `place`. With
   * `follow` it goes on with new entries, without end. If the connection breaks, it reconnects and goes on: no entry is lost
   * or comes twice. With `follow` and `figures`, what figures() returns is sent too, every few seconds: {type: "figures",
   * figures}. With `audit` it reads the audit log instead: who has read content or changed something, and from where.
   *
   * The other arguments search. Entries must match all of them: `who` (a key's id or name, a person's subject, email or name),
   * `address` (also a range such as "10.0.0.0/8"), `text` in the type or the facts, and the time from `since` to `until`
   * (seconds, RFC 3339, or a Date). With `newest`, the newest entries come first, from `before` backwards. `limit` is the most
   * entries to return. In a cluster each node has a log of its own: `node` says whose.
   */
  events(
    options: {
      after?: number; follow?: boolean; type?: string; sandbox?: string; all?: boolean; audit?: boolean; figures?: boolean;
      who?: string; address?: string; text?: string; since?: string | number | Date; until?: string | number | Date; newest?: boolean; before?: number; limit?: number; node?: string;
    } & CallOptions = {},
  ): AsyncGenerator<Json> {
    const { follow = false, sandbox, since, until, after, limit, newest, before, type, all, audit, figures, who, address, text, node } = options;
    const query = { type, sandbox_id: sandbox, all, audit, figures, who, address, text, since: moment(since), until: moment(until), node };
    if (follow) return this.follow(["events"], query, options);
    return this.search(["events"], { ...query, newest, after: after || undefined, before }, limit, options);
  }

  /** What a search finds, up to `limit`: asks on where a reply has ended at a bound of its own, or was cut off. */
  private async *search(path: readonly string[], query: NonNullable<RequestParts["query"]>, limit: number | undefined, options: CallOptions): AsyncGenerator<Json> {
    const { signal } = options;
    const way = query["newest"] ? "before" : "after";
    let at = query[way];
    let left = limit ?? Infinity;
    for (let hasMore = true; hasMore && left > 0; ) {
      const parts = { query: { ...query, [way]: at, limit: limit === undefined ? undefined : left }, accept: NDJSON, timeoutMs: FOREVER, signal };
      hasMore = false;
      try {
        for await (const j of jsonLines((await this.open(request("GET", path, parts))).pieces())) {
          if (j["type"] === "more") {
            at = j[way];
            hasMore = true;
            continue;
          }
          at = j["place"] ?? j["seq"] ?? at;
          if (j["seq"]) left--;
          yield j;
        }
      } catch (error) {
        if (!(error instanceof ConnectionFailed) || signal?.aborted) throw error;
        hasMore = true;
      }
    }
  }

  private async *follow(
    path: readonly string[],
    query: NonNullable<RequestParts["query"]>,
    options: { after?: number; follow?: boolean } & CallOptions,
  ): AsyncGenerator<Json> {
    const { follow, signal } = options;
    let after = options.after ?? 0;
    for (;;) {
      const parts = { query: { ...query, after: after || undefined, follow }, accept: NDJSON, timeoutMs: FOREVER, signal };
      try {
        for await (const j of jsonLines((await this.open(request("GET", path, parts))).pieces())) {
          after = Math.max(after, j["place"] ?? j["seq"] ?? 0);
          yield j;
        }
        if (!follow) return;
      } catch (error) {
        if (!(error instanceof ConnectionFailed) || signal?.aborted) throw error;
      }
    }
  }

  /** {limits, current, …} of the caller's project, another project or a key. */
  async quota(options: { project?: string; key?: string } = {}): Promise<Json> {
    checkNames("quota", { project: 1, key: 1 }, options);
    const { project, key } = options;
    if (key !== undefined) return this.call(request("GET", ["keys", key, "quota"], { query: { project } }));
    if (project !== undefined) return this.call(request("GET", ["projects", project, "quota"]));
    return (await this.call(request("GET", ["quota"])))["project"];
  }

  /**
   * Sets all limits of a project (for admins of "default") or a key: sandboxes, vcpus, memory_mib, disk_mib, creates_per_minute,
   * budget (text). Those left out have their default; "unlimited" is none.
   */
  async setQuota(limits: Json, options: { project?: string; key?: string } = {}): Promise<Json> {
    checkNames("setQuota", { project: 1, key: 1 }, options);
    const { project, key } = options;
    if (key !== undefined) return this.call(request("PUT", ["keys", key, "quota"], { query: { project }, body: limits }));
    return this.call(request("PUT", ["projects", project ?? "default", "quota"], { body: limits }));
  }

  /** API keys of the project, without their secrets. */
  async keys(options: { project?: string } = {}): Promise<Json[]> {
    checkNames("keys", { project: 1 }, options);
    return (await this.call(request("GET", ["keys"], { query: { project: options.project } })))["keys"];
  }
  /** {key, secret}: the secret is shown only now. The key is valid for expiresInMs, or until it is revoked. */
  async createKey(name: string, options: { scope?: "read" | "write" | "admin"; project?: string; expiresInMs?: number } = {}): Promise<Json> {
    checkNames("createKey", { scope: 1, project: 1, expiresInMs: 1 }, options);
    const { scope, project, expiresInMs } = options;
    return this.call(request("POST", ["keys"], { body: { name, scope, project, expires_in_ms: expiresInMs } }));
  }
  /** Revokes a key at once. What was begun with it ends. */
  async revokeKey(id: string, options: { project?: string } = {}): Promise<void> {
    checkNames("revokeKey", { project: 1 }, options);
    await this.call(request("DELETE", ["keys", id], { query: { project: options.project } }));
  }

  /** Lists the project's secrets by name. Their values cannot be read back. */
  async secrets(): Promise<Json[]> {
    return (await this.call(request("GET", ["secrets"])))["secrets"];
  }
  /**
   * Stores a value under a name, or replaces it. Policies and environments refer to it as secret://NAME. With `hosts` it may
   * be sent to these hosts only, and not be put into an environment. Running sandboxes use a new value at once.
   */
  setSecret(name: string, value: string, options: { hosts?: readonly string[] } = {}): Promise<Json> {
    return this.call(request("PUT", ["secrets", name], { body: { value, hosts: options.hosts } }));
  }
  /**
   * Removes a secret. Refused if policies of living sandboxes refer to it, unless `force` is set; what those rules allow is
   * then denied.
   */
  async deleteSecret(name: string, options: { force?: boolean } = {}): Promise<void> {
    await this.call(request("DELETE", ["secrets", name], { query: { force: options.force || undefined } }));
  }

  /**
   * {domain, address, certificates, fingerprints, expires_us}: the domain of sandboxes' ports, and its certificate authority
   * in PEM. Needs no key.
   */
  authority(): Promise<Json> {
    return this.call(request("GET", ["authority"]));
  }
  /** {issuer, token_ms, rotate_ms, audiences, keys}: the issuer of sandboxes' tokens, and the keys that sign them. */
  identity(): Promise<Json> {
    return this.call(request("GET", ["identity"]));
  }
  /**
   * Lets the next key sign from now on. Old tokens stay valid until they expire; with `revoke` they become invalid, because
   * all old keys are removed. For admins of "default".
   */
  async rotateIdentity(options: { revoke?: boolean } = {}): Promise<Json> {
    checkNames("rotateIdentity", { revoke: 1 }, options);
    return this.call(request("POST", ["identity", "rotate"], { body: { revoke: options.revoke ?? false } }));
  }

  /** Lists the project's webhooks: the URLs that its events are sent to. */
  async webhooks(): Promise<Json[]> {
    return (await this.call(request("GET", ["webhooks"])))["webhooks"];
  }
  /**
   * {webhook, secret}: events of the project go to url from now on; the secret is shown only now. With `secret`, a reference
   * such as "secret://HOOK", they are signed with that secret of the project.
   */
  async createWebhook(url: string, options: { types?: string; secret?: string } = {}): Promise<Json> {
    checkNames("createWebhook", { types: 1, secret: 1 }, options);
    return this.call(request("POST", ["webhooks"], { body: { url, types: options.types, secret: options.secret } }));
  }
  /** Changes a webhook. Fields that are left out stay as they are; types "" means all types. */
  async updateWebhook(id: string, options: { url?: string; types?: string; secret?: string }): Promise<Json> {
    checkNames("updateWebhook", { url: 1, types: 1, secret: 1 }, options);
    return this.call(request("PATCH", ["webhooks", id], { body: { url: options.url, types: options.types, secret: options.secret } }));
  }
  /** Removes a webhook. */
  async deleteWebhook(id: string): Promise<void> {
    await this.call(request("DELETE", ["webhooks", id]));
  }

  /** Lists the snapshots of the project, or of one sandbox, newest first. */
  snapshots(options: { sandbox?: string } = {}): AsyncGenerator<Snapshot> {
    return this.pages(["snapshots"], "snapshots", { sandbox: options.sandbox }) as AsyncGenerator<Snapshot>;
  }
  /** Gets one by its id or name. */
  async snapshot(idOrName: string): Promise<Snapshot> {
    return (await this.call(request("GET", ["snapshots", idOrName]))) as Snapshot;
  }
  /** Changes the name of a snapshot, and when it is removed automatically. */
  async updateSnapshot(idOrName: string, options: { name?: string; expiresInMs?: number }): Promise<Json> {
    checkNames("updateSnapshot", { name: 1, expiresInMs: 1 }, options);
    const body = { name: options.name, expires_in_ms: options.expiresInMs };
    return this.call(request("PATCH", ["snapshots", idOrName], { body }));
  }
  /** Removes a snapshot. Sandboxes that were started from it go on; they have a copy of their own. */
  async deleteSnapshot(idOrName: string): Promise<void> {
    await this.call(request("DELETE", ["snapshots", idOrName]));
  }
  /** {root_id, nodes}: all sandboxes and snapshots with the same origin as this one, parents before their children. */
  snapshotTree(idOrName: string): Promise<Json> {
    return this.call(request("GET", ["snapshots", idOrName, "tree"]));
  }

  /** Lists the volumes of the project, oldest first. */
  async volumes(): Promise<Json[]> {
    return this.items(["volumes"], "volumes");
  }
  /** Gets one by its id or name. */
  volume(idOrName: string): Promise<Json> {
    return this.call(request("GET", ["volumes", idOrName]));
  }
  /**
   * Creates a volume, whose files outlive sandboxes. `volumes` of a create mounts it. With `oneWriter` only one running
   * sandbox at a time may mount it for writing. With `source`, the id or name of a volume, it is a copy of that one as it is
   * now.
   */
  async createVolume(name: string, options: { sizeMib?: number; oneWriter?: boolean; source?: string } = {}): Promise<Json> {
    checkNames("createVolume", { sizeMib: 1, oneWriter: 1, source: 1 }, options);
    const body = { name, size_mib: options.sizeMib, one_writer: options.oneWriter, source: options.source };
    return this.call(request("POST", ["volumes"], { body, timeoutMs: options.source ? FOREVER : undefined }));
  }
  /** Removes a volume with its files. Refused while a running sandbox has it. */
  async deleteVolume(idOrName: string): Promise<void> {
    await this.call(request("DELETE", ["volumes", idOrName]));
  }

  /**
   * Exports a snapshot's files as one file, in pieces, for importSnapshot(). A snapshot with memory is refused, unless
   * `omitMemory` leaves the memory out.
   */
  async *exportSnapshot(idOrName: string, options: { omitMemory?: boolean } & CallOptions = {}): AsyncGenerator<Uint8Array> {
    const query = { memory: options.omitMemory ? "omit" : undefined };
    const parts = { query, accept: "application/x-cloche-bundle", timeoutMs: FOREVER, signal: options.signal };
    yield* (await this.open(request("GET", ["snapshots", idOrName, "archive"], parts))).pieces();
  }
  /** Creates a snapshot from the output of exportSnapshot(), also from another daemon. Its template must exist here. */
  importSnapshot(name: string, archive: Source, options: CallOptions = {}): Promise<Json> {
    return this.call(request("PUT", ["snapshots", name, "archive"], { stream: archive, timeoutMs: FOREVER, signal: options.signal }));
  }
  /**
   * Lists what differs between two sandboxes or snapshots of the same template: {changes, truncated}. A change has path, kind
   * (added, deleted, modified), what `changed`, and types, sizes, modes and owners of both sides; with `patch` also what
   * changed in texts, as a unified diff.
   */
  async diff(from: string, to: string, options: DiffOptions = {}): Promise<Json> {
    checkNames("diff", { patch: 1, limit: 1, signal: 1 }, options);
    const query = { from, to, patch: options.patch, limit: options.limit };
    return this.call(request("GET", ["diff"], { query, timeoutMs: FOREVER, signal: options.signal }));
  }

  /** Lists shared templates and the project's own. The first is `host`, the programs of the daemon's machine. */
  async templates(): Promise<Json[]> {
    return (await this.call(request("GET", ["templates"])))["templates"];
  }
  /** Gets one by its id or name. */
  template(idOrName: string): Promise<Json> {
    return this.call(request("GET", ["templates", idOrName]));
  }
  /** Makes a template from the current files of a sandbox. The sandbox may go on meanwhile. */
  createTemplate(
    name: string,
    sandbox: string | { id: string },
    options: { env?: Record<string, string>; user?: string; cwd?: string; replace?: boolean; shared?: boolean; small?: boolean; tree?: boolean } = {},
  ): Promise<Json> {
    const body = { name, from: typeof sandbox === "string" ? sandbox : sandbox.id, ...options };
    return this.call(request("POST", ["templates"], { body, timeoutMs: FOREVER }));
  }
  /**
   * Makes a template from a tar archive: an export, an OCI image layout, the output of `docker save`, or a root directory.
   * The tar may be compressed with gzip or zstd. `ref` names the image, if the archive has several.
   */
  importTemplate(
    name: string,
    archive: Source,
    options: { ref?: string; shared?: boolean; replace?: boolean; small?: boolean } & CallOptions = {},
  ): Promise<Json> {
    const { signal, ...query } = options;
    return this.call(request("PUT", ["templates", name, "archive"], { query, stream: archive, timeoutMs: FOREVER, signal }));
  }
  /**
   * Pulls an image, `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`, from a registry, and makes a template of it. The password may be
   * `secret://NAME`; the registry gets the credentials, and so does `token_host`, if there is one.
   */
  pullTemplate(
    name: string,
    ref: string,
    options: {
      credentials?: { username: string; password: string; token_host?: string };
      shared?: boolean;
      replace?: boolean;
      small?: boolean;
    } & CallOptions = {},
  ): Promise<Json> {
    const { signal, ...rest } = options;
    return this.call(request("POST", ["templates", name, "pull"], { body: { ref, ...rest }, timeoutMs: FOREVER, signal }));
  }
  /** Exports a template as one archive, in pieces: an OCI image layout, for importTemplate() or any container engine. */
  async *exportTemplate(idOrName: string, options: CallOptions = {}): AsyncGenerator<Uint8Array> {
    const parts = { accept: "application/x-tar", timeoutMs: FOREVER, signal: options.signal };
    yield* (await this.open(request("GET", ["templates", idOrName, "archive"], parts))).pieces();
  }
  /** Removes a template. Refused while a sandbox runs on it or keeps files over it. */
  async deleteTemplate(idOrName: string): Promise<void> {
    await this.call(request("DELETE", ["templates", idOrName]));
  }

  /** Lists the builds of the project, newest first. */
  async builds(): Promise<Json[]> {
    return (await this.call(request("GET", ["builds"])))["builds"];
  }
  /** Gets one build, with its state. */
  getBuild(id: string): Promise<Json> {
    return this.call(request("GET", ["builds", id]));
  }
  /** Starts a build; buildEvents() follows it. */
  startBuild(options: BuildOptions): Promise<Json> {
    const { recipe, name, dockerfile, files, buildArgs, target, shared, fresh, retries } = options;
    const body = { recipe, name, dockerfile, files, build_args: buildArgs, target, shared, fresh, retries };
    return this.call(request("POST", ["builds"], { body }));
  }
  /**
   * Uploads the files that a Dockerfile copies, as a tar, optionally compressed with gzip. Resolves with the value for `files`
   * of startBuild().
   */
  async uploadBuildFiles(archive: Source, options: CallOptions = {}): Promise<string> {
    const parts = { stream: archive, timeoutMs: FOREVER, signal: options.signal };
    return (await this.call(request("PUT", ["builds", "files"], parts)))["files"];
  }
  /** Cancels a build that waits or runs. */
  cancelBuild(id: string): Promise<Json> {
    return this.call(request("DELETE", ["builds", id]));
  }
  /** {type: "log", seq, text}, {type: "progress", build} and, last of all, {type: "ended", build}. */
  async *buildEvents(id: string, options: { after?: number; follow?: boolean } & CallOptions = {}): AsyncGenerator<Json> {
    for await (const event of this.follow(["builds", id, "events"], {}, { follow: true, ...options })) {
      yield event;
      if (event["type"] === "ended") return;
    }
  }
  /**
   * Builds a template and waits for its end. A build that failed throws its error. `context` is a directory: its files are
   * uploaded, except those that its .dockerignore names. Without `dockerfile`, its Dockerfile is built.
   */
  async buildTemplate(options: BuildOptions & { context?: string; onLog?: (line: string) => void }): Promise<Json> {
    checkNames(
      "buildTemplate",
      { recipe: 1, name: 1, dockerfile: 1, context: 1, files: 1, buildArgs: 1, target: 1, shared: 1, fresh: 1, retries: 1, onLog: 1 },
      options,
    );
    return this.awaitBuild(await this.startBuild(await this.withContext(options)), options);
  }
  /** Installs packages ahead of the creates and runs that ask for them; resolves with the build once it is ready. */
  async preparePackages(
    packages: readonly string[],
    options: { template?: string; language?: string; onProgress?: (build: Json) => void; onLog?: (line: string) => void } = {},
  ): Promise<Json> {
    checkNames("preparePackages", { template: 1, language: 1, onProgress: 1, onLog: 1 }, options);
    const body = { packages, template: options.template, language: options.language };
    return this.awaitBuild(await this.call(request("POST", ["builds"], { body })), options);
  }

  private async withContext(options: BuildOptions & { context?: string }): Promise<BuildOptions> {
    const { context, ...build } = options;
    if (context === undefined) return build;
    if (build.dockerfile === undefined && build.recipe === undefined) build.dockerfile = await readDockerfile(context);
    return { ...build, files: await this.uploadBuildFiles(packContext(context)) };
  }

  private async awaitBuild(
    started: Json,
    options: { onLog?: (line: string) => void; onProgress?: (build: Json) => void },
  ): Promise<Json> {
    let build = started;
    if (build["state"] !== "ready")
      for await (const event of this.buildEvents(build["id"])) {
        if (event["type"] === "log") options.onLog?.(event["text"]);
        else if (event["type"] === "progress") options.onProgress?.(event["build"]);
        else if (event["type"] === "ended") build = event["build"];
      }
    if (build["state"] === "cancelled")
      throw new ClocheError(`the build of ${build["name"]} was cancelled`, { code: "conflict" });
    if (build["error"]) throw errorOfBody(0, build);
    return build;
  }

  /** Lists all projects; for admins of "default". */
  async projects(): Promise<Json[]> {
    return (await this.call(request("GET", ["projects"])))["projects"];
  }
  /** Creates a project; for admins of "default". */
  createProject(name: string): Promise<Json> {
    return this.call(request("POST", ["projects"], { body: { name } }));
  }
  /**
   * Removes a project (by id or name) and its keys; for admins of "default". Refused while it has sandboxes, volumes,
   * snapshots or templates.
   */
  async deleteProject(project: string): Promise<void> {
    await this.call(request("DELETE", ["projects", project]));
  }
}

/** A time as the daemon reads it. */
function moment(at: string | number | Date | undefined): string | undefined {
  return at instanceof Date ? at.toISOString() : at?.toString();
}

function onceBody(options: OnceOptions): Json {
  const { volumes, snapshot, minGrade, waitMs, timeoutMs, name, group, alias, template, image, pull, packages, results, tags, env, limits, engine, network, source, files, cwd, user } = options;
  const same = { name, group, alias, template, image, pull, packages, results, tags, env, limits, engine, network, source, files, cwd, user };
  return { ...same, snapshot: snapshot && idOf(snapshot), volumes: volumePlaces(volumes), min_grade: minGrade, wait_ms: waitMs, timeout_ms: timeoutMs };
}
