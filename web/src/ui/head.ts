// SPDX-License-Identifier: Apache-2.0
/** The top of a page and the boxes below it. */
import { type Child, el } from "./el.js";

export function pageHead(title: Child, ...actions: Child[]): HTMLElement {
  return el("div", { class: "page-head" }, el("h1", {}, title), ...actions);
}

export function card(title: Child, body: Child, ...actions: Child[]): HTMLElement {
  return el("section", { class: "card" }, title ? el("header", {}, el("h2", {}, title), ...actions) : null, body);
}

/** One figure with its name. */
export function tile(name: string, value: Child, more?: Child): HTMLElement {
  return el("div", { class: "card tile", data: { tile: name } }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), more ? el("div", { class: "more" }, more) : null);
}

/** A share of something, from 0 to 1. */
export function bar(part: number, label: string): HTMLElement {
  const width = `${Math.min(Math.max(part, 0), 1) * 100}%`;
  return el("div", { class: "bar", role: "img", "aria-label": label }, el("i", { style: { width } }));
}

export function facts(rows: readonly (readonly [string, Child])[]): HTMLElement {
  return el(
    "dl",
    { class: "facts" },
    rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}
