// SPDX-License-Identifier: Apache-2.0
/** Run AI-written code in a cloche sandbox, on a machine of your own. */
export {
  CodeEvent,
  CodeFailed,
  CodeResult,
  ContextInfo,
  Contexts,
  Result,
  type CodeError,
  type CodeOptions,
  type ContextOptions,
} from "./code.js";
export type { BuildOptions, ClientOptions, DiffOptions, OnceOptions } from "./daemon.js";
export * from "./errors.js";
export {
  Exec,
  ExecEvent,
  ExecResult,
  type Command,
  type ExecOptions,
  type RunOptions,
  type StartOptions,
  type TerminalSize,
} from "./exec.js";
export { ExecInfo, type CallOptions, type Ended, type ExecState } from "./exec-info.js";
export { Entry, Files, type FileOptions, type WatchEvent, type WriteOptions } from "./files.js";
export { Fs, FsError, type Dirent, type FsWhat, type Stats } from "./fs.js";
export {
  SandboxInfo,
  type KeptResult,
  type Language,
  type LanguageWord,
  type Limits,
  type NetworkPolicy,
  type Port,
  type SandboxFields,
  type SandboxSource,
  type SandboxState,
  type Snapshot,
} from "./options.js";
export { BatchError, Client, ForkError, Sandbox, type ForkOptions, type Forks, type GetOrCreateOptions, type SandboxOptions, type SnapshotOptions } from "./sandbox.js";
export { FinishedCommand, RunningCommand, type CommandParams, type OtherSpellings } from "./spellings.js";
export type { Reply } from "./transport.js";
export { jsonLines, request, type Json, type Request, type RequestParts, type Source } from "./wire.js";
