# SPDX-License-Identifier: Apache-2.0
"""A snapshot that one node of a cluster has taken outlives that node: whole daemons, a real PostgreSQL, and a directory as the store of objects."""

import contextlib
import http.client
import json
import os
import signal
import threading

import pytest
from harness.cluster import Database
from harness.daemon import BUILD, wait_for
from harness.stored import Directory, await_up, make_template, place_of, store_stands_still, workers
from harness.whole_node import cluster_of

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    store = Directory(place_of(tmp_path_factory.mktemp("objects")) / "store")
    database = Database()
    try:
        database.make("one")
        with cluster_of(database, "a", "b", options=lambda name: store.options) as nodes:
            for n in nodes:
                n.database, n.store = database, store
            yield nodes
    finally:
        database.close()


def snapshot(node, key, i):
    return node.ok("GET", f"/v1/snapshots/{i}", key=key)


def await_durable(node, key, i):
    wait_for(lambda: snapshot(node, key, i)["durable"], 120, f"{i} is durable: {snapshot(node, key, i)} {node.daemon.log()[-2500:]}")
    assert snapshot(node, key, i)["cluster"] == {"state": "durable", "message": None, "hint": None}


FILL = "echo kept > /root/kept && ln -s kept /root/link && head -c 9000000 /dev/urandom > /root/noise && sha256sum < /root/noise > /root/sum && rm -f /etc/motd"
LOOK = "cat /root/link && sha256sum < /root/noise | cmp - /root/sum && test ! -e /etc/motd && echo $COLOUR"


def fetches(node, i):
    return sum('"snapshot.fetch"' in line and f'"{i}"' in line for line in node.daemon.log().splitlines())


@contextlib.contextmanager
def taken_on(node, key, script="echo kept > /kept", template="host", **fields):
    """A durable snapshot."""
    with node.client(key).create(template=template) as sandbox:
        done = sandbox.run(["sh", "-c", script], user="root", timeout=60)
        assert done.exit_code == 0, done.stderr
        i = node.ok("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", fields, key=key)["id"]
    await_durable(node, key, i)
    try:
        yield i
    finally:
        node.ok("DELETE", f"/v1/snapshots/{i}", key=key)


@contextlib.contextmanager
def cordoned(node, key):
    def is_so(on):
        status, answer = node.call("POST", "/v1/sandboxes", {"template": "host", "group": "here", "alias": "here"}, key=key)  # of a group: no other node makes it
        if status == 201:
            node.ok("DELETE", f"/v1/sandboxes/{answer['id']}", key=key)
        return (status != 201) == on

    node.ask("node", "cordon")
    try:
        wait_for(lambda: is_so(True), 60, "it hears of it")
        yield
    finally:
        node.ask("node", "uncordon")
        wait_for(lambda: is_so(False), 60, "it hears of it")


def attempt(node, key, i):
    """Status and answer of a create; None: the connection has ended. What is made goes again, and the copy with it."""
    try:
        status, answer = node.call("POST", "/v1/sandboxes", {"snapshot": i}, key=key, timeout=100)
    except (OSError, http.client.HTTPException):
        return None, None
    if status == 201:
        node.ok("DELETE", f"/v1/sandboxes/{answer['id']}", key=key)
        wait_for(lambda: not copies(node), 60, f"the copy goes with its last sandbox: {copies(node)}")
    return status, answer


def copies(node):
    return sorted(p.name for p in (node.data / "layers").iterdir() if p.name.startswith("sn_"))


def leaves_nothing(node, key):
    wait_for(lambda: not copies(node) and not [s for s in node.ok("GET", "/v1/sandboxes", key=key)["sandboxes"] if s["state"] == "running"], 60, f"nothing is left: {copies(node)}")


@contextlib.contextmanager
def a_create_that_waits(node, key, i):
    """While the block runs, a client waits for a snapshot whose files are on their way; gives where its answer will be."""
    answers, before = [], fetches(node, i)
    client = threading.Thread(target=lambda: answers.append(attempt(node, key, i)))
    with store_stands_still(node):
        client.start()
        wait_for(lambda: fetches(node, i) > before and files_of(node), 60, "it is on its way")
        yield answers
    client.join(120)
    assert not client.is_alive()


def files_of(node):
    """Nameless files below the templates that the member is to fill, as descriptors of it."""
    found = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{node.member_pid()}/fd"):
            with contextlib.suppress(OSError):
                path = f"/proc/{node.member_pid()}/fd/{fd}"
                if "/templates/#" in os.readlink(path):
                    found.append(path)
    return found


def rows_of(node):
    return int(node.database.ask("SELECT count(*) FROM cluster.snapshots WHERE gone_at IS NULL", "one"))


def test_a_snapshot_becomes_durable_and_starts_sandboxes_on_another_node_when_its_own_is_cordoned(pair):
    a, b = pair
    key = a.daemon.key
    with a.client(key).create(template="host", env={"COLOUR": "blue"}) as sandbox:
        assert sandbox.run(["sh", "-c", FILL], user="root").exit_code == 0
        taken = a.ok("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", {}, key=key)["id"]
    await_durable(a, key, taken)
    assert b"blue" not in b"".join(p.read_bytes() for p in a.store.objects("chunks"))
    # While its node takes creates, they are made there.
    made = b.ok("POST", "/v1/sandboxes", {"snapshot": taken}, key=key)
    assert fetches(b, taken) == 0
    b.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)
    with cordoned(a, key), b.client(key).create(snapshot=taken) as sandbox:
        seen = sandbox.run(["sh", "-c", LOOK], user="root")
        assert (seen.exit_code, seen.stdout) == (0, "kept\nblue\n"), seen
        assert fetches(b, taken) == 1
        assert [s["id"] for s in b.ok("GET", "/v1/snapshots", key=key)["snapshots"]].count(taken) == 1
    wait_for(lambda: not copies(b), 60, "the copy goes with its last sandbox")
    a.ok("DELETE", f"/v1/snapshots/{taken}", key=key)
    wait_for(lambda: rows_of(a) == 0, 60, "its row goes")


def test_it_outlives_its_node_and_its_template_and_many_who_want_it_get_it_once(pair):
    a, b = pair
    key = a.daemon.key
    make_template(a, key, "short-lived", "of a", size=2_000_000)
    with taken_on(a, key, "cat /mark > /kept", template="short-lived") as i, contextlib.ExitStack() as stack:
        make_template(a, key, "short-lived", "newer", size=1000, replace=True)
        with a.client(key).create(template="host") as sandbox:
            other = a.ok("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", {}, key=key)["id"]
        a.daemon.stop()
        stack.callback(lambda: (a.daemon.start(), a.await_state("held"), await_up(a)))
        wait_for(lambda: next(n for n in b.ask("node", "ls")["nodes"] if n["name"] == "a")["state"] in ("silent", "fenced"), 60, "b misses a")
        made = []
        clients = [threading.Thread(target=lambda: made.append(b.ok("POST", "/v1/sandboxes", {"snapshot": i}, key=key, timeout=100)["id"])) for _ in range(6)]
        for c in clients:
            c.start()
        for c in clients:
            c.join(120)
        assert len(made) == 6 and fetches(b, i) == 1
        for one in made:
            assert b.client(key).get(one).run(["cat", "/kept"]).stdout == "of a\n"
            b.ok("DELETE", f"/v1/sandboxes/{one}", key=key)
        wait_for(lambda: not copies(b), 60, "the copy goes")  # a list would have what a has told last, too
        # One that is not durable is not gone for that.
        assert other != i and b.database.ask(f"SELECT count(*) FROM cluster.snapshots WHERE id = '{other}'", "one") in ("0", "1")


def test_a_database_that_lies_about_it_brings_nothing_into_a_sandbox(pair):
    a, b = pair
    key = a.daemon.key
    project = a.ok("POST", "/v1/projects", {"name": "thieves"})
    thief = a.ok("POST", "/v1/keys", {"name": "k", "project": project["id"]})["secret"]
    wait_for(lambda: b.call("GET", "/v1/sandboxes", key=thief)[0] == 200, 60, "b knows the thief")
    with taken_on(a, key, "echo right > /kept") as i, taken_on(a, key, "echo other > /kept") as other, cordoned(a, key):
        def row(which):
            return json.loads(a.database.ask(f"SELECT row_to_json(s) FROM cluster.snapshots s WHERE id = '{which}'", "one"))

        def say(**changed):
            a.database.ask("UPDATE cluster.snapshots SET " + ", ".join(f"{name} = '{value if isinstance(value, str) else json.dumps(value)}'" for name, value in changed.items()) + f" WHERE id = '{i}'", "one")

        right, of_other = row(i), row(other)
        record = right["record"]
        assert attempt(b, thief, i)[0] in (404, 503)  # its id alone is worth nothing
        lies = {
            "another's files": {"record": of_other["record"]},
            "another's files as its own": {"record": {**record, "files": {**of_other["record"]["files"], "seal": record["files"]["seal"]}}},
            "another size": {"record": {**record, "files": {**record["files"], "bytes": record["files"]["bytes"] + 1}}},
            "another digest": {"record": {**record, "files": {**record["files"], "digest": of_other["record"]["files"]["digest"]}}},
            "another generation": {"record": {**record, "generation": 7}},
            "no seal": {"record": {**record, "files": {**record["files"], "seal": "0" * 64}}},
            "another sandbox": {"source_id": of_other["source_id"]},
            "no shape": {"record": {"files": 7}},
        }
        for what, lie in lies.items():
            say(**lie)
            status, answer = attempt(b, key, i)
            assert (status, answer["error"]["code"]) == (409, "conflict"), (what, answer)
            leaves_nothing(b, key)
            say(record=record, source_id=right["source_id"])
        say(project_id=project["id"])  # as if it were the thief's
        status, answer = attempt(b, thief, i)
        assert (status, answer["error"]["code"]) == (409, "conflict") and "sealed" in answer["error"]["message"], answer
        assert attempt(b, key, i)[0] in (404, 503)
        say(project_id=right["project_id"])
        assert attempt(b, key, i)[0] == 201  # the control


def test_a_store_with_other_bytes_brings_nothing_into_a_sandbox(pair):
    a, b = pair
    key = a.daemon.key
    before = set(a.store.objects("chunks"))
    with taken_on(a, key, "head -c 9000000 /dev/urandom > /noise") as i, cordoned(a, key):
        chunks = sorted(set(a.store.objects("chunks")) - before)
        assert len(chunks) >= 2
        right = chunks[0].read_bytes()
        for wrong in (bytes(len(right)), right[:-1], chunks[1].read_bytes(), b""):
            chunks[0].write_bytes(wrong)
            status, answer = attempt(b, key, i)
            assert (status, answer["error"]["code"]) == (503, "unavailable") and "store of objects" in answer["error"]["message"], answer
            leaves_nothing(b, key)
        chunks[0].write_bytes(right)
        assert attempt(b, key, i)[0] == 201


def test_a_member_that_writes_more_than_it_should_fills_no_disk(pair):
    a, b = pair
    key = a.daemon.key
    with taken_on(a, key, "head -c 3000000 /dev/urandom > /noise") as i, cordoned(a, key):
        with a_create_that_waits(b, key, i) as answers:
            (path,) = files_of(b)
            fd = os.open(path, os.O_RDWR)  # what the member can do, it can do for as long as it likes
        try:
            assert answers[0][0] == 409, answers
            os.ftruncate(fd, 0)
            for _ in range(3):
                os.pwrite(fd, bytes(64 << 20), 0)
                wait_for(lambda: os.fstat(fd).st_size == 0, 30, "it is emptied")
        finally:
            os.close(fd)
        with a_create_that_waits(b, key, i) as answers:  # and while it is being filled
            (path,) = files_of(b)
            fd = os.open(path, os.O_RDWR)
            os.pwrite(fd, bytes(64 << 20), 0)
            wait_for(lambda: os.fstat(fd).st_size == 0, 30, "it is emptied")
            os.close(fd)
        assert answers[0][0] in (409, 413, 503), answers
        leaves_nothing(b, key)
        assert attempt(b, key, i)[0] == 201


def test_whoever_dies_in_the_middle_leaves_nothing_and_it_comes_the_next_time(pair):
    a, b = pair
    key = a.daemon.key
    with a.client(key).create(template="host") as sandbox, store_stands_still(a):
        sandbox.run(["sh", "-c", "head -c 9000000 /dev/urandom > /noise"], user="root")
        i = a.ok("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", {}, key=key)["id"]
        wait_for(lambda: files_of(a), 60, "it is being sent")
        assert not snapshot(a, key, i)["durable"] and snapshot(a, key, i)["cluster"]["state"] == "sending"
        os.kill(a.member_pid(), signal.SIGKILL)
    for part in ("gateway", "broker"):
        a.await_state("held")
        os.kill(a.daemon._part(part), signal.SIGKILL)
        await_up(a)
    a.await_state("held")
    await_durable(a, key, i)
    with cordoned(a, key):
        for part in ("member", "gateway", "broker"):
            wait_for(lambda: b.member_pid() and len(workers(b)) == 8 and b.state() == "held", 60, "its member is up")
            with a_create_that_waits(b, key, i) as answers:
                os.kill(b.member_pid() if part == "member" else b.daemon._part(part), signal.SIGKILL)
                wait_for(lambda: answers, 60, "its client is told")
            await_up(b)
            leaves_nothing(b, key)
        wait_for(lambda: b.member_pid() and len(workers(b)) == 8 and b.state() == "held", 60, "its member is up")
        assert attempt(b, key, i)[0] == 201
    a.ok("DELETE", f"/v1/snapshots/{i}", key=key)


def test_a_cordoned_node_still_sends_what_it_has(pair):
    a, _ = pair
    key = a.daemon.key
    with a.client(key).create(template="host") as sandbox, cordoned(a, key):
        i = a.ok("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", {}, key=key)["id"]
        await_durable(a, key, i)
        a.ok("DELETE", f"/v1/snapshots/{i}", key=key)
