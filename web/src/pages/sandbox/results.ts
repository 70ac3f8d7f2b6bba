// SPDX-License-Identifier: Apache-2.0
/** The files that the create named: what is kept of each when the sandbox has ended, to be downloaded. */
import type { KeptResult } from "../../../../sdk/typescript/src/index.js";
import { bytes, card, el, saveFile, table } from "../../ui/index.js";
import type { Box } from "./box.js";
import { action, type Panel, visible } from "./panel.js";

const WORDS: Record<KeptResult["state"], string> = { awaited: "kept when the sandbox ends", kept: "kept", missing: "not kept" };

async function* whole(box: Box, path: string): AsyncGenerator<Uint8Array> {
  yield await box.sandbox.readResult(path);
}

/** A directory comes as a tar. */
function fileName(result: KeptResult): string {
  const name = result.path.replace(/\/+$/, "").split("/").pop() || "result";
  return result.type === "directory" ? `${name}.tar` : name;
}

function mountResults(root: HTMLElement, box: Box, signal: AbortSignal): void {
  const list = table<KeptResult>({
    label: "Results",
    key: (result) => result.path,
    columns: [
      { name: "Path", by: (result) => result.path, cell: (result) => el("code", {}, visible(result.path)) },
      { name: "State", by: (result) => result.state, cell: (result) => el("span", {}, WORDS[result.state], result.why !== null && ` · ${visible(result.why)}`) },
      { name: "Size", isFigure: true, by: (result) => result.bytes, cell: (result) => (result.state === "kept" ? bytes(result.bytes) : "") },
      {
        name: "",
        cell: (result) =>
          result.state === "kept" && action("Download", () => saveFile(fileName(result), whole(box, result.path)), { class: "small", "aria-label": `Download ${visible(result.path)}` }),
      },
    ],
  });
  const draw = (): void => list.show(box.info.results ?? []);
  root.append(card("Results", list.node));
  box.onInfo(draw, signal);
  draw();
}

export const resultsPanel: Panel = { id: "results", title: "Results", mount: mountResults };
