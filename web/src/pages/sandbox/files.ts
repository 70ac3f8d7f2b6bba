// SPDX-License-Identifier: Apache-2.0
/**
 * The sandbox's files: a directory at a time, kept up to date while it is watched. It is listed when it is opened and again
 * when the watch says that it is there: what changes between the two is told by neither. Files are dropped on it to upload them
 * and fetched to download them; texts are edited in place (editor.ts). Names may be anything but "/" and NUL, and are shown so
 * that two of them never look alike.
 */
import { type Entry, FileExists } from "../../../../sdk/typescript/src/index.js";
import { gathered } from "../../gathered.js";
import { bytes, confirm, dialog, el, empty, failure, field, headRow, loading, relativeTime, replace, saveFile, toast, toastError } from "../../ui/index.js";
import type { Box } from "./box.js";
import { openFile } from "./editor.js";
import { action, type Panel, visible, whileRunning } from "./panel.js";

const ENTRIES_MAX = 2000;
const HOMES = ["/home/user", "/"];
const WATCH_PAUSE_MS = 250;
const WATCH_PAUSE_MAX_MS = 8000;

export function join(dir: string, name: string): string {
  return dir === "/" ? `/${name}` : `${dir}/${name}`;
}

const KINDS: Record<string, string> = { directory: "folder", symlink: "link", fifo: "pipe", socket: "socket", device: "device" };

function mountFiles(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const { files } = box.sandbox;
  let path = "";
  let watching: AbortController | undefined;
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Path" });
  const place = el("div", { class: "file-place" });
  const picker = el("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files to upload" });
  const drop = el("section", { class: "card file-card", data: { drop: "" } }, el("div", { class: "code-bar" }, crumbs, el("span", { class: "grow" }), buttons()), place, picker);
  root.append(drop);

  function buttons(): HTMLElement[] {
    if (!box.mayWrite) return [];
    return [
      action("New file", () => ask("New file", "Make it", (name) => files.write(join(path, name), "", { exclusive: true }))),
      action("New folder", () => ask("New folder", "Make it", (name) => files.mkdir(join(path, name)))),
      action("Upload", () => picker.click(), { class: "primary" }),
    ];
  }

  function ask(title: string, what: string, run: (name: string) => Promise<unknown>, was = ""): void {
    const input = el("input", { name: "name", required: true, value: was, autocomplete: "off", spellcheck: "false" });
    dialog({
      title,
      body: field("Name", input),
      action: what,
      run: async (form) => {
        const name = String(form.get("name"));
        if (name.includes("/") || name === "." || name === "..") throw new Error("a name has no / in it, and is not . or ..");
        await run(name);
        load();
      },
    });
    input.select();
  }

  async function upload(list: Iterable<File>): Promise<void> {
    for (const file of list) {
      const to = join(path, file.name);
      try {
        await files.write(to, file, { exclusive: true });
        toast(`Uploaded ${visible(file.name)}`);
      } catch (error) {
        if (!(error instanceof FileExists)) toastError(error);
        else confirm("Replace the file?", `${visible(to)} is there already.`, "Replace", async () => void (await files.write(to, file)));
      }
    }
    load();
  }

  function goTo(next: string): void {
    path = next;
    sessionStorage.setItem(`cloche.path.${box.id}`, path);
    drawCrumbs();
    replace(place, loading());
    load();
    void watch();
  }

  function drawCrumbs(): void {
    const parts = path.split("/").filter(Boolean);
    const link = (name: string, to: string, isLast: boolean): HTMLElement =>
      el("button", { type: "button", class: "crumb", "aria-current": isLast ? "page" : undefined, on: { click: () => goTo(to) } }, visible(name));
    replace(crumbs, link("/", "/", !parts.length), parts.map((name, i) => [i > 0 && el("span", { class: "dim" }, "/"), link(name, `/${parts.slice(0, i + 1).join("/")}`, i === parts.length - 1)]));
  }

  function rowOf(entry: Entry): HTMLElement {
    const full = join(path, entry.name);
    const isDir = entry.isDirectory;
    const name = el("button", { type: "button", class: "file-name", on: { click: () => (isDir ? goTo(full) : openFile(box, full, entry, load)) } }, el("span", { class: `file-icon is-${entry.type}`, "aria-hidden": "true" }), visible(entry.name), entry.target !== undefined && el("span", { class: "dim" }, ` → ${visible(entry.target)}`));
    const canRead = entry.type === "file" || entry.type === "symlink";
    return el(
      "tr",
      { data: { key: entry.name } },
      el("td", { data: { label: "Name" } }, name),
      el("td", { class: "figure", data: { label: "Size" } }, isDir ? el("span", { class: "dim" }, "folder") : (KINDS[entry.type] ?? bytes(entry.size))),
      el("td", { class: "extra mono", data: { label: "Mode" } }, `${entry.mode.toString(8).padStart(4, "0")} ${entry.user ?? entry.uid}`),
      el("td", { class: "figure", data: { label: "Changed" } }, relativeTime(entry.mtime.getTime() * 1000)),
      el(
        "td",
        { class: "file-acts", data: { label: "" } },
        canRead && action("Download", () => saveFile(entry.name, box.sandbox.files.readStream(full, { signal: box.ctx.signal })), { class: "small", "aria-label": `Download ${visible(entry.name)}` }),
        box.mayWrite && action("Rename", () => ask("Rename", "Rename", (to) => files.move(full, join(path, to), { exclusive: true }), entry.name), { class: "small", "aria-label": `Rename ${visible(entry.name)}` }),
        box.mayWrite && action("Delete", () => remove(entry, full), { class: "small danger", "aria-label": `Delete ${visible(entry.name)}` }),
      ),
    );
  }

  function remove(entry: Entry, full: string): void {
    const what = entry.isDirectory ? " and all that is in it" : "";
    confirm(`Delete ${visible(entry.name)}?`, `${visible(full)}${what} will be gone.`, "Delete", async () => {
      await files.remove(full, { recursive: entry.isDirectory });
      load();
    });
  }

  async function list(): Promise<void> {
    const asked = path;
    try {
      const entries = await files.list(asked, { limit: ENTRIES_MAX, signal });
      if (asked !== path || signal.aborted) return;
      entries.sort((a, b) => Number(b.isDirectory) - Number(a.isDirectory) || (a.name < b.name ? -1 : 1));
      if (!entries.length) replace(place, empty("This folder is empty", "Files of the sandbox are listed here as they come and go.", box.mayWrite ? "Drop files here to upload them." : "Your key can only read."));
      else {
        const head = headRow(["Name", "Size", "Mode", "Changed", ""], (n) => (n === "Mode" ? "extra" : n === "Size" || n === "Changed" ? "figure" : undefined));
        replace(place, el("div", { class: "table-wrap" }, el("table", { "aria-label": "Files" }, el("thead", {}, head), el("tbody", {}, entries.map(rowOf)))));
        if (entries.length >= ENTRIES_MAX) place.appendChild(el("p", { class: "dim" }, `The first ${ENTRIES_MAX} are shown.`));
      }
    } catch (error) {
      if (!signal.aborted && asked === path) replace(place, failure(error, load));
    }
  }
  const load = gathered(list, signal);

  /** Changes are told as they come. A watch that ends is begun anew, for as long as the folder is looked at. */
  async function watch(): Promise<void> {
    watching?.abort();
    const mine = (watching = new AbortController());
    let pause = WATCH_PAUSE_MS;
    while (!mine.signal.aborted) {
      try {
        for await (const event of files.watch(path, { signal: mine.signal })) {
          load(); // also behind "ready", before which nothing is told
          if (event.type === "ready") pause = WATCH_PAUSE_MS;
        }
      } catch {
        // the list says what is wrong, if anything is
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, WATCH_PAUSE_MAX_MS);
      if (!mine.signal.aborted) await box.refresh().catch(() => undefined); // one that has ended takes the panel with it
    }
  }

  function isOver(event: DragEvent, is: boolean): void {
    event.preventDefault();
    drop.classList.toggle("is-target", is && box.mayWrite);
  }
  drop.addEventListener("dragover", (event) => isOver(event, true));
  drop.addEventListener("dragleave", (event) => isOver(event, drop.contains(event.relatedTarget as Node | null)));
  drop.addEventListener("drop", (event) => {
    isOver(event, false);
    if (box.mayWrite && event.dataTransfer?.files.length) void upload(event.dataTransfer.files);
  });
  picker.addEventListener("change", () => {
    void upload([...(picker.files ?? [])]);
    picker.value = "";
  });
  box.onAgain(() => path && void watch(), signal);
  const offState = box.ctx.live.onState((state) => state !== "open" && watching?.abort());
  signal.addEventListener("abort", () => {
    offState();
    watching?.abort();
  });

  async function begin(): Promise<void> {
    const kept = sessionStorage.getItem(`cloche.path.${box.id}`);
    for (const dir of kept ? [kept, ...HOMES] : HOMES)
      try {
        const entry = await files.stat(dir, { follow: true, signal });
        if (entry.isDirectory) return goTo(dir);
      } catch {
        if (signal.aborted) return;
      }
    goTo("/");
  }
  replace(place, loading());
  void begin();
}

export const filesPanel: Panel = {
  id: "files",
  title: "Files",
  mount: (root, box, signal) => whileRunning(root, box, signal, "Files can be seen", (inner, end) => mountFiles(inner, box, end)),
};
