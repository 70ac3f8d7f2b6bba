// SPDX-License-Identifier: Apache-2.0
/**
 * A sandbox as frameworks of Vercel's see one: the sandbox session of AI SDK 7 (`experimental_sandbox`), which eve's
 * providers share. Relative paths begin where commands do: in `root`, or the home directory. Nothing of any framework is
 * imported.
 */
import { FileMissing } from "./errors.js";
import type { Exec } from "./exec.js";
import { codeOf } from "./exec-info.js";
import type { Sandbox } from "./sandbox.js";

interface ProcessOptions {
  command: string;
  workingDirectory?: string;
  env?: Record<string, string>;
  abortSignal?: AbortSignal;
}
interface PathOptions {
  path: string;
  abortSignal?: AbortSignal;
}

export interface SessionProcess {
  readonly stdout: ReadableStream<Uint8Array>;
  readonly stderr: ReadableStream<Uint8Array>;
  /** Only where it was asked for. */
  readonly stdin: WritableStream<Uint8Array>;
  wait(): Promise<{ exitCode: number }>;
  kill(): Promise<void>;
}

/** null where there is no such file; a directory and the like are errors. */
async function orNull<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof FileMissing) return null;
    throw error;
  }
}

function streamOf(pieces: AsyncIterator<Uint8Array>, first?: IteratorResult<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = first ?? (await pieces.next());
      first = undefined;
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await pieces.return?.();
    },
  });
}

/** Both streams of an exec, and its end. A stream that nobody reads keeps what comes. */
function follow(exec: Exec, signal?: AbortSignal) {
  const controllers: Record<string, ReadableStreamDefaultController<Uint8Array>> = {};
  const stream = (name: string) => new ReadableStream<Uint8Array>({ start: (c) => void (controllers[name] = c) });
  const stdout = stream("stdout");
  const stderr = stream("stderr");
  const end = (async () => {
    try {
      for await (const event of exec.output({ signal })) {
        try {
          controllers[event.type]?.enqueue(event.data);
        } catch {
          delete controllers[event.type]; // its reader has left
        }
      }
      for (const c of Object.values(controllers)) c.close();
      return { exitCode: codeOf(await exec.wait({ signal })) };
    } catch (error) {
      for (const c of Object.values(controllers)) c.error(error);
      throw error;
    }
  })();
  end.catch(() => undefined); // wait() tells
  return { stdout, stderr, wait: () => end };
}

function stdinOf(exec: Exec): WritableStream<Uint8Array> {
  return new WritableStream<Uint8Array>({
    write: (chunk) => exec.writeStdin(chunk),
    close: () => exec.closeStdin(),
    abort: () => exec.closeStdin(),
  });
}

export class SandboxSession {
  readonly description: string;

  constructor(
    protected readonly sandbox: Sandbox,
    protected readonly root?: string,
  ) {
    this.description =
      "An isolated Linux sandbox (cloche). Commands run by a POSIX shell; files stay until the sandbox ends. " +
      `Relative paths and commands begin in ${root ?? "the home directory"}.`;
  }

  resolvePath(path: string): string {
    return this.root === undefined || path.startsWith("/") ? path : `${this.root}/${path}`;
  }

  private how(options: ProcessOptions) {
    const { workingDirectory: at, env, abortSignal } = options;
    return { cwd: at === undefined ? this.root : this.resolvePath(at), env, signal: abortSignal };
  }

  run = async (options: ProcessOptions): Promise<{ exitCode: number; stdout: string; stderr: string }> => {
    const done = await this.sandbox.run(options.command, { ...this.how(options), killOnDisconnect: true });
    return { exitCode: codeOf(done), stdout: done.stdout, stderr: done.stderr };
  };

  spawn = async (options: ProcessOptions & { stdin?: boolean }): Promise<SessionProcess> => {
    const { signal, ...how } = this.how(options);
    signal?.throwIfAborted();
    const exec = await this.sandbox.start(options.command, { ...how, openStdin: options.stdin });
    const kill = async () => void (await exec.kill());
    signal?.addEventListener("abort", () => void kill().catch(() => undefined), { once: true });
    const process = { ...follow(exec, signal), kill };
    return (options.stdin ? { ...process, stdin: stdinOf(exec) } : process) as SessionProcess;
  };

  readFile = async ({ path, abortSignal: signal }: PathOptions): Promise<ReadableStream<Uint8Array> | null> => {
    const pieces = this.sandbox.files.readStream(this.resolvePath(path), { signal });
    const first = await orNull(pieces.next());
    return first && streamOf(pieces, first);
  };

  readBinaryFile = ({ path, abortSignal: signal }: PathOptions): Promise<Uint8Array | null> =>
    orNull(this.sandbox.files.read(this.resolvePath(path), { signal }));

  readTextFile = async (options: PathOptions & { encoding?: string; startLine?: number; endLine?: number }): Promise<string | null> => {
    const bytes = await this.readBinaryFile(options);
    if (bytes === null) return null;
    const text = new TextDecoder(options.encoding ?? "utf-8").decode(bytes);
    const { startLine = 1, endLine } = options;
    if (startLine === 1 && endLine === undefined) return text;
    return text.split("\n").slice(startLine - 1, endLine).join("\n");
  };

  private async write(path: string, data: Uint8Array | ReadableStream<Uint8Array>, signal?: AbortSignal): Promise<void> {
    await this.sandbox.files.write(this.resolvePath(path), data, { parents: true, signal });
  }

  writeFile = (options: PathOptions & { content: ReadableStream<Uint8Array> }): Promise<void> =>
    this.write(options.path, options.content, options.abortSignal);

  writeBinaryFile = (options: PathOptions & { content: Uint8Array }): Promise<void> =>
    this.write(options.path, options.content, options.abortSignal);

  writeTextFile = (options: PathOptions & { content: string; encoding?: string }): Promise<void> => {
    const { encoding = "utf-8" } = options;
    if (!/^utf-?8$/i.test(encoding)) throw new TypeError(`text is written as UTF-8 only, not as ${encoding}`);
    return this.write(options.path, new TextEncoder().encode(options.content), options.abortSignal);
  };

  stat = async ({ path, abortSignal: signal }: PathOptions): Promise<{ type: "file" | "directory" | "other"; size: number } | null> => {
    const entry = await orNull(this.sandbox.files.stat(this.resolvePath(path), { follow: true, signal }));
    return entry && { type: entry.isFile ? "file" : entry.isDirectory ? "directory" : "other", size: entry.size };
  };

  listDirectory = async ({ path, abortSignal: signal }: PathOptions): Promise<{ name: string; type: string }[] | null> => {
    const entries = await orNull(this.sandbox.files.list(this.resolvePath(path), { signal }));
    const known = ["file", "directory", "symlink"];
    return entries && entries.map(({ name, type }) => ({ name, type: known.includes(type) ? type : "other" }));
  };

  deleteFile = async ({ path, abortSignal: signal }: PathOptions): Promise<boolean> => {
    const at = this.resolvePath(path);
    const entry = await orNull(this.sandbox.files.stat(at, { signal }));
    if (entry?.isDirectory) throw new TypeError(`${path} is a directory`);
    if (entry) await this.sandbox.files.remove(at, { signal });
    return entry !== null;
  };
}

/** For `experimental_sandbox` of AI SDK 7. The caller closes the sandbox. */
export function clocheSandboxSession(sandbox: Sandbox, options: { root?: string } = {}): SandboxSession {
  return new SandboxSession(sandbox, options.root);
}
