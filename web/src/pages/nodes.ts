// SPDX-License-Identifier: Apache-2.0
/**
 * The nodes of the cluster: which are up, how full each is, what is wrong and the first thing to do. It is asked for again when
 * the daemon tells its figures, every few seconds.
 */
import type { Json, Page } from "../page.js";
import { bar, bytes, type Child, clock, count, el, empty, failure, loading, pageHead, percent, relativeTime, replace, span, table, tile } from "../ui/index.js";

const MIB = 1024 * 1024;
const GAP_MS = 2000;
const STALE_MS = 30_000;
const FULL = 0.9;

/** What a person reads, and how it looks. */
const STATES: Record<string, [string, string]> = {
  up: ["up", "good"],
  new: ["not started yet", "warn"],
  silent: ["silent", "bad"],
  fenced: ["silent", "bad"],
  lost: ["lost", "bad"],
  removed: ["removed", "bad"],
};

/** isOld: nobody knows whether it is still so. */
function stateCell(node: Json, isOld: boolean): Child {
  const [word, look] = STATES[node["state"]] ?? [node["state"], "warn"];
  const isPast = isOld && !node["this_node"];
  const own = node["this_node"] && node["state"] === "fenced" ? "cut off" : word;
  return [el("span", { class: `badge ${isPast ? "" : look}`, data: { state: node["state"] } }, isPast ? `was ${own}` : own), node["cordoned"] ? el("div", {}, el("span", { class: "badge warn", title: "It takes no new sandboxes; those that it has go on" }, "cordoned")) : null];
}

function share(used: number | null, most: number | null, words: string, what: string): Child {
  if (used === null || !most) return el("span", { class: "dim" }, used === null ? "not told" : words);
  const part = used / most;
  return el("div", { class: part >= FULL ? "share full" : "share", title: `${words}: ${percent(part)}` }, bar(part, `${what}: ${percent(part)}`), el("small", { class: "dim" }, words));
}

/** "1.6 of 23.5 GiB": the unit once, where it is the same. */
function ofBytes(used: number, most: number): string {
  const [a, b] = [bytes(used * MIB), bytes(most * MIB)];
  const [number, unit] = a.split(" ");
  return b.endsWith(` ${unit}`) ? `${number} of ${b}` : `${a} of ${b}`;
}

function memoryCell(used: number | null, most: number | null, what: string): Child {
  return share(used, most, used === null ? "" : most ? ofBytes(used, most) : bytes(used * MIB), what);
}

/** Short times in seconds: they are compared with each other. oldMs: how old all is that is told of other nodes. */
function heardCell(node: Json, oldMs: number): string {
  if (node["beat_age_ms"] === null) return "never";
  const ms = Number(node["beat_age_ms"]) + (node["this_node"] ? 0 : oldMs);
  return `${ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms)} ago`;
}

/** A hint has commands and settings between backticks. */
function hintOf(text: string): Child {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

/** PostgreSQL's own words do not say what they are about. */
function messageOf(problem: Json): string {
  return String(problem["code"]).startsWith("database_") ? `This node and the cluster's database: ${problem["message"]}` : problem["message"];
}

function sum(nodes: readonly Json[], name: string): number {
  return nodes.reduce((n, node) => n + Number(node["load"][name] ?? 0), 0);
}

/** What concerns the whole cluster or only this node, then the others' own: each once. */
function problemsOf(cluster: Json, nodes: readonly Json[]): Json[] {
  const all = [...(cluster["problems"] as Json[]), ...nodes.map((n) => n["problem"] as Json | null)].filter((p): p is Json => p !== null && p["code"] !== "starting");
  return all.filter((p, i) => all.findIndex((q) => q["message"] === p["message"]) === i);
}

function problemList(problems: readonly Json[]): Child {
  if (!problems.length) return null;
  return el("section", { class: "card notice", role: "alert" }, el("header", {}, el("h2", {}, "What is wrong")), el("ul", { class: "problems" }, problems.map((p) => el("li", { data: { code: p["code"] } }, el("strong", {}, messageOf(p)), p["hint"] ? el("div", {}, "Do this first: ", hintOf(p["hint"])) : null))));
}

function standing(cluster: Json): [string, Child] {
  if (cluster["state"] === "held") return ["answers", "if it stops, sandboxes go on, and new names and quotas wait"];
  if (cluster["state"] === "lost") return ["lost", "this node was cut off for too long, and has ended its sandboxes"];
  const more = cluster["lost_in_ms"] === null ? null : `; this node ends its sandboxes in ${span(cluster["lost_in_ms"])} if that stays so`;
  return [cluster["id"] === null ? "not joined" : "does not answer", ["sandboxes go on, new names and quotas wait", more]];
}

export const page: Page = {
  title: "Nodes",
  mount(root, ctx) {
    let isOld = false;
    let asOf: number | null = null;
    const told = el("span", { class: "dim", role: "status" });
    const above = el("div", {}, loading());
    const place = el("div");
    const rows = table<Json>({
      label: "Nodes",
      key: (n) => n["name"],
      sort: { column: "Node", isDown: false },
      columns: [
        { name: "Node", by: (n) => n["number"], cell: (n) => [el("div", { class: "nowrap" }, el("strong", {}, n["name"]), n["this_node"] ? [" ", el("span", { class: "badge", title: "The one that this page comes from" }, "this one")] : null), el("div", {}, el("small", { class: "dim mono" }, n["address"]))] },
        { name: "State", by: (n) => n["state"], cell: (n) => stateCell(n, isOld) },
        { name: "Sandboxes", by: (n) => n["load"]["sandboxes"] ?? -1, cell: (n) => share(n["load"]["sandboxes"], n["load"]["sandboxes_max"], `${n["load"]["sandboxes"]} of ${n["load"]["sandboxes_max"]}`, "sandboxes") },
        { name: "CPU", by: (n) => n["load"]["cpu_milli"] ?? -1, cell: (n) => share(n["load"]["cpu_milli"], n["load"]["cpus"] * 1000, `${(n["load"]["cpu_milli"] / 1000).toFixed(1)} of ${n["load"]["cpus"]}`, "CPU in use") },
        { name: "Memory", by: (n) => n["load"]["memory_mib"] ?? -1, cell: (n) => memoryCell(n["load"]["memory_mib"], n["load"]["memory_max_mib"], "memory in use") },
        { name: "Disk", by: (n) => n["load"]["disk_mib"] ?? -1, cell: (n) => memoryCell(n["load"]["disk_mib"], n["load"]["disk_max_mib"], "disk that sandboxes use") },
        { name: "Spares", by: (n) => n["load"]["spares"] ?? -1, cell: (n) => n["load"]["spares"] ?? "", isFigure: true },
        { name: "Last heard", by: (n) => n["beat_age_ms"] ?? Infinity, cell: (n) => heardCell(n, isOld && asOf !== null ? Date.now() - asOf / 1000 : 0), isFigure: true },
        { name: "Version", by: (n) => n["version"] ?? "", cell: (n) => n["version"] ?? "", isExtra: true },
      ],
    });

    function draw(answer: Json): void {
      const cluster = answer["cluster"] as Json | null;
      const nodes = answer["nodes"] as Json[];
      if (!cluster) {
        told.textContent = "";
        replace(above);
        replace(place, empty("This machine is in no cluster", "A cluster is several machines that work as one: any of them answers for all sandboxes.", ["Read ", el("a", { href: "/docs/guides/cluster" }, "how to make one"), "."]));
        return;
      }
      asOf = answer["as_of_us"];
      isOld = asOf === null || Date.now() - asOf / 1000 > STALE_MS;
      const up = nodes.filter((n) => n["state"] === "up").length;
      const [word, more] = standing(cluster);
      told.textContent = !nodes.length ? "" : isOld ? (asOf === null ? "" : `as of ${clock(asOf)}`) : `${up} of ${nodes.length} are up`;
      replace(
        above,
        problemList(problemsOf(cluster, nodes)),
        isOld && asOf !== null ? el("p", { class: "dim notice", data: { old: "" } }, `What follows about other nodes is from ${clock(asOf)} (`, relativeTime(asOf), "): this node has heard nothing since.") : null,
        el(
          "div",
          { class: "cards" },
          tile("The cluster's database", word, more),
          tile("Sandboxes", count(sum(nodes, "sandboxes")), sum(nodes, "sandboxes_max") ? `of ${count(sum(nodes, "sandboxes_max"))} that fit` : null),
          tile("Spares", count(sum(nodes, "spares")), "ready before they are asked for"),
          isOld ? null : tile("Take new sandboxes", `${nodes.filter((n) => n["state"] === "up" && !n["cordoned"]).length} of ${nodes.length}`, "nodes that are up and not cordoned"),
        ),
      );
      rows.show(nodes);
      if (nodes.length && !rows.node.isConnected) replace(place, el("section", { class: "card flush" }, rows.node));
      else if (!nodes.length) replace(place, empty("This machine has not joined", "Its settings name a cluster's database, and no node of it has let this machine in.", ["Run ", el("code", {}, "cloche cluster init"), " here, or ", el("code", {}, "cloche cluster invite"), " on a node of the cluster and ", el("code", {}, "cloche node join"), " here."]));
    }

    async function show(): Promise<void> {
      try {
        const answer = await ctx.cloche.nodes();
        if (!ctx.signal.aborted) draw(answer);
      } catch (error) {
        if (ctx.signal.aborted) return;
        replace(place);
        replace(above, failure(error, again));
      }
    }

    replace(root, pageHead(["Nodes ", told]), above, place);
    if (!ctx.who.isHostAdmin) {
      replace(above, empty("Only admins of the project default can see the nodes", "They show which machines the cluster has, and how full each is.", "Ask an admin, or log in with an admin's key."));
      return () => undefined;
    }
    const again = ctx.live.keep(show, () => false, ctx.signal, GAP_MS);
    ctx.live.onFigures(again, ctx.signal);
    return () => undefined;
  },
};
