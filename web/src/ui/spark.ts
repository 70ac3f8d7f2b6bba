// SPDX-License-Identifier: Apache-2.0
/** A line of the last figures, small enough for a table's cell. */
import { svg } from "./el.js";

const WIDTH = 84;
const HEIGHT = 22;

/** `most` is what there could be: a line that only wavers is not made to look like a mountain. */
export function sparkline(values: readonly number[], most: number, label: string): SVGElement {
  const top = Math.max(most / 8, Math.max(...values) * 1.25, 1e-9);
  const step = WIDTH / Math.max(values.length - 1, 1);
  const at = (v: number, i: number): string => `${(i * step).toFixed(1)},${(HEIGHT - 1.5 - Math.min(v / top, 1) * (HEIGHT - 3)).toFixed(1)}`;
  const points = values.map(at).join(" ");
  return svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label },
    values.length > 1 && svg("polygon", { class: "spark-area", points: `0,${HEIGHT} ${points} ${WIDTH},${HEIGHT}` }),
    values.length > 1 && svg("polyline", { class: "spark-line", points }),
  );
}
