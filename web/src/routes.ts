// SPDX-License-Identifier: Apache-2.0
/** The table of pages: a path, where it stands in the menu, the letter behind `g` that leads to it, and its module. */
import type { Page } from "./page.js";

export interface Route {
  /** `:id` is any one part, and becomes a param. */
  path: string;
  /** In the menu, under this word; without it only links lead there. */
  menu?: string;
  icon?: string;
  letter?: string;
  load: () => Promise<{ page: Page }>;
}

export const routes: readonly Route[] = [
  { path: "/", menu: "Overview", letter: "o", icon: "M3 13h4l3-8 4 14 3-6h4", load: () => import("./pages/overview.js") },
  { path: "/sandboxes", menu: "Sandboxes", letter: "s", icon: "M4 20h16M6 20v-7a6 6 0 0 1 12 0v7M12 7V4", load: () => import("./pages/sandboxes.js") },
  { path: "/sandboxes/:id", load: () => import("./pages/sandbox/index.js") },
];

export function find(path: string): { route: Route; params: Record<string, string> } | undefined {
  const parts = path.split("/").filter(Boolean);
  for (const route of routes) {
    const wanted = route.path.split("/").filter(Boolean);
    if (wanted.length !== parts.length) continue;
    const params: Record<string, string> = {};
    const isIt = wanted.every((word, i) => {
      if (!word.startsWith(":")) return word === parts[i];
      params[word.slice(1)] = decodeURIComponent(parts[i]!);
      return true;
    });
    if (isIt) return { route, params };
  }
  return undefined;
}
