// SPDX-License-Identifier: Apache-2.0
/** What stands around every page: menu, whether we are connected, who is logged in, light or dark. */
import { type LiveState } from "./live.js";
import type { Who } from "./page.js";
import { type Route, routes } from "./routes.js";
import { el, replace, svg } from "./ui/el.js";
import { type Theme, setTheme, theme } from "./ui/theme.js";

export interface Shell {
  node: HTMLElement;
  /** The element that the page is mounted into. */
  main: HTMLElement;
  mark(route: Route): void;
  state(state: LiveState): void;
  /** Shows what only a cluster has, or hides it. */
  cluster(isIn: boolean): void;
}

/** A bell jar. */
export function mark(size = 26): SVGElement {
  return svg(
    "svg",
    { class: "mark", viewBox: "0 0 32 32", width: size, height: size, "aria-hidden": "true" },
    svg("circle", { cx: 16, cy: 4.5, r: 2.2, class: "mark-knob" }),
    svg("path", { d: "M6 25V16.5a10 10 0 0 1 20 0V25z", class: "mark-glass" }),
    svg("path", { d: "M16 25v-8m0 3.5c-3.2 0-4.4-1.6-4.6-4 2.8 0 4.6 1.2 4.6 4zm0-1.5c0-2.6 1.5-4.3 4.4-4.4.1 2.8-1.5 4.4-4.4 4.4z", class: "mark-leaf" }),
    svg("path", { d: "M3.5 27.5h25", class: "mark-base" }),
  );
}

function icon(path: string): SVGElement {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": "true" }, svg("path", { d: path }));
}

const THEMES: readonly [Theme, string][] = [
  ["auto", "Auto"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export function themeSwitch(): HTMLElement {
  const group = el("div", { class: "segmented", role: "group", "aria-label": "Theme" });
  function draw(): void {
    replace(
      group,
      THEMES.map(([name, word]) =>
        el("button", { type: "button", "aria-pressed": theme() === name ? "true" : "false", data: { theme: name }, on: { click: () => (setTheme(name), draw()) } }, word),
      ),
    );
  }
  draw();
  return group;
}

const STATES: Record<LiveState, string> = { connecting: "Connecting", open: "Live", lost: "Reconnecting" };

function shownName(who: Who): string {
  return who.person?.email ?? who.person?.name ?? who.key.name;
}

/** The projects of a person who has several. */
function projectChoice(who: Who, onProject: (id: string) => void): HTMLElement | undefined {
  if (who.projects.length < 2) return undefined;
  const select = el(
    "select",
    { "aria-label": "Project", data: { act: "project" } },
    who.projects.map((p) => el("option", { value: p.id, selected: p.id === who.project.id }, `${p.name} · ${p.scope}`)),
  );
  select.addEventListener("change", () => onProject(select.value));
  return select;
}

export function shell(who: Who, onLogOut: () => void, onProject: (id: string) => void): Shell {
  const links = routes
    .filter((r) => r.menu)
    .map((r) => ({ route: r, node: el("a", { href: r.path }, icon(r.icon!), el("span", {}, r.menu)) }));
  const showCluster = (isIn: boolean): void => links.forEach((l) => (l.node.hidden = Boolean(l.route.isOfCluster) && !isIn));
  const state = el("span", { class: "live", role: "status", data: { state: "connecting" } }, STATES.connecting);
  const main = el("main", { id: "main", tabindex: "-1" });
  const menu = el(
    "nav",
    { "aria-label": "Pages" },
    links.map((l) => l.node),
    el("a", { href: "/docs/" }, icon("M5 4h9l5 5v11H5zM14 4v5h5M8 13h8M8 17h8"), el("span", {}, "Documents")),
  );
  const inner = el(
    "div",
    { class: "side-in" },
    el("a", { href: "/", class: "brand" }, mark(), el("span", {}, "cloche")),
    menu,
    el(
      "div",
      { class: "side-foot" },
      state,
      el("div", { class: "who", title: `${shownName(who)} (${who.key.scope}) of ${who.project.name}` }, el("span", {}, shownName(who)), el("small", {}, `${who.project.name} · ${who.key.scope}`)),
      projectChoice(who, onProject) ?? "",
      themeSwitch(),
      el("button", { type: "button", class: "quiet", data: { act: "logout" }, on: { click: onLogOut } }, "Log out"),
    ),
  );
  showCluster(false);
  const node = el("div", { class: "frame" }, el("a", { href: "#main", class: "skip" }, "Skip to content"), el("aside", { class: "side" }, inner), main);
  return {
    node,
    main,
    mark(route) {
      for (const link of links) {
        const isHere = link.route === route || (link.route.path !== "/" && route.path.startsWith(`${link.route.path}/`));
        if (isHere) link.node.setAttribute("aria-current", "page");
        else link.node.removeAttribute("aria-current");
      }
    },
    state(next) {
      state.dataset["state"] = next;
      state.textContent = STATES[next];
    },
    cluster: showCluster,
  };
}
