// SPDX-License-Identifier: Apache-2.0
/**
 * A sandbox's files by the names and errors of node:fs/promises, for programs that were written for that.
 *
 *     const text = await sandbox.fs.readFile("notes.txt", "utf8");
 *
 * An error has Node's `code` (ENOENT, EEXIST, …) and the daemon's own as its `cause`. What Node knows and is not here (file
 * handles, opendir, utimes) is not said by the API.
 */
import { ClocheError } from "./errors.js";
import type { Entry, Files } from "./files.js";
import type { Source } from "./wire.js";

export type FsWhat = { encoding?: "utf8" | "utf-8" | null } | "utf8" | "utf-8" | null;

const CODES: Record<string, string> = {
  file_not_found: "ENOENT",
  file_exists: "EEXIST",
  file_denied: "EACCES",
  file_invalid: "EINVAL",
  disk_full: "ENOSPC",
  host_disk_full: "ENOSPC",
};

/** `code` and `path` are as Node has them. */
export class FsError extends ClocheError {
  constructor(
    error: ClocheError,
    readonly syscall: string,
    readonly path: string,
  ) {
    const code = CODES[error.code] ?? error.code;
    super(`${code}: ${error.message}, ${syscall} '${path}'`, { code, status: error.status, requestId: error.requestId, cause: error });
  }
}

/** The result of stat() and lstat(). */
export class Stats {
  readonly size: number;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtime: Date;
  readonly mtimeMs: number;

  constructor(private readonly entry: Entry) {
    this.size = entry.size;
    this.mode = entry.mode;
    this.uid = entry.uid;
    this.gid = entry.gid;
    this.mtime = entry.mtime;
    this.mtimeMs = entry.mtime.getTime();
  }

  isFile(): boolean {
    return this.entry.type === "file";
  }
  isDirectory(): boolean {
    return this.entry.type === "directory";
  }
  isSymbolicLink(): boolean {
    return this.entry.type === "symlink";
  }
}

/** What readdir() returns with `withFileTypes`. */
export class Dirent {
  readonly name: string;

  constructor(
    private readonly entry: Entry,
    readonly parentPath: string,
  ) {
    this.name = entry.name;
  }

  isFile(): boolean {
    return this.entry.type === "file";
  }
  isDirectory(): boolean {
    return this.entry.type === "directory";
  }
  isSymbolicLink(): boolean {
    return this.entry.type === "symlink";
  }
}

async function as<T>(syscall: string, path: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof ClocheError && CODES[error.code] ? new FsError(error, syscall, path) : error;
  }
}

export class Fs {
  constructor(private readonly files: Files) {}

  readFile(path: string, what: "utf8" | "utf-8" | { encoding: "utf8" | "utf-8" }): Promise<string>;
  readFile(path: string, what?: null | { encoding?: null }): Promise<Uint8Array>;
  async readFile(path: string, what: FsWhat = null): Promise<string | Uint8Array> {
    const encoding = typeof what === "string" ? what : what?.encoding;
    const bytes = await as("open", path, this.files.read(path));
    return encoding ? new TextDecoder().decode(bytes) : bytes;
  }

  async writeFile(path: string, data: Source, options: { mode?: number; flag?: "w" | "wx" | "a" } | string = {}): Promise<void> {
    const { mode, flag } = typeof options === "string" ? {} : (options as { mode?: number; flag?: string });
    await as("open", path, this.files.write(path, data, { mode, append: flag === "a", exclusive: flag === "wx" }));
  }

  async appendFile(path: string, data: Source): Promise<void> {
    await as("open", path, this.files.append(path, data));
  }

  async mkdir(path: string, options: { recursive?: boolean; mode?: number } = {}): Promise<void> {
    await as("mkdir", path, this.files.mkdir(path, { parents: options.recursive, mode: options.mode }));
  }

  readdir(path: string, options: { withFileTypes: true; recursive?: boolean }): Promise<Dirent[]>;
  readdir(path: string, options?: { withFileTypes?: false; recursive?: boolean }): Promise<string[]>;
  async readdir(path: string, options: { withFileTypes?: boolean; recursive?: boolean } = {}): Promise<string[] | Dirent[]> {
    const entries = await as("scandir", path, this.files.list(path, { recursive: options.recursive }));
    if (!options.withFileTypes) return entries.map((entry) => entry.path);
    return entries.map((entry) => new Dirent(entry, join(path, parentOf(entry.path))));
  }

  async stat(path: string): Promise<Stats> {
    return new Stats(await as("stat", path, this.files.stat(path, { follow: true })));
  }

  async lstat(path: string): Promise<Stats> {
    return new Stats(await as("lstat", path, this.files.stat(path)));
  }

  /** Throws where there is nothing. */
  async access(path: string): Promise<void> {
    await as("access", path, this.files.stat(path, { follow: true }));
  }

  async rm(path: string, options: { recursive?: boolean; force?: boolean } = {}): Promise<void> {
    await as("rm", path, this.files.remove(path, { recursive: options.recursive, missingOk: options.force }));
  }

  async unlink(path: string): Promise<void> {
    await as("unlink", path, this.files.remove(path));
  }

  async rmdir(path: string): Promise<void> {
    await as("rmdir", path, this.files.remove(path));
  }

  async rename(from: string, to: string): Promise<void> {
    await as("rename", from, this.files.move(from, to));
  }

  async copyFile(from: string, to: string): Promise<void> {
    await as("copyfile", from, this.files.copy(from, to));
  }

  async cp(from: string, to: string, options: { recursive?: boolean } = {}): Promise<void> {
    await as("cp", from, this.files.copy(from, to, { recursive: options.recursive }));
  }

  async chmod(path: string, mode: number): Promise<void> {
    await as("chmod", path, this.files.chmod(path, mode));
  }

  async chown(path: string, uid: number, gid: number): Promise<void> {
    await as("chown", path, this.files.chown(path, `${uid}:${gid}`));
  }

  async symlink(target: string, path: string): Promise<void> {
    await as("symlink", path, this.files.symlink(path, target));
  }

  async readlink(path: string): Promise<string> {
    const { target } = await as("readlink", path, this.files.stat(path));
    if (target === undefined) throw new FsError(new ClocheError("it is no link", { code: "file_invalid" }), "readlink", path);
    return target;
  }
}

function parentOf(path: string): string {
  const at = path.lastIndexOf("/");
  return at < 0 ? "" : path.slice(0, at);
}

function join(path: string, below: string): string {
  return below ? `${path.replace(/\/+$/, "")}/${below}` : path;
}
