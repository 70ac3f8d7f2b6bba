// SPDX-License-Identifier: Apache-2.0
/** An entry of the event log, as a line of text. */
import type { Entry } from "../live.js";
import { el } from "./el.js";
import { moment, shortId, span } from "./format.js";
import { sandboxPath } from "./sandbox.js";

/** Above it a number of microseconds is a moment, below a length of time. */
const WALL_US = 1e15;

const LOOKS: readonly [RegExp, string][] = [
  [/refused|failed/, "bad"],
  [/ended|exited|stopp|removed|revoked/, ""],
  [/./, "good"],
];

export function typeBadge(type: string): HTMLElement {
  const look = LOOKS.find(([words]) => words.test(type))?.[1] ?? "";
  return el("span", { class: `badge ${look}` }, type);
}

function factOf(name: string, value: unknown): string[] {
  if (value === null) return [];
  if (Array.isArray(value)) return value.length ? [`${name} ${value.map((v) => (typeof v === "object" ? JSON.stringify(v) : String(v))).join(", ")}`] : [];
  if (typeof value === "object") return Object.entries(value as object).flatMap(([inner, v]) => factOf(`${name}.${inner}`, v));
  if (typeof value === "number" && name.endsWith("_us")) return [`${name.slice(0, -3)} ${value > WALL_US ? moment(value) : span(value / 1000)}`];
  return [`${name} ${value}`];
}

/** The facts of an entry: name and value, in the order in which they were told. */
export function factsOf(entry: Entry): string {
  return Object.entries((entry["data"] ?? {}) as object)
    .flatMap(([name, value]) => factOf(name, value))
    .join(" · ");
}

export function sandboxLink(id: string | null | undefined): HTMLElement | string {
  return id ? el("a", { href: sandboxPath(id), class: "mono nowrap", title: id }, shortId(id)) : "";
}
