// SPDX-License-Identifier: Apache-2.0
/** Run AI-written code in a cloche sandbox, on a machine of your own. */
export { Client, type BuildOptions, type ClientOptions, type DiffOptions, type OnceOptions } from "./client.js";
export {
  CodeEvent,
  CodeResult,
  ContextInfo,
  Contexts,
  Result,
  type CodeError,
  type CodeOptions,
  type ContextOptions,
  type Language,
} from "./code.js";
export * from "./errors.js";
export {
  Exec,
  ExecEvent,
  ExecInfo,
  ExecResult,
  type CallOptions,
  type Command,
  type Ended,
  type ExecOptions,
  type ExecState,
  type RunOptions,
  type StartOptions,
  type TerminalSize,
} from "./exec.js";
export { Entry, Files, type FileOptions, type WatchEvent, type WriteOptions } from "./files.js";
export { Fs, FsError, type Dirent, type FsWhat, type Stats } from "./fs.js";
export {
  SandboxInfo,
  type Limits,
  type NetworkPolicy,
  type Port,
  type SandboxOptions,
  type SandboxSource,
  type SandboxState,
} from "./options.js";
export { Sandbox, type ForkOptions, type GetOrCreateOptions, type SnapshotOptions } from "./sandbox.js";
export { FinishedCommand, RunningCommand, type CommandParams, type OtherSpellings } from "./spellings.js";
export type { Json, Source } from "./wire.js";
