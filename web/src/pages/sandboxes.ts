// SPDX-License-Identifier: Apache-2.0
/** All sandboxes of the project. */
import type { Json, Page } from "../page.js";
import { causeOf, empty, failure, loading, pageHead, relativeTime, replace, sandboxName, sandboxPath, stateBadge, table } from "../ui/index.js";

export const page: Page = {
  title: "Sandboxes",
  mount(root, ctx) {
    const rows = table<Json>({
      label: "Sandboxes",
      key: (s) => s["id"],
      href: (s) => sandboxPath(s["id"]),
      sort: { column: "Age", isDown: true },
      columns: [
        { name: "Name", by: sandboxName, cell: sandboxName },
        { name: "State", by: (s) => s["state"], cell: (s) => stateBadge(s["state"]) },
        { name: "Template", by: (s) => s["template"], cell: (s) => s["template"] },
        { name: "Age", by: (s) => s["created_us"], cell: (s) => relativeTime(s["created_us"]), isFigure: true },
        { name: "Cause of death", by: causeOf, cell: causeOf },
      ],
    });
    async function show(): Promise<void> {
      try {
        const all: Json[] = [];
        for await (const s of ctx.cloche.pages(["sandboxes"], "sandboxes", {})) all.push(s);
        rows.show(all);
        replace(root, pageHead("Sandboxes"), all.length ? rows.node : empty("No sandboxes"));
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
