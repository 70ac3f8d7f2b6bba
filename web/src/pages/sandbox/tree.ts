// SPDX-License-Identifier: Apache-2.0
/**
 * Where it comes from and what came from it, drawn: sandboxes and snapshots as one tree, from the left to the right. Below it
 * the snapshots, and what can be done with each.
 */
import type { Json } from "../../page.js";
import { bytes, confirm, el, empty, failure, headRow, loading, relativeTime, replace, sandboxPath, shortId, svg, toast } from "../../ui/index.js";
import { Sandbox } from "../../../../sdk/typescript/src/index.js";
import type { Box } from "./box.js";
import { forkDialog, snapshotDialog } from "./header.js";
import { action, type Panel, visible } from "./panel.js";

const WIDE = 176;
const HIGH = 46;
const GAP_X = 44;
const GAP_Y = 14;
const NODES_MAX = 400;

interface Place {
  node: Json;
  x: number;
  y: number;
}

/** Each node right of its parent; leaves stand below each other, a parent in the middle of its children. */
export function layout(nodes: readonly Json[]): Place[] {
  const children = new Map<string | null, Json[]>();
  const ids = new Set(nodes.map((n) => n["id"] as string));
  for (const node of nodes) {
    const parent = ids.has(node["parent_id"]) ? (node["parent_id"] as string) : null;
    children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const places: Place[] = [];
  let row = 0;
  function put(node: Json, depth: number): number {
    const below = children.get(node["id"]) ?? [];
    const rows = below.map((child) => put(child, depth + 1));
    const y = rows.length ? (rows[0]! + rows[rows.length - 1]!) / 2 : row++;
    places.push({ node, x: depth * (WIDE + GAP_X), y: y * (HIGH + GAP_Y) });
    return y;
  }
  for (const root of children.get(null) ?? []) put(root, 0);
  return places;
}

function nodeOf(place: Place, box: Box): SVGElement {
  const { node, x, y } = place;
  const [kind, id, state] = [node["kind"] as string, node["id"] as string, node["state"] as string];
  const isHere = id === box.id;
  const leads = kind === "sandbox" && state !== "gone" && !isHere;
  const name = visible(node["name"] ?? shortId(id));
  const group = svg(
    "g",
    { class: `tree-node is-${kind} state-${state}${isHere ? " is-here" : ""}`, transform: `translate(${x + 2} ${y + 2})`, role: leads ? "link" : "img", tabindex: leads ? "0" : undefined, "aria-label": `${kind} ${name}, ${state}${isHere ? ", this one" : ""}`, data: { id } },
    svg("rect", { width: WIDE, height: HIGH, rx: kind === "sandbox" ? 9 : 23 }),
    svg("text", { x: kind === "sandbox" ? 14 : 22, y: 20, class: "tree-name" }, name.length > 19 ? `${name.slice(0, 18)}…` : name),
    svg("text", { x: kind === "sandbox" ? 14 : 22, y: 36, class: "tree-more" }, isHere ? `${state} · this one` : kind === "sandbox" ? state : `snapshot · ${state}`),
  );
  if (leads) {
    const open = (): void => box.ctx.go(sandboxPath(id));
    group.addEventListener("click", open);
    group.addEventListener("keydown", (event) => {
      if ((event as KeyboardEvent).key === "Enter") open();
    });
  }
  return group;
}

function drawing(nodes: readonly Json[], box: Box): Element {
  const places = layout(nodes.slice(0, NODES_MAX));
  const at = new Map(places.map((p) => [p.node["id"] as string, p]));
  const width = Math.max(...places.map((p) => p.x)) + WIDE + 4;
  const height = Math.max(...places.map((p) => p.y)) + HIGH + 4;
  const lines = places.flatMap((p) => {
    const parent = at.get(p.node["parent_id"]);
    if (!parent) return [];
    const [x1, y1, x2, y2] = [parent.x + WIDE + 2, parent.y + HIGH / 2 + 2, p.x + 2, p.y + HIGH / 2 + 2];
    return [svg("path", { class: "tree-line", d: `M${x1} ${y1}C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}` })];
  });
  return el("div", { class: "tree", tabindex: "0", role: "group", "aria-label": "Where it comes from, and what came from it" }, svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, lines, places.map((p) => nodeOf(p, box))));
}

function mountTree(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const tree = el("section", { class: "card" });
  const list = el("section", { class: "card" });
  root.append(el("div", { class: "stack" }, tree, list));
  let isShown = false;

  async function ask(): Promise<void> {
    try {
      const [lineage, snapshots] = await Promise.all([box.sandbox.tree(), allOf(box.sandbox.snapshots())]);
      if (signal.aborted) return;
      isShown = true;
      drawTree(lineage["nodes"] as Json[]);
      drawList(snapshots);
    } catch (error) {
      if (!signal.aborted && !isShown) {
        replace(tree, failure(error, load));
        replace(list);
      }
    }
  }

  function drawTree(nodes: Json[]): void {
    const buttons = box.mayWrite && ["running", "paused"].includes(box.info.state) && [action("Fork", () => forkDialog(box)), action("Take a snapshot", () => snapshotDialog(box), { class: "primary" })];
    const body = nodes.length ? drawing(nodes, box) : empty("It stands alone", "Forks of it, and sandboxes started from its snapshots, are drawn here.", "Press Fork above to make one.");
    replace(tree, el("header", {}, el("h2", {}, "Tree"), buttons), body, nodes.length > NODES_MAX && el("p", { class: "dim" }, `The first ${NODES_MAX} of ${nodes.length} are drawn.`));
  }

  function drawList(snapshots: Json[]): void {
    const head = headRow(["Snapshot", "Holds", "Size", "Taken", ""], (n) => (n === "Size" || n === "Taken" ? "figure" : undefined));
    const body = snapshots.length ? el("div", { class: "table-wrap" }, el("table", { "aria-label": "Snapshots" }, el("thead", {}, head), el("tbody", {}, snapshots.map(rowOf)))) : empty("No snapshots", "A snapshot saves the sandbox at one moment: go back to it, or start others from it.", "Press Snapshot above to take one.");
    replace(list, el("header", {}, el("h2", {}, "Snapshots of this sandbox")), body);
  }

  function rowOf(s: Json): HTMLElement {
    const name = visible(s["name"] ?? shortId(s["id"]));
    return el(
      "tr",
      { data: { key: s["id"] } },
      el("td", { data: { label: "Snapshot" } }, el("span", { title: s["id"] }, name), s["automatic"] && el("span", { class: "badge", title: "Made by a fork; it is removed with the last copy" }, "of a fork"), s["state"] === "damaged" && el("span", { class: "badge bad" }, "damaged")),
      el("td", { data: { label: "Holds" } }, s["memory"] ? "files and programs" : "files"),
      el("td", { class: "figure", data: { label: "Size" } }, bytes(s["bytes"] + s["memory_bytes"])),
      el("td", { class: "figure", data: { label: "Taken" } }, relativeTime(s["created_us"])),
      el(
        "td",
        { class: "file-acts", data: { label: "" } },
        box.mayWrite && [
          action("New sandbox", () => startFrom(s), { class: "small" }),
          box.isRunning && action("Roll back", () => rollBack(s, name), { class: "small" }),
          action("Delete", () => remove(s, name), { class: "small danger", "aria-label": `Delete snapshot ${name}` }),
        ],
      ),
    );
  }

  async function startFrom(s: Json): Promise<void> {
    const made = await Sandbox.create({ client: box.ctx.cloche, snapshot: s["id"] });
    toast("This is the new sandbox");
    box.ctx.go(sandboxPath(made.id));
  }
  function rollBack(s: Json, name: string): void {
    confirm("Roll back?", `Files become those of ${name}, and all programs end. What was done since is lost.`, "Roll back", async () => {
      await box.sandbox.rollback(s["id"]);
      box.tellInfo();
      load();
    });
  }
  function remove(s: Json, name: string): void {
    confirm(`Delete the snapshot ${name}?`, "What was started from it goes on.", "Delete", async () => {
      await box.ctx.cloche.deleteSnapshot(s["id"]);
      load();
    });
  }

  replace(tree, loading());
  replace(list, loading());
  // What came from it has ids of its own: any sandbox may be one of them.
  const load = box.ctx.live.keep(ask, (entry) => (entry.sandbox_id === box.id ? /^(snapshot|sandbox)\./ : /^(snapshot\.|sandbox\.(running|ended|stopped))/).test(entry.type), signal);
}

async function allOf(items: AsyncIterable<Json>): Promise<Json[]> {
  const all: Json[] = [];
  for await (const item of items) all.push(item);
  return all;
}

export const treePanel: Panel = { id: "snapshots", title: "Snapshots", mount: mountTree };
