// SPDX-License-Identifier: Apache-2.0
/**
 * Elements, the only way in which this program makes them. Children become text nodes, never markup; attributes come from a
 * list; addresses that could run something are refused. What a sandbox says can so be shown as it is. tools/check-web holds
 * that nothing goes around it.
 */
export type Child = Node | string | number | false | null | undefined | readonly Child[];

type Value = string | number | boolean | null | undefined;
export interface Attrs {
  class?: string;
  /** By CSSOM, which the page's policy allows; custom properties too. */
  style?: Record<string, string>;
  data?: Record<string, string>;
  on?: { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
  [name: string]: Value | Record<string, unknown>;
}

const SVG = "http://www.w3.org/2000/svg";
const PLAIN =
  /^(class|id|type|name|value|title|placeholder|disabled|checked|selected|hidden|for|rows|cols|min|max|step|role|tabindex|colspan|rowspan|scope|autocomplete|autofocus|spellcheck|readonly|required|multiple|accept|download|target|rel|alt|width|height|open|maxlength|inputmode|label|list|wrap|lang|dir|draggable|aria-[a-z]+|viewBox|d|cx|cy|r|x|y|x1|y1|x2|y2|rx|ry|points|fill|stroke|stroke-width|stroke-linecap|stroke-linejoin|stroke-dasharray|text-anchor|dominant-baseline|transform|preserveAspectRatio|pathLength|opacity|vector-effect|marker-end|refX|refY|orient|markerWidth|markerHeight|font-size)$/;

/** An address that only shows or leads somewhere: of this site, the web, or bytes that we made ourselves. */
export function isSafeUrl(url: string): boolean {
  if (/^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/.test(url)) return true;
  try {
    return ["http:", "https:", "blob:"].includes(new URL(url, location.origin).protocol);
  } catch {
    return false;
  }
}

function set(node: Element, name: string, value: Value): void {
  if (value === undefined || value === null || value === false) return;
  if (name === "href" || name === "src") {
    if (isSafeUrl(String(value))) node.setAttribute(name, String(value));
  } else if (PLAIN.test(name)) {
    node.setAttribute(name, value === true ? "" : String(value));
  } else {
    throw new TypeError(`no attribute of ours: ${name}`);
  }
}

function fill(node: Element, attrs: Attrs, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(attrs)) {
    if (name === "style") for (const [key, text] of Object.entries(value as Record<string, string>)) (node as HTMLElement).style.setProperty(key, text);
    else if (name === "data") Object.assign((node as HTMLElement).dataset, value);
    else if (name === "on") for (const [event, fn] of Object.entries(value as Record<string, EventListener>)) node.addEventListener(event, fn);
    else set(node, name, value as Value);
  }
  append(node, children);
}

export function append(node: Node, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** No scripts, frames or styles: whatever comes, it is none of those. */
const NEVER = /^(script|iframe|frame|object|embed|style|link|meta|base)$/i;

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attrs: Attrs = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  if (NEVER.test(tag)) throw new TypeError(`no element of ours: ${tag}`);
  const node = document.createElement(tag);
  fill(node, attrs, children);
  return node;
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attrs: Attrs = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  if (NEVER.test(tag)) throw new TypeError(`no element of ours: ${tag}`);
  const node = document.createElementNS(SVG, tag);
  fill(node, attrs, children);
  return node;
}

/** Puts these in place of what is there. */
export function replace(node: Element, ...children: Child[]): void {
  node.replaceChildren();
  append(node, children);
}
