// SPDX-License-Identifier: Apache-2.0
/** Questions: the browser's own dialog element, which holds the focus and leaves by Escape. */
import { type Child, el } from "./el.js";
import { words } from "./states.js";

export interface DialogOptions {
  title: string;
  body: Child;
  /** What the button says. */
  action: string;
  isDangerous?: boolean;
  /** Called when it is pressed; a failure is shown and the dialog stays. */
  run: (form: FormData) => Promise<void> | void;
}

export function dialog(options: DialogOptions): HTMLDialogElement {
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const act = el("button", { type: "submit", class: options.isDangerous ? "danger" : "primary" }, options.action);
  const form = el(
    "form",
    {
      on: {
        submit: (event) => {
          event.preventDefault();
          void submit();
        },
      },
    },
    el("h2", {}, options.title),
    el("div", { class: "dialog-body" }, options.body),
    problem,
    el("footer", {}, el("button", { type: "button", on: { click: () => node.close() } }, "Cancel"), act),
  );
  const node = el("dialog", { on: { close: () => node.remove() } }, form);
  async function submit(): Promise<void> {
    act.disabled = true;
    problem.hidden = true;
    try {
      await options.run(new FormData(form));
      node.close();
    } catch (error) {
      problem.textContent = words(error);
      problem.hidden = false;
      act.disabled = false;
    }
  }
  document.body.appendChild(node);
  node.showModal();
  return node;
}

/** Asks before something that cannot be undone. */
export function confirm(title: string, body: Child, action: string, run: () => Promise<void> | void): void {
  dialog({ title, body, action, isDangerous: true, run });
}

/** Shows something that has one button, to be done with it. */
export function tell(title: string, body: Child): HTMLDialogElement {
  const node = el("dialog", { on: { close: () => node.remove() } }, el("h2", {}, title), el("div", { class: "dialog-body" }, body));
  node.appendChild(el("footer", {}, el("button", { class: "primary", autofocus: true, on: { click: () => node.close() } }, "Done")));
  document.body.appendChild(node);
  node.showModal();
  return node;
}

export function field(label: string, input: HTMLElement, hint?: string): HTMLElement {
  return el("label", { class: "field" }, el("span", {}, label), input, hint && el("small", {}, hint));
}
