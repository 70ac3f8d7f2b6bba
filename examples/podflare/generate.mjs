// SPDX-License-Identifier: Apache-2.0
// A tool that makes its own sandbox, of a template, at its first call.
//
//     OPENAI_API_KEY=… node generate.mjs "Fetch the top 5 HN stories and chart their scores."
import { openai } from "@ai-sdk/openai";
import { generateText, tool } from "ai";
import { clocheRunCode } from "cloche/ai-sdk";
import { z } from "zod";

const pf = clocheRunCode({ template: process.env.TEMPLATE ?? "python-datasci" });
const result = await generateText({
  model: openai("gpt-4o"),
  tools: {
    runCode: tool({
      description: pf.description,
      parameters: z.object({
        code: z.string(),
        language: z.enum(["python", "bash"]).optional(),
      }),
      execute: pf.execute,
    }),
  },
  prompt: process.argv[2] ?? "Fetch the top 5 HN stories and chart their scores.",
  maxSteps: 10,
});
await pf.close();
console.log(result.text);
