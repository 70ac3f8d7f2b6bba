// SPDX-License-Identifier: Apache-2.0
/**
 * Processes as Mastra's workspaces have them: spawned, listed, looked at and killed by pid, which is an exec's id. They run on
 * when the program that spawned them is gone; get() finds them again, with all that they printed.
 */
import type * as NodeStream from "node:stream";
import { NotFound } from "./errors.js";
import { type Exec, type ExecEvent, type RunOptions, TextSink } from "./exec.js";
import { type ExecInfo, codeOf } from "./exec-info.js";
import type { Sandbox } from "./sandbox.js";
import { concat } from "./wire.js";

const RETAINED_BYTES = 1 << 20;
const EXIT_OF_TIMEOUT = 124;
const EXIT_OF_KILL = 137;

export interface CommandOptions {
  timeout?: number;
  env?: Record<string, string | undefined>;
  cwd?: string;
  onStdout?: (data: string) => void;
  onStderr?: (data: string) => void;
  abortSignal?: AbortSignal;
  /** Of each stream the newest so many bytes are kept. */
  maxRetainedBytes?: number;
}

export interface CommandResult {
  success: boolean;
  exitCode: number;
  stdout: string;
  stderr: string;
  executionTimeMs: number;
  timedOut?: boolean;
  killed?: boolean;
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
  stdoutDroppedBytes: number;
  stderrDroppedBytes: number;
  command?: string;
}

/** The newest bytes of a stream, and how many are no longer there. */
class Tail {
  private pieces: Uint8Array[] = [];
  private size = 0;
  private lost = 0;

  constructor(private readonly max: number) {}

  push(data: Uint8Array): void {
    this.pieces.push(data);
    this.size += data.length;
    if (this.size > 2 * this.max) this.cut(); // not at each piece: a cut copies what stays
  }
  get text(): string {
    this.cut();
    return new TextDecoder().decode(concat(this.pieces));
  }
  get dropped(): number {
    this.cut();
    return this.lost;
  }

  private cut(): void {
    if (this.size <= this.max) return;
    const all = concat(this.pieces);
    let from = all.length - this.max;
    while (from < all.length && (all[from]! & 0xc0) === 0x80) from++; // no half character
    this.lost += from;
    this.pieces = [all.slice(from)];
    this.size = all.length - from;
  }
}

/** What a command prints: kept, and passed on to those who listen. */
export class Output {
  readonly began = Date.now();
  readonly stdout: Tail;
  readonly stderr: Tail;
  private readonly sinks: { stdout: Set<TextSink>; stderr: Set<TextSink> } = { stdout: new Set(), stderr: new Set() };

  constructor(options: Pick<CommandOptions, "onStdout" | "onStderr" | "maxRetainedBytes">) {
    const max = options.maxRetainedBytes ?? RETAINED_BYTES;
    this.stdout = new Tail(max);
    this.stderr = new Tail(max);
    this.listen(options);
  }

  /** Until the function that it gives is called. */
  listen({ onStdout, onStderr }: Pick<CommandOptions, "onStdout" | "onStderr">): () => void {
    const out = onStdout && new TextSink(onStdout);
    const err = onStderr && new TextSink(onStderr);
    if (out) this.sinks.stdout.add(out);
    if (err) this.sinks.stderr.add(err);
    return () => {
      if (out) this.sinks.stdout.delete(out);
      if (err) this.sinks.stderr.delete(err);
    };
  }

  push({ type, data }: ExecEvent): void {
    if (type !== "stdout" && type !== "stderr") return;
    this[type].push(data);
    for (const sink of this.sinks[type]) sink.push(data);
  }
}

/** Without an end of its own it was killed by an abort. */
export function resultOf(info: ExecInfo | undefined, output: Output): CommandResult {
  const timedOut = info?.cause === "timeout";
  const exitCode = timedOut ? EXIT_OF_TIMEOUT : info ? codeOf(info) : EXIT_OF_KILL;
  const { stdout, stderr } = output;
  return {
    success: exitCode === 0,
    exitCode,
    stdout: stdout.text,
    stderr: stderr.text,
    executionTimeMs: Date.now() - output.began,
    timedOut: timedOut || undefined,
    killed: !info || (!timedOut && info.signal !== null) || undefined,
    stdoutTruncated: stdout.dropped > 0,
    stderrTruncated: stderr.dropped > 0,
    stdoutDroppedBytes: stdout.dropped,
    stderrDroppedBytes: stderr.dropped,
  };
}

/** Node's streams, without an import that a runtime might not have. */
function nodeStream() {
  return process.getBuiltinModule("node:stream");
}

/** Mastra's ProcessHandle. */
export class ClocheProcess {
  readonly pid: string;
  command: string | undefined;
  private readonly output: Output;
  private readonly end: Promise<CommandResult>;
  private readable: NodeStream.Readable | undefined;
  private writable: NodeStream.Writable | undefined;

  constructor(
    private readonly exec: Exec,
    options: CommandOptions = {},
  ) {
    this.pid = exec.id;
    this.output = new Output(options);
    this.end = this.follow();
    this.end.catch(() => undefined); // wait() tells
    this.killOn(options.abortSignal);
  }

  private async follow(): Promise<CommandResult> {
    for await (const event of this.exec.output()) this.output.push(event);
    return resultOf(await this.exec.wait(), this.output);
  }

  private killOn(signal: AbortSignal | undefined): void {
    const kill = () => void this.kill().catch(() => undefined);
    if (signal?.aborted) kill();
    signal?.addEventListener("abort", kill, { once: true });
    void this.end.catch(() => undefined).then(() => signal?.removeEventListener("abort", kill));
  }

  get exitCode(): number | undefined {
    return this.exec.info.isOver ? codeOf(this.exec.info) : undefined;
  }
  get stdout(): string {
    return this.output.stdout.text;
  }
  get stderr(): string {
    return this.output.stderr.text;
  }
  get stdoutTruncated(): boolean {
    return this.stdoutDroppedBytes > 0;
  }
  get stderrTruncated(): boolean {
    return this.stderrDroppedBytes > 0;
  }
  get stdoutDroppedBytes(): number {
    return this.output.stdout.dropped;
  }
  get stderrDroppedBytes(): number {
    return this.output.stderr.dropped;
  }

  /** An abort kills the process, whose result this then is. */
  async wait(options: Pick<CommandOptions, "onStdout" | "onStderr" | "abortSignal"> = {}): Promise<CommandResult> {
    const leave = this.output.listen(options);
    this.killOn(options.abortSignal);
    try {
      return await this.end;
    } finally {
      leave();
    }
  }

  /** With all that it started; false where it had ended by itself. */
  async kill(): Promise<boolean> {
    if (this.exitCode !== undefined) return false;
    return (await this.exec.kill()).signal !== null;
  }
  sendStdin(data: string): Promise<void> {
    return this.exec.writeStdin(data);
  }
  closeStdin(): Promise<void> {
    return this.exec.closeStdin();
  }

  /** What it prints on stdout from now on. */
  get reader(): NodeStream.Readable {
    if (!this.readable) {
      const readable = (this.readable = new (nodeStream().Readable)({ read: () => undefined }));
      this.output.listen({ onStdout: (data) => void readable.push(data) });
      void this.end.catch(() => undefined).then(() => readable.push(null));
    }
    return this.readable;
  }
  get writer(): NodeStream.Writable {
    return (this.writable ??= new (nodeStream().Writable)({
      write: (chunk: Buffer, _encoding, done) => void this.exec.writeStdin(chunk).then(() => done(), done),
      final: (done) => void this.closeStdin().then(() => done(), done),
    }));
  }
}

/** What it needs of the workspace's sandbox. */
export interface Owner {
  sandbox(): Promise<Sandbox>;
  how(options: CommandOptions): RunOptions;
}

/** Mastra's SandboxProcessManager. */
export class Processes {
  private readonly tracked = new Map<string, ClocheProcess>();

  constructor(private readonly owner: Owner) {}

  async spawn(command: string, options: CommandOptions & { stdinMode?: "pipe" | "ignore" } = {}): Promise<ClocheProcess> {
    const sandbox = await this.owner.sandbox();
    const exec = await sandbox.start(command, { ...this.owner.how(options), openStdin: options.stdinMode !== "ignore" });
    const spawned = new ClocheProcess(exec, options);
    spawned.command = command;
    this.tracked.set(spawned.pid, spawned);
    return spawned;
  }

  /** Those that this program has spawned or found, and not released. */
  async list(): Promise<{ pid: string; command?: string; running: boolean; exitCode?: number }[]> {
    return [...this.tracked.values()].map(({ pid, command, exitCode }) => ({ pid, command, running: exitCode === undefined, exitCode }));
  }

  async get(pid: string): Promise<ClocheProcess | undefined> {
    const known = this.tracked.get(pid);
    if (known) return known;
    try {
      const found = new ClocheProcess(await (await this.owner.sandbox()).exec(pid));
      this.tracked.set(pid, found);
      return found;
    } catch (error) {
      if (error instanceof NotFound) return undefined;
      throw error;
    }
  }

  release(pid: string): void {
    this.tracked.delete(pid);
  }

  async kill(pid: string): Promise<boolean> {
    const found = await this.get(pid);
    if (!found) return false;
    const killed = await found.kill();
    if (killed) await found.wait();
    this.release(pid);
    return killed;
  }
}
