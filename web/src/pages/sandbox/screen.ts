// SPDX-License-Identifier: Apache-2.0
/**
 * Output as text: what a program wrote, line by line, with the colours that it asked for. It is no terminal: of escape
 * sequences those for colours count and a return to the line's beginning; all others are taken out. Each piece becomes a text
 * node, so nothing in it is ever markup. What is kept has a bound; the oldest lines go.
 */
import { el } from "../../ui/index.js";

const LINES_MAX = 5000;
const LINE_MAX = 16_384;
const ESCAPE_MAX = 4096; // an unfinished sequence beyond it is no sequence

const TOKEN =
  /\u001b\[([0-9;:<=>?]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-Z\\^-~]|\r\n|[\u0000-\u001f\u007f]/g;
const UNFINISHED = /\u001b(?:\[[0-9;:<=>?]*[ -/]*|[\]PX^_][^\u0007\u001b]*\u001b?|[ -/]*)?$/;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

interface Look {
  colour?: string;
  ground?: string;
  classes: Set<string>;
}

export class Screen {
  readonly node: HTMLElement;
  private line: HTMLElement | undefined;
  private lineLength = 0;
  private look: Look = { classes: new Set() };
  private rest = "";
  private isReturned = false;
  private isFull = false;

  constructor(label: string) {
    this.node = el("pre", { class: "screen", role: "log", tabindex: "0", "aria-label": label });
  }

  clear(): void {
    this.node.replaceChildren();
    this.line = undefined;
    this.rest = "";
    this.look = { classes: new Set() };
    this.isReturned = this.isFull = false;
  }

  /** Follows the end if it was in sight. */
  write(text: string, stream: "stdout" | "stderr" = "stdout"): void {
    const { node } = this;
    const isAtEnd = node.scrollHeight - node.scrollTop - node.clientHeight < 40;
    this.parse(this.rest + text, stream);
    if (isAtEnd) node.scrollTop = node.scrollHeight;
  }

  /** A word of ours between the lines. */
  note(text: string): void {
    this.line = undefined;
    this.node.appendChild(el("div", { class: "screen-note" }, text));
  }

  private parse(text: string, stream: string): void {
    const cut = UNFINISHED.exec(text);
    const end = cut && text.length - cut.index <= ESCAPE_MAX ? cut.index : text.length;
    this.rest = text.slice(end);
    let at = 0;
    TOKEN.lastIndex = 0;
    for (let found = TOKEN.exec(text); found && found.index < end; found = TOKEN.exec(text)) {
      this.put(text.slice(at, found.index), stream);
      at = found.index + found[0].length;
      this.obey(found);
    }
    this.put(text.slice(at, end), stream);
  }

  private obey(found: RegExpExecArray): void {
    const [token, words, final] = found;
    if (token === "\n" || token === "\r\n") this.endLine();
    else if (token === "\r") this.isReturned = true;
    else if (token === "\t") this.put("\t", "");
    else if (final === "m") this.dress(words!.split(/[;:]/).map(Number));
    else if (final === "K" && this.isReturned) this.line?.replaceChildren();
  }

  private endLine(): void {
    this.isReturned = false;
    this.openLine();
    this.line = undefined;
  }

  private openLine(): HTMLElement {
    if (this.line) return this.line;
    this.line = el("div", { class: "screen-line" });
    this.lineLength = 0;
    this.node.appendChild(this.line);
    if (this.node.childElementCount > LINES_MAX) {
      if (!this.isFull) this.node.prepend(el("div", { class: "screen-note" }, "Earlier lines are left out here."));
      this.isFull = true;
      this.node.children[1]!.remove();
    }
    return this.line;
  }

  private put(text: string, stream: string): void {
    if (!text) return;
    const line = this.openLine();
    if (this.isReturned) {
      line.replaceChildren();
      this.lineLength = 0;
      this.isReturned = false;
    }
    if (this.lineLength > LINE_MAX) return;
    const shown = text.slice(0, LINE_MAX - this.lineLength).replace(DIRECTION, (c) => `\\u${c.charCodeAt(0).toString(16)}`);
    this.lineLength += text.length;
    const { classes, colour, ground } = this.look;
    const names = [...classes, ...(stream === "stderr" ? ["is-stderr"] : [])].join(" ");
    if (!names && !colour && !ground) line.appendChild(document.createTextNode(shown));
    else line.appendChild(el("span", { class: names || undefined, style: { ...(colour && { color: colour }), ...(ground && { background: ground }) } }, shown));
    if (this.lineLength > LINE_MAX) line.appendChild(el("span", { class: "screen-note" }, " … the rest of this line is left out"));
  }

  private dress(codes: number[]): void {
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i]!;
      if (code === 38 || code === 48) i += this.paint(code === 38, codes.slice(i + 1));
      else this.dressOne(code);
    }
  }

  private dressOne(code: number): void {
    const { classes } = this.look;
    const only = (kind: RegExp, name?: string): void => {
      for (const c of classes) if (kind.test(c)) classes.delete(c);
      if (name) classes.add(name);
    };
    if (code === 0) this.look = { classes: new Set() };
    else if (code === 1) classes.add("is-bold");
    else if (code === 2) classes.add("is-faint");
    else if (code === 3) classes.add("is-italic");
    else if (code === 4) classes.add("is-underlined");
    else if (code === 7) classes.add("is-inverse");
    else if (code === 22) only(/^is-(bold|faint)$/);
    else if (code === 23) classes.delete("is-italic");
    else if (code === 24) classes.delete("is-underlined");
    else if (code === 27) classes.delete("is-inverse");
    else if (code >= 30 && code <= 37) (only(/^fg-/, `fg-${code - 30}`), delete this.look.colour);
    else if (code >= 90 && code <= 97) (only(/^fg-/, `fg-${code - 90 + 8}`), delete this.look.colour);
    else if (code === 39) (only(/^fg-/), delete this.look.colour);
    else if (code >= 40 && code <= 47) (only(/^bg-/, `bg-${code - 40}`), delete this.look.ground);
    else if (code >= 100 && code <= 107) (only(/^bg-/, `bg-${code - 100 + 8}`), delete this.look.ground);
    else if (code === 49) (only(/^bg-/), delete this.look.ground);
  }

  /** Of 256 or of all colours; returns how many numbers it took. */
  private paint(isText: boolean, more: number[]): number {
    const set = (colour: string): void => void (this.look[isText ? "colour" : "ground"] = colour);
    const byte = (n: number | undefined): number => Math.min(255, Math.max(0, Math.trunc(n ?? 0) || 0));
    if (more[0] === 2) {
      set(`rgb(${byte(more[1])} ${byte(more[2])} ${byte(more[3])})`);
      return 4;
    }
    if (more[0] !== 5) return 0;
    const n = byte(more[1]);
    if (n < 16) this.dressOne((isText ? 30 : 40) + (n < 8 ? n : n + 52));
    else if (n >= 232) set(`rgb(${8 + (n - 232) * 10} ${8 + (n - 232) * 10} ${8 + (n - 232) * 10})`);
    else {
      const level = (v: number): number => (v ? 55 + v * 40 : 0);
      const c = n - 16;
      set(`rgb(${level(Math.floor(c / 36))} ${level(Math.floor(c / 6) % 6)} ${level(c % 6)})`);
    }
    return 2;
  }
}
