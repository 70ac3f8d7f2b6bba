// SPDX-License-Identifier: Apache-2.0
/**
 * Ports that are open to the outside, and what listens inside. A link lets in whoever has it, so the daemon tells it only
 * when it is made: for an open port whose link is lost a new one is made, and the old one counts no more.
 */
import type { Port } from "../../../../sdk/typescript/src/index.js";
import { confirm, copyText, el, empty, failure, headRow, loading, relativeTime, replace, toast } from "../../ui/index.js";
import type { Box } from "./box.js";
import { action, type Panel } from "./panel.js";

const LISTEN = "0A"; // in /proc/net/tcp
const NOBODY = "65534"; // who has no number inside: the door's own listeners

/** Ports of 127.0.0.1 and of all addresses that something inside listens on. */
async function listening(box: Box): Promise<number[]> {
  const found = new Set<number>();
  for (const path of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const text = await box.sandbox.files.readText(path).catch(() => "");
    for (const line of text.split("\n").slice(1)) {
      const [, local, , state, , , , user] = line.trim().split(/\s+/);
      const port = parseInt(local?.split(":")[1] ?? "", 16);
      if (state === LISTEN && user !== NOBODY && port > 0 && port < 65536) found.add(port);
    }
  }
  return [...found].sort((a, b) => a - b);
}

function mountPorts(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const open = el("section", { class: "card" });
  const inside = el("section", { class: "card" });
  root.append(el("div", { class: "stack" }, open, inside));
  const links = new Map<number, string>();
  let ports: Port[] | undefined;

  async function list(): Promise<void> {
    try {
      ports = await box.sandbox.ports();
      if (!signal.aborted) draw();
    } catch (error) {
      if (!signal.aborted && !ports) replace(open, failure(error, load));
    }
  }

  async function expose(port: number, isPublic: boolean): Promise<void> {
    const made = await box.sandbox.expose(port, { public: isPublic });
    const url = made.host_url ?? made.url;
    if (url) links.set(port, url);
    toast(`Port ${port} is open`);
    ports = await box.sandbox.ports();
    draw();
  }

  function linkOf(port: Port): HTMLElement {
    const url = links.get(port.port) ?? (port.public ? (port.host_url ?? port.url) : null);
    if (!url) return el("span", { class: "code-bar" }, el("span", { class: "dim" }, "its link was shown when it was opened"), box.mayWrite && action("New link", () => expose(port.port, port.public), { class: "small", title: "The old link no longer works" }));
    return el("span", { class: "code-bar" }, el("a", { href: url, target: "_blank", rel: "noopener noreferrer", class: "port-link" }, url), action("Copy", () => copyText(url).then((isCopied) => isCopied ? toast("The link is on the clipboard") : toast("This browser does not let pages copy", "bad")), { class: "small" }));
  }

  function rowOf(port: Port): HTMLElement {
    return el(
      "tr",
      { data: { key: String(port.port) } },
      el("td", { data: { label: "Port" } }, el("strong", {}, port.port)),
      el("td", { data: { label: "Preview" } }, linkOf(port)),
      el("td", { data: { label: "Lets in" } }, el("span", { class: `badge ${port.public ? "warn" : ""}` }, port.public ? "anybody" : "who has the link")),
      el("td", { class: "figure", data: { label: "Open since" } }, relativeTime(port.created_us)),
      el("td", { data: { label: "" } }, box.mayWrite && action("Close", () => close(port.port), { class: "small danger", "aria-label": `Close port ${port.port}` })),
    );
  }

  function close(port: number): void {
    confirm(`Close port ${port}?`, "Its link stops working, and open connections are cut.", "Close it", async () => {
      await box.sandbox.closePort(port);
      links.delete(port);
      load();
    });
  }

  function draw(): void {
    const number = el("input", { type: "number", min: "1", max: "65535", required: true, placeholder: "3000", "aria-label": "Port", class: "port-input" });
    const isPublic = el("input", { type: "checkbox" });
    const submit = action("Open", () => expose(Number(number.value), isPublic.checked), { class: "primary" });
    const form = el("form", { class: "code-bar", on: { submit: (event) => (event.preventDefault(), submit.click()) } }, number, el("label", { class: "check" }, isPublic, el("span", {}, "for anybody, without a token")), submit);
    const head = headRow(["Port", "Preview", "Lets in", "Open since", ""], (n) => (n === "Open since" ? "figure" : undefined));
    replace(
      open,
      el("header", {}, el("h2", {}, "Open ports")),
      ports?.length ? el("div", { class: "table-wrap" }, el("table", { "aria-label": "Open ports" }, el("thead", {}, head), el("tbody", {}, ports.map(rowOf)))) : empty("No port is open", "An open port has a link, which shows a server of the sandbox in your browser.", "Type its number below and open it."),
      box.mayWrite && form,
    );
  }

  async function look(): Promise<void> {
    const title = el("header", {}, el("h2", {}, "Listening inside"), box.isRunning && action("Look again", look, { class: "small" }));
    if (!box.isRunning) return replace(inside, title, empty("It is not running", "Ports on which something listens inside are listed here.", "Resume it to see them."));
    const found = await listening(box);
    if (signal.aborted) return;
    const isOpen = (port: number): boolean => ports?.some((p) => p.port === port) ?? false;
    const row = (port: number): HTMLElement => el("li", {}, el("code", {}, `:${port}`), isOpen(port) ? el("span", { class: "badge good" }, "open") : box.mayWrite && action("Open", () => expose(port, false).then(look), { class: "small", "aria-label": `Open port ${port}` }));
    replace(inside, title, found.length ? el("ul", { class: "port-list" }, found.map(row)) : empty("Nothing listens", "Ports on which something listens inside are listed here.", "Start a server in it, then look again."));
  }

  replace(open, loading());
  replace(inside, loading());
  box.onInfo(() => void look(), signal);
  const load = box.keep(list, (entry) => entry.type.startsWith("sandbox."), signal);
  void look();
}

export const portsPanel: Panel = { id: "ports", title: "Ports", mount: mountPorts };
