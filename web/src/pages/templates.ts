// SPDX-License-Identifier: Apache-2.0
/** Templates, and builds on their way to one, with their progress and log. */
import type { Context, Json, Page } from "../page.js";
import { bar, bytes, card, confirm, dialog, el, empty, failure, field, isPackageSet, loading, pageHead, relativeTime, replace, span, table, tell, toast } from "../ui/index.js";

/** The recipes that come along. */
const SHIPPED = ["python", "python-datasci", "node", "node22", "node26", "bun", "universal", "base", "claude", "codex", "opencode", "kernel"];
const LOG_LINES_MAX = 2000;
const BUILD_LOOKS: Record<string, string> = { ready: "good", failed: "bad", running: "warn", queued: "warn" };

function isGoing(build: Json): boolean {
  return build["state"] === "queued" || build["state"] === "running";
}

/** The words by which they were asked for. */
function packagesOf(set: Json): string {
  return ((set["manifest"]?.["set"]?.["packages"] ?? []) as string[]).join(", ") || set["name"];
}

function showLog(ctx: Context, build: Json): void {
  const text = el("pre", { class: "log", tabindex: "0" });
  const stop = new AbortController();
  const node = tell(`Log of ${build["name"]}`, text);
  node.classList.add("wide");
  node.addEventListener("close", () => stop.abort());
  ctx.signal.addEventListener("abort", () => node.close());
  const lines: string[] = [];
  void (async () => {
    try {
      for await (const event of ctx.cloche.buildEvents(build["id"], { signal: stop.signal })) {
        if (event["type"] === "log") lines.push(event["text"]);
        if (event["type"] === "ended" && event["build"]["error"]) lines.push(`${event["build"]["error"]["message"]}`);
        lines.splice(0, Math.max(0, lines.length - LOG_LINES_MAX));
        const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
        text.textContent = lines.join("\n");
        if (isAtEnd) text.scrollTop = text.scrollHeight;
      }
    } catch (error) {
      if (!stop.signal.aborted) text.textContent += `\n${(error as Error).message}`;
    }
  })();
}

function startBuild(ctx: Context, done: () => void): void {
  const recipe = el("textarea", { name: "recipe", rows: 9, spellcheck: "false", class: "mono", placeholder: 'name = "mine"\nfrom = "python"\n\n[packages]\napt = ["ripgrep"]' });
  const shared = el("label", { class: "check" }, el("input", { type: "checkbox", name: "shared" }), " For all projects");
  shared.hidden = !ctx.who.isHostAdmin;
  dialog({
    title: "Build a template",
    action: "Build",
    body: [
      field("A recipe that comes with cloche", el("select", { name: "name" }, el("option", { value: "" }, "none: my own recipe"), SHIPPED.map((n) => el("option", { value: n }, n)))),
      field("Or a recipe", recipe),
      shared,
    ],
    run: async (form) => {
      const name = String(form.get("name"));
      await ctx.cloche.startBuild({ ...(name ? { name } : { recipe: String(form.get("recipe")) }), shared: form.get("shared") !== null });
      toast("The build has begun");
      done();
    },
  });
}

export const page: Page = {
  title: "Templates",
  mount(root, ctx) {
    const canWrite = ctx.who.key.scope !== "read";
    const templates = table<Json>({
      label: "Templates",
      key: (t) => t["name"],
      columns: [
        { name: "Name", by: (t) => t["name"], cell: (t) => [el("strong", {}, t["name"]), (t["aliases"] as string[]).length ? el("small", { class: "dim" }, ` also ${(t["aliases"] as string[]).join(", ")}`) : null] },
        { name: "Whose", by: (t) => (t["shared"] ? 1 : 0), cell: (t) => (t["shared"] ? "shared" : "this project's") },
        { name: "Size", by: (t) => t["bytes"], cell: (t) => (t["bytes"] ? bytes(t["bytes"]) : "–"), isFigure: true },
        { name: "Sandboxes", by: (t) => t["sandboxes"] ?? 0, cell: (t) => t["sandboxes"] ?? "–", isFigure: true },
        { name: "Warm copies", by: (t) => t["warm_copies"], cell: (t) => t["warm_copies"], isFigure: true, isExtra: true },
        { name: "Image", cell: (t) => el("code", { title: t["digest"] ?? "" }, t["digest"] ? String(t["digest"]).slice(7, 19) : "this host's own files"), isExtra: true },
        { name: "Made", by: (t) => t["created_us"] ?? 0, cell: (t) => relativeTime(t["created_us"]), isFigure: true },
        { name: "", cell: (t) => canWrite && t["id"] && el("button", { class: "small", on: { click: () => remove(t) } }, "Remove"), isFigure: true },
      ],
    });
    const sets = table<Json>({
      label: "Package sets",
      key: (t) => t["name"],
      columns: [
        { name: "Packages", by: (t) => packagesOf(t), cell: (t) => el("strong", { class: "long", title: t["name"] }, packagesOf(t)) },
        { name: "Over", by: (t) => t["name"], cell: (t) => String(t["name"]).split("+")[0] },
        { name: "Size", by: (t) => t["bytes"], cell: (t) => bytes(t["bytes"]), isFigure: true },
        { name: "Sandboxes", by: (t) => t["sandboxes"] ?? 0, cell: (t) => t["sandboxes"] ?? "–", isFigure: true },
        { name: "Made", by: (t) => t["created_us"] ?? 0, cell: (t) => relativeTime(t["created_us"]), isFigure: true },
        { name: "", cell: (t) => canWrite && t["id"] && el("button", { class: "small", on: { click: () => remove(t) } }, "Remove"), isFigure: true },
      ],
    });
    const setCard = card("Package sets", [el("p", { class: "dim" }, "Made when a sandbox asks for packages. Sandboxes that ask for the same ones start from them."), sets.node]);
    const builds = el("div", { class: "stack" });
    const place = el("div", {}, loading());
    const buildCard = card("Builds", builds);
    let isAnyGoing = false;

    function remove(t: Json): void {
      confirm(`Remove the template ${t["name"]}?`, "Refused while a sandbox runs on it or keeps files over it.", "Remove", async () => {
        await ctx.cloche.deleteTemplate(t["id"]);
        again();
      });
    }

    function buildRow(b: Json): HTMLElement {
      const p = b["progress"] as Json | null;
      const took = b["ended_us"] && b["started_us"] ? `took ${span((b["ended_us"] - b["started_us"]) / 1000)}` : "";
      const words = isGoing(b) && p ? [p["doing"], p["left_ms"] ? `about ${span(p["left_ms"])} left` : "", p["bytes_total"] ? `${bytes(p["bytes_done"])} of ${bytes(p["bytes_total"])}` : ""] : [b["cached"] && b["state"] === "ready" ? "nothing had to be built" : took, b["error"]?.["message"]];
      return el(
        "div",
        { class: "build", data: { build: b["id"], state: b["state"] } },
        el("strong", {}, b["name"]),
        el("span", { class: `badge ${BUILD_LOOKS[b["state"]] ?? ""}` }, b["state"]),
        el("span", { class: "dim grow" }, words.filter(Boolean).join(" · ")),
        relativeTime(b["created_us"]),
        el("button", { class: "small", on: { click: () => showLog(ctx, b) } }, "Log"),
        isGoing(b) && canWrite ? el("button", { class: "small danger", on: { click: () => void ctx.cloche.cancelBuild(b["id"]).then(again) } }, "Cancel") : null,
        isGoing(b) && p ? bar(p["fraction"], `step ${p["index"] + 1} of ${p["count"]}`) : null,
      );
    }

    async function show(): Promise<void> {
      try {
        const [all, made] = await Promise.all([ctx.cloche.templates(), ctx.cloche.builds()]);
        if (ctx.signal.aborted) return;
        templates.show(all.filter((t) => !isPackageSet(t)));
        sets.show(all.filter(isPackageSet));
        setCard.hidden = !all.some(isPackageSet);
        if (!templates.node.isConnected) replace(place, el("div", { class: "stack" }, buildCard, el("section", { class: "card flush" }, templates.node), setCard));
        replace(builds, made.length ? made.slice(0, 10).map(buildRow) : empty("No builds yet", "A build makes a template once, from this host's own package archives; sandboxes then start from it in milliseconds.", ["Press Build a template, or run ", el("code", {}, "cloche template build python"), "."]));
        isAnyGoing = made.some(isGoing);
      } catch (error) {
        if (!ctx.signal.aborted) replace(place, failure(error, again));
      }
    }

    const make = el("button", { class: "primary", on: { click: () => startBuild(ctx, () => again()) } }, "Build a template");
    make.hidden = !canWrite;
    replace(root, pageHead("Templates", make), place);
    const again = ctx.live.keep(show, (entry) => /^(build|template|sandbox)\./.test(entry.type), ctx.signal);
    ctx.live.onFigures(() => isAnyGoing && again(), ctx.signal); // how far it is, is no event
    return () => undefined;
  },
};
