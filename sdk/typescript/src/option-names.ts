// SPDX-License-Identifier: Apache-2.0
/**
 * The names of options, for programs that no compiler checks: one that does not exist is refused with the one that was meant. A
 * table must have all names of its type, so none can be forgotten here.
 */
import type { CodeOptions } from "./code.js";
import type { RunOptions, StartOptions } from "./exec.js";
import type { Limits, SandboxFields } from "./options.js";
import type { OtherSpellings } from "./spellings.js";

type Names<T> = Record<keyof Required<T>, 1>;

const LIMITS: Names<Limits> = { vcpus: 1, memory_mib: 1, disk_mib: 1, inodes: 1, pids: 1, open_files: 1, output_mib: 1, execs: 1 };

const FIELDS: Names<SandboxFields & OtherSpellings> = {
  name: 1,
  template: 1,
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
  autoResume: 1,
  pausedTimeCounts: 1,
  engine: 1,
  minGrade: 1,
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

/** Edits from one word to the other, by Levenshtein. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1]!.toLowerCase() === b[j - 1]!.toLowerCase() ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}

function nearest(word: string, names: readonly string[]): string | undefined {
  const plain = word.replace(/_/g, "");
  const best = names.map((name): [number, string] => [distance(plain, name), name]).sort((a, b) => a[0] - b[0])[0];
  return best && best[0] <= Math.max(1, word.length / 3) ? best[1] : undefined;
}

/** Throws a TypeError for an option that does not exist. */
export function checkOptions(of: keyof typeof TABLES, options: object): void {
  const names = Object.keys(TABLES[of]);
  for (const word of Object.keys(options)) {
    if (names.includes(word)) continue;
    const near = nearest(word, names);
    const hint = of === "sandbox" && word in LIMITS ? `; write limits: { ${word}: … }` : near ? `; did you mean '${near}'?` : "";
    throw new TypeError(`${of === "sandbox" ? "a sandbox" : `${of}()`} has no option '${word}'${hint}`);
  }
}
