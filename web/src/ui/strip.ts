// SPDX-License-Identifier: Apache-2.0
/** A row that scrolls sideways where there is too little room for it. */

/** Keeps the one that is chosen, by its selector, in sight when the window changes. */
export function keepInSight(strip: HTMLElement, chosen: string): void {
  new ResizeObserver(() => {
    const node = strip.querySelector(chosen);
    if (!node) return;
    const [outer, inner] = [strip.getBoundingClientRect(), node.getBoundingClientRect()];
    strip.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }).observe(strip);
}
