// SPDX-License-Identifier: Apache-2.0
/** A panel of the page, and what several of them need. */
import { append, el, failure, loading, replace, toastError, type Child } from "../../ui/index.js";
import type { Box } from "./box.js";

export interface Panel {
  /** In the address, behind #. */
  id: string;
  title: string;
  /** The signal ends when another panel is chosen, or the page is left. */
  mount(root: HTMLElement, box: Box, signal: AbortSignal): void;
}

/** A button that does something which takes its time; it cannot be pressed meanwhile, and a failure is told. */
export function action(label: Child, run: () => Promise<unknown> | unknown, attrs: Record<string, string | boolean> = {}): HTMLButtonElement {
  const button = el("button", { type: "button", ...attrs, on: { click: () => void press() } }, label);
  async function press(): Promise<void> {
    button.disabled = true;
    try {
      await run();
    } catch (error) {
      toastError(error);
    } finally {
      button.disabled = false;
    }
  }
  return button;
}

/** Shows what load() gives, with a word while it is waited for and another when it fails. */
export function loaded(root: HTMLElement, signal: AbortSignal, load: () => Promise<Child>): () => Promise<void> {
  let isShown = false;
  async function show(): Promise<void> {
    try {
      const made = await load();
      if (signal.aborted) return;
      isShown = true;
      replace(root, made);
    } catch (error) {
      if (!signal.aborted) replace(root, failure(error, () => void show()));
    }
  }
  if (!isShown) replace(root, loading());
  return show;
}

/**
 * Mounts what needs a sandbox that runs, while it does. What is asked of one that is paused would wake it, and nobody has
 * asked for that by opening a page.
 */
export function whileRunning(root: HTMLElement, box: Box, signal: AbortSignal, what: string, mount: (root: HTMLElement, signal: AbortSignal) => void): void {
  let inner: AbortController | undefined;
  function look(): void {
    if (box.isRunning === (inner !== undefined) && root.hasChildNodes()) {
      if (!box.isRunning) rest();
      return;
    }
    inner?.abort();
    inner = undefined;
    root.replaceChildren();
    if (!box.isRunning) return rest();
    inner = new AbortController();
    mount(root, inner.signal);
  }
  function rest(): void {
    const { state, persistent } = box.info;
    const canGoOn = state === "paused" || (state === "stopped" && persistent);
    const again = canGoOn && box.mayWrite && action(state === "paused" ? "Resume" : "Start", () => box.sandbox.resume().then(() => box.tellInfo()), { class: "primary" });
    const node = el("div", { class: "state empty" }, el("strong", {}, `The sandbox is ${state}`), el("div", {}, `${what} while it runs.`));
    if (again) append(node, [again]);
    replace(root, node);
  }
  signal.addEventListener("abort", () => inner?.abort());
  box.onInfo(look, signal);
  look();
}

/**
 * A name or a line that a sandbox made, with what cannot be seen made visible: controls, and what turns the direction of text,
 * with which one name can be made to look like another.
 */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Words of a command as one line. */
export function commandLine(exec: { argv?: unknown; shell?: unknown }): string {
  if (typeof exec.shell === "string") return visible(exec.shell);
  const words = Array.isArray(exec.argv) ? exec.argv.map(String) : [];
  return visible(words.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`)).join(" "));
}
