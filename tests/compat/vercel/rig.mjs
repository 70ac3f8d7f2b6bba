// SPDX-License-Identifier: Apache-2.0
// What the conformance tests share: sandboxes that go with their test, and errors as values.
import { test as nodeTest } from "node:test";
import { Sandbox } from "@vercel/sandbox";

export const enc = (text) => new TextEncoder().encode(text);

/** A test that is given `make(options)`; what was made with it is deleted. */
export function test(name, fn) {
  nodeTest(name, { timeout: 60_000 }, async () => {
    const made = [];
    const keep = (sandbox) => (made.push(sandbox), sandbox);
    const make = async (options) => keep(await Sandbox.create({ persistent: false, ...options }));
    make.keep = keep;
    try {
      await fn(make);
    } finally {
      for (const sandbox of made.reverse()) await sandbox.delete({ deleteOrphanSnapshots: true }).catch(() => {});
    }
  });
}

export const out = async (sandbox, ...words) => (await sandbox.runCommand(...words)).stdout();
export const sh = (sandbox, line) => sandbox.runCommand("sh", ["-c", line]);

/** The error that a promise ends with. */
export async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return { status: error.response?.status, code: error.json?.error?.code ?? error.code, message: error.message, error };
  }
  throw new Error("it did not fail");
}
