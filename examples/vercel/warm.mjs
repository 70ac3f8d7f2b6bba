// SPDX-License-Identifier: Apache-2.0
// One sandbox for all who know its name, prepared once: run it twice, and the second time finds all as it was left.
import { Sandbox } from "cloche";

const sandbox = await Sandbox.getOrCreate({
  name: process.argv[2] ?? "warm",
  runtime: process.env.RUNTIME ?? "node24",
  onCreate: async (s) => {
    // runs once: install deps, seed files
    await s.writeFiles([{ path: "node_modules/answer/index.js", content: Buffer.from("module.exports = 42;\n") }]);
    const saved = await s.snapshot();
    console.log(`made, and saved as ${saved.id}`);
  },
  onResume: async () => {
    // runs on subsequent calls: already warm
    console.log("resumed");
  },
});
const result = await sandbox.runCommand("node", ["-p", "require('answer')"]);
console.log(await result.stdout());
await sandbox.stop();
