// SPDX-License-Identifier: Apache-2.0
/**
 * The form for a new sandbox: what most people choose is in sight, the rest is folded away. A field has the API's name, so that
 * what the daemon says about it stands beside it.
 */
import type { Context, Json } from "../page.js";
import { Sandbox } from "../../../sdk/typescript/src/index.js";
import { type Child, FieldProblem, dialog, el, field, isToStartFrom, replace, sandboxPath } from "../ui/index.js";

const MINUTE_MS = 60_000;
/** What each engine is, and the doctor's checks without which it does not run. */
const ENGINES: readonly { name: string; about: string; needs: readonly string[] }[] = [
  { name: "jail", about: "processes behind walls of this host's kernel", needs: [] },
  { name: "vm", about: "a machine with a kernel of its own", needs: ["qemu", "guest_kernel"] },
];
const ENDS: readonly [string, string][] = [
  ["", "delete, or stop if files are kept"],
  ["delete", "delete it"],
  ["stop", "stop it and keep its files"],
  ["pause", "pause it"],
];

async function fillTemplates(ctx: Context, select: HTMLSelectElement): Promise<void> {
  const [found, builds] = await Promise.all([ctx.cloche.templates(), ctx.cloche.builds()]);
  const all = found.filter(isToStartFrom);
  const coming = builds.filter((b) => isToStartFrom(b) && (b["state"] === "queued" || b["state"] === "running") && !all.some((t) => t["name"] === b["name"]));
  select.append(...all.map((t) => el("option", { value: t["name"] }, t["name"])), ...coming.map((b) => el("option", { disabled: true }, `${b["name"]} (being built)`)));
}

/** Why this host does not give an engine, and how to get it. Only admins of the host may ask the doctor. */
function whyNot(name: string, needs: readonly string[], doctor: Json | undefined): Child {
  const missing = ((doctor?.["checks"] ?? []) as Json[]).filter((c) => needs.includes(c["name"]) && !c["present"]);
  if (!doctor) return `${name} cannot be chosen: this host does not offer it. Ask its admin.`;
  if (!missing.length) return [`${name} cannot be chosen: see what the page `, el("a", { href: "/host" }, "Host"), " says, and the setting `engines`."];
  return [`${name} cannot be chosen: `, missing.map((c, i) => [i ? "; " : "", `${String(c["name"]).replaceAll("_", " ")} is missing`, c["remedy"] ? [", get it with ", el("code", {}, c["remedy"])] : null]), "."];
}

/** What an engine that is there gives. */
function gives(about: string, grade: string): string {
  return grade === "emulated" ? `${about}; slow, since this host has no KVM` : `${about} (${grade} grade)`;
}

async function fillEngines(ctx: Context, select: HTMLSelectElement, hints: HTMLElement): Promise<void> {
  const health = await ctx.cloche.health();
  const there = (health["engines"] ?? []) as Json[];
  const isShort = ENGINES.some((e) => !there.some((t) => t["engine"] === e.name));
  const doctor = isShort && ctx.who.isHostAdmin ? await ctx.cloche.doctor().catch(() => undefined) : undefined;
  const lines: Child[] = [];
  for (const { name, about, needs } of ENGINES) {
    const found = there.find((t) => t["engine"] === name);
    select.append(el("option", { value: name, disabled: !found }, found ? `${name}: ${gives(about, found["grade"])}` : `${name} (not on this host)`));
    if (!found) lines.push(el("span", {}, whyNot(name, needs, doctor)));
  }
  replace(hints, lines);
}

function lines(text: FormDataEntryValue | null): string[] {
  return String(text ?? "")
    .split("\n")
    .map((l) => l.trim())
    .filter(Boolean);
}

/** NAME=VALUE, one a line; blanks at the end of a value are its own. */
function pairs(name: string, text: FormDataEntryValue | null): Record<string, string> | undefined {
  const rows = String(text ?? "").split("\n").filter((l) => l.trim());
  const all = rows.map((row): [string, string] => {
    const at = row.indexOf("=");
    if (at < 1) throw new FieldProblem(name, `write "${row.trim().slice(0, 60)}" as NAME=VALUE`);
    return [row.slice(0, at).trim(), row.slice(at + 1).replace(/\r$/, "")];
  });
  return all.length ? Object.fromEntries(all) : undefined;
}

function number(form: FormData, name: string): number | undefined {
  const text = String(form.get(name) ?? "").trim();
  if (!text) return undefined;
  if (!/^[0-9]*\.?[0-9]+$/.test(text)) throw new FieldProblem(name, `"${text.slice(0, 30)}" is not a number`);
  return Number(text);
}

function minutes(form: FormData, name: string): number | undefined {
  const value = number(form, name);
  return value === undefined ? undefined : Math.round(value * MINUTE_MS);
}

function rules(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw new FieldProblem("network", 'the rules are not JSON; a policy looks like {"rules": [{"match": {"domains": ["example.com"]}, "action": "allow"}]}');
  }
}

function network(form: FormData): Json | string | undefined {
  const kind = String(form.get("network"));
  if (kind === "names") {
    const names = lines(form.get("names"));
    if (!names.length) throw new FieldProblem("network", "say which names and ranges it may reach, one on each line");
    return { allow: names };
  }
  return kind === "rules" ? rules(String(form.get("rules"))) : kind;
}

function word(form: FormData, name: string): string | undefined {
  return String(form.get(name) ?? "").trim() || undefined;
}

/** The text fields of a network policy are there when it is one that needs them. */
function networkField(): Child[] {
  const names = el("textarea", { name: "names", rows: 3, spellcheck: "false", class: "mono", placeholder: "pip\napi.example.com\n203.0.113.0/24", "aria-label": "Names and ranges, one on each line" });
  const policy = el("textarea", { name: "rules", rows: 6, spellcheck: "false", class: "mono", placeholder: '{"rules": [{"match": {"domains": ["api.example.com"], "methods": ["GET"]}, "action": "allow"}]}', "aria-label": "Policy as JSON" });
  const choice = el(
    "select",
    { name: "network", on: { change: () => show() } },
    [
      ["deny-all", "nothing (deny-all)"],
      ["allow-all", "the public internet (allow-all)"],
      ["names", "these names and ranges"],
      ["rules", "a policy with rules, as JSON"],
    ].map(([value, label]) => el("option", { value }, label)),
  );
  const hint = el("small", {}, "The names pip, npm and apt open the hosts of their packages. Private addresses stay closed unless a range names them. ", el("a", { href: "/docs/network", target: "_blank" }, "About policies"));
  function show(): void {
    names.hidden = choice.value !== "names";
    policy.hidden = choice.value !== "rules";
  }
  show();
  return [el("div", { class: "field whole", data: { field: "network" } }, el("label", { class: "field" }, el("span", {}, "It may reach"), choice), names, policy, hint)];
}

function text(name: string, placeholder: string, more: Record<string, string | number> = {}): HTMLInputElement {
  return el("input", { name, placeholder, autocomplete: "off", ...more });
}

function figure(name: string, placeholder: string): HTMLInputElement {
  return text(name, placeholder, { inputmode: "decimal" });
}

function fold(title: string, ...children: Child[]): HTMLElement {
  return el("details", { class: "fold whole" }, el("summary", {}, title), el("div", { class: "form-grid" }, children));
}

function choose(name: string, options: readonly [string, string][]): HTMLSelectElement {
  return el("select", { name }, options.map(([value, label]) => el("option", { value }, label)));
}

function many(name: string, rows: number, placeholder: string): HTMLTextAreaElement {
  return el("textarea", { name, rows, spellcheck: "false", class: "mono", placeholder });
}

export function newSandbox(ctx: Context): void {
  const template = el("select", { name: "template" }, el("option", { value: "" }, "the default"));
  const engine = el("select", { name: "engine" }, el("option", { value: "auto" }, "auto: the daemon chooses"));
  const engineHints = el("span", { class: "hints" });
  void fillTemplates(ctx, template).catch(() => undefined);
  void fillEngines(ctx, engine, engineHints).catch(() => undefined);
  dialog({
    title: "New sandbox",
    action: "Create",
    isWide: true,
    body: el(
      "div",
      { class: "form-grid" },
      field("Name", text("name", "none", { maxlength: 63 }), "Letters, digits and dashes; may be left out.", "name"),
      field("Template", template, "The files that it starts from.", "template"),
      el("div", { class: "field whole", data: { field: "engine" } }, el("label", { class: "field" }, el("span", {}, "Engine"), engine), el("small", {}, engineHints)),
      el(
        "div",
        { class: "form-grid three whole" },
        field("CPUs", figure("limits.vcpus", "the default"), "Such as 0.5 or 2.", "limits.vcpus"),
        field("Memory in MiB", figure("limits.memory_mib", "the default"), "Such as 512.", "limits.memory_mib"),
        field("Disk in MiB", figure("limits.disk_mib", "the default"), "That it may write.", "limits.disk_mib"),
      ),
      networkField(),
      field("Lifetime in minutes", el("input", { name: "timeout_ms", inputmode: "decimal", value: 60, autocomplete: "off" }), "Whatever it does, it ends after this time.", "timeout_ms"),
      el("label", { class: "check", data: { field: "persistent" } }, el("input", { type: "checkbox", name: "persistent" }), " Keep its files when it ends"),
      fold(
        "Packages and environment",
        field("Packages", many("packages", 3, "pandas\nnpm:zod@3\napt:jq"), "One on each line. The first sandbox with these waits until they are installed.", "packages"),
        field("Environment variables", many("env", 3, "DEBUG=1\nREGION=eu"), "NAME=VALUE, one on each line.", "env"),
      ),
      fold(
        "Timeouts",
        field("Idle timeout in minutes", figure("idle_timeout_ms", "never"), "It ends when nothing ran in it for this long.", "idle_timeout_ms"),
        field("When its lifetime is over", choose("on_timeout", ENDS), undefined, "on_timeout"),
        field("When it was idle", choose("on_idle", [["", "the same"], ...ENDS.slice(1)]), undefined, "on_idle"),
      ),
      fold(
        "Isolation, processes and tags",
        field("Weakest isolation to accept", choose("min_grade", [["", "any"], ["process", "process"], ["emulated", "emulated"], ["hardware", "hardware"]]), "The sandbox is refused if the host provides less.", "min_grade"),
        field("Processes", figure("limits.pids", "the default"), "How many it may have at once.", "limits.pids"),
        field("Tags", many("tags", 2, "team=blue"), "NAME=VALUE, one on each line: to find it by.", "tags"),
      ),
    ),
    run: async (form, tell) => {
      const packages = lines(form.get("packages"));
      const limits = { vcpus: number(form, "limits.vcpus"), memory_mib: number(form, "limits.memory_mib"), disk_mib: number(form, "limits.disk_mib"), pids: number(form, "limits.pids") };
      const wanted = {
        client: ctx.cloche,
        name: word(form, "name"),
        template: word(form, "template"),
        engine: word(form, "engine"),
        minGrade: word(form, "min_grade"),
        limits: Object.values(limits).some((v) => v !== undefined) ? limits : undefined,
        network: network(form),
        packages: packages.length ? packages : undefined,
        env: pairs("env", form.get("env")),
        tags: pairs("tags", form.get("tags")),
        lifetimeMs: minutes(form, "timeout_ms"),
        idleTimeoutMs: minutes(form, "idle_timeout_ms"),
        onTimeout: word(form, "on_timeout"),
        onIdle: word(form, "on_idle"),
        persistent: form.get("persistent") !== null,
      };
      tell(packages.length ? "Its packages are being installed, unless that was done before. The page Templates shows how far it is." : "It is being made.");
      const sandbox = await Sandbox.create(wanted as Parameters<typeof Sandbox.create>[0]);
      ctx.go(sandboxPath(sandbox.id));
    },
  });
}
