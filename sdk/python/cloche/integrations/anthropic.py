# SPDX-License-Identifier: Apache-2.0
"""Tools for Anthropic's Messages API: what to declare, and handle_tool_use(), which answers a `tool_use` block.

    tools = [run_code_tool(), bash_tool(), text_editor_tool()]
    ...
    messages.append({"role": "user", "content": handle_tool_uses(reply.content, sandbox)})

Anthropic's own `code_execution` is a server tool: if you declare it, Anthropic's machines run the code, and no block comes here.
Declare run_code_tool() instead. A block with that name, which a proxy may send, is answered too. Blocks may be the SDK's objects or
plain dicts; the SDK itself is not needed.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from .._code_tool import DESCRIPTION, CodeTool, WrongCall, schema_of, shorten
from ..sync.sandbox import Sandbox
from ..code import CodeResult
from ..errors import ClocheError

Json = Dict[str, Any]
Answer = Tuple[List[Json], bool]  # content, is_error
OUTPUT_LIMIT = 100_000


def run_code_tool(
    name: str = "run_code", *, description: str = DESCRIPTION, allowed_callers: Optional[Sequence[str]] = None
) -> Json:
    """A tool for `tools` of a request: it lets the model run code in Python, JavaScript and bash."""
    tool: Json = {"name": name, "description": description, "input_schema": schema_of()}
    if allowed_callers is not None:
        tool["allowed_callers"] = list(allowed_callers)
    return tool


def bash_tool() -> Json:
    """A tool for `tools` of a request: a bash that keeps its state."""
    return {"type": "bash_20250124", "name": "bash"}


def text_editor_tool(max_characters: Optional[int] = None) -> Json:
    """A tool for `tools` of a request: an editor for the sandbox's files."""
    tool: Json = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
    if max_characters is not None:
        tool["max_characters"] = max_characters
    return tool


def handle_tool_use(block: Any, sandbox: Sandbox) -> Json:
    """Answers a `tool_use` block: runs it and returns the `tool_result` block. If anything fails inside, the model gets it as an error."""
    name, input_ = _field(block, "name"), _field(block, "input") or {}
    try:
        handler = HANDLERS.get(name)
        if handler is None:
            raise WrongCall(f"there is no tool '{name}'; there are {', '.join(HANDLERS)}")
        content, is_error = handler(input_, sandbox)
    except (WrongCall, ClocheError) as e:
        content, is_error = _text(f"Error: {e}"), True
    return {"type": "tool_result", "tool_use_id": _field(block, "id"), "content": content, "is_error": is_error}


handle_code_execution_tool_use = handle_tool_use


def handle_tool_uses(content: Iterable[Any], sandbox: Sandbox) -> List[Json]:
    """Answers all `tool_use` blocks of a turn. The result is the content of the user message to send next."""
    return [handle_tool_use(block, sandbox) for block in content if _field(block, "type") == "tool_use"]


def _field(block: Any, name: str) -> Any:
    return block.get(name) if isinstance(block, Mapping) else getattr(block, name, None)


def _text(value: str) -> List[Json]:
    return [{"type": "text", "text": shorten(value, OUTPUT_LIMIT) or "(no output)"}]


def _run_code(input_: Json, sandbox: Sandbox) -> Answer:
    tool = CodeTool(sandbox)
    result = tool.run(input_)
    return _text(tool.text(result)) + _pictures(result), result.status != "ok"


def _pictures(result: CodeResult) -> List[Json]:
    found = [shown.data["image/png"] for shown in result.results if isinstance(shown.data.get("image/png"), str)]
    return [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "".join(png.split())}}
        for png in found
    ]


def _run_bash(input_: Json, sandbox: Sandbox) -> Answer:
    if input_.get("restart") is True:
        for context in sandbox.contexts.list():
            if context.name == "bash":
                sandbox.contexts.restart(context.id)
        return _text("bash was restarted"), False
    tool = CodeTool(sandbox, languages=["bash"])
    result = tool.run({"code": _word(input_, "command")})
    return _text(tool.text(result)), result.status != "ok"


def _word(input_: Json, name: str) -> str:
    value = input_.get(name)
    if not isinstance(value, str):
        raise WrongCall(f"`{name}` must be a string")
    return value


def _view(path: str, input_: Json, sandbox: Sandbox) -> str:
    if sandbox.files.stat(path, follow=True).type == "directory":
        return "\n".join(e.name + "/" if e.type == "directory" else e.name for e in sandbox.files.list(path))
    lines = sandbox.files.read_text(path).split("\n")
    first, last = _range(input_.get("view_range"), len(lines))
    return "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, min(last, len(lines)) + 1))


def _range(view_range: Any, count: int) -> Tuple[int, int]:
    """First and last line, 1-based; -1 is the last one."""
    if view_range is None:
        return 1, count
    wrong = WrongCall(f"`view_range` must be [FIRST, LAST] within 1 to {count}, or -1 as the last")
    if not isinstance(view_range, (list, tuple)) or len(view_range) != 2 or not all(isinstance(n, int) for n in view_range):
        raise wrong
    first, last = view_range
    if not 1 <= first <= count or (last != -1 and last < first):
        raise wrong
    return first, count if last == -1 else last


def _create(path: str, input_: Json, sandbox: Sandbox) -> str:
    sandbox.files.write(path, _word(input_, "file_text"), parents=True)
    return f"{path} was written"


def _replace(path: str, input_: Json, sandbox: Sandbox) -> str:
    old, whole = _word(input_, "old_str"), sandbox.files.read_text(path)
    count = whole.count(old) if old else 0
    if count != 1:
        raise WrongCall(f"`old_str` must occur exactly once in {path}, and occurs {count} times")
    sandbox.files.write(path, whole.replace(old, str(input_.get("new_str") or "")))
    return f"{path} was changed"


def _insert(path: str, input_: Json, sandbox: Sandbox) -> str:
    lines = sandbox.files.read_text(path).split("\n")
    at = input_.get("insert_line")
    if not isinstance(at, int) or not 0 <= at <= len(lines):
        raise WrongCall(f"`insert_line` must be from 0 to {len(lines)}")
    text = _word(input_, "insert_text")
    lines.insert(at, text[:-1] if text.endswith("\n") else text)
    sandbox.files.write(path, "\n".join(lines))
    return f"{path} was changed"


EDITS: Dict[str, Callable[[str, Json, Sandbox], str]] = {
    "view": _view,
    "create": _create,
    "str_replace": _replace,
    "insert": _insert,
}


def _edit(input_: Json, sandbox: Sandbox) -> Answer:
    command = input_.get("command")
    edit = EDITS.get(command) if isinstance(command, str) else None
    if edit is None:
        raise WrongCall(f"`command` must be one of {', '.join(EDITS)}, and is '{command}'")
    return _text(edit(_word(input_, "path"), input_, sandbox)), False


HANDLERS: Dict[str, Callable[[Json, Sandbox], Answer]] = {
    "run_code": _run_code,
    "code_execution": _run_code,
    "bash": _run_bash,
    "bash_code_execution": _run_bash,
    "str_replace_based_edit_tool": _edit,
    "text_editor_code_execution": _edit,
}
