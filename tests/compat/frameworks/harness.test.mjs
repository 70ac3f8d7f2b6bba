// SPDX-License-Identifier: Apache-2.0
// The AI SDK's provider of Vercel sandboxes for coding agents (`harness-sandbox-v1`), over plain HTTP, as its harnesses call it.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { createVercelSandbox } from "@ai-sdk/sandbox-vercel";
import { Sandbox } from "@vercel/sandbox";

async function text(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

test("a session is made once from what its agent prepares, used, found again and destroyed", { timeout: 60_000 }, async () => {
  const provider = createVercelSandbox({ ports: [3000] });
  assert.equal(provider.specificationVersion, "harness-sandbox-v1");
  const identity = randomUUID().slice(0, 8);
  const sessionId = randomUUID().slice(0, 8);
  let prepared = 0;
  const onFirstCreate = async (session) => {
    prepared++;
    await session.writeTextFile({ path: "/tmp/prepared.txt", content: "by the agent\n" });
  };
  const first = await provider.createSession({ identity, sessionId, onFirstCreate });
  const second = await provider.createSession({ identity, sessionId: `${sessionId}-2`, onFirstCreate });
  try {
    assert.equal(prepared, 1);
    assert.equal(first.defaultWorkingDirectory, "/vercel/sandbox");
    for (const session of [first, second]) assert.equal(await session.readTextFile({ path: "/tmp/prepared.txt" }), "by the agent\n");
    assert.deepEqual(await first.run({ command: "pwd; id -un; echo $A >&2; exit 3", workingDirectory: "/tmp", env: { A: "told" } }), {
      exitCode: 3,
      stdout: "/tmp\nvercel-sandbox\n",
      stderr: "told\n",
    });
    await first.writeBinaryFile({ path: "deep/er/bytes", content: new Uint8Array([0, 255, 10]) });
    assert.deepEqual([...(await first.readBinaryFile({ path: "deep/er/bytes" }))], [0, 255, 10]);
    assert.equal(await first.readTextFile({ path: "nowhere" }), null);

    const bridge = "require('http').createServer((q, a) => a.end('bridged')).listen(3000, () => console.log('up'))";
    const server = await first.spawn({ command: `node -e "${bridge}"` });
    const lines = server.stdout.getReader();
    assert.match(new TextDecoder().decode((await lines.read()).value), /up/);
    lines.releaseLock();
    const { url } = await first.getPortEndpoint({ port: 3000, protocol: "http" });
    assert.equal(await (await fetch(url)).text(), "bridged");
    await server.kill();
    assert.notEqual((await server.wait()).exitCode, 0);
    assert.equal(await text((await first.spawn({ command: "seq 3" })).stdout), "1\n2\n3\n");

    await first.setNetworkPolicy({ mode: "custom", allowedHosts: ["api.example.com"] });
    assert.deepEqual(first.sandbox.networkPolicy, { allow: ["api.example.com"] });
    await first.setPorts([4000]);
    assert.deepEqual(first.ports, [4000]);

    await first.writeTextFile({ path: "kept.txt", content: "kept" });
    await first.stop();
    const again = await provider.resumeSession({ sessionId });
    assert.equal(await again.readTextFile({ path: "kept.txt" }), "kept");
    assert.equal(again.id, first.id);
  } finally {
    await first.destroy();
    await second.destroy();
    const template = await Sandbox.get({ name: `ai-sdk-harness-${identity}` });
    await template.delete({ deleteOrphanSnapshots: true });
  }
  await assert.rejects(provider.resumeSession({ sessionId }));
});
