# SPDX-License-Identifier: Apache-2.0
"""The tool that every agent framework's adapter offers to its model: run code in a sandbox whose state stays.

Here is what they share, and nothing of any framework: which sandbox, what a call's arguments are, and what the model is told.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .sync.sandbox import Sandbox
from .code import CodeResult

DESCRIPTION = (
    "Execute code in a persistent sandbox. Variables, imports and files carry over from call to call. "
    "Returns what was printed, the value of the last expression, and the error if there was one."
)
LANGUAGES = ("python", "javascript", "bash")
CALL_TIMEOUT = 120.0
OUTPUT_LIMIT = 50_000


class WrongCall(ValueError):
    """A call that the model got wrong: its message is what the model reads."""


def schema_of(languages: Sequence[str] = LANGUAGES) -> Dict[str, Any]:
    """The arguments' JSON schema."""
    return {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "The source code to run."},
            "language": {"type": "string", "enum": list(languages), "description": f"{languages[0]} without it."},
        },
        "required": ["code"],
        "additionalProperties": False,
    }


class CodeTool:
    """Pass a `sandbox` of your own, which stays open. Without it, the first call creates one with `fields`, and close() ends it."""

    def __init__(
        self,
        sandbox: Optional[Sandbox] = None,
        *,
        languages: Sequence[str] = LANGUAGES,
        call_timeout: float = CALL_TIMEOUT,
        output_limit: int = OUTPUT_LIMIT,
        **fields: Any,
    ) -> None:
        self.languages = tuple(languages)
        self._sandbox = sandbox
        self._making = threading.Lock()  # a model's first calls may come together
        self._is_own = sandbox is None
        self._fields = fields
        self._call_timeout = call_timeout
        self._output_limit = output_limit

    @property
    def sandbox(self) -> Sandbox:
        with self._making:
            if self._sandbox is None:
                self._sandbox = Sandbox.create(**self._fields)
            return self._sandbox

    def run(self, arguments: Mapping[str, Any]) -> CodeResult:
        code, language = arguments.get("code"), arguments.get("language") or self.languages[0]
        if not isinstance(code, str):
            raise WrongCall("`code` must be a string with the source code to run")
        if language not in self.languages:
            raise WrongCall(f"`language` must be one of {', '.join(self.languages)}")
        return self.sandbox.run_code(code, language, timeout=self._call_timeout, kill_on_disconnect=True)

    def text(self, result: CodeResult) -> str:
        """What the model reads of it."""
        parts: List[str] = [result.stdout, result.printed_stderr]
        for shown in result.results:
            pictures = [kind for kind in shown.data if kind.startswith("image/")]
            parts.append(f"[{', '.join(pictures)}]" if pictures else shown.text or "")
        if result.error:
            parts.append(str(result.error))
        if result.cause:
            parts.append(f"[ended by {result.cause}]")
        whole = "".join(part if part.endswith("\n") else part + "\n" for part in parts if part)
        return shorten(whole, self._output_limit)

    def close(self) -> None:
        with self._making:
            if self._is_own and self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None


def shorten(text: str, limit: int) -> str:
    """The beginning and the end, where the whole is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
