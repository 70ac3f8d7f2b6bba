# SPDX-License-Identifier: Apache-2.0
"""What shells offer when somebody presses Tab, asked of the shells themselves."""

import os
import pty
import select
import subprocess
import time

from harness.daemon import BUILD


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


def test_without_a_daemon_there_are_no_names_and_no_complaint(cli):
    cli.env["CLOCHE_URL"] = "unix:/nonexistent"
    assert cli("completion", "--words", "--", "exec", "") == (0, "", "")


def test_another_shell_is_refused_by_name(cli):
    status, _, err = cli("completion", "tcsh")
    assert status == 125 and "'tcsh' is none of bash, zsh, fish" in err


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


def test_zsh_completes(cli, tmp_path):
    (tmp_path / "_cloche").write_text(cli.ok("completion", "zsh"))
    (tmp_path / ".zshrc").write_text("fpath=($ZDOTDIR $fpath); autoload -U compinit; compinit -u -D; PS1='ready> '\n")
    env = {**with_cloche_first(cli), "ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "TERM": "dumb"}
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-i", "+o", "globalrcs"], env)
    try:
        assert "ready> " in read_until(fd, "ready> ")
        os.write(fd, b"cloche snapsho\t")
        assert "snapshot " in read_until(fd, "snapshot ")
    finally:
        os.close(fd)
        os.waitpid(pid, 0)


def read_until(fd, text, seconds=20):
    seen, deadline = "", time.monotonic() + seconds
    while text not in seen and time.monotonic() < deadline:
        if select.select([fd], [], [], 1)[0]:
            seen += os.read(fd, 65536).decode(errors="replace")
    return seen
