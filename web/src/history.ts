// SPDX-License-Identifier: Apache-2.0
/**
 * What was used in the last hour, day, week and month, as charts with a table behind them, and what ran at a moment of it: a
 * click on a chart, or a time that is typed. Where the daemon did not look there is a gap. It is asked for again when figures
 * come, no more often than a step is long.
 */
import { gathered } from "./gathered.js";
import type { Context, Json } from "./page.js";
import { type Chart, type Series, bytes, card, chart, count, el, empty, failure, loading, localMoment, replace, sandboxName, sandboxPath, table, toastError } from "./ui/index.js";

type Scope = "host" | "project" | "sandbox";
type Range = "1h" | "24h" | "7d" | "30d";
const RANGES: readonly [Range, string, string][] = [
  ["1h", "Hour", "hour"],
  ["24h", "Day", "day"],
  ["7d", "Week", "week"],
  ["30d", "Month", "month"],
];
const ROWS_MAX = 30;
const ASK_MS = 10_000;
const MIB = 2 ** 20;

interface Line {
  /** The API's name of the figure. */
  figure: string;
  name: string;
  colour: number;
  /** What one of it is. */
  unit?: number;
}
interface Plot {
  title: string;
  lines: readonly Line[];
  format: (v: number) => string;
  atLeast: number;
  isBytes?: boolean;
}

const cpus = (v: number): string => String(Number(v.toFixed(2)));
const rate = (v: number): string => `${bytes(v)}/s`;
const whole = (v: number): string => (Number.isInteger(v) ? count(v) : "");
const NETWORK: Plot = {
  title: "Network",
  lines: [
    { figure: "network_in_bytes_per_second", name: "In", colour: 4 },
    { figure: "network_out_bytes_per_second", name: "Out", colour: 5 },
  ],
  format: rate,
  atLeast: 4096,
  isBytes: true,
};
const DISK: Plot = { title: "Disk", lines: [{ figure: "disk_bytes", name: "Disk", colour: 2 }], format: bytes, atLeast: MIB, isBytes: true };
const SANDBOXES: Plot = { title: "Sandboxes", lines: [{ figure: "sandboxes", name: "Running", colour: 1 }], format: whole, atLeast: 2 };
const PLOTS: Record<Scope, readonly Plot[]> = {
  sandbox: [
    { title: "CPU", lines: [{ figure: "cpu_milli", name: "CPUs", colour: 1, unit: 0.001 }], format: cpus, atLeast: 0.1 },
    { title: "Memory", lines: [{ figure: "memory_bytes", name: "Memory", colour: 3 }], format: bytes, atLeast: 8 * MIB, isBytes: true },
    DISK,
    NETWORK,
  ],
  project: [
    { title: "CPU", lines: [{ figure: "cpu_milli", name: "CPUs", colour: 1, unit: 0.001 }], format: cpus, atLeast: 0.5 },
    { title: "Memory", lines: [{ figure: "memory_bytes", name: "Memory", colour: 3 }], format: bytes, atLeast: 64 * MIB, isBytes: true },
    SANDBOXES,
    {
      title: "Activity",
      lines: [
        { figure: "creates", name: "Sandboxes made", colour: 1 },
        { figure: "execs", name: "Commands", colour: 3 },
        { figure: "calls", name: "Code runs", colour: 2 },
      ],
      format: whole,
      atLeast: 2,
    },
    DISK,
    NETWORK,
  ],
  host: [
    {
      title: "CPU",
      lines: [
        { figure: "host_cpu_milli", name: "Machine, CPUs", colour: 3, unit: 0.001 },
        { figure: "cpu_milli", name: "Sandboxes, CPUs", colour: 1, unit: 0.001 },
      ],
      format: cpus,
      atLeast: 0.5,
    },
    {
      title: "Memory",
      lines: [
        { figure: "host_memory_bytes", name: "Machine, memory", colour: 3 },
        { figure: "memory_bytes", name: "Sandboxes, memory", colour: 1 },
      ],
      format: bytes,
      atLeast: 64 * MIB,
      isBytes: true,
    },
    { title: "Load", lines: [{ figure: "host_load_milli", name: "Load", colour: 4, unit: 0.001 }], format: cpus, atLeast: 0.5 },
    { title: "Free disk", lines: [{ figure: "host_disk_free_bytes", name: "Free disk", colour: 2 }], format: bytes, atLeast: MIB, isBytes: true },
    SANDBOXES,
    {
      title: "Creates",
      lines: [
        { figure: "creates", name: "Made", colour: 1 },
        { figure: "creates_failed", name: "Failed", colour: 6 },
        { figure: "refusals", name: "Refused: no room", colour: 2 },
      ],
      format: whole,
      atLeast: 2,
    },
    NETWORK,
  ],
};

type Values = readonly (number | null)[];

/** One value for many places, as the API makes one of many readings. */
function gather(values: Values, aggregate: string): number | null {
  const known = values.filter((v): v is number => v !== null);
  if (!known.length) return null;
  if (aggregate === "max") return Math.max(...known);
  if (aggregate === "min") return Math.min(...known);
  const sum = known.reduce((a, b) => a + b, 0);
  return aggregate === "sum" ? sum : sum / known.length;
}

function toInput(us: number): string {
  const at = new Date(us / 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** The table behind the charts: the whole range in a few rows. */
function rangeTable(plots: readonly Plot[]): { node: HTMLElement; show(told: Json): void } {
  const lines = plots.flatMap((p) => p.lines.map((line) => ({ line, plot: p })));
  const figures = table<Json>({
    label: "History as a table",
    key: (r) => String(r["at"]),
    columns: [
      { name: "From", cell: (r) => localMoment(r["at"]) },
      ...lines.map(({ line, plot }) => ({
        name: line.name,
        cell: (r: Json) => (r[line.figure] === null ? "–" : plot.format(plot.format === whole ? Math.round(r[line.figure]) : r[line.figure] * (line.unit ?? 1))),
        isFigure: true,
      })),
    ],
  });
  return {
    node: figures.node,
    show(told) {
      const size = Math.ceil(told["count"] / ROWS_MAX);
      const rows: Json[] = [];
      for (let at = 0; at < told["count"]; at += size) {
        const row: Json = { at: told["from_us"] + at * told["step_ms"] * 1000 };
        for (const s of told["series"] as Json[]) row[s["name"]] = gather((s["values"] as Values).slice(at, at + size), s["aggregate"]);
        rows.push(row);
      }
      figures.show(rows.reverse());
    },
  };
}

/** What ran at a moment, by its input or by a click on a chart. */
function ranAt(ctx: Context, project: () => string | undefined): { node: HTMLElement; pick(us: number): void } {
  const input = el("input", { type: "datetime-local", step: "1", "aria-label": "Moment", required: true });
  const place = el("div", { "aria-live": "polite" });
  const runs = table<Json>({
    label: "Sandboxes that ran",
    key: (r) => `${r["id"]} ${r["began_us"]}`,
    sort: { column: "Began", isDown: true },
    href: (r) => sandboxPath(r["id"]),
    columns: [
      { name: "Sandbox", by: sandboxName, cell: (r) => el("span", { title: r["id"] }, sandboxName(r)) },
      { name: "Template", by: (r) => r["template"], cell: (r) => r["template"], isExtra: true },
      { name: "Began", by: (r) => r["began_us"], cell: (r) => localMoment(r["began_us"]) },
      { name: "Ended", by: (r) => r["ended_us"] ?? Infinity, cell: (r) => (r["ended_us"] ? localMoment(r["ended_us"]) : "runs") },
      { name: "CPUs then", by: (r) => r["cpu_milli"] ?? -1, cell: (r) => (r["cpu_milli"] === null ? "–" : cpus(r["cpu_milli"] / 1000)), isFigure: true },
      { name: "Memory then", by: (r) => r["memory_bytes"] ?? -1, cell: (r) => (r["memory_bytes"] === null ? "–" : bytes(r["memory_bytes"])), isFigure: true },
    ],
  });
  let asked = 0;
  async function show(us: number): Promise<void> {
    const mine = ++asked;
    replace(place, loading());
    try {
      const ran = await ctx.cloche.runningAt(us, { project: project() });
      if (ctx.signal.aborted || mine !== asked) return;
      runs.show(ran);
      replace(place, el("p", { class: "dim", data: { what: "ran" } }, `${count(ran.length)} ran at ${localMoment(us)}`), ran.length ? runs.node : null);
    } catch (error) {
      if (!ctx.signal.aborted && mine === asked) replace(place, failure(error, () => void show(us)));
    }
  }
  const submit = (event: Event): void => {
    event.preventDefault();
    const at = new Date(input.value).getTime();
    if (Number.isNaN(at)) toastError(new Error("type a day and a time"));
    else void show(at * 1000);
  };
  const form = el("form", { class: "moment", on: { submit } }, el("label", {}, "What ran at ", input), el("button", { type: "submit" }, "Show"));
  return {
    node: el("div", { class: "ran" }, form, place),
    pick(us) {
      input.value = toInput(us);
      void show(us);
    },
  };
}

/** A card with the history of the host, a project or a sandbox. `id` is asked each time: it may be chosen anew, with `again`. */
export function historyCard(ctx: Context, scope: Scope, signal: AbortSignal, id: () => string | undefined = () => undefined, ...actions: HTMLElement[]): { node: HTMLElement; again: () => void } {
  const plots = PLOTS[scope];
  let range: Range = "1h";
  const ran = scope === "project" ? ranAt(ctx, id) : undefined;
  const charts: Chart[] = plots.map((plot) =>
    chart({
      label: plot.title,
      series: plot.lines.map((line, i): Series => ({ name: line.name, colour: line.colour, isFilled: i === 0, format: plot.format })),
      format: plot.format,
      atLeast: plot.atLeast,
      isBytes: plot.isBytes ?? false,
      height: 150,
      pick: ran && ((seconds) => ran.pick(Math.round(seconds * 1e6))),
    }),
  );
  const behind = rangeTable(plots);
  const fold = el("details", { class: "fold", on: { toggle: () => fold.open && told && behind.show(told) } }, el("summary", {}, "As a table"), behind.node);
  const buttons = RANGES.map(([name, word]) => el("button", { type: "button", "aria-pressed": String(name === range), on: { click: () => choose(name) } }, word));
  const drawn = el("div", { class: "plots" }, plots.map((plot, i) => el("div", {}, el("h3", {}, plot.title), charts[i]!.node)));
  const nothing = empty("There are no readings yet", "The first reading comes some seconds after the daemon's start.", scope === "sandbox" ? "There are none while the sandbox does not run." : "Look again in a moment.");
  const place = el("div", {}, loading());
  let told: Json | undefined;
  let shown = "";

  function choose(next: Range): void {
    range = next;
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(RANGES[i]![0] === range)));
    void show();
  }

  function draw(next: Json): void {
    told = next;
    const series = new Map((next["series"] as Json[]).map((s) => [s["name"], s]));
    const at = Array.from({ length: next["count"] }, (_n, i) => next["from_us"] / 1e6 + (i * next["step_ms"]) / 1000);
    const isKnown = (next["series"] as Json[]).some((s) => (s["values"] as Values).some((v) => v !== null));
    if (shown !== String(isKnown)) replace(place, isKnown ? [drawn, ran?.node, fold] : nothing);
    shown = String(isKnown);
    if (!isKnown) return;
    const word = RANGES.find(([name]) => name === next["range"])![2];
    plots.forEach((plot, i) => {
      const values = plot.lines.map((line) => (series.get(line.figure)!["values"] as Values).map((v) => (v === null ? null : v * (line.unit ?? 1))));
      const most = Math.max(0, ...values.flatMap((v) => v.filter((n): n is number => n !== null)));
      charts[i]!.node.setAttribute("aria-label", `${plot.title} in the last ${word}, at most ${plot.format(plot.format === whole ? Math.round(most) : most)}`);
      charts[i]!.show([at, ...values]);
    });
    if (fold.open) behind.show(next);
  }

  let asked = 0;
  async function show(): Promise<void> {
    const mine = ++asked;
    try {
      const next = await ctx.cloche.history({ scope, id: id(), range, signal });
      if (!signal.aborted && mine === asked) draw(next);
    } catch (error) {
      if (signal.aborted || mine !== asked) return;
      shown = "";
      replace(place, failure(error, () => void show()));
    }
  }

  const later = gathered(show, signal, ASK_MS);
  ctx.live.onFigures(later, signal);
  later();
  signal.addEventListener("abort", () => charts.forEach((c) => c.destroy()));
  const node = card("History", place, ...actions, el("span", { class: "segmented", role: "group", "aria-label": "Range" }, buttons));
  node.classList.add("history");
  return { node, again: () => void show() };
}
