// SPDX-License-Identifier: Apache-2.0
// A code interpreter as a tool: a fresh sandbox for every call, offline, so that nothing leaks from one to the next.
//
//     AI_GATEWAY_API_KEY=… node interpreter.mjs "How many primes are there below 1000?"
import { generateText, stepCountIs, tool } from "ai";
import { Sandbox } from "cloche";
import { z } from "zod";

export async function runPython(code) {
  const sandbox = await Sandbox.create({
    runtime: process.env.RUNTIME ?? "python3.13",
    idleTimeoutMs: 30_000,
    network: { allow: [] }, // fully offline
  });

  try {
    const result = await sandbox.exec({
      cmd: [process.env.PYTHON ?? "python", "-c", code],
      timeoutMs: 15_000,
    });

    return {
      stdout: result.stdout,
      stderr: result.stderr,
      exitCode: result.exitCode,
    };
  } finally {
    await sandbox.close();
  }
}

const executeCode = tool({
  description: "Run a Python snippet. Return stdout and stderr.",
  inputSchema: z.object({
    code: z.string().describe("Self-contained Python source"),
  }),
  execute: async ({ code }) => runPython(code),
});

export async function solve(problem) {
  const { text } = await generateText({
    model: "anthropic/claude-sonnet-4-6",
    tools: { executeCode },
    stopWhen: stepCountIs(6),
    system: "Solve problems by writing and running small Python programs.",
    prompt: problem,
  });
  return text;
}

console.log(await solve(process.argv[2] ?? "How many primes are there below 1000?"));
