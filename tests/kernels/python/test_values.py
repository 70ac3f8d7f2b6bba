# SPDX-License-Identifier: Apache-2.0
"""Python: state, values, await, the environment of a call, and where a process comes from."""

import os

import pytest
from kernels.kernel import KERNELS, Kernel, microseconds_per_call
from kernels.python.driver import ARGV, PYTHON, needs

# ---- state and values


def test_it_says_what_it_is_before_the_first_call(kernel):
    assert kernel.ready["language"] == "python"
    assert kernel.ready["version"].startswith("3.")
    assert kernel.ready["pid"] == kernel.pid


def test_state_stays_from_call_to_call(kernel):
    kernel.run("import math\nx = 20\ndef twice(n): return 2 * n")
    assert kernel.run("twice(x) + math.floor(2.5)").text == "42"


def test_a_call_tells_the_cpu_that_it_took(kernel):
    assert kernel.run("x = 1").cpu_us >= 0
    burn = "import time\nuntil = time.process_time() + 0.05\nwhile time.process_time() < until: pass"
    assert kernel.run(burn).cpu_us >= 50_000
    assert kernel.run("import subprocess, sys; subprocess.run([sys.executable, '-Sc', " + repr(burn) + "])").cpu_us >= 30_000  # children are counted in ticks


def test_calls_are_counted_from_one_also_when_they_fail(kernel):
    assert [kernel.run(code).done["count"] for code in ("1", "1/0", "def")] == [1, 2, 3]


def test_the_last_expression_is_the_result(kernel):
    reply = kernel.run("a = 1\na + 1\na + 2")
    assert reply.result == {"data": {"text/plain": "3"}, "metadata": {}}
    assert reply.done == {"status": "ok", "count": 1}


@pytest.mark.parametrize("code", ["a = 1", "None", "print()", "", "# nothing", "for i in range(3): i", "del a"])
def test_what_has_no_value_has_no_result(kernel, code):
    kernel.run("a = 0")
    reply = kernel.run(code)
    assert reply.result is None and reply.status == "ok"


@pytest.mark.parametrize("code", ["1;", "1 ; ", "x = 2\n(x);  # why", "'é;é';"])
def test_a_semicolon_at_the_end_hides_the_value(kernel, code):
    assert kernel.run(code).result is None


def test_a_semicolon_elsewhere_hides_nothing(kernel):
    assert kernel.run("a = 1; a").text == "1"
    assert kernel.run("'a;'").text == "'a;'"


def test_the_namespace_holds_nothing_of_the_driver(kernel):
    assert kernel.run("dir()").text == str(
        ["__builtins__", "__doc__", "__loader__", "__name__", "__package__", "__spec__"]
    )
    assert kernel.run("__name__").text == "'__main__'"


def test_modules_of_the_user_are_not_shadowed_by_the_driver(tmp_path):
    (tmp_path / "errors.py").write_text("mine = True")
    with Kernel(ARGV, cwd=str(tmp_path)) as kernel:
        assert kernel.run("import errors\nerrors.mine").text == "True"


def test_classes_of_a_cell_can_be_pickled(kernel):
    kernel.run("import pickle\nclass Point:\n  def __init__(self, x): self.x = x")
    assert kernel.run("pickle.loads(pickle.dumps(Point(3))).x").text == "3"


def test_future_imports_hold_for_later_cells(kernel):
    kernel.run("from __future__ import annotations")
    assert kernel.run("def f(x: undefined): pass\nf.__annotations__").text == "{'x': 'undefined'}"


def test_code_and_output_in_any_script_come_through(kernel):
    reply = kernel.run("größe = '雪 🌱'\nprint(größe)\ngröße")
    assert reply.stdout.decode() == "雪 🌱\n" and reply.text == "'雪 🌱'"


def test_code_that_is_not_utf8_is_an_error_of_the_call(kernel):
    assert kernel.run(b"x = '\xff'").error["name"] == "UnicodeDecodeError"
    assert kernel.run("1").text == "1"


# ---- await


def test_await_works_at_top_level(kernel):
    assert kernel.run("import asyncio\nawait asyncio.sleep(0, 'slept')").text == "'slept'"
    assert kernel.run("async with asyncio.Lock() as lock: x = 5\nx").text == "5"


def test_tasks_and_locks_outlive_the_call_that_made_them(kernel):
    kernel.run("import asyncio\nasync def f(): await asyncio.sleep(0); return 7\ntask = asyncio.create_task(f()) if await asyncio.sleep(0) else asyncio.ensure_future(f())")
    assert kernel.run("await task").text == "7"


def test_asyncio_run_works_beside_await(kernel):
    kernel.run("import asyncio\nasync def f(): return 8")
    assert kernel.run("asyncio.run(f())").text == "8"
    assert kernel.run("await f()").text == "8"
    assert kernel.run("asyncio.run(f())").text == "8"


def test_a_loop_that_the_code_closed_is_made_anew(kernel):
    kernel.run("import asyncio\nawait asyncio.sleep(0)\nloop = asyncio.get_running_loop()")
    kernel.run("loop.close()")
    assert kernel.run("await asyncio.sleep(0, 1)").text == "1"


def test_context_variables_hold_across_sync_and_async_calls(kernel):
    kernel.run("import contextvars, asyncio\nv = contextvars.ContextVar('v')\nv.set(1);")
    assert kernel.run("await asyncio.sleep(0)\nbefore = v.get()\nv.set(2)\nbefore").text == "1"
    assert kernel.run("v.get()").text == "2"


def test_errors_of_async_code_show_the_users_lines_only(kernel):
    reply = kernel.run("async def f():\n    raise ValueError('deep')\nawait f()")
    assert reply.error["name"] == "ValueError"
    assert [line for line in reply.error["traceback"] if "File" in line] == [
        '  File "<cell 1>", line 3, in <module>',
        '  File "<cell 1>", line 2, in f',
    ]


# ---- sync


def test_a_sync_is_answered_behind_the_running_call_and_changes_nothing(kernel):
    kernel.run("x = 6")
    kernel.start("import time; print('go', flush=True); time.sleep(0.2); x = 7")
    kernel.wait_output(b"go")
    assert kernel.sync().done == {"status": "ok", "count": 2}
    reply = kernel.run("x")
    assert (reply.text, reply.done["count"]) == ("7", 3)


# ---- env


def test_variables_of_a_call_are_there_for_that_call_alone(kernel):
    assert kernel.ready["env"] is True and kernel.sync_idle().takes_env is True
    kernel.env(TRACEPARENT="00-1", TRACESTATE="a=1,b=é 2")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == "00-1 a=1,b=é 2\n".encode()
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"none none\n"
    kernel.run("import os; os.environ['TRACEPARENT'] = 'mine'")
    kernel.env(TRACEPARENT="00-2")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"00-2 none\n"
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"mine none\n"
    kernel.env(TRACEPARENT="00-3")
    kernel.run("import os; os.environ['TRACEPARENT'] = 'mine'")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"mine none\n"


def test_variables_are_put_back_behind_a_call_that_failed(kernel):
    kernel.env(TRACEPARENT="00-1")
    kernel.run("1 / 0")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"none none\n"


# ---- renewal and zygotes


def test_renew_gives_every_generator_a_new_state(kernel):
    code = "import random, tempfile, uuid\nrandom.seed(1)\nnext(tempfile._get_candidate_names())\nrandom.random()"
    first = kernel.run(code).text
    assert kernel.run(code).text == first
    kernel.run("random.seed(1)\nnames = tempfile._name_sequence")
    assert kernel.renew(bytes(32)).done == {"status": "ok", "count": 3}
    assert kernel.run("random.random()").text != first
    assert kernel.run("tempfile._name_sequence is names").text == "False"


@needs("numpy")
def test_renew_reseeds_numpy(kernel):
    first = kernel.run("import numpy\nnumpy.random.seed(1)\nnumpy.random.rand()").text
    kernel.run("numpy.random.seed(1)")
    kernel.renew(os.urandom(32))
    assert kernel.run("numpy.random.rand()").text != first


def test_warm_modules_are_loaded_before_the_first_call():
    with Kernel(ARGV, env={"CLOCHE_WARM": "decimal, colorsys,nosuchmodule"}) as kernel:
        reply = kernel.run("import sys, os\n'colorsys' in sys.modules and 'decimal' in sys.modules, 'CLOCHE_WARM' in os.environ")
        assert reply.text == "(True, False)"


def test_forks_of_one_zygote_serve_apart_and_draw_apart(tmp_path):
    zygote = tmp_path / "zygote.py"
    zygote.write_text(
        f"import os, sys\nsys.path.insert(0, {str(KERNELS / 'python')!r})\n"
        "from cloche_kernel import driver\nimport random\ndriver.prepare()\nrandom.seed(1)\n"
        "import ctypes\npid = ctypes.CDLL(None).fork()\n"
        "if pid == 0: driver.serve(3)\nos.close(3)\nsys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    drawn = []
    for _ in range(3):
        with Kernel([PYTHON, str(zygote)]) as kernel:
            kernel.renew(bytes(32))
            drawn.append(kernel.run("import random\nrandom.random()").text)
            assert kernel.run("dir()").text.count("'") == 14
            assert kernel.hang_up() == 0
    assert len(set(drawn)) == 3


def test_the_time_of_a_call_is_printed(kernel, capsys):
    times = {code: microseconds_per_call(kernel, code) for code in ("1+1", "x = 1", "pass")}
    with capsys.disabled():
        print("\n  python kernel, µs per call: " + ", ".join(f"{code!r} {t:.0f}" for code, t in times.items()))
