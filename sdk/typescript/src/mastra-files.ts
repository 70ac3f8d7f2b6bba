// SPDX-License-Identifier: Apache-2.0
/**
 * A sandbox's files as Mastra's workspaces have them: its WorkspaceFilesystem, over the same sandbox as the commands. Relative
 * paths begin where commands do.
 */
import { FileExists, FileMissing } from "./errors.js";
import type { Entry } from "./files.js";
import type { Sandbox } from "./sandbox.js";

type Content = string | Uint8Array;
interface WriteOptions {
  recursive?: boolean;
  overwrite?: boolean;
  /** The write is refused when the file is not of that time any more. */
  expectedMtime?: Date;
}
interface ListOptions {
  recursive?: boolean;
  extension?: string | string[];
  maxDepth?: number;
}
interface RemoveOptions {
  recursive?: boolean;
  force?: boolean;
}
interface CopyOptions {
  recursive?: boolean;
  overwrite?: boolean;
}
export interface FileEntry {
  name: string;
  type: "file" | "directory";
  size?: number;
  isSymlink?: true;
  symlinkTarget?: string;
}

type ErrorName = "FileNotFoundError" | "DirectoryNotFoundError" | "FileExistsError" | "IsDirectoryError" | "StaleFileError";

/** An error by which Mastra's tools know the case: of the package of whoever uses this. */
async function errorOf(name: ErrorName, ...facts: unknown[]): Promise<Error> {
  const from = "@mastra/core/workspace";
  return new (await import(from))[name](...facts);
}

/** In Mastra's words where it has some. */
async function told<T>(path: string, missing: ErrorName, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof FileMissing) throw await errorOf(missing, path);
    if (error instanceof FileExists) throw await errorOf("FileExistsError", path);
    throw error;
  }
}

function nameOf(path: string): string {
  return path.replace(/\/+$/, "").split("/").pop() || "/";
}

/** What it needs of the workspace's sandbox. */
export interface Owner {
  readonly id: string;
  readonly workingDirectory: string | undefined;
  sandbox(): Promise<Sandbox>;
  inside(path: string): string;
}

export class ClocheFilesystem {
  readonly id: string;
  readonly name = "Cloche Filesystem";
  readonly provider = "cloche";
  readonly basePath: string | undefined;
  status = "ready" as const;

  constructor(private readonly owner: Owner) {
    this.id = `${owner.id}-files`;
    this.basePath = owner.workingDirectory;
  }

  getInstructions(): string {
    return `The sandbox's own files, which its commands see. Relative paths begin in ${this.basePath ?? "the home directory"}.`;
  }
  getInfo() {
    return { id: this.id, name: this.name, provider: this.provider, status: this.status };
  }
  resolveAbsolutePath(path: string): string | undefined {
    const at = this.owner.inside(path);
    return at.startsWith("/") ? at : undefined;
  }

  private async files() {
    return (await this.owner.sandbox()).files;
  }
  private inside(path: string): string {
    return this.owner.inside(path);
  }
  private async entry(path: string): Promise<Entry> {
    return (await this.files()).stat(this.inside(path), { follow: true });
  }

  async readFile(path: string, options: { encoding?: BufferEncoding } = {}): Promise<string | Buffer> {
    if ((await told(path, "FileNotFoundError", this.entry(path))).isDirectory) throw await errorOf("IsDirectoryError", path);
    const bytes = Buffer.from(await told(path, "FileNotFoundError", (await this.files()).read(this.inside(path))));
    return options.encoding ? bytes.toString(options.encoding) : bytes;
  }

  async writeFile(path: string, content: Content, options: WriteOptions = {}): Promise<void> {
    const { recursive = true, overwrite = true, expectedMtime } = options;
    if (expectedMtime) await this.checkTime(path, expectedMtime);
    const write = (await this.files()).write(this.inside(path), content, { parents: recursive, exclusive: !overwrite });
    await told(path, "DirectoryNotFoundError", write);
  }

  private async checkTime(path: string, expected: Date): Promise<void> {
    if (!(await this.exists(path))) return;
    const { mtime } = await this.entry(path);
    if (mtime.getTime() !== expected.getTime()) throw await errorOf("StaleFileError", path, expected, mtime);
  }

  async appendFile(path: string, content: Content): Promise<void> {
    await (await this.files()).write(this.inside(path), content, { parents: true, append: true });
  }

  async deleteFile(path: string, options: RemoveOptions = {}): Promise<void> {
    const files = await this.files();
    if (options.force && !(await files.exists(this.inside(path)))) return;
    const entry = await told(path, "FileNotFoundError", files.stat(this.inside(path)));
    if (entry.isDirectory) throw await errorOf("IsDirectoryError", path);
    await files.remove(this.inside(path), { missingOk: options.force });
  }

  async copyFile(from: string, to: string, options: CopyOptions = {}): Promise<void> {
    const { recursive, overwrite = true } = options;
    const copy = (await this.files()).copy(this.inside(from), this.inside(to), { recursive, parents: true, exclusive: !overwrite });
    await told(from, "FileNotFoundError", copy);
  }
  async moveFile(from: string, to: string, options: CopyOptions = {}): Promise<void> {
    const move = (await this.files()).move(this.inside(from), this.inside(to), { parents: true, exclusive: options.overwrite === false });
    await told(from, "FileNotFoundError", move);
  }

  async mkdir(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    const make = (await this.files()).mkdir(this.inside(path), { parents: options.recursive ?? true });
    await told(path, "DirectoryNotFoundError", make);
  }
  async rmdir(path: string, options: RemoveOptions = {}): Promise<void> {
    const remove = (await this.files()).remove(this.inside(path), { recursive: options.recursive, missingOk: options.force });
    await told(path, "DirectoryNotFoundError", remove);
  }

  async readdir(path: string, options: ListOptions = {}): Promise<FileEntry[]> {
    const { recursive, maxDepth, extension } = options;
    const files = await this.files();
    const at = this.inside(path);
    const depth = recursive && maxDepth !== undefined ? maxDepth + 1 : undefined; // ours counts the directory itself
    const entries = await told(path, "DirectoryNotFoundError", files.list(at, { recursive, depth }));
    const wanted = extension === undefined ? undefined : [extension].flat().map((e) => (e.startsWith(".") ? e : `.${e}`));
    const isWanted = (e: Entry) => !e.isFile || !wanted || wanted.some((end) => e.name.endsWith(end));
    return Promise.all(entries.filter(isWanted).map((e) => this.shown(e, at)));
  }

  private async shown({ path: name, type, size, target }: Entry, top: string): Promise<FileEntry> {
    if (type === "directory") return { name, type };
    if (type !== "symlink") return { name, type: "file", size };
    const isDirectory = await this.entry(`${top}/${name}`).then((e) => e.isDirectory, () => false); // it may lead nowhere
    return { name, type: isDirectory ? "directory" : "file", isSymlink: true, symlinkTarget: target };
  }

  async exists(path: string): Promise<boolean> {
    return (await this.files()).exists(this.inside(path), { follow: true });
  }

  async stat(path: string) {
    const { isDirectory, size, mtime } = await told(path, "FileNotFoundError", this.entry(path));
    const type: FileEntry["type"] = isDirectory ? "directory" : "file";
    return { name: nameOf(path), path, type, size: isDirectory ? 0 : size, createdAt: mtime, modifiedAt: mtime };
  }
}
