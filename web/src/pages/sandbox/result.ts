// SPDX-License-Identifier: Apache-2.0
/**
 * What code gave back, in the richest form that can be shown: pictures, tables, HTML. All of it was made by a sandbox.
 *
 * Pictures are images, in which nothing runs, SVG too. HTML gets a frame of its own (frame.ts). Everything else is
 * text.
 */
import type { CodeError, Result } from "../../../../sdk/typescript/src/index.js";
import { fromBase64, toBase64 } from "../../base64.js";
import { el, replace, type Child } from "../../ui/index.js";
import { frame } from "./frame.js";
import { visible } from "./panel.js";
import { Screen } from "./screen.js";

const TEXT_MAX = 200_000;
const ROWS_MAX = 500;
const TABLE = "application/vnd.cloche.table+json";
const CHART = "application/vnd.cloche.chart+json";

type Form = [name: string, draw: () => HTMLElement];

function picture(url: string, text: string): HTMLElement {
  const image = el("img", { alt: text.slice(0, 200), class: "result-image" });
  image.src = url;
  return image;
}

function plain(text: string): HTMLElement {
  const screen = new Screen("Result as text");
  screen.node.classList.add("result-text");
  screen.write(text.slice(0, TEXT_MAX));
  if (text.length > TEXT_MAX) screen.note(`${text.length - TEXT_MAX} more characters are left out.`);
  return screen.node;
}

/** Lists by column, as the Python driver tells a DataFrame. */
function grid(value: unknown): HTMLElement | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const columns = Object.entries(value as Record<string, unknown>).filter((c): c is [string, unknown[]] => Array.isArray(c[1]));
  const n = Math.max(0, ...columns.map(([, cells]) => cells.length));
  if (!columns.length) return undefined;
  const cell = (v: unknown): HTMLElement => el("td", { class: typeof v === "number" ? "figure" : undefined }, v === null || v === undefined ? el("span", { class: "dim" }, "null") : visible(String(v)));
  const rows = Array.from({ length: Math.min(n, ROWS_MAX) }, (_, i) =>
    el("tr", {}, el("th", { scope: "row" }, i), columns.map(([, cells]) => cell(cells[i]))),
  );
  const head = el("tr", {}, el("th"), columns.map(([name, cells]) => el("th", { scope: "col", class: typeof cells[0] === "number" ? "figure" : undefined }, visible(name))));
  return el("div", { class: "result-grid", tabindex: "0" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)), n > ROWS_MAX && el("p", { class: "dim" }, `${n - ROWS_MAX} more rows are left out.`));
}

function pdf(encoded: string): HTMLElement {
  const url = URL.createObjectURL(new Blob([fromBase64(encoded)], { type: "application/octet-stream" }));
  return el("a", { href: url, download: "result.pdf", class: "button" }, "Download the PDF");
}

function isBase64(value: unknown): value is string {
  return typeof value === "string" && /^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(value);
}

/** All that it can be shown as, the best first. */
function formsOf(result: Result): Form[] {
  const { data } = result;
  const text = String(data["text/plain"] ?? "");
  const forms: Form[] = [];
  for (const mime of ["image/png", "image/jpeg", "image/gif", "image/webp"]) {
    const encoded: unknown = data[mime];
    if (isBase64(encoded)) forms.push(["Image", () => picture(`data:${mime};base64,${encoded.replace(/\s/g, "")}`, text)]);
  }
  const drawing: unknown = data["image/svg+xml"];
  if (typeof drawing === "string") forms.push(["Image", () => picture(`data:image/svg+xml;base64,${toBase64(new TextEncoder().encode(drawing))}`, text)]);
  const table = grid(data[TABLE]);
  if (table) forms.push(["Table", () => table]);
  const html: unknown = data["text/html"];
  if (typeof html === "string") forms.push(["HTML", () => frame(html)]);
  const document: unknown = data["application/pdf"];
  if (isBase64(document)) forms.push(["PDF", () => pdf(document)]);
  for (const [mime, name] of [["text/markdown", "Markdown"], ["text/latex", "LaTeX"], ["application/javascript", "Script"]] as const) {
    const source: unknown = data[mime];
    if (typeof source === "string") forms.push([name, () => plain(source)]);
  }
  for (const [mime, value] of Object.entries(data))
    if (mime.endsWith("json") && mime !== TABLE && mime !== CHART) forms.push(["JSON", () => plain(JSON.stringify(value, null, 2))]);
  if (text) forms.push(["Text", () => plain(text)]);
  return forms;
}

export function resultNode(result: Result): HTMLElement {
  const forms = formsOf(result);
  const place = el("div");
  const node = el("div", { class: "result", data: { main: String(result.isMain) } }, place);
  let chosen = 0;
  function draw(): void {
    replace(place, forms[chosen]?.[1]() ?? el("span", { class: "dim" }, "a value that cannot be shown"));
  }
  if (forms.length > 1) {
    const group = el("div", { class: "segmented result-forms", role: "group", "aria-label": "Shown as" });
    const buttons = forms.map(([name], i) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(i === 0),
          on: {
            click: () => {
              chosen = i;
              buttons.forEach((b, at) => b.setAttribute("aria-pressed", String(at === i)));
              draw();
            },
          },
        },
        name,
      ),
    );
    group.append(...buttons);
    node.prepend(group);
  }
  if (result.truncated) node.appendChild(el("p", { class: "dim" }, "It was too large: a part is missing."));
  draw();
  return node;
}

/** `more`: what may be done about it. */
export function errorNode(error: CodeError, more?: Child): HTMLElement {
  const screen = new Screen("Traceback");
  screen.node.classList.add("result-text");
  screen.write(error.traceback.join("\n"));
  return el("div", { class: "result-error", role: "alert" }, el("strong", {}, `${visible(error.name)}: ${visible(error.message)}`), error.traceback.length > 0 && screen.node, more ?? (error.hint && el("p", { class: "dim" }, visible(error.hint))));
}
