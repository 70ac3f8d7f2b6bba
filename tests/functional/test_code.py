# SPDX-License-Identifier: Apache-2.0
"""Code in interpreters: state from call to call, results, order of output, and every way to end."""

import http.client
import json
import os
import shutil
import signal
import socket
import threading
import time

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import PATIENCE, Daemon, wait_for
from harness.running import running


def run_in_thread(sandbox, code, **fields):
    """(thread, list): the list gets the result, or what was raised."""
    out = []

    def run():
        try:
            out.append(sandbox.run_code(code, **fields))
        except errors.ClocheError as e:
            out.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, out


def wait_for_state(sandbox, context, state):
    return wait_for(lambda: [c for c in sandbox.contexts.list() if c.name == context and c.state == state], 15, state)


@pytest.mark.neutral
def test_state_stays_from_call_to_call(sandbox):
    assert sandbox.run_code("import math\nx = 20").status == "ok"
    assert sandbox.run_code("def f(): return x + 22").text is None
    r = sandbox.run_code("f() + math.floor(0.5)")
    assert (r.text, r.count, r.restarted, r.error) == ("42", 3, False, None)
    assert (r.context.name, r.context.language) == ("python", "python")


@pytest.mark.neutral
def test_output_and_results_are_told_apart(sandbox):
    r = sandbox.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay(1)\n'value'")
    assert (r.stdout, r.stderr) == ("out\n", "err\n")
    assert [(x.text, x.is_main) for x in r.results] == [("1", False), ("'value'", True)]


def test_an_error_shows_the_users_own_line(sandbox):
    sandbox.run_code("y = 5")
    r = sandbox.run_code("def g(v):\n    return 1 / v\n\ng(0)")
    assert (r.status, r.error.name, r.error.message) == ("error", "ZeroDivisionError", "division by zero")
    text = str(r.error)
    assert "return 1 / v" in text and "g(0)" in text
    assert "/opt/cloche" not in text
    assert sandbox.run_code("y").text == "5"


@pytest.mark.neutral
def test_output_comes_while_the_code_runs(sandbox):
    first, results = threading.Event(), []
    code = "import time\nprint('one', flush=True)\nwhile not __import__('os').path.exists('go'): time.sleep(0.01)\nprint('two')\n3"
    parts = []

    def on_stdout(data):
        parts.append(data)
        if not first.is_set():
            first.set()
            sandbox.files.write("go", b"")

    r = sandbox.run_code(code, on_stdout=on_stdout, on_result=results.append, timeout=30 * PATIENCE)
    assert "".join(parts) == "one\ntwo\n"
    assert (r.status, r.text, results[0].text) == ("ok", "3", "3")


def test_a_message_never_overtakes_the_output_before_it(sandbox):
    code = "import sys\nfor i in range(3):\n    print('o', i)\n    display(i)\nprint('e', file=sys.stderr)\n1/0"
    seen = []
    with sandbox.client.open(request_of(sandbox, code)) as reply:
        seen = [json.loads(line) for line in reply.read().splitlines() if line]
    assert [e["seq"] for e in seen] == list(range(1, len(seen) + 1))
    kinds = [e["type"] for e in seen]
    assert (kinds[0], kinds[-2:], kinds.count("display")) == ("started", ["error", "done"], 3)
    printed = ""
    for e in seen:
        printed += e["text"] if e["type"] == "stdout" else ""
        assert e["type"] != "display" or f"o {e['data']['text/plain']}\n" in printed
    assert "stderr" in kinds and seen[-1]["status"] == "error"


def request_of(sandbox, code, accept="application/x-ndjson"):
    from cloche._protocol import request

    return request("POST", ["sandboxes", sandbox.id, "code"], body={"code": code}, accept=accept)


def test_a_child_process_is_heard_before_the_end(sandbox):
    code = "import subprocess\nfor i in range(20): subprocess.run(['sh', '-c', f'echo {i}; echo e{i} >&2'])"
    r = sandbox.run_code(code)
    assert r.stdout.split() == [str(i) for i in range(20)]
    assert r.stderr.split() == [f"e{i}" for i in range(20)]


def test_much_output_comes_whole_in_a_stream_and_by_its_end_in_a_result(sandbox):
    code = "import sys\nfor i in range(10000): sys.stdout.write('%06d' % i + 'x' * 993 + '\\n')\n'done'"
    got = []
    r = sandbox.run_code(code, on_stdout=got.append, text=False)
    data = b"".join(got)
    assert (len(data), r.text) == (10_000_000, "'done'")
    assert all(line.startswith(b"%06d" % i) for i, line in enumerate(data.splitlines()))
    r = sandbox.run_code(code)
    assert r.stdout_truncated and len(r.stdout) <= 4 << 20
    assert r.stdout.endswith("009999" + "x" * 993 + "\n")


def test_a_slow_reader_slows_the_code_and_loses_nothing(sandbox):
    code = "import sys\nsys.stdout.write('x' * 3_000_000)\n1"
    total = 0
    with sandbox.client.open(request_of(sandbox, code)) as reply:
        time.sleep(0.5)  # long enough to fill every buffer on the way
        for line in reply.read().splitlines():
            total += len(json.loads(line).get("text", "")) if line else 0
    assert total == 3_000_000


def test_output_that_is_no_text_comes_as_it_is(sandbox):
    r = sandbox.run_code("import sys\nsys.stdout.buffer.write(bytes(range(256)))\nsys.stdout.buffer.flush()")
    assert r.stdout_bytes == bytes(range(256))


@pytest.mark.neutral
def test_contexts_have_a_state_each(sandbox):
    a = sandbox.contexts.create("a", cwd="/tmp", env={"WHO": "a"})
    b = sandbox.contexts.create("b")
    sandbox.run_code("v = 1", context="a")
    sandbox.run_code("v = 2", context=b.id)
    assert sandbox.run_code("v", context=a.id).text == "1"
    assert sandbox.run_code("v", context="b").text == "2"
    assert sandbox.run_code("v").error.name == "NameError"
    assert sandbox.run_code("import os; os.getcwd(), os.environ['WHO']", context="a").text == "('/tmp', 'a')"
    assert [c.name for c in sandbox.contexts.list()] == ["a", "b", "python"]


def test_a_context_of_root_runs_as_root(sandbox):
    sandbox.contexts.create("admin", user="root")
    assert sandbox.run_code("import os; os.getuid()", context="admin").text == "0"
    assert sandbox.run_code("import os; os.getuid()").text == "1000"


def test_a_default_context_takes_cwd_and_env_when_it_is_made(sandbox):
    assert sandbox.run_code("import os; os.getcwd(), os.environ['A']", cwd="/tmp", env={"A": "b"}).text == "('/tmp', 'b')"
    with pytest.raises(errors.Conflict):
        sandbox.run_code("1", cwd="/")


def test_a_restart_gives_a_fresh_interpreter(sandbox):
    sandbox.run_code("x = 1")
    assert sandbox.contexts.restart("python").raw["starts"] == 2
    r = sandbox.run_code("x")
    assert (r.error.name, r.restarted) == ("NameError", True)
    assert not sandbox.run_code("1").restarted


def test_the_drivers_are_roots_and_stay_as_they_are(sandbox):
    r = sandbox.run("stat -c '%u %a' /opt/cloche/kernels /opt/cloche/kernels/python; touch /opt/cloche/kernels/python/x")
    assert r.stdout == "0 755\n0 755\n" and r.exit_code != 0


def test_a_restart_ends_the_running_call(sandbox):
    sandbox.run_code("0")  # from here on it is busy with a call alone, and not with its own start
    thread, out = run_in_thread(sandbox, "import time; time.sleep(1000)")
    wait_for_state(sandbox, "python", "busy")
    sandbox.contexts.restart("python")
    thread.join(30 * PATIENCE)
    assert (out[0].status, out[0].cause, out[0].error.name) == ("died", "restarted", "InterpreterDied")


def test_a_removed_context_ends_its_calls_and_is_forgotten(sandbox):
    sandbox.contexts.create("gone")
    thread, out = run_in_thread(sandbox, "import time; time.sleep(1000)", context="gone")
    wait_for_state(sandbox, "gone", "busy")
    waiting, late = run_in_thread(sandbox, "1", context="gone")
    wait_for(lambda: sandbox.contexts.get("gone").raw["queued"] == 1, 15, "a waiting call")
    sandbox.contexts.remove("gone")
    thread.join(30 * PATIENCE)
    waiting.join(30 * PATIENCE)
    assert (out[0].status, out[0].cause, out[0].context) == ("died", "removed", None)
    assert late[0].code == "gone"
    with pytest.raises(errors.NotFound):
        sandbox.run_code("1", context="gone")


@pytest.mark.neutral
def test_an_interrupt_keeps_the_variables(sandbox):
    sandbox.run_code("kept = 7")
    thread, out = run_in_thread(sandbox, "i = 1\nopen('began', 'w').close()\nwhile True: i += 1")
    wait_for(lambda: sandbox.files.exists("began"), 15, "the loop")
    sandbox.contexts.interrupt("python")
    thread.join(30 * PATIENCE)
    r = out[0]
    assert (r.status, r.cause, r.error.name) == ("error", "interrupted", "KeyboardInterrupt")
    assert sandbox.run_code("kept, i > 0").text == "(7, True)"


def test_an_interrupt_without_a_call_does_nothing(sandbox):
    sandbox.run_code("x = 1")
    assert sandbox.contexts.interrupt("python").state == "idle"
    assert sandbox.run_code("x").text == "1"


def test_a_timeout_interrupts_and_keeps_the_state(sandbox):
    sandbox.run_code("kept = 1")
    r = sandbox.run_code("while True: pass", timeout=0.3)
    assert (r.status, r.cause, r.error.name) == ("error", "timeout", "KeyboardInterrupt")
    assert sandbox.run_code("kept").text == "1"


def test_a_timeout_reaches_a_child_process(sandbox):
    r = sandbox.run_code("import subprocess; subprocess.run(['sleep', '1000'])", timeout=0.5)
    assert (r.status, r.cause) == ("error", "timeout")
    assert sandbox.run_code("1").text == "1"


@pytest.mark.slow
def test_code_that_ignores_its_interrupt_loses_its_interpreter_only(sandbox):
    sandbox.files.write("stays", b"1")
    sandbox.run_code("import time")  # so that the time is up within the loop, and not on the way there
    code = "x = 1\nwhile True:\n    try: time.sleep(1)\n    except KeyboardInterrupt: pass"
    r = sandbox.run_code(code, timeout=0.3 * PATIENCE)
    assert (r.status, r.cause, r.error.name) == ("died", "timeout", "InterpreterDied")
    assert "killed" in r.error.message
    r = sandbox.run_code("import os; os.path.exists('stays'), 'x' in globals()")
    assert (r.text, r.restarted) == ("(True, False)", True)


def test_sys_exit_ends_the_interpreter_and_tells_its_code(sandbox):
    r = sandbox.run_code("x = 1\nimport sys; sys.exit(3)")
    assert (r.status, r.exit_code) == ("exit", 3)
    r = sandbox.run_code("x")
    assert (r.error.name, r.restarted) == ("NameError", True)


@pytest.mark.parametrize("code, exit_code, signal", [("import os; os._exit(9)", 9, None), ("import os; os.kill(os.getpid(), 11)", 139, 11)])
@pytest.mark.neutral
def test_a_death_is_told_with_how(sandbox, code, exit_code, signal):
    r = sandbox.run_code("print('last words', flush=True)\n" + code)
    assert (r.status, r.exit_code, r.signal, r.error.name) == ("died", exit_code, signal, "InterpreterDied")
    assert r.stdout == "last words\n"
    assert sandbox.run_code("1").restarted


def test_death_by_memory_is_told(make_sandbox):
    sandbox = make_sandbox(limits={"memory_mib": 128})
    if "memory_limit" in sandbox.info.isolation["gaps"]:
        pytest.skip("this host gives no memory limit")
    r = sandbox.run_code("b = bytearray()\nwhile True: b += b'x' * (8 << 20)")
    assert (r.status, r.cause) == ("died", "oom") or r.error.name == "MemoryError"
    assert sandbox.run_code("1").text == "1"


def test_what_breaks_the_connection_costs_the_interpreter_only(sandbox):
    code = "import os\nfor fd in range(3, 100):\n    try: os.write(fd, b'done 1 garbage\\n')\n    except OSError: pass"
    r = sandbox.run_code(code, timeout=10 * PATIENCE)
    assert r.status in ("died", "ok")
    assert sandbox.run_code("1+1").text == "2"


def test_a_forged_message_of_another_call_ends_the_interpreter(sandbox):
    code = "import os\nfor fd in range(3, 1024):\n    try: os.write(fd, b'result 99999 2\\n{}')\n    except OSError: pass"
    r = sandbox.run_code(code, timeout=10 * PATIENCE)
    assert (r.status, r.error.name) == ("died", "InterpreterDied")
    assert sandbox.run_code("1+1").text == "2"


def test_calls_wait_for_each_other_in_order(sandbox):
    sandbox.run_code("import time; order = []")
    threads = [run_in_thread(sandbox, "time.sleep(0.3); order.append(0)")]
    wait_for_state(sandbox, "python", "busy")
    for i in range(1, 4):
        threads.append(run_in_thread(sandbox, f"order.append({i})"))
        wait_for(lambda n=i: sandbox.contexts.get("python").raw["queued"] == n or sandbox.contexts.get("python").state == "idle", 10, "the queue")
    for thread, _ in threads:
        thread.join(30 * PATIENCE)
    assert sandbox.run_code("order").text == "[0, 1, 2, 3]"


def test_a_busy_context_refuses_when_asked_to(sandbox):
    sandbox.run_code("import time")
    thread, out = run_in_thread(sandbox, "time.sleep(1000)", timeout=20)
    wait_for_state(sandbox, "python", "busy")
    with pytest.raises(errors.Conflict):
        sandbox.run_code("1", on_busy="refuse")
    sandbox.contexts.interrupt("python")
    thread.join(30 * PATIENCE)
    assert sandbox.run_code("1", on_busy="refuse").text == "1"


def test_a_full_queue_refuses(daemon, sandbox):
    sandbox.run_code("import time")
    thread, _ = run_in_thread(sandbox, "time.sleep(1000)")
    wait_for_state(sandbox, "python", "busy")
    socks = []
    body = json.dumps({"code": "1", "kill_on_disconnect": True})
    for _ in range(64):
        c = http.client.HTTPConnection("127.0.0.1", daemon.port)
        c.request("POST", f"/v1/sandboxes/{sandbox.id}/code", body, {"Content-Type": "application/json", "X-API-Key": daemon.key})
        socks.append(c)
    wait_for(lambda: sandbox.contexts.get("python").raw["queued"] == 64, 15, "a full queue")
    with pytest.raises(errors.LimitReached):
        sandbox.run_code("1")
    for c in socks:
        c.close()
    wait_for(lambda: sandbox.contexts.get("python").raw["queued"] == 0, 15, "the end of those whose callers left")
    sandbox.contexts.interrupt("python")
    thread.join(30 * PATIENCE)


def test_a_caller_that_leaves_ends_nothing_unless_it_asked(daemon, sandbox):
    sandbox.run_code("import time")

    def leave(code, **fields):
        c = http.client.HTTPConnection("127.0.0.1", daemon.port)
        body = json.dumps({"code": code, **fields})
        c.request("POST", f"/v1/sandboxes/{sandbox.id}/code", body, {"Content-Type": "application/json", "X-API-Key": daemon.key})
        wait_for_state(sandbox, "python", "busy")
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()

    leave("time.sleep(0.5); stayed = True")
    assert sandbox.run_code("stayed").text == "True"
    leave("time.sleep(1000)", kill_on_disconnect=True)
    assert sandbox.run_code("stayed", timeout=20 * PATIENCE).text == "True"
    leave("try:\n  while True: time.sleep(1000)\nexcept KeyboardInterrupt:\n  while True: time.sleep(1000)", kill_on_disconnect=True)
    assert sandbox.run_code("stayed", timeout=20 * PATIENCE).text == "True"


def test_deleting_the_sandbox_ends_its_calls_as_gone(make_sandbox):
    sandbox = make_sandbox()
    sandbox.run_code("import time")
    running, a = run_in_thread(sandbox, "time.sleep(1000)")
    wait_for_state(sandbox, "python", "busy")
    waiting, b = run_in_thread(sandbox, "1")
    wait_for(lambda: sandbox.contexts.get("python").raw["queued"] == 1, 15, "a waiting call")
    sandbox.delete()
    running.join(30)
    waiting.join(30 * PATIENCE)
    assert (a[0].code, b[0].code) == ("gone", "gone")
    with pytest.raises(errors.Gone):
        sandbox.run_code("1")


@pytest.mark.neutral
def test_bash_keeps_its_state(sandbox):
    sandbox.run_code("cd /tmp; X=5; f() { echo f $X; }", "bash")
    r = sandbox.run_code("f; pwd; false", "bash")
    assert r.stdout == "f 5\n/tmp\n"
    assert sandbox.run_code("exit 4", "bash").exit_code == 4


@pytest.mark.skipif(not shutil.which("node"), reason="this host has no node")
@pytest.mark.parametrize("language, code", [("javascript", "let a = 40"), ("typescript", "let a: number = 40")])
def test_node_keeps_its_state(sandbox, language, code):
    if sandbox.run("command -v node").exit_code != 0:
        pytest.skip("the template has no node")
    r = sandbox.run_code(code, language)
    if r.error and "TypeScript needs Node" in r.error.message:
        pytest.skip(r.error.message)
    r = sandbox.run_code("console.log('hi'); a + 2", language)
    assert (r.stdout, r.text) == ("hi\n", "42")
    assert sandbox.run_code("throw new TypeError('no')", language).error.name == "TypeError"


@pytest.mark.skipif(not shutil.which("Rscript"), reason="this host has no Rscript: Debian's r-base-core has it")
def test_r_keeps_its_state_and_shows_values_plots_and_errors(sandbox):
    if sandbox.run("command -v Rscript").exit_code != 0:
        pytest.skip("the template has no R")
    sandbox.run_code("a <- 40", "r")
    r = sandbox.run_code("cat('hi\\n'); plot(a); a + 2", "r")
    assert (r.stdout, r.stderr, r.text) == ("hi\n", "", "[1] 42")
    assert ["image/png" in shown.data for shown in r.results] == [True, False]
    assert "<td>1</td>" in sandbox.run_code("data.frame(n = 1)", "r").results[0].data["text/html"]
    r = sandbox.run_code("f <- function() stop('no')\nf()", "r")
    assert (r.error.name, r.error.message) == ("Error", "no")
    assert sandbox.run_code("quit(status = 4)", "r").exit_code == 4
    assert sandbox.run_code("exists('a')", "r").text == "[1] FALSE"


@pytest.mark.skipif(not shutil.which("jshell"), reason="this host has no jshell: Debian's openjdk-17-jdk-headless has it")
def test_java_keeps_its_state_and_is_interrupted(sandbox):
    if sandbox.run("command -v jshell").exit_code != 0:
        pytest.skip("the template has no JDK")
    r = sandbox.run_code("int a = 40;", "java")
    assert (r.status, r.stderr) == ("ok", "")
    r = sandbox.run_code('System.out.println("hi");\na + 2', "java")
    assert (r.stdout, r.text) == ("hi\n", "42")
    assert sandbox.run_code("1 / (a - a)", "java").error.name == "ArithmeticException"
    r = sandbox.run_code("while (true) {}", "java", timeout=PATIENCE)
    assert (r.status, r.cause, r.error.name) == ("error", "timeout", "InterruptedException")
    assert sandbox.run_code("a", "java").text == "40"
    assert sandbox.run_code("System.exit(4);", "java").exit_code == 4


@pytest.mark.slow
@pytest.mark.jail("an emulated processor has its own patience")
@pytest.mark.skipif(not shutil.which("jshell"), reason="this host has no jshell: Debian's openjdk-17-jdk-headless has it")
def test_java_starts_with_a_tenth_of_a_processor(client):
    """It compiles its driver first, some seconds of CPU: more than the half minute that others have."""
    with client.create(limits={"vcpus": 0.1, "memory_mib": 1024}) as sandbox:
        if sandbox.run("command -v jshell").exit_code != 0:
            pytest.skip("the template has no JDK")
        assert sandbox.run_code("6 * 7", "java", timeout=180).text == "42"


def test_a_module_that_is_missing_is_told_with_what_to_do_and_the_codes_own_words_stay(sandbox, daemon):
    r = sandbox.run_code("import no_such_module")
    assert r.error.traceback[-1] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert "--package no_such_module" in r.error.hint
    assert sandbox.run_code("1 / 0").error.hint is None
    cli = Cli(daemon)
    lacking = """raise ModuleNotFoundError("No module named 'sklearn'")"""
    _, _, told = cli("code", sandbox.id, lacking)
    assert told.splitlines()[-2:] == ["ModuleNotFoundError: No module named 'sklearn'", f"cloche: {sandbox.run_code(lacking).error.hint}"]
    assert "scikit-learn" in told and "--template universal" in told
    status, _, told = cli("exec", sandbox.id, "python3", "-c", "import no_such_module")
    assert status == 1 and told.splitlines()[-2:] == ["ModuleNotFoundError: No module named 'no_such_module'", f"cloche: {r.error.hint}"]


def test_a_program_that_is_missing_is_told_with_what_to_do(sandbox, daemon):
    with pytest.raises(errors.ClocheError, match="no such program 'no-such-program'") as refused:
        sandbox.run(["no-such-program"])
    assert "--package apt:" in refused.value.hint
    status, _, told = Cli(daemon)("exec", sandbox.id, "bash", "-c", "no-such-program")
    assert status == 127 and told.splitlines()[-1].startswith("cloche: the sandbox has no program 'no-such-program': ")
    assert Cli(daemon)("exec", sandbox.id, "bash", "-c", "no-such-program; true")[2].count("cloche:") == 0


def test_a_language_whose_program_is_missing_is_unsupported(make_sandbox):
    sandbox = make_sandbox(env={"PATH": "/nowhere"})
    with pytest.raises(errors.ClocheError) as error:
        sandbox.run_code("1")
    assert error.value.code == "unsupported"
    assert "python3" in str(error.value)


@pytest.mark.parametrize("fields, field", [({"language": "cobol"}, "language"), ({"on_busy": "x"}, "on_busy"), ({"env": {"": "x"}}, "env.")])
def test_bad_input_is_named(sandbox, fields, field):
    with pytest.raises(errors.InvalidField) as error:
        sandbox.run_code("1", **fields)
    assert error.value.field == field


def test_a_language_may_be_named_shortly(client, sandbox):
    sandbox.run_code("x = 40", "python")
    result = sandbox.run_code("x + 2", "py")
    assert (result.text, result.context.name, result.context.language) == ("42", "python", "python")
    assert sandbox.contexts.create(name="short", language="sh").language == "bash"
    assert sandbox.run_code("echo $((6*7))", "bash", context="short").stdout == "42\n"
    assert client.run(code="print(6*7)", language="py").stdout == "42\n"


def test_a_context_of_another_language_is_refused(sandbox):
    sandbox.contexts.create("py")
    with pytest.raises(errors.InvalidField):
        sandbox.run_code("1", "bash", context="py")


def test_the_count_of_contexts_is_bounded(sandbox):
    for _ in range(16):
        sandbox.contexts.create(language="bash")
    with pytest.raises(errors.LimitReached):
        sandbox.contexts.create()


LANGUAGES = [("python", "x = 41", "x + 1"), ("javascript", "let x = 41", "x + 1"), ("bash", "x=41", "echo $((x + 1))")]


@pytest.fixture
def own():
    """A daemon of this test's own: (daemon, client)."""
    with running(Daemon()) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


def kill_gateway(daemon):
    pid = daemon.gateway_pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: daemon._part("gateway") not in (None, pid), 30, "a new gateway")


def test_interpreters_outlive_the_gateway_with_their_state(own):
    daemon, client = own
    sandbox = client.create()
    named = sandbox.contexts.create("named", env={"WHO": "me"})
    sandbox.run_code("import os; y = os.environ['WHO']", context="named")
    for language, set_x, _ in LANGUAGES:
        assert sandbox.run_code(set_x, language).status == "ok"
    kill_gateway(daemon)
    again = client.get(sandbox.id)
    for language, _, get_x in LANGUAGES:
        r = again.run_code(get_x, language)
        assert (r.text or r.stdout).strip() == "42", language
        assert (r.count, r.restarted) == (2, False)
    assert again.run_code("y", context="named").text == "'me'"
    assert again.contexts.get("named").id == named.id


def test_a_call_that_runs_when_the_gateway_dies_ends_for_nobody(own):
    daemon, client = own
    sandbox = client.create()
    code = "import time; x = 1; print('old'); go = 0\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nx = 2; x"
    thread, out = run_in_thread(sandbox, "import os; " + code)
    wait_for_state(sandbox, "python", "busy")
    kill_gateway(daemon)
    thread.join(30 * PATIENCE)
    assert out[0].code in ("connection_failed", "unavailable")
    again = client.get(sandbox.id)
    with pytest.raises(errors.Conflict):
        again.run_code("1", on_busy="refuse")
    again.files.write("/tmp/go", b"")
    r = again.run_code("print('new'); x")
    assert (r.stdout, r.text, r.restarted) == ("new\n", "2", False)


def test_a_call_of_a_dead_gateway_can_be_interrupted(own):
    daemon, client = own
    sandbox = client.create()
    thread, _ = run_in_thread(sandbox, "x = 5\nwhile True: pass")
    wait_for_state(sandbox, "python", "busy")
    kill_gateway(daemon)
    thread.join(30 * PATIENCE)
    again = client.get(sandbox.id)
    again.contexts.interrupt("python")
    assert again.run_code("x").text == "5"


# Code that heeds an interrupt, and code that does not: what is left of the state, and whether it began anew.
ORPHANS = {"heeds": ("", "5", False), "deaf": ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); ", "0", True)}


@pytest.mark.parametrize("kind", ORPHANS)
@pytest.mark.slow
def test_a_call_of_a_dead_gateway_keeps_its_timeout(own, kind):
    daemon, client = own
    before, x, is_restarted = ORPHANS[kind]
    sandbox = client.create()
    thread, _ = run_in_thread(sandbox, before + "x = 5\nwhile True: pass", timeout=2)
    wait_for_state(sandbox, "python", "busy")
    kill_gateway(daemon)
    thread.join(30 * PATIENCE)
    r = client.get(sandbox.id).run_code("globals().get('x', 0)")
    assert (r.text, r.restarted) == (x, is_restarted)


def test_a_call_tells_its_cpu_where_the_language_can(sandbox):
    burn = "import time\nuntil = time.process_time() + 0.02\nwhile time.process_time() < until: pass"
    assert sandbox.run_code(burn).cpu_us >= 20_000
    assert sandbox.run_code("true", language="bash").cpu_us is None
