// SPDX-License-Identifier: Apache-2.0
// The tool for the AI SDK in the real library, in each major, with a scripted model: what counts is what the model is told.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { Client, Sandbox } from "cloche";
import { clocheRunCode } from "cloche/ai-sdk";

const client = new Client();
const node = Number(process.versions.node.split(".")[0]);
const usage4 = { finishReason: "stop", usage: { promptTokens: 1, completionTokens: 1 }, rawCall: { rawPrompt: null, rawSettings: {} } };
const usage5 = { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, warnings: [] };
const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
const usage6 = { usage: { inputTokens: tokens, outputTokens: { total: 1, text: 1, reasoning: 0 } }, warnings: [] };

/** By major: the library, its scripted model, what a call for a tool and a last word look like, and how a loop is bounded. */
const MAJORS = {
  4: {
    mock: "MockLanguageModelV1",
    call: (id, args) => ({ ...usage4, finishReason: "tool-calls", toolCalls: [{ toolCallType: "function", toolCallId: id, toolName: "run_code", args }] }),
    text: (text) => ({ ...usage4, text }),
    loop: () => ({ maxSteps: 8 }),
  },
  5: { mock: "MockLanguageModelV2", ...modern(usage5, (reason) => reason), loop: (ai) => ({ stopWhen: ai.stepCountIs(8) }) },
  6: { mock: "MockLanguageModelV3", ...modern(usage6, (unified) => ({ unified, raw: undefined })), loop: (ai) => ({ stopWhen: ai.stepCountIs(8) }) },
  7: { mock: "MockLanguageModelV4", ...modern(usage6, (unified) => ({ unified, raw: undefined })), loop: (ai) => ({ stopWhen: ai.isStepCount(8) }) },
};

function modern(usage, reason) {
  return {
    call: (toolCallId, input) => ({ ...usage, finishReason: reason("tool-calls"), content: [{ type: "tool-call", toolCallId, toolName: "run_code", input }] }),
    text: (text) => ({ ...usage, finishReason: reason("stop"), content: [{ type: "text", text }] }),
  };
}

async function allOf(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

/** The texts of all tool results in the last prompt. */
function told(prompt) {
  const parts = prompt.filter((m) => m.role === "tool").flatMap((m) => m.content);
  return parts.map((p) => (p.result !== undefined ? p.result : p.output.value));
}

async function converse(major, tool, calls) {
  const ai = await import(`ai${major}`);
  const { [MAJORS[major].mock]: Mock } = await import(`ai${major}/test`);
  const prompts = [];
  let step = 0;
  const model = new Mock({
    doGenerate: async ({ prompt }) => {
      prompts.push(prompt);
      const call = calls[step++];
      return call ? MAJORS[major].call(`call-${step}`, JSON.stringify(call)) : MAJORS[major].text("done");
    },
  });
  const result = await ai.generateText({ model, tools: { run_code: tool }, prompt: "go", ...MAJORS[major].loop(ai) });
  assert.equal(result.text, "done");
  return told(prompts.at(-1));
}

for (const major of Object.keys(MAJORS)) {
  const skip = major === "7" && node < 20 ? `ai ${major} needs Node 20, this is ${process.version}` : false;
  describe(`the AI SDK ${major}`, { skip }, () => {
    test("runs code whose state stays, and reads output, values and errors", async () => {
      const sandbox = await Sandbox.create({ client });
      const calls = [{ code: "x = 6" }, { code: "print(x * 7)\nx" }, { code: "1/0" }, { code: "echo $((2+3))", language: "bash" }];
      const [first, second, third, fourth] = await converse(major, clocheRunCode({ sandbox }), calls);
      assert.deepEqual([first, second, fourth], ["", "42\n6\n", "5\n"]);
      assert.match(third, /ZeroDivisionError: division by zero/);
      await sandbox.close();
    });

    test("makes a sandbox of its own at the first call, and ends it", async () => {
      const tag = `ai${major}-${Date.now()}`;
      const tool = clocheRunCode({ client, tags: { tag } });
      assert.deepEqual(await converse(major, tool, [{ code: "print('own')" }]), ["own\n"]);
      const [made] = await allOf(Sandbox.list({ client, tag: `tag:${tag}`, state: "running" }));
      await tool.close();
      assert.equal((await made.refresh()).ended.cause, "deleted");
    });
  });
}

after(() => client.close());
