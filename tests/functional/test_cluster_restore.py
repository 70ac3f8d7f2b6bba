# SPDX-License-Identifier: Apache-2.0
"""A sandbox with on_node_loss "restore" outlives its node, and runs on one node at a time: whole daemons, a real PostgreSQL, and a directory as the store of
objects."""

import contextlib
import http.client
import json
import os
import signal
import threading
import time

import pytest
from harness.cluster import Database
from harness.daemon import BUILD, call, children_of, wait_for
from harness.relay import Relay
from harness.stored import Directory, await_up, place_of
from harness.whole_node import cluster_of

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")

FENCE_S = 10  # a busy machine bears less, but then each late beat is a loss
WAIT_S = 120


@pytest.fixture(scope="module")
def relays():
    return {}


@pytest.fixture(scope="module")
def pair(tmp_path_factory, relays):
    store = Directory(place_of(tmp_path_factory.mktemp("objects")) / "store")
    database = Database()

    def reached_by(name, database):
        relays[name] = Relay(database)
        return relays[name]

    try:
        database.make("one")
        with cluster_of(database, "a", "b", "c", options=lambda name: [*store.options, "--cluster-generation-every", "1s"], reached_by=reached_by, fence_after_s=FENCE_S) as nodes:
            for n in nodes:
                n.database, n.store = database, store
            nodes[0].third = nodes[2]
            nodes[2].ask("node", "cordon")  # it takes nothing
            yield nodes[:2]
    finally:
        for r in relays.values():
            r.close()
        database.close()


def key_of(node):
    return node.daemon.key


def create(node, key, **fields):
    """A sandbox of that node, which outlives it."""
    for _ in range(50):  # any node may make it
        made = node.ok("POST", "/v1/sandboxes", {"template": "host", "persistent": True, "on_node_loss": "restore", **fields}, key=key)
        if (node.data / "layers" / made["id"]).exists():
            return made["id"]
        node.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)
    raise AssertionError("it was always made elsewhere")


def show(node, key, i):
    return node.ok("GET", f"/v1/sandboxes/{i}", key=key)


def run(node, key, i, script):
    status, done = node.call("POST", f"/v1/sandboxes/{i}/execs", {"argv": ["sh", "-c", script], "user": "root"}, key=key)
    return status, done


def sh(node, key, i, script):
    done = node.client(key).get(i).run(["sh", "-c", script], user="root", timeout=60)
    assert done.exit_code == 0, done
    return done.stdout


def row(node, i):
    text = node.database.ask(f"SELECT row_to_json(o) FROM cluster.owned o WHERE sandbox_id = '{i}'", "one")
    return json.loads(text) if text else None


def await_generation(node, key, i):
    """A durable generation of its files as they are now."""
    since = time.time_ns() // 1000
    sh(node, key, i, "true")  # it is not as it was

    def newest():
        generation = show(node, key, i)["generation"]
        return generation and generation["taken_us"] >= since and generation["id"]

    return wait_for(newest, WAIT_S, f"a generation of {i}: {node.daemon.log()[-3000:]}")


def await_owner(node, i, name):
    wait_for(lambda: node.database.ask(f"SELECT n.name FROM cluster.owned o JOIN cluster.nodes n USING (node) WHERE sandbox_id = '{i}' AND gone_at IS NULL", "one") == name, WAIT_S,
             f"{name} owns it: {row(node, i)} {node.daemon.log()[-3000:]}")


def events(node, kind, key):
    status, lines = node.call("GET", f"/v1/events?type={kind}&all=1&limit=1000", key=key)
    assert status == 200, lines
    return [json.loads(line) for line in lines.splitlines()]


@contextlib.contextmanager
def killed(node):
    """Every process of the daemon dies at once; what its sandboxes run is left alone, as nobody is there to end it. It is started again afterwards."""
    launcher = node.daemon.process.pid
    pids = [launcher, *children_of(launcher)]
    for pid in list(pids):
        pids += children_of(pid)
    for pid in (p for p in pids if "cloche" in names_of(p)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    node.daemon.process.wait()
    try:
        yield
    finally:
        node.daemon.start()
        node.await_state("held")
        await_up(node)


def names_of(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as words:
            return comm.read() + words.read()
    return ""


def delete(node, key, i):
    wait_for(lambda: node.call("DELETE", f"/v1/sandboxes/{i}", key=key)[0] in (200, 204, 404, 410), WAIT_S, "it is deleted")


def test_a_sandbox_answers_on_another_node_when_its_own_is_killed(pair):
    a, b = pair
    key = key_of(a)
    i = create(a, key, name="phoenix", env={"COLOUR": "blue"}, tags={"of": "a"})
    assert show(a, key, i)["on_node_loss"] == "restore" and show(a, key, i)["restored"] is None
    await_generation(a, key, i)
    sh(a, key, i, "echo kept > /root/kept; rm -f /etc/motd")
    generation = await_generation(a, key, i)
    with killed(a):
        await_owner(b, i, "b")
        wait_for(lambda: b.call("GET", f"/v1/sandboxes/{i}", key=key)[0] == 200, WAIT_S, "b knows it")
        seen = show(b, key, i)
        assert (seen["name"], seen["tags"], seen["state"], seen["persistent"]) == ("phoenix", {"of": "a"}, "stopped", True)
        assert seen["restored"]["generation"] == generation and 0 <= seen["restored"]["lost_ms"] < 60_000
        assert sh(b, key, i, "cat /root/kept; test ! -e /etc/motd; echo $COLOUR") == "kept\nblue\n"
        assert sh(b, key, "phoenix", "echo again > /root/again; cat /root/kept") == "kept\n"
        told = [e for e in events(b, "sandbox.restored", key) if e["sandbox_id"] == i]
        assert [e["data"]["generation"] for e in told] == [generation] and told[0]["data"]["from"] == "a"
        assert b.call("POST", "/v1/sandboxes", {"template": "host", "name": "phoenix"}, key=key)[0] == 409
    # The node that is back does not go on with it, and leads there.
    wait_for(lambda: [e for e in a.daemon.log_of("sandbox.moved_away") if e["id"] == i], WAIT_S, f"a ends its own: {a.daemon.log()[-3000:]}")
    wait_for(lambda: a.call("GET", f"/v1/sandboxes/{i}", key=key)[1].get("state") == "running", WAIT_S, "a leads to b")
    assert sh(a, key, i, "cat /root/again") == "again\n"
    # A node that has never heard of it is told by that one; a body may have been lost on the way.
    answers = [run(a.third, key, i, "cat /root/again") for _ in range(2)]
    assert answers[0][0] == 200 or answers[0][1]["error"]["code"] == "node_unreachable", answers
    assert answers[1][0] == 200 and show(a.third, key, i)["state"] == "running", answers
    wait_for(lambda: not (a.data / "layers" / i).exists(), WAIT_S, "its files go")
    delete(a, key, i)
    assert row(b, i)["gone_at"] is not None


COUNT = "i=0; while sleep 0.2; do i=$((i+1)); echo $i > /root/count.new; mv /root/count.new /root/count; done"


def start_counting(node, key, i):
    node.client(key).get(i).start(["sh", "-c", COUNT], user="root")
    wait_for(lambda: sh(node, key, i, "cat /root/count 2>/dev/null || true").strip(), 60, "it counts")


def counted(node, i):
    """By the files of its layer, without asking the daemon."""
    with contextlib.suppress(OSError, ValueError):
        found = [p for p in (node.data / "layers" / i).rglob("root/count")]
        return int(found[0].read_text())
    return None


def refusal(node, key, i):
    """Status and code; None: the gateway has died meanwhile."""
    try:
        status, answer = node.call("GET", f"/v1/sandboxes/{i}", key=key)
    except (OSError, http.client.HTTPException):
        return None, None
    return (status, answer.get("error", {}).get("code"))


def test_a_node_that_is_cut_off_stands_still_before_another_one_goes_on_and_never_both(pair, relays):
    a, b = pair
    key = key_of(a)
    i, other = create(a, key), create(a, key, on_node_loss="end")
    await_generation(a, key, i)
    start_counting(a, key, i)
    start_counting(a, key, other)
    await_generation(a, key, i)
    relays["a"].cut()
    try:
        wait_for(lambda: refusal(a, key, i) == (503, "fenced"), WAIT_S, "a is fenced")
        assert run(a, key, i, "true")[1]["error"]["code"] == "fenced"
        wait_for(lambda: [e for e in a.daemon.log_of("sandbox.fenced") if e["id"] == i], 60, "it says so")
        await_owner(b, i, "b")
        frozen = counted(a, i)
        beside = counted(a, other)
        assert int(sh(b, key, i, "cat /root/count")) <= frozen
        wait_for(lambda: counted(a, other) > beside + 5, 60, "the control goes on")
        assert counted(a, i) == frozen, "it has gone on on both nodes"
        assert refusal(a, key, i) == (503, "fenced")
        assert a.call("DELETE", f"/v1/sandboxes/{i}", key=key)[0] == 503
        sh(b, key, i, "echo b > /root/which")
    finally:
        relays["a"].cut(is_cut=False)
    a.await_state("held")
    wait_for(lambda: not (a.data / "layers" / i).exists(), WAIT_S, f"its files go: {a.daemon.log()[-3000:]}")
    assert sh(a, key, i, "cat /root/which") == "b\n"
    assert sh(a, key, other, "cat /root/count").strip()
    # What a had written since stays for a while.
    strays = [s for s in a.ok("GET", "/v1/snapshots", key=key)["snapshots"] if s["sandbox_id"] == i]
    assert len(strays) == 1 and strays[0]["expires_us"], strays
    with a.client(key).create(snapshot=strays[0]["id"]) as looked:
        assert int(looked.run(["cat", "/root/count"], user="root").stdout) == frozen
    a.ok("DELETE", f"/v1/snapshots/{strays[0]['id']}", key=key)
    for one in (i, other):
        delete(a, key, one)


def test_a_node_that_is_back_in_time_goes_on_and_answers_nothing_but_fenced_before(pair, relays):
    a, b = pair
    key = key_of(a)
    i = create(a, key)
    await_generation(a, key, i)
    start_counting(a, key, i)
    epoch, term = a.status()["epoch"], row(a, i)["term"]
    answers = set()
    relays["b"].cut()  # nobody claims anything
    b.await_state("fenced")
    try:
        relays["a"].cut()
        wait_for(lambda: refusal(a, key, i) == (503, "fenced"), WAIT_S, "a is fenced")
        wait_for(lambda: counted(a, i) is not None, 10, "a count")
        relays["a"].cut(is_cut=False)

        def goes_on():
            status, done = run(a, key, i, "true")
            answers.add((status, done.get("error", {}).get("code") if status >= 300 else None))
            return status < 300

        wait_for(goes_on, WAIT_S, f"it goes on: {answers}")
    finally:
        relays["b"].cut(is_cut=False)
        b.await_state("held")
    assert {x for x in answers if x[0] >= 300} <= {(503, "fenced")}, answers
    assert a.status()["epoch"] == epoch and row(a, i)["term"] == term
    before = counted(a, i)
    wait_for(lambda: counted(a, i) > before, 60, "it counts on")
    delete(a, key, i)


def test_a_gateway_that_dies_leaves_the_sandbox_running_and_fences_it_until_it_knows_whose_it_is(pair):
    a, _ = pair
    key = key_of(a)
    i = create(a, key)
    await_generation(a, key, i)
    start_counting(a, key, i)
    for part in ("gateway", "broker"):
        os.kill(a.daemon._part(part), signal.SIGKILL)
        await_up(a)
        wait_for(lambda: refusal(a, key, i)[0] == 200, WAIT_S, f"it answers: {refusal(a, key, i)} {a.daemon.log()[-2000:]}")
        before = counted(a, i)
        wait_for(lambda: counted(a, i) > before, 60, "it counts on")
    delete(a, key, i)


def test_what_was_deleted_is_restored_nowhere(pair):
    a, b = pair
    key = key_of(a)
    deleted, kept = create(a, key), create(a, key)
    for i in (deleted, kept):
        await_generation(a, key, i)
    status, _ = a.call("DELETE", f"/v1/sandboxes/{deleted}", key=key)
    assert status in (200, 204)
    assert row(a, deleted)["gone_at"] is not None  # when the answer came, not later
    with killed(a):
        await_owner(b, kept, "b")  # the control
        assert row(b, deleted)["node"] == row(b, deleted)["first_node"]
        assert b.call("GET", f"/v1/sandboxes/{deleted}", key=key)[0] in (404, 410, 503)
    delete(b, key, kept)


def test_a_stopped_one_is_restored_with_what_it_had_at_its_stop_and_nothing_is_lost(pair):
    a, b = pair
    key = key_of(a)
    i = create(a, key)
    first = await_generation(a, key, i)
    sh(a, key, i, "echo last > /root/last")
    a.ok("POST", f"/v1/sandboxes/{i}/stop", key=key)
    wait_for(lambda: show(a, key, i)["generation"]["id"] != first and show(a, key, i)["state"] == "stopped", WAIT_S, "a generation of the stopped one")
    newest = None

    def settled():
        nonlocal newest
        before, newest = newest, show(a, key, i)["generation"]["id"]
        return before == newest and row(a, i)["generation"] == newest and not a.daemon.log().endswith("x")

    wait_for(settled, 60, "it settles")
    with killed(a):
        await_owner(b, i, "b")
        assert sh(b, key, i, "cat /root/last") == "last\n"
    delete(b, key, i)


def test_a_delete_that_is_not_agreed_on_is_not_answered_as_one(pair, relays):
    a, b = pair
    key = key_of(a)
    i = create(a, key)
    await_generation(a, key, i)
    answers = []
    relays["a"].cut()
    client = threading.Thread(target=lambda: answers.append(a.call("DELETE", f"/v1/sandboxes/{i}", key=key, timeout=WAIT_S)))
    client.start()
    try:
        await_owner(b, i, "b")
        assert not answers or answers[0][0] == 503, answers
    finally:
        relays["a"].cut(is_cut=False)
    client.join(WAIT_S)
    a.await_state("held")
    assert answers[0][0] == 503 and answers[0][1]["error"]["code"] == "fenced", answers
    assert sh(b, key, i, "echo here") == "here\n"
    wait_for(lambda: not (a.data / "layers" / i).exists(), WAIT_S, "its files go")
    for stray in (x for x in a.ok("GET", "/v1/snapshots", key=key)["snapshots"] if x["sandbox_id"] == i):
        a.ok("DELETE", f"/v1/snapshots/{stray['id']}", key=key)
    delete(b, key, i)


def test_generations_cost_nothing_are_in_no_list_and_leave_nothing(pair):
    a, b = pair
    key = key_of(a)
    i = create(a, key)
    sh(a, key, i, "head -c 3000000 /dev/urandom > /root/noise")
    first = await_generation(a, key, i)
    newest = await_generation(a, key, i)
    assert a.ok("GET", f"/v1/snapshots/{newest}", key=key)["own_bytes"] == 0
    assert not [x for x in a.ok("GET", "/v1/snapshots", key=key)["snapshots"] if x["sandbox_id"] == i]
    assert not [e for e in events(a, "snapshot.created", key) if e["data"].get("snapshot_id") in (first, newest)]

    def left():
        return a.database.ask(f"SELECT count(*) FROM cluster.snapshots WHERE source_id = '{i}' AND gone_at IS NULL", "one")

    wait_for(lambda: left() == "1", 60, "the one before goes")
    assert not (a.data / "layers" / first).exists()
    delete(a, key, i)
    wait_for(lambda: left() == "0", 60, "all go with it")
    wait_for(lambda: not list((a.data / "layers").glob(f"{newest}*")), 60, "here, too")


def test_a_database_that_lies_restores_nothing_that_no_node_has_sealed(pair):
    a, b = pair
    key = key_of(a)
    project = a.ok("POST", "/v1/projects", {"name": "thieves"})
    thief = a.ok("POST", "/v1/keys", {"name": "k", "project": project["id"]})["secret"]
    wait_for(lambda: b.call("GET", "/v1/sandboxes", key=thief)[0] == 200, 60, "b knows the thief")
    lies = ("sealed as another", "of another project", "another's generation", "another's generation and seal", "an older generation", "no seal")
    control, other = create(a, key), create(a, key)
    made = {lie: create(a, key) for lie in lies}
    older = {}
    for i in (control, other, *made.values()):
        sh(a, key, i, f"echo {i} > /root/mine")
        older[i] = await_generation(a, key, i)
    older = dict(older)
    newest = {i: await_generation(a, key, i) for i in (made["an older generation"],)}
    right = {i: row(a, i) for i in (control, other, *made.values())}

    def say(i, **changed):
        a.database.ask("UPDATE cluster.owned SET " + ", ".join(f"{k} = '{v}'" for k, v in changed.items()) + f" WHERE sandbox_id = '{i}'", "one")

    with killed(a):
        say(made["sealed as another"], sealed=right[other]["sealed"])
        say(made["of another project"], project_id=project["id"])
        say(made["another's generation"], generation=right[other]["generation"])
        say(made["another's generation and seal"], generation=right[other]["generation"], sealed=right[other]["sealed"])
        say(made["an older generation"], generation=older[made["an older generation"]])
        say(made["no seal"], sealed="x")
        assert newest
        await_owner(b, control, "b")
        wait_for(lambda: b.call("GET", f"/v1/sandboxes/{control}", key=key)[0] == 200, WAIT_S, "the control is there")
        for lie, i in made.items():
            wait_for(lambda i=i: [e for e in b.daemon.log_of("sandbox.not_restored") if e["id"] == i], WAIT_S, f"{lie} is refused")
            assert b.call("GET", f"/v1/sandboxes/{i}", key=key)[0] in (404, 410, 503), lie
            assert b.call("GET", f"/v1/sandboxes/{i}", key=thief)[0] in (404, 410, 503), lie
        # Its files are those that were sealed as this sandbox's, or it does not start.
        taken = json.loads(b.database.ask(f"SELECT record FROM cluster.snapshots WHERE id = '{right[control]['generation']}'", "one"))
        wrong = json.loads(b.database.ask(f"SELECT record FROM cluster.snapshots WHERE id = '{right[other]['generation']}'", "one"))
        for lie in (wrong, {**taken, "files": {**taken["files"], "digest": wrong["files"]["digest"]}}, {**taken, "generation": taken["generation"] + 1}):
            b.database.ask(f"UPDATE cluster.snapshots SET record = '{json.dumps(lie)}' WHERE id = '{right[control]['generation']}'", "one")
            status, answer = run(b, key, control, "cat /root/mine")
            assert status in (409, 503) and "error" in answer, (lie, answer)
        b.database.ask(f"UPDATE cluster.snapshots SET record = '{json.dumps(taken)}' WHERE id = '{right[control]['generation']}'", "one")
        assert sh(b, key, control, "cat /root/mine").strip() == control
        for i in made.values():  # and repaired
            say(i, sealed=right[i]["sealed"], project_id=right[i]["project_id"], generation=right[i]["generation"])
        for i in made.values():
            wait_for(lambda i=i: b.call("GET", f"/v1/sandboxes/{i}", key=key)[0] == 200, WAIT_S, "it is restored")
        assert sh(b, key, made["no seal"], "cat /root/mine").strip() == made["no seal"]
    for i in (control, other, *made.values()):
        delete(b, key, i)


@pytest.mark.parametrize(("fields", "said"), [({"on_node_loss": "later"}, "end or restore"), ({"on_node_loss": "restore"}, "persistent"), ({"on_node_loss": "restore", "persistent": True, "group": "g", "alias": "a"}, "group")])
def test_what_cannot_be_restored_is_refused_by_the_field_and_what_to_do(pair, fields, said):
    status, answer = pair[0].call("POST", "/v1/sandboxes", {"template": "host", **fields}, key=key_of(pair[0]))
    assert (status, answer["error"]["code"], answer["error"]["field"]) == (400, "invalid_field", "on_node_loss") and said in json.dumps(answer["error"]), answer


def test_without_a_cluster_it_is_refused(daemon):
    status, answer = call(daemon, "POST", "/v1/sandboxes", {"persistent": True, "on_node_loss": "restore"})
    assert (status, answer["error"]["field"]) == (400, "on_node_loss") and "cluster" in answer["error"]["message"], answer


def test_a_node_that_has_never_heard_of_it_is_led_to_it_by_the_one_of_its_tag(pair):
    a, b = pair
    key = key_of(a)
    i = create(a, key)
    await_generation(a, key, i)
    with killed(a):
        await_owner(b, i, "b")
    wait_for(lambda: a.call("GET", f"/v1/sandboxes/{i}", key=key)[1].get("restored"), WAIT_S, "a leads there")
    wait_for(lambda: a.third.call("GET", f"/v1/sandboxes/{i}", key=key)[1].get("restored"), 60, "the third, too")
    delete(a.third, key, i)
    assert row(b, i)["gone_at"] is not None


def test_one_that_is_paused_on_disk_is_restored_with_the_files_that_it_had_then(pair):
    a, b = pair
    key = key_of(a)
    i = create(a, key)
    await_generation(a, key, i)
    sh(a, key, i, "echo last > /root/last")
    status, answer = a.call("POST", f"/v1/sandboxes/{i}/pause", {"to": "disk"}, key=key)
    assert status == 200, answer
    paused = time.time_ns() // 1000
    wait_for(lambda: show(a, key, i)["generation"]["taken_us"] >= paused, WAIT_S, f"a generation: {show(a, key, i)} {a.daemon.log()[-2000:]}")
    with killed(a):
        await_owner(b, i, "b")
        wait_for(lambda: b.call("GET", f"/v1/sandboxes/{i}", key=key)[0] == 200, WAIT_S, "b knows it")
        assert sh(b, key, i, "cat /root/last") == "last\n"
    delete(b, key, i)
