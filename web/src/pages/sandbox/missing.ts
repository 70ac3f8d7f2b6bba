// SPDX-License-Identifier: Apache-2.0
/**
 * What to do about a Python module that the sandbox lacks. Code runs where the module is: in a new sandbox, from a template
 * that has it, as soon as there is one (a build on its way is followed), or with the package that pip finds.
 */
import { Sandbox } from "../../../../sdk/typescript/src/index.js";
import type { Json } from "../../page.js";
import { bar, el, replace, sandboxPath, span, words, type Child } from "../../ui/index.js";
import type { Box } from "./box.js";
import { action } from "./panel.js";

/** The templates that come along for data work, the one that is built first in front, and what they have (guest/templates). */
const TEMPLATES = ["python-datasci", "universal"];
const MODULES = ["PIL", "bokeh", "bs4", "matplotlib", "numpy", "openpyxl", "pandas", "plotly", "pyarrow", "requests", "scipy", "seaborn", "sklearn", "sympy"];
/** Packages that are called otherwise than their modules. */
const PACKAGES: Record<string, string> = { PIL: "pillow", bs4: "beautifulsoup4", cv2: "opencv-python-headless", dateutil: "python-dateutil", dotenv: "python-dotenv", sklearn: "scikit-learn", yaml: "pyyaml" };

/** Code on its way to the page of a sandbox that was made for it; it runs as soon as it is there. */
const travelling = new Map<string, string>();

export function takeCode(sandboxId: string): string | undefined {
  const code = travelling.get(sandboxId);
  travelling.delete(sandboxId);
  return code;
}

/** The module's package, where the error tells that one is missing: the message is the sandbox's own. */
export function missingModule(message: string): string | undefined {
  return /^No module named '(\w{1,64})(\.[\w.]+)?'$/.exec(message)?.[1];
}

function isGoing(build: Json): boolean {
  return build["state"] === "queued" || build["state"] === "running";
}

export function missingNode(box: Box, module: string, code: string): HTMLElement {
  const { ctx } = box;
  const place = el("div", { class: "missing", data: { missing: module } });
  const told = el("p", { class: "dim", role: "status" });
  const isKnown = MODULES.includes(module);
  let isAnyGoing = isKnown;

  async function runElsewhere(made: { template?: string; packages?: string[] }): Promise<void> {
    replace(told, made.packages ? "Installing it: that takes a moment the first time…" : "");
    try {
      const sandbox = await Sandbox.create({ client: ctx.cloche, ...made });
      travelling.set(sandbox.id, code);
      if (!ctx.signal.aborted) ctx.go(sandboxPath(sandbox.id));
    } finally {
      replace(told);
    }
  }
  function from(template: string): Child[] {
    return ["The template ", el("strong", {}, template), " has it. ", action("Run this in a new sandbox of it", () => runElsewhere({ template }), { class: "primary small" })];
  }
  function beingBuilt(build: Json): Child[] {
    const p = build["progress"] as Json | null;
    const left = p?.["left_ms"] ? `, about ${span(p["left_ms"])} left` : "";
    const percent = `${Math.round((p?.["fraction"] ?? 0) * 100)} %`;
    return ["The template ", el("strong", {}, build["name"]), ` has it, and is being built: ${percent}${left}.`, bar(p?.["fraction"] ?? 0, percent)];
  }
  function withPackage(): Child[] {
    const name = PACKAGES[module] ?? module;
    return ["This sandbox does not have it. ", action(["Run this in a new one with pip's ", el("code", {}, name)], () => runElsewhere({ template: box.info.template, packages: [`pip:${name}`] }), { class: "small" })];
  }

  async function show(): Promise<void> {
    try {
      const [templates, builds] = isKnown ? await Promise.all([ctx.cloche.templates(), ctx.cloche.builds()]) : [[], []];
      if (ctx.signal.aborted) return;
      const ready = TEMPLATES.find((name) => templates.some((t) => t["name"] === name));
      const going = ready ? undefined : TEMPLATES.map((name) => builds.find((b) => b["name"] === name && isGoing(b))).find(Boolean);
      isAnyGoing = going !== undefined;
      replace(place, el("p", {}, ...(ready ? from(ready) : going ? beingBuilt(going) : withPackage())), told);
    } catch (error) {
      if (!ctx.signal.aborted) replace(place, el("p", { class: "dim" }, words(error)));
    }
  }
  const again = ctx.live.keep(show, (entry) => isKnown && /^(build|template)\./.test(entry.type), ctx.signal);
  ctx.live.onFigures(() => isAnyGoing && again(), ctx.signal); // how far it is, is no event
  return place;
}
