// SPDX-License-Identifier: Apache-2.0
/** What happened to it, from the event log, the newest first and as it comes. */
import type { Entry } from "../../live.js";
import type { Json } from "../../page.js";
import { bytes, clock, count, el, empty, failure, loading, moment, replace, shortId, span } from "../../ui/index.js";
import type { Box } from "./box.js";
import { type Panel, visible } from "./panel.js";

const SHOWN_MAX = 400;
const CHANGES: Record<string, string> = { ports: "Its open ports were changed", network: "Its network policy was changed" };
const GROUPS = ["sandbox", "exec", "context", "policy", "snapshot"];

/** One sentence of what it says. */
function sentence(type: string, d: Json): string {
  const of = (name: string): string => visible(String(d[name] ?? ""));
  switch (type) {
    case "sandbox.created":
      return `Asked for${d["name"] ? ` as ${of("name")}` : ""}`;
    case "sandbox.running":
      return `Ran ${span(d["after_us"] / 1000)} after it was asked for`;
    case "sandbox.paused":
      return `Paused to ${of("to")}${d["cause"] ? `, by ${of("cause")}` : ""}`;
    case "sandbox.resumed":
      return "Went on";
    case "sandbox.adopted":
      return "Found again after the daemon restarted";
    case "sandbox.changed":
      return CHANGES[of("what")] ?? "Its settings were changed";
    case "sandbox.rolled_back":
      return `Rolled back to ${shortId(of("snapshot_id"))}`;
    case "sandbox.restored":
      return `Restored on this node: what was written in ${span(Number(d["lost_ms"] ?? 0))} is lost`;
    case "sandbox.fenced":
      return "Stands still: another node may run it";
    case "sandbox.unfenced":
      return "Goes on";
    case "sandbox.stopping":
    case "sandbox.stopped":
    case "sandbox.ended":
      return `${of("cause")}: ${of("message")}`;
    case "exec.started":
      return `${of("program")} as ${of("user")}${d["pty"] ? ", in a terminal" : ""}`;
    case "exec.exited":
      return d["error"] ? `${of("error")}: ${of("message")}` : `${of("cause")}${"exit_code" in d ? ` ${of("exit_code")}` : ""}${"signal" in d ? `, signal ${of("signal")}` : ""}${"wall_us" in d ? ` after ${span(d["wall_us"] / 1000)}` : ""}`;
    case "snapshot.created":
      return `${visible(String(d["name"] ?? shortId(of("snapshot_id"))))}, ${bytes(Number(d["bytes"] ?? 0))}${d["memory"] ? " with memory" : ""}`;
    case "snapshot.removed":
      return visible(String(d["name"] ?? shortId(of("snapshot_id"))));
    case "context.created":
      return `${of("name")} (${of("language")})`;
    case "context.ended":
      return `${of("name")} after ${count(Number(d["calls"] ?? 0))} calls`;
    case "policy.decided":
    case "policy.learnt":
      return `${of("verdict")} ${visible(String(d["name"] ?? d["address"] ?? ""))}${d["port"] ? `:${of("port")}` : ""}${d["reason"] ? `, ${of("reason")}` : ""}`;
    default:
      return visible(JSON.stringify(d)).slice(0, 300);
  }
}

const LOOKS: [RegExp, string][] = [
  [/^sandbox\.(running|resumed|adopted)/, "good"],
  [/^sandbox\.(ended|stopping|stopped)/, "bad"],
  [/^sandbox/, "warn"],
];

function lookOf(entry: Entry): string {
  const d = entry["data"] as Json;
  if (entry.type === "exec.exited") return d["exit_code"] === 0 ? "good" : "bad";
  if (entry.type.startsWith("policy.")) return d["verdict"] === "denied" ? "bad" : "";
  return LOOKS.find(([kind]) => kind.test(entry.type))?.[1] ?? "";
}

/** One to a line. */
function factsOf(d: Json): string {
  return Object.entries(d)
    .map(([name, value]) => `${visible(name)}: ${visible(JSON.stringify(value))}`)
    .join("\n")
    .slice(0, 4000);
}

/** Those that say the same one after the other are one row. */
interface Row {
  entry: Entry;
  text: string;
  times: number;
}

function rowsOf(entries: readonly Entry[]): Row[] {
  const rows: Row[] = [];
  for (const entry of entries) {
    const text = sentence(entry.type, (entry["data"] ?? {}) as Json);
    const last = rows[rows.length - 1];
    if (entry.type.startsWith("policy.") && last?.entry.type === entry.type && last.text === text) last.times++;
    else rows.push({ entry, text, times: 1 });
  }
  return rows;
}

function itemOf({ entry, text, times }: Row): HTMLElement {
  const who = [entry["key_id"] && `key ${entry["key_id"]}`, entry["request_id"] && `request ${entry["request_id"]}`].filter(Boolean).join(", ");
  return el(
    "li",
    { class: lookOf(entry), data: { seq: `${entry.seq}.${times}`, type: entry.type } },
    el("time", { title: moment(entry.at_us) }, clock(entry.at_us)),
    el(
      "details",
      {},
      el("summary", {}, el("strong", {}, entry.type), el("span", {}, text), times > 1 && el("span", { class: "badge" }, `${times} times`)),
      el("pre", {}, factsOf((entry["data"] ?? {}) as Json)),
      who && el("small", { class: "dim" }, who),
    ),
  );
}

function mountEvents(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const shown = new Set(GROUPS);
  const list = el("ol", { class: "timeline", "aria-label": "Events" });
  const place = el("div", {}, loading());
  const filters = el("div", { class: "segmented", role: "group", "aria-label": "Kinds" });
  for (const group of GROUPS) {
    const button = el("button", { type: "button", "aria-pressed": "true" }, group);
    button.addEventListener("click", () => {
      if (!shown.delete(group)) shown.add(group);
      button.setAttribute("aria-pressed", String(shown.has(group)));
      draw();
    });
    filters.appendChild(button);
  }
  root.append(el("section", { class: "card" }, el("header", {}, el("h2", {}, "Timeline"), filters), place));

  function draw(): void {
    const entries = box.entries.filter((e) => shown.has(e.type.split(".")[0]!)).slice(-SHOWN_MAX).reverse();
    if (!entries.length) return replace(place, empty("No events", "What happens to this sandbox is listed here; old entries are removed from the log.", "Run something in it, and come back."));
    const kept = new Map([...list.children].map((node) => [(node as HTMLElement).dataset["seq"], node]));
    list.replaceChildren(...rowsOf(entries).map((row) => kept.get(`${row.entry.seq}.${row.times}`) ?? itemOf(row)));
    if (place.firstChild !== list) replace(place, list);
  }
  async function show(): Promise<void> {
    try {
      await box.history();
      if (!signal.aborted) draw();
    } catch (error) {
      if (!signal.aborted) replace(place, failure(error, again));
    }
  }
  const again = box.keep(show, () => true, signal);
}

export const eventsPanel: Panel = { id: "events", title: "Events", mount: mountEvents };
