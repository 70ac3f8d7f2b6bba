// SPDX-License-Identifier: Apache-2.0
/** What a page shows while it has nothing to show: nothing yet, nothing at all, or a failure with what to do about it. */
import { ClocheError } from "../../../sdk/typescript/src/index.js";
import { type Child, el } from "./el.js";

export function loading(what = "Loading"): HTMLElement {
  return el("div", { class: "state", role: "status", "aria-busy": "true" }, el("span", { class: "spinner", "aria-hidden": "true" }), `${what}…`);
}

/** The same shape everywhere: that there is nothing, what would be here, and what to do first. */
export function empty(title: string, what: Child, first: Child): HTMLElement {
  return el("div", { class: "state empty" }, el("strong", {}, title), el("p", {}, what), el("p", { class: "first" }, first));
}

export function failure(error: unknown, again?: () => void): HTMLElement {
  const e = error as Partial<ClocheError> & Error;
  return el(
    "div",
    { class: "state failure", role: "alert" },
    el("strong", {}, sentence(e) || "Something went wrong"),
    el("div", { class: "dim" }, e.hint, e.code && ` (${e.code})`),
    again && el("button", { on: { click: again } }, "Try again"),
  );
}

/** What went wrong alone: an error's message has its hint behind it. */
export function sentence(e: Partial<ClocheError> & Error): string {
  return e.hint ? e.message.replace(` (${e.hint})`, "") : e.message;
}

/** A failure in a few words. */
export function words(error: unknown): string {
  const e = error as Partial<ClocheError> & Error;
  return [sentence(e), e.hint].filter(Boolean).join(": ");
}

/** The same for where the field stands beside it: "limits.memory_mib: must be …" is "Must be …". */
export function plainWords(error: unknown): string {
  const text = words(error).replace(/^[a-z_]+([.[][\w\].[]*)?: /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
