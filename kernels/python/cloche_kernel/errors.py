# SPDX-License-Identifier: Apache-2.0
"""Exceptions as the host tells them: name, message and a traceback with the user's own lines.

A cell's source is kept under a file name of its own, `<cell 3>`, where `linecache` finds it: a function from cell 3 that
fails in cell 40 still shows its line. The driver's frames, and those of the event loop between driver and cell, are cut.
"""

from __future__ import annotations

import linecache
import os
import traceback

CELL_PREFIX = "<cell "
MESSAGE_MAX = 64 << 10
LINES_MAX = 1000
SOURCES_MAX = 64 << 20

_DRIVER_FILES = os.path.dirname(__file__) + os.sep


class Sources:
    """The source of each cell. Past SOURCES_MAX the oldest are forgotten: their lines are missing in tracebacks then."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._total = 0

    def remember(self, count: int, source: str) -> str:
        """Keeps the source and returns the file name to compile it under."""
        name = f"{CELL_PREFIX}{count}>"
        lines = [line + "\n" for line in source.split("\n")]
        # No time of change: linecache then never looks for a file of that name.
        linecache.cache[name] = (len(source), None, lines, name)
        self._sizes[name] = len(source)
        self._total += len(source)
        while self._total > SOURCES_MAX and len(self._sizes) > 1:
            self._forget_oldest()
        return name

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._sizes))
        self._total -= self._sizes.pop(oldest)
        linecache.cache.pop(oldest, None)


def describe(error: BaseException) -> dict[str, object]:
    """The payload of an `error` message."""
    name = type(error).__name__
    message = _message(error)
    try:
        lines = _traceback_lines(error)
    except Exception as failure:  # an exception whose own methods fail
        lines = [f"{name}: {message}", f"(no traceback: {type(failure).__name__})"]
    if len(lines) > LINES_MAX:
        half = LINES_MAX // 2
        lines[half:-half] = [f"[{len(lines) - 2 * half} lines cut]"]
    return {"name": name, "message": _cut(message), "traceback": [_cut(line) for line in lines]}


def _message(error: BaseException) -> str:
    try:
        if isinstance(error, SyntaxError) and error.msg is not None:
            return str(error.msg)
        return str(error)
    except Exception as failure:
        return f"<no message: str() of the exception raised {type(failure).__name__}>"


def _traceback_lines(error: BaseException) -> list[str]:
    report = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    _cut_driver_frames(report, set())
    return "".join(report.format()).rstrip("\n").split("\n")


def _cut_driver_frames(report: traceback.TracebackException, seen: set[int]) -> None:
    """Takes the driver's frames out of a report and of all that it is chained to or grouped with."""
    pending = [report]
    while pending:
        report = pending.pop()
        if report is None or id(report) in seen:
            continue
        seen.add(id(report))
        if report.stack is not None:
            report.stack[:] = _user_frames(report.stack)
            if not report.stack:
                report.stack = None
        pending += [report.__cause__, report.__context__, *(report.exceptions or ())]


def _user_frames(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    frames = list(stack)
    if frames and frames[0].filename.startswith(_DRIVER_FILES):
        first = next((i for i, f in enumerate(frames) if f.filename.startswith(CELL_PREFIX)), 0)
        frames = frames[first:]
    return [frame for frame in frames if not frame.filename.startswith(_DRIVER_FILES)]


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_MAX else f"{text[:MESSAGE_MAX]}… [cut: {len(text)} characters in all]"
