// SPDX-License-Identifier: Apache-2.0
// A long chat on stateless servers: the sandbox is made when the chat opens, and found again by its id in every request.
import { Sandbox } from "cloche";

// On chat-open:
async function open() {
  const sandbox = new Sandbox({ persistent: true });
  await sandbox.open();
  return sandbox.id; // kept on the session's row
}

// On every tool call, in whatever process:
async function call(sandboxId, code) {
  const sandbox = await Sandbox.attach(sandboxId);
  return (await sandbox.runCode(code)).stdout;
}

// On chat-close:
async function close(sandboxId) {
  const sandbox = await Sandbox.attach(sandboxId);
  await sandbox.close(); // its files stay, until
  await sandbox.delete();
}

const id = await open();
await call(id, "rows = [1, 2, 3]");
console.log(await call(id, "print(sum(rows))"));
await close(id);
