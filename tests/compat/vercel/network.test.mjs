// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { failure, sh, test } from "./rig.mjs";

const SERVER = `
const http = require("node:http");
for (const port of [3000, 4000]) http.createServer((q, a) => a.end(port + q.url + " " + q.headers["x-own"])).listen(port);
console.log("listening");`;

async function serve(sandbox) {
  const server = await sandbox.runCommand({ cmd: "node", args: ["-e", SERVER], detached: true });
  for await (const line of server.logs()) if (line.data.includes("listening")) break;
}

test("domain() leads to the port, and to no other", async (make) => {
  const sandbox = await make({ ports: [3000, 4000] });
  await serve(sandbox);
  for (const port of [3000, 4000]) {
    const answer = await fetch(`${sandbox.domain(port)}/a/b?c=d`, { headers: { "x-own": "yes" } });
    assert.equal(await answer.text(), `${port}/a/b?c=d yes`);
  }
  assert.throws(() => sandbox.domain(9999));
  const closed = sandbox.domain(3000);
  await sandbox.update({ ports: [4000] });
  assert.throws(() => sandbox.domain(3000));
  assert.ok((await fetch(closed)).status >= 400);
  assert.equal(await (await fetch(sandbox.domain(4000))).text(), "4000/ undefined");
});

test("policies are told as they were set, without secrets", async (make) => {
  const sandbox = await make({ networkPolicy: "deny-all" });
  assert.equal(sandbox.networkPolicy, "deny-all");
  assert.notEqual((await sh(sandbox, "exec 3<>/dev/tcp/192.0.2.1/80")).exitCode, 0);
  assert.equal(await sandbox.updateNetworkPolicy("allow-all"), "allow-all");
  for (const policy of [
    { allow: ["example.com", "*.example.org"] },
    { allow: ["example.com"], subnets: { allow: ["192.0.2.0/24"], deny: ["192.0.2.7/32"] } },
  ])
    assert.deepEqual(await sandbox.updateNetworkPolicy(policy), policy);
  const told = await sandbox.updateNetworkPolicy({
    allow: { "api.example.com": [{ match: { path: { startsWith: "/v1/" }, method: ["GET"] }, transform: [{ headers: { authorization: "Bearer s3cret-value" } }] }] },
  });
  assert.ok(!JSON.stringify(told).includes("s3cret-value"));
  assert.equal(told.allow["api.example.com"][0].transform[0].headers.authorization, "<redacted>");
  const wrong = await failure(sandbox.updateNetworkPolicy({ allow: ["not a name"] }));
  assert.equal(wrong.status, 400);
});

test("a terminal's address is told with a token of its own", async (make) => {
  const sandbox = await make();
  const { url, token } = await sandbox.openInteractive();
  assert.match(url, /^wss?:\/\//);
  assert.ok(token.length > 20);
  const http = url.replace(/^ws/, "http");
  assert.equal((await fetch(`${http}?token=wrong`)).status, 401);
  assert.equal((await fetch(http)).status, 401);
});
