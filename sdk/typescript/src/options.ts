// SPDX-License-Identifier: Apache-2.0
/**
 * What can be said of a sandbox when it is made, and what is told of it.
 */
import type { Ended } from "./exec-info.js";
import type { Json } from "./wire.js";

export type Language = "python" | "javascript" | "typescript" | "bash" | "r" | "java";
/** A language as it may be asked for. */
export type LanguageWord = Language | "py" | "js" | "ts" | "sh";

export interface Limits {
  vcpus?: number;
  memory_mib?: number;
  disk_mib?: number;
  inodes?: number;
  pids?: number;
  open_files?: number;
  output_mib?: number;
  execs?: number;
}

/** "deny-all" (the default), "allow-all", or a policy such as {allow: ["api.example.com", "*.example.com"]}. */
export type NetworkPolicy = "deny-all" | "allow-all" | Json;

/** A git repository or tarball to fetch before the sandbox runs. Credentials never come inside. */
export interface SandboxSource {
  type: "git" | "tarball";
  url: string;
  revision?: string;
  depth?: number;
  path?: string;
  timeout_ms?: number;
  credentials?: { username?: string; password: string };
}

/** Fields of a new sandbox. All are optional. */
export interface SandboxFields {
  /** Name of the sandbox. It must be unique among the project's living sandboxes. */
  name?: string;
  /**
   * Name of a group. Sandboxes of one group reach each other by name, whatever their `network` is; no other sandbox reaches
   * them.
   */
  group?: string;
  /** Its host name in the group. Default: its name. */
  alias?: string;
  /** The template to start from, by id or name. Default: the daemon's. */
  template?: string;
  /**
   * An image from a registry to start from, instead of a template: "[HOST[:PORT]/]NAME[:TAG][@DIGEST]". The first create pulls
   * it; after an hour a tag is pulled again.
   */
  image?: string;
  /** When to pull `image`: "always" asks the registry each time, "missing" uses the local copy, however old it is. */
  pull?: "always" | "missing";
  /**
   * Packages that it needs: "pip:pandas", "npm:zod@3", "apt:jq", or names without a prefix for the template's language. Each
   * set is installed once and then reused.
   */
  packages?: readonly string[];
  /** Volumes to mount, by path. Their files outlive the sandbox: {"/data": "name"}. */
  /** A language that it must have. Without a template, one that has the language is chosen. */
  language?: LanguageWord;
  volumes?: Record<string, string | { volume: string; read_only?: boolean }>;
  /** Labels of your choice, by name; lists filter by them. */
  tags?: Record<string, string>;
  /** Environment variables of everything that runs in it. */
  env?: Record<string, string>;
  limits?: Limits;
  /** Its lifetime: `onTimeout` happens this long after its start or last resume, even while it works. */
  lifetimeMs?: number;
  /** `onIdle` happens when nothing has run in it for this long. */
  idleTimeoutMs?: number;
  /** What happens at the end of its lifetime. Default: "stop" for a persistent sandbox, else "delete". */
  onTimeout?: "delete" | "stop" | "pause";
  /**
   * What happens after `idleTimeoutMs`. Default: the same as `onTimeout`. A sandbox that was paused by it is resumed by the
   * next call.
   */
  onIdle?: "delete" | "stop" | "pause";
  /** Keep its files when it stops. The next call starts it again from them; only delete() removes them. */
  persistent?: boolean;
  /**
   * Of a persistent one in a cluster, when its node is silent. Default: "end". "restore": another node runs it, with its last durable files.
   */
  onNodeLoss?: "end" | "restore";
  /** A call resumes it when it is paused in memory. From a pause on disk, every call does. */
  autoResume?: boolean;
  /** Its lifetime goes on while it is paused, and `onTimeout` can happen then. */
  pausedTimeCounts?: boolean;
  /** How it is isolated: "jail" (processes on the host's kernel), "vm" (a virtual machine) or "auto" (the daemon's default). */
  engine?: "auto" | "jail" | "vm";
  /** The weakest isolation that you accept; anything weaker is refused. */
  minGrade?: "process" | "emulated" | "hardware";
  /** How long the create may wait for room while the project's quota or the host is full. Default 0: it is refused at once. */
  waitMs?: number;
  /**
   * Paths of files and directories to keep when it ends, for whatever reason. readResult() reads them, as long as the daemon
   * has the sandbox's record.
   */
  results?: readonly string[];
  /** What it may reach: "deny-all" (the default), "allow-all", or a policy such as { allow: ["api.example.com"] }. */
  network?: NetworkPolicy;
  /** Ports to open to the outside: portUrl() returns the URL. */
  ports?: readonly number[];
  source?: SandboxSource;
  /** A snapshot to start from, instead of a template: the object, or its id or name. */
  snapshot?: string | { id: string };
  /** A number: MiB of memory, as in `limits`. With a snapshot, false: start from its files only, without its programs. */
  memory?: boolean | number;
  /** All calls with the same key create one sandbox only. The SDK then sends the call again if the connection breaks. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export type SandboxState = "creating" | "running" | "pausing" | "paused" | "stopping" | "stopped" | "failed";

/** A file or directory of a sandbox that is kept when that has ended. `why` says why it is missing. */
export interface KeptResult {
  path: string;
  state: "awaited" | "kept" | "missing";
  type: "file" | "directory" | null;
  bytes: number;
  why: string | null;
}

export class SandboxInfo {
  readonly id: string;
  readonly state: SandboxState;
  readonly name: string | null;
  /** Its group, whose members reach each other; `alias` is its host name there. */
  readonly group: string | null;
  readonly alias: string | null;
  readonly template: string;
  readonly packages: string[];
  readonly tags: Record<string, string>;
  readonly limits: Limits;
  readonly isolation: { engine: string; grade: string; walls: string[]; gaps: string[] } | null;
  readonly createdAt: Date;
  /** When its lifetime ends; null if it does not run, or has no end. */
  readonly expiresAt: Date | null;
  /** Why it ended; null while it runs or is paused. */
  readonly ended: Ended | null;
  readonly persistent: boolean;
  readonly onNodeLoss: "end" | "restore";
  /** Its newest durable files, with which another node would go on. */
  readonly generation: { id: string; taken_us: number } | null;
  /** The last time that another node had to go on with it. */
  readonly restored: { generation: string; lost_ms: number; at_us: number } | null;
  readonly resumes: number;
  /** Whether the call that returned this created it. */
  readonly created: boolean;
  readonly resumed: boolean;
  /** Where it is paused; null if it is not paused. */
  readonly pausedTo: "disk" | "memory" | null;
  /** The snapshot that it was started from. */
  readonly snapshotId: string | null;
  /** The results that are kept after its end; null if the create named none. */
  readonly results: readonly KeptResult[] | null;

  constructor(readonly raw: Json) {
    this.id = raw["id"];
    this.state = raw["state"];
    this.name = raw["name"] ?? null;
    this.group = raw["group"] ?? null;
    this.alias = raw["alias"] ?? null;
    this.template = raw["template"] ?? "";
    this.packages = raw["packages"] ?? [];
    this.tags = raw["tags"] ?? {};
    this.limits = raw["limits"] ?? {};
    this.isolation = raw["isolation"] ?? null;
    this.createdAt = new Date((raw["created_us"] ?? 0) / 1000);
    this.expiresAt = raw["expires_us"] ? new Date(raw["expires_us"] / 1000) : null;
    this.ended = raw["ended"] ?? null;
    this.persistent = raw["persistent"] ?? false;
    this.onNodeLoss = raw["on_node_loss"] ?? "end";
    this.generation = raw["generation"] ?? null;
    this.restored = raw["restored"] ?? null;
    this.resumes = raw["resumes"] ?? 0;
    this.created = raw["created"] ?? false;
    this.resumed = raw["resumed"] ?? false;
    this.pausedTo = raw["paused_to"] ?? null;
    this.snapshotId = raw["snapshot_id"] ?? null;
    this.results = raw["results"] ?? null;
  }
}

export interface Port {
  port: number;
  public: boolean;
  url: string | null;
  host_url: string | null;
  token?: string;
  created_us: number;
  expires_us: number | null;
}

export function volumePlaces(volumes: SandboxFields["volumes"]): Json[] | undefined {
  if (!volumes) return undefined;
  return Object.entries(volumes).map(([path, one]) => ({ path, ...(typeof one === "string" ? { volume: one } : one) }));
}

export function createBody(options: SandboxFields): Json {
  return {
    name: options.name,
    group: options.group,
    alias: options.alias,
    template: options.template,
    image: options.image,
    pull: options.pull,
    language: options.language,
    packages: options.packages,
    volumes: volumePlaces(options.volumes),
    tags: options.tags,
    env: options.env,
    limits: typeof options.memory === "number" ? { memory_mib: options.memory, ...options.limits } : options.limits,
    timeout_ms: options.lifetimeMs,
    idle_timeout_ms: options.idleTimeoutMs,
    on_timeout: options.onTimeout,
    on_idle: options.onIdle,
    persistent: options.persistent,
    on_node_loss: options.onNodeLoss,
    auto_resume: options.autoResume,
    paused_time_counts: options.pausedTimeCounts,
    engine: options.engine,
    min_grade: options.minGrade,
    wait_ms: options.waitMs,
    results: options.results,
    network: options.network,
    ports: options.ports,
    source: options.source,
    snapshot: options.snapshot && idOf(options.snapshot),
    memory: typeof options.memory === "number" ? undefined : options.memory,
  };
}

/** Of what has one, or the id or name itself. */
export function idOf(what: string | { id: string }): string {
  return typeof what === "object" ? what.id : what;
}

/** Files, and maybe memory, of a sandbox as they were at one moment. */
export interface Snapshot extends Json {
  id: string;
  name: string | null;
  /** The sandbox that it was taken from. */
  sandbox_id: string;
  /** Size of all its files; own_bytes is the size that it is charged for. */
  bytes: number;
  own_bytes: number;
  /** Of a cluster: it outlives its node, and sandboxes can be started from it on every node. */
  durable: boolean;
}
