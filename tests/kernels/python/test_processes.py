# SPDX-License-Identifier: Apache-2.0
"""Python: child processes and threads of a call."""

import pytest
from kernels.kernel import KernelDied


def test_a_forked_child_ends_with_the_cell_and_says_nothing_to_the_host(kernel):
    reply = kernel.run("import os\npid = os.fork()\nif pid == 0: print('child')\nelse: status = os.waitpid(pid, 0)[1]\npid == 0")
    assert reply.stdout == b"child\n" and reply.text == "False"
    assert kernel.run("status").text == "0"


@pytest.mark.parametrize(
    "code,exit_code,stderr", [("1/0", 1, b"ZeroDivisionError"), ("raise SystemExit(9)", 9, b""), ("os._exit(4)", 4, b"")]
)
def test_a_forked_child_ends_with_the_code_of_its_end(kernel, code, exit_code, stderr):
    reply = kernel.run(f"import os\npid = os.fork()\nif pid == 0:\n  {code}\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert reply.text == str(exit_code) and stderr in reply.stderr
    assert kernel.run("1").text == "1"


def test_display_in_a_forked_child_is_text_on_its_output(kernel):
    reply = kernel.run("import os\npid = os.fork()\ndisplay('shown')\nif pid: os.waitpid(pid, 0);")
    assert reply.stdout == b"'shown'\n" and len(reply.displays) == 1


def test_a_child_forked_behind_pythons_back_is_silent_too(kernel):
    reply = kernel.run("import ctypes, os\npid = ctypes.CDLL(None).fork()\ndisplay('x')\nif pid: os.waitpid(pid, 0)\npid > 0")
    assert reply.text == "True" and len(reply.displays) == 1 and reply.stdout == b"'x'\n"


def test_output_before_a_fork_is_not_written_twice(kernel):
    reply = kernel.run("import os\nprint('once', end='')\npid = os.fork()\nif pid: os.waitpid(pid, 0);")
    assert reply.stdout == b"once"


def test_a_fork_after_much_output_warns_of_no_thread(kernel):
    reply = kernel.run(
        "import os, warnings\nwarnings.simplefilter('always')\nfor i in range(5000): print(i)\n"
        "pid = os.fork()\nif pid: os.waitpid(pid, 0);"
    )
    assert reply.stdout.count(b"4999\n") == 1 and reply.stderr == b""


def test_multiprocessing_by_fork_works(kernel):
    reply = kernel.run(
        "import multiprocessing\ndef square(x): return x * x\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: squares = pool.map(square, range(4))\nsquares"
    )
    assert reply.text == "[0, 1, 4, 9]"


def test_a_child_process_does_not_inherit_the_hosts_socket(kernel):
    reply = kernel.run("import subprocess\nprint(subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout)")
    assert b"socket" not in reply.stdout


def test_a_thread_goes_on_after_its_call(kernel):
    kernel.run(
        "import threading\ngo = threading.Event()\nover = threading.Event()\n"
        "def work():\n  go.wait()\n  print('late')\n  display('text')\n  over.set()\nthreading.Thread(target=work).start()"
    )
    assert kernel.run("go.set()\nover.wait()").text == "True"
    kernel.run("go.clear(); over.clear(); threading.Thread(target=work).start()")
    kernel.run("threading.Timer(0.05, go.set).start()")
    kernel.wait_output(b"late\n'text'\n")
    assert kernel.run("1").text == "1"


def test_an_error_in_a_thread_is_told_on_stderr(kernel):
    reply = kernel.run("import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start()\nt.join()")
    assert reply.status == "ok" and b"ZeroDivisionError" in reply.stderr


def test_code_that_closes_every_fd_ends_as_a_death_not_as_a_hang(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("import os; os.closerange(0, 4096)")
    assert died.value.returncode == 70


def test_threads_that_display_all_the_time_never_speak_out_of_a_call(kernel):
    kernel.run(
        "import threading\nstop = False\ndef work():\n  while not stop: display(1)\n"
        "for _ in range(3): threading.Thread(target=work).start()"
    )
    for i in range(50):
        assert kernel.run(f"{i}").text == str(i)
    kernel.run("stop = True")
