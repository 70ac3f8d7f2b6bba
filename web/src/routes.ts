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
  /** In the menu only where the daemon is a node of a cluster (cluster.ts). */
  isOfCluster?: boolean;
  load: () => Promise<{ page: Page }>;
}

export const routes: readonly Route[] = [
  { path: "/", menu: "Overview", letter: "o", icon: "M3 13h4l3-8 4 14 3-6h4", load: () => import("./pages/overview.js") },
  { path: "/sandboxes", menu: "Sandboxes", letter: "s", icon: "M4 20h16M6 20v-7a6 6 0 0 1 12 0v7M12 7V4", load: () => import("./pages/sandboxes.js") },
  { path: "/sandboxes/:id", load: () => import("./pages/sandbox/index.js") },
  { path: "/templates", menu: "Templates", letter: "t", icon: "M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4", load: () => import("./pages/templates.js") },
  { path: "/usage", menu: "Usage", letter: "u", icon: "M4 20V4M4 20h16M9 16v-5M14 16V7M19 16v-3", load: () => import("./pages/usage.js") },
  { path: "/keys", menu: "Keys", letter: "k", icon: "M14 10a4 4 0 1 1 2.8 3.8L12 18.5H9.5V21H6v-3.5l7.2-5.3A4 4 0 0 1 14 10z", load: () => import("./pages/keys.js") },
  { path: "/secrets", menu: "Secrets", letter: "c", icon: "M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3M12 15v2", load: () => import("./pages/secrets.js") },
  { path: "/events", menu: "Events", letter: "e", icon: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01", load: () => import("./pages/events.js") },
  { path: "/audit", menu: "Audit", letter: "a", icon: "M10 4a6 6 0 1 0 0 12a6 6 0 0 0 0-12M14.5 14.5L20 20", load: () => import("./pages/audit.js") },
  { path: "/host", menu: "Host", letter: "h", icon: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01", load: () => import("./pages/host.js") },
  { path: "/nodes", menu: "Nodes", letter: "n", isOfCluster: true, icon: "M12 4v5M6 20v-5l6-6 6 6v5M3 20h6M15 20h6M9 4h6", load: () => import("./pages/nodes.js") },
  { path: "/settings", menu: "Settings", letter: "i", icon: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4", load: () => import("./pages/settings.js") },
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
