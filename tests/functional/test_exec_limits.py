# SPDX-License-Identifier: Apache-2.0
"""How many execs of a sandbox are kept, and how much output of each: its own limits, within the daemon's."""

import pytest
from cloche.errors import InvalidField, LimitReached

MIB = 1 << 20


def kept_bytes(sandbox, e):
    events = list(sandbox.exec(e.id).output(follow=False))
    return sum(len(x.data) for x in events), sum(x.lost_bytes for x in events)


def test_a_sandbox_keeps_as_much_output_of_an_exec_as_it_was_told_to(client):
    with client.create(limits={"output_mib": 1}) as sandbox:
        assert sandbox.info.limits["output_mib"] == 1
        size = 3 * MIB
        first = sandbox.run(f"head -c {size} /dev/zero").exec
        kept, lost = kept_bytes(sandbox, first)
        assert 0 < kept <= MIB and kept + lost == size
        assert sandbox.update(limits={"output_mib": 4}).limits["output_mib"] == 4
        second = sandbox.run(f"head -c {size} /dev/zero").exec
        assert kept_bytes(sandbox, second) == (size, 0)
        assert kept_bytes(sandbox, first) == (kept, lost)


def test_a_sandbox_keeps_as_many_execs_as_it_was_told_to(client):
    with client.create(limits={"execs": 3}) as sandbox:
        runs = [sandbox.start("read x", open_stdin=True) for _ in range(3)]
        with pytest.raises(LimitReached, match="3 execs"):
            sandbox.run("true")
        runs[0].write_stdin(b"\n", eof=True)
        runs[0].wait(60)
        newest = sandbox.run("true").exec
        assert {e.id for e in sandbox.execs()} == {runs[1].id, runs[2].id, newest.id}
        sandbox.update(limits={"execs": 2})
        with pytest.raises(LimitReached):
            sandbox.run("true")
        runs[1].kill()
        runs[1].wait(60)
        last = sandbox.run("true").exec
        assert {e.id for e in sandbox.execs()} == {runs[2].id, last.id}


@pytest.mark.parametrize("limits", [{"output_mib": 0}, {"output_mib": 1 << 30}, {"execs": 0}, {"execs": 1}, {"execs": 1 << 30}, {"execs": "many"}])
def test_limits_of_execs_stay_within_the_daemons(client, limits):
    (name,) = limits
    with pytest.raises(InvalidField, match=f"limits.{name}"):
        client.create(limits=limits)
