// SPDX-License-Identifier: Apache-2.0
/**
 * HTML that a sandbox made, in a frame of its own: without scripts, forms, windows and our origin (sandbox=""), and under this
 * page's policy besides, which it inherits. It is the one place that takes a text for markup, and the page's policy (trusted
 * types) would not let another do so.
 */
interface Policy {
  createHTML(text: string): string;
}
const policies = (globalThis as { trustedTypes?: { createPolicy(name: string, how: Policy): Policy } }).trustedTypes;
const markup = policies?.createPolicy("cloche-frame", { createHTML: (text) => text });

export function frame(html: string): HTMLElement {
  const node = document.createElement("iframe");
  node.setAttribute("sandbox", "");
  node.setAttribute("referrerpolicy", "no-referrer");
  node.className = "result-frame";
  node.title = "HTML that the code made";
  node.srcdoc = markup ? markup.createHTML(html) : html;
  return node;
}
