// SPDX-License-Identifier: Apache-2.0
/**
 * What the sandbox may reach, and what the wall decided when it tried. A host that no rule matched can be allowed from here:
 * the daemon adds it behind all rules, so nothing that a rule denies is let through by that.
 */
import type { NetworkPolicy } from "../../../../sdk/typescript/src/index.js";
import type { Entry } from "../../live.js";
import type { Json } from "../../page.js";
import { bytes, clock, confirm, count, el, empty, failure, headRow, loading, replace, span, toast } from "../../ui/index.js";
import type { Box } from "./box.js";
import { action, type Panel, visible } from "./panel.js";

const GROUPS_MAX = 300;

interface Group {
  key: string;
  last: Json;
  atUs: number;
  times: number;
  inBytes: number;
  outBytes: number;
}

/** Decisions that say the same are one row. */
function groupsOf(entries: readonly Entry[]): Group[] {
  const groups = new Map<string, Group>();
  for (const entry of entries) {
    if (entry.type !== "policy.decided") continue;
    const d = entry["data"] as Json;
    const key = JSON.stringify([d["verdict"], d["kind"], d["name"], d["name"] ? null : d["address"], d["port"], d["reason"], d["rule"]]);
    const was = groups.get(key);
    const times = 1 + Number(d["left_out"] ?? 0);
    groups.delete(key); // the newest stand last
    groups.set(key, { key, last: d, atUs: entry.at_us, times: (was?.times ?? 0) + times, inBytes: (was?.inBytes ?? 0) + d["in_bytes"], outBytes: (was?.outBytes ?? 0) + d["out_bytes"] });
  }
  return [...groups.values()].reverse().slice(0, GROUPS_MAX);
}

/** A rule in a line: what it is about, and what happens then. */
function ruleOf(rule: Json, i: number): HTMLElement {
  const match = Object.entries((rule["match"] ?? {}) as Json).map(([name, value]) => [el("span", { class: "dim" }, ` ${name} `), el("code", {}, visible(Array.isArray(value) ? value.map((v) => (typeof v === "string" || typeof v === "number" ? v : JSON.stringify(v))).join(", ") : String(value)))]);
  const action: unknown = rule["action"];
  const verb = typeof action === "string" ? action : Object.keys(action as Json)[0]!;
  return el("li", {}, el("span", { class: "dim" }, i), el("span", { class: `badge ${verb === "deny" ? "bad" : "good"}` }, verb), el("span", {}, match.length ? match : "everything public"));
}

const LOOKS: Record<string, string> = { allowed: "good", denied: "bad", failed: "warn" };

function whereOf(d: Json): string {
  const host = String(d["name"] ?? d["address"] ?? "?");
  return d["kind"] === "dns" ? host : `${host}:${d["port"]}`;
}

function mountNetwork(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const policy = el("section", { class: "card" });
  const decisions = el("section", { class: "card" });
  root.append(el("div", { class: "stack" }, policy, decisions));
  let current: Json | undefined;

  async function askPolicy(): Promise<void> {
    try {
      current = await box.sandbox.network();
      if (!signal.aborted) drawPolicy();
    } catch (error) {
      if (!signal.aborted && !current) replace(policy, failure(error, loadPolicy));
    }
  }

  function drawPolicy(): void {
    const { kind, policy: rules, in_force: isInForce } = current as { kind: string; policy: unknown; in_force: boolean };
    const words: Record<string, string> = {
      "deny-all": "It reaches nothing: there is no route out of it.",
      "allow-all": "It reaches the public internet; private addresses and the host stay closed.",
      rules: "The first rule that matches decides; if none matches, the connection is denied.",
    };
    const text = el("textarea", { class: "code-input", rows: "8", spellcheck: "false", "aria-label": "Policy as JSON", hidden: true });
    text.value = JSON.stringify(rules, null, 2);
    const shown = el("ol", { class: "policy" }, kind === "rules" && ((rules as Json)["rules"] as Json[]).map(ruleOf));
    shown.hidden = kind !== "rules";
    const save = action("Put in force", () => change(JSON.parse(text.value)), { class: "primary", hidden: true });
    const edit = action("Edit", () => {
      text.hidden = save.hidden = !text.hidden;
      shown.hidden = !text.hidden || kind !== "rules";
      text.focus();
    });
    const host = el("input", { placeholder: "api.example.com", "aria-label": "Host", autocomplete: "off", spellcheck: "false", required: true });
    const port = el("input", { type: "number", min: "1", max: "65535", placeholder: "any port", "aria-label": "Port", class: "port-input" });
    const more = el("form", { class: "code-bar", on: { submit: (event) => (event.preventDefault(), void allow(host.value.trim(), Number(port.value) || undefined)) } }, host, port, el("button", { type: "submit" }, "Allow this host"));
    const presets = (["deny-all", "allow-all"] as const).filter((p) => p !== kind).map((p) => action(p === "deny-all" ? "Deny all" : "Allow all", () => ask(p)));
    replace(
      policy,
      el("header", {}, el("h2", {}, "Policy"), el("span", { class: `badge ${kind === "deny-all" ? "good" : kind === "allow-all" ? "warn" : ""}`, data: { field: "policy" } }, kind), !isInForce && el("span", { class: "badge warn" }, "not in force yet")),
      el("p", { class: "dim" }, words[kind]),
      shown,
      text,
      box.mayWrite && [kind !== "allow-all" && more, el("div", { class: "code-bar" }, presets, edit, save)],
    );
  }

  function ask(preset: "deny-all" | "allow-all"): void {
    const what = preset === "allow-all" ? "It can then reach everything public, to send and to fetch." : "Open connections are cut at once.";
    confirm(`Set ${preset}?`, [what, current?.["kind"] === "rules" ? " The rules that it has now are removed." : ""], "Set it", () => change(preset));
  }

  async function change(next: NetworkPolicy): Promise<void> {
    current = await box.sandbox.setNetwork(next);
    drawPolicy();
    toast("The policy is in force");
  }

  async function allow(host: string, port: number | undefined): Promise<void> {
    try {
      current = await box.sandbox.allowNetwork(host, { port });
      drawPolicy();
      drawDecisions();
      toast(`${visible(host)} is allowed`);
    } catch (error) {
      toast((error as Error).message, "bad");
    }
  }

  /** An address that is closed to all is opened only by who has read that it is. */
  async function allowDecided(d: Json): Promise<void> {
    const port = d["kind"] === "dns" ? undefined : (d["port"] as number);
    if (d["name"]) return allow(d["name"], port);
    const address = String(d["address"]);
    const told = await box.sandbox.explainNetwork(`tcp://${address.includes(":") ? `[${address}]` : address}:${port}`);
    if (!told["closed"]) return allow(address, port);
    confirm("Open a closed address?", `${visible(address)} is ${told["closed"]}: it may be your own network or this host.`, "Allow it", () => allow(address, port));
  }

  function drawDecisions(): void {
    const groups = groupsOf(box.entries);
    const title = el("header", {}, el("h2", {}, "Decisions"), el("span", { class: "dim" }, groups.length ? groups.length === 1 ? "1 kind" : `${count(groups.length)} kinds` : ""));
    if (!groups.length) {
      const isClosed = box.info.raw["network"] === "deny-all";
      const first = isClosed ? "With deny-all there is no route, so nothing is decided. Allow a host first." : "Let it connect to something.";
      replace(decisions, title, empty("No decisions yet", "What it connects to, and what is denied, is shown here.", first));
      return;
    }
    const head = headRow(["Verdict", "Host", "Why", "Times", "Bytes", "Last", ""], (n) => (["Times", "Bytes", "Last"].includes(n) ? "figure" : undefined));
    replace(decisions, title, el("div", { class: "table-wrap" }, el("table", { "aria-label": "Decisions" }, el("thead", {}, head), el("tbody", {}, groups.map(rowOf)))));
  }

  function rowOf(group: Group): HTMLElement {
    const d = group.last;
    const isOurs = d["verdict"] === "denied" && d["rule"] === null && box.mayWrite;
    const rule = d["rule"] === null ? "" : `rule ${d["rule"]}`;
    return el(
      "tr",
      { data: { verdict: d["verdict"] } },
      el("td", { data: { label: "Verdict" } }, el("span", { class: `badge ${LOOKS[d["verdict"]] ?? ""}` }, d["verdict"])),
      el("td", { data: { label: "Host" } }, el("code", {}, visible(whereOf(d))), d["kind"] === "dns" && el("span", { class: "badge" }, "name asked for"), d["protocol"] && el("span", { class: "badge" }, d["protocol"])),
      el("td", { data: { label: "Why" } }, [d["reason"] && visible(String(d["reason"])), rule].filter(Boolean).join(", "), d["recorded"] && " (recorded)"),
      el("td", { class: "figure", data: { label: "Times" } }, count(group.times)),
      el("td", { class: "figure", data: { label: "Bytes" } }, group.inBytes + group.outBytes ? `↓ ${bytes(group.inBytes)} ↑ ${bytes(group.outBytes)}` : "–"),
      el("td", { class: "figure", data: { label: "Last" } }, clock(group.atUs), d["took_us"] > 0 && el("span", { class: "dim" }, ` ${span(d["took_us"] / 1000)}`)),
      el("td", { data: { label: "" } }, isOurs && action("Allow this", () => allowDecided(d), { class: "small", "aria-label": `Allow ${visible(whereOf(d))}` })),
    );
  }

  async function showDecisions(): Promise<void> {
    try {
      await box.history();
      if (!signal.aborted) drawDecisions();
    } catch (error) {
      if (!signal.aborted) replace(decisions, failure(error, again));
    }
  }
  replace(policy, loading());
  replace(decisions, loading());
  const loadPolicy = box.keep(askPolicy, (entry) => entry.type.startsWith("sandbox."), signal);
  const again = box.keep(showDecisions, (entry) => entry.type.startsWith("policy."), signal);
}

export const networkPanel: Panel = { id: "network", title: "Network", mount: mountNetwork };
