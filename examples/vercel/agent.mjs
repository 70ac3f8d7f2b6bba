// SPDX-License-Identifier: Apache-2.0
// A route that answers by generated code, with the packages that it asks for. What the code destroys, or reads, is the sandbox's own:
//
//     AI_GATEWAY_API_KEY=… node agent.mjs "Get Hacker News top story title and URL"
//     AI_GATEWAY_API_KEY=… node agent.mjs "Delete the ./tmp folder and show me the result"
//     AI_GATEWAY_API_KEY=… node agent.mjs "Print process.env"
import { Experimental_Agent as Agent, stepCountIs, tool } from "ai";
import { Sandbox } from "cloche";
import { z } from "zod";

export async function POST(req) {
  let sandbox = null;
  const body = await req.json();
  const parsed = z.object({ prompt: z.string().min(1).max(10_000) }).safeParse(body);
  if (!parsed.success) {
    return Response.json({ error: "Invalid body. Expected { prompt: string }." }, { status: 400 });
  }
  const { prompt } = parsed.data;
  sandbox = await Sandbox.create({
    runtime: process.env.RUNTIME ?? "node22",
    // stop sandbox after 30 seconds
    timeout: 30_000,
    // nothing is open unless it is named
    networkPolicy: { allow: ["*.npmjs.org", "hacker-news.firebaseio.com"] },
  });
  console.log(`[agent] sandbox ${sandbox.sandboxId} created`);
  try {
    const agent = new Agent({
      model: "openai/gpt-5-nano",
      system: "You are an AI assistant that generates and runs JS. Use console.log to output values.",
      tools: {
        generateAndRunCode: tool({
          description: "Use this tool to run JS code in Node.js v22 sandbox",
          inputSchema: z.object({
            code: z.string().describe("The JS code to run"),
            packages: z.array(z.string()).nullable().default([]).describe("Optional packages to install"),
          }),
          execute: async ({ code, packages }) => {
            // If the LLM output provides packages, install them with npm.
            if (packages && packages.length > 0) {
              console.log(`[agent] npm install ${packages.join(" ")}`);
              const installStep = await sandbox.runCommand({
                cmd: "npm",
                args: ["install", ...packages],
              });
              const installOut = await installStep.stdout();
              console.log(`[agent] npm install exit=${installStep.exitCode}`);
              if (installStep.exitCode !== 0) {
                return { output: installOut, exitCode: installStep.exitCode };
              }
            }
            const runResult = await sandbox.runCommand({
              cmd: "node",
              args: ["-e", code],
            });
            const output = await runResult.stdout();
            console.log(`[agent] node exit=${runResult.exitCode}`);
            return { output, exitCode: runResult.exitCode };
          },
        }),
      },
      stopWhen: stepCountIs(10),
    });
    const result = await agent.generate({ prompt });
    return Response.json({ text: result.text });
  } finally {
    await sandbox.stop();
  }
}

const prompt = process.argv[2] ?? "Get Hacker News top story title and URL";
const reply = await POST(new Request("http://localhost/api/agent", { method: "POST", body: JSON.stringify({ prompt }) }));
console.log((await reply.json()).text);
