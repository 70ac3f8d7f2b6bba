// SPDX-License-Identifier: Apache-2.0
/**
 * A shell in the sandbox. It is an exec with a terminal, which lives on when this page, its connection or the daemon goes:
 * whoever comes back finds it with all that it has written, since that is read again from its beginning. What the emulator
 * answers by itself to what was written before (where is the cursor?) is not sent: it was answered then.
 */
import { ConnectionFailed, type Exec } from "../../../../sdk/typescript/src/index.js";
import { el, replace, toastError, words } from "../../ui/index.js";
import { onTheme } from "../../ui/theme.js";
import type { Box } from "./box.js";
import { action, commandLine, type Panel, whileRunning } from "./panel.js";
import { type Emulator, emulator, themeOf } from "./xterm.js";

const SHELL = ["sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l"];
const PAUSE_MS = 500;
const PAUSE_MAX_MS = 5000;
const KEYS: readonly [string, string][] = [
  ["Esc", "\u001b"],
  ["Tab", "\t"],
  ["Ctrl-C", "\u0003"],
  ["Ctrl-D", "\u0004"],
  ["↑", "\u001b[A"],
  ["↓", "\u001b[B"],
  ["←", "\u001b[D"],
  ["→", "\u001b[C"],
];

type LineState = "starting" | "open" | "lost" | "over";

/** The connection to one exec's terminal, made again when it breaks. */
class Line {
  private socket: WebSocket | undefined;
  private left = 0; // bytes of earlier output that are still to come
  private pause = PAUSE_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isOver = false;
  private isBehind = true;

  constructor(
    private readonly box: Box,
    readonly exec: Exec,
    private readonly emulator: Emulator,
    private readonly tell: (state: LineState, text: string) => void,
  ) {
    void this.connect();
  }

  close(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  send(text: string): void {
    if (this.socket?.readyState === WebSocket.OPEN && !this.isBehind) this.socket.send(new TextEncoder().encode(text));
  }

  resize(rows: number, cols: number): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ resize: { rows, cols } }));
  }

  private async connect(): Promise<void> {
    this.tell("starting", "Connecting…");
    try {
      const { raw } = await this.exec.refresh();
      if (this.isOver) return;
      this.left = raw["stdout_bytes"] + raw["stderr_bytes"];
      this.isBehind = this.left > 0;
    } catch (error) {
      if (this.isOver) return;
      if (error instanceof ConnectionFailed) return this.again();
      return this.end(words(error));
    }
    const { origin } = location;
    const url = `${origin.replace(/^http/, "ws")}/v1/sandboxes/${this.box.id}/execs/${this.exec.id}/attach`;
    const socket = (this.socket = new WebSocket(url));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.begin();
    socket.onmessage = (event) => this.take(event.data as ArrayBuffer | string);
    socket.onclose = () => {
      if (!this.isOver) this.again();
    };
  }

  private begin(): void {
    const { term } = this.emulator;
    this.pause = PAUSE_MS;
    term.reset();
    this.resize(term.rows, term.cols);
    if (!this.isBehind) this.tell("open", "Connected");
  }

  private take(data: ArrayBuffer | string): void {
    const { term } = this.emulator;
    if (typeof data !== "string") {
      this.left -= data.byteLength;
      term.write(new Uint8Array(data), () => this.catchUp());
      return;
    }
    const told = JSON.parse(data) as { exited?: { exit_code: number | null; ended?: { message: string } }; gap?: { lost_bytes: number }; error?: { message: string } };
    if (told.gap) {
      this.left -= told.gap.lost_bytes;
      this.catchUp();
    }
    if (told.error) this.end(told.error.message);
    if (told.exited) this.end(told.exited.exit_code === null ? (told.exited.ended?.message ?? "it ended") : `The shell ended with exit code ${told.exited.exit_code}`);
  }

  /** Keys count from here on. */
  private catchUp(): void {
    if (!this.isBehind || this.left > 0) return;
    this.isBehind = false;
    if (!this.isOver) this.tell("open", "Connected");
  }

  private end(text: string): void {
    this.isOver = true;
    this.socket?.close();
    this.tell("over", text);
  }

  private again(): void {
    this.tell("lost", "The connection broke. Trying again…");
    this.timer = setTimeout(() => void this.connect(), this.pause);
    this.pause = Math.min(this.pause * 2, PAUSE_MAX_MS);
  }
}

function mountTerminal(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const kept = `cloche.terminal.${box.id}`;
  const screen = el("div", { class: "terminal-screen", data: { terminal: "starting" } });
  const status = el("span", { class: "dim", role: "status" });
  const others = el("select", { "aria-label": "Terminals", hidden: true });
  const size = el("span", { class: "dim mono" });
  const keys = el("div", { class: "terminal-keys", role: "toolbar", "aria-label": "Keys" }, KEYS.map(([name, text]) => el("button", { type: "button", class: "small", tabindex: "-1", on: { click: () => press(text) } }, name)));
  root.append(el("section", { class: "card terminal-card" }, el("div", { class: "code-bar" }, status, el("span", { class: "grow" }), size, others, action("New terminal", () => start().then(() => term.focus())), action("End", () => line?.exec.kill(), { title: "Kills the shell with all that it runs" })), screen, keys));
  const own = emulator(screen);
  const { term } = own;
  let line: Line | undefined;

  function press(text: string): void {
    line?.send(text);
    term.focus();
  }
  function tell(state: LineState, text: string): void {
    screen.dataset["terminal"] = state;
    status.textContent = text;
    if (state === "over") {
      sessionStorage.removeItem(kept);
      term.write(`\r\n\u001b[2m[${text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ")}]\u001b[0m\r\n`);
    }
    if (state === "open" || state === "over") void list();
  }
  function attach(exec: Exec): void {
    line?.close();
    sessionStorage.setItem(kept, exec.id);
    line = new Line(box, exec, own, tell);
  }
  async function start(): Promise<void> {
    fit();
    attach(await box.sandbox.start(SHELL, { pty: { rows: term.rows, cols: term.cols }, openStdin: true, env: { TERM: "xterm-256color", COLORTERM: "truecolor" } }));
  }
  async function running(): Promise<Exec[]> {
    return (await box.sandbox.execs()).filter((e) => e.info.raw["has_pty"] && !e.info.isOver);
  }
  async function list(): Promise<void> {
    const found = await running().catch(() => []);
    if (signal.aborted) return;
    others.hidden = found.length < 2;
    replace(others, found.map((e, i) => el("option", { value: e.id, selected: e.id === line?.exec.id }, `${i + 1}: ${commandLine(e.info.raw) === commandLine({ argv: SHELL }) ? "shell" : commandLine(e.info.raw).slice(0, 40)}`)));
  }
  async function begin(): Promise<void> {
    try {
      const found = await running();
      if (signal.aborted) return;
      const mine = found.find((e) => e.id === sessionStorage.getItem(kept));
      if (mine) attach(mine);
      else await start();
    } catch (error) {
      tell("over", words(error));
      toastError(error);
    }
  }
  function fit(): void {
    if (screen.clientWidth === 0) return;
    own.fit();
    size.textContent = `${term.cols}×${term.rows}`;
  }

  term.onData((text) => line?.send(text));
  term.onBinary((text) => line?.send(text));
  term.onResize(({ rows, cols }) => line?.resize(rows, cols));
  others.addEventListener("change", () => {
    void running().then((found) => {
      const exec = found.find((e) => e.id === others.value);
      if (exec) attach(exec);
    }, toastError);
  });
  const watcher = new ResizeObserver(() => fit());
  watcher.observe(screen);
  const offTheme = onTheme(() => (term.options.theme = themeOf()));
  signal.addEventListener("abort", () => {
    watcher.disconnect();
    offTheme();
    line?.close();
    term.dispose();
  });
  fit();
  if (box.givesFocus) term.focus();
  void begin();
}

export const terminalPanel: Panel = {
  id: "terminal",
  title: "Terminal",
  mount(root, box, signal) {
    if (!box.mayWrite) {
      root.append(el("div", { class: "state empty" }, el("strong", {}, "This key can only read"), el("div", {}, "For a terminal, log in with a key of scope write.")));
      return;
    }
    whileRunning(root, box, signal, "A terminal can be opened", (inner, end) => mountTerminal(inner, box, end));
  },
};
