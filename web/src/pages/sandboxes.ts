// SPDX-License-Identifier: Apache-2.0
/**
 * All sandboxes of the project: filtered, sorted, with what they use. A change in the event log asks for that one sandbox
 * again, many at once for the whole list. In a cluster the list has those of all nodes; the log is this node's alone, so the whole
 * list is asked for again every few seconds.
 */
import { lineOf, watchFigures } from "../figures.js";
import type { Entry } from "../live.js";
import type { Json, Page } from "../page.js";
import { newSandbox } from "./new-sandbox.js";
import { request } from "../../../sdk/typescript/src/index.js";
import { bytes, causeOf, type Child, clock, type Column, el, empty, failure, loading, money, pageHead, relativeTime, replace, sandboxName, sandboxPath, span, sparkline, stateBadge, type Table, table } from "../ui/index.js";

const ROWS_MAX = 1000;
const ONE_BY_ONE_MAX = 6;
const CLUSTER_GAP_MS = 5000;
const FRESH_MS = 30_000;
const MIB = 1024 * 1024;

function lastOf(list: readonly number[] | undefined): number {
  return list?.[list.length - 1] ?? 0;
}

function cpuCell(s: Json): Child {
  const line = lineOf(s["id"]);
  const now = lastOf(line?.cpu);
  return line && [sparkline(line.cpu, s["limits"]["vcpus"], `CPU ${now.toFixed(2)}`), el("small", { class: "dim" }, now.toFixed(2))];
}

function memoryCell(s: Json): Child {
  const line = lineOf(s["id"]);
  const now = lastOf(line?.memory);
  return line && [sparkline(line.memory, s["limits"]["memory_mib"] * MIB, `memory ${bytes(now)}`), el("small", { class: "dim" }, bytes(now))];
}

function matches(s: Json, words: string, state: string): boolean {
  if (state && s["state"] !== state) return false;
  const tags = Object.entries((s["tags"] ?? {}) as Record<string, string>).map(([k, v]) => `${k}:${v}`);
  const text = [s["id"], s["name"], s["template"], s["state"], s["isolation"]?.["grade"], s["ended"]?.["cause"], s["node"], ...tags].join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Of which nodes the list is old or has nothing. Rows that a node reported a moment ago are as good as its answer. */
function incompleteNote(parts: readonly Json[]): Child {
  const isFresh = (p: Json): boolean => p["as_of_us"] !== null && Date.now() - p["as_of_us"] / 1000 < FRESH_MS;
  const fresh = parts.filter(isFresh);
  const old = parts.filter((p) => !isFresh(p));
  const said = old.map((p) => el("li", {}, p["node"] === null ? p["why"] : [el("strong", {}, p["node"]), ": ", p["why"], ". ", p["as_of_us"] ? ["Its rows are from ", clock(p["as_of_us"]), "."] : "None of its rows are here."]));
  return [
    old.length ? el("section", { class: "card notice", role: "alert", data: { incomplete: "" } }, el("strong", {}, "This list may be incomplete"), el("ul", {}, said)) : null,
    fresh.length ? el("p", { class: "dim notice", data: { reported: "" } }, `What ${fresh.map((p) => p["node"]).join(", ")} reported less than ${FRESH_MS / 1000} s ago is in this list.`) : null,
  ];
}

export const page: Page = {
  title: "Sandboxes",
  mount(root, ctx) {
    const known = new Map<string, Json>();
    const endedCosts = new Map<string, string>();
    const changed = new Set<string>();
    let isListed = false;
    let isOfNodes = false;
    let listedMs = 0;
    let currency = "";
    const cost = (s: Json): number => Number(lineOf(s["id"])?.cost ?? endedCosts.get(s["id"]) ?? 0);
    const filter = el("input", { type: "search", placeholder: "Name, id, tag…", "aria-label": "Filter", data: { filter: "" }, on: { input: () => draw() } });
    const state = el("select", { "aria-label": "State", on: { change: () => draw() } }, el("option", { value: "" }, "Any state"), ["running", "paused", "stopped", "failed", "creating"].map((word) => el("option", { value: word }, word)));
    const told = el("span", { class: "dim", role: "status" });
    const note = el("div");
    const place = el("div", {}, loading());
    const columns: Column<Json>[] = [
      { name: "Name", by: sandboxName, cell: (s) => [s["name"] ?? el("span", { class: "mono nowrap" }, s["id"]), s["name"] ? el("small", { class: "dim mono id" }, s["id"]) : null] },
      { name: "State", by: (s) => s["state"], cell: (s) => stateBadge(s["state"]) },
      { name: "Grade", by: (s) => s["isolation"]?.["grade"] ?? "", cell: (s) => s["isolation"]?.["grade"] ?? "", isExtra: true },
      { name: "Template", by: (s) => s["template"], cell: (s) => s["template"] },
      { name: "CPU", by: (s) => lastOf(lineOf(s["id"])?.cpu), cell: cpuCell },
      { name: "Memory", by: (s) => lastOf(lineOf(s["id"])?.memory), cell: memoryCell },
      { name: "Cost", by: cost, cell: (s) => money(cost(s), currency), isFigure: true },
      { name: "Age", by: (s) => -s["created_us"], cell: (s) => relativeTime(s["created_us"]), isFigure: true },
      { name: "Ends", by: (s) => s["expires_us"] ?? Infinity, cell: (s) => (s["expires_us"] ? `in ${span(s["expires_us"] / 1000 - Date.now())}` : causeOf(s)), isFigure: true },
    ];
    const nodeColumn: Column<Json> = { name: "Node", by: (s) => s["node"] ?? "", cell: (s) => s["node"] ?? "" };
    const tableOf = (all: readonly Column<Json>[]): Table<Json> => table<Json>({ label: "Sandboxes", key: (s) => s["id"], href: (s) => sandboxPath(s["id"]), sort: { column: "Age", isDown: false }, columns: all });
    let rows = tableOf(columns);

    function draw(): void {
      const all = [...known.values()];
      const some = all.filter((s) => matches(s, filter.value.trim(), state.value));
      rows.show(some);
      told.textContent = all.length === some.length ? `${all.length}` : `${some.length} of ${all.length}`;
      if (!all.length) replace(place, empty("No sandboxes yet", "A sandbox is a computer of its own for code that you do not trust. Those that have ended are shown for a while.", ["Press New sandbox, or run ", el("code", {}, "cloche create"), "."]));
      else if (!some.length) replace(place, empty("Nothing matches", "No sandbox has all of these words and this state.", ["Change the filter: press Esc, then ", el("kbd", {}, "/"), "."]));
      else if (!rows.node.isConnected) replace(place, el("section", { class: "card flush" }, rows.node));
    }

    /** A node of a cluster says so by `incomplete`, which is empty if all have answered. */
    function showNodes(parts: readonly Json[] | undefined): void {
      replace(note, incompleteNote(parts ?? []));
      if (isOfNodes === (parts !== undefined)) return;
      isOfNodes = parts !== undefined;
      rows.node.remove();
      rows = tableOf(isOfNodes ? [columns[0]!, nodeColumn, ...columns.slice(1)] : columns);
    }

    async function list(): Promise<void> {
      isListed = true;
      const fresh: Json[] = [];
      const parts = new Map<string, Json>();
      let hasParts = false;
      let cursor: string | undefined;
      do {
        const answer: Json = await ctx.cloche.call(request("GET", ["sandboxes"], { query: { limit: 100, cursor }, signal: ctx.signal }));
        fresh.push(...(answer["sandboxes"] as Json[]));
        hasParts ||= answer["incomplete"] !== undefined;
        for (const part of (answer["incomplete"] ?? []) as Json[]) parts.set(JSON.stringify([part["node"], part["why"]]), part);
        cursor = answer["next_cursor"] ?? undefined;
      } while (cursor && fresh.length < ROWS_MAX);
      known.clear();
      for (const s of fresh.slice(0, ROWS_MAX)) known.set(s["id"], s);
      listedMs = Date.now();
      showNodes(hasParts ? [...parts.values()] : undefined);
      draw();
    }

    /** What those that have ended cost, of this month. */
    async function askCosts(): Promise<void> {
      const rows = await ctx.cloche.usage({ groupBy: "sandbox" });
      for (const row of rows) endedCosts.set(row["sandbox_id"], row["cost"]);
      draw();
    }

    async function one(id: string): Promise<void> {
      try {
        known.set(id, await ctx.cloche.call(request("GET", ["sandboxes", id], { signal: ctx.signal })));
      } catch (error) {
        if ((error as { code?: string }).code !== "not_found") throw error;
        known.delete(id);
      }
    }

    function isChange(entry: Entry): boolean {
      if (!entry.sandbox_id || !entry.type.startsWith("sandbox.")) return false;
      changed.add(entry.sandbox_id);
      return true;
    }
    /** Those that have changed, or all. */
    async function catchUp(): Promise<void> {
      const ids = [...changed];
      changed.clear();
      try {
        if (!isListed || ids.length > ONE_BY_ONE_MAX) await list();
        else await Promise.all(ids.map(one));
        draw();
      } catch (error) {
        isListed = false;
        if (!ctx.signal.aborted && !known.size) replace(place, failure(error, again));
      }
    }

    const make = el("button", { class: "primary", on: { click: () => newSandbox(ctx) } }, "New sandbox");
    make.hidden = ctx.who.key.scope === "read";
    replace(root, pageHead(["Sandboxes ", told], filter, state, make), note, place);
    const offState = ctx.live.onState(() => (isListed = false));
    const again = ctx.live.keep(catchUp, isChange, ctx.signal);
    void askCosts().catch(() => undefined);
    watchFigures(
      ctx,
      (figures) => {
        currency = figures["currency"];
        if (known.size) draw();
        if (isOfNodes && Date.now() - listedMs > CLUSTER_GAP_MS) {
          isListed = false;
          again();
        }
      },
      () => undefined,
    );
    return () => {
      offState();
    };
  },
};
