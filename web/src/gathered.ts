// SPDX-License-Identifier: Apache-2.0
/**
 * Asking again without asking too often. What a page shows is asked for by one function, which never runs twice at a time: an
 * older answer cannot come behind a newer one and stay, and whatever happens while it runs has it run once more.
 */

/** Gives a function that calls fn: at once, or `ms` behind the end of the call before. What comes together is one call. */
export function gathered(fn: () => Promise<void> | void, signal: AbortSignal, ms = 150): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isBusy = false;
  let isWanted = false;
  let endedAt = -Infinity;

  async function run(): Promise<void> {
    timer = undefined;
    if (signal.aborted) return;
    isBusy = true;
    isWanted = false;
    try {
      await fn();
    } finally {
      isBusy = false;
      endedAt = performance.now();
      if (isWanted) plan();
    }
  }
  function plan(): void {
    timer = setTimeout(() => void run(), Math.max(0, endedAt + ms - performance.now()));
  }
  return () => {
    isWanted = true;
    if (timer === undefined && !isBusy && !signal.aborted) plan();
  };
}
