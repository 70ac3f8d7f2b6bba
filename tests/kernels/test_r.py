# SPDX-License-Identifier: Apache-2.0
"""The R interpreter, driven as the agent drives it. One kernel serves the tests that do not end it."""

import base64
import os
import shutil
import signal

import pytest
from harness.daemon import BUILD
from kernels.kernel import KERNELS, Kernel, KernelDied

pytestmark = pytest.mark.skipif(shutil.which("Rscript") is None, reason="this host has no Rscript: Debian's r-base-core has it")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """As a template has it: with the library that it loads."""
    path = shutil.copytree(KERNELS / "r", tmp_path_factory.mktemp("kernels") / "r")
    shutil.copy(BUILD / "src" / "driver" / "socket.so", path / "libsocket.so")
    return ["Rscript", str(path / "driver.R")]


@pytest.fixture(scope="module")
def kernel(driver, tmp_path_factory):
    with Kernel(driver, cwd=str(tmp_path_factory.mktemp("cwd"))) as kernel:
        yield kernel


@pytest.fixture
def own(driver, tmp_path):
    """One that the test may end."""
    with Kernel(driver, cwd=str(tmp_path)) as kernel:
        yield kernel


def pictures(reply):
    return [base64.b64decode(d["data"]["image/png"]) for d in reply.displays]


def test_it_says_what_it_is_before_the_first_call(kernel):
    assert kernel.ready["language"] == "r"
    assert kernel.ready["pid"] == kernel.pid
    assert int(kernel.ready["version"].split(".")[0]) >= 4


def test_variables_functions_and_packages_stay(kernel):
    assert kernel.run("x <- 40\nadd <- function(n) x + n\nlibrary(stats4)").status == "ok"
    reply = kernel.run("add(2)")
    assert (reply.text, reply.stdout) == ("[1] 42", b"")
    assert kernel.run("'package:stats4' %in% search()").text == "[1] TRUE"


def test_what_is_visible_is_printed_and_the_last_value_is_the_result(kernel):
    reply = kernel.run("1; y <- 2; print('a'); invisible(3); 'last'")
    assert reply.stdout == b'[1] 1\n[1] "a"\n'
    assert reply.text == '[1] "last"'
    assert kernel.run(".Last.value").text == '[1] "last"'
    assert kernel.run("z <- 1").result is None


@pytest.mark.parametrize("code", ["", "# nothing", "\n\n", "invisible(1)"])
def test_code_that_shows_nothing_is_ok(kernel, code):
    reply = kernel.run(code)
    assert (reply.status, reply.events[:-1]) == ("ok", [])


def test_text_of_all_languages_comes_back_whole(kernel):
    assert kernel.run("größe <- 'ö\\u20ac\\U1F600'; größe").text == '[1] "ö€😀"'
    assert kernel.run("cat('é\\n')").stdout.decode() == "é\n"
    assert kernel.run("cat('a\\x01\"\\\\b', file = stderr()); rawToChar(as.raw(c(97, 255)))").status == "ok"


def test_a_data_frame_has_text_and_a_table(kernel):
    data = kernel.run("data.frame(n = 1:2, s = c('<b>', 'é'))").data
    assert data["text/plain"].splitlines() == ["  n   s", "1 1 <b>", "2 2   é"]
    assert "<tr><th>1</th><td>1</td><td>&lt;b&gt;</td></tr>" in data["text/html"]
    assert "<p>500 rows, 1 columns</p>" in kernel.run("data.frame(n = 1:500)").data["text/html"]
    assert kernel.run("data.frame()").status == "ok"


def test_an_error_has_its_name_its_message_and_the_users_lines(kernel):
    reply = kernel.run("f <- function(n) {\n  stop('no ', n)\n}\ng <- function() f(3)\ng()")
    assert (reply.error["name"], reply.error["message"], reply.status) == ("Error", "no 3", "error")
    count = reply.done["count"]
    assert reply.error["traceback"] == ["Error in f(3): no 3", "  g()", f"  cell-{count}:4: f(3)", f'  cell-{count}:2: stop("no ", n)']
    assert kernel.run("stop('at top')").error["traceback"][0] == "Error: at top"
    assert kernel.run("library(no.such.package)").error["name"] == "packageNotFoundError"


def test_what_ran_before_an_error_stays_and_what_stands_behind_does_not_run(kernel):
    reply = kernel.run("kept <- 1; print('one'); stop('two'); print('three')")
    assert reply.stdout == b'[1] "one"\n'
    assert kernel.run("kept").text == "[1] 1"


def test_an_error_of_grammar_runs_nothing(kernel):
    reply = kernel.run("print('never')\n1 +")
    assert reply.error["name"] == "ParseError"
    assert reply.stdout == b""


def test_warnings_and_messages_go_to_stderr(kernel):
    assert kernel.run("warning('careful')").stderr == b"Warning: careful\n"
    assert b"NaNs produced" in kernel.run("invisible(log(-1))").stderr
    assert kernel.run("message('by the way')").stderr == b"by the way\n"


def test_an_endless_recursion_is_an_error(kernel):
    assert kernel.run("deep <- function(n) deep(n + 1); deep(1)").status == "error"
    assert kernel.run("1").text == "[1] 1"


def test_each_plot_is_a_picture(kernel):
    one, two = pictures(kernel.run("plot(1:10)\nlines(10:1)\nhist(c(1, 2, 2))"))
    assert one.startswith(b"\x89PNG") and two.startswith(b"\x89PNG")
    assert kernel.run("1").displays == []


def test_a_plot_has_the_size_that_was_asked_for(kernel):
    (one,) = pictures(kernel.run("options(repr.plot.width = 2, repr.plot.height = 1, repr.plot.res = 100)\nplot.new()"))
    assert (int.from_bytes(one[16:20], "big"), int.from_bytes(one[20:24], "big")) == (200, 100)
    kernel.run("options(repr.plot.width = NULL, repr.plot.height = NULL, repr.plot.res = NULL)")


def test_a_device_of_the_codes_own_is_left_to_it(kernel):
    assert kernel.run("png('own.png', type = 'cairo'); plot(1); invisible(dev.off()); file.exists('own.png')").text == "[1] TRUE"


def test_a_plot_of_code_that_fails_is_shown_all_the_same(kernel):
    reply = kernel.run("plot(1); stop('later')")
    assert len(reply.displays) == 1
    assert reply.error["message"] == "later"


def test_display_shows_values_and_bundles(kernel):
    reply = kernel.run("display(1:2, list('text/html' = '<b>x</b>'))")
    assert [d["data"] for d in reply.displays] == [{"text/plain": "[1] 1 2"}, {"text/html": "<b>x</b>", "text/plain": "<text/html>"}]


def test_long_text_is_cut(kernel):
    result = kernel.run("strrep('x', 2e6)").result
    assert result["truncated"] is True
    assert len(result["data"]["text/plain"]) < 1 << 20


@pytest.mark.parametrize("code", ["Sys.sleep(30)", "repeat {}", "system('sleep 30')"])
def test_an_interrupt_ends_the_call_and_the_state_stays(kernel, code):
    kernel.run("stays <- 5")
    kernel.start(f"cat('go\\n'); {code}")
    kernel.wait_output(b"go")
    reply = kernel.stop(interrupt=lambda: os.killpg(kernel.pid, signal.SIGINT))
    assert reply.status in ("error", "ok")  # system() takes it for the command's end
    assert "system" in code or reply.error["name"] == "Interrupt"
    assert kernel.run("stays").text == "[1] 5"


def test_an_interrupt_between_calls_is_dropped(kernel):
    kernel.run("1")
    for _ in range(3):
        kernel.interrupt()
    kernel.sync()
    assert kernel.run("Sys.sleep(0.01); 'whole'").text == '[1] "whole"'


def test_output_that_was_diverted_or_closed_is_back_for_the_next_call(kernel):
    kernel.run("sink('gone.txt'); cat('into the file')")
    assert kernel.run("cat('here')").stdout == b"here"
    kernel.run("system('true'); closeAllConnections()")
    assert kernel.run("cat('again')").stdout == b"again"


def test_what_the_code_redefines_does_not_reach_the_driver(kernel):
    kernel.run("print <- function(...) stop('mine'); paste <- print; wire_send <- print; eval <- print")
    assert kernel.run("40 + 2").text == "[1] 42"
    kernel.run("rm(print, paste, wire_send, eval)")


def test_children_do_not_get_the_socket(kernel):
    assert kernel.run("system('ls -l /proc/self/fd | grep -c socket', intern = TRUE)").stderr == b"Warning in system(\"ls -l /proc/self/fd | grep -c socket\", intern = TRUE) :\n  running command 'ls -l /proc/self/fd | grep -c socket' had status 1\n"


def test_a_forked_child_neither_speaks_nor_stays(kernel):
    assert kernel.run("child <- parallel:::mcfork(); if (inherits(child, 'masterProcess')) { display('child'); 'child' } else 'parent'").text == '[1] "parent"'
    assert kernel.run("unlist(parallel::mclapply(1:2, function(n) n * 2))").text == "[1] 2 4"


def test_renew_gives_other_numbers(kernel):
    kernel.renew(bytes(range(32)))
    one = kernel.run("runif(3)").text
    kernel.renew(bytes(range(1, 33)))
    assert kernel.run("runif(3)").text != one
    kernel.renew(bytes(range(32)))
    assert kernel.run("runif(3)").text == one


def test_sync_answers_behind_the_call(kernel):
    kernel.start("Sys.sleep(0.05); invisible(1)")
    assert kernel.sync().status == "ok"


def test_quit_ends_the_interpreter_with_its_status(own):
    own.run(".Last <- function() cat('bye\\n')")
    own.start("quit(status = 3)")
    reply = own.finish()
    assert (reply.stdout, reply.done["status"], reply.done["exit_code"]) == (b"bye\n", "exit", 3)
    assert own.wait() == 3


def test_the_end_of_the_socket_ends_it(own):
    assert own.hang_up() == 0


def test_a_peer_that_is_broken_ends_it(own):
    own.send_raw(b"nonsense\n")
    assert own.wait() == 70


def test_code_that_kills_the_process_is_told_by_its_end(own):
    own.start("tools::pskill(Sys.getpid(), 9)")
    with pytest.raises(KernelDied):
        own.finish()
    assert own.wait() == -9


def test_variables_of_a_call_are_there_for_that_call_alone(kernel):
    show, mine = "cat(Sys.getenv('TRACEPARENT', 'none'), Sys.getenv('TRACESTATE', 'none'), fill = TRUE)", "Sys.setenv(TRACEPARENT = 'mine')"
    assert kernel.ready["env"] is True and kernel.sync_idle().takes_env is True
    kernel.env(TRACEPARENT="00-1", TRACESTATE="a=1,b=2")
    assert kernel.run(show).stdout == b"00-1 a=1,b=2\n"
    assert kernel.run(show).stdout == b"none none\n"
    kernel.run(mine)
    kernel.env(TRACEPARENT="00-2")
    assert kernel.run(show + "; stop('x')").stdout == b"00-2 none\n"
    assert kernel.run(show).stdout == b"mine none\n"
    kernel.run("Sys.unsetenv('TRACEPARENT')")
