// SPDX-License-Identifier: Apache-2.0
/** Times that stay true: one ticker turns every shown "3 min ago" on, and forgets those that left the document. */
import { el } from "./el.js";
import { ago, moment } from "./format.js";

const shown = new Set<{ node: WeakRef<HTMLElement>; us: number }>();

function tick(): void {
  for (const row of shown) {
    const node = row.node.deref();
    if (!node) shown.delete(row);
    else if (node.isConnected) node.textContent = ago(row.us);
  }
}
setInterval(tick, 5000);

/** When the daemon was started, by what health tells now. */
export function startedUs(health: { [name: string]: unknown }): number {
  return (Date.now() - Number(health["uptime_ms"])) * 1000;
}

export function relativeTime(us: number | undefined): HTMLElement {
  if (!us) return el("span", { class: "dim" }, "–");
  const node = el("time", { title: moment(us) }, ago(us));
  shown.add({ node: new WeakRef(node), us });
  return node;
}
