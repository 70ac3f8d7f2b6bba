// SPDX-License-Identifier: Apache-2.0
// The same tool by hand, for when its description or result must be your own; what the code prints is seen while it runs.
//
//     OPENAI_API_KEY=… node hand-rolled.mjs "Count to three, slowly."
import { openai } from "@ai-sdk/openai";
import { generateText, tool } from "ai";
import { Sandbox } from "cloche";
import { z } from "zod";

const sandbox = new Sandbox({ idleTimeoutMs: 30 * 60_000 }); // it ends by itself where nobody closes it
await sandbox.open();

const { text } = await generateText({
  model: openai("gpt-5"),
  prompt: process.argv[2] ?? "Count to three, slowly.",
  maxSteps: 8,
  tools: {
    run_python: tool({
      description:
        "Execute Python code in a persistent REPL. Variables, " + "imports, and file state carry across calls.",
      parameters: z.object({
        code: z.string().describe("Python source code to execute."),
      }),
      execute: async ({ code }) => {
        let out = "";
        const result = await sandbox.runCode(code, {
          onStdout: (chunk) => {
            process.stdout.write(chunk);
            out += chunk;
          },
        });
        return out + (result.stderr ?? "");
      },
    }),
  },
});
console.log(text);
await sandbox.close();
