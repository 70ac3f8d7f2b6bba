// SPDX-License-Identifier: Apache-2.0
/**
 * Questions: the browser's own dialog element, which holds the focus and leaves by Escape. What was typed stays there until the
 * question is answered: a failure is told at the field that the API names, or below all of them where it names none of these.
 */
import { type Child, el } from "./el.js";
import { plainWords, words } from "./states.js";

export interface DialogOptions {
  title: string;
  body: Child;
  /** What the button says. */
  action: string;
  isDangerous?: boolean;
  /** As wide as the window lets it be, for many fields. */
  isWide?: boolean;
  /** Called when it is pressed; a failure is shown and the dialog stays. */
  run: (form: FormData, tell: (text: string) => void) => Promise<void> | void;
}

/** What is wrong with a field, said before the API was asked. */
export class FieldProblem extends Error {
  constructor(
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

function fieldsOf(form: HTMLElement): HTMLElement[] {
  return [...form.querySelectorAll<HTMLElement>("[data-field]")];
}

/** The field that an error is about: the one it names or a part of it, else the one that its sentence begins with. */
function blamed(form: HTMLElement, error: unknown): HTMLElement | undefined {
  const { field, message } = error as { field?: string; message?: string };
  const name = field ?? /^([a-z_.]+)[: ]/.exec(message ?? "")?.[1];
  return name === undefined ? undefined : fieldsOf(form).find((f) => name === f.dataset["field"] || (name.startsWith(f.dataset["field"]!) && /^[.[]/.test(name.slice(f.dataset["field"]!.length))));
}

function clearProblems(form: HTMLElement): void {
  for (const node of fieldsOf(form)) {
    node.querySelector(".problem")?.remove();
    node.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
  }
}

/** Says it at the field, opens what it is folded away in, and goes there. */
function showAt(node: HTMLElement, error: unknown): void {
  for (let fold = node.closest("details"); fold; fold = fold.parentElement!.closest("details")) fold.open = true;
  node.appendChild(el("span", { class: "problem", role: "alert" }, plainWords(error)));
  const input = node.querySelector<HTMLElement>("input, select, textarea");
  input?.setAttribute("aria-invalid", "true");
  input?.focus();
  node.scrollIntoView({ block: "nearest" });
}

export function dialog(options: DialogOptions): HTMLDialogElement {
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const told = el("p", { class: "dim", role: "status", hidden: true });
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
    told,
    el("footer", {}, el("button", { type: "button", on: { click: () => node.close() } }, "Cancel"), act),
  );
  const node = el("dialog", { class: options.isWide ? "wide" : undefined, on: { close: () => node.remove() } }, form);
  function tell(text: string): void {
    told.textContent = text;
    told.hidden = !text;
  }
  async function submit(): Promise<void> {
    act.disabled = true;
    problem.hidden = true;
    clearProblems(form);
    try {
      await options.run(new FormData(form), tell);
      node.close();
    } catch (error) {
      const at = blamed(form, error);
      problem.textContent = words(error);
      problem.hidden = at !== undefined;
      if (at) showAt(at, error);
    } finally {
      tell("");
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

/** `name` is what the API calls it, where errors may be about it. */
export function field(label: string, input: HTMLElement, hint?: Child, name?: string): HTMLElement {
  return el("label", { class: "field", data: name ? { field: name } : {} }, el("span", {}, label), input, hint && el("small", {}, hint));
}
