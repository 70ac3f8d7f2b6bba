// SPDX-License-Identifier: Apache-2.0
// Sandbox agents of OpenAI's Agents SDK in cloche: the real library, with a scripted model.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client } from "cloche";
import { clocheSandboxClient } from "cloche/openai-agents";

const client = new Client();
after(() => client.close());
const node = Number(process.versions.node.split(".")[0]);
const skip = node < 20 ? `@openai/agents needs Node 20, this is ${process.version}` : false;

test("a sandbox agent's commands, patches and files are the sandbox's", { skip }, async () => {
  const { run, setTracingDisabled } = await import("@openai/agents");
  const { Manifest, SandboxAgent, file } = await import("@openai/agents/sandbox");
  const { ScriptedModel, assistantMessage, functionCall, modelResponse } = await import("@openai/agents/testing");
  setTracingDisabled(true);
  const say = (id, cmd) => modelResponse([functionCall("exec_command", { cmd }, { callId: id })]);
  const model = new ScriptedModel([say("1", "cat notes.txt; pwd; exit 3"), say("2", "echo second"), modelResponse([assistantMessage("done")])]);
  const manifest = new Manifest({ entries: { "notes.txt": file({ content: "remember\n" }) } });
  const agent = new SandboxAgent({ name: "coder", instructions: "look", model, defaultManifest: manifest });
  const result = await run(agent, "go", { sandbox: { client: clocheSandboxClient({ client }) } });
  assert.equal(result.finalOutput, "done");
  const outputs = result.newItems.filter((item) => item.type === "tool_call_output_item").map((item) => String(item.output));
  assert.match(outputs[0], /exited with code 3[^]*remember\n\/workspace/);
  assert.match(outputs[1], /second/);
});

test("a session edits, lists, persists and goes on", { skip }, async () => {
  const cloche = clocheSandboxClient({ client });
  const session = await cloche.create({ manifest: { entries: { d: { type: "dir", children: { "a.txt": { type: "file", content: "one\ntwo\n" } } } } } });
  try {
    const editor = session.createEditor();
    await editor.createFile({ path: "new.txt", diff: "+hello\n+there" });
    await editor.updateFile({ path: "d/a.txt", diff: "@@\n-two\n+2" });
    assert.match((await session.exec({ cmd: "cat d/a.txt new.txt" })).stdout, /^one\n2\nhello\nthere\n?$/);
    await editor.deleteFile({ path: "new.txt" });
    assert.deepEqual([await session.pathExists("new.txt"), await session.directoryExists("d"), await session.directoryExists("none")], [false, true, false]);
    assert.deepEqual(await session.listDir({ path: "d" }), [{ name: "a.txt", path: "d/a.txt", type: "file" }]);
    const archive = await session.persistWorkspace();
    await session.exec({ cmd: "rm -r d" });
    await session.hydrateWorkspace(archive);
    const state = await cloche.deserializeSessionState({ ...session.state, ...(await cloche.serializeSessionState(session.state)) });
    const again = await cloche.resume(state);
    assert.match(await again.execCommand({ cmd: "wc -l < d/a.txt" }), /Output:\n2/);
    await assert.rejects(cloche.create({ manifest: { entries: { x: { type: "git_repo" } } } }), /git_repo/);
  } finally {
    await session.close();
  }
});

test("a model talks to a program on a terminal", { skip }, async () => {
  const { run, setTracingDisabled } = await import("@openai/agents");
  const { Manifest, SandboxAgent } = await import("@openai/agents/sandbox");
  const { ScriptedModel, assistantMessage, functionCall, modelResponse } = await import("@openai/agents/testing");
  setTracingDisabled(true);
  const program = `tty; stty -echo; echo "$WHO ready"; while read -r word; do echo "<$word>"; [ "$word" = bye ] && exit 5; done`;
  const call = (id, name, input) => modelResponse([functionCall(name, input, { callId: id })]);
  const model = new ScriptedModel([
    call("1", "exec_command", { cmd: program, tty: true, yield_time_ms: 300 }),
    call("2", "write_stdin", { session_id: 1, chars: "one\n" }),
    call("3", "write_stdin", { session_id: 1, chars: "bye\n", yield_time_ms: 20000 }),
    call("4", "write_stdin", { session_id: 1, chars: "late\n" }),
    modelResponse([assistantMessage("done")]),
  ]);
  const agent = new SandboxAgent({ name: "coder", instructions: "talk", model, defaultManifest: new Manifest({ environment: { WHO: "I am" } }) });
  const result = await run(agent, "go", { sandbox: { client: clocheSandboxClient({ client }) } });
  const told = result.newItems.filter((item) => item.type === "tool_call_output_item").map((item) => String(item.output));
  assert.match(told[0], /Process running with session ID 1/);
  assert.match(told.slice(0, 3).join(""), /\/dev\/pts\/\d+\r\n[^]*I am ready\r\n[^]*<one>\r\n[^]*<bye>\r\n/);
  assert.match(told[2], /exited with code 5/);
  assert.match(told[3], /session not found: 1/);
});

test("commands that go on are read piece by piece and end with the session", { skip }, async () => {
  const session = await clocheSandboxClient({ client }).create();
  try {
    const cut = await session.exec({ cmd: "stty -echo; printf 'caf\\303'; read x; printf '\\251\\n'; exec sleep 7654", tty: true, yieldTimeMs: 0 });
    assert.equal(cut.exitCode, undefined);
    let said = cut.output;
    const type = async (chars) => (await session.writeStdin({ sessionId: cut.sessionId, chars, yieldTimeMs: 250 })).split("Output:\n")[1];
    for (let i = 0; i < 100 && !said.includes("caf"); i++) said += await type(""); // what is typed earlier is still echoed
    for (let i = 0; i < 100 && !said.includes("\n"); i++) said += await type("\n");
    assert.equal(said, "caf\u00e9\r\n");
    assert.match(await session.writeStdin({ sessionId: cut.sessionId, chars: "\u0003", yieldTimeMs: 20000 }), /exited with code 130/);
    const quiet = await session.exec({ cmd: "exec sleep 7655", yieldTimeMs: 0 });
    assert.match(await session.writeStdin({ sessionId: quiet.sessionId, chars: "x" }), /stdin is not available/);
    assert.match(await session.writeStdin({ sessionId: quiet.sessionId, chars: "\u0003", yieldTimeMs: 20000 }), /exited with code 130/);
    const flood = await session.exec({ cmd: "yes", tty: true, yieldTimeMs: 50, maxOutputTokens: 50 });
    assert.ok(flood.sessionId > 0 && flood.output.length < 1000);
    await session.stop();
    const left = "cat /proc/[0-9]*/comm | grep -qxE 'sleep|yes'";
    assert.equal((await session.exec({ cmd: `for i in $(seq 1000); do ${left} || exit 0; done; exit 1` })).exitCode, 0);
  } finally {
    await session.close();
  }
});
