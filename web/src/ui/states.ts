// SPDX-License-Identifier: Apache-2.0
/** What a page shows while it has nothing to show: nothing yet, nothing at all, or a failure with what to do about it. */
import { ClocheError } from "../../../sdk/typescript/src/index.js";
import { type Child, el } from "./el.js";

export function loading(what = "Loading"): HTMLElement {
  return el("div", { class: "state", role: "status", "aria-busy": "true" }, el("span", { class: "spinner", "aria-hidden": "true" }), `${what}…`);
}

export function empty(title: string, ...more: Child[]): HTMLElement {
  return el("div", { class: "state empty" }, el("strong", {}, title), el("div", {}, ...more));
}

export function failure(error: unknown, again?: () => void): HTMLElement {
  const e = error as Partial<ClocheError> & Error;
  return el(
    "div",
    { class: "state failure", role: "alert" },
    el("strong", {}, e.message || "Something went wrong"),
    el("div", { class: "dim" }, e.hint, e.code && ` (${e.code})`),
    again && el("button", { on: { click: again } }, "Try again"),
  );
}

/** A failure in a few words. */
export function words(error: unknown): string {
  const e = error as Partial<ClocheError> & Error;
  return [e.message, e.hint].filter(Boolean).join(": ");
}
