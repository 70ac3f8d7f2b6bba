// SPDX-License-Identifier: Apache-2.0
/** How the host is, at a glance. */
import type { Page } from "../page.js";
import { count, failure, loading, pageHead, percent, replace, span, tile, el } from "../ui/index.js";

export const page: Page = {
  title: "Overview",
  mount(root, ctx) {
    async function show(): Promise<void> {
      try {
        const h = await ctx.cloche.health();
        const pool = h["pool"];
        const asked = pool.hits + pool.misses;
        replace(
          root,
          pageHead("Overview"),
          el(
            "div",
            { class: "cards" },
            tile("Sandboxes", count(h["sandboxes"])),
            tile("Pool", `${pool.ready} / ${pool.target}`, asked ? `${percent(pool.hits / asked)} of creates` : "ready / wanted"),
            tile("Uptime", span(h["uptime_ms"])),
          ),
        );
      } catch (error) {
        if (!ctx.signal.aborted) replace(root, failure(error, () => void show()));
      }
    }
    replace(root, loading());
    void show();
    return ctx.live.on((entry) => {
      if (entry.type.startsWith("sandbox.")) void show();
    });
  },
};
