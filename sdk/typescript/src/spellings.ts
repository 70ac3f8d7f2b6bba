// SPDX-License-Identifier: Apache-2.0
/**
 * Options and commands as programs written for other sandboxes spell them, turned into cloche's own. Only words are translated
 * here, and where both are given cloche's own word wins.
 */
import type { Exec, ExecResult } from "./exec.js";
import { type CallOptions, codeOf } from "./exec-info.js";
import type { SandboxFields } from "./options.js";

/** Accepted besides the fields of SandboxFields. */
export interface OtherSpellings {
  /** template */
  runtime?: string;
  /** lifetimeMs */
  timeout?: number;
  timeoutMs?: number;
  /** idleTimeoutMs, in seconds */
  idleTimeoutSeconds?: number;
  idle_timeout_seconds?: number;
  /** network */
  networkPolicy?: SandboxFields["network"];
  /** limits; memory is in MiB */
  resources?: { vcpu?: number; vcpus?: number; memory?: number };
  /** network: "allow-all" or "deny-all" */
  egress?: boolean;
}

export function ownWords(options: SandboxFields & OtherSpellings): SandboxFields {
  const { runtime, timeout, timeoutMs, idleTimeoutSeconds, idle_timeout_seconds, networkPolicy, resources, egress, ...own } =
    options;
  const idleSeconds = idleTimeoutSeconds ?? idle_timeout_seconds;
  own.template ??= runtime;
  own.lifetimeMs ??= timeout ?? timeoutMs;
  if (idleSeconds !== undefined) own.idleTimeoutMs ??= idleSeconds * 1000;
  own.network ??= networkPolicy ?? (egress === undefined ? undefined : egress ? "allow-all" : "deny-all");
  const vcpus = resources?.vcpus ?? resources?.vcpu;
  if (vcpus !== undefined || resources?.memory !== undefined)
    own.limits = { vcpus, memory_mib: resources?.memory, ...own.limits };
  return own;
}

/** `runCommand("node", ["main.js"])` or `runCommand({cmd, args, cwd, env, sudo, detached})`. */
export interface CommandParams {
  cmd: string;
  args?: readonly string[];
  cwd?: string;
  env?: Record<string, string>;
  sudo?: boolean;
  /** Resolves as soon as it runs. */
  detached?: boolean;
  timeoutMs?: number;
  signal?: AbortSignal;
}

type Which = "stdout" | "stderr" | "both";

/** A command that has ended. Its output is read by calls. */
export class FinishedCommand {
  constructor(
    readonly cmdId: string,
    readonly exitCode: number,
    private readonly out: string,
    private readonly err: string,
  ) {}

  static of(done: ExecResult): FinishedCommand {
    const { exec, stdout, stderr } = done;
    const isCut = exec.exitCode === null && exec.signal === null; // its sandbox ended under it: there is no other place to say so
    return new FinishedCommand(exec.id, codeOf(exec), stdout, isCut && exec.ended ? `${stderr}${exec.ended.message}\n` : stderr);
  }

  async stdout(): Promise<string> {
    return this.out;
  }
  async stderr(): Promise<string> {
    return this.err;
  }
  async output(which: Which = "both"): Promise<string> {
    return which === "stdout" ? this.out : which === "stderr" ? this.err : this.out + this.err;
  }
}

/** A command that runs on by itself; `exec` is the same command as cloche's own Exec. */
export class RunningCommand {
  constructor(readonly exec: Exec) {}

  get cmdId(): string {
    return this.exec.id;
  }
  /** null until wait() has resolved. */
  get exitCode(): number | null {
    return this.exec.info.isOver ? codeOf(this.exec.info) : null;
  }

  /** What it prints, from its start on and until it ends. */
  async *logs(options: CallOptions = {}): AsyncGenerator<{ stream: "stdout" | "stderr"; data: string }> {
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    for await (const { type, data } of this.exec.output(options))
      if (type === "stdout" || type === "stderr") yield { stream: type, data: decoders[type].decode(data, { stream: true }) };
  }

  async wait(options: CallOptions = {}): Promise<FinishedCommand> {
    const { stdout, stderr } = await this.printed(options);
    return new FinishedCommand(this.cmdId, codeOf(await this.exec.wait(options)), stdout, stderr);
  }

  /** Sends a signal to all processes that it has started; SIGTERM by default. */
  async kill(signal: string | number = "SIGTERM"): Promise<void> {
    await this.exec.signal(typeof signal === "string" ? signal.replace(/^SIG/, "") : signal, { tree: true });
  }

  async stdout(options: CallOptions = {}): Promise<string> {
    return (await this.printed(options)).stdout;
  }
  async stderr(options: CallOptions = {}): Promise<string> {
    return (await this.printed(options)).stderr;
  }
  async output(which: Which = "both", options: CallOptions = {}): Promise<string> {
    return (await this.printed(options))[which];
  }

  private async printed(options: CallOptions) {
    const all = { stdout: "", stderr: "", both: "" };
    for await (const { stream, data } of this.logs(options)) {
      all[stream] += data;
      all.both += data;
    }
    return all;
  }
}
