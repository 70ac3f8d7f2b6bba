// SPDX-License-Identifier: Apache-2.0
/**
 * What can go wrong: one root, and a class for each case that a program may want to tell from others.
 *
 * Those that hold a CodeResult or a Sandbox stand beside these: CodeFailed in code.ts, ForkError in sandbox.ts.
 *
 * Catch ClocheError for everything, and read `code`, `field`, `hint` and `requestId`. Errors of this side of the wire (no
 * daemon, a broken stream) are ConnectionFailed and TimedOut, and share the root.
 */
import type { ExecInfo } from "./exec-info.js";
import type { Json } from "./wire.js";

export interface ErrorFacts {
  code?: string;
  status?: number;
  requestId?: string;
  hint?: string;
  field?: string;
  cause?: unknown;
}

export class ClocheError extends Error {
  /** One of the API's closed list; see the API reference. */
  readonly code: string;
  /** The HTTP status, or 0 if no reply came. */
  readonly status: number;
  readonly requestId: string | undefined;
  /** What to do about it. */
  readonly hint: string | undefined;
  /** The field of the request that is wrong. */
  readonly field: string | undefined;
  /** The same call may succeed later, unchanged. */
  readonly retryable: boolean;
  /** If a create waited for room and got none: its position among `queueWaiting` creates of its project. */
  queuePosition: number | undefined;
  queueWaiting: number | undefined;

  constructor(message: string, facts: ErrorFacts = {}) {
    super(facts.hint ? `${message} (${facts.hint})` : message, { cause: facts.cause });
    this.name = new.target.name;
    this.code = facts.code ?? "error";
    this.status = facts.status ?? 0;
    this.requestId = facts.requestId;
    this.hint = facts.hint;
    this.field = facts.field;
    this.retryable = RETRYABLE.has(this.code);
  }
}

const RETRYABLE = new Set([
  "connection_failed",
  "limit_exceeded",
  "no_capacity",
  "unavailable",
  "request_timeout",
  "quota_exceeded",
]);

/** No answer came: the daemon does not run, or the connection broke. */
export class ConnectionFailed extends ClocheError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: "connection_failed", ...facts });
  }
}
/** The time for a call was over; the error `timeout` of the API is this one, too. */
export class TimedOut extends ClocheError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: "timeout", ...facts });
  }
}
/** The daemon did not understand the request. */
export class BadRequest extends ClocheError {}
/** A field of the request is wrong; `field` names it. */
export class InvalidField extends ClocheError {}
export class Unauthenticated extends ClocheError {}
export class Forbidden extends ClocheError {}
export class NotFound extends ClocheError {}
export class MethodNotAllowed extends ClocheError {}
export class NotAcceptable extends ClocheError {}
export class Conflict extends ClocheError {}
/** The sandbox or exec has ended. */
export class Gone extends ClocheError {}
export class TooLarge extends ClocheError {}
export class UriTooLong extends ClocheError {}
export class UnsupportedMedia extends ClocheError {}
export class HeadersTooLarge extends ClocheError {}
export class LimitReached extends ClocheError {}
export class NoCapacity extends ClocheError {}
export class Unavailable extends ClocheError {}
/** The object is on another node of the cluster, which does not answer. A call that changes something may have taken effect. */
export class NodeUnreachable extends ClocheError {}
/** This engine or host cannot do it. */
export class Unsupported extends ClocheError {}
/** The daemon did not get the whole request in time. */
export class RequestTimeout extends ClocheError {}
export class FileMissing extends ClocheError {}
export class FileExists extends ClocheError {}
/** The file was changed since you read it. */
export class FileChanged extends ClocheError {}
export class FileDenied extends ClocheError {}
export class FileInvalid extends ClocheError {}
/** The sandbox's disk is full. */
export class DiskFull extends ClocheError {}
/** The host's disk is full. Nothing new can begin until its operator makes room; what runs goes on. */
export class HostDiskFull extends DiskFull {}
/** The nodes of the cluster cannot reach their database. Calls to sandboxes and creates without a name still work. */
export class ClusterUnavailable extends ClocheError {}
/** The sandbox stands still: its node is cut off from the cluster's database, and another node may run it. Try again in a few seconds. */
export class Fenced extends ClocheError {}
/** The agent in the sandbox broke the protocol or died. */
export class GuestError extends ClocheError {}
export class InternalError extends ClocheError {}
/** The `source` of the sandbox could not be fetched. The message ends with the last words of git or curl. */
export class SourceFailed extends ClocheError {}

/** The project's or key's quota is used up. */
export class QuotaError extends ClocheError {
  what: string | undefined;
  limit: unknown;
  current: unknown;
  /** After how long the call may work; undefined if that is not known. */
  retryAfterMs: number | undefined;
}
/** This month's budget does not cover it. */
export class BudgetError extends QuotaError {}

/** A command did not end with code 0 (ExecResult.check()); `exec` has its exit code, `detail` the figures that explain it. */
export class ExecFailed extends ClocheError {
  constructor(
    message: string,
    readonly exec: ExecInfo,
  ) {
    super(message, { code: "exec_failed" });
  }
  get detail(): Record<string, unknown> {
    return this.exec.ended?.detail ?? {};
  }
}
/**
 * Both sides have changed the same paths, so nothing was applied. `conflicts` lists the changes of these paths, `count` is
 * their number.
 */
export class ApplyConflict extends ClocheError {
  constructor(
    readonly conflicts: Json[],
    readonly count: number,
  ) {
    super(`${count} paths were changed on both sides, such as ${conflicts[0]?.["path"]}; nothing was applied`, { code: "conflict" });
  }
}
/** The sandbox's memory was full. */
export class OutOfMemory extends ExecFailed {}
export class OutOfProcesses extends ExecFailed {}
export class OutOfDisk extends ExecFailed {}
/** The timeout of the command or the lifetime of its sandbox was over. */
export class ExecTimedOut extends ExecFailed {}
/** The command was killed, or its sandbox ended. */
export class ExecKilled extends ExecFailed {}

const BY_CAUSE: Record<string, typeof ExecFailed> = {
  oom: OutOfMemory,
  pids: OutOfProcesses,
  disk_full: OutOfDisk,
  timeout: ExecTimedOut,
  idle: ExecTimedOut,
  exited: ExecFailed,
};

/** The error that an exec's end stands for. */
export function errorOfExec(exec: ExecInfo): ExecFailed {
  const message = exec.ended?.message ?? exec.error?.message ?? "it failed";
  return new (BY_CAUSE[exec.cause ?? "exited"] ?? ExecKilled)(`exec ${exec.id}: ${message}`, exec);
}

const BY_CODE: Record<string, new (message: string, facts: ErrorFacts) => ClocheError> = {
  bad_request: BadRequest,
  invalid_field: InvalidField,
  unauthenticated: Unauthenticated,
  forbidden: Forbidden,
  not_found: NotFound,
  method_not_allowed: MethodNotAllowed,
  not_acceptable: NotAcceptable,
  conflict: Conflict,
  gone: Gone,
  too_large: TooLarge,
  uri_too_long: UriTooLong,
  unsupported_media_type: UnsupportedMedia,
  headers_too_large: HeadersTooLarge,
  limit_exceeded: LimitReached,
  no_capacity: NoCapacity,
  unavailable: Unavailable,
  unsupported: Unsupported,
  timeout: TimedOut,
  request_timeout: RequestTimeout,
  file_not_found: FileMissing,
  file_exists: FileExists,
  file_changed: FileChanged,
  file_denied: FileDenied,
  file_invalid: FileInvalid,
  disk_full: DiskFull,
  host_disk_full: HostDiskFull,
  node_unreachable: NodeUnreachable,
  cluster_unavailable: ClusterUnavailable,
  fenced: Fenced,
  guest_error: GuestError,
  internal: InternalError,
  quota_exceeded: QuotaError,
  budget_exceeded: BudgetError,
  source_failed: SourceFailed,
};

/** The error that a reply's parsed body stands for; never fails, whatever the body is. */
export function errorOfBody(status: number, body: unknown): ClocheError {
  const error = isRecord(body) ? body["error"] : undefined;
  if (!isRecord(error)) return new ClocheError(`HTTP status ${status} without an error body`, { status });
  const code = String(error["code"] ?? "error");
  const made = new (BY_CODE[code] ?? ClocheError)(String(error["message"] ?? ""), {
    code,
    status,
    requestId: text(error["request_id"]),
    hint: text(error["hint"]),
    field: text(error["field"]),
  });
  const figures = error["quota"];
  if (made instanceof QuotaError && isRecord(figures)) {
    made.what = text(figures["what"]);
    made.limit = figures["limit"];
    made.current = figures["current"];
    made.retryAfterMs = number(figures["retry_after_ms"]);
  }
  const queue = error["queue"];
  if (isRecord(queue)) {
    made.queuePosition = number(queue["position"]);
    made.queueWaiting = number(queue["waiting"]);
  }
  return made;
}

/** A node of a cluster whose part of a list is old or missing; null: there may be nodes that are not known. */
export interface MissingPart {
  node: string | null;
  why: string;
  /** When the rows were told that stand in for the node's; null: there are none. */
  as_of_us: number | null;
}

/**
 * A warning, not an error: in a cluster a node did not answer, so a list may lack what that node has, or shows what it had a
 * while ago. `onIncomplete` of a client's options gets it.
 */
export class IncompleteList extends Error {
  override readonly name = "IncompleteList";

  constructor(
    /** What the list is of: "sandboxes", "snapshots", … */
    readonly field: string,
    readonly incomplete: readonly MissingPart[],
  ) {
    const parts = incomplete.map((part) => `node ${part.node ?? "unknown"}: ${part.why}`);
    super(`the list of ${field} may not be whole: ${parts.join("; ")}`);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
