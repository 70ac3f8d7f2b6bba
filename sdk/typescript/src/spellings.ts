// SPDX-License-Identifier: Apache-2.0
/**
 * Options as programs written for other sandboxes spell them, turned into cloche's own. Only words are translated here, and
 * where both are given cloche's own word wins.
 */
import type { SandboxOptions } from "./options.js";

/** Accepted besides the fields of SandboxOptions. */
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
  networkPolicy?: SandboxOptions["network"];
  /** limits; memory is in MiB */
  resources?: { vcpu?: number; vcpus?: number; memory?: number };
  /** network: "allow-all" or "deny-all" */
  egress?: boolean;
}

export function ownWords(options: SandboxOptions & OtherSpellings): SandboxOptions {
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
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** A finished command whose output is asked for by calls. */
export class FinishedCommand {
  constructor(
    readonly cmdId: string,
    readonly exitCode: number,
    private readonly out: string,
    private readonly err: string,
  ) {}

  async stdout(): Promise<string> {
    return this.out;
  }
  async stderr(): Promise<string> {
    return this.err;
  }
  async output(which: "stdout" | "stderr" | "both" = "both"): Promise<string> {
    return which === "stdout" ? this.out : which === "stderr" ? this.err : this.out + this.err;
  }
}
