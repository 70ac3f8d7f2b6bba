// SPDX-License-Identifier: Apache-2.0
/**
 * HTML that a sandbox made, in a frame of its own: without scripts, forms, windows and our origin (sandbox=""), and under this
 * page's policy besides, which it inherits. It is the one place that takes a text for markup, and the page's policy (trusted
 * types) would not let another do so.
 *
 * Neither wall is enough for a sandbox that may reach nobody: a browser looks up and connects to the host of a frame, a link or
 * a preconnect before it asks the policy whether it may go there, and a host's name can carry what the sandbox knows. So no
 * address gets into the frame at all. The text is parsed into a document that nobody shows and that loads nothing, and written
 * anew: elements, attributes of a list, and text, each escaped, so that parsing it again makes no more of it.
 */
interface Policy {
  createHTML(text: string): string;
}
const policies = (globalThis as { trustedTypes?: { createPolicy(name: string, how: Policy): Policy } }).trustedTypes;
const markup = policies?.createPolicy("cloche-frame", { createHTML: (text) => text });

const DEPTH_MAX = 500;
/** These lead somewhere, or hold text that cannot be escaped. */
const LEFT_OUT = /^(base|embed|fencedframe|frame|frameset|iframe|link|meta|noembed|noframes|noscript|object|param|plaintext|portal|script|style|template|textarea|title|xmp)$/i;
const VOID = /^(area|br|col|hr|img|input|source|track|wbr)$/;
const NAME = /^[a-z][a-z0-9-]*$/i;
const ATTRIBUTE =
  /^(abbr|align|alt|bgcolor|border|cellpadding|cellspacing|char|charoff|checked|class|color|cols|colspan|datetime|dir|disabled|face|frame|headers|height|hidden|high|id|label|lang|low|max|min|noshade|nowrap|open|optimum|placeholder|readonly|reversed|role|rows|rowspan|rules|scope|selected|size|span|start|summary|title|type|valign|value|width|aria-[a-z]+|baseProfile|clip-path|clip-rule|clipPathUnits|cx|cy|d|dominant-baseline|dx|dy|fill|fill-opacity|fill-rule|font-family|font-size|font-style|font-weight|fx|fy|gradientTransform|gradientUnits|letter-spacing|marker-end|marker-mid|marker-start|markerHeight|markerUnits|markerWidth|mask|offset|opacity|orient|pathLength|patternTransform|patternUnits|points|preserveAspectRatio|r|refX|refY|rotate|rx|ry|spreadMethod|stop-color|stop-opacity|stroke|stroke-dasharray|stroke-dashoffset|stroke-linecap|stroke-linejoin|stroke-miterlimit|stroke-opacity|stroke-width|text-anchor|text-decoration|textLength|transform|vector-effect|viewBox|visibility|x|x1|x2|y|y1|y2)$/;
/** Those of ATTRIBUTE that may have an address: only of a part of the same document. */
const PAINT = /^(clip-path|fill|marker-(end|mid|start)|mask|stroke)$/;
const COLOUR = /^(url\(\s*["']?#[\w.-]+["']?\s*\)\s*)?(?!.*url)[#\w\s.,%()-]*$/i;
const PART = /^#[\w.-]+$/;
/** A picture that is all there. */
const PICTURE = /^data:image\/(png|jpeg|gif|webp|svg\+xml)[;,]/i;

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function isKept(element: Element, { name, value }: Attr): boolean {
  if (name === "src") return element.localName === "img" && PICTURE.test(value);
  if (name === "href" || name === "xlink:href") return /^(use|linearGradient|radialGradient|pattern|textPath)$/.test(element.localName) && PART.test(value);
  return ATTRIBUTE.test(name) && (!PAINT.test(name) || COLOUR.test(value));
}

/** What is shown of a node, as text that has no address in it. */
function rewritten(node: Node, depth = 0): string {
  if (node.nodeType === Node.TEXT_NODE) return escaped(node.nodeValue ?? "");
  if (!(node instanceof Element) || LEFT_OUT.test(node.localName) || !NAME.test(node.localName) || depth > DEPTH_MAX) return "";
  const attributes = [...node.attributes].filter((a) => isKept(node, a)).map((a) => ` ${a.name}="${escaped(a.value)}"`);
  const start = `<${node.localName}${attributes.join("")}>`;
  if (VOID.test(node.localName)) return start;
  return `${start}${[...node.childNodes].map((child) => rewritten(child, depth + 1)).join("")}</${node.localName}>`;
}

function trusted(text: string): string {
  return markup ? markup.createHTML(text) : text;
}

export function frame(html: string): HTMLElement {
  const node = document.createElement("iframe");
  node.setAttribute("sandbox", "");
  node.setAttribute("referrerpolicy", "no-referrer");
  node.className = "result-frame";
  node.title = "HTML that the code made";
  node.srcdoc = trusted(rewritten(new DOMParser().parseFromString(trusted(html), "text/html").body));
  return node;
}
