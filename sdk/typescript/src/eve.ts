// SPDX-License-Identifier: Apache-2.0
/**
 * A sandbox provider for eve, without depending on it:
 *
 *     // agent/sandbox.ts
 *     import { defineSandbox } from "eve/sandbox";
 *     import { defineSandboxProvider } from "eve/sandbox/provider";
 *     import { clocheProvider } from "cloche/eve";
 *     export const environment = defineSandboxProvider(clocheProvider).environment({ template: "universal" });
 *     export default defineSandbox(() => environment.open());
 *
 * The agent's own files are written once, into a snapshot that each session starts from. A session's sandbox ends with the
 * session, or after half an hour in which nothing happened in it; with `persistent: true` it is stopped and woken instead.
 */
import { Sandbox, type SandboxOptions } from "./sandbox.js";
import { SandboxSession } from "./sandbox-session.js";

const ROOT = "/workspace";
const IDLE_MS = 30 * 60_000;
const SNAPSHOT_MS = 7 * 24 * 3600_000; // of an agent that nobody starts any more

interface Tree {
  files: readonly { content: string | Uint8Array; relativePath: string }[];
  targetPath: string;
}
interface PrepareContext {
  resources: { workspace?: Tree; skills?: Tree };
  log?: (message: string) => void;
}
type Artifact = { snapshot: string | null };
type State = { sandboxId: string };

export class EveSession extends SandboxSession {
  async removePath(options: { path: string; force?: boolean; recursive?: boolean; abortSignal?: AbortSignal }): Promise<void> {
    const { path, force, recursive, abortSignal: signal } = options;
    await this.sandbox.files.remove(this.resolvePath(path), { recursive, missingOk: force, signal });
  }
}

/** The root lies where only root may make it; what is in it is the user's. */
async function makeRoot(sandbox: Sandbox): Promise<void> {
  (await sandbox.run(["sh", "-c", 'mkdir -p "$1" && chown user: "$1"', "sh", ROOT], { user: "root" })).check();
}

function handleOf(sandbox: Sandbox) {
  return {
    sandbox: new EveSession(sandbox, ROOT),
    onRuntimeShutdown: async () => undefined, // the next one resumes it
    onSandboxStop: async () => void (sandbox.info.persistent && (await sandbox.stop())),
    onSandboxDelete: () => sandbox.close(),
  };
}

export const clocheProvider = {
  name: "cloche",
  stateProtocolVersion: 1,
  environment(options: SandboxOptions = {}) {
    return {
      async prepare(context: PrepareContext): Promise<Artifact> {
        const trees = [context.resources.workspace, context.resources.skills].filter((tree) => tree?.files.length);
        if (trees.length === 0) return { snapshot: null };
        context.log?.("cloche: writing the agent's files into a snapshot");
        const sandbox = await Sandbox.create(options);
        try {
          await makeRoot(sandbox);
          for (const tree of trees)
            for (const { relativePath, content } of tree!.files) {
              const target = tree!.targetPath.replace(/^\$HOME\/|^~\//, "");
              await sandbox.files.write(`${target}/${relativePath}`, content, { parents: true });
            }
          return { snapshot: (await sandbox.snapshot({ expiresInMs: SNAPSHOT_MS })).id as string };
        } finally {
          await sandbox.close();
        }
      },
      async start(_context: unknown, open: SandboxOptions | undefined, artifact: Readonly<Artifact>) {
        const { template, ...rest } = { ...options, ...open };
        const origin = artifact.snapshot ? { snapshot: artifact.snapshot } : { template };
        const sandbox = await Sandbox.create({ idleTimeoutMs: IDLE_MS, ...rest, ...origin });
        await makeRoot(sandbox);
        return { handle: handleOf(sandbox), state: { sandboxId: sandbox.id } as State };
      },
      async resume(_context: unknown, _artifact: Readonly<Artifact>, state: Readonly<State>) {
        return handleOf(await Sandbox.get(state.sandboxId, { client: options.client }));
      },
      async onSessionEnd(_context: unknown, _artifact: Readonly<Artifact>, state: Readonly<State>) {
        await (await Sandbox.get(state.sandboxId, { client: options.client })).close();
      },
    };
  },
};
