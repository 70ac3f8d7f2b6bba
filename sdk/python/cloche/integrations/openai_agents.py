# SPDX-License-Identifier: Apache-2.0
"""A function tool for OpenAI's Agents SDK (`pip install openai-agents`).

    agent = Agent(name="assistant", tools=[cloche_code_interpreter()])
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Optional

from .._code_tool import DESCRIPTION, CodeTool, WrongCall, schema_of
from ..sync.sandbox import Sandbox
from ..errors import ClocheError


def cloche_code_interpreter(
    sandbox: Optional[Sandbox] = None, *, name: str = "run_code", description: str = DESCRIPTION, **fields: Any
) -> Any:
    """A FunctionTool. Pass a `sandbox` of your own, or the first call creates one with `fields` (those of Sandbox.create());
    `code_tool.close()` ends that one."""
    from agents import FunctionTool

    tool = CodeTool(sandbox, **fields)

    async def invoke(_context: Any, arguments: str) -> str:
        return await asyncio.to_thread(_run, tool, arguments)

    made = FunctionTool(
        name=name,
        description=description,
        params_json_schema=schema_of(tool.languages),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
    made.code_tool = tool  # type: ignore[attr-defined]
    return made


def _run(tool: CodeTool, arguments: str) -> str:
    """What is wrong with a call, or with the sandbox, is told to the model."""
    try:
        return tool.text(tool.run(json.loads(arguments)))
    except (WrongCall, ClocheError, ValueError, AttributeError) as e:
        return f"Error: {e}"
