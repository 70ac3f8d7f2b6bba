# SPDX-License-Identifier: Apache-2.0
"""Python: how a call fails, and how the interpreter ends."""

import signal

import pytest
from kernels.kernel import KernelDied

# ---- errors


def test_an_error_is_name_message_and_the_users_lines(kernel):
    kernel.run("def divide(a):\n    return a / 0")
    reply = kernel.run("x = 1\ndivide(x)")
    assert (reply.error["name"], reply.error["message"]) == ("ZeroDivisionError", "division by zero")
    lines = [line for line in reply.error["traceback"] if "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<cell 2>", line 2, in <module>',
        "    divide(x)",
        '  File "<cell 1>", line 2, in divide',
        "    return a / 0",
        "ZeroDivisionError: division by zero",
    ]
    assert reply.result is None and reply.done == {"status": "error", "count": 2}


def test_output_and_names_before_an_error_are_kept(kernel):
    assert kernel.run("kept = 5\nprint('before')\nundefined").stdout == b"before\n"
    assert kernel.run("kept").text == "5"


def test_chained_exceptions_are_all_told(kernel):
    text = kernel.run("try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('outer') from e").traceback
    assert text.index("KeyError: 'k'") < text.index("direct cause") < text.index("ValueError: outer")
    text = kernel.run("raise ExceptionGroup('many', [ValueError('one'), TypeError('two')])").traceback
    assert "ValueError: one" in text and "TypeError: two" in text and "cloche_kernel" not in text


def test_a_syntax_error_points_at_its_place(kernel):
    reply = kernel.run("x = 1\ny = = 2")
    assert (reply.error["name"], reply.error["message"]) == ("SyntaxError", "invalid syntax")
    assert reply.error["traceback"] == [
        '  File "<cell 1>", line 2',
        "    y = = 2",
        "        ^",
        "SyntaxError: invalid syntax",
    ]


@pytest.mark.parametrize(
    "code, stdout, text",
    [
        ("!echo hi", "hi\n", None),
        ("x = 1\n!echo {x + 1} $x $HOME/{x} ${NOT}x {no", "2 1 /root/1 x {no\n", None),
        ("!echo a \\\n  b\n1", "a b\n", "1"),
        ("names = !printf 'a\\nb\\n'\nnames", "", "['a', 'b']"),
        ("if True:\n    !echo inside\n    %cd /\n", "inside\n/\n", None),
        ("!echo it's | cat", "", None),
        ("%matplotlib inline\n%load_ext autoreload\n2", "", "2"),
        ("%cd /usr\n%pwd", "/usr\n", "'/usr'"),
        ("%env A=5\nimport os; os.environ['A']", "env: A=5\n", "'5'"),
        ("%%bash\necho $((6*7))\ncat <<'X'\n%cd\nX", "42\n%cd\n", None),
        ("\n  %%sh\necho hi", "hi\n", None),
        ("%%writefile /dev/null\na\nb", "Writing /dev/null\n", None),
        ("%%capture out\nprint(1)\n", "", None),
        ("    x = 3\n    if x:\n        y = 4\n    x + y", "", "7"),
        ("text = '''\n!echo no\n%cd /\n'''\n!echo yes\ntext", "yes\n", "'\\n!echo no\\n%cd /\\n'"),
        ("(7\n% 4)", "", "3"),
    ],
)
def test_what_notebooks_have_beside_python_works(kernel, code, stdout, text):
    kernel.run("import os; os.environ['HOME'] = '/root'")
    reply = kernel.run(code)
    assert (reply.error, reply.stdout.decode(), reply.text) == (None, stdout, text)


def test_a_magic_that_runs_code_runs_it_in_the_cell(kernel):
    reply = kernel.run("%time x = 41 + 1\nx")
    assert reply.text == "42" and b"Wall time: " in reply.stdout
    assert kernel.run("%%time\ny = x\ny").text == "42"
    assert b"per loop" in kernel.run("%timeit -n 2 -r 2 x + y").stdout
    reply = kernel.run("%%time\nz = 1\n1 / 0")
    assert reply.error["name"] == "ZeroDivisionError" and '  File "<cell 4>", line 3, in <module>' in reply.error["traceback"]


def test_what_is_wrong_in_such_a_cell_is_told(kernel):
    error = kernel.run("%no_such_thing 1").error
    assert error["name"] == "NameError" and "%no_such_thing is not known here; there are " in error["message"]
    assert "%%rust" in kernel.run("%%rust\nfn").error["message"]
    assert kernel.run("%%bash\nexit 3").error["name"] == "CalledProcessError"
    reply = kernel.run("!exit 4\n_exit_code")
    assert (reply.error, reply.text) == (None, "4")
    error = kernel.run("!true\nx = = 1").error
    assert (error["name"], error["traceback"][0]) == ("SyntaxError", '  File "<cell 5>", line 2')
    assert kernel.run("%cd /no/such").error["name"] == "FileNotFoundError"


def test_an_exception_that_cannot_tell_itself_is_still_an_error(kernel):
    reply = kernel.run("class Bad(Exception):\n  def __str__(self): raise KeyError\nraise Bad")
    assert reply.error["name"] == "Bad" and "KeyError" in reply.error["message"]


def test_endless_recursion_and_lack_of_memory_are_errors(kernel):
    reply = kernel.run("def f(): return f()\nf()")
    assert reply.error["name"] == "RecursionError" and len(reply.error["traceback"]) < 50
    assert kernel.run("bytearray(1 << 60)").error["name"] == "MemoryError"
    assert kernel.run("1").text == "1"


def test_a_huge_message_is_cut(kernel):
    error = kernel.run("raise ValueError('x' * 5_000_000)").error
    assert len(error["message"]) < 100_000 and sum(map(len, error["traceback"])) < 200_000


@pytest.mark.parametrize("code", ["fail(Thing())", "Thing()\nNone", "Thing();", "display(Thing())"])
def test_nothing_of_a_call_is_held_after_it(kernel, code):
    kernel.run(
        "import gc, weakref\ngc.disable()\nclass Thing:\n  def __init__(self): global seen; seen = weakref.ref(self)\n"
        "def fail(thing): raise ValueError"
    )
    kernel.run(code)
    assert kernel.run("seen() is None").text == "True"
    kernel.run("Thing()")  # is `_` until the next value takes its place
    assert kernel.run("seen() is None").text == "False"
    assert kernel.run("seen() is None").text == "True"


def test_input_fails_clearly(kernel):
    error = kernel.run("input('name? ')").error
    assert error["name"] == "EOFError" and "input() is not available here" in error["message"]
    assert kernel.run("import sys\nsys.stdin.read()").text == "''"


# ---- ends


@pytest.mark.parametrize(
    "code,exit_code,stderr",
    [
        ("import sys; sys.exit(3)", 3, b""),
        ("exit()", 0, b""),
        ("quit(7)", 7, b""),
        ("raise SystemExit('no luck')", 1, b"no luck\n"),
        ("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)", 4, b""),
    ],
)
def test_an_exit_ends_the_interpreter_with_its_code(kernel, code, exit_code, stderr):
    reply = kernel.run(code)
    assert reply.done == {"status": "exit", "count": 1, "exit_code": exit_code}
    assert reply.error is None and reply.stderr == stderr
    assert kernel.wait() == exit_code


def test_an_exit_runs_atexit_and_waits_for_no_thread(kernel):
    reply = kernel.run(
        "import atexit, sys, threading\natexit.register(lambda: print('bye'))\n"
        "threading.Thread(target=threading.Event().wait).start()\nsys.exit(2)"
    )
    assert kernel.wait() == 2 and reply.stdout == b"bye\n"


def test_os_exit_ends_the_process_without_done(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("import os; print('last', flush=True); os._exit(5)")
    assert died.value.returncode == 5 and died.value.reply.stdout == b"last\n"


def test_a_crash_in_c_ends_the_process_and_tells_the_line(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("import ctypes\nctypes.string_at(0)")
    assert died.value.returncode == -signal.SIGSEGV
    assert b'File "<cell 1>", line 2' in died.value.reply.stderr


def test_end_of_file_ends_the_driver_with_zero(kernel):
    kernel.run("x = 1")
    assert kernel.hang_up() == 0


@pytest.mark.parametrize(
    "bytes_", [b"jump 1 0\n", b"run 1\n", b"run x 3\nabc", b"run 1 -1\n", b"run 1 99999999999\n", b"x" * 100, b"\n"]
)
def test_what_is_no_message_ends_the_driver_with_seventy(kernel, bytes_):
    kernel.send_raw(bytes_)
    assert kernel.wait() == 70


def test_a_message_cut_short_ends_the_driver_with_seventy(kernel):
    kernel.send_raw(b"run 1 10\nabc")
    assert kernel.hang_up() == 70


def test_large_code_is_taken_in_pieces(kernel):
    assert kernel.run("x = '" + "a" * 5_000_000 + "'\nlen(x)").text == "5000000"
