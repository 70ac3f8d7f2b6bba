// SPDX-License-Identifier: Apache-2.0
// An agent that mends its own code: the tool hands back the exit code and stderr, and the model reads its own crash.
//
//     AI_GATEWAY_API_KEY=… node self-correct.mjs "Median and p95 of [3, 1, 4, 1, 5, 9, 2, 6]?"
import { generateText, stepCountIs, tool } from "ai";
import { Sandbox } from "cloche";
import { z } from "zod";

export const runCode = tool({
  description: "Execute JavaScript and return its stdout. Use this to compute answers, don't guess.",
  inputSchema: z.object({ code: z.string() }),
  execute: async ({ code }) => {
    const sandbox = await Sandbox.create({
      runtime: process.env.RUNTIME ?? "node24",
      timeout: 60_000, // hard ceiling: it dies after a minute no matter what
      networkPolicy: "deny-all",
      ports: [],
      resources: { vcpu: 1 },
    });
    try {
      await sandbox.writeFiles([{ path: "main.js", content: Buffer.from(code) }]);
      const result = await sandbox.runCommand("node", ["main.js"]);
      console.log(`[run-code] node main.js → exitCode ${result.exitCode}`);
      return {
        exitCode: result.exitCode,
        stdout: await result.stdout(),
        stderr: await result.stderr(),
      };
    } finally {
      await sandbox.stop(); // always tear down, even if it threw
    }
  },
});

const { text } = await generateText({
  model: "openai/gpt-5-nano",
  tools: { runCode },
  stopWhen: stepCountIs(6),
  prompt: process.argv[2] ?? "Median and p95 of [3, 1, 4, 1, 5, 9, 2, 6]?",
});
console.log(text);
