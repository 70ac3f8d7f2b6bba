// SPDX-License-Identifier: Apache-2.0
/** Keys and quotas of a project; admins of `default` choose which. */
import type { Json, Page } from "../page.js";
import { bar, bytes, card, confirm, copyable, dialog, el, empty, failure, field, loading, money, pageHead, relativeTime, replace, table, tell, toast } from "../ui/index.js";

const MIB = 1024 * 1024;
const LIMITS: readonly [string, string, (value: number) => string][] = [
  ["sandboxes", "Sandboxes at once", String],
  ["vcpus", "CPUs", String],
  ["memory_mib", "Memory", (v) => bytes(v * MIB)],
  ["disk_mib", "Disk", (v) => bytes(v * MIB)],
  ["creates_per_minute", "Creates per minute", String],
  ["budget", "Monthly budget", (v) => money(v)],
];

function quotaList(quota: Json): HTMLElement {
  return el(
    "div",
    { class: "quotas" },
    LIMITS.map(([name, word, format]) => {
      const [limit, now] = [quota["limits"][name], Number(quota["current"][name])];
      const isLimited = limit !== "unlimited";
      return el(
        "div",
        { class: "quota", data: { quota: name } },
        el("div", { class: "row" }, el("span", {}, word), el("span", { class: "dim" }, isLimited ? `${format(now)} of ${format(Number(limit))}` : `${format(now)}, no limit`)),
        isLimited ? bar(now / Math.max(Number(limit), 1e-9), word) : el("div", { class: "bar" }),
      );
    }),
  );
}

export const page: Page = {
  title: "Keys",
  mount(root, ctx) {
    const place = el("div", {}, loading());
    if (ctx.who.key.scope !== "admin") {
      replace(root, pageHead("Keys and quotas"), place);
      const show = async (): Promise<void> => {
        try {
          const quota = await ctx.cloche.quota();
          replace(place, el("div", { class: "stack" }, card("Quota of the project", quotaList(quota)), empty("Only admins can manage keys", "The key that you logged in with can neither see nor make keys.", "Ask an admin of the project for one.")));
        } catch (error) {
          if (!ctx.signal.aborted) replace(place, failure(error, () => void show()));
        }
      };
      void show();
      return () => undefined;
    }

    let project = ctx.who.project.id;
    const options = (): { project?: string } => (ctx.who.isHostAdmin ? { project } : {});
    const chooser = el("select", { "aria-label": "Project", on: { change: () => ((project = chooser.value), (remove.hidden = project === ctx.who.project.id), replace(place, loading()), again()) } });
    chooser.hidden = true;
    const remove = el("button", { class: "danger", on: { click: () => removeProject() } }, "Remove project");
    remove.hidden = true;
    const keys = table<Json>({
      label: "Keys",
      key: (k) => k["id"],
      sort: { column: "Made", isDown: true },
      columns: [
        { name: "Name", by: (k) => k["name"], cell: (k) => [k["name"], k["id"] === ctx.who.key.id ? el("small", { class: "dim" }, " this login's") : null] },
        { name: "Scope", by: (k) => k["scope"], cell: (k) => el("span", { class: "badge" }, k["scope"]) },
        { name: "Id", cell: (k) => el("code", {}, k["id"]), isExtra: true },
        { name: "Last used", by: (k) => k["used_us"] ?? 0, cell: (k) => (k["used_us"] ? relativeTime(k["used_us"]) : "never"), isFigure: true },
        { name: "Made", by: (k) => k["created_us"], cell: (k) => relativeTime(k["created_us"]), isFigure: true },
        { name: "", cell: (k) => [el("button", { class: "small", on: { click: () => void keyQuota(k) } }, "Quota"), " ", el("button", { class: "small danger", on: { click: () => revoke(k) } }, "Revoke")], isFigure: true },
      ],
    });

    function makeKey(): void {
      dialog({
        title: "New key",
        action: "Make",
        body: [
          field("Name", el("input", { name: "name", required: true, maxlength: 64, autocomplete: "off" })),
          field("Scope", el("select", { name: "scope" }, ["write", "read", "admin"].map((s) => el("option", { value: s }, s))), "read can look, write can use sandboxes, admin can also manage keys and quotas"),
        ],
        run: async (form) => {
          const made = await ctx.cloche.createKey(String(form.get("name")), { scope: form.get("scope") as "read", ...options() });
          tell(`The key ${made["name"]}`, [el("p", {}, "Copy it now: it is shown only this once."), copyable("Secret", made["secret"], "secret")]);
          await show();
        },
      });
    }

    function revoke(k: Json): void {
      confirm(`Revoke the key ${k["name"]}?`, "Calls with this key are refused from now on, and logins with it end.", "Revoke", async () => {
        await ctx.cloche.revokeKey(k["id"], options());
        toast("The key is revoked");
        await show();
      });
    }

    function editQuota(title: string, quota: Json, save: (limits: Json) => Promise<Json>): void {
      dialog({
        title,
        action: "Set",
        body: LIMITS.map(([name, word]) => field(word + (name.endsWith("_mib") ? " (MiB)" : ""), el("input", { name, value: quota["limits"][name] === "unlimited" ? "" : quota["limits"][name], placeholder: "unlimited", inputmode: "decimal", autocomplete: "off" }))),
        run: async (form) => {
          const limits: Json = {};
          for (const [name] of LIMITS) {
            const text = String(form.get(name)).trim();
            limits[name] = text === "" ? "unlimited" : name === "budget" ? text : Number(text);
          }
          await save(limits);
          toast("The quota is in force");
          await show();
        },
      });
    }

    async function keyQuota(k: Json): Promise<void> {
      const quota = await ctx.cloche.quota({ key: k["id"], ...options() });
      editQuota(`Quota of the key ${k["name"]}`, quota, (limits) => ctx.cloche.setQuota(limits, { key: k["id"], ...options() }));
    }

    async function show(): Promise<void> {
      try {
        const [all, quota] = await Promise.all([ctx.cloche.keys(options()), ctx.who.isHostAdmin ? ctx.cloche.quota({ project }) : ctx.cloche.quota()]);
        if (ctx.signal.aborted) return;
        keys.show(all);
        const edit = el("button", { class: "small", on: { click: () => editQuota("Quota of the project", quota, (limits) => ctx.cloche.setQuota(limits, { project })) } }, "Change");
        edit.hidden = !ctx.who.isHostAdmin;
        replace(place, el("div", { class: "stack" }, card("Quota of the project", quotaList(quota), edit), el("section", { class: "card flush" }, keys.node)));
      } catch (error) {
        if (!ctx.signal.aborted) replace(place, failure(error, () => void show()));
      }
    }

    async function listProjects(): Promise<void> {
      const all = await ctx.cloche.projects();
      replace(chooser, all.map((p) => el("option", { value: p["id"], selected: p["id"] === project }, p["name"])));
      chooser.hidden = all.length < 2;
      remove.hidden = project === ctx.who.project.id;
    }

    const newProject = el(
      "button",
      {
        on: {
          click: () =>
            dialog({
              title: "New project",
              action: "Make",
              body: field("Name", el("input", { name: "name", required: true, maxlength: 64, autocomplete: "off" }), "It has its own sandboxes, keys, templates and usage."),
              run: async (form) => {
                project = (await ctx.cloche.createProject(String(form.get("name"))))["id"];
                await listProjects();
                await show();
              },
            }),
        },
      },
      "New project",
    );
    newProject.hidden = !ctx.who.isHostAdmin;

    function removeProject(): void {
      const name = chooser.selectedOptions[0]?.textContent ?? project;
      confirm(`Remove the project ${name}?`, "Its keys, webhooks and quotas go with it. It is refused while it has sandboxes, volumes, snapshots or templates.", "Remove", async () => {
        await ctx.cloche.deleteProject(project);
        project = ctx.who.project.id;
        toast("The project is removed");
        await listProjects();
        await show();
      });
    }
    replace(root, pageHead("Keys and quotas", chooser, remove, newProject, el("button", { class: "primary", on: { click: makeKey } }, "New key")), place);
    const again = ctx.live.keep(show, (entry) => /^(key\.(created|revoked)|quota\.)/.test(entry.type), ctx.signal);
    if (ctx.who.isHostAdmin) ctx.live.keep(() => listProjects().catch(() => undefined), (entry) => /^project\./.test(entry.type), ctx.signal);
    return () => undefined;
  },
};
