# SPDX-License-Identifier: Apache-2.0
"""What a fork has changed, brought to its parent: three ways, with conflicts told by path."""

import uuid

import pytest
from cloche import errors
from harness.trees import CHANGE, MAKE, run_inside, walk


@pytest.fixture
def pair(sandbox):
    """A sandbox and a fork of its files."""
    sandbox.run("mkdir d && echo 1 > a && echo 1 > b && echo 1 > d/x && echo 1 > gone")
    (fork,) = sandbox.fork(1, memory=False)
    yield sandbox, fork
    fork.delete()


def cat(sandbox, *names):
    return [sandbox.run(["cat", name]).stdout.strip() for name in names]


def test_a_forks_changes_come_to_its_parent_and_its_own_stay(pair):
    parent, fork = pair
    parent.run("echo own > b; echo new > mine")
    fork.run("echo fork > a; rm gone; mkdir -p n/m; echo 2 > n/m/f; ln -s a l; chmod 700 d; sudo sh -c 'echo 3 > /usr/local/z; rm /etc/issue'")
    result = parent.apply(fork)
    assert (result["applied"], result["conflicts"]) == (True, [])
    assert cat(parent, "a", "b", "mine", "n/m/f", "l", "/usr/local/z", "d/x") == ["fork", "own", "new", "2", "fork", "3", "1"]
    assert parent.run("test -e gone || test -e /etc/issue || test -e /.cloche.new || test -e /usr/.cloche.new").exit_code == 1
    assert parent.run("stat -c %a,%U d n/m").stdout == "700,user\n755,user\n"
    assert parent.apply(fork.id)["conflicts"] == []  # the same again changes nothing


def test_conflicts_are_told_and_nothing_is_applied_unless_asked_for(pair):
    parent, fork = pair
    fork.run("echo fork > a; echo fork > b; rm gone; rm -r d; echo same > s")
    parent.run("echo own > a; echo 2 >> gone; echo 2 > d/y; echo same > s")
    with pytest.raises(errors.ApplyConflict) as caught:
        parent.apply(fork)
    assert {c["path"]: c["kind"] for c in caught.value.conflicts} == {
        "/home/user/a": "modified", "/home/user/d": "deleted", "/home/user/gone": "deleted",
    }  # fmt: skip
    assert cat(parent, "a", "b", "d/y") == ["own", "1", "2"]
    assert parent.apply(fork, on_conflict="skip")["conflict_count"] == 3
    assert cat(parent, "a", "b", "d/y") == ["own", "fork", "2"]
    parent.apply(fork, on_conflict="theirs")
    assert cat(parent, "a", "b", "s") == ["fork", "fork", "same"]
    assert parent.run("test -e d || test -e gone").exit_code == 1
    with pytest.raises(errors.ClocheError, match="on_conflict"):
        parent.apply(fork, on_conflict="mine")


def test_a_diff_that_is_applied_makes_both_the_same(make_sandbox):
    seed = uuid.uuid4().int & 0xFFFFFF
    parent = make_sandbox()
    run_inside(parent, MAKE, seed)
    (fork,) = parent.fork(1, memory=False)
    with fork:
        run_inside(fork, CHANGE, seed + 1)
        parent.apply(fork)
        ours, theirs = walk(parent), walk(fork)
        assert ours["files"].keys() == theirs["files"].keys(), f"seed {seed}"
        for path, wanted in theirs["files"].items():
            got = ours["files"][path]
            assert {k: got[k] for k in got if k != "mtime"} == {k: wanted[k] for k in wanted if k != "mtime"}, (seed, path)
        assert parent.diff(fork.id)["changes"] == [], f"seed {seed}"


def test_siblings_and_snapshots_apply_and_strangers_do_not(client, sandbox, make_sandbox):
    one, other = sandbox.fork(2, memory=False)
    with one, other:
        one.run("echo 1 > one")
        other.apply(one)
        assert cat(other, "one") == ["1"]
        saved = one.snapshot()["id"]
        sandbox.apply(saved)
        assert cat(sandbox, "one") == ["1"]
        client.delete_snapshot(saved)
        with pytest.raises(errors.Conflict, match="both come from"):
            make_sandbox().apply(one)
        with pytest.raises(errors.NotFound):
            sandbox.apply("sb_none")


def test_the_command_line_applies_to_the_parent(cli, pair):
    parent, fork = pair
    fork.run("echo fork > a")
    assert cli.ok("apply", fork.id) == "1 changes, 0 conflicts\n"
    fork.run("echo 2 > a")
    parent.run("echo 3 > a")
    status, out, _ = cli("apply", fork.id)
    assert (status, out) == (1, "conflict /home/user/a\n")
    assert "1 conflicts" in cli.ok("apply", "--to", parent.id, "--on-conflict", "theirs", fork.id)
    assert cat(parent, "a") == ["2"]
