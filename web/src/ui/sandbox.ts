// SPDX-License-Identifier: Apache-2.0
/** Words about sandboxes that several pages show alike. */
import type { Json } from "../page.js";
import { el } from "./el.js";

const LOOKS: Record<string, string> = { running: "good", creating: "warn", pausing: "warn", paused: "warn", stopping: "warn", failed: "bad" };

export function stateBadge(state: string, words = state): HTMLElement {
  return el("span", { class: `badge ${LOOKS[state] ?? ""}`, data: { state } }, words);
}

export function sandboxName(s: Json): string {
  return s["name"] ?? s["id"];
}

export function sandboxPath(id: string): string {
  return `/sandboxes/${encodeURIComponent(id)}`;
}

/** Why it ended, in a word; what was said about it is the title. */
export function causeOf(s: Json): HTMLElement | string {
  const ended = s["ended"] as Json | null;
  return ended ? el("span", { title: ended["message"] ?? "" }, ended["cause"]) : "";
}
