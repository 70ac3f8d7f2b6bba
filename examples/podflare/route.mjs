// SPDX-License-Identifier: Apache-2.0
// A chat route whose model runs Python: the Vercel AI SDK's streamText() with a ready tool. State stays from call to call.
//
//     OPENAI_API_KEY=… node route.mjs "What is 111 * 111?"
import { openai } from "@ai-sdk/openai";
import { streamText } from "ai";
import { Sandbox } from "cloche";
import { clocheRunCode } from "cloche/ai-sdk";

const sandbox = new Sandbox({ idleTimeoutMs: 30 * 60_000 }); // it ends by itself where nobody closes it
await sandbox.open();

export async function POST(req) {
  const { messages } = await req.json();
  const result = streamText({
    model: openai("gpt-5"),
    messages,
    tools: {
      run_python: clocheRunCode({ sandbox }),
    },
    maxSteps: 8, // allow multi-turn tool use
  });
  return result.toDataStreamResponse();
}

const messages = [{ role: "user", content: process.argv[2] ?? "What is 111 * 111?" }];
const reply = await POST(new Request("http://localhost/api/chat", { method: "POST", body: JSON.stringify({ messages }) }));
for await (const piece of reply.body.pipeThrough(new TextDecoderStream())) process.stdout.write(piece);
await sandbox.close();
