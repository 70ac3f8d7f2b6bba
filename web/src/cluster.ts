// SPDX-License-Identifier: Apache-2.0
/** Whether this daemon is a node of a cluster: what only a cluster has is shown there alone. Only admins of the project `default` may ask. */
import type { Live } from "./live.js";
import type { Client } from "./page.js";

let isIn = false;

export function isInCluster(): boolean {
  return isIn;
}

/** Asks now and whenever the log is followed again, as a daemon that was restarted may have joined; onChange is called with the answer. */
export function watchCluster(cloche: Client, live: Live, onChange: (isIn: boolean) => void): void {
  isIn = false;
  const ask = async (): Promise<void> => {
    isIn = (await cloche.nodes())["cluster"] !== null;
    onChange(isIn);
  };
  live.onState((state) => {
    if (state === "open") ask().catch(() => undefined);
  });
}
