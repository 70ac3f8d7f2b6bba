// SPDX-License-Identifier: Apache-2.0
/** The way in: a key, or a one-time link whose token stands behind the #, where no server or log sees it. */
import { logIn, wayIn } from "./client.js";
import type { Client, Who } from "./page.js";
import { mark, themeSwitch } from "./shell.js";
import { el } from "./ui/el.js";
import { loading, words } from "./ui/states.js";

const LINK = /^#link=([a-z0-9_]+)$/;

/** Takes the token out of the address, so that it is in no history, and asks to be let in by it. */
export async function byLink(cloche: Client): Promise<Who | undefined> {
  const token = LINK.exec(location.hash)?.[1];
  if (!token) return undefined;
  history.replaceState(null, "", "/");
  return logIn(cloche, { link: token });
}

export function loginPage(root: HTMLElement, cloche: Client, problem: string | undefined, onIn: (who: Who) => void): void {
  const told = el("p", { class: "problem", role: "alert", hidden: !problem }, problem);
  const input = el("input", { type: "password", id: "key", name: "key", autocomplete: "current-password", placeholder: "clo_…", required: true, autofocus: true, spellcheck: "false" });
  const button = el("button", { type: "submit", class: "primary" }, "Log in");
  async function submit(): Promise<void> {
    button.disabled = true;
    told.hidden = true;
    try {
      onIn(await logIn(cloche, { key: input.value.trim() }));
    } catch (error) {
      told.textContent = words(error);
      told.hidden = false;
      button.disabled = false;
      input.select();
    }
  }
  const people = el("div", { class: "login-people", hidden: true });
  // The word of a login that failed is taken out of the address: it is told once.
  const word = new URLSearchParams(location.search).get("problem");
  if (word) history.replaceState(null, "", location.pathname);
  wayIn(cloche, word).then(
    (way) => {
      if (way.problem) {
        told.textContent = `${way.problem.message}: ${way.problem.hint}.`;
        told.hidden = false;
      }
      if (!way.provider) return;
      people.replaceChildren(el("a", { class: "button primary", href: way.provider.path, data: { act: "provider" } }, `Log in with ${way.provider.name}`));
      people.hidden = false;
    },
    () => {}, // the key's way is there in any case
  );
  const form = el(
    "form",
    {
      class: "login",
      on: {
        submit: (event) => {
          event.preventDefault();
          void submit();
        },
      },
    },
    el("div", { class: "login-brand" }, mark(44), el("h1", {}, "cloche")),
    people,
    el("label", { for: "key" }, "API key"),
    input,
    told,
    button,
    el("p", { class: "dim" }, "Or open the link that ", el("code", {}, "cloche dashboard"), " prints on the host. The first key is in ", el("code", {}, "/var/lib/cloche/admin.key"), "."),
    themeSwitch(),
  );
  root.replaceChildren(el("main", { class: "login-place" }, form));
  document.title = "Log in · cloche";
  input.focus();
}

export function waiting(root: HTMLElement): void {
  root.replaceChildren(el("main", { class: "login-place" }, loading("Connecting")));
}
