// SPDX-License-Identifier: Apache-2.0
/** The top of the page: what the sandbox is, how it is, what it has cost, and what can be done with it. */
import { ForkError } from "../../../../sdk/typescript/src/index.js";
import { bytes, confirm, copyText, dialog, el, field, money, pageHead, relativeTime, replace, sandboxPath, shortId, span, stateBadge, toast, type Child } from "../../ui/index.js";
import type { Box } from "./box.js";
import { action, visible } from "./panel.js";

const GRADES: Record<string, [string, string]> = {
  process: ["", "Shares the host's kernel, behind namespaces, seccomp and limits"],
  emulated: ["good", "A kernel of its own, on an emulated machine"],
  hardware: ["good", "A kernel of its own, in a virtual machine that the CPU isolates"],
};

export function header(box: Box, signal: AbortSignal): HTMLElement {
  const top = el("div");
  const facts = el("dl", { class: "box-facts" });
  const notice = el("div", { class: "box-notice", role: "status", hidden: true });
  const node = el("div", { class: "box-head" }, top, notice, facts);

  function drawTop(): void {
    const { info } = box;
    const grade = info.isolation?.grade;
    const title = el("span", { class: "box-title" }, el("span", { data: { field: "name" } }, visible(info.name ?? shortId(info.id))), stateBadge(info.state));
    if (grade) title.appendChild(el("span", { class: `badge ${GRADES[grade]?.[0] ?? ""}`, title: GRADES[grade]?.[1], data: { field: "grade" } }, `${info.isolation!.engine} · ${grade}`));
    replace(top, pageHead(title, el("div", { class: "box-actions" }, actionsOf(box))));
    const { ended } = info;
    notice.hidden = !ended;
    if (ended) replace(notice, el("strong", {}, ended.cause), ` · ${ended.message} · `, relativeTime(ended.at_us));
  }

  function drawFacts(): void {
    const rows = factsOf(box).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { data: { fact: name } }, value)));
    rows.forEach((row, i) => {
      const was = facts.children[i];
      if (!was) facts.appendChild(row);
      else if (was.textContent !== row.textContent) was.replaceWith(row); // what says the same keeps focus and selection
    });
    while (facts.childElementCount > rows.length) facts.lastElementChild!.remove();
  }

  function draw(): void {
    drawTop();
    drawFacts();
  }
  box.onInfo(draw, signal);
  box.onUsage(drawFacts, signal);
  draw();
  return node;
}

function factsOf(box: Box): [string, Child][] {
  const { info, usage } = box;
  const { limits } = info;
  const left = info.expiresAt ? info.expiresAt.getTime() - Date.now() : undefined;
  const rows: [string, Child][] = [
    ["Id", el("span", { class: "box-id" }, el("code", {}, info.id), action("Copy", () => copyText(info.id).then((isCopied) => isCopied ? toast("The id is on the clipboard") : toast("This browser does not let pages copy", "bad")), { class: "small", "aria-label": "Copy the id" }))],
    ["Template", el("span", {}, info.template, info.packages.length > 0 && el("span", { class: "dim" }, ` + ${info.packages.join(", ")}`))],
    ["Created", relativeTime(info.createdAt.getTime() * 1000)],
    ["Limits", `${limits.vcpus ?? "–"} vCPU · ${bytes((limits.memory_mib ?? 0) * 2 ** 20)} memory · ${bytes((limits.disk_mib ?? 0) * 2 ** 20)} disk`],
    ["Cost so far", usage ? money(usage["usage"]["cost"], usage["currency"]) : "–"],
  ];
  if (left !== undefined) rows.push(["Ends in", left > 0 ? span(left) : "now"]);
  if (info.snapshotId) rows.push(["Started from", el("code", {}, shortId(info.snapshotId))]);
  const tags = Object.entries(info.tags);
  if (tags.length) rows.push(["Tags", el("span", { class: "box-tags" }, tags.map(([name, value]) => el("span", { class: "badge" }, `${visible(name)}: ${visible(value)}`)))]);
  return rows;
}

function actionsOf(box: Box): Child[] {
  if (!box.mayWrite) return [el("span", { class: "badge", title: "The key that you logged in with can only read" }, "read only")];
  const { state, persistent } = box.info;
  const can = (...states: string[]): boolean => states.includes(state);
  const told = (what: string, run: () => Promise<unknown>) => async () => {
    await run();
    box.tellInfo();
    toast(what);
  };
  const isKept = state === "stopped" && persistent;
  return [
    can("running") && action("Pause", told("Paused", () => box.sandbox.pause()), { title: "Stops its programs where they are; the next call or Resume lets them go on" }),
    can("paused") && action("Resume", told("It goes on", () => box.sandbox.resume()), { class: "primary" }),
    isKept && action("Start", told("It runs", () => box.sandbox.resume()), { class: "primary" }),
    (can("running", "paused") || isKept) && action("Fork", () => forkDialog(box), { title: "Makes copies of it as it is now" }),
    (can("running", "paused") || isKept) && action("Snapshot", () => snapshotDialog(box), { title: "Saves it as it is now, to start others from" }),
    can("running", "paused") && action("Stop", () => stop(box), { title: persistent ? "Ends its programs and keeps its files" : "Ends it" }),
    action("Delete", () => remove(box), { class: "danger" }),
  ];
}

function stop(box: Box): void {
  const { persistent } = box.info;
  const body = persistent ? "Its programs end. Its files stay, and it can be started again with them." : "Its programs end, and its files are deleted, because it is not persistent.";
  confirm("Stop this sandbox?", body, "Stop", async () => {
    await box.sandbox.stop();
    box.tellInfo();
  });
}

function remove(box: Box): void {
  const name = box.info.name ?? box.id;
  confirm("Delete this sandbox?", [`${visible(name)} ends with its programs, files and output. Its snapshots stay.`], "Delete", async () => {
    await box.sandbox.delete();
    toast(`Deleted ${name}`);
    box.ctx.go("/sandboxes");
  });
}

function canSaveMemory(box: Box): boolean {
  return box.isRunning && !box.info.isolation?.gaps.includes("memory_snapshots");
}

function memoryBox(box: Box): HTMLElement {
  const input = el("input", { type: "checkbox", name: "memory", checked: canSaveMemory(box), disabled: !canSaveMemory(box) });
  const why = canSaveMemory(box) ? "Variables and processes go on in the copies. Without this, only files are copied." : "Only files: the memory of this one cannot be saved now.";
  return el("label", { class: "check" }, input, el("span", {}, "With running programs", el("small", {}, why)));
}

export function forkDialog(box: Box): void {
  const count = el("input", { name: "count", type: "number", min: "1", max: "100", value: "1", required: true });
  const name = el("input", { name: "name", maxlength: "60", placeholder: "none" });
  dialog({
    title: "Fork this sandbox",
    body: [field("How many", count), field("Name", name, "Several copies get a number behind the name."), memoryBox(box)],
    action: "Fork",
    run: async (form) => {
      const n = Number(form.get("count"));
      const memory = form.get("memory") !== null;
      try {
        const made = await box.sandbox.fork(n, { memory, name: String(form.get("name")) || undefined });
        toast(n === 1 ? "This is the new fork" : `Made ${n} forks`);
        if (made.length === 1) box.ctx.go(sandboxPath(made[0]!.id));
      } catch (error) {
        if (error instanceof ForkError && error.sandboxes.length) toast(`${error.sandboxes.length} forks were made`);
        throw error;
      }
    },
  });
}

export function snapshotDialog(box: Box): void {
  const name = el("input", { name: "name", maxlength: "63", placeholder: "none" });
  const memory = memoryBox(box);
  const input = memory.querySelector("input")!;
  input.checked = false;
  dialog({
    title: "Take a snapshot",
    body: [field("Name", name, "Small letters, digits and hyphens. Others can be started by this name."), memory],
    action: "Take it",
    run: async (form) => {
      const made = await box.sandbox.snapshot({ name: String(form.get("name")) || undefined, memory: form.get("memory") !== null });
      toast(`Snapshot ${made["name"] ?? shortId(made["id"])}: ${bytes(made["bytes"])}`);
    },
  });
}
