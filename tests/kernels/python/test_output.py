# SPDX-License-Identifier: Apache-2.0
"""Python: output in its order, and interrupts."""

import os
import signal

import pytest

# ---- output


def test_output_is_split_and_never_overtaken_by_the_reply(kernel):
    for i in range(50):
        reply = kernel.run(f"import sys\nprint('out {i}', end='')\nprint('err {i}', end='', file=sys.stderr)\n{i}")
        assert reply.events[-1][0] == "done" and reply.events[-2][0] == "result"
        assert (reply.stdout, reply.stderr) == (b"out %d" % i, b"err %d" % i)


def test_lines_come_as_they_are_printed(kernel):
    kernel.start("import signal\nprint('waiting')\nsignal.pause()")
    kernel.wait_output(b"waiting\n")
    assert kernel.stop().error["name"] == "KeyboardInterrupt"


def test_lines_held_back_in_a_burst_come_without_another_print(kernel):
    kernel.start("import signal\nfor i in range(5000): print(i)\nsignal.pause()")
    kernel.wait_output(b"\n4999\n")
    assert kernel.stop().stdout == b"".join(b"%d\n" % i for i in range(5000))


def test_output_of_child_processes_comes_before_done_in_order(kernel):
    reply = kernel.run(
        "import subprocess, os\nprint('one', flush=True)\nsubprocess.run(['sh', '-c', 'echo two; echo oops >&2'])\n"
        "print('three', flush=True)\nos.system('echo four');"
    )
    assert reply.stdout == b"one\ntwo\nthree\nfour\n" and reply.stderr == b"oops\n"


def test_binary_and_invalid_utf8_output_is_passed_as_it_is(kernel):
    reply = kernel.run("import sys, os\nsys.stdout.buffer.write(bytes(range(256)))\nsys.stdout.flush()\nos.write(1, b'\\xff\\0');")
    assert reply.stdout == bytes(range(256)) + b"\xff\0"
    assert kernel.run("print('a\\ud800b')").stdout == b"a\\ud800b\n"


def test_what_c_code_left_in_stdio_is_flushed(kernel):
    assert kernel.run("import ctypes\nctypes.CDLL(None).printf(b'from C\\n');").stdout == b"from C\n"


@pytest.mark.parametrize("code", ["print('x' * 100_000_000, end='')", "for _ in range(1_000_000): print('x' * 99)"])
def test_a_hundred_megabytes_of_output_come_whole(kernel, code):
    assert len(kernel.run(code, timeout=120).stdout) == 100_000_000


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close()",
        "import sys; sys.stdout = None; sys.stderr = 5",
        "import os; os.close(1); os.close(2)",
        "import os, sys; fd = os.open('/dev/null', os.O_WRONLY); os.dup2(fd, 1); os.dup2(fd, 2)",
        "import sys; del sys.stdout, sys.stderr",
        "import sys; sys.stdout.detach(); sys.stderr.detach()",
        "import sys; sys.stdout.buffer.close()",
        "import os; os.set_blocking(1, False)",
        "import io, sys; sys.stdout = sys.stderr = io.StringIO()",
        "def print(*a, **k): raise RuntimeError\n",
    ],
)
def test_streams_that_the_code_broke_are_back_for_the_next_call(kernel, code):
    assert kernel.run(code).status == "ok"
    reply = kernel.run("import sys, builtins\nbuiltins.print('a' * 200_000)\nbuiltins.print('err', file=sys.stderr)\n1")
    assert (len(reply.stdout), reply.stderr, reply.text) == (200_001, b"err\n", "1")


# ---- interrupts


def test_an_interrupted_loop_keeps_its_variables(kernel):
    kernel.start("n = 0\nwhile True: n += 1; n == 1000 and print('go')")
    kernel.wait_output(b"go\n")
    kernel.interrupt()
    reply = kernel.finish()
    assert reply.error["name"] == "KeyboardInterrupt" and reply.status == "error"
    assert any("while True" in line for line in reply.error["traceback"])
    assert kernel.run("n >= 1000").text == "True"


def test_a_blocking_call_is_interrupted(kernel):
    kernel.start("import time, threading\nthreading.Timer(0.1, print, ['go']).start()\ntime.sleep(1000)")
    kernel.wait_output(b"go\n")
    assert "time.sleep(1000)" in kernel.stop().traceback


def test_an_endless_repr_is_interrupted(kernel):
    kernel.start("class Slow:\n  def __repr__(self):\n    print('go')\n    while True: pass\nSlow()")
    kernel.wait_output(b"go\n")
    kernel.interrupt()
    assert kernel.finish().error["name"] == "KeyboardInterrupt"


def test_an_awaiting_call_is_cancelled(kernel):
    kernel.start(
        "import asyncio, threading\nthreading.Timer(0.1, print, ['go']).start()\n"
        "async def f():\n  try:\n    await asyncio.sleep(1000)\n  finally:\n    print('cleaned')\nawait f()"
    )
    kernel.wait_output(b"go\n")
    reply = kernel.stop()
    assert reply.error["name"] == "KeyboardInterrupt" and reply.stdout == b"go\ncleaned\n"
    assert "await asyncio.sleep(1000)" in reply.traceback
    assert kernel.run("await asyncio.sleep(0, 1)").text == "1"


@pytest.mark.parametrize("call", ["await spin()", "await asyncio.gather(spin(), asyncio.sleep(1000))", "asyncio.run(asyncio.sleep(1000))"])
def test_async_code_is_interrupted_wherever_it_is(kernel, call):
    kernel.run("import asyncio\nasync def spin():\n  await asyncio.sleep(0)\n  while True: pass")
    kernel.start(f"print('go')\n{call}")
    kernel.wait_output(b"go\n")
    assert kernel.stop().error["name"] == "KeyboardInterrupt"
    assert kernel.run("await asyncio.sleep(0, 1)").text == "1"


def test_an_interrupt_between_calls_is_ignored(kernel):
    kernel.run("x = 1")
    for _ in range(20):
        kernel.interrupt()
        assert kernel.renew().status == "ok"  # taken after the signal
        assert kernel.run("x").text == "1"


def test_an_interrupt_for_a_call_that_waits_is_not_lost(kernel):
    os.kill(kernel.pid, signal.SIGSTOP)
    kernel.start("while True: pass")
    kernel.interrupt()
    os.kill(kernel.pid, signal.SIGCONT)
    assert kernel.finish().error["name"] == "KeyboardInterrupt"
    assert kernel.run("1").text == "1"


# Between the read of a call and its first line; the end of the call that sets this up uses the second one, too.
@pytest.mark.parametrize("module, function, uses_before", [("framing", "_parse_line", 0), ("driver", "_cpu_us", 1)])
def test_an_interrupt_for_a_call_that_is_being_taken_is_not_lost(kernel, module, function, uses_before):
    kernel.run(f"""
import os, signal
from cloche_kernel import {module}
def strike(*args, usual={module}.{function}, uses=[]):
    uses.append(1)
    if len(uses) == {uses_before} + 1:
        os.kill(os.getpid(), signal.SIGINT)
    return usual(*args)
{module}.{function} = strike
""")
    assert kernel.run("1").error["name"] == "KeyboardInterrupt"
    assert kernel.run("1").text == "1"


def test_interrupts_at_any_moment_leave_the_messages_whole(kernel):
    for _ in range(30):
        kernel.start("print('go')\nwhile True: display('x' * 1000)")
        kernel.wait_output(b"go\n")
        kernel.interrupt()
        assert kernel.finish().error["name"] == "KeyboardInterrupt"


def test_a_handler_that_the_code_set_does_not_outlive_its_call(kernel):
    kernel.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    kernel.start("print('go')\nwhile True: pass")
    kernel.wait_output(b"go\n")
    kernel.interrupt()
    assert kernel.finish().error["name"] == "KeyboardInterrupt"
