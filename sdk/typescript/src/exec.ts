// SPDX-License-Identifier: Apache-2.0
/**
 * Commands: what one is, what its end gives back, and Exec, the command that runs or ran.
 */
import { ConnectionFailed, Gone, errorOfBody, errorOfExec } from "./errors.js";
import { type CallOptions, ExecInfo } from "./exec-info.js";
import type { Caller } from "./transport.js";
import {
  FOREVER,
  type Json,
  Kept,
  NDJSON,
  type Source,
  fromBase64,
  jsonLines,
  request,
  textOrBase64,
  toBase64,
  utf8,
} from "./wire.js";

/** A string is a line for the shell, an array an argv that no shell sees. */
export type Command = string | readonly string[];

export interface TerminalSize {
  rows: number;
  cols: number;
}

export interface ExecOptions extends CallOptions {
  /** The working directory. Default: the template's (an image's WORKDIR), or the user's home. */
  cwd?: string;
  /** Environment variables, in addition to the sandbox's. */
  env?: Record<string, string>;
  /** `user` (the default), `root` (only inside the sandbox), a name in the sandbox's /etc/passwd, or a number. */
  user?: string;
  /** Input for the command. Its stdin is then closed, unless `openStdin` is set. */
  stdin?: string | Uint8Array;
  /** Runs it in a terminal of this size; true: 24 rows, 80 columns. */
  pty?: boolean | TerminalSize;
  /** After this time, all its processes get TERM, then KILL. Default: never. */
  timeoutMs?: number;
}

export interface RunOptions extends ExecOptions {
  /** Gets output while the command runs. The result has the output too, up to 16 MiB of each stream. */
  onStdout?: (chunk: string) => void;
  onStderr?: (chunk: string) => void;
  /** Kills the command if the connection of this call ends. */
  killOnDisconnect?: boolean;
}

export interface StartOptions extends ExecOptions {
  /** Keeps stdin open for writeStdin(). */
  openStdin?: boolean;
}

export function execBody(command: Command, options: ExecOptions & { openStdin?: boolean }): Json {
  const { stdin, pty } = options;
  const body: Json = {
    cwd: options.cwd,
    env: options.env,
    user: options.user,
    timeout_ms: options.timeoutMs,
    open_stdin: options.openStdin || undefined,
  };
  if (typeof command === "string") body["shell"] = command;
  else body["argv"] = [...command];
  if (typeof stdin === "string") body["stdin"] = stdin;
  else if (stdin) body["stdin_base64"] = toBase64(stdin);
  if (pty) body["pty"] = pty === true ? { rows: 24, cols: 80 } : { rows: pty.rows, cols: pty.cols };
  return body;
}

export class ExecResult {
  constructor(
    readonly exec: ExecInfo,
    readonly stdoutBytes: Uint8Array,
    readonly stderrBytes: Uint8Array,
    readonly stdoutTruncated = false,
    readonly stderrTruncated = false,
  ) {}

  static fromJson(j: Json): ExecResult {
    return new ExecResult(
      new ExecInfo(j["exec"]),
      textOrBase64(j, "stdout"),
      textOrBase64(j, "stderr"),
      Boolean(j["stdout_truncated"]),
      Boolean(j["stderr_truncated"]),
    );
  }

  get exitCode(): number | null {
    return this.exec.exitCode;
  }
  get signal(): number | null {
    return this.exec.signal;
  }
  get cause(): string | null {
    return this.exec.cause;
  }
  /** Bytes that are not UTF-8 show as U+FFFD. */
  get stdout(): string {
    return new TextDecoder().decode(this.stdoutBytes);
  }
  get stderr(): string {
    return new TextDecoder().decode(this.stderrBytes);
  }

  /** Output, exit code and error as plain data, for JSON.stringify(). */
  toJSON(): Json {
    const { exitCode, signal, cause, stdout, stderr, stdoutTruncated, stderrTruncated } = this;
    return { exitCode, signal, cause, stdout, stderr, stdoutTruncated, stderrTruncated };
  }

  /** Returns this result if the command ended with code 0; else throws the error for its cause, such as OutOfMemory. */
  check(): this {
    if (this.exitCode !== 0) throw errorOfExec(this.exec);
    return this;
  }
}

/** An event of an exec (started, stdout, stderr, gap, exited) or of a code call (result, display, error, done, …). */
export class ExecEvent {
  readonly type: string;
  /** For output events: grows by one with each event. */
  readonly seq: number;
  /** The exact bytes of stdout and stderr. */
  readonly data: Uint8Array;

  constructor(readonly raw: Json) {
    this.type = raw["type"];
    this.seq = raw["seq"] ?? 0;
    this.data = typeof raw["base64"] === "string" ? fromBase64(raw["base64"]) : utf8(raw["text"] ?? "");
  }

  get exec(): ExecInfo | undefined {
    return this.raw["exec"] ? new ExecInfo(this.raw["exec"]) : undefined;
  }
  /** For a gap: how many bytes of output were no longer kept. */
  get lostBytes(): number {
    return this.raw["lost_bytes"] ?? 0;
  }
}

/** The events of a reply; one that says that the stream cannot go on is thrown. */
export async function* events(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<ExecEvent> {
  for await (const j of jsonLines(pieces)) {
    if (j["type"] === "error" && j["error"]?.code) throw errorOfBody(0, j);
    yield new ExecEvent(j);
  }
}

/** Passes bytes on as text; a character that is cut in two waits for its rest. */
export class TextSink {
  private readonly decoder = new TextDecoder();
  constructor(private readonly sink: (chunk: string) => void) {}

  push(data: Uint8Array): void {
    const text = this.decoder.decode(data, { stream: true });
    if (text) this.sink(text);
  }
  end(): void {
    const text = this.decoder.decode();
    if (text) this.sink(text);
  }
}

/** A streamed command's result. Output that goes to a callback is kept as well. */
export async function collect(
  stream: AsyncIterable<ExecEvent>,
  onStdout?: (chunk: string) => void,
  onStderr?: (chunk: string) => void,
): Promise<ExecResult> {
  const sinks = { stdout: onStdout && new TextSink(onStdout), stderr: onStderr && new TextSink(onStderr) };
  const kept = { stdout: new Kept(), stderr: new Kept() };
  let info: ExecInfo | undefined;
  for await (const event of stream) {
    if (event.type === "stdout" || event.type === "stderr") {
      kept[event.type].push(event.data);
      sinks[event.type]?.push(event.data);
    } else info = event.exec ?? info;
  }
  sinks.stdout?.end();
  sinks.stderr?.end();
  if (!info?.isOver) throw new ConnectionFailed("the stream ended before the exec did");
  const { stdout, stderr } = kept;
  return new ExecResult(info, stdout.bytes, stderr.bytes, stdout.isTruncated, stderr.isTruncated);
}

/** A command that runs, or ran, in a sandbox. It outlives the client that started it. */
export class Exec {
  private readonly path: string[];

  constructor(
    private readonly client: Caller,
    sandboxId: string,
    public info: ExecInfo,
  ) {
    this.path = ["sandboxes", sandboxId, "execs", info.id];
  }

  get id(): string {
    return this.info.id;
  }

  /** Asks the daemon for the current state, and updates `info`. */
  async refresh(): Promise<ExecInfo> {
    return (this.info = new ExecInfo(await this.client.call(request("GET", this.path))));
  }

  /**
   * Its output events with a sequence number above `after`. With `follow` (the default) it goes on until the command has
   * ended. If the connection breaks, it reconnects and goes on: no event is lost or comes twice.
   */
  async *output(options: { after?: number; follow?: boolean } & CallOptions = {}): AsyncGenerator<ExecEvent> {
    const { follow = true, signal } = options;
    let after = options.after ?? 0;
    for (;;) {
      const query = { after: after || undefined, follow };
      try {
        const req = request("GET", [...this.path, "output"], { query, accept: NDJSON, timeoutMs: FOREVER, signal });
        for await (const event of events((await this.client.open(req)).pieces())) {
          after = Math.max(after, event.seq);
          yield event;
        }
        return;
      } catch (error) {
        if (!(error instanceof ConnectionFailed) || signal?.aborted) throw error;
      }
    }
  }

  /** Waits until the command has ended, or until the timeout is over. Returns its current state. */
  async wait(options: { timeoutMs?: number } & CallOptions = {}): Promise<ExecInfo> {
    const deadline = options.timeoutMs === undefined ? Infinity : Date.now() + options.timeoutMs;
    for (;;) {
      const left = Math.max(0, Math.min(30_000, deadline - Date.now()));
      const parts = { query: { timeout_ms: left }, timeoutMs: left + 60_000, signal: options.signal };
      this.info = new ExecInfo(await this.client.call(request("GET", [...this.path, "wait"], parts)));
      if (this.info.isOver || Date.now() >= deadline) return this.info;
    }
  }

  /** Writes bytes to its stdin. Resolves when the sandbox has taken them, so this waits while the program does not read. */
  async writeStdin(data: Source, options: { eof?: boolean } & CallOptions = {}): Promise<void> {
    const parts = { query: { eof: options.eof }, stream: data, timeoutMs: FOREVER, signal: options.signal };
    await this.client.call(request("POST", [...this.path, "stdin"], parts));
  }

  /** Closes its stdin. */
  closeStdin(): Promise<void> {
    return this.writeStdin("", { eof: true });
  }

  /** Sends a signal to its process group, or with `tree` to all processes that it has started. */
  async signal(signal: string | number, options: { tree?: boolean } = {}): Promise<void> {
    const body = { signal, tree: options.tree || undefined };
    await this.client.call(request("POST", [...this.path, "signal"], { body }));
  }

  /** Kills it and all processes that it has started, and waits for the end. */
  async kill(): Promise<ExecInfo> {
    try {
      await this.signal("KILL", { tree: true });
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
    }
    return this.wait();
  }

  /** Resizes its terminal, if it has one (`pty`). */
  async resize(size: TerminalSize): Promise<void> {
    const body = { rows: size.rows, cols: size.cols };
    await this.client.call(request("POST", [...this.path, "resize"], { body }));
  }

  /** Kills the command if it still runs, and removes its record and output. */
  async delete(): Promise<void> {
    await this.client.call(request("DELETE", this.path));
  }
}
