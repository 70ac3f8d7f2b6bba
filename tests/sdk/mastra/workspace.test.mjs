// SPDX-License-Identifier: Apache-2.0
// Mastra's agents with a workspace in a sandbox: the real library, with a model that follows a script.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Agent } from "@mastra/core/agent";
import { FileExistsError, FileNotFoundError, IsDirectoryError, StaleFileError, Workspace } from "@mastra/core/workspace";
import { Client } from "cloche";
import { clocheWorkspace } from "cloche/mastra";

const client = new Client();
after(() => client.close());

async function withWorkspace(fn, options = {}) {
  const parts = clocheWorkspace({ client, ...options });
  try {
    return await fn(parts, new Workspace(parts));
  } finally {
    await parts.sandbox.destroy();
  }
}

/** Calls a tool for each step, then says that it is done; `prompts` is what it was told. */
function scripted(steps) {
  const prompts = [];
  const usage = { inputTokens: { total: 1, noCache: 1 }, outputTokens: { total: 1, text: 1 } };
  const replies = ({ prompt }) => {
    prompts.push(JSON.stringify(prompt.at(-1)));
    const [toolName, input] = steps[prompts.length - 1] ?? [];
    const content = toolName ? { type: "tool-call", toolCallId: `c${prompts.length}`, toolName, input: JSON.stringify(input) } : { type: "text", text: "done" };
    return { content: [content], finishReason: { unified: toolName ? "tool-calls" : "stop", raw: undefined }, usage, warnings: [] };
  };
  const doGenerate = async (options) => replies(options);
  return { prompts, model: { specificationVersion: "v3", provider: "script", modelId: "script", supportedUrls: {}, doGenerate, doStream: undefined } };
}

test("an agent's commands, processes and files are the sandbox's", async () => {
  await withWorkspace(async (_parts, workspace) => {
    const { model, prompts } = scripted([
      ["mastra_workspace_write_file", { path: "notes/a.txt", content: "remember\n" }],
      ["mastra_workspace_execute_command", { command: "cat notes/a.txt; echo $((6*7)) >&2; exit 3" }],
      ["mastra_workspace_read_file", { path: "notes/a.txt" }],
      ["mastra_workspace_list_files", { path: "notes" }],
      ["mastra_workspace_read_file", { path: "none" }],
    ]);
    const agent = new Agent({ id: "coder", name: "coder", instructions: "go", model, workspace });
    const result = await agent.generate("go", { maxSteps: 10 });
    assert.equal(result.text, "done");
    assert.match(prompts[2], /remember/);
    assert.match(prompts[2], /42[^]*Exit code: 3/);
    assert.match(prompts[3], /remember/);
    assert.match(prompts[4], /a\.txt/);
    assert.match(prompts[5], /not found/i);
  });
});

test("an agent's background process is looked at and killed by its pid", async () => {
  await withWorkspace(async ({ sandbox }, workspace) => {
    const { pid } = await sandbox.processes.spawn("echo begun; sleep 7654", { stdinMode: "ignore" });
    const { model, prompts } = scripted([
      ["mastra_workspace_get_process_output", { pid }],
      ["mastra_workspace_kill_process", { pid }],
      ["mastra_workspace_execute_command", { command: "echo later; exit 5", background: true }],
    ]);
    const agent = new Agent({ id: "coder", name: "coder", instructions: "go", model, workspace });
    assert.equal((await agent.generate("go", { maxSteps: 10 })).text, "done");
    assert.match(prompts[2], /has been killed/);
    const [started] = prompts[3].match(/ex_[a-z0-9]+/);
    const done = await (await sandbox.processes.get(started)).wait();
    assert.deepEqual([done.exitCode, done.stdout], [5, "later\n"]);
  });
});

test("errors of files are those that Mastra's tools know", async () => {
  await withWorkspace(async ({ filesystem }) => {
    await filesystem.writeFile("d/a.txt", "one");
    const { modifiedAt } = await filesystem.stat("d/a.txt");
    await filesystem.writeFile("d/a.txt", "two", { expectedMtime: modifiedAt });
    await assert.rejects(filesystem.writeFile("d/a.txt", "three", { expectedMtime: new Date(0) }), StaleFileError);
    await assert.rejects(filesystem.writeFile("d/a.txt", "three", { overwrite: false }), FileExistsError);
    for (const call of ["stat", "readFile", "deleteFile"]) await assert.rejects(filesystem[call]("none"), FileNotFoundError);
    for (const call of ["readFile", "deleteFile"]) await assert.rejects(filesystem[call]("d"), IsDirectoryError);
    assert.equal(await filesystem.readFile("d/a.txt", { encoding: "utf-8" }), "two");
  });
});
