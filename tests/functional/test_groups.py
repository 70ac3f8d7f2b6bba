# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of one group reach each other by name; what becomes of that when they pause, end, start again, or are copied."""

import uuid

import pytest
from cloche import Client, ClocheError
from cloche.errors import Conflict
from harness.daemon import PATIENCE, Daemon, end, wait_for
from harness.members import PORT, RESET, STREAM, ask, reaches, serve
from harness.running import running


@pytest.fixture
def group():
    """A name that no other test has."""
    return f"g-{uuid.uuid4().hex[:12]}"


def decisions(client, sandbox, **facts):
    events = client.events(sandbox=sandbox.id, type="policy.decided")
    return [e["data"] for e in events if all(e["data"].get(k) == v for k, v in facts.items())]


@pytest.mark.vm
def test_members_reach_each_other_by_name_and_nothing_else(make_sandbox, client, group):
    """Whoever came first: the one that was there finds the one that came later, and the other way round."""
    app = make_sandbox(group=group, alias="app")
    db = serve(make_sandbox(group=group, alias="db"))
    assert (db.info.group, db.info.alias) == (group, "db")
    assert reaches(app, "db", db)
    serve(app, 22)  # as any other port
    assert reaches(db, "app", app, 22)
    assert app.network()["kind"] == "deny-all"
    assert ask(app, "example.com", 80)["error"]
    assert ask(app, "nobody")["error"]
    said = app.explain_network(f"tcp://db:{PORT}")
    assert (said["allowed"], said["member"], said["rule"]) == (True, db.id, None)
    for other in ("tcp://db:53", "tcp://nobody:80", "tcp://app:80"):  # not another member's, none, its own
        said = app.explain_network(other)
        assert (said["allowed"], said["member"]) == (False, None), other
    allowed = wait_for(lambda: decisions(client, app, verdict="allowed"), 10 * PATIENCE, "the decision")
    assert (allowed[0]["name"], allowed[0]["port"], allowed[0]["out_bytes"], allowed[0]["reason"]) == ("db", PORT, 5, "it is a member of the group")
    assert decisions(client, app, verdict="denied", name="example.com")


def test_a_name_is_an_alias_and_its_own_means_itself(make_sandbox, group):
    one = serve(make_sandbox(name=f"{group}-db", group=group))
    two = make_sandbox(group=group, alias="with_underscore")
    assert one.info.alias == f"{group}-db" and reaches(two, f"{group}-db", one)
    assert ask(one, f"{group}-db") == {"said": f"{one.id} 5", "peer": "127.0.0.1"}
    one.update(name=f"{group}-other")  # it is known by the alias that it came with
    assert reaches(two, f"{group}-db", one)


def test_much_passes_unchanged_and_is_counted_at_both_ends(make_sandbox, group):
    app, db = make_sandbox(group=group, alias="app"), serve(make_sandbox(group=group, alias="db"))
    size = 20_000_000
    assert ask(app, "db", size=size)["said"] == f"{db.id} {size}"
    wait_for(lambda: app.usage()["usage"]["network_out_bytes"] >= size, 10 * PATIENCE, "the bytes of who sent")
    wait_for(lambda: db.usage()["usage"]["network_in_bytes"] >= size, 10 * PATIENCE, "the bytes of who got them")


def test_a_group_needs_no_network_and_a_network_no_group(walled):
    """With a policy for the outside both are there."""
    app, db = walled({"allow": ["allowed.test"]}, group="both", alias="app"), walled(group="both", alias="db")
    serve(db.sandbox)
    assert reaches(app.sandbox, "db", db.sandbox) and app.get("allowed.test")[0] == 200
    assert db.get("allowed.test")[0] == 403
    app.sandbox.set_network("deny-all")
    assert reaches(app.sandbox, "db", db.sandbox) and app.get("allowed.test")[0] == 403
    app.sandbox.set_network({"deny": ["*"], "limits": {"connections": 10}})
    assert reaches(app.sandbox, "db", db.sandbox)


def test_what_cannot_be_a_member_is_refused_with_the_field(client, make_sandbox, group):
    make_sandbox(group=group, alias="db")
    with pytest.raises(Conflict) as twice:
        client.create(group=group, alias="db")
    assert twice.value.field == "alias" and "another alias" in twice.value.hint
    for fields, field in (({"group": group}, "alias"), ({"alias": "db"}, "alias"), ({"group": "No", "alias": "db"}, "group"),
                          ({"group": group, "alias": "a.b"}, "alias"), ({"group": group, "alias": "example.com"}, "alias"),
                          ({"group": group, "alias": "localhost"}, "alias"), ({"group": group, "alias": "127"}, "alias"),
                          ({"group": group, "alias": "DB"}, "alias"), ({"group": group, "alias": "-x"}, "alias")):
        with pytest.raises(ClocheError) as refused:
            client.create(**fields)
        assert (refused.value.code, refused.value.field) == ("invalid_field", field), fields
    assert [s.info.alias for s in client.list(group=group)] == ["db"]


@pytest.mark.jail("64 machines are more than a test has memory for")
def test_a_group_has_so_many_members(client, make_sandbox, group):
    members = [make_sandbox(group=group, alias=f"m{i}", limits={"memory_mib": 32}) for i in range(64)]
    with pytest.raises(ClocheError) as full:
        client.create(group=group, alias="one-more")
    assert (full.value.code, full.value.field) == ("limit_exceeded", "group")
    assert reaches(members[0], "m63", serve(members[63]))
    assert len(list(client.list(group=group, page_size=20))) == 64
    end(members.pop())
    make_sandbox(group=group, alias="one-more")


def test_a_paused_member_is_refused_with_the_reason_or_wakes(client, make_sandbox, group):
    app = make_sandbox(group=group, alias="app")
    still, wakes = (serve(make_sandbox(group=group, alias=a, auto_resume=a == "wakes")) for a in ("still", "wakes"))
    for member in (still, wakes):
        member.pause(to="memory")
    assert reaches(app, "wakes", wakes)
    assert ask(app, "still")["error"] in RESET
    wait_for(lambda: decisions(client, app, name="still", reason="the member is paused"), 10 * PATIENCE, "the reason")
    still.resume()
    assert reaches(app, "still", still)


def test_a_stopped_persistent_member_starts_when_it_is_asked_for(client, make_sandbox, group):
    app, db = make_sandbox(group=group, alias="app"), make_sandbox(group=group, alias="db", persistent=True)
    db.stop()
    assert ask(app, "db")["error"] in RESET  # it runs, and nothing listens in it
    wait_for(lambda: decisions(client, app, name="db", reason="nothing listens on that port of the member"), 10 * PATIENCE, "the reason")
    assert db.refresh().state == "running"
    assert reaches(app, "db", serve(db)) and reaches(db, "app", serve(app))


def test_a_member_that_ends_takes_its_streams_and_its_name_along(make_sandbox, group):
    app, db = make_sandbox(group=group, alias="app"), serve(make_sandbox(group=group, alias="db"))
    stream = app.start(["python3", "-S", "-c", STREAM, "db", str(PORT)])
    said = (event.data for event in stream.output() if event.type == "stdout")
    assert next(said) == b"open\n"
    db.delete()
    assert b"".join(said) == b"cut\n"
    assert ask(app, "db")["error"]
    other = serve(make_sandbox(group=group, alias="db"))  # its name is free, and its address is another's
    assert reaches(app, "db", other)


def test_a_copy_is_in_no_group(make_sandbox, group):
    db = serve(make_sandbox(group=group, alias="db"))
    app = make_sandbox(group=group, alias="app")
    (copy,) = app.fork(memory=False)
    try:
        assert (copy.info.group, copy.info.alias) == (None, None)
        assert ask(copy, "db")["error"] and ask(copy, "198.18.2.1")["error"]
        assert reaches(app, "db", db)
    finally:
        copy.delete()


def test_members_find_each_other_again_after_the_parts_were_killed():
    with running(Daemon()) as daemon, Client(daemon.url, daemon.key) as client:
        with client.create(group="g", alias="app") as app, client.create(group="g", alias="db") as db:
            serve(db)
            for part in ("wall", "gateway", "broker"):
                daemon.kill_parts(part)
                wait_for(lambda: app.network()["in_force"] and db.network()["in_force"], 30 * PATIENCE, "the doors")
                wait_for(lambda: reaches(app, "db", db), 30 * PATIENCE, f"the member after the end of the {part}")
            assert app.refresh().group == "g"


def test_the_command_line_makes_lists_and_removes_a_group(cli, group):
    status, db, err = cli("create", "--group", group, "--alias", "db")
    assert status == 0, err
    status, out, err = cli("run", "--group", group, "--alias", "job", "--", "getent", "ahosts", "db")
    assert status == 0 and out.startswith("198.18.2."), err
    assert cli("ps", "-q", "--group", group)[1].split() == [db.strip()]
    assert cli("rm", "--group", group)[1].split() == [db.strip()]
    assert cli("ps", "-q", "--group", group)[1] == ""


@pytest.mark.parametrize("with_memory", [True, False])
def test_copies_can_be_members_and_are_in_no_group_unless_it_is_said(make_sandbox, group, with_memory):
    """The program inside goes on in its copy, and finds there the members of the copy's own group."""
    source = make_sandbox()
    source.run("echo kept > kept")
    db = serve(make_sandbox(group=group, alias="db"))
    forks = source.fork(2, memory=with_memory, group=group, alias="try")
    try:
        assert [(f.info.group, f.info.alias) for f in forks] == [(group, "try-1"), (group, "try-2")]
        assert reaches(forks[0], "db", db) and forks[0].run("cat kept").stdout == "kept\n"
        assert reaches(db, "try-2", serve(forks[1]))
        with pytest.raises(Conflict):
            source.fork(memory=with_memory, group=group, alias="db")
        (alone,) = db.fork(memory=False)
        assert alone.info.group is None and ask(alone, "try-1")["error"]
        alone.delete()
    finally:
        for fork in forks:
            fork.delete()
