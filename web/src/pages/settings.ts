// SPDX-License-Identifier: Apache-2.0
/** The daemon's settings: what is in force, where it comes from, and what a change needs. Those that are not the default come first. */
import type { Json, Page } from "../page.js";
import { type Child, el, empty, failure, loading, pageHead, replace, table } from "../ui/index.js";

/** As the settings file has it. */
function valueText(value: unknown): string {
  if (value === null || value === undefined) return "not set";
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  return String(value);
}

function originText(origin: Json, option: string): string {
  if (origin["from"] === "file") return origin["line"] ? `line ${origin["line"]} of ${origin["file"]}` : origin["file"];
  if (origin["from"] === "environment") return `variable ${origin["variable"]}`;
  return origin["from"] === "command_line" ? `command line, ${option}` : "default";
}

function valueCell(s: Json): Child {
  const pending = s["pending"] as Json | null;
  return [
    el("code", { class: "long" }, valueText(s["value"])),
    s["hidden"] ? el("div", {}, el("small", { class: "dim" }, "credentials are set, and not shown")) : null,
    pending ? el("div", { data: { pending: "" } }, el("span", { class: "badge warn" }, "from the next start"), " ", el("code", { class: "long" }, valueText(pending["value"])), el("div", {}, el("small", { class: "dim" }, `in the file: ${originText(pending["origin"], s["option"])}`))) : null,
  ];
}

function originCell(s: Json): Child {
  return [originText(s["origin"], s["option"]), s["overridden_line"] ? el("div", {}, el("small", { class: "dim" }, `line ${s["overridden_line"]} of the file is overridden`)) : null];
}

function matches(s: Json, words: readonly string[]): boolean {
  const text = [s["name"], s["option"], s["help"], valueText(s["value"]), originText(s["origin"], s["option"]), s["needs"]].join(" ").toLowerCase();
  return words.every((w) => text.includes(w));
}

/** First what waits for a restart, then what is not the default, then the others; each in the order of the file. */
function rank(s: Json): number {
  return s["pending"] ? 0 : s["changed"] ? 1 : 2;
}

export const page: Page = {
  title: "Settings",
  mount(root, ctx) {
    let all: Json[] = [];
    const filter = el("input", { type: "search", placeholder: "Name, value…", "aria-label": "Filter", data: { filter: "" }, on: { input: () => draw() } });
    const told = el("span", { class: "dim", role: "status" });
    const about = el("p", { class: "dim" });
    const place = el("div", {}, loading());
    const rows = table<Json>({
      label: "Settings",
      key: (s) => s["name"],
      columns: [
        { name: "Setting", by: (s) => s["name"], cell: (s) => [el("strong", { class: "mono" }, s["name"]), s["changed"] ? [" ", el("span", { class: "badge" }, "changed")] : null, el("div", {}, el("small", { class: "dim" }, s["help"]))] },
        { name: "Value", cell: valueCell },
        { name: "Default", cell: (s) => el("code", { class: "long" }, valueText(s["default"])), isExtra: true },
        { name: "Comes from", by: (s) => originText(s["origin"], s["option"]), cell: originCell },
        { name: "A change needs", by: (s) => s["needs"], cell: (s) => s["needs"] },
      ],
    });

    function draw(): void {
      const words = filter.value.trim().toLowerCase().split(/\s+/);
      const some = all.filter((s) => matches(s, words)).sort((a, b) => rank(a) - rank(b));
      rows.show(some);
      told.textContent = `${some.filter((s) => s["changed"]).length} of ${some.length} are not the default`;
      if (!some.length) replace(place, empty("Nothing matches", "No setting has all of these words.", ["Change the filter: press Esc, then ", el("kbd", {}, "/"), "."]));
      else if (!rows.node.isConnected) replace(place, el("section", { class: "card flush" }, rows.node));
    }

    async function show(): Promise<void> {
      try {
        const reply = await ctx.cloche.settings();
        if (ctx.signal.aborted) return;
        all = reply["settings"];
        replace(
          about,
          reply["file"]["present"] ? "The settings file is " : "There is no settings file; it would be ",
          el("code", {}, reply["file"]["path"]),
          ". A reload (",
          el("code", {}, "systemctl reload cloche"),
          ") reads it again and ends nothing. If a setting needs a restart, sandboxes survive it.",
        );
        draw();
      } catch (error) {
        if (!ctx.signal.aborted) replace(place, failure(error, again));
      }
    }

    replace(root, pageHead(["Settings ", told], filter), about, place);
    if (!ctx.who.isHostAdmin) {
      filter.hidden = true;
      replace(place, empty("Only admins of the project default can see the settings", "They show how the daemon is configured, and where each value comes from.", "Ask an admin, or log in with an admin's key."));
      return () => undefined;
    }
    const again = ctx.live.keep(show, (entry) => entry.type === "daemon.started", ctx.signal);
    return () => undefined;
  },
};
