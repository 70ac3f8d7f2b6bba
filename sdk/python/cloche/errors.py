# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one root, and a class for each code of the API's closed list.

Catch ClocheError for everything, a class for one case, and read `code`, `field`, `hint` and
`request_id` for the rest. Errors that come from this side of the wire (no daemon, a broken stream)
are ConnectionFailed and share the root.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Mapping, Optional, Type


class ClocheError(Exception):
    """The base class of all errors. `retryable` is True if the same call may succeed later."""

    code = "error"
    retryable = False
    queue_position: Optional[int] = None
    """If a create waited for room and got none: its position among `queue_waiting` creates of its project."""
    queue_waiting: Optional[int] = None

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        status: int = 0,
        request_id: Optional[str] = None,
        hint: Optional[str] = None,
        field: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.status = status
        self.request_id = request_id
        self.hint = hint
        self.field = field

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConnectionFailed(ClocheError):
    """No answer came: the daemon does not run, or the connection broke."""

    code = "connection_failed"
    retryable = True


class BatchError(ClocheError):
    """Some sandboxes of a batch could not be made. `failed` has the error of each by its index; the others run."""

    code = "batch_failed"

    def __init__(self, batch_id: str, failed: Dict[int, ClocheError]) -> None:
        first = next(iter(failed.values()))
        super().__init__(f"{len(failed)} sandboxes of batch {batch_id} failed: {first.message}", hint=first.hint)
        self.batch_id = batch_id
        self.failed = failed


class ForkError(ClocheError):
    """Some forks could not be made. `sandboxes` has those that were made, `failed` the errors of the others by their index."""

    code = "fork_failed"

    def __init__(self, sandboxes: List[Any], failed: List[Dict[str, Any]]) -> None:
        super().__init__(f"{len(failed)} of {len(sandboxes) + len(failed)} forks failed: {failed[0]['message']}")
        self.sandboxes = sandboxes
        self.failed = failed


class ApplyConflict(ClocheError):
    """Both sides have changed the same paths, so nothing was applied. `conflicts` lists the changes of these paths, `count` is
    their number."""

    code = "conflict"

    def __init__(self, conflicts: List[Dict[str, Any]], count: int) -> None:
        super().__init__(f"{count} paths were changed on both sides, such as {conflicts[0]['path']}; nothing was applied")
        self.conflicts = conflicts
        self.count = count


class BadRequest(ClocheError):
    code = "bad_request"


class InvalidField(ClocheError):
    """A field of the request is wrong; `field` names it."""

    code = "invalid_field"


class Unauthenticated(ClocheError):
    code = "unauthenticated"


class Forbidden(ClocheError):
    code = "forbidden"


class NotFound(ClocheError):
    code = "not_found"


class MethodNotAllowed(ClocheError):
    code = "method_not_allowed"


class NotAcceptable(ClocheError):
    code = "not_acceptable"


class Conflict(ClocheError):
    code = "conflict"


class Gone(ClocheError):
    """The sandbox or exec has ended."""

    code = "gone"


class TooLarge(ClocheError):
    code = "too_large"


class UriTooLong(ClocheError):
    code = "uri_too_long"


class UnsupportedMedia(ClocheError):
    code = "unsupported_media_type"


class HeadersTooLarge(ClocheError):
    code = "headers_too_large"


class LimitReached(ClocheError):
    code = "limit_exceeded"
    retryable = True


class NoCapacity(ClocheError):
    code = "no_capacity"
    retryable = True


class Unavailable(ClocheError):
    code = "unavailable"
    retryable = True


class NodeUnreachable(ClocheError):
    """The object is on another node of the cluster, which does not answer. A call that changes something may have taken effect."""

    code = "node_unreachable"


class Unsupported(ClocheError):
    """This engine or host cannot do it."""

    code = "unsupported"


class TimedOut(ClocheError):
    code = "timeout"


class RequestTimeout(ClocheError):
    code = "request_timeout"
    retryable = True


class FileMissing(ClocheError):
    code = "file_not_found"


class FileExists(ClocheError):
    code = "file_exists"


class FileChanged(ClocheError):
    """The file was changed since you read it."""

    code = "file_changed"


class FileDenied(ClocheError):
    code = "file_denied"


class FileInvalid(ClocheError):
    code = "file_invalid"


class DiskFull(ClocheError):
    """The sandbox's disk is full."""

    code = "disk_full"


class HostDiskFull(DiskFull):
    """The host's disk is full. Nothing new can begin until its operator makes room; what runs goes on."""

    code = "host_disk_full"


class ClusterUnavailable(ClocheError):
    """The nodes of the cluster cannot reach their database. Calls to sandboxes and creates without a name still work."""

    code = "cluster_unavailable"


class Fenced(ClocheError):
    """The sandbox stands still: its node is cut off from the cluster's database, and another node may run it. Try again in a few seconds."""

    code = "fenced"


class GuestError(ClocheError):
    """The agent in the sandbox broke the protocol or died."""

    code = "guest_error"


class InternalError(ClocheError):
    code = "internal"


class QuotaError(ClocheError):
    """A quota of the project or key is used up. `what` names it, `limit` is its value, `current` is what is in use. `retry_after`
    says after how many seconds the call may work, None if that is not known."""

    code = "quota_exceeded"
    retryable = True
    what: Optional[str] = None
    limit: Any = None
    current: Any = None
    retry_after: Optional[float] = None


class BudgetError(QuotaError):
    """This month's budget does not cover it; the figures are decimal numbers as text."""

    code = "budget_exceeded"
    retryable = False


class SourceFailed(ClocheError):
    """The `source` of the sandbox could not be fetched. The message ends with the last words of git or curl."""

    code = "source_failed"


class ExecFailed(ClocheError):
    """A command did not end with code 0 (ExecResult.check()). `exec` has its exit code, `detail` the figures that explain it."""

    code = "exec_failed"

    def __init__(self, message: str, exec_: Any = None) -> None:
        super().__init__(message)
        self.exec = exec_

    @property
    def cause(self) -> Optional[str]:
        return getattr(self.exec, "cause", None)

    @property
    def detail(self) -> Dict[str, Any]:
        ended = getattr(self.exec, "ended", None) or {}
        return dict(ended.get("detail") or {})


class OutOfMemory(ExecFailed):
    """The sandbox's memory was full. The sandbox itself goes on, unless its agent was the victim (detail["victim"])."""


class OutOfProcesses(ExecFailed):
    """The sandbox had as many processes as its limit allows."""


class OutOfDisk(ExecFailed):
    """The sandbox's disk was full."""


class ExecTimedOut(ExecFailed):
    """The timeout of the command or the lifetime of its sandbox was over."""


class ExecKilled(ExecFailed):
    """The command was killed, or its sandbox ended."""


class CodeFailed(ClocheError):
    """Code failed (CodeResult.check()). `result` has the whole result."""

    code = "code_failed"

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


BY_CAUSE: Dict[str, Type[ExecFailed]] = {
    "oom": OutOfMemory,
    "pids": OutOfProcesses,
    "disk_full": OutOfDisk,
    "timeout": ExecTimedOut,
    "idle": ExecTimedOut,
    "exited": ExecFailed,
}


def of_exec(exec_: Any) -> ExecFailed:
    """The error that an exec's end stands for."""
    ended = exec_.ended or {}
    message = ended.get("message") or (exec_.error or {}).get("message") or "it failed"
    return BY_CAUSE.get(exec_.cause or "exited", ExecKilled)(f"exec {exec_.id}: {message}", exec_)


class IncompleteList(UserWarning):
    """A warning, not an error: in a cluster a node did not answer, so a list may lack what that node has, or shows what it had a
    while ago. `warnings.simplefilter("error", cloche.errors.IncompleteList)` makes it an error."""


def warn_of_missing(answer: Mapping[str, Any], field: str) -> None:
    """Warns of the nodes whose part a list lacks."""
    for part in answer.get("incomplete") or ():
        text = f"the list of {field} may not be whole: node {part.get('node') or 'unknown'}: {part.get('why')}"
        warnings.warn(IncompleteList(text), stacklevel=4)


def _by_code() -> Dict[str, Type[ClocheError]]:
    classes: List[Type[ClocheError]] = [*ClocheError.__subclasses__(), BudgetError, HostDiskFull]
    own = (ConnectionFailed, ExecFailed, CodeFailed, BatchError, ForkError)  # of this side of the wire
    return {cls.code: cls for cls in classes if cls not in own}


BY_CODE = _by_code()


def from_body(status: int, body: Any) -> ClocheError:
    """The error that a reply's parsed body stands for; never fails, whatever the body is."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return ClocheError(f"HTTP status {status} without an error body", status=status)
    code = str(error.get("code", "error"))
    made = BY_CODE.get(code, ClocheError)(
        str(error.get("message", "")),
        code=code,
        status=status,
        request_id=error.get("request_id"),
        hint=error.get("hint"),
        field=error.get("field"),
    )
    figures = error.get("quota")
    if isinstance(made, QuotaError) and isinstance(figures, dict):
        made.what, made.limit, made.current = (figures.get(k) for k in ("what", "limit", "current"))
        wait = figures.get("retry_after_ms")
        made.retry_after = wait / 1000 if isinstance(wait, int) else None
    queue = error.get("queue")
    if isinstance(queue, dict):
        made.queue_position, made.queue_waiting = queue.get("position"), queue.get("waiting")
    return made
