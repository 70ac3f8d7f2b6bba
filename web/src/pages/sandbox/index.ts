// SPDX-License-Identifier: Apache-2.0
/** One sandbox. */
import type { Context, Page } from "../../page.js";
import { request } from "../../../../sdk/typescript/src/wire.js";
import { card, causeOf, facts, failure, loading, pageHead, relativeTime, replace, sandboxName, stateBadge } from "../../ui/index.js";

export const page: Page = {
  title: "Sandbox",
  mount(root: HTMLElement, ctx: Context) {
    const id = ctx.params["id"]!;
    async function show(): Promise<void> {
      try {
        const s = await ctx.cloche.call(request("GET", ["sandboxes", id], { signal: ctx.signal }));
        replace(
          root,
          pageHead(sandboxName(s), stateBadge(s["state"])),
          card(
            "What it is",
            facts([
              ["id", s["id"]],
              ["template", s["template"]],
              ["grade", s["isolation"]?.["grade"]],
              ["created", relativeTime(s["created_us"])],
              ["cause of death", causeOf(s)],
            ]),
          ),
        );
      } catch (error) {
        if (!ctx.signal.aborted) replace(root, failure(error, () => void show()));
      }
    }
    replace(root, loading());
    void show();
    const off = ctx.live.on((entry) => {
      if (entry.sandbox_id === id) void show();
    });
    return off;
  },
};
