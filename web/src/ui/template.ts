// SPDX-License-Identifier: Apache-2.0
/** Which templates are there to start from. */
import type { Json } from "../page.js";

/** An image that was made for a set of packages: a name that nobody can give has a + between its template and a hash. */
export function isPackageSet(t: Json): boolean {
  return String(t["name"]).includes("+");
}

/** Whether a sandbox can be told to start from it; a kernel has no root. */
export function isToStartFrom(t: Json): boolean {
  return !isPackageSet(t) && t["name"] !== "kernel" && !t["manifest"]?.["kernel"];
}
