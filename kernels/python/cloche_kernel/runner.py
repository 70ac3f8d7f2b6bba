# SPDX-License-Identifier: Apache-2.0
"""Compiles a cell, runs it in the user's module and finds the value of its last expression."""

from __future__ import annotations

import __future__
import ast
import builtins
import sys
import types

from .errors import Sources

_CO_COROUTINE = 0x80  # of inspect, which is slow to load
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag


def make_main_module() -> types.ModuleType:
    """A fresh `__main__`, where pickle and `import __main__` find what the code defines."""
    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    return module


class Runner:
    """Runs cells in one module. `from __future__ import …` holds for the cells after it, as in an interactive Python."""

    def __init__(self, module: types.ModuleType):
        self._namespace = module.__dict__
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self._sources = Sources()
        self._event_loop = None

    def run(self, source: str, count: int) -> object:
        """The value of the last expression; None where there is none or a semicolon hides it. It is `_` for the cells after
        it, as in an interactive Python."""
        name = self._sources.remember(count, source)
        if source.lstrip()[:2] == "%%":
            return self._notebook(name).run_cell(source, lambda part: self._run(part, name))
        return self._run(source, name)

    def _run(self, source: str, name: str) -> object:
        body, last = self._compile(source, name)
        if body is not None:
            self._execute(body)
        value = None if last is None else self._execute(last)
        if value is not None:
            builtins._ = value
        return value

    def _compile(self, source: str, name: str) -> tuple[types.CodeType | None, types.CodeType | None]:
        tree, source = self._parse(source, name)
        statements = tree.body
        expression = None
        if statements and type(statements[-1]) is ast.Expr and not _is_hidden(source, statements[-1]):
            expression = statements.pop().value
        body = last = None
        if statements:
            body = compile(tree, name, "exec", self._flags, True)
            self._flags |= body.co_flags & _FUTURES
        if expression is not None:
            last = compile(ast.Expression(expression), name, "eval", self._flags, True)
        return body, last

    def _parse(self, source: str, name: str) -> tuple[ast.Module, str]:
        """The tree, and the source that it is of: what notebooks have beside Python is translated."""
        while True:
            try:
                return compile(source, name, "exec", self._flags | ast.PyCF_ONLY_AST, True), source
            except SyntaxError as error:
                again = self._notebook(name).translate(source, error)
                if again is None:
                    raise
                source = again

    def _notebook(self, name: str) -> types.ModuleType:
        from . import magics  # few need it

        magics.install(lambda part: self._run(part, name))
        return magics

    def _execute(self, code: types.CodeType) -> object:
        value = eval(code, self._namespace)
        if code.co_flags & _CO_COROUTINE:
            return self._await(value)
        return value

    def _await(self, coroutine: types.CoroutineType) -> object:
        if self._event_loop is None:
            from .aio import EventLoop  # asyncio takes tens of milliseconds to load: only those who await pay

            self._event_loop = EventLoop()
        return self._event_loop.run(coroutine)


def _is_hidden(source: str, statement: ast.Expr) -> bool:
    """Whether a semicolon follows the statement."""
    if ";" not in source:
        return False
    line = source.encode().splitlines()[statement.end_lineno - 1]  # columns count bytes
    return line[statement.end_col_offset :].lstrip(b" \t\f)").startswith(b";")
