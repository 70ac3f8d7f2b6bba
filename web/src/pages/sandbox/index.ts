// SPDX-License-Identifier: Apache-2.0
/**
 * One sandbox: its head, and panels of which one is shown at a time. Which one stands behind # in the address, so that a link
 * and a reload lead to the same. The terminal's program is fetched when it is first wanted.
 */
import type { Context, Page } from "../../page.js";
import { el, failure, keepInSight, loading, replace } from "../../ui/index.js";
import { Box } from "./box.js";
import { codePanel } from "./code.js";
import { eventsPanel } from "./events.js";
import { filesPanel } from "./files.js";
import { header } from "./header.js";
import { isolationPanel } from "./isolation.js";
import { networkPanel } from "./network.js";
import { outputPanel } from "./output.js";
import { type Panel, visible } from "./panel.js";
import { portsPanel } from "./ports.js";
import { resultsPanel } from "./results.js";
import { treePanel } from "./tree.js";
import { usagePanel } from "./usage.js";

const terminal: Panel = {
  id: "terminal",
  title: "Terminal",
  mount(root, box, signal) {
    const { givesFocus } = box;
    replace(root, loading());
    import("./terminal.js").then(
      ({ terminalPanel }) => {
        if (signal.aborted) return;
        replace(root);
        box.givesFocus = givesFocus;
        terminalPanel.mount(root, box, signal);
        box.givesFocus = true;
      },
      (error: unknown) => replace(root, failure(error, () => location.reload())),
    );
  },
};

const PANELS: readonly Panel[] = [codePanel, outputPanel, terminal, filesPanel, networkPanel, portsPanel, usagePanel, treePanel, eventsPanel, isolationPanel];

/** A row of tabs that the arrow keys go along, and the chosen panel below it. Results have a tab where the create named some. */
function panels(box: Box, signal: AbortSignal): HTMLElement[] {
  const all = box.info.results ? [...PANELS, resultsPanel] : PANELS;
  const place = el("div", { id: "panel", role: "tabpanel", class: "panel", tabindex: "-1" });
  let shown: AbortController | undefined;
  const tabs = all.map((panel, i) =>
    el("button", { type: "button", role: "tab", id: `tab-${panel.id}`, "aria-controls": "panel", on: { click: () => choose(i), keydown: (event) => move(event, i) } }, panel.title),
  );
  function choose(i: number): void {
    const panel = all[i]!;
    shown?.abort();
    shown = new AbortController();
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at === i));
      tab.tabIndex = at === i ? 0 : -1;
    });
    tabs[i]!.scrollIntoView({ block: "nearest", inline: "nearest" });
    place.setAttribute("aria-labelledby", `tab-${panel.id}`);
    place.dataset["panel"] = panel.id;
    place.replaceChildren();
    history.replaceState(null, "", `#${panel.id}`);
    panel.mount(place, box, shown.signal);
  }
  function move(event: KeyboardEvent, i: number): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step !== undefined ? (i + step + tabs.length) % tabs.length : undefined;
    if (next === undefined) return;
    event.preventDefault();
    tabs[next]!.focus();
    box.givesFocus = false;
    choose(next);
    box.givesFocus = true;
  }
  signal.addEventListener("abort", () => shown?.abort());
  const asked = all.findIndex((p) => `#${p.id}` === location.hash);
  queueMicrotask(() => {
    if (!signal.aborted) choose(Math.max(asked, 0));
  });
  const strip = el("div", { role: "tablist", class: "tabs", "aria-label": "Parts of the page" }, tabs);
  keepInSight(strip, "[aria-selected=true]");
  return [strip, place];
}

export const page: Page = {
  title: "Sandbox",
  mount(root: HTMLElement, ctx: Context) {
    async function show(): Promise<void> {
      replace(root, loading());
      try {
        const box = await Box.open(ctx);
        if (ctx.signal.aborted) return;
        document.title = `${visible(box.info.name ?? box.id)} · cloche`;
        replace(root, header(box, ctx.signal), panels(box, ctx.signal));
      } catch (error) {
        if (!ctx.signal.aborted) replace(root, failure(error, () => void show()));
      }
    }
    void show();
    return () => undefined;
  },
};
