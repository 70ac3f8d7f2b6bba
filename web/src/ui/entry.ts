// SPDX-License-Identifier: Apache-2.0
/** An entry of the event log, as a line of text. */
import type { Entry } from "../live.js";
import { el } from "./el.js";
import { shortId } from "./format.js";
import { sandboxPath } from "./sandbox.js";

const LOOKS: readonly [RegExp, string][] = [
  [/refused|failed/, "bad"],
  [/ended|exited|stopp|removed|revoked/, ""],
  [/./, "good"],
];

export function typeBadge(type: string): HTMLElement {
  const look = LOOKS.find(([words]) => words.test(type))?.[1] ?? "";
  return el("span", { class: `badge ${look}` }, type);
}

/** The facts of an entry: name and value, in the order in which they were told. */
export function factsOf(entry: Entry): string {
  return Object.entries((entry["data"] ?? {}) as Record<string, unknown>)
    .map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" · ");
}

export function sandboxLink(id: string | null | undefined): HTMLElement | string {
  return id ? el("a", { href: sandboxPath(id), class: "mono nowrap", title: id }, shortId(id)) : "";
}
