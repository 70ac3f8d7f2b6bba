// SPDX-License-Identifier: Apache-2.0
/** Secrets of the login's project. A value goes from its field to the daemon, and is nowhere on the page again. */
import type { ClocheError } from "../../../sdk/typescript/src/index.js";
import type { Json, Page } from "../page.js";
import { type Child, confirm, copyable, dialog, el, empty, failure, field, FieldProblem, loading, pageHead, relativeTime, replace, sentence, table, tell, toast } from "../ui/index.js";

const referenceTo = (name: string): string => `secret://${name}`;
const guide = (word: string): HTMLElement => el("a", { href: "/docs/guides/secrets", target: "_blank" }, word);

function state(s: Json): Child {
  if (!s["locked"]) return el("span", { class: "badge good" }, "ready");
  return [el("span", { class: "badge bad" }, "locked"), el("div", {}, el("small", { class: "dim" }, "The key that sealed it is not in the daemon's key file. Put that file back, or set the value again."))];
}

/** A field of one line would drop the ends of lines without a word, and keep a value that is none. */
function valueInput(): HTMLInputElement {
  const input = el("input", {
    type: "password",
    name: "value",
    required: true,
    autocomplete: "new-password",
    spellcheck: "false",
    on: {
      input: () => input.setCustomValidity(""),
      paste: (event) => {
        if (!/[\r\n]/.test(event.clipboardData?.getData("text").trim() ?? "")) return;
        event.preventDefault();
        input.setCustomValidity("This has more than one line. Set it with: cloche secret set NAME < FILE");
        input.reportValidity();
      },
    },
  });
  return input;
}

function hostsField(hosts: readonly string[]): HTMLElement {
  const input = el("input", { name: "hosts", value: hosts.join(" "), placeholder: "any host", autocomplete: "off", spellcheck: "false" });
  return field("Hosts", input, "Such as api.example.com or *.example.com. With hosts, it is sent only to these, and put into no environment. Without, anybody who makes sandboxes can send it anywhere.", "hosts");
}

const hostsOf = (form: FormData): string[] => String(form.get("hosts")).split(/[\s,]+/).filter(Boolean);

export const page: Page = {
  title: "Secrets",
  mount(root, ctx) {
    const isAdmin = ctx.who.key.scope === "admin";
    const place = el("div", {}, loading());
    let all: Json[] = [];
    const actions = (name: string): Child => [el("button", { class: "small", on: { click: () => giveValue(name) } }, "New value"), " ", el("button", { class: "small danger", on: { click: () => remove(name) } }, "Remove")];
    const secrets = table<Json>({
      label: "Secrets",
      key: (s) => s["name"],
      sort: { column: "Name" },
      columns: [
        { name: "Name", by: (s) => s["name"], cell: (s) => el("strong", {}, s["name"]) },
        { name: "State", by: (s) => (s["locked"] ? 0 : 1), cell: state },
        { name: "Refer to it as", cell: (s) => el("code", {}, referenceTo(s["name"])), isExtra: true },
        { name: "Goes to", cell: (s) => (s["hosts"] as string[]).join(", ") || el("span", { class: "dim" }, "any host") },
        { name: "Version", by: (s) => s["version"], cell: (s) => s["version"], isFigure: true },
        { name: "Changed", by: (s) => s["changed_us"], cell: (s) => relativeTime(s["changed_us"]), isFigure: true },
        ...(isAdmin ? [{ name: "", cell: (s: Json) => actions(s["name"]), isFigure: true }] : []),
      ],
    });

    async function keep(name: string, form: FormData, told: string): Promise<void> {
      await ctx.cloche.setSecret(name, String(form.get("value")), { hosts: hostsOf(form) });
      tell(`The secret ${name} is kept`, [el("p", {}, told), copyable("Reference", referenceTo(name), "reference")]);
      await show();
    }

    function makeSecret(): void {
      dialog({
        title: "New secret",
        action: "Keep",
        body: [
          field("Name", el("input", { name: "name", required: true, autocomplete: "off", spellcheck: "false" }), "Letters, digits, _ and -, such as EXAMPLE_KEY.", "name"),
          field("Value", valueInput(), "One line. It is not shown again, here or anywhere.", "value"),
          hostsField([]),
        ],
        run: async (form) => {
          const name = String(form.get("name"));
          if (all.some((s) => s["name"] === name)) throw new FieldProblem("name", "There is a secret of this name. To replace its value, press New value in its row.");
          await keep(name, form, "Write this where the value would stand:");
        },
      });
    }

    function giveValue(name: string): void {
      dialog({
        title: `New value of ${name}`,
        action: "Keep",
        body: [field("Value", valueInput(), "The old value is gone then. Sandboxes that run send the new one at once.", "value"), hostsField(all.find((s) => s["name"] === name)?.["hosts"] ?? [])],
        run: (form) => keep(name, form, "The new value is in force. References to it stay the same:"),
      });
    }

    async function removeNow(name: string, force: boolean): Promise<void> {
      await ctx.cloche.deleteSecret(name, { force });
      toast(`The secret ${name} is removed`);
      await show();
    }

    function remove(name: string): void {
      confirm(`Remove the secret ${name}?`, "Its value is gone then. New sandboxes that refer to it are refused.", "Remove", async () => {
        try {
          await removeNow(name, false);
        } catch (error) {
          if ((error as ClocheError).code !== "conflict") throw error;
          removeUsed(name, error as ClocheError);
        }
      });
    }

    /** The second question: what the first did not know. */
    function removeUsed(name: string, refusal: ClocheError): void {
      const body = [el("p", {}, `It is in use: ${sentence(refusal)}.`), el("p", {}, "These sandboxes go on, but what those rules allow is denied, until a secret of this name is set again.")];
      confirm(`Remove ${name} all the same?`, body, "Remove it though it is in use", () => removeNow(name, true));
    }

    function nothingYet(): HTMLElement {
      return empty(
        "No secrets yet",
        ["Keep a password or a key for another service here, and write its name in network policies: the value is added to requests outside the sandbox, where code cannot read it. ", guide("The guide"), " has examples."],
        isAdmin ? ["Press New secret, or run ", el("code", {}, "cloche secret set NAME"), "."] : "Ask an admin of the project to set one.",
      );
    }

    async function show(): Promise<void> {
      try {
        all = await ctx.cloche.secrets();
        if (ctx.signal.aborted) return;
        secrets.show(all);
        replace(place, all.length ? el("section", { class: "card flush gap" }, secrets.node) : nothingYet());
      } catch (error) {
        if (!ctx.signal.aborted) replace(place, failure(error, again));
      }
    }

    const head = pageHead("Secrets", isAdmin && el("button", { class: "primary", on: { click: makeSecret } }, "New secret"));
    const lead = el("p", { class: "dim" }, `Of the project ${ctx.who.project.name}. Values cannot be read back. `, guide("About secrets"));
    const why = el("p", { data: { what: "why" } }, `You can see these names, and use them in sandboxes. Only keys with scope admin set and remove secrets; yours has scope ${ctx.who.key.scope}.`);
    replace(root, head, lead, !isAdmin && why, place);
    const again = ctx.live.keep(show, (entry) => /^secret\./.test(entry.type), ctx.signal);
    return () => undefined;
  },
};
