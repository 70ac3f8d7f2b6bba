// SPDX-License-Identifier: Apache-2.0
/** What was used and what it cost, by project and day, and as a file for whoever reckons with it. */
import { request } from "../../../sdk/typescript/src/index.js";
import type { Context, Json, Page } from "../page.js";
import { type Series, amount, bytes, card, chart, count, el, empty, failure, loading, money, pageHead, replace, saveFile, table, tile, toastError } from "../ui/index.js";

const PROJECTS_MAX = 6;
/** What is told was written to the disk first: not for every event. */
const GAP_MS = 2000;
const HOUR_MS = 3_600_000;
const SPANS: readonly [string, string][] = [
  ["month", "This month"],
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
];
const WHATS: readonly [string, string, (row: Json) => number][] = [
  ["cost", "Cost", (r) => Number(r["cost"])],
  ["cpu", "CPU hours", (r) => r["cpu_ns"] / 3.6e12],
  ["memory", "Memory GiB hours", (r) => r["memory_mib_ms"] / 1024 / HOUR_MS],
  ["creates", "Sandboxes made", (r) => r["creates"]],
];

function day(at: Date): string {
  return at.toISOString().slice(0, 10);
}

function daysOf(choice: string): { from: string; to: string } {
  const now = new Date();
  const from = choice === "month" ? new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)) : new Date(now.getTime() - (Number(choice) - 1) * 86_400_000);
  return { from: day(from), to: day(now) };
}

function eachDay({ from, to }: { from: string; to: string }): string[] {
  const days: string[] = [];
  for (let at = Date.parse(from); at <= Date.parse(to); at += 86_400_000) days.push(day(new Date(at)));
  return days;
}

async function download(ctx: Context, query: Record<string, string>, name: string): Promise<void> {
  const reply = await ctx.cloche.open(request("GET", ["usage"], { query, accept: "text/csv" }));
  await saveFile(name, reply.pieces(), "text/csv");
}

export const page: Page = {
  title: "Usage",
  mount(root, ctx) {
    let isChosen = false;
    let plot: ReturnType<typeof chart> | undefined;
    const choice = el("select", { "aria-label": "Days", on: { change: () => void show() } }, SPANS.map(([value, word]) => el("option", { value }, word)));
    const what = el("select", { "aria-label": "What", on: { change: () => ((isChosen = true), void show()) } }, WHATS.map(([value, word]) => el("option", { value }, word)));
    const group = el("select", { "aria-label": "Export" }, el("option", { value: "day" }, "by day"), el("option", { value: "project" }, "by project"), el("option", { value: "sandbox" }, "by sandbox"));
    const save = el("button", { on: { click: () => void download(ctx, { ...daysOf(choice.value), group_by: group.value }, `cloche-usage-${group.value}.csv`).catch(toastError) } }, "Export CSV");
    const place = el("div", {}, loading());
    const projects = table<Json>({
      label: "Projects",
      key: (r) => r["project_id"],
      sort: { column: "Cost", isDown: true },
      columns: [
        { name: "Project", by: (r) => r["project"] ?? "", cell: (r) => r["project"] ?? r["project_id"] },
        { name: "Cost", by: (r) => Number(r["cost"]), cell: (r) => money(r["cost"]), isFigure: true },
        { name: "CPU hours", by: (r) => r["cpu_ns"], cell: (r) => amount(r["cpu_ns"] / 3.6e12), isFigure: true },
        { name: "Memory GiB hours", by: (r) => r["memory_mib_ms"], cell: (r) => amount(r["memory_mib_ms"] / 1024 / HOUR_MS), isFigure: true },
        { name: "Network", by: (r) => r["network_in_bytes"] + r["network_out_bytes"], cell: (r) => bytes(r["network_in_bytes"] + r["network_out_bytes"]), isFigure: true, isExtra: true },
        { name: "Execs", by: (r) => r["execs"], cell: (r) => count(r["execs"]), isFigure: true },
        { name: "Calls", by: (r) => r["calls"], cell: (r) => count(r["calls"]), isFigure: true, isExtra: true },
        { name: "Sandboxes", by: (r) => r["creates"], cell: (r) => count(r["creates"]), isFigure: true },
      ],
    });

    /** Bars of the projects stand on each other: each series is drawn up to the sum of those below it, the highest first. */
    function drawChart(days: string[], series: readonly { name: string; rows: Json[] }[], of: (row: Json) => number): HTMLElement {
      const values = series.map((s) => days.map((d) => s.rows.filter((r) => r["day"] === d).reduce((n, r) => n + of(r), 0)));
      const sums = values.map((_v, i) => days.map((_d, at) => values.slice(0, i + 1).reduce((n, v) => n + v[at]!, 0)));
      const looks = series.map((s, i): Series => ({ name: s.name, colour: (i % 6) + 1, format: amount })).reverse();
      plot?.destroy();
      plot = chart({ label: "Usage by day", series: looks, bars: days.map((d) => d.slice(5)), height: 240, atLeast: 0.01, format: (v) => (v >= 10 || Number.isInteger(v) ? count(Math.round(v)) : v.toPrecision(2)) });
      const drawn = plot;
      requestAnimationFrame(() => drawn.show([days.map((_d, i) => i), ...sums.reverse()], days.map((d) => d.slice(5))));
      return plot.node;
    }

    let asked = 0;
    async function show(): Promise<void> {
      const mine = ++asked;
      try {
        const days = daysOf(choice.value);
        const report = await ctx.cloche.call(request("GET", ["usage"], { query: { ...days, group_by: "project" }, signal: ctx.signal }));
        const rows = report["rows"] as Json[];
        const top = [...rows].sort((a, b) => Number(b["cost"]) - Number(a["cost"]) || b["cpu_ns"] - a["cpu_ns"]).slice(0, PROJECTS_MAX);
        const series = await Promise.all(top.map(async (r) => ({ name: r["project"] ?? r["project_id"], rows: await ctx.cloche.usage({ ...days, groupBy: "day", project: ctx.who.isHostAdmin ? r["project_id"] : undefined }) })));
        if (ctx.signal.aborted || mine !== asked) return; // something else was chosen meanwhile
        if (!isChosen && Number(report["total"]["cost"]) === 0) what.value = "cpu"; // no prices are set
        const [, word, of] = WHATS.find(([value]) => value === what.value)!;
        const total = report["total"];
        projects.show(rows);
        replace(
          place,
          el(
            "div",
            { class: "cards" },
            tile("Cost", money(total["cost"], report["currency"])),
            tile("CPU hours", amount(total["cpu_ns"] / 3.6e12)),
            tile("Memory GiB hours", amount(total["memory_mib_ms"] / 1024 / HOUR_MS)),
            tile("Sandboxes made", count(total["creates"])),
          ),
          rows.length ? [card(`${word} by day`, drawChart(eachDay(days), series, of)), el("section", { class: "card flush gap" }, projects.node)] : empty("Nothing was used on these days", "What sandboxes use and cost is shown here, by project and day.", "Choose other days, or run something."),
        );
      } catch (error) {
        if (!ctx.signal.aborted) replace(place, failure(error, () => void show()));
      }
    }

    replace(root, pageHead("Usage", choice, what, el("span", { class: "joined" }, group, save)), place);
    const again = ctx.live.keep(show, (entry) => /^(sandbox|exec|context)\./.test(entry.type), ctx.signal, GAP_MS);
    let readings = "";
    ctx.live.onFigures((figures) => {
      const told = (figures["sandboxes"] as Json[]).map((s) => `${s["id"]} ${s["at_us"]}`).join();
      if (told !== readings) again(); // something was measured, and so was used
      readings = told;
    }, ctx.signal);
    return () => plot?.destroy();
  },
};
