# SPDX-License-Identifier: Apache-2.0
"""Claude Managed Agents with a sandbox of cloche's: the tools of `agent_toolset_20260401` for a self-hosted environment's
worker (`pip install anthropic`).

    EnvironmentWorker(client, environment_id=..., environment_key=..., tools=lambda env: agent_toolset(template="python"))

The agent's loop runs at Anthropic, its tools run in the sandbox. The async tool runner of the Messages API accepts these tools,
too.
"""

from __future__ import annotations

import asyncio
from typing import Any, List, Optional

from anthropic import beta_async_tool
from anthropic.lib.tools import ToolError

from .._code_tool import CodeTool, shorten
from ..errors import ClocheError
from ..sync.sandbox import Sandbox
from .anthropic import OUTPUT_LIMIT

GLOB = """shopt -s globstar nullglob; cd -- "$2" || exit 2; IFS=; m=($1)
[ ${#m[@]} -eq 0 ] || stat -c '%Y %n' -- "${m[@]}" | sort -rn | cut -d' ' -f2- | head -n 1000"""
GREP = """grep -rnEI -- "$1" "$2" | head -c 262144; exit $(( PIPESTATUS[0] > 1 ? 2 : 0 ))"""


class _Tools:
    """The calls themselves, which wait; the model reads what they raise."""

    def __init__(self, code: CodeTool) -> None:
        self.code = code

    def bash(self, command: Optional[str], restart: Optional[bool], timeout_ms: Optional[int]) -> str:
        sandbox = self.code.sandbox
        if restart:
            for context in sandbox.contexts.list():
                if context.name == "bash":
                    sandbox.contexts.restart(context.id)
        if command is None:
            return "bash was restarted"
        done = sandbox.run_code(command, "bash", timeout=(timeout_ms or 120_000) / 1000, kill_on_disconnect=True)
        told = self.code.text(done)
        if done.status != "ok":
            raise ToolError(told or f"it ended with code {done.exit_code}")
        return told

    def read(self, file_path: str, view_range: Optional[List[int]]) -> str:
        whole = self.code.sandbox.files.read_text(file_path)
        if view_range:
            first, last = view_range
            whole = "\n".join(whole.split("\n")[first - 1 : None if last == -1 else last])
        return shorten(whole, OUTPUT_LIMIT)

    def write(self, file_path: str, content: str) -> str:
        self.code.sandbox.files.write(file_path, content, parents=True)
        return f"{file_path} was written"

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: Optional[bool]) -> str:
        whole = self.code.sandbox.files.read_text(file_path)
        count = whole.count(old_string) if old_string else 0
        if count == 0:
            raise ToolError(f"old_string is not in {file_path}")
        if count > 1 and not replace_all:
            raise ToolError(f"old_string occurs {count} times in {file_path}: say replace_all, or more of it")
        self.code.sandbox.files.write(file_path, whole.replace(old_string, new_string))
        return f"{file_path} was changed"

    def script(self, body: str, pattern: str, path: Optional[str]) -> str:
        done = self.code.sandbox.run(["bash", "-c", body, "bash", pattern, path or "."], timeout=60)
        if done.exit_code != 0:
            raise ToolError(done.stderr or f"it ended with code {done.exit_code}")
        return shorten(done.stdout, OUTPUT_LIMIT) or "(nothing found)"


async def _aside(fn: Any, *words: Any) -> str:
    """In a thread: the worker's loop has a heartbeat to keep."""
    try:
        return str(await asyncio.to_thread(fn, *words))
    except ClocheError as e:
        raise ToolError(str(e)) from e


def agent_toolset(sandbox: Optional[Sandbox] = None, **fields: Any) -> List[Any]:
    """bash, read, write, edit, glob and grep. Pass a `sandbox` of your own, which stays open. Without it, the first call creates
    one with `fields` (those of Sandbox.create()); it ends when the worker closes the tools."""
    tools = _Tools(CodeTool(sandbox, output_limit=OUTPUT_LIMIT, **fields))

    async def bash(command: Optional[str] = None, restart: Optional[bool] = None, timeout_ms: Optional[int] = None) -> str:
        return await _aside(tools.bash, command, restart, timeout_ms)

    async def read(file_path: str, view_range: Optional[List[int]] = None) -> str:
        return await _aside(tools.read, file_path, view_range)

    async def write(file_path: str, content: str) -> str:
        return await _aside(tools.write, file_path, content)

    async def edit(file_path: str, old_string: str, new_string: str, replace_all: Optional[bool] = None) -> str:
        return await _aside(tools.edit, file_path, old_string, new_string, replace_all)

    async def glob(pattern: str, path: Optional[str] = None) -> str:
        return await _aside(tools.script, GLOB, pattern, path)

    async def grep(pattern: str, path: Optional[str] = None) -> str:
        return await _aside(tools.script, GREP, pattern, path)

    async def close() -> None:
        await asyncio.to_thread(tools.code.close)

    described = [
        (bash, "Run a command in a bash whose state stays from call to call."),
        (read, "Read a text file; view_range is [first, last] line, from 1; -1 is the last."),
        (write, "Write a text file; missing directories are made."),
        (edit, "Replace old_string by new_string in a file; it must occur once, unless replace_all."),
        (glob, "Files that match a pattern, newest first."),
        (grep, "Lines that match an extended regular expression."),
    ]
    made = [beta_async_tool(fn, description=description) for fn, description in described]
    made[0].close = close
    return made
