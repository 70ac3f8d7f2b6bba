// SPDX-License-Identifier: Apache-2.0
/** Light or dark: as the system has it, or as the switch was last set here. */
const NAME = "cloche.theme";
const listeners = new Set<() => void>();
const system = matchMedia("(prefers-color-scheme: dark)");

export type Theme = "auto" | "light" | "dark";

export function theme(): Theme {
  const kept = localStorage.getItem(NAME);
  return kept === "light" || kept === "dark" ? kept : "auto";
}

function apply(): void {
  const chosen = theme();
  const isDark = chosen === "dark" || (chosen === "auto" && system.matches);
  document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
  for (const fn of listeners) fn();
}

export function setTheme(next: Theme): void {
  if (next === "auto") localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, next);
  apply();
}

/** Calls fn at each change; returns how to stop that. */
export function onTheme(fn: () => void): () => void {
  listeners.add(fn);
  return () => void listeners.delete(fn);
}

export function startTheme(): void {
  system.addEventListener("change", apply);
  apply();
}
