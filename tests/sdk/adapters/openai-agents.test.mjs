// SPDX-License-Identifier: Apache-2.0
// The tool for OpenAI's Agents SDK in the real library, with a scripted model.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client, Sandbox } from "cloche";
import { clocheCodeInterpreter } from "cloche/openai-agents";

const client = new Client();
after(() => client.close());
const node = Number(process.versions.node.split(".")[0]);
const skip = node < 20 ? `@openai/agents needs Node 20, this is ${process.version}` : false;

test("an agent runs code whose state stays, and is told what it got wrong", { skip }, async () => {
  const { Agent, run, setTracingDisabled } = await import("@openai/agents");
  const { ScriptedModel, assistantMessage, functionCall, modelResponse } = await import("@openai/agents/testing");
  setTracingDisabled(true);
  const sandbox = await Sandbox.create({ client });
  const calls = [{ code: "x = 111" }, { code: "x * x" }, { language: "python" }];
  const steps = calls.map((call, i) => modelResponse([functionCall("run_code", call, { callId: `call-${i}` })]));
  const model = new ScriptedModel([...steps, modelResponse([assistantMessage("12321")])]);
  const agent = new Agent({ name: "assistant", instructions: "Use run_code.", model, tools: [clocheCodeInterpreter({ sandbox })] });
  const result = await run(agent, "what is 111 * 111?");
  assert.equal(result.finalOutput, "12321");
  const outputs = result.newItems.filter((item) => item.type === "tool_call_output_item").map((item) => item.output);
  assert.deepEqual(outputs.slice(0, 2), ["", "12321\n"]);
  assert.match(outputs[2], /`code` must be a string/);
  await sandbox.close();
});
