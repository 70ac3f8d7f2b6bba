// SPDX-License-Identifier: Apache-2.0
/** Gives the browser a file to save: what comes in pieces, under a name. */
import { el } from "./el.js";

export async function saveFile(name: string, pieces: AsyncIterable<Uint8Array>, type = "application/octet-stream"): Promise<void> {
  const all: BlobPart[] = [];
  for await (const piece of pieces) all.push(piece as Uint8Array<ArrayBuffer>);
  const url = URL.createObjectURL(new Blob(all, { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
