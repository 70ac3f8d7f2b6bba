// SPDX-License-Identifier: Apache-2.0
/**
 * The files that a Dockerfile may copy: a directory as a tar, without what its .dockerignore names. In Node, Bun and Deno, which have
 * directories. Files are read one after the other as the tar is sent; owners are not told, since what is copied is root's.
 */
const BLOCK = 512;

interface Pattern {
  expression: RegExp;
  keeps: boolean;
}

const fileSystem = () => import("node:fs/promises");

export async function readDockerfile(context: string): Promise<string> {
  const { join } = await import("node:path");
  return (await fileSystem()).readFile(join(context, "Dockerfile"), "utf8");
}

/** The tar of a directory, in pieces. */
export async function* packContext(context: string): AsyncGenerator<Uint8Array> {
  yield* pack(context, "", await readPatterns(context));
  yield new Uint8Array(2 * BLOCK);
}

async function* pack(context: string, folder: string, patterns: readonly Pattern[]): AsyncGenerator<Uint8Array> {
  const [fs, { join }] = [await fileSystem(), await import("node:path")];
  for (const name of (await fs.readdir(join(context, folder))).sort()) {
    const path = folder ? `${folder}/${name}` : name;
    const whole = join(context, path);
    const about = await fs.lstat(whole);
    const isIgnored = isLeftOut(path, patterns);
    const entry = { path, mode: about.mode & 0o777, mtime: Math.floor(about.mtimeMs / 1000) };
    if (!isIgnored && about.isSymbolicLink()) yield* head({ ...entry, type: "2", link: await fs.readlink(whole) });
    else if (!isIgnored && about.isDirectory()) yield* head({ ...entry, path: `${path}/`, type: "5" });
    else if (!isIgnored && about.isFile()) yield* file(whole, entry);
    if (about.isDirectory() && (!isIgnored || patterns.some((one) => one.keeps))) yield* pack(context, path, patterns);
  }
}

interface Entry {
  path: string;
  mode: number;
  mtime: number;
  type: string;
  size?: number;
  link?: string;
}

/** A file that changes meanwhile is an error: what was announced must come, and no more. */
async function* file(whole: string, entry: Omit<Entry, "type">): AsyncGenerator<Uint8Array> {
  const handle = await (await fileSystem()).open(whole, "r");
  try {
    const { size } = await handle.stat();
    let left = size;
    yield* head({ ...entry, type: "0", size });
    while (left > 0) {
      const { bytesRead, buffer } = await handle.read(new Uint8Array(Math.min(left, 256 * 1024)));
      if (bytesRead === 0) throw new Error(`${whole} became shorter while it was read`);
      left -= bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    yield padding(size);
  } finally {
    await handle.close();
  }
}

const padding = (size: number) => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);

/** What the old format has no room for stands in a block of PAX before it. */
function* head(entry: Entry): Generator<Uint8Array> {
  const more: [string, string][] = [];
  if (tooLong(entry.path)) more.push(["path", entry.path]);
  if (entry.link !== undefined && tooLong(entry.link)) more.push(["linkpath", entry.link]);
  if ((entry.size ?? 0) >= 8 ** 11) more.push(["size", String(entry.size)]);
  if (more.length > 0) {
    const records = new TextEncoder().encode(more.map(([name, value]) => record(name, value)).join(""));
    yield block({ path: "PaxHeader", mode: 0o644, mtime: entry.mtime, type: "x", size: records.length });
    yield records;
    yield padding(records.length);
  }
  yield block(entry);
}

function tooLong(text: string): boolean {
  return new TextEncoder().encode(text).length > 100;
}

/** "LENGTH NAME=VALUE\n", in which the length counts itself. */
function record(name: string, value: string): string {
  const rest = new TextEncoder().encode(` ${name}=${value}\n`).length;
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length = rest + String(length).length;
  return `${length} ${name}=${value}\n`;
}

function block(entry: Entry): Uint8Array {
  const out = new Uint8Array(BLOCK);
  const put = (at: number, most: number, text: string) => out.set(new TextEncoder().encode(text).subarray(0, most), at);
  const octal = (at: number, width: number, value: number) => put(at, width, value.toString(8).padStart(width - 1, "0").slice(1 - width) + "\0");
  put(0, 100, entry.path);
  octal(100, 8, entry.mode);
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, (entry.size ?? 0) >= 8 ** 11 ? 0 : (entry.size ?? 0));
  octal(136, 12, Math.max(entry.mtime, 0));
  put(148, 8, "        ");
  put(156, 1, entry.type);
  put(157, 100, entry.link ?? "");
  put(257, 8, "ustar\x0000");
  put(148, 8, out.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0") + "\0 ");
  return out;
}

async function readPatterns(context: string): Promise<Pattern[]> {
  const { join } = await import("node:path");
  let text: string;
  try {
    text = await (await fileSystem()).readFile(join(context, ".dockerignore"), "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return [];
    throw error;
  }
  return patternsOf(text);
}

/** Of a .dockerignore's text. */
export function patternsOf(text: string): Pattern[] {
  const found: Pattern[] = [];
  for (const line of text.split(/\r?\n/).map((one) => one.trim())) {
    if (!line || line.startsWith("#")) continue;
    const keeps = line.startsWith("!");
    const path = plain(line.slice(keeps ? 1 : 0).trim());
    if (path) found.push({ expression: new RegExp(`^(?:${expressionOf(path)})$`), keeps });
  }
  return found;
}

/** Without "." and "..", and without slashes around it. */
function plain(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part && part !== ".") parts.push(part);
  }
  return parts.join("/");
}

/** The last pattern that matches a path, or a directory that it is in, says whether it is left out. */
export function isLeftOut(path: string, patterns: readonly Pattern[]): boolean {
  const parts = path.split("/");
  const prefixes = parts.map((_, i) => parts.slice(0, i + 1).join("/"));
  let found = false;
  for (const { expression, keeps } of patterns) if (prefixes.some((prefix) => expression.test(prefix))) found = !keeps;
  return found;
}

function expressionOf(pattern: string): string {
  let out = "";
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern[i]!;
    const end = char === "[" ? pattern.indexOf("]", i + 2) : -1;
    if (pattern.startsWith("**/", i)) {
      out += "(?:.*/)?";
      i += 2;
    } else if (pattern.startsWith("**", i)) {
      out += ".*";
      i += 1;
    } else if (char === "*") out += "[^/]*";
    else if (char === "?") out += "[^/]";
    else if (end > 0) {
      out += `[${pattern.slice(i + 1, end).replaceAll("\\", "\\\\").replaceAll("[", "\\[")}]`;
      i = end;
    } else {
      if (char === "\\" && i + 1 < pattern.length) i += 1;
      out += pattern[i]!.replace(/[.*+?^${}()|[\]\\/]/, "\\$&");
    }
  }
  return out;
}
