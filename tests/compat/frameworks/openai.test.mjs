// SPDX-License-Identifier: Apache-2.0
// OpenAI's Agents SDK with its own client for E2B's sandboxes: a scripted model works in one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { run, setTracingDisabled, Usage } from "@openai/agents";
import { Manifest, SandboxAgent, file } from "@openai/agents/sandbox";
import { E2BSandboxClient } from "@openai/agents-extensions/sandbox/e2b";

/** Says one after the other. */
const scripted = (outputs) => ({
  getResponse: async () => ({ usage: new Usage(), output: [outputs.shift()] }),
  getStreamedResponse: () => assert.fail("nobody streams"),
});
const call = (callId, cmd) => ({ type: "function_call", callId, name: "exec_command", status: "completed", arguments: JSON.stringify({ cmd }) });
const done = { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "done" }] };

test("a sandbox agent works in a sandbox of E2B's wire", { timeout: 60_000 }, async () => {
  setTracingDisabled(true);
  const manifest = new Manifest({ entries: { "notes.txt": file({ content: "remember\n" }) } });
  const model = scripted([call("1", "cat notes.txt; exit 3"), call("2", "echo second >> notes.txt; cat notes.txt"), done]);
  const agent = new SandboxAgent({ name: "coder", instructions: "look", model, defaultManifest: manifest });
  const result = await run(agent, "go", { sandbox: { client: new E2BSandboxClient() } });
  assert.equal(result.finalOutput, "done");
  const told = result.newItems.filter((item) => item.type === "tool_call_output_item").map((item) => String(item.output));
  assert.match(told[0], /exited with code 3[^]*remember/);
  assert.match(told[1], /remember\nsecond/);
});

test("a session is saved and goes on in another sandbox", { timeout: 60_000 }, async () => {
  const client = new E2BSandboxClient();
  const session = await client.create({ manifest: new Manifest({ entries: { "a.txt": file({ content: "one\n" }) } }) });
  let other;
  try {
    const archive = await session.persistWorkspace();
    other = await client.create({ manifest: new Manifest() });
    await other.hydrateWorkspace(archive);
    assert.match(await other.execCommand({ cmd: "cat a.txt" }), /one/);
  } finally {
    await session.close();
    await other?.close();
  }
});
