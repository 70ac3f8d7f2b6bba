// SPDX-License-Identifier: Apache-2.0
/**
 * One file: shown as a picture or a text, and edited. It is saved on the condition that the file is the one that was read: if
 * it is not, somebody inside has changed it, and the choice is the person's.
 */
import { type Entry, FileChanged, FileMissing } from "../../../../sdk/typescript/src/index.js";
import { toBase64 } from "../../base64.js";
import { bytes, el, failure, loading, replace, saveFile, toast, words } from "../../ui/index.js";
import type { Box } from "./box.js";
import { action, visible } from "./panel.js";

const TEXT_MAX = 1 << 20;
const IMAGE_MAX = 8 << 20;
const IMAGES: Record<string, string> = { png: "png", jpg: "jpeg", jpeg: "jpeg", gif: "gif", webp: "webp", svg: "svg+xml" };

/** undefined: it is no text. */
function textOf(data: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

export function openFile(box: Box, path: string, listed: Entry, onChange: () => void): void {
  const { files } = box.sandbox;
  const stop = new AbortController();
  const place = el("div", { class: "editor-place" });
  const status = el("span", { class: "dim", role: "status" });
  const foot = el("footer", {}, status, el("span", { class: "grow" }));
  const node = el("dialog", { class: "editor", "aria-label": `File ${visible(path)}` }, el("header", {}, el("h2", {}, visible(listed.name)), el("span", { class: "dim mono" }, visible(path))), place, foot);
  let area: HTMLTextAreaElement | undefined;
  let read = listed;
  let saved = "";

  function isChanged(): boolean {
    return area !== undefined && area.value !== saved;
  }
  function close(): void {
    if (!isChanged()) return node.close();
    choose("There are changes that are not saved.", [action("Throw them away", () => node.close(), { class: "danger" }), action("Go on editing", () => hideChoice())]);
  }
  function choose(text: string, buttons: HTMLElement[]): void {
    node.querySelector(".editor-choice")?.remove();
    foot.before(el("div", { class: "editor-choice", role: "alert" }, el("span", {}, text), buttons));
  }
  function hideChoice(): void {
    node.querySelector(".editor-choice")?.remove();
    area?.focus();
  }

  async function put(text: string, ifUnchanged?: Entry): Promise<void> {
    const entry = await files.write(path, text, { mode: listed.mode & 0o7777, ifUnchanged });
    read = entry;
    saved = text;
    hideChoice();
    status.textContent = `Saved, ${bytes(entry.size)}`;
    toast(`Saved ${visible(listed.name)}`);
    onChange();
  }

  async function save(): Promise<void> {
    if (!area) return;
    const text = area.value;
    status.textContent = "Saving…";
    try {
      await put(text, read);
    } catch (error) {
      const isChanged = error instanceof FileChanged;
      if (!isChanged && !(error instanceof FileMissing)) {
        status.textContent = `Not saved: ${words(error)}`;
        return;
      }
      status.textContent = "Not saved";
      choose(`The file was ${isChanged ? "changed" : "removed"} in the sandbox since you opened it.`, [
        action("Overwrite", () => put(text), { class: "danger" }),
        isChanged ? action("Load theirs", () => load(), {}) : el("span"),
        action("Keep editing", () => hideChoice()),
      ]);
    }
  }

  function showText(text: string): void {
    saved = text;
    area = el("textarea", { class: "code-input editor-text", spellcheck: "false", wrap: "off", readonly: !box.mayWrite, "aria-label": "Content" });
    area.value = text;
    saved = area.value; // line ends are the browser's
    area.addEventListener("keydown", (event) => {
      if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        void save();
      }
    });
    area.addEventListener("input", () => (status.textContent = isChanged() ? "Changed" : ""));
    replace(place, area);
    area.focus();
    area.setSelectionRange(0, 0);
  }

  function showOther(what: string): void {
    replace(place, el("div", { class: "state" }, el("strong", {}, what), action("Download", () => saveFile(listed.name, box.sandbox.files.readStream(path, { signal: box.ctx.signal })))));
  }

  async function load(): Promise<void> {
    node.querySelector(".editor-choice")?.remove();
    replace(place, loading());
    try {
      const entry = await files.stat(path, { follow: true, signal: stop.signal });
      read = entry;
      const image = IMAGES[/\.(\w+)$/.exec(listed.name)?.[1]?.toLowerCase() ?? ""];
      if (entry.type !== "file") return showOther(`This is a ${entry.type}`);
      if (entry.size > (image ? IMAGE_MAX : TEXT_MAX)) return showOther(`Too large to show: ${bytes(entry.size)}`);
      const data = await files.read(path, { signal: stop.signal });
      if (image && image !== "svg+xml") return replace(place, el("img", { class: "editor-image", alt: visible(listed.name), src: `data:image/${image};base64,${toBase64(data)}` }));
      const text = textOf(data);
      if (text === undefined) return showOther(`Not a text file: ${bytes(entry.size)}`);
      showText(text);
      status.textContent = `${bytes(entry.size)}`;
    } catch (error) {
      if (!stop.signal.aborted) replace(place, failure(error, () => void load()));
    }
  }

  foot.append(action("Close", close), ...(box.mayWrite ? [action("Save", save, { class: "primary" })] : []));
  node.addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  node.addEventListener("close", () => {
    stop.abort();
    node.remove();
  });
  box.ctx.signal.addEventListener("abort", () => node.close());
  document.body.appendChild(node);
  node.showModal();
  void load();
}
