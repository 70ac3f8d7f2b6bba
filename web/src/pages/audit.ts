// SPDX-License-Identifier: Apache-2.0
/** Who did what, from where: the daemon searches its event log and audit log, and the newest come first. The address keeps what was searched for. */
import type { Entry } from "../live.js";
import { cursorOf } from "../live.js";
import type { Page } from "../page.js";
import { count, el, empty, factsOf, failure, loading, moment, pageHead, replace, sandboxLink, table, tell, typeBadge } from "../ui/index.js";

const PAGE = 100;
const DAY_S = 86_400;
const DAYS: readonly [string, string][] = [["1", "The last day"], ["7", "The last week"], ["30", "The last 30 days"], ["", "All that is kept"]];
const LOGS: readonly [string, string][] = [["", "Events and calls"], ["events", "Events"], ["api.read", "Reads of content"], ["api.write", "Other writes"]];

/** The person, where one is known, else the key. */
function whoOf(e: Entry): string {
  const person = e["person"] as { name: string | null; email: string | null; subject: string } | undefined;
  return person?.email ?? person?.name ?? person?.subject ?? e["key_id"] ?? "";
}

/** One of the two logs, read from the newest back. What was read and not shown yet waits here. */
interface Log {
  audit: boolean;
  before?: number;
  waiting: Entry[];
  isOver: boolean;
}

export const page: Page = {
  title: "Audit",
  mount(root, ctx) {
    let search = new AbortController();
    let logs: Log[] = [];
    let shown: Entry[] = [];
    const asked = new URLSearchParams(location.search);
    const field = (name: string, label: string, hint: string, type = "text") => el("input", { type, name, placeholder: hint, "aria-label": label, value: asked.get(name) ?? "", data: name === "text" ? { filter: "" } : {} });
    const choice = (name: string, label: string, options: readonly [string, string][]) =>
      el("select", { name, "aria-label": label, on: { change: () => void find() } }, options.map(([value, word]) => el("option", { value, selected: value === (asked.get(name) ?? options[0]![0]) }, word)));
    const text = field("text", "Words", "A path, a type, an id…", "search");
    const who = field("who", "Who", "A key or a person");
    const address = field("address", "From", "10.0.0.0/8");
    const days = choice("days", "Since", DAYS);
    const log = choice("log", "What", LOGS);
    const told = el("span", { class: "dim" });
    const place = el("div", {}, loading());
    const more = el("button", { hidden: true, on: { click: () => void load() } }, "Earlier ones");
    const rows = table<Entry>({
      label: "Audit",
      key: (e) => String(e["hash"]),
      columns: [
        { name: "When", cell: (e) => el("button", { class: "link nowrap", title: "All of it", on: { click: () => tell(`Entry ${e.seq}`, el("pre", {}, JSON.stringify(e, undefined, 2))) } }, moment(e.at_us)) },
        { name: "Who", cell: (e) => el("span", { class: "mono", title: e["key_id"] ?? "" }, whoOf(e)) },
        { name: "From", cell: (e) => el("span", { class: "mono", title: e["agent"] ?? "" }, e["from"] ?? "") },
        { name: "What", cell: (e) => typeBadge(e.type) },
        { name: "Sandbox", cell: (e) => sandboxLink(e.sandbox_id) },
        { name: "Facts", cell: (e) => el("span", { class: "dim long short" }, factsOf(e)) },
      ],
    });

    function keepInAddress(): void {
      const words = new URLSearchParams();
      for (const input of [text, who, address, days, log]) {
        if (input.value.trim() !== (input === days ? DAYS[0]![0] : "")) words.set(input.name, input.value.trim());
      }
      history.replaceState(null, "", location.pathname + (words.size ? `?${words}` : ""));
    }

    /** Reads on in one log until a page of it waits, or it is over. */
    async function fill(one: Log, signal: AbortSignal): Promise<void> {
      if (one.isOver || one.waiting.length >= PAGE) return;
      const wanted = PAGE - one.waiting.length;
      let read = 0;
      for await (const e of ctx.cloche.events({
        audit: one.audit,
        all: ctx.who.isHostAdmin,
        newest: true,
        before: one.before,
        limit: wanted,
        type: log.value.startsWith("api.") ? log.value : undefined,
        text: text.value.trim() || undefined,
        who: who.value.trim() || undefined,
        address: address.value.trim() || undefined,
        since: days.value ? Math.floor(Date.now() / 1000) - Number(days.value) * DAY_S : undefined,
        signal,
      })) {
        one.waiting.push(e as Entry);
        one.before = cursorOf(e as Entry);
        read++;
      }
      one.isOver = read < wanted;
    }

    async function load(): Promise<void> {
      const { signal } = search;
      told.textContent = "searching…";
      try {
        await Promise.all(logs.map((one) => fill(one, signal)));
        const next = logs.flatMap((one) => one.waiting).sort((a, b) => b.at_us - a.at_us).slice(0, PAGE);
        for (const one of logs) one.waiting = one.waiting.filter((e) => !next.includes(e));
        shown = [...shown, ...next];
        const isOver = logs.every((one) => one.isOver && !one.waiting.length);
        rows.show(shown);
        more.hidden = isOver;
        told.textContent = isOver ? `${count(shown.length)} found` : `the newest ${count(shown.length)}`;
        replace(place, shown.length ? el("section", { class: "card flush" }, rows.node) : empty("Nothing was found", "No entry is like this.", "Change the words, or search a longer time."));
      } catch (error) {
        if (!signal.aborted) {
          told.textContent = "";
          replace(place, failure(error, () => void find()));
        }
      }
    }

    function find(): Promise<void> {
      search.abort();
      search = new AbortController();
      logs = [false, true].filter((audit) => !log.value || (log.value === "events") !== audit).map((audit) => ({ audit, waiting: [], isOver: false }));
      shown = [];
      more.hidden = true;
      keepInAddress();
      return load();
    }

    const form = el("form", { class: "row", on: { submit: (event: Event) => (event.preventDefault(), void find()) } }, text, who, address, days, log, el("button", { type: "submit" }, "Search"));
    replace(root, pageHead(["Audit ", told], form), place, el("p", { class: "center" }, more));
    void find();
    return () => search.abort();
  },
};
