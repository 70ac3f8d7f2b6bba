// SPDX-License-Identifier: Apache-2.0
// A session that keeps its files from call to call: one call writes them, another runs them.
import { Sandbox } from "cloche";

export class SandboxSession {
  async start() {
    this.sandbox = await Sandbox.create({
      runtime: process.env.RUNTIME ?? "python3.13",
      idleTimeoutMs: 10 * 60_000,
    });
  }

  writeFile(path, body) {
    return this.sandbox.writeFile(path, body);
  }

  exec(cmd) {
    return this.sandbox.exec({ cmd, timeoutMs: 60_000 });
  }

  close() {
    return this.sandbox.close();
  }
}

const session = new SandboxSession();
await session.start();
try {
  await session.writeFile("data/rows.csv", "a,1\nb,2\n");
  await session.writeFile("total.py", "print(sum(int(line.split(',')[1]) for line in open('data/rows.csv')))");
  const result = await session.exec(["python3", "total.py"]);
  console.log(result.exitCode, result.stdout);
} finally {
  await session.close();
}
