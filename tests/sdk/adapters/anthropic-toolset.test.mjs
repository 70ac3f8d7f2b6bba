// SPDX-License-Identifier: Apache-2.0
// The tools of Claude Managed Agents in a sandbox: run by the real SDK's session of tools, and each by itself.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { Client } from "cloche";
import { agentToolset } from "cloche/anthropic";

const client = new Client();
after(() => client.close());

test("each tool does what the toolset promises", async () => {
  const tools = Object.fromEntries(agentToolset({ client }).map((tool) => [tool.name, tool]));
  const use = (name, input) => tools[name].run(tools[name].parse(input));
  try {
    assert.deepEqual(Object.keys(tools), ["bash", "read", "write", "edit", "glob", "grep"]);
    await use("write", { file_path: "src/a b.txt", content: "one\ntwo\none\n" });
    await use("bash", { command: "cd src; X=7" });
    assert.equal(await use("bash", { command: "pwd | xargs basename; echo $X" }), "src\n7\n");
    assert.equal(await use("bash", { restart: true }), "bash was restarted");
    assert.equal(await use("bash", { command: "echo [$X]" }), "[]\n");
    await assert.rejects(use("bash", { command: "echo why; exit 3" }), /why/);
    assert.equal(await use("read", { file_path: "src/a b.txt", view_range: [2, 2] }), "two");
    await assert.rejects(use("edit", { file_path: "src/a b.txt", old_string: "one", new_string: "1" }), /2 times/);
    await use("edit", { file_path: "src/a b.txt", old_string: "one", new_string: "1", replace_all: true });
    assert.equal(await use("read", { file_path: "src/a b.txt" }), "1\ntwo\n1\n");
    assert.equal(await use("glob", { pattern: "**/*.txt" }), "src/a b.txt\n");
    assert.equal(await use("glob", { pattern: "*.none" }), "(nothing found)");
    assert.equal(await use("grep", { pattern: "t[wx]o", path: "src" }), "src/a b.txt:2:two\n");
    assert.equal(await use("grep", { pattern: "absent" }), "(nothing found)");
    await assert.rejects(use("grep", { pattern: "(" }));
    await assert.rejects(use("read", { file_path: "none" }), /none/);
    await assert.rejects(use("read", {}), /`file_path` must be a string/);
  } finally {
    for (const tool of Object.values(tools)) await tool.close();
  }
});

test("the SDK's runner takes them, and the model reads what they say", async () => {
  const asked = [];
  const replies = [
    [{ type: "tool_use", id: "a", name: "bash", input: { command: "echo 42" } }, { type: "tool_use", id: "b", name: "read", input: { file_path: "none" } }],
    [{ type: "text", text: "done" }],
  ];
  const fetch = async (_url, init) => {
    asked.push(JSON.parse(init.body));
    const content = replies[asked.length - 1];
    const stop_reason = content[0].type === "text" ? "end_turn" : "tool_use";
    const message = { id: "m", type: "message", role: "assistant", model: "m", content, stop_reason, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } };
    return new Response(JSON.stringify(message), { headers: { "content-type": "application/json" } });
  };
  const tools = agentToolset({ client });
  try {
    const anthropic = new Anthropic({ apiKey: "none", fetch, maxRetries: 0 });
    const last = await anthropic.beta.messages.toolRunner({ model: "m", max_tokens: 100, tools, messages: [{ role: "user", content: "go" }] });
    assert.equal(last.content[0].text, "done");
    const results = asked[1].messages.at(-1).content;
    assert.deepEqual([results[0].content, results[1].is_error], ["42\n", true]);
  } finally {
    for (const tool of tools) await tool.close();
  }
});
