// SPDX-License-Identifier: Apache-2.0
/** uPlot in our colours: as wide as its place, redrawn when the theme changes, gone with its page. */
import uPlot from "uplot";
import { el } from "./el.js";
import { clock } from "./format.js";
import { onTheme } from "./theme.js";

export interface Series {
  name: string;
  /** Which colour of the style sheet: 1 to 6. */
  colour: number;
  format?: (value: number) => string;
  isFilled?: boolean;
}

export interface ChartOptions {
  series: readonly Series[];
  height?: number;
  /** Of the vertical axis. */
  format?: (value: number) => string;
  /** The horizontal axis: times (seconds), or the names of bars. */
  bars?: readonly string[];
  /** The least that the top of the vertical axis is. */
  atLeast?: number;
  /** Steps of the vertical axis are powers of two. */
  isBytes?: boolean;
  label: string;
  /** Called with the time that a click on the chart means. */
  pick?: ((seconds: number) => void) | undefined;
}

export interface Chart {
  node: HTMLElement;
  /** The horizontal values, then those of each series. */
  show(data: readonly (readonly (number | null)[])[], bars?: readonly string[]): void;
  destroy(): void;
}

const LABEL_WIDTH = 62;
/** The least that the axis of time spans: labels a few seconds apart would say the same. */
const SPAN_MIN_S = 60;
const BYTE_STEPS = Array.from({ length: 40 }, (_n, i) => 2 ** (i + 10));

/** Times of a long stretch need no seconds, of days no hours. */
function timeName(at: number, stretch: number): string {
  if (stretch > 2 * 86_400) return new Date(at * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return stretch > 3 * 3600 ? clock(at * 1e6).slice(0, 5) : clock(at * 1e6);
}

/** A value between two gaps has no line: it is drawn as a point. */
function alone(plot: uPlot, series: number): number[] {
  const values = plot.data[series]!;
  const isGap = (v: number | null | undefined): boolean => v === null || v === undefined;
  return Array.from(values, (_v, i) => i).filter((i) => !isGap(values[i]) && isGap(values[i - 1]) && isGap(values[i + 1]));
}

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function chart(options: ChartOptions): Chart {
  const height = options.height ?? 180;
  const node = el("div", { class: "chart", role: "img", "aria-label": options.label, style: { "min-height": `${height}px` } });
  let plot: uPlot | undefined;
  let data: uPlot.AlignedData = [[]];
  let bars = options.bars;

  function axes(): uPlot.Axis[] {
    const line = { stroke: token("--ink-2"), grid: { stroke: token("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const names = bars;
    const x: uPlot.Axis = { ...line, grid: { show: false }, size: 34, gap: 9, values: (u, splits) => splits.map((at) => timeName(at, u.scales["x"]!.max! - u.scales["x"]!.min!)), space: 90 };
    if (names) {
      x.values = (_u, splits) => splits.map((at) => names[at] ?? "");
      x.splits = (u) => names.map((_name, i) => i).filter((i) => i % Math.max(1, Math.ceil((names.length * LABEL_WIDTH) / u.width)) === 0);
    }
    const y: uPlot.Axis = { ...line, size: 64 };
    if (options.isBytes) y.incrs = BYTE_STEPS;
    if (options.format) y.values = (_u, splits) => splits.map((v) => options.format!(v));
    return [x, y];
  }

  function draw(): void {
    plot?.destroy();
    plot = undefined;
    const width = node.clientWidth;
    if (!width || !data[0].length) return;
    const names = bars;
    plot = new uPlot(
      {
        width,
        height,
        scales: {
          x: names ? { time: false, range: () => [-0.6, names.length - 0.4] } : { time: true, range: (_u, min, max) => [Math.min(min, max - SPAN_MIN_S), max] },
          y: { range: (_u, _min, max) => [0, Math.max((max || 0) * 1.08, options.atLeast ?? 1e-9)] },
        },
        axes: axes(),
        cursor: { drag: { x: false, y: false } },
        legend: { show: options.series.length > 1 },
        series: [
          names ? { label: "", value: (_u: uPlot, v: number) => names[v] ?? "" } : {},
          ...options.series.map((s): uPlot.Series => {
            const colour = token(`--chart-${s.colour}`);
            const look: uPlot.Series = { label: s.name, stroke: colour, width: 1.5, points: { show: false, filter: names ? () => null : alone } };
            if (names) {
              look.paths = uPlot.paths.bars!({ size: [0.7, 48], radius: 0.15 });
              look.fill = colour;
            } else if (s.isFilled) look.fill = `${colour}22`;
            if (s.format) look.value = (_u, v) => (v === null || v === undefined ? "–" : s.format!(v));
            return look;
          }),
        ],
      },
      data,
      node,
    );
    const { pick } = options;
    const drawn = plot;
    if (pick) plot.over.addEventListener("click", (event) => pick(drawn.posToVal(event.offsetX, "x")));
  }

  let wide = 0;
  const watcher = new ResizeObserver(() => {
    if (node.clientWidth === wide) return;
    wide = node.clientWidth;
    draw();
  });
  watcher.observe(node);
  const offTheme = onTheme(draw);
  return {
    node,
    show(next, names) {
      if (names) bars = names;
      // a bar of no height would be a line below the axis
      data = (bars ? next.map((line, i) => (i === 0 ? line : line.map((v) => v || null))) : next) as uPlot.AlignedData;
      if (plot && !names) plot.setData(data);
      else draw();
    },
    destroy() {
      watcher.disconnect();
      offTheme();
      plot?.destroy();
    },
  };
}
