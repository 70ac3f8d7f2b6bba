// SPDX-License-Identifier: Apache-2.0
/**
 * A sandbox client for OpenAI's Agents SDK (`@openai/agents`): its sandbox agents work in cloche. Nothing is imported from
 * it but its reader of patches, when a model first sends one.
 *
 *     await run(agent, "make the tests pass", { sandbox: { client: clocheSandboxClient() } });
 *
 * A session's files are in the manifest's root, `/workspace` unless that says otherwise.
 */
import { FileMissing } from "./errors.js";
import { Terminals, type Update, type UpdateOptions } from "./openai-pty.js";
import type { Entry } from "./files.js";
import { Sandbox, type SandboxOptions } from "./sandbox.js";
import { concat } from "./wire.js";

type EnvironmentValue = string | (() => string | Promise<string>) | { value?: string; resolve?: () => string | Promise<string> };
/** Of the SDK's Manifest, what is read here. */
interface ManifestParts {
  root: string;
  entries: Record<string, ManifestEntry>;
  environment?: Record<string, EnvironmentValue>;
  resolveEnvironment?(): Promise<Record<string, string>>;
}
/** As the SDK has it, whose types this package must not need. */
type Manifest = any;
type ManifestEntry = any;

async function valueOf(entry: EnvironmentValue): Promise<string> {
  if (typeof entry === "object") return entry.resolve ? entry.resolve() : (entry.value ?? "");
  return typeof entry === "function" ? entry() : entry;
}
interface ExecArgs extends UpdateOptions {
  cmd: string;
  workdir?: string;
  shell?: string;
  login?: boolean;
  /** Gives it a terminal, and write_stdin() something to type on. */
  tty?: boolean;
  runAs?: string;
}
type Patch = { path: string; diff: string };

export interface ClocheSessionState {
  manifest: Manifest;
  sandboxId: string;
  workspaceReady?: boolean;
  [key: string]: unknown;
}

const DEFAULT_ROOT = "/workspace";

async function applyDiff(input: string, diff: string, mode?: "create"): Promise<string> {
  const name = "@openai/agents"; // of whoever uses this
  return (await import(name)).applyDiff(input, diff, mode);
}

/** In the words that the SDK's own sandboxes have for a model. */
function told({ wallTimeSeconds, sessionId, exitCode, output }: Update): string {
  const head = [`Chunk ID: ${Math.random().toString(16).slice(2, 8)}`, `Wall time: ${wallTimeSeconds.toFixed(4)} seconds`];
  const state = sessionId === undefined ? `Process exited with code ${exitCode}` : `Process running with session ID ${sessionId}`;
  return [...head, state, "Output:", output].join("\n");
}

export class ClocheSandboxSession {
  private readonly terminals = new Terminals();

  constructor(
    readonly sandbox: Sandbox,
    readonly state: ClocheSessionState,
  ) {}

  private get root(): string {
    return this.state.manifest.root;
  }
  private inside(path: string): string {
    return path.startsWith("/") ? path : `${this.root}/${path}`;
  }

  /** Makes the root, which lies where only root may, and what the manifest names in it. */
  async start(): Promise<void> {
    const make = ["sh", "-c", 'mkdir -p -- "$1" && chown user: "$1"', "sh", this.root];
    (await this.sandbox.run(make, { user: "root" })).check();
    await this.applyManifest(this.state.manifest);
    this.state.workspaceReady = true;
  }

  async applyManifest(manifest: Manifest, runAs?: string): Promise<void> {
    for (const [path, entry] of Object.entries((manifest as ManifestParts).entries)) await this.materializeEntry({ path, entry, runAs });
  }

  async materializeEntry({ path, entry, runAs }: { path: string; entry: ManifestEntry; runAs?: string }): Promise<void> {
    const at = this.inside(path);
    if (entry.type === "file") await this.sandbox.files.write(at, entry.content ?? "", { parents: true, user: runAs });
    else if (entry.type === "dir") {
      await this.sandbox.files.mkdir(at, { parents: true, user: runAs });
      for (const [name, child] of Object.entries(entry.children ?? {}))
        await this.materializeEntry({ path: `${at}/${name}`, entry: child, runAs });
    } else throw new TypeError(`cloche's sandbox client has no entries of type '${entry.type}' (${path}), but file and dir`);
  }

  private async environment(): Promise<Record<string, string>> {
    const manifest: ManifestParts = this.state.manifest;
    if (manifest.resolveEnvironment) return manifest.resolveEnvironment();
    const made: Record<string, string> = {};
    for (const [name, entry] of Object.entries(manifest.environment ?? {})) made[name] = await valueOf(entry);
    return made;
  }

  /** A command that is not over after `yieldTimeMs` goes on, with a number for writeStdin(). */
  async exec(args: ExecArgs): Promise<Update> {
    const { cmd, shell = "/bin/sh", login = false, tty = false, workdir, runAs } = args;
    const exec = await this.sandbox.start([shell, login ? "-lc" : "-c", cmd], {
      cwd: workdir === undefined ? this.root : this.inside(workdir),
      env: await this.environment(),
      user: runAs,
      pty: tty,
    });
    return this.terminals.start(exec, tty, args);
  }

  async execCommand(args: ExecArgs): Promise<string> {
    return told(await this.exec(args));
  }

  supportsPty(): boolean {
    return true;
  }

  /** Types on a command's terminal, or with nothing to type only reads on. */
  async writeStdin(args: { sessionId: number; chars?: string } & UpdateOptions): Promise<string> {
    return told(await this.terminals.write(args.sessionId, args.chars ?? "", args));
  }

  createEditor(runAs?: string) {
    const { files } = this.sandbox;
    const write = (path: string, text: string) => files.write(this.inside(path), text, { parents: true, user: runAs });
    return {
      createFile: async ({ path, diff }: Patch) => {
        await write(path, await applyDiff("", diff, "create"));
        return {};
      },
      updateFile: async ({ path, diff }: Patch) => {
        await write(path, await applyDiff(await files.readText(this.inside(path), { user: runAs }), diff));
        return {};
      },
      deleteFile: async ({ path }: { path: string }) => {
        await files.remove(this.inside(path), { user: runAs });
        return {};
      },
    };
  }

  async viewImage({ path, runAs }: { path: string; runAs?: string }) {
    const data = (await this.sandbox.files.read(this.inside(path), { user: runAs })) as Uint8Array<ArrayBuffer>;
    const isJpeg = data[0] === 0xff && data[1] === 0xd8;
    return { type: "image" as const, image: { data, mediaType: isJpeg ? "image/jpeg" : "image/png" } };
  }

  readFile({ path, runAs, maxBytes }: { path: string; runAs?: string; maxBytes?: number }): Promise<Uint8Array> {
    return this.sandbox.files.read(this.inside(path), { user: runAs, length: maxBytes });
  }

  async listDir({ path, runAs }: { path: string; runAs?: string }) {
    const entries = await this.sandbox.files.list(this.inside(path), { user: runAs });
    const kind = (e: Entry) => (e.isFile ? ("file" as const) : e.isDirectory ? ("dir" as const) : ("other" as const));
    return entries.map((e) => ({ name: e.name, path: `${path}/${e.name}`, type: kind(e) }));
  }

  pathExists(path: string, runAs?: string): Promise<boolean> {
    return this.sandbox.files.exists(this.inside(path), { user: runAs });
  }

  async directoryExists(path: string, runAs?: string): Promise<boolean> {
    try {
      return (await this.sandbox.files.stat(this.inside(path), { follow: true, user: runAs })).isDirectory;
    } catch (error) {
      if (error instanceof FileMissing) return false;
      throw error;
    }
  }

  async persistWorkspace(): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.sandbox.files.tarOut(this.root)) pieces.push(piece);
    return concat(pieces);
  }

  async hydrateWorkspace(data: string | ArrayBuffer | Uint8Array): Promise<void> {
    await this.sandbox.files.tarIn(this.root, data);
  }

  async resolveExposedPort(port: number) {
    const url = new URL(await this.sandbox.portUrl(port));
    const tls = url.protocol === "https:";
    return { host: url.hostname, port: Number(url.port) || (tls ? 443 : 80), tls, query: url.search.slice(1), url: url.href };
  }

  async running(): Promise<boolean> {
    return (await this.sandbox.refresh()).state === "running";
  }

  /** Ends what still runs in it. */
  stop(): Promise<void> {
    return this.terminals.endAll();
  }
  close(): Promise<void> {
    return this.sandbox.close();
  }
  shutdown(): Promise<void> {
    return this.close();
  }
  delete(): Promise<void> {
    return this.close();
  }
}

/** `options` are those of Sandbox.create(), for the sandboxes that it creates. */
export function clocheSandboxClient(options: SandboxOptions = {}) {
  const open = (sandbox: Sandbox, state: { manifest: Manifest; workspaceReady?: boolean }) =>
    new ClocheSandboxSession(sandbox, { ...state, sandboxId: sandbox.id });
  return {
    backendId: "cloche",
    supportsDefaultOptions: true,
    /** `args` is { manifest, options }, or a manifest itself with the options behind it. */
    async create(args: Manifest = {}, more?: SandboxOptions) {
      const { manifest: given = {}, options: own } = "entries" in args ? { manifest: args, options: more } : args;
      const manifest = Object.assign(given, { root: given.root ?? DEFAULT_ROOT, entries: given.entries ?? {} });
      const sandbox = await Sandbox.create({ ...options, ...own });
      try {
        const session = open(sandbox, { manifest });
        await session.start();
        return session;
      } catch (error) {
        await sandbox.close();
        throw error;
      }
    },
    async resume(state: ClocheSessionState) {
      const sandbox = await Sandbox.get(state.sandboxId, { client: options.client });
      await sandbox.resume();
      return open(sandbox, state);
    },
    async delete(state: ClocheSessionState) {
      await (await Sandbox.get(state.sandboxId, { client: options.client })).close();
    },
    async serializeSessionState(state: ClocheSessionState) {
      return { sandboxId: state.sandboxId };
    },
    async deserializeSessionState(state: Record<string, unknown>) {
      return state as ClocheSessionState;
    },
  };
}
