# SPDX-License-Identifier: Apache-2.0
"""What shells offer when somebody presses Tab, asked of the shells themselves."""

import json
import os
import pathlib
import pty
import select
import socket
import subprocess
import time

import pytest
from harness.daemon import BUILD

ROOT = pathlib.Path(__file__).parents[2]


def words(cli, *typed):
    return [line.split("\t")[0] for line in cli.ok("completion", "--words", "--", *typed).splitlines()]


def test_commands_and_subcommands_are_offered_by_their_beginning(cli):
    assert {"run", "snapshot", "serve"} <= set(words(cli, ""))
    assert words(cli, "snaps") == ["snapshot"]
    assert "create" in words(cli, "snapshot", "")
    assert words(cli, "template", "exp") == ["export"]
    assert {"set", "explain"} <= set(words(cli, "network", ""))
    assert words(cli, "no-such-command", "") == []


def test_every_option_of_help_is_offered(cli):
    offered = words(cli, "run", "--")
    told = [w.split()[0] for w in cli.ok("run", "--help").replace(", --", "\n--").split() if w.startswith("--") and w.strip("-")]
    assert set(offered) <= set(told) and "--timeout" in offered and "--json" in offered
    assert "--listen" in words(cli, "serve", "--l")


def test_names_of_what_is_there_are_offered_where_they_belong(cli, make_sandbox):
    sandbox = make_sandbox(name="tab-here")
    assert words(cli, "exec", "tab-") == ["tab-here"]
    assert sandbox.id in words(cli, "rm", "tab-here", sandbox.id[:8])
    assert "tab-here" in words(cli, "events", "--sandbox", "")
    assert "host" in words(cli, "run", "-T", "h")
    assert words(cli, "exec", "tab-here", "--", "") == []


LANGUAGES = ["python", "javascript", "typescript", "bash", "r", "java", "py", "js", "ts", "sh"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["code", "-l", ""], LANGUAGES),
        (["repl", "--language", "ja"], ["javascript", "java"]),
        (["run", "--language=ty"], ["--language=typescript"]),
        (["run", "--language", "=", "ba"], ["bash"]),
        (["run", "--language", "="], LANGUAGES),
        (["create", "--engine", ""], ["auto", "jail", "vm"]),
        (["create", "--allow", ""], ["pip", "npm", "apt"]),
        (["create", "--allow", "n"], ["npm"]),
        (["network", "allow", "box", "p"], ["pip"]),
        (["create", "--network", "deny"], ["deny-all"]),
        (["create", "--min-grade", "h"], ["hardware"]),
        (["create", "--on-idle", "p"], ["pause"]),
        (["key", "create", "--scope", ""], ["read", "write", "admin"]),
        (["pause", "--to", ""], ["disk", "memory"]),
        (["top", "--sort", "m"], ["memory"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["create", "--memory", ""], []),
    ],
)
def test_fixed_values_are_offered_without_a_daemon(cli, typed, offered):
    cli.env["CLOCHE_URL"] = "unix:/nonexistent"
    assert words(cli, *typed) == offered


def test_every_recipe_that_comes_along_is_offered(cli):
    assert sorted(words(cli, "template", "build", "")) == sorted(p.stem for p in (ROOT / "guest/templates").glob("*.toml"))


def test_names_of_volumes_snapshots_keys_projects_and_contexts_are_offered(cli, make_sandbox):
    sandbox = make_sandbox(name="tab-all")
    snapshot = cli.ok("snapshot", "create", "--name", "tab-snap", sandbox.id).strip()
    volume = cli.ok("volume", "create", "--size", "16m", "tab-vol").strip()
    key = next(k for k in json.loads(cli.ok("key", "ls", "--json")))["id"]
    cli.ok("context", "new", sandbox.id, "tab-context")
    try:
        assert words(cli, "volume", "rm", "tab-v") == ["tab-vol"]
        assert words(cli, "run", "--volume", "tab-v") == ["tab-vol:"]
        assert words(cli, "create", "--snapshot", "tab-s") == ["tab-snap"]
        assert words(cli, "rollback", "tab-all", "tab-") == ["tab-snap"]
        assert words(cli, "tree", "tab-") == words(cli, "diff", "tab-") == words(cli, "diff", "tab-all", "tab-") == ["tab-all", "tab-snap"]
        assert words(cli, "key", "revoke", key[:6]) and key in words(cli, "key", "revoke", "")
        assert key in words(cli, "quota", "show", "--key", "")
        assert "default" in words(cli, "usage", "--project", "def")
        assert words(cli, "context", "rm", "tab-all", "tab-") == ["tab-context"]
        assert words(cli, "cp", "tab-a") == words(cli, "cp", "file", "tab-a") == ["tab-all:"]
        assert "tab-all" in words(cli, "mcp", "--sandbox", "tab-")
    finally:
        cli.ok("snapshot", "rm", snapshot)
        cli.ok("volume", "rm", volume)


def test_a_daemon_that_does_not_answer_offers_no_names_and_holds_nobody_up(cli):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        cli.env["CLOCHE_URL"] = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        assert cli("completion", "--words", "--", "exec", "") == (0, "", "")


def test_without_a_daemon_there_are_no_names_and_no_complaint(cli):
    cli.env["CLOCHE_URL"] = "unix:/nonexistent"
    assert cli("completion", "--words", "--", "exec", "") == (0, "", "")


def test_another_shell_is_refused_by_name(cli):
    status, _, err = cli("completion", "tcsh")
    assert status == 125 and "'tcsh' is not bash, zsh or fish" in err


def with_cloche_first(cli):
    return {**cli.env, "PATH": f"{BUILD}:{os.environ['PATH']}"}


def test_bash_completes(cli, make_sandbox):
    make_sandbox(name="tab-bash")
    script = """
    source <(cloche completion bash)
    COMP_WORDS=(cloche exec tab-b) COMP_CWORD=2
    _cloche && printf '%s\\n' "${COMPREPLY[@]}"
    complete -p cloche
    """
    done = subprocess.run(["bash", "-euc", script], env=with_cloche_first(cli), capture_output=True, text=True, timeout=30)
    assert done.stdout == "tab-bash\ncomplete -o default -F _cloche cloche\n", done.stderr


def test_fish_completes(cli, tmp_path):
    script = "cloche completion fish | source; complete -C 'cloche snapsho'"
    env = {**with_cloche_first(cli), "HOME": str(tmp_path)}
    done = subprocess.run(["fish", "--no-config", "-c", script], env=env, capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[0].split("\t") == ["snapshot", "save what a sandbox is now; list and remove snapshots"], done


@pytest.mark.parametrize(("typed", "completed"), [("cloche snapsho", "snapshot "), ("cloche create --engine j", "jail "), ("cloche cp tab-z", "tab-zsh:there")])
def test_zsh_completes(cli, tmp_path, make_sandbox, typed, completed):
    make_sandbox(name="tab-zsh")
    (tmp_path / "_cloche").write_text(cli.ok("completion", "zsh"))
    (tmp_path / ".zshrc").write_text("fpath=($ZDOTDIR $fpath); autoload -U compinit; compinit -u -D; PS1='ready> '\n")
    env = {**with_cloche_first(cli), "ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "TERM": "dumb"}
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-i", "+o", "globalrcs"], env)
    try:
        assert "ready> " in read_until(fd, "ready> ")
        os.write(fd, f"{typed}\tthere".encode())
        assert completed in read_until(fd, completed)
    finally:
        os.close(fd)
        os.waitpid(pid, 0)


def read_until(fd, text, seconds=20):
    seen, deadline = "", time.monotonic() + seconds
    while text not in seen and time.monotonic() < deadline:
        if select.select([fd], [], [], 1)[0]:
            seen += os.read(fd, 65536).decode(errors="replace")
    return seen
