// SPDX-License-Identifier: Apache-2.0
/** What the machine is and what it lacks: the doctor's findings, the engines with their walls, and room that is left. */
import { historyCard } from "../history.js";
import type { Json, Page } from "../page.js";
import { bytes, card, el, empty, failure, facts, loading, moment, pageHead, relativeTime, replace, startedUs, table, tile } from "../ui/index.js";

const MIB = 1024 * 1024;
const GAP_MS = 2000;
const MARKS: Record<string, [string, string]> = { needed: ["needed", "bad"], wanted: ["gap", "warn"], extra: ["not here", ""] };

function mark(check: Json): HTMLElement {
  const [word, look] = check["present"] ? ["ok", "good"] : (MARKS[check["weight"]] ?? ["missing", "warn"]);
  return el("span", { class: `badge ${look}` }, word);
}

function engine(e: Json): HTMLElement {
  const gaps = e["gaps"] as string[];
  return card(
    `Engine ${e["engine"]}`,
    facts([
      ["Grade", e["grade"]],
      ["Walls", el("span", { class: "chips" }, (e["walls"] as string[]).map((w) => el("span", { class: "badge good" }, w)))],
      ["Gaps", gaps.length ? el("span", { class: "chips" }, gaps.map((g) => el("span", { class: "badge warn" }, g))) : "none"],
    ]),
  );
}

export const page: Page = {
  title: "Host",
  mount(root, ctx) {
    const place = el("div", {}, loading());
    const below = el("div", { class: "below" });
    const checks = table<Json>({
      label: "Findings",
      key: (c) => c["name"],
      columns: [
        { name: "What", by: (c) => c["name"], cell: (c) => el("strong", {}, String(c["name"]).replaceAll("_", " ")) },
        { name: "State", by: (c) => (c["present"] ? 3 : c["weight"] === "needed" ? 0 : c["weight"] === "wanted" ? 1 : 2), cell: mark },
        { name: "Found", cell: (c) => c["detail"] },
        { name: "For", cell: (c) => [c["purpose"], c["remedy"] ? el("div", {}, el("small", { class: "dim" }, "get it: "), el("code", {}, c["remedy"])) : null] },
      ],
    });

    async function show(): Promise<void> {
      try {
        const health = await ctx.cloche.health();
        const doctor = ctx.who.isHostAdmin ? await ctx.cloche.doctor() : undefined;
        if (ctx.signal.aborted) return;
        const host = health["host"] as Json | undefined;
        if (doctor) checks.show((doctor["checks"] as Json[]).filter((c) => c["name"] !== "daemon")); // that is who tells it
        replace(
          place,
          el(
            "div",
            { class: "cards" },
            tile("Version", health["version"], health["uptime_ms"] ? ["started ", relativeTime(startedUs(health))] : undefined),
            host && tile("CPUs", host["cpus"]),
            host && tile("Memory", bytes(host["memory_mib"] * MIB)),
            host && tile("Disk free", bytes(host["disk_free_mib"] * MIB)),
            health["default_engine"] && tile("Default engine", health["default_engine"]["engine"], health["default_engine"]["reason"]),
            doctor && tile("Jails", doctor["jail"] ? "can run" : "cannot run", `checked at ${moment(doctor["checked_us"])}`),
          ),
          el("div", { class: "columns" }, ((health["engines"] ?? []) as Json[]).map(engine)),
        );
        replace(
          below,
          doctor ? el("section", { class: "card flush" }, checks.node) : empty("Only admins of the project default can see the host's checks", "They tell what the machine can do and what is missing.", "Ask an admin, or log in with an admin's key."),
          el("p", { class: "dim" }, el("a", { href: "/licences" }, "Licences of this program's components")),
        );
      } catch (error) {
        if (!ctx.signal.aborted) replace(place, failure(error, again));
      }
    }

    replace(root, pageHead("Host"), place, ctx.who.isHostAdmin ? historyCard(ctx, "host", ctx.signal).node : null, below);
    const again = ctx.live.keep(show, (entry) => /^(daemon|sandbox|snapshot|template)\./.test(entry.type), ctx.signal, GAP_MS);
    return () => undefined;
  },
};
