// SPDX-License-Identifier: Apache-2.0
/** Who did what, from where: a search through the whole event log and audit log, newest first. */
import type { Entry } from "../live.js";
import type { Page } from "../page.js";
import { count, el, empty, factsOf, failure, loading, moment, pageHead, replace, sandboxLink, table, tell, typeBadge } from "../ui/index.js";

const SHOWN_MAX = 500;
const DAY_US = 86_400e6;
const DAYS: readonly [string, string][] = [["1", "The last day"], ["7", "The last week"], ["30", "The last 30 days"], ["", "All that is kept"]];
const LOGS: readonly [string, string][] = [["", "Events and calls"], ["events", "Events"], ["api.read", "Reads of content"], ["api.write", "Other writes"]];

/** All that can be searched for. */
function textOf(e: Entry): string {
  const ids = ["project_id", "sandbox_id", "exec_id", "key_id", "request_id", "from", "agent"].map((name) => e[name] ?? "");
  return `${e.type} ${ids.join(" ")} ${factsOf(e)}`.toLowerCase();
}

export const page: Page = {
  title: "Audit",
  mount(root, ctx) {
    let search = new AbortController();
    const words = el("input", { type: "search", placeholder: "A key, an address, a path…", "aria-label": "Words", data: { filter: "" } });
    const choice = (label: string, options: readonly [string, string][]) => el("select", { "aria-label": label, on: { change: () => void find() } }, options.map(([value, name]) => el("option", { value }, name)));
    const days = choice("Since", DAYS);
    const log = choice("What", LOGS);
    const told = el("span", { class: "dim" });
    const place = el("div", {}, loading());
    const rows = table<Entry>({
      label: "Audit",
      key: (e) => String(e["hash"]),
      columns: [
        { name: "When", cell: (e) => el("button", { class: "link nowrap", title: "All of it", on: { click: () => tell(`Entry ${e.seq}`, el("pre", {}, JSON.stringify(e, undefined, 2))) } }, moment(e.at_us)) },
        { name: "Who", cell: (e) => el("span", { class: "mono" }, e["key_id"] ?? "") },
        { name: "From", cell: (e) => el("span", { class: "mono", title: e["agent"] ?? "" }, e["from"] ?? "") },
        { name: "What", cell: (e) => typeBadge(e.type) },
        { name: "Sandbox", cell: (e) => sandboxLink(e.sandbox_id) },
        { name: "Facts", cell: (e) => el("span", { class: "dim long short" }, factsOf(e)) },
      ],
    });

    /** The newest that match, of one log; earlier ones are let go as later ones come. */
    async function read(audit: boolean, isWanted: (e: Entry) => boolean, signal: AbortSignal): Promise<{ found: Entry[]; seen: number }> {
      const found: Entry[] = [];
      let seen = 0;
      for await (const e of ctx.cloche.events({ audit, all: ctx.who.isHostAdmin, signal })) {
        seen++;
        if (!isWanted(e as Entry)) continue;
        found.push(e as Entry);
        if (found.length > SHOWN_MAX) found.shift();
      }
      return { found, seen };
    }

    async function find(): Promise<void> {
      search.abort();
      const { signal } = (search = new AbortController());
      const wanted = words.value.trim().toLowerCase().split(/\s+/);
      const since = days.value ? Date.now() * 1000 - Number(days.value) * DAY_US : 0;
      const isWanted = (e: Entry) => {
        if (e.at_us < since || (log.value.startsWith("api.") && e.type !== log.value)) return false;
        const text = textOf(e);
        return wanted.every((w) => text.includes(w));
      };
      told.textContent = "searching…";
      try {
        const logs = [false, true].filter((audit) => !log.value || (log.value === "events") !== audit);
        const logsRead = await Promise.all(logs.map((audit) => read(audit, isWanted, signal)));
        const found = logsRead.flatMap((r) => r.found).sort((a, b) => b.at_us - a.at_us).slice(0, SHOWN_MAX);
        rows.show(found);
        told.textContent = `${count(found.length)} found in ${count(logsRead.reduce((n, r) => n + r.seen, 0))}`;
        replace(place, found.length ? el("section", { class: "card flush" }, rows.node) : empty("Nothing was found", "No entry has all of these words.", "Change the words, or search a longer time."));
      } catch (error) {
        if (!signal.aborted) replace(place, failure(error, () => void find()));
      }
    }

    const form = el("form", { class: "row", on: { submit: (event: Event) => (event.preventDefault(), void find()) } }, words, days, log, el("button", { type: "submit" }, "Search"));
    replace(root, pageHead(["Audit ", told], form), place);
    void find();
    return () => search.abort();
  },
};
