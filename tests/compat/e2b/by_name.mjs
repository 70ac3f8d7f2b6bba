// SPDX-License-Identifier: Apache-2.0
// E2B's client with what `cloche trust` has printed, and nothing else: names and TLS are its own business.
import { Sandbox } from '@e2b/code-interpreter'

const said = {}
const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  said.host = sandbox.getHost(8000)
  said.command = (await sandbox.commands.run('echo $HOME')).stdout
  await sandbox.files.write('x.txt', 'by name')
  said.file = await sandbox.files.read('x.txt')
  said.code = (await sandbox.runCode('6 * 7')).text
  await sandbox.commands.run('python3 -m http.server 8000 --bind 127.0.0.1 --directory .', { background: true })
  await sandbox.commands.run('until (echo > /dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.05; done', { timeoutMs: 60_000 })
  said.preview = await (await fetch(`https://${said.host}/x.txt`)).text()
} finally {
  await sandbox.kill()
}
console.log(JSON.stringify(said))
