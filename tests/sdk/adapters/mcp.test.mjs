// SPDX-License-Identifier: Apache-2.0
// The official MCP client against /mcp and `cloche mcp`, in both eras of the protocol. That nothing is left is the caller's to check.
import assert from "node:assert/strict";
import { test } from "node:test";

const node = Number(process.versions.node.split(".")[0]);
const skip = node < 20 ? `@modelcontextprotocol/client needs Node 20, this is ${process.version}` : false;

async function connect(transport, mode) {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const { CLOCHE_URL, CLOCHE_API_KEY, CLOCHE } = process.env;
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  const headers = { Authorization: `Bearer ${CLOCHE_API_KEY}` };
  await client.connect(
    transport === "http"
      ? new StreamableHTTPClientTransport(new URL(`${CLOCHE_URL}/mcp`), { requestInit: { headers } })
      : new StdioClientTransport({ command: CLOCHE, args: ["mcp"], env: { CLOCHE_URL, CLOCHE_API_KEY } }),
  );
  return client;
}

const text = (result) => result.content.map((block) => block.text ?? `[${block.mimeType}]`).join("");

for (const transport of ["http", "stdio"])
  for (const mode of ["legacy", { pin: "2026-07-28" }]) {
    const era = typeof mode === "string" ? "the older era" : "the newer era";
    test(`tools are listed and called over ${transport} in ${era}`, { skip }, async (t) => {
      const client = await connect(transport, mode);
      t.after(() => client.close());
      const { tools } = await client.listTools();
      assert.equal(tools.length, 11);
      const needsOne = transport === "http" && era === "the newer era";
      const made = needsOne ? (await client.callTool({ name: "create_sandbox" })).structuredContent.sandbox_id : undefined;
      const call = (name, args, options) => client.callTool({ name, arguments: { ...args, ...(made && { sandbox_id: made }) } }, options);

      await call("run_code", { code: "x = 6" });
      assert.equal(text(await call("run_code", { code: "x * 7" })), "42\n");
      const failed = await call("run_code", { code: "1/0" });
      assert.ok(failed.isError && text(failed).includes("ZeroDivisionError"));
      // It waits for what the first word of progress makes us do.
      const seen = [];
      const onprogress = ({ message }) => seen.push(message) === 1 && call("write_file", { path: "/tmp/go", content: "" });
      const told = await call("exec", { command: "echo one; until [ -e /tmp/go ]; do sleep 0.05; done; echo two" }, { onprogress });
      assert.equal(text(told), "one\ntwo\n");
      assert.equal(seen[0], "one\n");
      await assert.rejects(call("exec", { command: "sleep 7654" }, { signal: AbortSignal.timeout(300) }));
      assert.equal(text(await call("exec", { command: "echo alive" })), "alive\n");
      await call("write_file", { path: "d/a.txt", content: "text" });
      assert.equal(text(await call("read_file", { path: "d/a.txt" })), "text");
      assert.match(text(await call("list_files", { path: "d" })), /a\.txt/);
      const [fork] = (await call("fork_sandbox", { count: 1, memory: false })).structuredContent.sandbox_ids;
      const beside = (name, args) => client.callTool({ name, arguments: { ...args, sandbox_id: fork } });
      assert.equal(text(await beside("read_file", { path: "d/a.txt" })), "text");
      assert.equal((await beside("open_port", { port: 8000 })).structuredContent.port.port, 8000);
      const { sandboxes } = (await client.callTool({ name: "list_sandboxes" })).structuredContent;
      assert.deepEqual(sandboxes.find((one) => one.sandbox_id === fork).ports.map(({ port }) => port), [8000]);
      await beside("close_sandbox", {});
      if (transport === "http" && !made) await client.transport.terminateSession();
      if (made) await call("close_sandbox", {});
    });
  }
