// SPDX-License-Identifier: Apache-2.0
/** Words held against those that there are: one that does not exist is refused with the one that was meant. */
import type { Limits } from "./options.js";

/** All names of a type's members, so that none can be forgotten. */
export type Names<T> = Record<keyof Required<T>, 1>;

const LIMITS: Names<Limits> = { vcpus: 1, memory_mib: 1, disk_mib: 1, inodes: 1, pids: 1, open_files: 1, output_mib: 1, execs: 1 };

/** Letters to put in, leave out, change, or swap with the next one. */
function distance(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, i) => i)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, changed, isSwap ? before[j - 2]! + 1 : Infinity));
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}

function nearest(word: string, names: readonly string[]): string | undefined {
  const plain = word.replace(/_/g, "").toLowerCase();
  const best = names.map((name): [number, string] => [distance(plain, name.toLowerCase()), name]).sort((a, b) => a[0] - b[0])[0];
  return best && best[0] <= Math.max(1, word.length / 3) ? best[1] : undefined;
}

/** Throws a TypeError for an option that is none of the names. */
export function check(of: string, names: readonly string[], options: object): void {
  for (const word of Object.keys(options)) {
    if (names.includes(word)) continue;
    const near = nearest(word, names);
    const isLimit = word in LIMITS && names.includes("limits");
    const hint = isLimit ? `; write limits: { ${word}: … }` : near ? `; did you mean '${near}'?` : "";
    throw new TypeError(`${of} has no option '${word}'${hint}`);
  }
}

/** The same with the names of a method's options. */
export function checkNames<T extends object>(of: string, names: Names<T>, options: T): void {
  check(`${of}()`, Object.keys(names), options);
}
