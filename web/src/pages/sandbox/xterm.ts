// SPDX-License-Identifier: Apache-2.0
/**
 * xterm.js under our content policy, and without what a sandbox must not do to who looks at it.
 *
 * It writes its colours and sizes into <style> elements and style attributes, both of which the policy forbids. So where
 * it asks for a <style> it gets an element whose text goes into a constructed sheet, and spans set their style attribute by
 * CSSOM: both are the ways that the policy leaves to scripts. Titles, links and the clipboard (OSC 0, 8, 52) reach nothing.
 */
import { type ITheme, Terminal } from "@xterm/xterm";
import { FitAddon } from "@xterm/addon-fit";

const SCROLLBACK = 5000;

class SheetElement extends HTMLElement {
  private readonly own = new CSSStyleSheet();

  connectedCallback(): void {
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.own];
  }
  disconnectedCallback(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== this.own);
  }
  override get textContent(): string {
    return "";
  }
  override set textContent(text: string | null) {
    this.own.replaceSync(text ?? "");
  }
}

/** Spans get their colours in a style attribute. */
function allowStyles(): void {
  if (Object.hasOwn(HTMLSpanElement.prototype, "setAttribute")) return;
  HTMLSpanElement.prototype.setAttribute = function (name: string, value: string): void {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}

/** While it is opened it makes the elements for its sheets. */
function open(term: Terminal, place: HTMLElement): void {
  if (!customElements.get("cloche-sheet")) customElements.define("cloche-sheet", SheetElement);
  const { createElement } = document;
  const own = createElement.bind(document);
  document.createElement = ((tag: string, options?: ElementCreationOptions) => (tag === "style" ? new SheetElement() : own(tag, options))) as typeof createElement;
  try {
    term.open(place);
  } finally {
    document.createElement = createElement;
  }
}

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The colours of the page's theme. */
export function themeOf(): ITheme {
  const colours = Object.fromEntries(
    ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"].flatMap((name, i) => [
      [name, token(`--ansi-${i}`)],
      [`bright${name[0]!.toUpperCase()}${name.slice(1)}`, token(`--ansi-${i + 8}`)],
    ]),
  ) as ITheme;
  return { ...colours, background: token("--screen"), foreground: token("--screen-ink"), cursor: token("--accent"), cursorAccent: token("--screen"), selectionBackground: token("--screen-mark") };
}

export interface Emulator {
  term: Terminal;
  /** Makes it as large as its place. */
  fit(): void;
}

export function emulator(place: HTMLElement): Emulator {
  const term = new Terminal({
    allowProposedApi: false,
    cursorBlink: true,
    fontFamily: token("--mono"),
    fontSize: 13,
    scrollback: SCROLLBACK,
    theme: themeOf(),
    linkHandler: { activate: () => undefined, allowNonHttpProtocols: false },
    windowOptions: {},
  });
  const fitting = new FitAddon();
  term.loadAddon(fitting);
  for (const code of [0, 1, 2, 7, 8, 9, 52, 777, 1337]) term.parser.registerOscHandler(code, () => true);
  allowStyles();
  open(term, place);
  return { term, fit: () => fitting.fit() };
}
