// SPDX-License-Identifier: Apache-2.0
// A sandbox as AI SDK 7 has it: handed to tools by the real library, and each call of its contract.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client, Sandbox } from "cloche";
import { clocheSandboxSession } from "cloche/ai-sdk";

const client = new Client();
after(() => client.close());
const node = Number(process.versions.node.split(".")[0]);
const skip = node < 20 ? `ai 7 needs Node 20, this is ${process.version}` : false;

async function withSession(fn, options) {
  const sandbox = await Sandbox.create({ client });
  try {
    return await fn(clocheSandboxSession(sandbox, options), sandbox);
  } finally {
    await sandbox.close();
  }
}

const text = async (stream) => new TextDecoder().decode(await new Response(stream).arrayBuffer());

test("a tool of AI SDK 7 works in the sandbox that the call was given", { skip }, async () => {
  const { generateText, isStepCount, jsonSchema, tool } = await import("ai7");
  const { MockLanguageModelV4 } = await import("ai7/test");
  const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
  const usage = { usage: { inputTokens: tokens, outputTokens: { total: 1, text: 1, reasoning: 0 } }, warnings: [] };
  const prompts = [];
  const model = new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      prompts.push(prompt);
      const content = prompts.length === 1 ? { type: "tool-call", toolCallId: "c", toolName: "sh", input: '{"command":"echo 42; exit 3"}' } : { type: "text", text: "done" };
      return { ...usage, finishReason: { unified: prompts.length === 1 ? "tool-calls" : "stop", raw: undefined }, content: [content] };
    },
  });
  const sh = tool({
    description: ({ experimental_sandbox }) => experimental_sandbox.description,
    inputSchema: jsonSchema({ type: "object", properties: { command: { type: "string" } } }),
    execute: ({ command }, { experimental_sandbox }) => experimental_sandbox.run({ command }),
  });
  await withSession(async (session) => {
    const result = await generateText({ model, tools: { sh }, prompt: "go", experimental_sandbox: session, stopWhen: isStepCount(3) });
    assert.equal(result.text, "done");
    assert.deepEqual(prompts[1].at(-1).content[0].output.value, { exitCode: 3, stdout: "42\n", stderr: "" });
  });
});

test("a process streams both ways, ends by kill and by abort", { skip }, async () => {
  await withSession(async (session) => {
    const cat = await session.spawn({ command: "cat; echo end >&2; exit 4", stdin: true });
    const writer = cat.stdin.getWriter();
    await writer.write(new TextEncoder().encode("héllo"));
    await writer.close();
    assert.deepEqual([await text(cat.stdout), await text(cat.stderr), await cat.wait()], ["héllo", "end\n", { exitCode: 4 }]);
    const sleeper = await session.spawn({ command: "sleep 7654" });
    assert.equal(sleeper.stdin, undefined);
    await sleeper.kill();
    assert.equal((await sleeper.wait()).exitCode, 137);
    const abort = new AbortController();
    const aborted = await session.spawn({ command: "sleep 7654", abortSignal: abort.signal });
    abort.abort();
    await assert.rejects(aborted.wait());
    await assert.rejects(session.run({ command: "sleep 7654", abortSignal: AbortSignal.timeout(100) }));
    assert.equal((await session.run({ command: "pwd; echo $V", workingDirectory: "/tmp", env: { V: "v" } })).stdout, "/tmp\nv\n");
  });
});

test("files are as the contract has them", { skip }, async () => {
  await withSession(
    async (session) => {
      await session.writeTextFile({ path: "a/b.txt", content: "one\ntwo\nthree\n" });
      assert.equal(await session.readTextFile({ path: "a/b.txt", startLine: 2, endLine: 2 }), "two");
      assert.equal((await session.run({ command: "cat a/b.txt" })).stdout, "one\ntwo\nthree\n");
      await session.writeFile({ path: "/tmp/raw", content: new Blob([Uint8Array.of(0, 255)]).stream() });
      assert.deepEqual(await session.readBinaryFile({ path: "/tmp/raw" }), Uint8Array.of(0, 255));
      assert.equal(await text(await session.readFile({ path: "a/b.txt" })), "one\ntwo\nthree\n");
      for (const read of ["readFile", "readBinaryFile", "readTextFile", "stat", "listDirectory"]) assert.equal(await session[read]({ path: "none" }), null);
      assert.deepEqual(await session.stat({ path: "a" }).then((s) => s.type), "directory");
      assert.deepEqual(await session.listDirectory({ path: "a" }), [{ name: "b.txt", type: "file" }]);
      await assert.rejects(session.listDirectory({ path: "a/b.txt" }));
      await assert.rejects(session.writeTextFile({ path: "a", content: "" }));
      await assert.rejects(session.deleteFile({ path: "a" }));
      assert.deepEqual([await session.deleteFile({ path: "a/b.txt" }), await session.deleteFile({ path: "a/b.txt" })], [true, false]);
    },
    { root: "/tmp" },
  );
});
