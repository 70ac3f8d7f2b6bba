# SPDX-License-Identifier: Apache-2.0
"""Groups as a way around the walls between sandboxes: from outside of one, to the host, by floods, and after its end. Each attempt is shown to work for a member."""

import socket
import threading
import uuid

import pytest
from cloche import Client
from harness.daemon import PATIENCE, wait_for
from harness.members import HOLD, PORT, RESET, STREAM, ask, reaches, serve
from harness.walled import REFUSED

ADDRESSES = [f"198.18.2.{n}" for n in (0, 1, 2, 3, 254, 255)]
NOTHING = REFUSED | RESET | {"no such name", "EHOSTUNREACH"}


@pytest.fixture
def group():
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def db(make_sandbox, group):
    return serve(make_sandbox(group=group, alias="db"))


def assert_reaches_nothing(sandbox, names=("db",)):
    for host in (*names, *ADDRESSES):
        assert ask(sandbox, host).get("error") in NOTHING, host


@pytest.mark.vm
def test_N35_nobody_outside_of_a_group_reaches_its_members(make_sandbox, group, db):
    """Neither without a group nor from another one, by name or by the addresses that members have."""
    assert reaches(make_sandbox(group=group, alias="app"), "db", db)
    assert_reaches_nothing(make_sandbox(group=f"{group}-2", alias="app"))
    assert_reaches_nothing(make_sandbox(network="allow-all"), (db.id, f"db.{group}"))
    assert_reaches_nothing(make_sandbox(network={"allow": ["db"]}))


def test_N35_a_group_of_another_project_is_another_group(daemon, project_keys, make_sandbox, group, db):
    app = make_sandbox(group=group, alias="app")
    with Client(daemon.url, project_keys["other"]) as other, other.create(group=group, alias="spy") as spy:
        assert_reaches_nothing(spy, ("db", "app"))
        assert [s.id for s in other.list(group=group)] == [spy.id]
        with other.create(group=group, alias="db") as theirs:  # the name is free there
            serve(theirs)
            assert reaches(spy, "db", theirs) and reaches(app, "db", db)
            assert ask(app, "spy")["error"] in NOTHING


@pytest.mark.jail("the address of the host as a jail would see it")
def test_N35_a_members_port_is_never_the_hosts(daemon, make_sandbox, group, db):
    """What is dialled is the member's own loopback: a port that only the host has is closed there."""
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):  # it is there
            pass
        app = make_sandbox(group=group, alias="app")
        for number in (port, daemon.port, 53):
            assert ask(app, "db", number).get("error") in NOTHING | {"closed"} or not ask(app, "db", number).get("said")
        host.settimeout(0)
        host.accept()[0].close()  # the control's own
        with pytest.raises(BlockingIOError):
            host.accept()
    assert reaches(app, "db", db)


def test_N35_a_members_resolver_answers_nobody_else(walled):
    """Port 53 of a sandbox is its own door's: asked there, names would be judged by its policy and not by the asker's."""
    free, closed = walled({"allow": ["allowed.test"]}, group="dns", alias="free"), walled(group="dns", alias="closed")
    assert free.dial("dns", "allowed.test", "A")["answers"] == 1
    ask_free = """
import socket, struct
c = socket.create_connection(("free", 53), timeout=20)
q = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + b"\\7allowed\\4test\\0" + b"\\0\\1\\0\\1"
c.sendall(struct.pack(">H", len(q)) + q)
print(c.recv(600)[-4:].hex())
"""
    assert closed.sandbox.run(["python3", "-S", "-c", ask_free]).stdout.strip() == "c6120002"  # of its own door: denied


def test_N35_a_name_of_another_cannot_be_taken(client, make_sandbox, group, db):
    """A member chooses one alias at its create, which is one word that nobody else has there: no name of the internet, and none of a member."""
    app = make_sandbox(group=group, alias="app", network="allow-all")
    for alias in ("db", "example.com", "localhost", "198.18.2.1", "db.", "*"):
        with pytest.raises(Exception) as refused:
            client.create(group=group, alias=alias)
        assert refused.value.code in ("conflict", "invalid_field")
    assert reaches(app, "db", db) and reaches(app, "DB", db)


@pytest.mark.slow
def test_N36_a_member_that_floods_holds_up_nobody(client, make_sandbox, group, db):
    """It takes all connections that it gets, and still another member and the daemon answer."""
    flood, app = make_sandbox(group=group, alias="flood"), make_sandbox(group=group, alias="app")
    held = flood.start(["python3", "-S", "-c", HOLD, "db", str(PORT), "400"])
    n = int(next(e.data for e in held.output() if e.type == "stdout"))
    assert 50 < n < 400, n
    for _ in range(3):
        assert reaches(app, "db", db)
    asked = threading.Event()
    threading.Thread(target=lambda: (client.health(), asked.set())).start()
    assert asked.wait(20 * PATIENCE)
    held.kill()
    wait_for(lambda: reaches(flood, "db", db), 30 * PATIENCE, "the room that it had")


def test_N37_who_has_left_keeps_no_stream_and_no_way_back(make_sandbox, group, db):
    """Of both ends: the one that goes and the one that stays."""
    app, other = make_sandbox(group=group, alias="app"), serve(make_sandbox(group=group, alias="other"))
    streams = [s.start(["python3", "-S", "-c", STREAM, to, str(PORT)]) for s, to in ((app, "db"), (db, "other"), (other, "db"))]
    said = [(e.data for e in s.output() if e.type == "stdout") for s in streams]
    assert [next(one) for one in said] == [b"open\n"] * 3
    address = ask(app, "db")["peer"]
    db.delete()
    assert b"".join(said[0]) == b"cut\n" and b"".join(said[2]) == b"cut\n"
    assert ask(app, "db")["error"] in NOTHING and ask(app, address)["error"] in NOTHING
    assert reaches(app, "other", other)
