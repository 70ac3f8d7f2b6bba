// SPDX-License-Identifier: Apache-2.0
/**
 * What is told of a command, and of the end of a command or sandbox. It stands below the errors, which tell it too.
 */
import type { Json } from "./wire.js";

export interface CallOptions {
  /** Aborts the wait. What runs inside goes on, unless killOnDisconnect is set. */
  signal?: AbortSignal;
}

/** Why a sandbox or an exec ended, with the figures that explain it. */
export interface Ended {
  cause: string;
  detail: Record<string, unknown> | null;
  message: string;
  at_us: number;
}

export type ExecState = "starting" | "running" | "exited" | "failed";

/** State of a command. After its end it has `exitCode` or `signal`; `cause` says why it ended, if it did not end by itself. */
export class ExecInfo {
  readonly id: string;
  readonly state: ExecState;
  readonly exitCode: number | null;
  readonly signal: number | null;
  readonly cause: string | null;
  readonly ended: Ended | null;
  readonly error: { code: string; message: string } | null;

  constructor(readonly raw: Json) {
    this.id = raw["id"];
    this.state = raw["state"];
    this.exitCode = raw["exit_code"] ?? null;
    this.signal = raw["signal"] ?? null;
    this.cause = raw["cause"] ?? null;
    this.ended = raw["ended"] ?? null;
    this.error = raw["error"] ?? null;
  }

  get isOver(): boolean {
    return this.state === "exited" || this.state === "failed";
  }
}

/** What ended without a code of its own, by a signal, has 128 and more. */
export function codeOf(info: { exitCode: number | null; signal: number | null }): number {
  return info.exitCode ?? 128 + (info.signal ?? 0);
}
