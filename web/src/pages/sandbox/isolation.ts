// SPDX-License-Identifier: Apache-2.0
/** What stands between the sandbox and the host, and what should and does not. */
import type { Limits } from "../../../../sdk/typescript/src/index.js";
import { bytes, card, count, el, empty, facts, replace } from "../../ui/index.js";
import type { Box } from "./box.js";
import type { Panel } from "./panel.js";

/** What each wall keeps from whom. */
const WALLS: Record<string, string> = {
  own_kernel: "A Linux kernel of its own: it makes no calls to the host's kernel",
  hardware: "The CPU itself isolates the machine",
  user_namespace: "Root inside is nobody outside",
  uid_range: "User numbers that no other sandbox and no user of the host has",
  pid_namespace: "Sees no process but its own",
  mount_namespace: "Sees no file system but its own",
  pivot_root: "No path leads to the host's files",
  net_namespace: "Has no network device of the host's",
  net_linkless: "Has no link out: every connection goes through the wall, which decides about it",
  ipc_namespace: "Shares no memory or queue with others",
  uts_namespace: "Has a host name of its own",
  cgroup_namespace: "Sees neither its own limits nor those of others",
  capabilities: "Few capabilities of root, and only over itself",
  no_new_privs: "No program can give it more rights",
  seccomp: "System calls that it does not need are refused",
  masked_proc: "Facts of the host in /proc and /sys are covered",
  memory_snapshots: "The memory of running programs cannot be saved here (no wall)",
};

const GRADES: Record<string, string> = {
  process: "Processes behind walls of the host's kernel. A fault in that kernel can be a way out.",
  emulated: "A machine of its own, emulated by a program that is behind walls, too.",
  hardware: "A virtual machine that the CPU isolates, in a program that is behind walls, too.",
};

/** What each bound is set to. */
function boundOf(wall: string, limits: Limits): string {
  const mib = (n: number | undefined): string => bytes((n ?? 0) * 2 ** 20);
  const of: Record<string, string> = {
    memory_limit: mib(limits.memory_mib),
    cpu_limit: `${limits.vcpus} vCPU`,
    pids_limit: `${count(limits.pids ?? 0)} processes`,
    disk_limit: mib(limits.disk_mib),
    inode_limit: `${count(limits.inodes ?? 0)} files`,
  };
  return of[wall] ?? "";
}

function list(names: readonly string[], look: string, words: (name: string) => string = (name) => WALLS[name] ?? ""): HTMLElement {
  return el(
    "ul",
    { class: `walls ${look}` },
    names.map((name) => el("li", { data: { wall: name } }, el("strong", {}, name.replaceAll("_", " ")), el("span", { class: "dim" }, words(name)))),
  );
}

function mountIsolation(root: HTMLElement, box: Box, signal: AbortSignal): void {
  function draw(): void {
    const { isolation, limits } = box.info;
    if (!isolation) return replace(root, empty("Not known yet", "The walls around the sandbox are listed here once it runs.", "Wait until it runs, or resume it."));
    const isLimit = (name: string): boolean => name.endsWith("_limit");
    replace(
      root,
      el(
        "div",
        { class: "stack" },
        card(
          "Grade",
          facts([
            ["Engine", isolation.engine],
            ["Grade", el("span", {}, el("strong", {}, isolation.grade), ` · ${GRADES[isolation.grade] ?? ""}`)],
            ["Gaps", isolation.gaps.length === 0 ? "none: no wall is missing" : count(isolation.gaps.length)],
            ["Also bounded", `${count(limits.open_files ?? 0)} open files · ${count(limits.execs ?? 0)} commands kept, ${limits.output_mib} MiB of output each`],
          ]),
        ),
        isolation.gaps.length > 0 && card("Gaps", list(isolation.gaps, "is-gap"), el("span", { class: "badge warn" }, `${isolation.gaps.length} missing`)),
        el(
          "div",
          { class: "columns" },
          card("Walls", list(isolation.walls.filter((w) => !isLimit(w)), "is-wall"), el("span", { class: "badge good" }, `${isolation.walls.length} stand`)),
          card("Bounds", list(isolation.walls.filter(isLimit), "is-wall", (name) => boundOf(name, limits))),
        ),
      ),
    );
  }
  box.onInfo(draw, signal);
  draw();
}

export const isolationPanel: Panel = { id: "isolation", title: "Isolation", mount: mountIsolation };
