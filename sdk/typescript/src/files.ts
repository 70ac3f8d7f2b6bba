// SPDX-License-Identifier: Apache-2.0
/**
 * A sandbox's files. All work is done inside, as `user` (the sandbox's default user without it).
 */
import { errorOfBody } from "./errors.js";
import type { CallOptions } from "./exec-info.js";
import { checkNames } from "./names.js";
import { type Caller, readAll } from "./transport.js";
import { FOREVER, type Json, NDJSON, type RequestParts, type Source, jsonLines, request } from "./wire.js";

export interface FileOptions extends CallOptions {
  user?: string;
}

/** A file, directory or link, as `lstat` saw it inside. */
export class Entry {
  readonly path: string;
  readonly name: string;
  readonly type: "file" | "directory" | "symlink" | "fifo" | "socket" | "device";
  readonly mode: number;
  readonly size: number;
  readonly uid: number;
  readonly gid: number;
  /** null where the sandbox has no name for it. */
  readonly user: string | null;
  readonly group: string | null;
  readonly mtime: Date;
  /** Of a symlink. */
  readonly target: string | undefined;

  constructor(readonly raw: Json) {
    this.path = raw["path"];
    this.name = raw["name"];
    this.type = raw["type"];
    this.mode = parseInt(raw["mode"], 8);
    this.size = raw["size"];
    this.uid = raw["uid"];
    this.gid = raw["gid"];
    this.user = raw["user"];
    this.group = raw["group"];
    this.mtime = new Date(raw["mtime_us"] / 1000);
    this.target = raw["target"];
  }

  get isFile(): boolean {
    return this.type === "file";
  }
  get isDirectory(): boolean {
    return this.type === "directory";
  }
}

export interface WriteOptions extends FileOptions {
  mode?: number;
  append?: boolean;
  /** Makes missing directories. */
  parents?: boolean;
  /** Refuses to replace what is there. */
  exclusive?: boolean;
  /** An Entry that you got for the file: write() throws FileChanged if the file was changed since. */
  ifUnchanged?: Entry;
}

export interface WatchEvent {
  type: "ready" | "created" | "modified" | "removed" | "moved" | "attrib" | "overflow";
  path: string;
  to?: string;
}

/** Modes travel as octal words, as chmod takes them. */
function modeWord(mode: number | undefined): string | undefined {
  return mode === undefined ? undefined : mode.toString(8).padStart(4, "0");
}

export class Files {
  /** `idOf` gives the sandbox's id, for which it may have to be made first. */
  constructor(
    private readonly client: Caller,
    private readonly idOf: () => Promise<string>,
  ) {}

  private async request(method: string, op: string, parts: RequestParts) {
    return request(method, ["sandboxes", await this.idOf(), "files", ...(op ? [op] : [])], parts);
  }
  private async get(op: string, query: RequestParts["query"], signal?: AbortSignal): Promise<Json> {
    return this.client.call(await this.request("GET", op, { query, signal }));
  }
  private async post(op: string, body: Json, signal?: AbortSignal): Promise<void> {
    await this.client.call(await this.request("POST", op, { body, signal }));
  }

  /** Reads a file: all bytes, or `length` bytes from `offset`. */
  async read(path: string, options: { offset?: number; length?: number } & FileOptions = {}): Promise<Uint8Array> {
    const { signal, ...rest } = options;
    return readAll(await this.client.open(await this.request("GET", "", { query: { path, ...rest }, signal })));
  }

  /** Reads a file as UTF-8 text. */
  async readText(path: string, options: FileOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options));
  }

  /** Reads a file in pieces, for files that are too large for memory. */
  async *readStream(path: string, options: FileOptions = {}): AsyncGenerator<Uint8Array> {
    const parts = { query: { path, user: options.user }, timeoutMs: FOREVER, signal: options.signal };
    yield* (await this.client.open(await this.request("GET", "", parts))).pieces();
  }

  /** Writes a file, completely or not at all. Streams are sent as they come. */
  async write(path: string, data: Source, options: WriteOptions = {}): Promise<Entry> {
    checkNames("write", { mode: 1, append: 1, parents: 1, exclusive: 1, ifUnchanged: 1, user: 1, signal: 1 }, options);
    const { signal, mode, append, parents, exclusive, ifUnchanged, user } = options;
    const query = { path, mode: modeWord(mode), append, parents, exclusive, if_mtime_us: ifUnchanged?.raw["mtime_us"], user };
    return new Entry(await this.client.call(await this.request("PUT", "", { query, stream: data, signal })));
  }

  /** Appends to a file, and creates it if it is missing. */
  append(path: string, data: Source, options: FileOptions = {}): Promise<Entry> {
    return this.write(path, data, { ...options, append: true });
  }

  /** Describes a file, directory or link. A link is described itself, unless `follow` is set. */
  async stat(path: string, options: { follow?: boolean } & FileOptions = {}): Promise<Entry> {
    checkNames("stat", { follow: 1, user: 1, signal: 1 }, options);
    return new Entry(await this.get("stat", { path, follow: options.follow, user: options.user }, options.signal));
  }

  /** Whether the path exists. */
  async exists(path: string, options: { follow?: boolean } & FileOptions = {}): Promise<boolean> {
    checkNames("exists", { follow: 1, user: 1, signal: 1 }, options);
    return (await this.get("exists", { path, follow: options.follow, user: options.user }, options.signal))["exists"];
  }

  /** Lists a directory, sorted by name. `recursive` includes what is below, `depth` levels deep at most. */
  async list(
    path: string,
    options: { recursive?: boolean; depth?: number; limit?: number } & FileOptions = {},
  ): Promise<Entry[]> {
    const { signal, ...query } = options;
    return ((await this.get("list", { path, ...query }, signal))["entries"] as Json[]).map((j) => new Entry(j));
  }

  /** Creates a directory. `parents` also creates missing ones above it, and accepts an existing directory. */
  async mkdir(path: string, options: { parents?: boolean; mode?: number } & FileOptions = {}): Promise<void> {
    checkNames("mkdir", { parents: 1, mode: 1, user: 1, signal: 1 }, options);
    const { signal, mode, parents, user } = options;
    return this.post("mkdir", { path, parents, mode: modeWord(mode), user }, signal);
  }

  /** Moves or renames. An existing `to` is replaced, unless `exclusive` is set. */
  move(path: string, to: string, options: { parents?: boolean; exclusive?: boolean } & FileOptions = {}): Promise<void> {
    const { signal, ...rest } = options;
    return this.post("move", { path, to, ...rest }, signal);
  }

  /** Copies a file, or with `recursive` a directory. */
  copy(
    path: string,
    to: string,
    options: { recursive?: boolean; parents?: boolean; exclusive?: boolean } & FileOptions = {},
  ): Promise<void> {
    const { signal, ...rest } = options;
    return this.post("copy", { path, to, ...rest }, signal);
  }

  /** Sets the permission bits; with `recursive` also of everything below. */
  async chmod(path: string, mode: number, options: { recursive?: boolean } & FileOptions = {}): Promise<void> {
    checkNames("chmod", { recursive: 1, user: 1, signal: 1 }, options);
    const { signal, recursive, user } = options;
    return this.post("chmod", { path, mode: modeWord(mode), recursive, user }, signal);
  }

  /** Sets the owner: "user" or "user:group", as names or numbers. */
  async chown(path: string, owner: string, options: { recursive?: boolean } & FileOptions = {}): Promise<void> {
    checkNames("chown", { recursive: 1, user: 1, signal: 1 }, options);
    const { signal, recursive, user } = options;
    return this.post("chown", { path, owner, recursive, user }, signal);
  }

  /** Makes `path` a symbolic link to `target`. */
  symlink(path: string, target: string, options: FileOptions = {}): Promise<void> {
    return this.post("symlink", { path, target, user: options.user }, options.signal);
  }

  /** Removes a file, or with `recursive` a directory and everything in it. */
  async remove(path: string, options: { recursive?: boolean; missingOk?: boolean } & FileOptions = {}): Promise<void> {
    checkNames("remove", { recursive: 1, missingOk: 1, user: 1, signal: 1 }, options);
    const { signal, recursive, missingOk, user } = options;
    const query = { path, recursive, missing_ok: missingOk, user };
    await this.client.call(await this.request("DELETE", "", { query, signal }));
  }

  /** Downloads a directory as a tar archive, in pieces. */
  async *tarOut(
    path: string,
    options: { compress?: "none" | "gzip" | "zstd" } & FileOptions = {},
  ): AsyncGenerator<Uint8Array> {
    const { signal, compress, user } = options;
    const parts = { query: { path, compress, user }, timeoutMs: FOREVER, signal };
    yield* (await this.client.open(await this.request("GET", "tar", parts))).pieces();
  }

  /** Unpacks a tar archive into the directory `path`. */
  async tarIn(
    path: string,
    archive: Source,
    options: { compress?: "none" | "gzip" | "zstd"; parents?: boolean } & FileOptions = {},
  ): Promise<{ entries: number; bytes: number }> {
    const { signal, compress, parents, user } = options;
    const parts = { query: { path, compress, parents, user }, stream: archive, signal, timeoutMs: FOREVER };
    const reply = await this.client.call(await this.request("PUT", "tar", parts));
    return { entries: reply["entries"], bytes: reply["bytes"] };
  }

  /** Yields changes below `path` as they happen. The first one has the type `ready`. Leaving the loop ends it. */
  async *watch(path: string, options: { recursive?: boolean } & FileOptions = {}): AsyncGenerator<WatchEvent> {
    const { signal, recursive, user } = options;
    const parts = { query: { path, recursive, user }, accept: NDJSON, timeoutMs: FOREVER, signal };
    const reply = await this.client.open(await this.request("GET", "watch", parts));
    for await (const j of jsonLines(reply.pieces())) {
      if (j["type"] === "error") throw errorOfBody(0, j);
      yield j as WatchEvent;
    }
  }
}
