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

/** What a sandbox is filled with before it runs; credentials never come inside. */
export interface SandboxSource {
  type: "git" | "tarball";
  url: string;
  revision?: string;
  depth?: number;
  path?: string;
  timeout_ms?: number;
  credentials?: { username?: string; password: string };
}

/** What a new sandbox is to be. */
export interface SandboxFields {
  name?: string;
  /** Of sandboxes that reach each other by name, whatever their `network` is, and are reached by nobody else. */
  group?: string;
  /** Its host name in the group; without it, its name. */
  alias?: string;
  template?: string;
  /** Of a registry, instead of a template: "[HOST[:PORT]/]NAME[:TAG][@DIGEST]". The first create pulls it; a tag is pulled again after an hour. */
  image?: string;
  /** Of `image`: asks the registry anew, or takes what is here however old it is. */
  pull?: "always" | "missing";
  /** Installed in it, once per set: "pip:pandas", "npm:zod@3", "apt:jq", or bare names of the template's language. */
  packages?: readonly string[];
  /** Files that outlive it, by the path where it has them: {"/data": "name"}. */
  /** That it is to have: without a template, one that has it is taken. */
  language?: LanguageWord;
  volumes?: Record<string, string | { volume: string; read_only?: boolean }>;
  tags?: Record<string, string>;
  env?: Record<string, string>;
  limits?: Limits;
  /** `onTimeout` happens this long after its creation or last resume, whatever it does. */
  lifetimeMs?: number;
  /** `onTimeout` happens when this long nothing ran in it. */
  idleTimeoutMs?: number;
  onTimeout?: "delete" | "stop" | "pause";
  /** What happens when nothing ran in it for idleTimeoutMs, where that is not `onTimeout`. */
  onIdle?: "delete" | "stop" | "pause";
  /** Its files outlive its end, and it goes on over them when it is next used. */
  persistent?: boolean;
  /** A call to it while it is paused resumes it. */
  autoResume?: boolean;
  /** Its lifetime runs on while it is paused, and `onTimeout` happens to it there. */
  pausedTimeCounts?: boolean;
  engine?: "auto" | "jail" | "vm";
  /** Refuses weaker isolation. */
  minGrade?: "process" | "emulated" | "hardware";
  /** How long the create may wait for room while the project's quota or the host is full; 0 or without: it is refused at once. */
  waitMs?: number;
  /** Paths of files and directories that are kept when it ends, however it ends: readResult() gives them, as long as the daemon remembers it. */
  results?: readonly string[];
  network?: NetworkPolicy;
  /** Opened to the outside: portUrl() says where. */
  ports?: readonly number[];
  source?: SandboxSource;
  /** What it goes on from, instead of a template: by itself, or by its id or name. */
  snapshot?: string | { id: string };
  /** MiB of memory, as in `limits`. With a snapshot, false: from its files alone. */
  memory?: boolean | number;
  /** Calls with one key make one sandbox, and are sent again when the connection breaks. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export type SandboxState = "creating" | "running" | "pausing" | "paused" | "stopping" | "stopped" | "failed";

/** A file or directory of a sandbox that is kept when that has ended. `why`: it is missing for this reason. */
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
  /** Whose members it reaches, and its host name there. */
  readonly group: string | null;
  readonly alias: string | null;
  readonly template: string;
  readonly packages: string[];
  readonly tags: Record<string, string>;
  readonly limits: Limits;
  readonly isolation: { engine: string; grade: string; walls: string[]; gaps: string[] } | null;
  readonly createdAt: Date;
  /** When its lifetime is up. */
  readonly expiresAt: Date | null;
  /** Why it does not run; null while it does, or is paused. */
  readonly ended: Ended | null;
  readonly persistent: boolean;
  readonly resumes: number;
  /** By the call that this came from. */
  readonly created: boolean;
  readonly resumed: boolean;
  /** Where a paused one is: null while it is not. */
  readonly pausedTo: "disk" | "memory" | null;
  /** That it was started from. */
  readonly snapshotId: string | null;
  /** What is kept of it when it has ended; null: nothing was asked for. */
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
  /** That it was taken of. */
  sandbox_id: string;
  /** Of all its files; own_bytes is what it is charged for. */
  bytes: number;
  own_bytes: number;
}
