// SPDX-License-Identifier: Apache-2.0
/**
 * Code that is typed here and runs in the sandbox: a cell, and what came of each run, the newest first. The interpreter keeps
 * its state from run to run. What was typed is kept by this tab alone: it may hold secrets.
 */
import { ConnectionFailed, type ContextInfo, type Language } from "../../../../sdk/typescript/src/index.js";
import { dialog, el, field, replace, span, toast, toastError, words } from "../../ui/index.js";
import type { Box } from "./box.js";
import { missingModule, missingNode, takeCode } from "./missing.js";
import { action, type Panel, whileRunning } from "./panel.js";
import { errorNode, resultNode } from "./result.js";
import { Screen } from "./screen.js";

const HISTORY_MAX = 100;
const RUNS_MAX = 50;

const LANGUAGES: readonly [Language, string][] = [
  ["python", "Python"],
  ["javascript", "JavaScript"],
  ["typescript", "TypeScript"],
  ["bash", "Bash"],
  ["r", "R"],
  ["java", "Java"],
];

/** All but that with matplotlib (templates universal, python-datasci) run wherever the language is. */
const EXAMPLES: readonly [string, Language, string][] = [
  [
    "Draw a plot",
    "python",
    `import math

class Curve:
    def _repr_svg_(self):
        points = " ".join(f"{x},{60 - 50 * math.sin(x / 20) * math.exp(-x / 160):.1f}" for x in range(400))
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="120"><polyline points="{points}" fill="none" stroke="teal" stroke-width="2"/></svg>'

Curve()`,
  ],
  [
    "Draw a plot with matplotlib",
    "python",
    `import math
import matplotlib.pyplot as plt

x = [i / 20 for i in range(200)]
plt.plot(x, [math.sin(v) * math.exp(-v / 6) for v in x])
plt.title("A swing that dies away")
plt.show()`,
  ],
  ["Keep a variable", "python", `try:\n    count += 1\nexcept NameError:\n    count = 1\nf"run number {count}"`],
  ["What is in here", "bash", `id\nuname -sr\ndf -h / | tail -1\nfree -m | head -2`],
  ["Ask Node", "javascript", `const squares = Array.from({ length: 5 }, (_, i) => i * i);\nconsole.log(process.version);\nsquares`],
];

interface Kept {
  code: string;
  language: Language;
}

function historyOf(box: Box): { list: Kept[]; add(one: Kept): void } {
  const name = `cloche.code.${box.id}`;
  let list: Kept[] = [];
  try {
    list = JSON.parse(sessionStorage.getItem(name) ?? "[]") as Kept[];
  } catch {
    // what cannot be read is no history
  }
  return {
    list,
    add(one) {
      const last = list[list.length - 1];
      if (last?.code === one.code && last.language === one.language) return;
      list.push(one);
      if (list.length > HISTORY_MAX) list.shift();
      try {
        sessionStorage.setItem(name, JSON.stringify(list));
      } catch {
        // no room: it is only a convenience
      }
    },
  };
}

/** A text field for code: Tab indents, Shift+Enter runs, and the arrows leave it into the history at its first and last line. */
function editor(onRun: () => void, onHistory: (step: -1 | 1) => boolean): HTMLTextAreaElement {
  const area = el("textarea", { class: "code-input", rows: "7", spellcheck: "false", autocomplete: "off", wrap: "off", "aria-label": "Code", placeholder: "Type code. Shift+Enter runs it." });
  let leavesByTab = false; // behind Escape, so that the keyboard can go on to what comes next
  area.addEventListener("keydown", (event) => {
    const { selectionStart: at, selectionEnd: end, value } = area;
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onRun();
    } else if (event.key === "Escape") {
      leavesByTab = true;
      event.stopPropagation();
    } else if (event.key === "Tab" && !leavesByTab && !event.shiftKey) {
      event.preventDefault();
      area.setRangeText("    ", at, end, "end");
    } else if (event.key === "Enter" && at === end) {
      const line = value.slice(value.lastIndexOf("\n", at - 1) + 1, at);
      const indent = /^[ \t]*/.exec(line)![0] + (/[:{([]\s*$/.test(line) ? "    " : "");
      if (!indent) return;
      event.preventDefault();
      area.setRangeText(`\n${indent}`, at, end, "end");
    } else if (event.key === "ArrowUp" && at === end && !value.slice(0, at).includes("\n")) {
      if (onHistory(-1)) event.preventDefault();
    } else if (event.key === "ArrowDown" && at === end && !value.slice(at).includes("\n")) {
      if (onHistory(1)) event.preventDefault();
    }
    if (event.key !== "Escape" && event.key !== "Tab") leavesByTab = false;
  });
  return area;
}

/** What was run and what is being typed outlives the panel: another may be looked at meanwhile. */
interface Desk {
  runs: HTMLElement;
  draft: string;
}
const desks = new WeakMap<Box, Desk>();

function deskOf(box: Box): Desk {
  let desk = desks.get(box);
  if (!desk) {
    const nothing = el("p", { class: "dim code-nothing" }, "What your code prints, draws and gives back appears here. Variables stay from run to run.");
    desk = { runs: el("div", { class: "code-runs", "aria-live": "polite" }, nothing), draft: "" };
    desks.set(box, desk);
  }
  return desk;
}

function mountCell(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const history = historyOf(box);
  let place = history.list.length;
  let draft = "";
  let contexts: ContextInfo[] = [];

  const language = el("select", { "aria-label": "Language" }, LANGUAGES.map(([value, name]) => el("option", { value }, name)));
  const context = el("select", { "aria-label": "Context" });
  const examples = el("select", { "aria-label": "Examples" }, el("option", { value: "" }, "Examples…"), EXAMPLES.map(([name], i) => el("option", { value: String(i) }, name)));
  const run = el("button", { type: "button", class: "primary", data: { act: "run" }, on: { click: () => void start() } }, "Run");
  const area = editor(() => void start(), recall);
  const desk = deskOf(box);
  const { runs } = desk;

  function recall(step: -1 | 1): boolean {
    const next = place + step;
    if (next < 0 || next > history.list.length) return false;
    if (place === history.list.length) draft = area.value;
    place = next;
    const kept = history.list[place];
    area.value = kept ? kept.code : draft;
    if (kept && !context.value) language.value = kept.language;
    return true;
  }

  function drawContexts(): void {
    const was = context.value;
    const named = contexts.filter((c) => !LANGUAGES.some(([l]) => l === c.name));
    replace(context, el("option", { value: "" }, "default context"), named.map((c) => el("option", { value: c.name }, `${c.name} (${c.language})`)), el("option", { value: "+" }, "new context…"));
    context.value = named.some((c) => c.name === was) ? was : "";
    fitLanguage();
  }
  function fitLanguage(): void {
    const of = contexts.find((c) => c.name === context.value);
    if (of) language.value = of.language;
    language.disabled = of !== undefined;
  }
  async function listContexts(): Promise<void> {
    try {
      contexts = await box.sandbox.contexts.list();
      if (!signal.aborted) drawContexts();
    } catch {
      // the default contexts need no list
    }
  }

  function newContext(): void {
    context.value = "";
    const name = el("input", { name: "name", required: true, maxlength: "63" });
    const which = el("select", { name: "language" }, LANGUAGES.map(([value, word]) => el("option", { value }, word)));
    which.value = language.value;
    dialog({
      title: "A new context",
      body: [el("p", { class: "dim" }, "An interpreter with variables of its own, beside the others."), field("Name", name, "Small letters, digits and hyphens."), field("Language", which)],
      action: "Make it",
      run: async (form) => {
        const made = await box.sandbox.contexts.create({ name: String(form.get("name")), language: String(form.get("language")) as Language });
        contexts = [...contexts, made];
        drawContexts();
        context.value = made.name;
        fitLanguage();
        area.focus();
      },
    });
  }

  async function start(): Promise<void> {
    const code = area.value;
    if (!code.trim() || run.disabled) return;
    history.add({ code, language: language.value as Language });
    place = history.list.length;
    draft = "";
    runs.querySelector(".code-nothing")?.remove();
    run.disabled = true;
    try {
      await runOnce(box, runs, code, language.value as Language, context.value || undefined, (again) => {
        area.value = again;
        area.focus();
      });
    } finally {
      run.disabled = false;
      loadContexts();
    }
  }

  examples.addEventListener("change", () => {
    const example = EXAMPLES[Number(examples.value)];
    examples.value = "";
    if (!example) return;
    context.value = "";
    fitLanguage();
    [, language.value, area.value] = example;
    area.focus();
  });
  context.addEventListener("change", () => (context.value === "+" ? newContext() : fitLanguage()));
  const interpreter = (): string => context.value || language.value;
  const more = el(
    "div",
    { class: "code-bar" },
    language,
    context,
    examples,
    el("span", { class: "grow" }),
    action("Interrupt", () => box.sandbox.contexts.interrupt(interpreter()), { title: "Interrupts what runs, and keeps the variables" }),
    action("Restart", () => box.sandbox.contexts.restart(interpreter()).then(() => toast("A fresh interpreter")), { title: "A fresh interpreter: the variables are gone" }),
    run,
  );
  root.append(el("div", { class: "card code-cell" }, more, area, el("p", { class: "dim code-hint" }, el("kbd", {}, "Shift"), el("kbd", {}, "Enter"), "runs, ", el("kbd", {}, "↑"), "brings back what ran before")), runs);
  area.value = desk.draft;
  signal.addEventListener("abort", () => (desk.draft = area.value));
  drawContexts();
  const loadContexts = box.keep(listContexts, (entry) => entry.type.startsWith("context."), signal);
  if (box.givesFocus) area.focus({ preventScroll: true });
  const brought = takeCode(box.id);
  if (brought === undefined) return;
  area.value = brought;
  void start();
}

/** Shows one run from its beginning to its end. */
async function runOnce(box: Box, runs: HTMLElement, code: string, language: Language, context: string | undefined, reuse: (code: string) => void): Promise<void> {
  const body = el("div", { class: "run-body" });
  const state = el("span", { class: "badge warn", data: { field: "status" } }, "running");
  const source = el("pre", { class: "run-code" }, code);
  const node = el(
    "article",
    { class: "card run", data: { run: "" } },
    el("header", {}, el("span", { class: "run-name" }, context ?? language), state, el("span", { class: "grow" }), el("button", { type: "button", class: "small", on: { click: () => reuse(code) } }, "Edit again")),
    source,
    body,
  );
  runs.prepend(node);
  while (runs.childElementCount > RUNS_MAX) runs.lastElementChild!.remove();

  let screen: Screen | undefined;
  const write = (stream: "stdout" | "stderr") => (text: string) => {
    if (!screen) {
      screen = new Screen("Output of the run");
      body.appendChild(screen.node);
    }
    screen.write(text, stream);
  };
  try {
    const done = await box.sandbox.runCode(code, {
      ...(context ? { context } : { language }),
      onStdout: write("stdout"),
      onStderr: write("stderr"),
      onResult: (result) => {
        screen = undefined; // what is printed from here on stands below it
        body.appendChild(resultNode(result));
      },
      signal: box.ctx.signal,
    });
    if (done.error) {
      const module = done.error.name === "ModuleNotFoundError" ? missingModule(done.error.message) : undefined;
      body.appendChild(errorNode(done.error, module && missingNode(box, module, code)));
    }
    const isFine = done.status === "ok";
    state.className = `badge ${isFine ? "good" : "bad"}`;
    state.textContent = `${done.cause ?? done.status} · ${span(done.wallUs / 1000)}`;
    state.dataset["status"] = done.status;
    if (done.restarted) body.prepend(el("p", { class: "dim" }, "The interpreter had ended and was started again: earlier variables are gone."));
    if (isFine && !body.hasChildNodes()) body.appendChild(el("p", { class: "dim" }, "No output."));
  } catch (error) {
    if (box.ctx.signal.aborted) return;
    state.className = "badge bad";
    state.textContent = error instanceof ConnectionFailed ? "connection lost" : "failed";
    const more = error instanceof ConnectionFailed ? " The code goes on in the sandbox, but what it prints from now on is not shown." : "";
    body.appendChild(el("div", { class: "result-error", role: "alert" }, words(error) + more));
    if (!(error instanceof ConnectionFailed)) toastError(error);
  }
}

export const codePanel: Panel = {
  id: "code",
  title: "Code",
  mount(root, box, signal) {
    if (!box.mayWrite) {
      root.append(el("div", { class: "state empty" }, el("strong", {}, "This key can only read"), el("div", {}, "To run code, log in with a key of scope write.")));
      return;
    }
    whileRunning(root, box, signal, "Code runs", (inner, end) => mountCell(inner, box, end));
  },
};
