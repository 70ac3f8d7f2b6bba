// SPDX-License-Identifier: Apache-2.0
// The tools for Anthropic's Messages API, in the real SDK, against a local server that answers from a script.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { Client, Sandbox } from "cloche";
import { bashTool, handleToolUse, handleToolUses, runCodeTool, textEditorTool } from "cloche/anthropic";

const client = new Client();
let sandbox;
before(async () => {
  sandbox = await Sandbox.create({ client });
});
after(async () => {
  await sandbox.close();
  client.close();
});

/** A server that gives one scripted reply after the other, and remembers what it was asked. */
async function scripted(replies) {
  const asked = [];
  const server = createServer((req, res) => {
    let body = "";
    req.on("data", (piece) => (body += piece));
    req.on("end", () => {
      asked.push(JSON.parse(body));
      const content = replies[asked.length - 1];
      const stop_reason = content.some((b) => b.type === "tool_use") ? "tool_use" : "end_turn";
      const message = { id: "msg_1", type: "message", role: "assistant", model: "m", content, stop_reason, usage: { input_tokens: 1, output_tokens: 1 } };
      res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(message));
    });
  });
  await new Promise((go) => server.listen(0, "127.0.0.1", go));
  const anthropic = new Anthropic({ apiKey: "none", baseURL: `http://127.0.0.1:${server.address().port}`, maxRetries: 0 });
  return { anthropic, asked, close: () => server.close() };
}

const use = (id, name, input) => ({ type: "tool_use", id, name, input });

async function say(name, input) {
  const { content, is_error } = await handleToolUse({ id: "tu", name, input }, sandbox);
  return [content.map((part) => part.text ?? part.type).join("|"), is_error];
}

test("the loop of the Messages API runs code until the model is content", async () => {
  const replies = [
    [use("a", "run_code", { code: "x = 20" }), use("b", "bash", { command: "cd /tmp; Y=5" })],
    [use("c", "run_code", { code: "print(x + 22)" }), use("d", "bash", { command: "pwd; echo $Y" })],
    [{ type: "text", text: "42" }],
  ];
  const { anthropic, asked, close } = await scripted(replies);
  const messages = [{ role: "user", content: "compute" }];
  let reply;
  do {
    reply = await anthropic.messages.create({ model: "m", max_tokens: 100, tools: [runCodeTool(), bashTool(), textEditorTool()], messages });
    messages.push({ role: "assistant", content: reply.content });
    const results = await handleToolUses(reply.content, sandbox);
    if (results.length) messages.push({ role: "user", content: results });
  } while (reply.stop_reason === "tool_use");
  close();
  assert.equal(reply.content[0].text, "42");
  const results = asked[2].messages.at(-1).content;
  assert.deepEqual(results.map((r) => [r.tool_use_id, r.content[0].text, r.is_error]), [["c", "42\n", false], ["d", "/tmp\n5\n", false]]);
  assert.deepEqual(asked[0].tools.map((t) => t.name), ["run_code", "bash", "str_replace_based_edit_tool"]);
});

describe("a block", () => {
  test("that fails is told as an error, with what to do", async () => {
    assert.match((await say("run_code", { code: "1/0" }))[0], /ZeroDivisionError/);
    assert.deepEqual((await say("run_code", { code: "1/0" }))[1], true);
    assert.match((await say("run_code", {}))[0], /`code` must be a string/);
    assert.match((await say("nonsense", {}))[0], /there is no tool 'nonsense'/);
    assert.equal((await say("bash", { command: "exit 3" }))[1], true);
    assert.deepEqual(await say("bash", { restart: true }), ["bash was restarted", false]);
    assert.deepEqual(await say("code_execution", { code: "print('pasted loop')" }), ["pasted loop\n", false]);
  });

  test("edits files", async () => {
    const edit = (input) => say("str_replace_based_edit_tool", { path: "notes/a.txt", ...input });
    assert.equal((await edit({ command: "create", file_text: "one\ntwo\ntwo\n" }))[1], false);
    assert.match((await edit({ command: "str_replace", old_str: "two", new_str: "2" }))[0], /occurs 2 times/);
    assert.equal((await edit({ command: "str_replace", old_str: "one", new_str: "1$&" }))[1], false);
    assert.equal((await edit({ command: "insert", insert_line: 1, insert_text: "new\n" }))[1], false);
    assert.deepEqual(await edit({ command: "view", view_range: [1, 2] }), ["     1\t1$&\n     2\tnew", false]);
    assert.match((await edit({ command: "view", view_range: [9, 12] }))[0], /view_range/);
    assert.deepEqual(await edit({ command: "view", path: "notes" }), ["a.txt", false]);
    assert.deepEqual((await edit({ command: "view", path: "nothing-there" }))[1], true);
    assert.match((await edit({ command: "undo" }))[0], /must be one of view, create/);
  });

  test("gives pictures as pictures", async () => {
    const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const code = `class P:\n  def _repr_png_(self):\n    import base64\n    return base64.b64decode("${pixel}")\nP()`;
    const { content } = await handleToolUse({ id: "p", name: "run_code", input: { code } }, sandbox);
    assert.deepEqual(content[1], { type: "image", source: { type: "base64", media_type: "image/png", data: pixel } });
  });
});
