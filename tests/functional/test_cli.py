# SPDX-License-Identifier: Apache-2.0
"""The command line, as a person or a script meets it: words in, output and exit status out."""

import http.server
import json
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time

import pytest
from harness.cli import CLOCHE, Cli, Terminal, with_var_tmp
from harness.daemon import Daemon, wait_for

def test_code_runs_and_its_output_and_status_are_ours(cli):
    assert cli("run", "-c", "print(6*7)") == (0, "42\n", "")
    assert cli("run", "-l", "bash", "-c", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")


def test_words_behind_code_are_its_arguments_even_with_dashes(cli):
    assert cli.ok("run", "-c", "import sys; print(sys.argv[1:])", "--", "--json", "-x") == "['--json', '-x']\n"
    assert cli.ok("run", "-l", "bash", "-c", "echo $1-$2", "a", "b") == "a-b\n"
    if shutil.which("node", path="/usr/bin"):  # of the host, as the template shows it
        code = "console.log(process.argv.slice(2).join())"
        assert cli.ok("run", "-l", "javascript", "-c", code, "a", "--b") == "a,--b\n"


@pytest.mark.parametrize(
    "name, text",
    [
        ("job.py", "import sys; print('ran', sys.argv[1])"),
        ("job.sh", "echo ran $1"),
        ("job", "#!/usr/bin/env python3\nimport sys; print('ran', sys.argv[1])"),
        ("-odd.sh", "echo ran $1"),
        ("job.awk", '#!/usr/bin/awk -f\nBEGIN { print "ran", ARGV[1] }'),
    ],
)
def test_a_file_runs_by_its_extension_or_its_first_line(cli, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert cli.ok("run", str(tmp_path / name), "it") == "ran it\n"


def test_code_from_stdin_runs_and_a_large_one_too(cli):
    assert cli.ok("run", "-", data="print('from stdin')") == "from stdin\n"
    assert cli.ok("run", "-", data="#" * 300_000 + "\nprint(len(open('main.py').read()) > 300000)") == "True\n"
    assert cli.ok("run", "-c", "#" * 100_000 + "\nprint('long')") == "long\n"


def test_a_file_of_no_known_language_is_asked_about(cli, tmp_path):
    (tmp_path / "job.xyz").write_text("print(1)")
    status, out, err = cli("run", str(tmp_path / "job.xyz"))
    assert (status, out) == (125, "")
    assert err.startswith("cloche: the language of") and "hint: name it: cloche run -l python" in err


def test_piped_stdin_is_passed_on_and_every_byte_comes_back(cli):
    data = bytes(range(256)) * 12_000  # 3 MB, no valid UTF-8
    status, out, err = cli.bytes("run", "--", "cat", data=data)
    assert (status, err) == (0, b"")
    assert out == data
    status, out, err = cli.bytes("run", "--", "sh", "-c", "cat >&2", data=data[:4096])
    assert (status, out, err) == (0, b"", data[:4096])


def test_a_command_that_reads_no_stdin_ends_all_the_same(cli):
    assert cli("run", "--", "true", data="x" * 1_000_000)[0] == 0


@pytest.mark.parametrize(
    "words, status",
    [
        (["--timeout", "300ms", "--", "sleep", "60"], 124),
        (["--", "no-such-program"], 127),
        (["--", "/etc/passwd"], 126),
        (["-w", "/no-such", "--", "true"], 125),
        (["-u", "no-such", "--", "true"], 125),
        (["--", "sh", "-c", "kill -KILL $$"], 137),
        (["--", "sh", "-c", "exit 200"], 200),
        (["--memory", "lots", "--", "true"], 125),
        (["--template", "no-such", "--", "true"], 125),
        ([], 125),
    ],
)
def test_exit_statuses_tell_how_it_ended(cli, words, status):
    got, out, err = cli("run", *words)
    assert (got, out) == (status, ""), err
    assert err.startswith("cloche: ") or status in (137, 200)


def test_a_run_leaves_no_sandbox_unless_asked_to(cli):
    before = cli.ids()
    cli("run", "-c", "1/0")
    assert cli.ids() == before
    status, out, err = cli("run", "--keep", "-c", "open('kept', 'w').write('x')")
    kept = err.split()[-1]
    assert status == 0 and cli.ids() - before == {kept}
    assert cli.ok("exec", kept, "cat", "kept") == "x"
    assert cli.ok("rm", kept) == kept + "\n"
    assert cli.ids() == before


def test_options_of_a_run_reach_the_sandbox(cli):
    out = cli.ok(
        *("run", "-u", "root", "-w", "/tmp", "-e", "GREETING=hi", "--name", "named", "--pids", "50", "--memory", "64m"),
        *("--", "sh", "-c", "id -u; pwd; echo $GREETING; grep MemTotal /proc/meminfo"),
    ).split()
    assert out[:3] == ["0", "/tmp", "hi"]
    assert int(out[4]) <= 64 * 1024


def test_a_run_as_json_is_one_object(cli):
    status, out, err = cli("run", "--json", "-l", "bash", "-c", "echo out; printf '\\377' >&2; exit 5")
    result = json.loads(out)
    assert (status, err) == (5, "")
    assert (result["stdout"], result["stderr_base64"], result["exec"]["exit_code"]) == ("out\n", "/w==", 5)


def interrupted(cli, words, *signals):
    """Starts a command that prints `ready`, sends the signals; its status and output."""
    p = cli.start(*words)
    assert p.stdout.readline() == b"ready\n"
    for signo in signals:
        p.send_signal(signo)
        time.sleep(0.2)  # two at once are one to the kernel
    out, err = p.communicate(timeout=60)
    return p.returncode, out, err


def test_ctrl_c_interrupts_the_command_and_the_sandbox_goes(cli):
    before = cli.ids()
    code = "trap 'echo caught; exit 9' INT; echo ready; sleep 60 & wait"
    assert interrupted(cli, ["run", "-l", "bash", "-c", code], signal.SIGINT) == (9, b"caught\n", b"")
    assert cli.ids() == before


def test_a_second_ctrl_c_kills_what_ignores_the_first(cli):
    before = cli.ids()
    code = "trap '' INT TERM; echo ready; while :; do sleep 1; done"
    status, _, _ = interrupted(cli, ["run", "-l", "bash", "-c", code], signal.SIGINT, signal.SIGINT)
    assert status == 137
    assert cli.ids() == before


def test_a_terminated_run_takes_its_sandbox_along(cli):
    before = cli.ids()
    status, _, _ = interrupted(cli, ["run", "-l", "bash", "-c", "echo ready; sleep 60"], signal.SIGTERM)
    assert status == 143
    assert cli.ids() == before


def test_a_reader_that_leaves_ends_the_command(cli):
    before = cli.ids()
    p = cli.start("run", "--", "yes")
    assert p.stdout.read(2) == b"y\n"
    p.stdout.close()
    p.stdout = None
    p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGPIPE
    assert cli.ids() == before


def hosted(cli, place, *words):
    argv = [*with_var_tmp(place), CLOCHE, "run", "--standalone", *words]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.env)


@pytest.mark.slow
def test_a_run_hosts_a_daemon_for_itself_and_leaves_nothing(cli, short_path):
    p = hosted(cli, short_path, "-c", "print(6*7)")
    assert (p.communicate(timeout=60), p.returncode) == ((b"42\n", b""), 0)
    assert os.listdir(short_path) == []


@pytest.mark.slow
def test_a_hosted_daemon_goes_even_when_its_run_is_killed(cli, short_path):
    p = hosted(cli, short_path, "-l", "bash", "-c", "echo ready; sleep 60")
    assert p.stdout.readline() == b"ready\n"
    assert len(os.listdir(short_path)) == 1
    p.kill()
    p.communicate()
    wait_for(lambda: os.listdir(short_path) == [], 30, "the end of the hosted daemon and its directory")


def test_an_exec_streams_both_ways_as_it_goes(cli, box):
    p = cli.start("exec", "-i", box, "sh", "-c", "echo one; read x; echo got $x", stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"one\n"
    p.stdin.write(b"this\n")
    p.stdin.flush()
    assert p.stdout.readline() == b"got this\n"
    p.communicate(timeout=60)
    assert p.returncode == 0


def test_an_exec_has_no_stdin_unless_asked_for(cli, box):
    assert cli("exec", box, "cat", data="unheard") == (0, "", "")


def test_a_detached_exec_is_followed_by_its_id(cli, box):
    id = cli.ok("exec", "-d", box, "sh", "-c", "echo one; sleep 0.3; echo two; echo err >&2; exit 4").strip()
    assert cli("logs", "-f", box, id) == (0, "one\ntwo\n", "err\n")
    assert cli("logs", box) == (0, "one\ntwo\n", "err\n")
    types = [json.loads(line)["type"] for line in cli.ok("logs", "--json", box, id).splitlines()]
    assert types[-1] == "exited" and "stdout" in types
    assert json.loads(cli.ok("inspect", "--json", box, id))["exit_code"] == 4


@pytest.mark.slow
def test_output_goes_on_where_it_was_when_the_gateway_dies():
    daemon = Daemon().start()
    try:
        cli = Cli(daemon)
        code = "echo first; while [ ! -e go ]; do sleep 0.05; done; seq 2 200; echo err >&2; exit 6"
        run = cli.start("run", "--name", "lives", "-l", "bash", "-c", code)
        assert run.stdout.readline() == b"first\n"
        follow = cli.start("logs", "-f", "lives")
        assert follow.stdout.readline() == b"first\n"
        os.kill(daemon.gateway_pid, signal.SIGKILL)
        wait_for(lambda: cli("exec", "lives", "touch", "go")[0] == 0, 30, "the next gateway")
        rest = "".join(f"{n}\n" for n in range(2, 201)).encode()
        assert run.communicate(timeout=60) == (rest, b"err\n")
        assert run.returncode == 6
        assert follow.communicate(timeout=60) == (rest, b"err\n")
        assert follow.returncode == 0
        assert cli.ids() == set()
    finally:
        daemon.stop()
        daemon.remove()


def test_a_signal_reaches_an_exec(cli, box):
    id = cli.ok("exec", "-d", box, "sleep", "600").strip()
    assert cli("signal", "-s", "USR1", box) == (0, "", "")
    cli.ok("logs", "-f", box, id)
    assert json.loads(cli.ok("inspect", "--json", box, id))["signal"] == signal.SIGUSR1
    status, _, err = cli("signal", box)
    assert (status, err) == (125, f"cloche: nothing is running in '{box}'\n")


def test_tables_show_control_bytes_as_escapes(cli, box):
    cli.ok("exec", box, "true", "\x1b]0;owned\x07", "\u202egnp.exe")
    out = cli.ok("ps", box)
    assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert "\\x1b]0;owned\\x07" in out and "\\u{202e}gnp.exe" in out


def test_a_sandbox_is_found_by_name_and_tag_and_inspected(cli):
    id = cli.ok("create", "--name", "cli-box", "--tag", "made-by=cli", "--memory", "128m", "--cpus", "0.5").strip()
    try:
        assert cli.ok("ps", "-q", "--tag", "made-by=cli").split() == [id]
        row = [line for line in cli.ok("ps").splitlines() if line.startswith(id)]
        assert len(row) == 1 and " cli-box " in row[0] and " 128.0 MiB " in row[0] and " running " in row[0]
        sheet = cli.ok("inspect", "cli-box")
        assert "grade: process" in sheet and "memory_mib: 128" in sheet
        assert json.loads(cli.ok("inspect", "--json", "cli-box"))["id"] == id
    finally:
        assert cli.ok("rm", "cli-box") == "cli-box\n"
    status, _, err = cli("exec", "cli-box", "true")
    assert status == 125 and "cli-box" in err
    assert cli("rm", "-f", "cli-box")[0] == 0


def test_an_ended_sandbox_is_listed_with_its_cause(cli):
    id = cli.ok("create", "--timeout", "200ms").strip()
    wait_for(lambda: id not in cli.ids(), 20, "the sandbox's end")
    row = [line for line in cli.ok("ps", "-a").splitlines() if line.startswith(id)]
    assert len(row) == 1 and "stopped (timeout)" in row[0]
    cli.ok("rm", id)


def test_ps_lists_a_persistent_sandbox_that_is_stopped_once(cli):
    id = cli.ok("create", "--persistent", "--template", "host").strip()
    try:
        cli.ok("stop", id)
        for options in ([], ["-a"]):
            assert cli.ok("ps", "-q", *options).split().count(id) == 1
    finally:
        cli.ok("rm", id)


def tree(path):
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in sorted(path.rglob("*"))}


def test_files_and_directories_go_in_and_out_unchanged(cli, box, tmp_path):
    source = tmp_path / "source"
    (source / "deep" / ("n" * 120)).mkdir(parents=True)
    (source / "deep" / "data.bin").write_bytes(os.urandom(3_000_000))
    (source / ("long-" + "x" * 150)).write_text("long")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("deep/data.bin")
    cli.ok("cp", str(source), f"{box}:")
    assert cli.ok("exec", box, "stat", "-c", "%a %U", "source/run.sh") == "755 user\n"
    cli.ok("cp", f"{box}:source", str(tmp_path / "back"))
    assert tree(tmp_path / "back") == tree(source)
    assert os.readlink(tmp_path / "back" / "link") == "deep/data.bin"
    cli.ok("cp", f"{box}:source/deep/data.bin", str(tmp_path))
    assert (tmp_path / "data.bin").read_bytes() == (source / "deep" / "data.bin").read_bytes()
    cli.ok("cp", f"{source}/.", f"{box}:/tmp/flat")
    assert cli.ok("exec", box, "cat", "/tmp/flat/run.sh") == "#!/bin/sh\n"


def test_stdin_and_stdout_are_ends_of_a_copy(cli, box):
    assert cli("cp", "-", f"{box}:/tmp/note", data="by pipe")[0] == 0
    assert cli.ok("cp", f"{box}:/tmp/note", "-") == "by pipe"


def test_links_that_point_out_of_a_copy_are_left_out_and_told(cli, box, tmp_path):
    cli.ok("exec", box, "sh", "-c", "mkdir d && cd d && echo x > ok && ln -s /etc/passwd a && ln -s ../../b b && ln -s ok c")
    status, _, err = cli("cp", f"{box}:d", str(tmp_path / "d"))
    assert status == 125 and "left out 'a'" in err and "left out 'b'" in err and "2 left out" in err
    assert sorted(os.listdir(tmp_path / "d")) == ["c", "ok"]


def test_a_copy_never_writes_through_a_link_that_lies_in_its_way(cli, box, tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "d").mkdir()
    (tmp_path / "out" / "d" / "sub").symlink_to(tmp_path / "victim")
    cli.ok("exec", box, "sh", "-c", "mkdir -p d/sub && echo hostile > d/sub/file")
    status, _, err = cli("cp", f"{box}:d", str(tmp_path / "out"))
    assert status == 125 and "not safe" in err
    assert os.listdir(tmp_path / "victim") == []


def test_a_failed_copy_leaves_no_half_file(cli, box, tmp_path):
    status, _, err = cli("cp", f"{box}:no-such", str(tmp_path))
    assert status == 125 and "no-such" in err
    assert os.listdir(tmp_path) == []
    status, _, err = cli("cp", "a", "b")
    assert status == 125 and "SANDBOX:PATH" in err


def test_keys_are_made_used_and_revoked(daemon, cli, tmp_path):
    secret = cli.ok("key", "create", "--scope", "read", "cli-key").strip()
    (tmp_path / "key").write_text(secret + "\n")
    as_reader = ["--url", daemon.url, "--key-file", str(tmp_path / "key")]
    assert cli("ps", *as_reader)[0] == 0
    status, _, err = cli("create", *as_reader)
    assert status == 125 and "scope" in err
    key = [k for k in json.loads(cli.ok("key", "ls", "--json")) if k["name"] == "cli-key"][-1]
    assert cli("key", "revoke", key["id"])[0] == 0
    status, _, err = cli("ps", *as_reader)
    assert status == 125 and "key" in err
    assert secret not in cli.ok("key", "ls")


def test_webhooks_are_added_listed_and_removed(cli):
    secret = cli.ok("webhook", "add", "--types", "sandbox", "https://example.com/cli").strip()
    hook = [h for h in json.loads(cli.ok("webhook", "ls", "--json")) if h["url"] == "https://example.com/cli"][-1]
    table = cli.ok("webhook", "ls")
    assert secret.startswith("whsec_") and secret not in table
    assert [line.split()[:3] for line in table.splitlines() if hook["id"] in line] == [[hook["id"], "https://example.com/cli", "sandbox"]]
    assert cli("webhook", "rm", hook["id"])[0] == 0
    assert hook["id"] not in cli.ok("webhook", "ls")
    status, out, err = cli("webhook", "add", "ftp://example.com/")
    assert (status, out) == (125, "") and "url" in err
    assert cli("webhook")[0] == 125 and "Usage: cloche webhook" in cli.ok("webhook", "--help")


def test_a_daemon_that_is_not_there_is_said_with_a_hint(cli, tmp_path):
    status, out, err = cli("ps", "--url", f"unix:{tmp_path}/none.sock")
    assert (status, out) == (125, "")
    assert err.startswith("cloche: ") and "hint: is the daemon up" in err


def test_versions_are_told(cli):
    versions = json.loads(cli.ok("version", "--json"))
    assert versions["cloche"] == versions["daemon"]


COMMANDS = ["run", "create", "exec", "shell", "ps", "inspect", "logs", "cp", "signal", "rm", "key", "webhook", "serve", "doctor", "version"]


@pytest.mark.parametrize("command", [*COMMANDS, "key create", "key ls", "key revoke"])
def test_every_command_explains_itself(cli, command):
    out = cli.ok(*command.split(), "--help")
    assert f"cloche {command}" in out


def test_a_bad_option_is_named_and_help_is_pointed_to(cli):
    assert cli("ps", "--colour") == (
        125,
        "",
        "cloche: unknown option '--colour'\n  hint: cloche ps --help explains each option\n",
    )


def test_a_shell_has_a_terminal_of_our_size_and_gives_its_status(cli, box):
    t = Terminal(cli, "shell", box)
    t.type("stty size; echo got-$TERM\n")
    t.expect("30 100")
    t.expect("got-xterm")
    t.resize(40, 120)
    os.kill(t.process.pid, signal.SIGWINCH)
    t.type("while [ \"$(stty size)\" != '40 120' ]; do sleep 0.05; done; echo re''sized\n")
    t.expect("resized")
    t.type("sh -c 'echo as\"\"leep; exec sleep 60'\n")
    t.expect("asleep")
    t.type("\x03")
    t.type("exit 7\n")
    assert t.finish() == 7


@pytest.mark.parametrize(("words", "why", "status"), [(["nosuch"], "no such program 'nosuch'", 127), (["-w", "/nope", "true"], "cannot enter '/nope'", 125)])
def test_a_terminal_that_no_program_starts_in_says_why(cli, box, words, why, status):
    options, command = words[:-1], words[-1:]
    terminal = Terminal(cli, "exec", "-t", *options, box, *command)
    terminal.expect(why)
    assert terminal.finish() == status


def test_a_refusal_speaks_of_commands_and_not_of_routes(cli, daemon):
    _, _, err = cli("exec", "nope", "true")
    assert err == "cloche: no sandbox 'nope'\n  hint: 'cloche ps' lists those of your project\n"
    wrong = {**cli.env, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": "wrong"}
    err = subprocess.run([CLOCHE, "ps"], env=wrong, capture_output=True, text=True).stderr
    assert "hint: log in with `cloche login`, set CLOCHE_API_KEY, or give --key-file" in err
    wrong["CLOCHE_URL"] = daemon.url.replace("http:", "https:")
    err = subprocess.run([CLOCHE, "ps"], env=wrong, capture_output=True, text=True).stderr
    assert "SSL_CERT_FILE" in err and "write http://" in err


@pytest.fixture
def certified(tmp_path):
    """A server with a certificate that nobody signed but itself: (its URL, the certificate's file)."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *words], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}", str(certificate)
        server.shutdown()


@pytest.mark.parametrize("words", [["ps"], ["run", "-c", "1"], ["exec", "box", "true"], ["cp", "box:a", "-"], ["events", "-f"]])
def test_an_authority_that_is_not_known_is_told_with_the_setting_that_names_it(cli, certified, words):
    url, certificate = certified
    cli.env["CLOCHE_URL"] = url
    status, _, err = cli(*words)
    assert status == 125 and "certificate verify failed" in err and "hint: if its certificate is of an authority of your own, name that one's file in SSL_CERT_FILE" in err
    cli.env["SSL_CERT_FILE"] = certificate
    assert "certificate" not in cli(*words)[2]


def test_a_terminal_program_runs_in_a_fresh_sandbox_too(cli):
    before = cli.ids()
    t = Terminal(cli, "run", "-t", "--", "python3", "-q")
    t.expect(">>> ")
    t.type("import os; print(os.isatty(0), 6*7)\n")
    t.expect("True 42")
    t.type("exit(3)\n")
    assert t.finish() == 3
    assert cli.ids() == before
