// SPDX-License-Identifier: Apache-2.0
/**
 * The names of options, for programs that no compiler checks: one that does not exist is refused with the one that was meant. A
 * table must have all names of its type, so none can be forgotten here.
 */
import type { CodeOptions } from "./code.js";
import type { RunOptions, StartOptions } from "./exec.js";
import { type Names, check } from "./names.js";
import type { SandboxFields } from "./options.js";
import type { OtherSpellings } from "./spellings.js";

const FIELDS: Names<SandboxFields & OtherSpellings> = {
  name: 1,
  group: 1,
  alias: 1,
  template: 1,
  image: 1,
  pull: 1,
  language: 1,
  packages: 1,
  volumes: 1,
  tags: 1,
  env: 1,
  limits: 1,
  lifetimeMs: 1,
  idleTimeoutMs: 1,
  onTimeout: 1,
  onIdle: 1,
  persistent: 1,
  onNodeLoss: 1,
  autoResume: 1,
  pausedTimeCounts: 1,
  engine: 1,
  minGrade: 1,
  waitMs: 1,
  results: 1,
  network: 1,
  ports: 1,
  source: 1,
  snapshot: 1,
  memory: 1,
  idempotencyKey: 1,
  signal: 1,
  runtime: 1,
  timeout: 1,
  timeoutMs: 1,
  idleTimeoutSeconds: 1,
  idle_timeout_seconds: 1,
  networkPolicy: 1,
  resources: 1,
  egress: 1,
};
const EXEC = { signal: 1, cwd: 1, env: 1, user: 1, stdin: 1, pty: 1, timeoutMs: 1 } as const;
const RUN: Names<RunOptions> = { ...EXEC, onStdout: 1, onStderr: 1, killOnDisconnect: 1 };
const START: Names<StartOptions> = { ...EXEC, openStdin: 1 };
const CODE: Names<CodeOptions> = {
  signal: 1,
  language: 1,
  context: 1,
  timeoutMs: 1,
  onBusy: 1,
  cwd: 1,
  env: 1,
  onStdout: 1,
  onStderr: 1,
  onResult: 1,
  killOnDisconnect: 1,
};
const TABLES = { sandbox: { ...FIELDS, client: 1 }, run: RUN, start: START, runCode: CODE };

/** Throws a TypeError for an option that does not exist. */
export function checkOptions(of: keyof typeof TABLES, options: object): void {
  check(of === "sandbox" ? "a sandbox" : `${of}()`, Object.keys(TABLES[of]), options);
}
