# SPDX-License-Identifier: Apache-2.0
"""An executor for smolagents (`pip install smolagents`): the agent's code runs in a sandbox, which keeps its state.

    with ClocheExecutor() as executor:
        agent = CodeAgent(tools=[], model=model, executor=executor)
"""

from __future__ import annotations

import base64
import io
import shlex
from typing import Any, List, Optional, Sequence

from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

from ..code import CodeResult, Result
from ..sync.sandbox import Sandbox


class ClocheExecutor(RemotePythonExecutor):  # type: ignore[misc]
    """Pass a `sandbox` of your own, which stays open. Without it, one is created with `fields` (those of Sandbox.create()), and
    cleanup() ends it. Packages that tools need are installed in the sandbox by pip, which its network policy must allow.
    Packages that the template already has are not installed again."""

    def __init__(
        self,
        sandbox: Optional[Sandbox] = None,
        *,
        additional_imports: Sequence[str] = (),
        logger: Any = None,
        allow_pickle: bool = False,
        timeout: float = 120.0,
        **fields: Any,
    ) -> None:
        super().__init__(list(additional_imports), logger or AgentLogger(level=LogLevel.ERROR), allow_pickle)
        self._is_own = sandbox is None
        self.sandbox = sandbox if sandbox is not None else Sandbox.create(**fields)
        self._timeout = timeout
        self.installed_packages = self.install_packages(self.additional_imports)

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        done = self.sandbox.run_code(code, timeout=self._timeout, kill_on_disconnect=True)
        if done.error is not None and done.error.name == self.FINAL_ANSWER_EXCEPTION:
            answer = self._deserialize_final_answer(done.error.message, self.allow_pickle)
            return CodeOutput(output=answer, logs=done.stdout, is_final_answer=True)
        if done.error is not None or done.status != "ok":
            raise AgentError(f"{done.stdout}\nExecuting code yielded an error:\n{_why(done)}", self.logger)
        main = next((shown for shown in done.results if shown.is_main), None)
        return CodeOutput(output=_value(main) if main else None, logs=done.stdout, is_final_answer=False)

    def install_packages(self, additional_imports: List[str]) -> List[str]:
        """By a command, since code is plain Python here; what can be imported already is not asked for."""
        if additional_imports:
            missing = f"import importlib.util as u; print(*[n for n in {list(additional_imports)!r} if not u.find_spec(n.replace('-', '_'))])"
            wanted = self.sandbox.run(["python3", "-c", missing]).check().stdout.split()
            if wanted:
                self.sandbox.run(f"python3 -m pip install {shlex.join(wanted)}", timeout=600).check()
        return additional_imports

    def cleanup(self) -> None:
        if self._is_own:
            self.sandbox.__exit__()

    def __enter__(self) -> "ClocheExecutor":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.cleanup()


def _why(done: CodeResult) -> str:
    if done.error is None:
        return f"[ended by {done.cause or done.status}]"
    return f"{done.error.name}\n{done.error.message}\n{done.error}"


def _value(shown: Result) -> Any:
    for kind in ("image/png", "image/jpeg"):
        if kind in shown.data:
            import PIL.Image

            return PIL.Image.open(io.BytesIO(base64.b64decode(shown.data[kind])))
    for kind in ("application/json", "text/html", "text/markdown", "text/plain"):
        if kind in shown.data:
            return shown.data[kind]
    return None
