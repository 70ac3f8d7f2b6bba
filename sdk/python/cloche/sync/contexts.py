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
        """Creates an interpreter with its own state, for run_code(context=…). A sandbox can have 16."""
        body = {"name": name, "language": language, "cwd": cwd, "env": env, "user": user}
        return ContextInfo.from_json(self._sandbox._call("POST", ["contexts"], body=body))

    def list(self) -> List[ContextInfo]:
        """Lists all contexts, oldest first."""
        return [ContextInfo.from_json(j) for j in (self._sandbox._call("GET", ["contexts"]))["contexts"]]

    def _one(self, method: str, context: str, *word: str) -> ContextInfo:
        return ContextInfo.from_json(self._sandbox._call(method, ["contexts", context, *word]))

    def get(self, context: str) -> ContextInfo:
        """Gets one by its id or name."""
        return self._one("GET", context)

    def remove(self, context: str) -> ContextInfo:
        """Removes the context: ends its interpreter and all that it started."""
        return self._one("DELETE", context)

    def restart(self, context: str) -> ContextInfo:
        """Gives the context a fresh interpreter. Its state is lost."""
        return self._one("POST", context, "restart")

    def interrupt(self, context: str) -> ContextInfo:
        """Interrupts the running call, which ends with an error, and keeps the state."""
        return self._one("POST", context, "interrupt")
