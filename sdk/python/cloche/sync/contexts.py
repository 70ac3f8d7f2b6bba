# SPDX-License-Identifier: Apache-2.0
# Made by tools/make-sync from aio/contexts.py; change that one.
"""The named interpreters of a sandbox."""

from __future__ import annotations

from typing import List, Mapping, Optional

from ..code import ContextInfo
from ._part import Part


class Contexts:
    def __init__(self, sandbox: Part) -> None:
        self._sandbox = sandbox

    def create(
        self,
        name: Optional[str] = None,
        *,
        language: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
    ) -> ContextInfo:
        """One with a state of its own; run_code(context=…) uses it."""
        body = {"name": name, "language": language, "cwd": cwd, "env": env, "user": user}
        return ContextInfo.from_json(self._sandbox._call("POST", ["contexts"], body=body))

    def list(self) -> List[ContextInfo]:
        """All of them, the oldest first."""
        return [ContextInfo.from_json(j) for j in (self._sandbox._call("GET", ["contexts"]))["contexts"]]

    def _one(self, method: str, context: str, *word: str) -> ContextInfo:
        return ContextInfo.from_json(self._sandbox._call(method, ["contexts", context, *word]))

    def get(self, context: str) -> ContextInfo:
        """By id or name."""
        return self._one("GET", context)

    def remove(self, context: str) -> ContextInfo:
        """Ends its interpreter with all that it started."""
        return self._one("DELETE", context)

    def restart(self, context: str) -> ContextInfo:
        """A fresh interpreter; its state is gone."""
        return self._one("POST", context, "restart")

    def interrupt(self, context: str) -> ContextInfo:
        """Ends the running call as an error, and keeps the state."""
        return self._one("POST", context, "interrupt")
