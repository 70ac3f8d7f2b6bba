# SPDX-License-Identifier: Apache-2.0
"""The bash interpreter, driven as the agent drives it. One test per promise of issue and protocol."""

import os
import signal

import pytest
from kernels.kernel import KERNELS, Kernel, KernelDied, microseconds_per_call

ARGV = ["bash", str(KERNELS / "bash" / "driver.bash")]


@pytest.fixture
def kernel(tmp_path):
    with Kernel(ARGV, cwd=str(tmp_path)) as kernel:
        yield kernel


def interrupt(kernel):
    """As the agent does: to the whole process group, as a terminal sends it."""
    os.killpg(kernel.pid, signal.SIGINT)


# ---- state


def test_it_says_what_it_is_before_the_first_call(kernel):
    assert kernel.ready["language"] == "bash"
    assert kernel.ready["pid"] == kernel.pid


def test_variables_functions_directory_and_options_stay(kernel, tmp_path):
    kernel.run("x=5; a=(1 2); f() { echo \"f $1\"; }; mkdir d; cd d; shopt -s extglob; set -o noglob; set -- p q")
    reply = kernel.run('f $x; echo ${#a[@]} "$PWD" $2 *; shopt -q extglob && echo yes')
    assert reply.stdout.decode().splitlines() == ["f 5", f"2 {tmp_path}/d q *", "yes"]


def test_code_may_give_echo_another_meaning(kernel):
    kernel.run("set -o posix; shopt -s xpg_echo")
    assert kernel.run("echo 'a\\tb'").stdout == b"a\tb\n"


def test_exported_variables_reach_commands_of_later_calls(kernel):
    kernel.run("export GREETING=hi")
    assert kernel.run("env | grep ^GREETING").stdout == b"GREETING=hi\n"


def test_the_status_of_the_last_command_is_the_exit_code_and_stays(kernel):
    reply = kernel.run("(exit 3)")
    assert reply.done == {"status": "ok", "count": 1, "exit_code": 3}
    assert kernel.run("echo $?").stdout == b"3\n"


def test_nothing_of_the_starting_directory_is_lost(kernel, tmp_path):
    assert kernel.run('echo "$PWD"').stdout.decode() == f"{tmp_path}\n"


@pytest.mark.parametrize("code", ["", "# nothing", "\n\n", ":"])
def test_code_that_does_nothing_is_ok(kernel, code):
    assert kernel.run(code).done == {"status": "ok", "count": 1, "exit_code": 0}


@pytest.mark.parametrize("code", ["break", "continue", "break 99", "return 5", "for i in 1 2; do break 9; done; echo no", "while :; do continue 7; done"])
def test_jumps_out_of_the_code_end_the_call_only(kernel, code):
    kernel.run("x=1")
    assert kernel.run(code).stdout == b""
    assert kernel.run("echo $x").stdout == b"1\n"


def test_functions_of_the_names_of_builtins_do_not_break_the_driver(kernel):
    kernel.run("read() { :; }; printf() { :; }; trap() { :; }; cd() { :; }; echo() { :; }")
    assert kernel.run("builtin echo fine").stdout == b"fine\n"


def test_the_drivers_functions_cannot_be_replaced(kernel):
    assert b"readonly function" in kernel.run("__cloche_turn() { :; }").stderr
    assert kernel.run("echo fine").stdout == b"fine\n"


@pytest.mark.parametrize("code", ["IFS=x", "LC_ALL=C", "set -u", "set -f", "set -o pipefail", "exec 3</dev/null", "unset IFS"])
def test_settings_of_the_code_do_not_disturb_the_driver(kernel, code):
    kernel.run(code)
    assert kernel.run("v='é x'; echo \"$v\"").stdout.decode() == "é x\n"


def test_a_trace_shows_the_code_and_not_the_driver(kernel):
    kernel.run("set -x")
    assert kernel.run("echo traced").stderr.lstrip(b"+") == b" echo traced\n"
    assert b"__cloche" not in kernel.run("set +x").stderr


def test_one_mebibyte_of_code_runs(kernel):
    assert kernel.run(f"v='{'é' * (1 << 19)}'; echo ${{#v}}").stdout.strip() in (b"524288", b"1048576")


def test_here_documents_work(kernel):
    assert kernel.run("cat <<END\nhello $((1 + 1))\nEND").stdout == b"hello 2\n"


# ---- errors


def test_a_failing_command_is_no_error(kernel):
    reply = kernel.run("nosuchcommand\nls /nosuchfile")
    assert reply.error is None
    assert reply.done == {"status": "ok", "count": 1, "exit_code": 2}


def test_messages_name_the_line_of_the_cell(kernel):
    kernel.run("break")
    assert kernel.run("true\ntrue\nnosuchcommand").stderr == b"cell: line 3: nosuchcommand: command not found\n"


@pytest.mark.parametrize("code", ["if", "fi", "echo 'open", "for x in; do", "x=(1 2"])
def test_a_syntax_error_is_an_error_in_bashs_own_words(kernel, code):
    reply = kernel.run(code)
    assert reply.error["name"] == "SyntaxError"
    assert "line" in reply.error["message"]
    assert "__cloche" not in reply.error["message"]
    assert reply.done["status"] == "error"
    assert kernel.run("echo alive").stdout == b"alive\n"


# ---- output


def test_output_keeps_its_order_and_comes_before_the_reply(kernel):
    reply = kernel.run("echo 1; /bin/echo 2; echo 3 >&2; (echo 4)")
    assert reply.stdout == b"1\n2\n4\n"
    assert reply.stderr == b"3\n"
    assert reply.events[-1][0] == "done"


def test_output_is_binary_safe(kernel):
    assert kernel.run(r"printf '\xff\x00\xfe\n'").stdout == b"\xff\x00\xfe\n"


def test_a_hundred_megabytes_of_output_arrive(kernel):
    assert len(kernel.run("head -c 100000000 /dev/zero", timeout=120).stdout) == 100_000_000


def test_standard_input_is_empty(kernel):
    assert kernel.run("cat; read line || echo end").stdout == b"end\n"


def test_closed_output_does_not_stop_the_next_call(kernel):
    kernel.run("exec >&- 2>&-")
    assert kernel.run("x=1").done["exit_code"] == 0
    assert kernel.run("exit 4").done["exit_code"] == 4


def test_background_jobs_go_on_after_their_call(kernel, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    kernel.run("{ read line <fifo; echo \"got $line\"; } &")
    assert kernel.run("echo word >fifo; wait").stdout == b"got word\n"


# ---- the socket


def test_children_do_not_get_the_drivers_socket(kernel):
    assert b"socket" not in kernel.run("ls -l /proc/self/fd").stdout


def test_no_child_can_take_the_code_of_the_next_call(kernel):
    kernel.run("for ((fd = 3; fd < 64; fd++)); do [[ -e /proc/self/fd/$fd ]] && echo; done >/dev/null; "
               "perl -e 'for (3..255) { open(my $f, \"<&=\", $_) or next; sysread($f, my $b, 1) }' & wait")
    assert kernel.run("echo whole").stdout == b"whole\n"


def test_fd_3_is_free_for_the_code(kernel):
    kernel.run("exec 3<<<word")
    assert kernel.run("read -r w <&3; echo $w").stdout == b"word\n"


# ---- interrupt


@pytest.mark.parametrize(
    "code",
    [
        "kept=7; echo go; sleep 100; echo no",
        "kept=7; echo go; while :; do :; done; echo no",
        "kept=7; f() { while :; do sleep 0.01; done; echo no; }; g() { f; echo no; }; echo go; g; echo no",
        "kept=7; echo go; x=$(sleep 100); echo no",
        "kept=7; echo go; sleep 100 | cat; echo no",
        "kept=7; echo go; (sleep 100; echo no); echo no",
        "kept=7; echo go; sleep 100 & wait; echo no",
    ],
)
def test_an_interrupt_ends_the_call_and_keeps_the_state(kernel, code):
    kernel.start(code)
    kernel.wait_output(b"go")
    reply = kernel.stop(interrupt=lambda: interrupt(kernel))  # one that comes as a child is made does not reach it
    assert reply.error["name"] == "Interrupt"
    assert reply.done == {"status": "error", "count": 1, "exit_code": 130}
    assert reply.stdout == b"go\n"
    assert kernel.run("f() { echo $kept; }; for i in 1 2; do f; done; shopt -q extdebug || echo off").stdout == b"7\n7\noff\n"


def test_a_hundred_interrupts_leave_it_whole(kernel):
    for _ in range(100):
        kernel.start("echo go; while :; do :; done")
        kernel.wait_output(b"go")
        interrupt(kernel)
        assert kernel.finish().status == "error"
    assert kernel.run("echo whole").stdout == b"whole\n"


def test_an_interrupt_between_calls_is_ignored(kernel):
    kernel.run("x=1")
    interrupt(kernel)
    assert kernel.run("echo $x").stdout == b"1\n"


# ---- the end


def test_exit_ends_with_its_code(kernel):
    reply = kernel.run("echo bye; exit 3")
    assert reply.stdout == b"bye\n"
    assert reply.done == {"status": "exit", "count": 1, "exit_code": 3}
    assert kernel.wait() == 3


@pytest.mark.parametrize(("code", "status"), [("set -e; false; echo no", 1), ("set -u; echo $nothing; echo no", 1), (": ${nothing:?gone}", 127)])
def test_a_shell_that_ends_itself_says_so(kernel, code, status):
    reply = kernel.run(code)
    assert reply.stdout == b""
    assert reply.done["status"] == "exit"
    assert reply.done["exit_code"] in (status, 1, 127)
    assert kernel.wait() == reply.done["exit_code"]


def test_errexit_stays_for_the_next_call(kernel):
    assert kernel.run("set -e").status == "ok"
    assert kernel.run("true; false; echo no").done["status"] == "exit"


def test_exit_in_a_subshell_ends_the_subshell_only(kernel):
    assert kernel.run("(exit 3); echo $?").stdout == b"3\n"


def test_a_program_that_replaces_the_shell_ends_it(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("exec sh -c 'exit 5'")
    assert died.value.returncode == 5


def test_a_crash_ends_the_process_without_a_word(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("kill -KILL $$")
    assert died.value.returncode == -9


def test_it_ends_when_the_host_hangs_up(kernel):
    assert kernel.hang_up() == 0


@pytest.mark.parametrize("line", [b"nonsense\n", b"run x 1\n", b"run 1 99999999\n", b"what 1 0\n"])
def test_a_broken_peer_ends_it_with_70(kernel, line):
    kernel.send_raw(line)
    assert kernel.wait() == 70


# ---- sync


def test_a_sync_is_answered_behind_the_running_call_and_changes_nothing(kernel):
    kernel.run("x=6")
    kernel.start("echo go; sleep 0.2; x=7")
    kernel.wait_output(b"go")
    assert kernel.sync().done == {"status": "ok", "count": 2}
    assert kernel.run("echo $x").stdout == b"7\n"


# ---- env


def test_variables_of_a_call_are_there_for_that_call_alone(kernel):
    assert kernel.ready["env"] is True and kernel.sync_idle().takes_env is True
    kernel.env(TRACEPARENT="00-1", TRACESTATE="a=1,b=é 2")
    assert kernel.run("echo $(printenv TRACEPARENT || echo none) $(printenv TRACESTATE || echo none)").stdout == "00-1 a=1,b=é 2\n".encode()
    assert kernel.run("echo $(printenv TRACEPARENT || echo none) $(printenv TRACESTATE || echo none)").stdout == b"none none\n"
    kernel.run("export TRACEPARENT=mine")
    kernel.env(TRACEPARENT="00-2")
    assert kernel.run("echo $(printenv TRACEPARENT || echo none) $(printenv TRACESTATE || echo none)").stdout == b"00-2 none\n"
    assert kernel.run("echo $(printenv TRACEPARENT || echo none) $(printenv TRACESTATE || echo none)").stdout == b"mine none\n"
    kernel.env(TRACEPARENT="00-3")
    kernel.run("export TRACEPARENT=mine")
    assert kernel.run("echo $(printenv TRACEPARENT || echo none) $(printenv TRACESTATE || echo none)").stdout == b"mine none\n"


def test_variables_are_put_back_behind_a_call_that_failed(kernel):
    kernel.env(TRACEPARENT="00-1")
    kernel.run("no-such-command; (exit 3)")
    assert kernel.run("echo $(printenv TRACEPARENT || echo none) $(printenv TRACESTATE || echo none)").stdout == b"none none\n"


# ---- renew


def test_random_differs_after_each_renewal(kernel):
    seen = set()
    for _ in range(50):
        assert kernel.renew(os.urandom(32)).done["status"] == "ok"
        seen.add(kernel.run("echo $RANDOM $RANDOM $RANDOM").stdout)
    assert len(seen) == 50


@pytest.mark.parametrize("seed", [bytes(32), b"\n" * 32, bytes(range(32)), b"\xff" * 32])
def test_any_seed_is_taken_whole(kernel, seed):
    assert kernel.renew(seed).done == {"status": "ok", "count": 0}
    assert kernel.run("echo next").stdout == b"next\n"


def test_the_time_of_a_hot_call(kernel):
    print(f"bash: {microseconds_per_call(kernel, 'x=1'):.0f} us a call")
