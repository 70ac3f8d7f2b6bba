# SPDX-License-Identifier: Apache-2.0
"""The Java interpreter, driven as the agent drives it. A machine takes a second of CPU to start: one serves the tests that do not
end it."""

import base64
import os
import shutil
import signal

import pytest
from kernels.kernel import KERNELS, Kernel

pytestmark = pytest.mark.skipif(shutil.which("jshell") is None, reason="this host has no jshell: Debian's openjdk-17-jdk-headless has it")


def argv():
    """What the arguments' file says, with the driver's place in this source."""
    lines = (KERNELS / "java" / "arguments").read_text().splitlines()
    words = [word for line in lines if not line.startswith("#") for word in line.split()]
    assert words[-1] == "/opt/cloche/kernels/java/Driver.java"
    cheap = "-XX:TieredStopAtLevel=1"  # a third less CPU where nothing runs for long
    return ["java", cheap, *words[:-1], str(KERNELS / "java" / "Driver.java")]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with Kernel(argv(), cwd=str(tmp_path_factory.mktemp("cwd")), env={"OF_THE_SANDBOX": "value"}) as kernel:
        yield kernel


@pytest.fixture
def own(tmp_path):
    """One that the test may end."""
    with Kernel(argv(), cwd=str(tmp_path)) as kernel:
        yield kernel


def test_it_says_what_it_is_before_the_first_call(kernel):
    assert kernel.ready["language"] == "java"
    assert kernel.ready["pid"] == kernel.pid
    assert int(kernel.ready["version"].split(".")[0]) >= 17


def test_variables_methods_classes_and_imports_stay(kernel):
    assert kernel.run("int x = 40;\nint add(int n) { return x + n; }\nrecord Box(int v) {}\nimport java.util.concurrent.atomic.*;").status == "ok"
    assert kernel.run("add(new Box(2).v())").text == "42"
    assert kernel.run("new AtomicInteger(7)").text == "7"


@pytest.mark.parametrize(
    "code, text",
    [
        ('"as it is"', "as it is"),
        ("1.5 + 1", "2.5"),
        ("'c'", "c"),
        ("new int[][] {{1}, {2, 3}}", "[[1], [2, 3]]"),
        ("List.of(1, 2)", "[1, 2]"),
        ("null", "null"),
        ("int v = 6;\nv * 7", "42"),
        ("Stream.of(1, 2).map(n -> n * 2).toList()", "[2, 4]"),
        ('"ö€😀"', "ö€😀"),
    ],
)
def test_the_value_of_the_last_expression_is_the_result(kernel, code, text):
    assert kernel.run(code).text == text


@pytest.mark.parametrize("code", ["", "// nothing", "\n\n", "int quiet = 5;", "void f() {}", ";", "5; int behind = 1;"])
def test_code_that_ends_without_a_value_has_no_result(kernel, code):
    reply = kernel.run(code)
    assert (reply.status, reply.events[:-1]) == ("ok", [])


def test_output_comes_as_it_is_printed(kernel):
    reply = kernel.run('System.out.println("é");\nSystem.err.print("low");')
    assert (reply.stdout.decode(), reply.stderr, reply.result) == ("é\n", b"low", None)


def test_an_exception_has_its_name_its_message_and_the_cells_lines(kernel):
    reply = kernel.run("int half(int n) {\n  return 1 / n;\n}\n\nhalf(0)")
    count = reply.done["count"]
    assert (reply.error["name"], reply.error["message"], reply.status) == ("ArithmeticException", "/ by zero", "error")
    assert reply.error["traceback"] == ["java.lang.ArithmeticException: / by zero", f"    at half (cell-{count}:2)", f"    at (cell-{count}:5)"]
    causes = kernel.run('throw new IllegalStateException("outer", new java.io.IOException("inner"));').error["traceback"]
    assert "Caused by: java.io.IOException: inner" in causes


def test_an_error_of_the_compiler_shows_the_line(kernel):
    error = kernel.run("int good = 1;\n\nint bad = nothing + 1;").error
    assert error["name"] == "CompilationError"
    assert error["message"].startswith("cannot find symbol")
    assert error["traceback"][0] == "line 3: cannot find symbol"
    assert error["traceback"][-2:] == ["  int bad = nothing + 1;", "            ^"]
    assert kernel.run("good").text == "1"
    assert kernel.run("1 +").error["name"] == "CompilationError"


def test_what_stands_behind_an_error_does_not_run(kernel):
    reply = kernel.run('System.out.print("one");\nthrow new RuntimeException();\nSystem.out.print("two");')
    assert reply.stdout == b"one"


def test_a_declaration_may_come_before_what_it_needs(kernel):
    assert b"method later()" in kernel.run("int now() { return later(); }").stderr
    assert kernel.run("now()").error["name"] == "UnresolvedReferenceException"
    assert kernel.run("int later() { return 5; }").status == "ok"
    assert kernel.run("now()").text == "5"


def test_an_endless_recursion_is_an_error(kernel):
    assert kernel.run("int deep(int n) { return deep(n + 1); }\ndeep(0)").error["name"] == "StackOverflowError"
    assert kernel.run("1").text == "1"


def test_a_picture_comes_as_png(kernel):
    data = kernel.run("new java.awt.image.BufferedImage(3, 2, 1)").data
    assert base64.b64decode(data["image/png"])[16:24] == bytes([0, 0, 0, 3, 0, 0, 0, 2])


def test_long_text_is_cut(kernel):
    result = kernel.run('"x".repeat(2000000)').result
    assert result["truncated"] is True
    assert len(result["data"]["text/plain"]) < (1 << 20) + 100


def test_variables_of_the_environment_are_properties_too(kernel):
    assert kernel.run('System.getProperty("OF_THE_SANDBOX") + System.getenv("OF_THE_SANDBOX")').text == "valuevalue"
    assert kernel.run('System.getProperty("java.specification.name")').text == "Java Platform API Specification"


SHOW = """
for (String name : List.of("TRACEPARENT", "TRACESTATE"))
    System.out.print(System.getenv(name) + " " + System.getProperty(name) + " ");
String.valueOf(new ProcessBuilder("true").environment().get("TRACEPARENT"))
"""


def shown(kernel):
    reply = kernel.run(SHOW)
    return reply.stdout.decode() + reply.text


def test_variables_of_a_call_are_there_for_that_call_alone(kernel):
    assert kernel.ready["env"] is True and kernel.sync_idle().takes_env is True
    kernel.env(TRACEPARENT="00-1", TRACESTATE="a=1,b=é 2")
    assert shown(kernel) == "00-1 00-1 a=1,b=é 2 a=1,b=é 2 00-1"
    assert shown(kernel) == "null null null null null"
    kernel.run('System.setProperty("TRACEPARENT", "mine");')
    kernel.env(TRACEPARENT="00-2")
    assert shown(kernel) == "00-2 00-2 null null 00-2"
    assert shown(kernel) == "null mine null null null"
    kernel.env(TRACEPARENT="00-3")
    kernel.run('System.setProperty("TRACEPARENT", "other");')
    assert shown(kernel) == "null other null null null"
    kernel.run('System.clearProperty("TRACEPARENT");')


def test_variables_are_put_back_behind_a_call_that_failed(kernel):
    kernel.env(TRACEPARENT="00-1", OF_THE_SANDBOX="other")
    kernel.run("int none = 1 / 0;")
    assert shown(kernel) == "null null null null null"
    assert kernel.run('System.getProperty("OF_THE_SANDBOX") + System.getenv("OF_THE_SANDBOX")').text == "valuevalue"


@pytest.mark.parametrize("code", ["Thread.sleep(30000);", "while (true) {}", "new Object() { public String toString() { while (true) {} } }"])
def test_an_interrupt_ends_the_call_and_the_state_stays(kernel, code):
    kernel.run("int stays = 5;")
    kernel.start(f'System.out.println("go");\n{code}')
    kernel.wait_output(b"go")
    reply = kernel.stop(interrupt=lambda: os.killpg(kernel.pid, signal.SIGINT))
    assert (reply.status, reply.error["name"]) == ("error", "InterruptedException")
    assert kernel.run("stays").text == "5"


def test_an_interrupt_between_calls_does_not_stay(kernel):
    """The machine hands a signal over by threads of its own, so one call behind it may be struck."""
    kernel.run("1")
    kernel.interrupt()
    kernel.run("1")
    assert kernel.run("6 * 7").text == "42"


def test_output_that_was_diverted_or_closed_is_back_for_the_next_call(kernel):
    kernel.run("System.setOut(new PrintStream(OutputStream.nullOutputStream()));")
    assert kernel.run('System.out.print("here");').stdout == b"here"


def test_a_thread_that_outlives_its_call_goes_on_printing(kernel):
    kernel.run("var gate = new CountDownLatch(1);\nvar t = new Thread(() -> { try { gate.await(); } catch (InterruptedException e) {} System.out.print(\"late\"); });\nt.start();")
    assert kernel.run("gate.countDown();\nt.join();").stdout == b"late"


def test_children_do_not_get_the_socket(kernel):
    code = 'new String(new ProcessBuilder("sh", "-c", "ls -l /proc/self/fd | grep -c socket").start().getInputStream().readAllBytes()).strip()'
    assert kernel.run(code).text == "0"


def test_renew_gives_other_numbers(kernel):
    kernel.renew(bytes(range(32)))
    one = kernel.run("Math.random()").text
    kernel.renew(bytes(range(1, 33)))
    assert kernel.run("Math.random()").text != one
    kernel.renew(bytes(range(32)))
    assert kernel.run("Math.random()").text == one


def test_sync_answers_behind_the_call(kernel):
    kernel.start("Thread.sleep(50);")
    assert kernel.sync().status == "ok"


def test_exit_ends_the_interpreter_with_its_status(own):
    own.start('System.out.print("bye");\nSystem.exit(3);')
    reply = own.finish()
    assert (reply.stdout, reply.done["status"], reply.done["exit_code"]) == (b"bye", "exit", 3)
    assert own.wait() == 3


def test_the_end_of_the_socket_ends_it(own):
    assert own.hang_up() == 0


def test_a_peer_that_is_broken_ends_it(own):
    own.send_raw(b"nonsense\n")
    assert own.wait() == 70
