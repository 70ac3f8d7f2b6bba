// SPDX-License-Identifier: Apache-2.0
/** The event log: what has happened, and what happens. */
import { type Entry, cursorOf, newest } from "../live.js";
import type { Page } from "../page.js";
import { count, el, empty, factsOf, failure, loading, moment, pageHead, replace, sandboxLink, table, tell, typeBadge } from "../ui/index.js";

const SHOWN_MAX = 500;
const BACK = 500;
const KINDS = ["sandbox", "exec", "context", "policy", "key", "build", "template", "snapshot", "quota", "daemon"];

export const page: Page = {
  title: "Events",
  mount(root, ctx) {
    let entries: Entry[] = [];
    let from = 0;
    const filter = el("input", { type: "search", placeholder: "Filter by any word…", "aria-label": "Filter", data: { filter: "" }, on: { input: () => draw() } });
    const kind = el("select", { "aria-label": "Kind", on: { change: () => draw() } }, el("option", { value: "" }, "All kinds"), KINDS.map((k) => el("option", { value: k }, k)));
    const told = el("span", { class: "dim" });
    const place = el("div", {}, loading());
    const more = el("button", { on: { click: () => void load(from) } }, "Earlier ones");
    const rows = table<Entry>({
      label: "Events",
      key: (e) => String(cursorOf(e)),
      columns: [
        { name: "Number", cell: (e) => el("button", { class: "link mono", title: "All of it", on: { click: () => tell(`Event ${cursorOf(e)}`, el("pre", {}, JSON.stringify(e, undefined, 2))) } }, cursorOf(e)) },
        { name: "When", cell: (e) => el("time", { class: "nowrap" }, moment(e.at_us)) },
        { name: "What", cell: (e) => typeBadge(e.type) },
        { name: "Sandbox", cell: (e) => sandboxLink(e.sandbox_id) },
        { name: "Facts", cell: (e) => el("span", { class: "dim long short" }, factsOf(e)) },
      ],
    });

    function draw(): void {
      const words = filter.value.trim().toLowerCase().split(/\s+/);
      const some = entries.filter((e) => {
        if (kind.value && !e.type.startsWith(`${kind.value}.`)) return false;
        const text = `${cursorOf(e)} ${e.type} ${e.sandbox_id ?? ""} ${e["exec_id"] ?? ""} ${e["key_id"] ?? ""} ${e["request_id"] ?? ""} ${factsOf(e)}`.toLowerCase();
        return words.every((w) => text.includes(w));
      });
      rows.show(some);
      told.textContent = `${count(some.length)} of the last ${count(entries.length)}`;
      more.hidden = from <= 0 || entries.length >= SHOWN_MAX;
      if (!some.length) replace(place, entries.length ? empty("Nothing matches", "No event that is shown here has all of these words.", "Change the filter, or choose all kinds.") : empty("Nothing has happened yet", "Everything that is done is written to this log.", ["Make a sandbox: ", el("a", { href: "/sandboxes" }, "Sandboxes")]));
      else if (!rows.node.isConnected) replace(place, el("section", { class: "card flush" }, rows.node));
    }

    function add(fresh: readonly Entry[]): void {
      const known = new Map(entries.map((e) => [cursorOf(e), e]));
      for (const e of fresh) if (e.seq) known.set(cursorOf(e), e);
      entries = [...known.values()].sort((a, b) => cursorOf(b) - cursorOf(a)).slice(0, SHOWN_MAX);
      draw();
    }

    /** Those before a number, a stretch of the log. */
    async function load(before: number): Promise<void> {
      try {
        const head = before || (await newest(ctx.cloche, ctx.who.isHostAdmin, ctx.signal));
        from = Math.max(0, head - BACK);
        const fresh: Entry[] = [];
        for await (const e of ctx.cloche.events({ after: from, all: ctx.who.isHostAdmin, signal: ctx.signal })) {
          if (before && cursorOf(e) > before) break;
          fresh.push(e as Entry);
        }
        add(fresh);
      } catch (error) {
        if (!ctx.signal.aborted && !entries.length) replace(place, failure(error, () => void load(before)));
      }
    }

    replace(root, pageHead(["Events ", told], filter, kind), place, el("p", { class: "center" }, more));
    more.hidden = true;
    ctx.live.keep(() => load(0), () => false, ctx.signal); // those to come are told
    return ctx.live.on((entry) => add([entry]));
  },
};
