// SPDX-License-Identifier: Apache-2.0
/** How it stands, at a glance: sandboxes by state, what they use, how fast they start, and what happened last. */
import { totalLines, watchFigures } from "../figures.js";
import { historyCard } from "../history.js";
import { type Entry, cursorOf, newest } from "../live.js";
import type { Json, Page } from "../page.js";
import { bar, bytes, card, chart, clock, count, el, empty, factsOf, failure, loading, moment, money, pageHead, percent, relativeTime, replace, sandboxLink, startedUs, stateBadge, tile, typeBadge } from "../ui/index.js";

const RECENT_MAX = 12;
const MIB = 1024 * 1024;

function boundName(us: number | undefined): string {
  if (us === undefined) return "more";
  return us < 1000 ? `${us / 1000} ms` : us < 1_000_000 ? `${us / 1000} ms` : `${us / 1_000_000} s`;
}

/** Bars of the histogram, from the first that has something to the last. */
function startBars(starts: Json): { names: string[]; counts: number[] } {
  const counts = starts["counts"] as number[];
  const first = counts.findIndex((n) => n > 0);
  const last = counts.findLastIndex((n) => n > 0);
  const from = Math.max(0, first - 1);
  const to = Math.min(counts.length, last + 2);
  return { names: counts.slice(from, to).map((_n, i) => boundName(starts["bounds_us"][from + i])), counts: counts.slice(from, to) };
}

/** The time within which so many of the starts were done. */
function within(starts: Json, part: number): string {
  const counts = starts["counts"] as number[];
  const all = counts.reduce((a, b) => a + b, 0);
  let seen = 0;
  const at = counts.findIndex((n) => (seen += n) >= all * part);
  return all ? boundName(starts["bounds_us"][at]) : "–";
}

export const page: Page = {
  title: "Overview",
  mount(root, ctx) {
    const cpu = chart({ label: "CPUs in use over time", series: [{ name: "CPUs", colour: 1, isFilled: true, format: (v) => v.toFixed(2) }], format: (v) => v.toFixed(1), atLeast: 0.5 });
    const memory = chart({ label: "Memory in use over time", series: [{ name: "Memory", colour: 3, isFilled: true, format: bytes }], format: bytes, atLeast: 64 * MIB, isBytes: true });
    const starts = chart({ label: "How long sandboxes took to start", series: [{ name: "Starts", colour: 1 }], bars: [], height: 290, format: (v) => (Number.isInteger(v) ? count(v) : "") });
    const tiles = el("div", { class: "cards" });
    const startCard = card("Time to start", starts.node, el("span", { class: "dim", data: { what: "starts" } }));
    const recent = el("ol", { class: "recent" });
    const recentCard = card("Latest events", recent, el("a", { href: "/events" }, "All events"));
    const problems = el("ul", { class: "problems", data: { what: "problems" } });
    problems.hidden = true;
    const chooser = el("select", { "aria-label": "Project", hidden: true, on: { change: () => past.again() } });
    const past = historyCard(ctx, "project", ctx.signal, () => chooser.value || undefined, chooser);
    let health: Json = {};
    let latest: Json | undefined;
    let shown = "";
    let isUp = false;

    function draw(figures: Json): void {
      if (!isUp) replace(root, pageHead("Overview"), problems, tiles, el("div", { class: "columns" }, card("CPU", cpu.node), card("Memory", memory.node)), el("div", { class: "columns" }, startCard, recentCard), past.node);
      isUp = true;
      latest = figures;
      drawTiles(figures);
      const lines = totalLines();
      cpu.show([lines.at, lines.cpu]);
      memory.show([lines.at, lines.memory]);
      drawStarts(figures["starts"]);
    }

    function drawStarts(told: Json | null): void {
      startCard.hidden = !told;
      const text = JSON.stringify(told);
      if (!told || text === shown) return;
      shown = text;
      const all = (told["counts"] as number[]).reduce((a, b) => a + b, 0);
      const { names, counts } = startBars(told);
      const words = all ? `${count(all)} starts, half within ${within(told, 0.5)}, 99% within ${within(told, 0.99)}` : "none yet";
      startCard.querySelector("[data-what=starts]")!.textContent = words + (told["failed"] ? `, ${told["failed"]} failed` : "");
      if (all) starts.show([counts.map((_n, i) => i), counts], names);
    }

    function drawTiles(figures: Json): void {
      const states = figures["states"] as Record<string, number>;
      const lines = totalLines();
      const [usedCpu, usedMemory] = [lines.cpu[lines.cpu.length - 1] ?? 0, lines.memory[lines.memory.length - 1] ?? 0];
      const host = health["host"] as Json | undefined;
      const pool = figures["pool"] as Json | null;
      const asked = pool ? pool["hits"] + pool["misses"] : 0;
      const cost = (figures["sandboxes"] as Json[]).reduce((n, s) => n + Number(s["cost"]), 0);
      const others = Object.entries(states).filter(([name, n]) => n > 0 && name !== "running");
      replace(
        tiles,
        tile("Running", count(states["running"] ?? 0), others.length ? el("span", { class: "chips" }, others.map(([name, n]) => stateBadge(name, `${count(n)} ${name}`))) : "sandboxes"),
        tile("CPU", usedCpu.toFixed(2), host && [bar(usedCpu / host["cpus"], "share of the host's CPUs"), `of ${host["cpus"]} CPUs`]),
        tile("Memory", bytes(usedMemory), host && [bar(usedMemory / (host["memory_mib"] * MIB), "share of the host's memory"), `of ${bytes(host["memory_mib"] * MIB)}`]),
        pool && tile("Pool", `${pool["ready"]} of ${pool["target"]}`, asked ? `${percent(pool["hits"] / asked)} of new sandboxes came from it` : "spares ready"),
        tile("Cost of running sandboxes", money(cost, figures["currency"]), health["uptime_ms"] ? ["daemon started ", relativeTime(startedUs(health))] : undefined),
      );
    }

    async function askHealth(): Promise<void> {
      health = await ctx.cloche.health().catch(() => health);
      const wrong = (health["problems"] ?? []) as Json[];
      problems.hidden = wrong.length === 0;
      replace(
        problems,
        wrong.map((p) => el("li", {}, el("strong", {}, p["message"]), ` since ${moment(p["since_us"])}. `, el("span", { class: "dim" }, p["hint"]))),
      );
      if (latest && !ctx.signal.aborted) drawTiles(latest);
    }

    /** Who sees all projects may look at each. */
    async function askProjects(): Promise<void> {
      if (!ctx.who.isHostAdmin) return;
      const all = await ctx.cloche.projects();
      replace(chooser, all.map((p) => el("option", { value: p["id"], selected: p["id"] === (chooser.value || ctx.who.project.id) }, p["name"])));
      chooser.hidden = all.length < 2;
    }

    const entries: Entry[] = [];
    function addEntry(entry: Entry): void {
      if (!entry.seq || entries.some((e) => cursorOf(e) === cursorOf(entry))) return;
      entries.unshift(entry);
      entries.sort((a, b) => cursorOf(b) - cursorOf(a));
      entries.length = Math.min(entries.length, RECENT_MAX);
      replace(
        recent,
        entries.map((e) => el("li", {}, el("time", {}, clock(e.at_us)), typeBadge(e.type), sandboxLink(e.sandbox_id), el("span", { class: "dim cut", title: factsOf(e) }, factsOf(e)))),
      );
    }
    /** The last ones before this page was opened. */
    async function askRecent(): Promise<void> {
      const head = await newest(ctx.cloche, ctx.who.isHostAdmin, ctx.signal);
      for await (const entry of ctx.cloche.events({ after: Math.max(0, head - RECENT_MAX), all: ctx.who.isHostAdmin, signal: ctx.signal })) addEntry(entry as Entry);
    }
    replace(recent, el("li", {}, empty("Nothing has happened yet", "The latest of all events are shown here.", ["Make a sandbox: ", el("a", { href: "/sandboxes" }, "Sandboxes")])));
    ctx.live.keep(() => askRecent().catch(() => undefined), () => false, ctx.signal); // those to come are told

    replace(root, loading());
    ctx.live.keep(() => askProjects().catch(() => undefined), (entry) => entry.type.startsWith("project."), ctx.signal);
    ctx.live.keep(askHealth, (entry) => entry.type.startsWith("daemon."), ctx.signal); // what else moves in it is told by figures
    watchFigures(ctx, draw, (error) => {
      if (!isUp) replace(root, failure(error));
    });
    const stop = ctx.live.on(addEntry);
    return () => {
      stop();
      for (const plot of [cpu, memory, starts]) plot.destroy();
    };
  },
};
