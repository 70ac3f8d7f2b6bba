// SPDX-License-Identifier: Apache-2.0
/** What it uses of what it may: plots of what the daemon remembers and of what comes, and the sums since it was made. */
import { historyCard } from "../../history.js";
import { bar, bytes, card, chart, type Chart, count, el, facts, loading, money, percent, replace, span } from "../../ui/index.js";
import type { Box, Sample } from "./box.js";
import type { Panel } from "./panel.js";

const MIB = 2 ** 20;

interface Plot {
  chart: Chart;
  of: readonly ((s: Sample) => number | null)[];
}

function mountUsage(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const rate = (v: number): string => `${bytes(v)}/s`;
  const cpus = (v: number): string => String(Number(v.toFixed(3)));
  const plots: [string, Plot][] = [
    ["CPU", { chart: chart({ label: "CPUs in use", series: [{ name: "CPUs", colour: 1, isFilled: true, format: cpus }], format: cpus, atLeast: 0.1, height: 170 }), of: [(s) => s.cpus] }],
    ["Memory", { chart: chart({ label: "Memory in use", series: [{ name: "in use", colour: 3, isFilled: true, format: bytes }], format: bytes, atLeast: 8 * MIB, height: 170, isBytes: true }), of: [(s) => s.memory] }],
    ["Disk", { chart: chart({ label: "Disk in use", series: [{ name: "in use", colour: 2, isFilled: true, format: bytes }], format: bytes, atLeast: MIB, height: 170, isBytes: true }), of: [(s) => s.disk] }],
    ["Network", { chart: chart({ label: "Network traffic", series: [{ name: "in", colour: 4, isFilled: true, format: rate }, { name: "out", colour: 5, format: rate }], format: rate, atLeast: 4096, height: 170, isBytes: true }), of: [(s) => s.inRate, (s) => s.outRate] }],
  ];
  const now = el("div", { class: "cards" });
  const sums = el("div");
  root.append(
    now,
    el("div", { class: "columns" }, plots.map(([name, plot]) => card(name, plot.chart.node))),
    card("Since it was created", sums),
    historyCard(box.ctx, "sandbox", signal, () => box.id).node,
  );

  function meter(name: string, used: number | null, most: number | undefined, format: (v: number) => string): HTMLElement {
    const part = used !== null && most ? used / most : 0;
    return el("div", { class: "card tile", data: { tile: name } }, el("div", { class: "name" }, name), el("div", { class: "value" }, used === null ? "–" : format(used)), el("div", { class: "more" }, most ? `of ${format(most)} · ${percent(part)}` : ""), bar(part, `${name}: ${percent(part)}`));
  }

  function draw(): void {
    const { samples, usage, info } = box;
    if (!usage) return replace(now, loading());
    const last = usage["now"] ? samples[samples.length - 1] : undefined;
    const { limits } = info;
    replace(
      now,
      meter("CPUs", last?.cpus ?? null, limits.vcpus, (v) => v.toFixed(2)),
      meter("Memory", last?.memory ?? null, (limits.memory_mib ?? 0) * MIB, bytes),
      meter("Disk", last?.disk ?? null, (limits.disk_mib ?? 0) * MIB, bytes),
      meter("Processes", last?.pids ?? null, limits.pids, count),
    );
    for (const [, plot] of plots) plot.chart.show([samples.map((s) => s.atS), ...plot.of.map((of) => samples.map(of))]);
    const u = usage["usage"];
    replace(
      sums,
      facts([
        ["Cost", money(u["cost"], usage["currency"])],
        ["Running for", span(u["running_ms"])],
        ["CPU time", span(u["cpu_ns"] / 1e6)],
        ["Memory", `${((u["memory_mib_ms"] / 1024) / 3_600_000).toFixed(4)} GiB·h reserved`],
        ["Network", `${bytes(u["network_in_bytes"])} in, ${bytes(u["network_out_bytes"])} out`],
        ["Commands", count(u["execs"])],
        ["Code runs", count(u["calls"])],
        ["Most memory", usage["now"] ? bytes(usage["now"]["memory_peak_bytes"]) : "–"],
      ]),
    );
  }

  box.onUsage(draw, signal);
  signal.addEventListener("abort", () => plots.forEach(([, plot]) => plot.chart.destroy()));
  draw();
}

export const usagePanel: Panel = { id: "usage", title: "Usage", mount: mountUsage };
