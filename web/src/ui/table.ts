// SPDX-License-Identifier: Apache-2.0
/**
 * Tables that are drawn anew from their rows: sorted by a click on a heading, rows kept by key so that what has the focus keeps
 * it and nothing flickers while figures change. Of many rows only the first are drawn, and more when they are asked for: a
 * page must stay quick however much there is. On a phone each row becomes a card, its cells labelled by their heading.
 */
import { type Child, el, replace } from "./el.js";

export interface Column<Row> {
  name: string;
  /** What it is sorted by; without it the column cannot be. */
  by?: (row: Row) => string | number;
  cell: (row: Row) => Child;
  /** Figures stand to the right. */
  isFigure?: boolean;
  /** Left out where there is little room. */
  isExtra?: boolean;
}

export interface TableOptions<Row> {
  columns: readonly Column<Row>[];
  key: (row: Row) => string;
  /** The column and direction that it starts with. */
  sort?: { column: string; isDown?: boolean };
  /** Where a row leads, by click or Enter. */
  href?: (row: Row) => string;
  label: string;
}

export interface Table<Row> {
  node: HTMLElement;
  show(rows: readonly Row[]): void;
}

/** The headings of a plain table. One that says nothing is none. */
export function headRow(names: readonly string[], classOf: (name: string) => string | undefined): HTMLElement {
  return el("tr", {}, names.map((name) => (name ? el("th", { scope: "col", class: classOf(name) }, name) : el("td"))));
}

/** Rows at first, and by how many there are more. */
const STRETCH = 200;

export function table<Row>(options: TableOptions<Row>): Table<Row> {
  const { columns } = options;
  let rows: readonly Row[] = [];
  let sort = options.sort && { column: options.sort.column, isDown: options.sort.isDown ?? false };
  const kept = new Map<string, { node: HTMLTableRowElement; cells: HTMLTableCellElement[] }>();
  const head = el("tr");
  const body = el("tbody");
  let most = STRETCH;
  const more = el("button", { class: "small", on: { click: () => ((most += STRETCH), draw()) } });
  const rest = el("p", { class: "center", hidden: true }, more);
  const node = el("div", { class: "table-wrap" }, el("table", { "aria-label": options.label }, el("thead", {}, head), body), rest);

  function drawHead(): void {
    replace(
      head,
      columns.map((c) => {
        if (!c.name) return el("td"); // a heading that says nothing is none
        const state = sort?.column === c.name ? (sort.isDown ? "descending" : "ascending") : undefined;
        const label = c.by ? el("button", { class: "sort", on: { click: () => turn(c) } }, c.name) : c.name;
        return el("th", { scope: "col", class: classOf(c), "aria-sort": state }, label);
      }),
    );
  }

  function turn(c: Column<Row>): void {
    const isSame = sort?.column === c.name;
    sort = { column: c.name, isDown: isSame ? !sort!.isDown : Boolean(c.isFigure) };
    const had = document.activeElement?.textContent;
    drawHead();
    for (const button of head.querySelectorAll("button")) if (button.textContent === had) button.focus();
    draw();
  }

  function sorted(): readonly Row[] {
    const by = columns.find((c) => c.name === sort?.column)?.by;
    if (!sort || !by) return rows;
    const sign = sort.isDown ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [by(a), by(b)];
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  function rowOf(row: Row): HTMLTableRowElement {
    const key = options.key(row);
    let made = kept.get(key);
    if (!made) {
      const cells = columns.map((c) => el("td", { class: classOf(c), data: { label: c.name } }));
      made = { node: el("tr", { data: { key } }, cells), cells };
      kept.set(key, made);
    }
    columns.forEach((c, i) => {
      const href = i === 0 && options.href ? options.href(row) : undefined;
      const cell = made.cells[i]!;
      const fresh = el("td", {}, href ? el("a", { href, class: "row-link" }, c.cell(row)) : c.cell(row));
      // What has not changed stays, and keeps the focus and the selection.
      if (!cell.isEqualNode(fresh) && !sameInside(cell, fresh)) cell.replaceChildren(...fresh.childNodes);
    });
    return made.node;
  }

  function draw(): void {
    const drawn = sorted().slice(0, most);
    const keys = new Set(drawn.map(options.key));
    for (const [key, made] of kept)
      if (!keys.has(key)) {
        made.node.remove();
        kept.delete(key);
      }
    let next = body.firstChild;
    for (const node of drawn.map(rowOf))
      if (node === next) next = next.nextSibling;
      else body.insertBefore(node, next);
    rest.hidden = rows.length <= most;
    more.textContent = `Show more: ${drawn.length} of ${rows.length} are here`;
  }

  drawHead();
  return {
    node,
    show(next) {
      rows = next;
      draw();
    },
  };
}

function classOf<Row>(c: Column<Row>): string | undefined {
  return [c.isFigure && "figure", c.isExtra && "extra"].filter(Boolean).join(" ") || undefined;
}

/** Listeners are no part of the comparison: cells with buttons of their own compare as different when their words do. */
function sameInside(a: Element, b: Element): boolean {
  if (a.childNodes.length !== b.childNodes.length) return false;
  for (let i = 0; i < a.childNodes.length; i++) if (!a.childNodes[i]!.isEqualNode(b.childNodes[i]!)) return false;
  return true;
}
