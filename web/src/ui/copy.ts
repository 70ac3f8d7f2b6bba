// SPDX-License-Identifier: Apache-2.0
/**
 * To copy by a button. Browsers give the clipboard to pages over TLS and of the own machine alone; over plain http the text is
 * selected in a field that is there for a moment, and copied as by hand.
 */
import { el } from "./el.js";

/** Whether it is on the clipboard now. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByHand(text);
  }
}

/** A dialog lets nothing outside of it have the focus. */
function copyByHand(text: string): boolean {
  const had = document.activeElement as HTMLElement | null;
  const field = el("textarea", { class: "skip", readonly: true }, text);
  (document.querySelector("dialog[open]") ?? document.body).appendChild(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  had?.focus();
  return isCopied;
}

/** The text and the button; where no way leads to the clipboard the text is selected. */
export function copyable(label: string, text: string, what: string): HTMLElement {
  const input = el("input", { readonly: true, value: text, class: "mono", data: { what }, "aria-label": label, on: { focus: () => input.select() } });
  const told = el("small", { class: "dim", role: "status" });
  const button = el("button", { type: "button", data: { act: "copy" }, on: { click: () => void press() } }, "Copy");
  async function press(): Promise<void> {
    const isCopied = await copyText(text);
    told.textContent = isCopied ? "Copied." : "This browser does not let pages copy: press Ctrl+C.";
    if (!isCopied) input.focus();
  }
  return el("div", { class: "field" }, el("div", { class: "copyable" }, input, button), told);
}
