// SPDX-License-Identifier: Apache-2.0
/**
 * Commands and what they wrote: the list on one side, the output of the chosen one on the other, from its first kept byte on
 * and further as it comes. A connection that breaks goes on where it was. "Replay" plays it again at its own pace.
 */
import type { Exec, ExecEvent } from "../../../../sdk/typescript/src/index.js";
import { bytes, clock, el, empty, failure, loading, relativeTime, replace, span, toast } from "../../ui/index.js";
import type { Json } from "../../page.js";
import type { Box } from "./box.js";
import { action, commandLine, type Panel } from "./panel.js";
import { Screen } from "./screen.js";

const REPLAY_PAUSE_MAX_MS = 1000; // longer silences are made short
const EVENTS_MAX = 20_000;

/** Exit code, signal or cause, as a badge. */
export function outcome(raw: Json): HTMLElement {
  const [state, code, signal, cause] = [raw["state"], raw["exit_code"], raw["signal"], raw["cause"]];
  if (state === "starting" || state === "running") return el("span", { class: "badge warn", data: { outcome: state } }, state);
  const isOwn = cause === "exited" || cause === null || cause === undefined;
  const how = code !== null && code !== undefined ? `exit ${code}` : signal ? `signal ${signal}` : "failed";
  const text = isOwn ? how : `${cause} · ${how}`;
  return el("span", { class: `badge ${code === 0 && isOwn ? "good" : "bad"}`, data: { outcome: "over" } }, text);
}

function mountList(root: HTMLElement, box: Box, signal: AbortSignal): void {
  let execs: Exec[] = [];
  let chosen: string | undefined;
  let viewing: AbortController | undefined;
  const list = el("ul", { class: "exec-list", "aria-label": "Commands" });
  const view = el("section", { class: "card exec-view", "aria-label": "Output" });
  const command = el("input", { class: "mono grow", placeholder: "Run a command, such as ls -la", "aria-label": "Command", autocomplete: "off", spellcheck: "false" });

  function choose(exec: Exec): void {
    chosen = exec.id;
    for (const item of list.children) item.firstElementChild!.setAttribute("aria-current", String((item as HTMLElement).dataset["id"] === chosen));
    viewing?.abort();
    viewing = new AbortController();
    showExec(view, exec, box, viewing.signal);
  }

  function draw(): void {
    if (!execs.length) {
      replace(list);
      replace(view, empty("No commands yet", "Those that the SDK, the CLI or an agent runs appear here, with their output.", ["Run one: ", el("code", {}, `cloche exec ${box.id} uname -a`)]));
      return;
    }
    const sorted = [...execs].sort((a, b) => b.info.raw["created_us"] - a.info.raw["created_us"]);
    replace(list, sorted.map((exec) => itemOf(exec, exec.id === chosen, () => choose(exec))));
    const running = sorted.find((e) => e.id === chosen);
    if (!running) choose(sorted[0]!);
  }

  async function ask(): Promise<void> {
    try {
      execs = await box.sandbox.execs();
      if (!signal.aborted) draw();
    } catch (error) {
      if (!signal.aborted && !execs.length) replace(view, failure(error, load));
    }
  }

  async function start(line: string): Promise<void> {
    const exec = await box.sandbox.start(line);
    execs = [...execs, exec];
    chosen = undefined;
    draw();
    choose(exec);
  }

  const form = el("form", { class: "exec-form", on: { submit: (event) => (event.preventDefault(), void submit()) } }, command, el("button", { type: "submit", class: "primary" }, "Run"));
  async function submit(): Promise<void> {
    const line = command.value.trim();
    if (!line) return;
    command.value = "";
    try {
      await start(line);
    } catch (error) {
      command.value = line;
      replace(view, failure(error));
    }
  }

  replace(view, loading());
  if (box.mayWrite && (box.isRunning || box.info.state === "paused")) root.append(form);
  root.append(el("div", { class: "exec-place" }, list, view));
  signal.addEventListener("abort", () => viewing?.abort());
  const load = box.keep(ask, (entry) => entry.type.startsWith("exec."), signal);
}

function itemOf(exec: Exec, isChosen: boolean, onClick: () => void): HTMLElement {
  const { raw } = exec.info;
  const wall = raw["usage"]?.["wall_us"];
  return el(
    "li",
    { data: { id: exec.id } },
    el(
      "button",
      { type: "button", class: "exec-item", "aria-current": String(isChosen), on: { click: onClick } },
      el("code", { class: "exec-line" }, commandLine(raw)),
      el("span", { class: "exec-more" }, outcome(raw), raw["has_pty"] && el("span", { class: "badge" }, "terminal"), el("span", { class: "dim" }, wall ? `${span(wall / 1000)} · ` : "", relativeTime(raw["created_us"]))),
    ),
  );
}

function showExec(view: HTMLElement, exec: Exec, box: Box, signal: AbortSignal): void {
  const screen = new Screen("Output of the command");
  const top = el("div", { class: "exec-top" });
  const note = el("p", { class: "dim exec-note", role: "status" });
  const kept: ExecEvent[] = [];
  let playing: AbortController | undefined;

  function drawTop(): void {
    const { raw } = exec.info;
    const { usage } = raw as { usage: Json | null };
    const facts = [
      raw["user"] && `as ${raw["user"]}`,
      raw["started_us"] && `from ${clock(raw["started_us"])}`,
      usage && `${span(usage["wall_us"] / 1000)} long`,
      usage && `${span((usage["user_us"] + usage["system_us"]) / 1000)} CPU`,
      usage && `${bytes(usage["max_rss_kib"] * 1024)} at most`,
      `${bytes(raw["stdout_bytes"] + raw["stderr_bytes"])} written`,
    ].filter(Boolean);
    replace(
      top,
      el("pre", { class: "exec-command" }, commandLine(raw)),
      el("div", { class: "exec-bar" }, outcome(raw), el("span", { class: "dim" }, facts.join(" · ")), el("span", { class: "grow" }), controls()),
    );
    const why = raw["ended"]?.["message"] ?? raw["error"]?.["message"];
    note.textContent = exec.info.isOver ? (why ?? "") : "Live";
  }

  function controls(): HTMLElement[] {
    if (exec.info.isOver) return [action("Replay", replay, { class: "small", title: "Plays it again at its own pace" })];
    if (!box.mayWrite) return [];
    return [action("Ctrl-C", () => exec.signal("INT"), { class: "small" }), action("Kill", () => exec.kill(), { class: "small danger" })];
  }

  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }; // a character that is cut in two waits for its rest
  function put(event: ExecEvent): void {
    if (event.type === "stdout" || event.type === "stderr") screen.write(decoders[event.type].decode(event.data, { stream: true }), event.type);
    else if (event.type === "gap") screen.note(`${bytes(event.lostBytes)} are no longer kept.`);
  }

  async function follow(): Promise<void> {
    try {
      for await (const event of exec.output({ signal })) {
        if (event.exec) exec.info = event.exec;
        else if (exec.info.state === "starting") void exec.refresh().then(drawTop, () => undefined); // it has begun since it was listed
        if (kept.length < EVENTS_MAX) kept.push(event);
        if (!playing) put(event);
        if (event.type === "exited" || event.type === "started") drawTop();
      }
      await exec.refresh();
      drawTop();
      if (!screen.node.hasChildNodes()) screen.note("It wrote nothing.");
    } catch (error) {
      if (!signal.aborted) replace(view, top, failure(error, () => showExec(view, exec, box, signal)));
    }
  }

  async function replay(): Promise<void> {
    playing?.abort();
    const mine = (playing = new AbortController());
    signal.addEventListener("abort", () => mine.abort());
    screen.clear();
    let last: number | undefined;
    for (const event of kept) {
      const at: unknown = event.raw["at_us"];
      if (typeof at === "number") {
        const pause = last === undefined ? 0 : Math.min((at - last) / 1000, REPLAY_PAUSE_MAX_MS);
        last = at;
        if (pause > 4) await new Promise((resolve) => setTimeout(resolve, pause));
      }
      if (mine.signal.aborted) return;
      put(event);
    }
    playing = undefined;
    toast("Played to its end");
  }

  replace(view, top, screen.node, note);
  drawTop();
  void follow();
}

export const outputPanel: Panel = { id: "output", title: "Output", mount: mountList };
