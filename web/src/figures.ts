// SPDX-License-Identifier: Apache-2.0
/**
 * Figures over time. The API tells them as they are now; what is shown as a line is remembered here, for all pages, from
 * the login on.
 */
import type { Live } from "./live.js";
import type { Context, Json } from "./page.js";

const SPARK_MAX = 40;
const TOTAL_MAX = 240;

export interface Line {
  /** In CPUs. */
  cpu: number[];
  /** In bytes. */
  memory: number[];
  cost: string;
  pids: number;
  atUs: number;
  cpuNs: number;
}

const lines = new Map<string, Line>();
const totals: { at: number[]; cpu: number[]; memory: number[] } = { at: [], cpu: [], memory: [] };

function push(list: number[], value: number, most: number): void {
  list.push(value);
  if (list.length > most) list.shift();
}

function take(row: Json): Line {
  const known = lines.get(row["id"]);
  const line = known ?? { cpu: [], memory: [], cost: "0", pids: 0, atUs: 0, cpuNs: 0 };
  if (row["at_us"] > line.atUs) {
    if (line.atUs) push(line.cpu, Math.max(0, (row["cpu_ns"] - line.cpuNs) / 1000 / (row["at_us"] - line.atUs)), SPARK_MAX);
    push(line.memory, row["memory_bytes"], SPARK_MAX);
    Object.assign(line, { atUs: row["at_us"], cpuNs: row["cpu_ns"], cost: row["cost"], pids: row["pids"] });
  }
  lines.set(row["id"], line);
  return line;
}

function takeAll(figures: Json): void {
  const rows = figures["sandboxes"] as Json[];
  const there = new Set(rows.map((r) => r["id"]));
  for (const id of lines.keys()) if (!there.has(id)) lines.delete(id);
  const now = rows.map(take);
  const last = (list: number[]): number => list[list.length - 1] ?? 0;
  push(totals.at, figures["at_us"] / 1e6, TOTAL_MAX);
  push(totals.cpu, now.reduce((n, l) => n + last(l.cpu), 0), TOTAL_MAX);
  push(totals.memory, now.reduce((n, l) => n + last(l.memory), 0), TOTAL_MAX);
}

export function lineOf(id: string): Line | undefined {
  return lines.get(id);
}

export function totalLines(): Readonly<typeof totals> {
  return totals;
}

/** What is told is remembered whatever page is shown; of another login nothing. */
export function rememberFigures(live: Live): void {
  lines.clear();
  for (const list of Object.values(totals)) list.length = 0;
  live.onFigures(takeAll);
}

/** Calls fn with figures, now and as they come, until the page goes; `onError` with what stands against the first. */
export function watchFigures(ctx: Context, fn: (figures: Json) => void, onError: (error: unknown) => void): void {
  ctx.live.onFigures(fn, ctx.signal);
  ctx.cloche.figures({ signal: ctx.signal }).then(
    (figures) => {
      takeAll(figures);
      fn(figures);
    },
    (error: unknown) => {
      if (!ctx.signal.aborted) onError(error);
    },
  );
}
