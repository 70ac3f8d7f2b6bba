// SPDX-License-Identifier: Apache-2.0
/**
 * A workspace for Mastra's agents (`@mastra/core`), whose commands, processes and files are those of one sandbox:
 *
 *     const workspace = new Workspace(clocheWorkspace({ template: "python" }));
 *     const agent = new Agent({ …, workspace });
 *
 * The sandbox is made when it is first used. With `id` it is the one of that name, made or resumed by whoever comes first; with
 * `sandbox` it is one of yours, which stays open. Nothing is imported from Mastra but its file errors, when one is thrown.
 */
import { ClocheError, Gone, NotFound } from "./errors.js";
import type { ExecInfo } from "./exec-info.js";
import { ClocheFilesystem } from "./mastra-files.js";
import { type CommandOptions, type CommandResult, Output, Processes, resultOf } from "./mastra-processes.js";
import { Sandbox, type SandboxOptions } from "./sandbox.js";
import type { OtherSpellings } from "./spellings.js";

export { ClocheFilesystem } from "./mastra-files.js";

export type WorkspaceOptions = {
  id?: string;
  sandbox?: Sandbox;
  /** Where commands and relative paths begin; the home directory without it. */
  workingDirectory?: string;
} & SandboxOptions &
  OtherSpellings;

type Status = "pending" | "starting" | "running" | "stopping" | "stopped" | "destroying" | "destroyed" | "error";
type Env = Record<string, string | undefined>;
type Outcome = { outcome: "created" | "connected" };

function quote(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Mastra's WorkspaceSandbox. */
export class ClocheSandbox {
  readonly id: string;
  readonly name = "Cloche Sandbox";
  readonly provider = "cloche";
  readonly supportsCheckpoints = false;
  readonly workingDirectory: string | undefined;
  status: Status = "pending";
  error: string | undefined;
  /** A Processes. Mastra's own type has members that no other class can have. */
  readonly processes: any;
  readonly networking = { getPortUrl: (port: number) => this.portUrl(port) };

  private readonly fields: SandboxOptions & OtherSpellings;
  private readonly isNamed: boolean;
  private readonly isOwn: boolean;
  private box: Sandbox | undefined;
  private starting: Promise<Outcome> | undefined;
  private overlay: Env = {};

  constructor(options: WorkspaceOptions = {}) {
    const { id, sandbox, workingDirectory, ...fields } = options;
    this.isNamed = id !== undefined;
    this.id = id ?? `cloche-${Math.random().toString(36).slice(2, 10)}`;
    this.isOwn = sandbox === undefined;
    this.box = sandbox;
    this.workingDirectory = workingDirectory;
    this.fields = fields;
    this.processes = new Processes(this);
  }

  /** Cloche's own face of it; made or woken, if need be. */
  async sandbox(): Promise<Sandbox> {
    if (this.status !== "running") await this.start();
    return this.box!;
  }

  start(): Promise<Outcome> {
    this.starting ??= this.acquire().finally(() => (this.starting = undefined));
    return this.starting;
  }

  private async acquire(): Promise<Outcome> {
    this.status = "starting";
    try {
      const outcome = await this.findOrMake();
      this.status = "running";
      return { outcome };
    } catch (error) {
      this.status = "error";
      this.error = (error as Error).message;
      throw error;
    }
  }

  private async findOrMake(): Promise<"created" | "connected"> {
    if (this.box) {
      await this.box.open();
      if (this.isOwn) await this.box.resume();
      return "connected";
    }
    if (!this.isNamed) {
      this.box = await Sandbox.create(this.fields);
      return "created";
    }
    this.box = await Sandbox.getOrCreate({ ...this.fields, name: this.id });
    return this.box.info.created ? "created" : "connected";
  }

  ensureRunning(): Promise<void> {
    return this.sandbox().then(() => undefined);
  }

  /** Keeps what there is for the next start(): a persistent one is stopped, another is paused. */
  async stop(): Promise<void> {
    if (this.box && this.isOwn) {
      this.status = "stopping";
      await (this.box.info.persistent ? this.box.stop() : this.box.pause({ onConnection: "close" }));
    }
    this.status = "stopped";
  }

  /** Ends it with its files, unless it is the caller's. */
  async destroy(): Promise<void> {
    this.status = "destroying";
    try {
      if (this.isOwn) await this.box?.delete();
    } catch (error) {
      if (!(error instanceof NotFound || error instanceof Gone)) throw error;
    }
    if (this.isOwn) this.box = undefined;
    this.status = "destroyed";
  }

  getInfo() {
    const info = this.box && this.status !== "pending" ? this.box.info : undefined;
    return {
      id: this.id,
      name: this.name,
      provider: this.provider,
      status: this.status,
      createdAt: info?.createdAt ?? new Date(),
      timeoutAt: info?.expiresAt ?? undefined,
      resources: { memoryMB: info?.limits.memory_mib, cpuCores: info?.limits.vcpus, diskMB: info?.limits.disk_mib },
      metadata: { sandboxId: info?.id, template: info?.template, isolation: info?.isolation?.grade },
    };
  }

  getInstructions(): string {
    return `An isolated Linux sandbox (cloche). Commands begin in ${this.workingDirectory ?? "the home directory"}.`;
  }

  /** Variables of later commands and processes. */
  setEnv(update: (env: Env) => Env): void {
    this.overlay = { ...update({ ...this.overlay }) };
  }
  getEnv(): Env {
    return { ...this.overlay };
  }

  /** How a command is to run, in cloche's words. */
  how(options: CommandOptions) {
    const all = Object.entries({ ...this.overlay, ...options.env }).filter(([, value]) => value !== undefined);
    const env = all.length ? (Object.fromEntries(all) as Record<string, string>) : undefined;
    return { cwd: this.inside(options.cwd) ?? this.workingDirectory, env, timeoutMs: options.timeout };
  }

  /** Where a path is that may begin in the working directory. */
  inside(path: string): string;
  inside(path: string | undefined): string | undefined;
  inside(path: string | undefined): string | undefined {
    if (path === undefined || path.startsWith("/") || this.workingDirectory === undefined) return path;
    return `${this.workingDirectory}/${path}`;
  }

  /** `command` is a line for the shell; `args` are added to it as they are. An abort kills it. */
  async executeCommand(command: string, args: readonly string[] = [], options: CommandOptions = {}): Promise<CommandResult> {
    const sandbox = await this.sandbox();
    const line = [command, ...args.map(quote)].join(" ");
    const output = new Output({ maxRetainedBytes: Infinity, ...options });
    let info: ExecInfo | undefined;
    try {
      for await (const event of sandbox.stream(line, { ...this.how(options), killOnDisconnect: true, signal: options.abortSignal })) {
        output.push(event);
        info = event.exec ?? info;
      }
    } catch (error) {
      if (!options.abortSignal?.aborted) throw error;
      info = undefined;
    }
    return { ...resultOf(info, output), command: line };
  }

  /** Writes files, and creates missing directories. */
  async writeFiles(
    files: readonly { path: string; content: string | Uint8Array; mode?: number }[],
    options: { abortSignal?: AbortSignal } = {},
  ): Promise<void> {
    const sandbox = await this.sandbox();
    for (const { path, content, mode } of files) {
      if (mode !== undefined && !(Number.isInteger(mode) && mode >= 1 && mode <= 0o777))
        throw new ClocheError(`the mode of ${path} must be from 0o001 to 0o777`, { code: "invalid_field" });
      await sandbox.files.write(this.inside(path), content, { parents: true, mode, signal: options.abortSignal });
    }
  }

  private async portUrl(port: number): Promise<string | null> {
    return this.status === "running" ? this.box!.portUrl(port) : null;
  }

  /** What Mastra calls a checkpoint has no name here: see Sandbox.snapshot() and fork(), of sandbox(). */
  async snapshot(): Promise<void> {}
}

/** Both providers of a Workspace, over one sandbox. */
export function clocheWorkspace(options: WorkspaceOptions = {}): { sandbox: ClocheSandbox; filesystem: ClocheFilesystem } {
  const sandbox = new ClocheSandbox(options);
  return { sandbox, filesystem: new ClocheFilesystem(sandbox) };
}
