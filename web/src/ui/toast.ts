// SPDX-License-Identifier: Apache-2.0
/** A word about something that was done or failed, which goes by itself. */
import { el } from "./el.js";
import { words } from "./states.js";

const SHOWN_MS = 6000;

function place(): HTMLElement {
  const there = document.getElementById("toasts");
  if (there) return there;
  const made = el("div", { id: "toasts", role: "status", "aria-live": "polite" });
  document.body.appendChild(made);
  return made;
}

export function toast(text: string, kind: "good" | "bad" = "good"): void {
  const node = el("div", { class: `toast ${kind}` }, text);
  place().appendChild(node);
  node.addEventListener("click", () => node.remove());
  setTimeout(() => node.remove(), SHOWN_MS);
}

export function toastError(error: unknown): void {
  if ((error as Error).name !== "AbortError") toast(words(error), "bad");
}
