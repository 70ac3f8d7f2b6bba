// SPDX-License-Identifier: Apache-2.0
/** Keys: `g` and a letter goes to a page, `/` to the page's filter, `?` tells of all of them. */
import { isInCluster } from "./cluster.js";
import { type Route, routes } from "./routes.js";
import { tell } from "./ui/dialog.js";
import { el } from "./ui/el.js";

const CHORD_MS = 1500;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest(".xterm") !== null);
}

function isShown(route: Route): boolean {
  return Boolean(route.letter) && (!route.isOfCluster || isInCluster());
}

function help(): void {
  const rows: [string, string][] = [
    ...routes.filter(isShown).map((r): [string, string] => [`g ${r.letter}`, r.menu!]),
    ["/", "Filter what is shown"],
    ["Esc", "Leave a field or dialog"],
    ["?", "This list"],
  ];
  tell("Keyboard", el("dl", { class: "keys" }, rows.map(([keys, what]) => [el("dt", {}, keys.split(" ").map((k) => el("kbd", {}, k))), el("dd", {}, what)])));
}

export function startShortcuts(go: (path: string) => void): void {
  let chordUntil = 0;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isTyping(event.target)) (event.target as HTMLElement).blur();
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const route = Date.now() < chordUntil ? routes.find((r) => isShown(r) && r.letter === event.key) : undefined;
    chordUntil = event.key === "g" ? Date.now() + CHORD_MS : 0;
    if (route) go(route.path);
    else if (event.key === "/") document.querySelector<HTMLElement>("[data-filter]")?.focus();
    else if (event.key === "?") help();
    else return;
    event.preventDefault();
  });
}
