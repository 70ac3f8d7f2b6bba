# SPDX-License-Identifier: Apache-2.0
"""What people paste from notebooks: `!command`, `%magic`, `%%bash`, and cells that are indented as a whole.

A cell that is Python is never looked at here. One that does not compile is read again: the line that the compiler names
becomes a call of `run_line()` if it is such a line, and so on until all of it is Python. So a `!` or `%` in a string, or at
the beginning of a line that goes on from the one before, stays what it is. Lines keep their number.

There is no IPython behind it: the table below has what pasted code uses, and what is not in it is told by its name.
"""

from __future__ import annotations

import builtins
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable

_CALL = "__cloche_line__"
_ASSIGNED = re.compile(r"(\s*[\w.\[\]'\", ]+?\s*=\s*)([!%])(.*)", re.S)
_LINE = re.compile(r"(\s*)([!%])(.*)", re.S)
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s?(.*)", re.S)
_EXPRESSION = re.compile(r"\{([^{}]+)\}|\$(\w+)")
_SHELL_WORDS = ("cat", "cp", "ls", "ll", "mkdir", "mv", "rm", "rmdir")
# They set up what is there already (figures are shown), or what nobody needs here.
_SILENT = ("autoreload", "config", "load_ext", "matplotlib", "precision", "pylab", "reload_ext", "unload_ext", "xmode")

Run = Callable[[str], object]  # runs source as a part of the cell


def translate(source: str, error: SyntaxError) -> str | None:
    """The source with one thing less in it that is no Python; None: the error stands."""
    lines = source.split("\n")
    at = (error.lineno or 0) - 1
    if isinstance(error, IndentationError) and _is_first(lines, at):
        return _dedent(lines, at)
    if not 0 <= at < len(lines):
        return None
    end = at
    while lines[end].endswith("\\") and end + 1 < len(lines):
        end += 1
    whole = "\n".join(line.removesuffix("\\") if end > at else line for line in lines[at : end + 1]).replace("\n", " ")
    call = _to_call(whole)
    if call is None:
        return None
    return "\n".join([*lines[:at], call, *[""] * (end - at), *lines[end + 1 :]])


def _is_first(lines: list[str], at: int) -> bool:
    return 0 <= at < len(lines) and lines[at][:1] in (" ", "\t") and not any(line.strip() for line in lines[:at])


def _dedent(lines: list[str], at: int) -> str:
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    return "\n".join(line.removeprefix(indent) for line in lines)


def _to_call(line: str) -> str | None:
    found = _LINE.fullmatch(line)
    if found and not found[3].startswith("="):
        return f"{found[1]}{_CALL}({found[2]!r}, {found[3]!r})"
    found = _ASSIGNED.fullmatch(line)
    return f"{found[1]}{_CALL}({found[2] + '='!r}, {found[3]!r})" if found else None


def install(run: Run) -> None:
    """run: of code that stands in a magic's line, as in `%time f()`."""

    def run_line(kind: str, text: str) -> object:
        frame = sys._getframe(1)
        if kind == "!":
            return _shell(_expand(text, frame.f_globals, frame.f_locals))
        if kind == "!=":
            return _output(_expand(text, frame.f_globals, frame.f_locals))
        name, rest = _split(text)
        if name in _SHELL_WORDS:
            return _shell(f"{name} {_expand(rest, frame.f_globals, frame.f_locals)}")
        if name in _SILENT:
            return None
        if name not in _LINES:
            raise _unknown(f"%{name}", [f"%{n}" for n in (*_LINES, *_SHELL_WORDS, *_SILENT)])
        if name not in ("time", "timeit"):
            rest = _expand(rest, frame.f_globals, frame.f_locals)
        return _LINES[name](rest.strip(), run)

    setattr(builtins, _CALL, run_line)


def run_cell(source: str, run: Run) -> object:
    """A cell whose first line is `%%magic`; what runs of it keeps the numbers of its lines."""
    text = source.lstrip()
    head, _, body = text.partition("\n")
    above = source[: len(source) - len(text)].count("\n") + 1
    name, rest = _split(head[2:])
    if name not in _CELLS:
        raise _unknown(f"%%{name}", [f"%%{n}" for n in _CELLS])
    return _CELLS[name](rest.strip(), body, lambda part: run("\n" * above + part))


def _split(text: str) -> tuple[str, str]:
    found = _NAME.fullmatch(text)
    return (found[1], found[2]) if found else (text.strip(), "")


def _unknown(word: str, known: list[str]) -> NameError:
    return NameError(f"{word} is not known here; there are {', '.join(sorted(known))} and !command")


def _expand(text: str, globals_: dict, locals_: dict) -> str:
    """`{expression}` and `$name`, where they are of Python; all else is the shell's."""

    def value(found: re.Match) -> str:
        if found[2] is not None:
            name = found[2]
            return str(locals_.get(name, globals_.get(name))) if name in locals_ or name in globals_ else found[0]
        try:
            return str(eval(found[1], globals_, locals_))
        except Exception:
            return found[0]

    return _EXPRESSION.sub(value, text)


def _argv(command: str) -> list[str]:
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    return [shell, "-c", command]


def _shell(command: str) -> None:
    _flush()
    sys.modules["__main__"].__dict__["_exit_code"] = subprocess.call(_argv(command))


def _output(command: str) -> list[str]:
    _flush()
    return subprocess.run(_argv(command), stdout=subprocess.PIPE).stdout.decode(errors="replace").splitlines()


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _cd(where: str, run: Run) -> None:
    os.chdir(os.path.expanduser(shlex.split(where)[0] if where else "~"))
    print(os.getcwd())


def _pwd(rest: str, run: Run) -> str:
    return os.getcwd()


def _pip(rest: str, run: Run) -> None:
    _shell(f"{shlex.quote(sys.executable)} -m pip {rest}")


def _env(rest: str, run: Run) -> object:
    name, equals, value = rest.partition("=") if "=" in rest else rest.partition(" ")
    if not name:
        return dict(os.environ)
    if not equals:
        return os.environ.get(name)
    os.environ[name.strip()] = value.strip()
    print(f"env: {name.strip()}={value.strip()}")
    return None


def _run_file(rest: str, run: Run) -> None:
    words = shlex.split(rest)
    kept, sys.argv = sys.argv, words
    try:
        with open(words[0], encoding="utf-8") as f:
            run(f.read())
    finally:
        sys.argv = kept


def _time(rest: str, run: Run) -> object:
    import time

    wall, cpu = time.perf_counter(), time.process_time()
    try:
        return run(rest)
    finally:
        print(f"CPU times: {_duration(time.process_time() - cpu)}\nWall time: {_duration(time.perf_counter() - wall)}")


def _timeit(rest: str, run: Run) -> None:
    import timeit

    number, repeat, words = 0, 7, rest
    while (found := re.match(r"\s*-([nr])\s*(\d+)\s*", words)) is not None:
        number, repeat = (int(found[2]), repeat) if found[1] == "n" else (number, int(found[2]))
        words = words[found.end() :]
    timer = timeit.Timer(words.strip("\n") or "pass", globals=sys.modules["__main__"].__dict__)
    number = number or timer.autorange()[0]
    times = [t / number for t in timer.repeat(max(repeat, 1), number)]
    print(f"{_duration(sum(times) / len(times))} per loop (mean of {len(times)} runs, {number} loops each; best {_duration(min(times))})")


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _script(rest: str, body: str, run: Run) -> None:
    _flush()
    status = subprocess.run([*_argv("")[:1], "-s", *shlex.split(rest)], input=body.encode()).returncode
    if status:
        raise subprocess.CalledProcessError(status, "bash")


def _time_cell(rest: str, body: str, run: Run) -> object:
    return _time(f"{rest}\n{body}" if rest else body, run)


def _timeit_cell(rest: str, body: str, run: Run) -> None:
    _timeit(f"{rest} {body}", run)


def _write_file(rest: str, body: str, run: Run) -> None:
    words = shlex.split(rest)
    path = os.path.expanduser(words[-1])
    with open(path, "a" if "-a" in words[:-1] else "w", encoding="utf-8") as f:
        f.write(body if body.endswith("\n") or not body else body + "\n")
    print(f"Writing {words[-1]}")


def _capture(rest: str, body: str, run: Run) -> None:
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        run(body)
    name = next((w for w in rest.split() if w.isidentifier()), None)
    if name:
        import types

        sys.modules["__main__"].__dict__[name] = types.SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


def _html(rest: str, body: str, run: Run) -> None:
    builtins.display({"text/html": body, "text/plain": body}, raw=True)


def _python(rest: str, body: str, run: Run) -> None:
    _flush()
    subprocess.run([sys.executable, "-"], input=body.encode(), check=True)


_LINES = {"cd": _cd, "env": _env, "pip": _pip, "pwd": _pwd, "run": _run_file, "set_env": _env, "time": _time, "timeit": _timeit}
_CELLS = {
    "bash": _script,
    "capture": _capture,
    "file": _write_file,
    "html": _html,
    "python": _python,
    "python3": _python,
    "sh": _script,
    "time": _time_cell,
    "timeit": _timeit_cell,
    "writefile": _write_file,
}
