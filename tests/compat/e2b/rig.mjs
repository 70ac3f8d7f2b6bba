// SPDX-License-Identifier: Apache-2.0
// What the conformance tests share: sandboxes that go with their test, and waits for what is told by callback.
import { test as nodeTest } from "node:test";
import { Sandbox } from "@e2b/code-interpreter";

/** A test that is given `make(options)`; what was made with it is killed. */
export function test(name, fn) {
  nodeTest(name, { timeout: 60_000 }, async () => {
    const made = [];
    const keep = (sandbox) => (made.push(sandbox), sandbox);
    const make = async (options = {}) => keep(await Sandbox.create({ timeoutMs: 120_000, ...options }));
    make.keep = keep;
    try {
      await fn(make);
    } finally {
      for (const sandbox of made.reverse()) await sandbox.kill().catch(() => {});
    }
  });
}

/** Things that are told one by one: `tell` takes them, `until` waits for one that suits. */
export function heard() {
  const all = [], waiting = [];
  const tell = (thing) => {
    all.push(thing);
    for (const look of [...waiting]) look();
  };
  const until = (suits) =>
    new Promise((resolve) => {
      const look = () => suits(all) && (waiting.splice(waiting.indexOf(look), 1), resolve(all));
      waiting.push(look);
      look();
    });
  return { tell, until };
}

export const bytes = (text) => new TextEncoder().encode(text);
