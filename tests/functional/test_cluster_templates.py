# SPDX-License-Identifier: Apache-2.0
"""A template that one node of a cluster has made is all nodes': whole daemons, a real PostgreSQL, and a store of objects that is a directory or a real S3 server."""

import contextlib
import hashlib
import http.client
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.cluster import Database, Node
from harness.daemon import BUILD, wait_for
from harness.sinks import CREDENTIALS, KEY, Server, s3rver
from harness.stored import Directory, await_up, make_template, place_of, store_stands_still, workers
from harness.whole_node import LOST_AFTER_S, cluster_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")
class Bucket(Server):
    def __init__(self, directory, program):
        super().__init__(directory)
        self.program = program
        (self.dir / "keys").write_text(CREDENTIALS.format(id=KEY, secret=KEY))
        (self.dir / "keys").chmod(0o644)
        self.options = ["--cluster-objects", "s3://audit/a/b", "--cluster-objects-endpoint", f"http://127.0.0.1:{self.port}", "--cluster-objects-credentials", str(self.dir / "keys")]

    def words(self):
        return ["node", str(self.program / "serve.js"), str(self.dir / "data"), str(self.port)]


@contextlib.contextmanager
def nodes_with(options, *names):
    database = Database()
    try:
        database.make("one")
        with cluster_of(database, *names, options=lambda name: options) as nodes:
            for n in nodes:
                n.database = database
            yield nodes
    finally:
        database.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    store = Directory(place_of(tmp_path_factory.mktemp("objects")) / "store")
    with nodes_with(store.options, "a", "b") as nodes:
        for n in nodes:
            n.store = store
        yield nodes


def key_of(nodes):
    return nodes[0].daemon.key


def seen(node, key, word):
    status, answer = node.call("GET", f"/v1/templates/{word}", key=key)
    return answer if status == 200 else None


def state(node, key, word):
    found = seen(node, key, word)
    return found["cluster"]["state"] if found else None


def await_state(node, key, word, wanted):
    wait_for(lambda: state(node, key, word) == wanted, 60, f"{word} is {wanted} on {node.name}: {seen(node, key, word)} {node.daemon.log()[-1500:]}")


def mark_of(node, key, template):
    with node.client(key).create(template=template) as sandbox:
        done = sandbox.run(["cat", "/mark"])
        assert done.exit_code == 0, done.stderr
        return done.stdout.strip()


def images(node):
    """Those of templates, also unfinished ones."""
    return sorted(p.name for p in (node.data / "templates").iterdir() if not p.name.startswith("host-"))


def remove(nodes, key, *names):
    """From all nodes; nothing of them stays on any."""
    digests = {found["digest"].removeprefix("sha256:") for name in names for n in nodes if (found := seen(n, key, name))}
    for name in names:
        nodes[0].ok("DELETE", f"/v1/templates/{name}", key=key)
    for n in nodes:
        for name in names:
            wait_for(lambda n=n, name=name: seen(n, key, name) is None, 60, f"{n.name} hears of it")
        wait_for(lambda n=n: not [i for i in images(n) if i[:64] in digests or i.startswith("seal")], 60, f"{n.name} has no image any more: {images(n)}")


def fetches(node, name):
    return sum('"template.fetch"' in line and f'"{name}"' in line for line in node.daemon.log().splitlines())


@contextlib.contextmanager
def a_create_that_waits(node, key, template):
    """While the block runs, a client waits for a template that is on its way; gives where its answer will be."""
    answers = []
    client = threading.Thread(target=lambda: answers.append(attempt(node, key, template)))
    with store_stands_still(node):
        client.start()
        await_state(node, key, template, "fetching")
        yield answers
    client.join(120)
    assert not client.is_alive()


def attempt(node, key, template):
    """Status and answer; None: the connection has ended."""
    try:
        status, answer = node.call("POST", "/v1/sandboxes", {"template": template}, key=key, timeout=100)
    except (OSError, http.client.HTTPException):
        return None, None
    if status == 201:
        node.call("DELETE", f"/v1/sandboxes/{answer['id']}", key=key)
    return status, answer


def test_a_template_of_one_node_starts_sandboxes_on_the_other(pair):
    a, b = pair
    key = key_of(pair)
    made = make_template(a, key, "travels", "of a", size=9_000_000)
    await_state(a, key, "travels", "everywhere")
    await_state(b, key, "travels", "elsewhere")
    assert made["id"] == seen(b, key, "travels")["id"]  # it is one template
    listed = {t["name"]: t for t in b.ok("GET", "/v1/templates", key=key)["templates"]}
    assert listed["travels"]["digest"] == seen(a, key, "travels")["digest"]
    assert mark_of(b, key, "travels") == "of a"
    assert state(b, key, "travels") == "everywhere"
    assert {**seen(a, key, "travels"), "sandboxes": 0, "warm_copies": 0} == {**seen(b, key, "travels"), "sandboxes": 0, "warm_copies": 0}
    assert mark_of(b, key, made["id"]) == "of a"
    remove((b, a), key, "travels")


def test_one_over_another_brings_that_along(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "lower", "of the lower", size=5_000_000)
    with a.client(key).create(template="lower") as sandbox:
        sandbox.run("echo of the upper > /upper", user="root")
        a.client(key).create_template("upper", sandbox)
    await_state(a, key, "upper", "everywhere")
    await_state(b, key, "upper", "elsewhere")
    with b.client(key).create(template="upper") as sandbox:
        assert sandbox.run("cat /mark /upper").stdout == "of the lower\nof the upper\n"
        assert [name[64:] for name in images(b)].count(".base") == 1  # which nobody has asked for
        assert sandbox.run("sha256sum /data/noise").exit_code == 0
    assert mark_of(b, key, "lower") == "of the lower"  # it is here already, and has only to be shown
    assert [name[64:] for name in images(b)].count(".base") == 0
    remove(pair, key, "upper", "lower")


def test_however_many_want_it_it_comes_once(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "wanted", size=12_000_000)
    await_state(b, key, "wanted", "elsewhere")
    with ThreadPoolExecutor(12) as pool:
        marks = list(pool.map(lambda _: attempt(b, key, "wanted")[0], range(12)))
    assert marks == [201] * 12
    assert fetches(b, "wanted") == 1
    remove(pair, key, "wanted")


def test_what_one_node_replaces_is_new_on_the_other(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "changing", "first")
    await_state(b, key, "changing", "elsewhere")
    assert mark_of(b, key, "changing") == "first"
    make_template(a, key, "changing", "second", replace=True)
    await_state(a, key, "changing", "everywhere")
    wait_for(lambda: mark_of(b, key, "changing") == "second", 60, "b has the new one")
    make_template(b, key, "changing", "third", replace=True)
    await_state(b, key, "changing", "everywhere")
    wait_for(lambda: mark_of(a, key, "changing") == "third", 60, "and a has that of b")
    # A name that another node has is taken here, as it would be on one machine.
    remove(pair, key, "changing")
    make_template(a, key, "changing", "fourth")
    await_state(b, key, "changing", "elsewhere")
    with b.client(key).create(template="host") as sandbox:
        assert b.refused("POST", "/v1/templates", {"from": sandbox.id, "name": "changing", "tree": True}, key=key) == (409, "conflict")
    remove(pair, key, "changing")


def test_one_in_use_elsewhere_goes_when_its_last_user_does(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "used")
    await_state(b, key, "used", "elsewhere")
    with b.client(key).create(template="used") as sandbox:
        digest = seen(b, key, "used")["digest"].removeprefix("sha256:")
        a.ok("DELETE", "/v1/templates/used", key=key)
        wait_for(lambda: seen(b, key, "used") is None, 30, "b hears of it")
        assert sandbox.run("cat /mark").stdout == "one\n"
        assert attempt(b, key, "used")[0] == 400
        assert digest in images(b)
    wait_for(lambda: digest not in images(b), 60, "the image has gone with its last user")


def test_a_shared_one_is_every_projects_on_every_node(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "for-all", "all", shared=True)
    await_state(b, key, "for-all", "elsewhere")
    project = a.ok("POST", "/v1/projects", {"name": "guests"})
    guest = a.ok("POST", "/v1/keys", {"name": "k", "project": project["id"]})["secret"]
    wait_for(lambda: b.call("GET", "/v1/templates", key=guest)[0] == 200, 30, "b knows the guest")
    assert seen(b, guest, "for-all")["shared"]
    assert mark_of(b, guest, "for-all") == "all"
    make_template(a, key, "not-for-all")
    await_state(b, key, "not-for-all", "elsewhere")
    assert seen(b, guest, "not-for-all") is None and attempt(b, guest, "not-for-all")[0] == 400
    assert b.refused("DELETE", "/v1/templates/for-all", key=guest)[0] == 403
    remove(pair, key, "not-for-all", "for-all")


def test_whoever_dies_in_the_middle_leaves_nothing_and_it_comes_the_next_time(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "cut-off", size=20_000_000)
    await_state(b, key, "cut-off", "elsewhere")
    with a_create_that_waits(b, key, "cut-off") as answers:
        os.kill(b.member_pid(), signal.SIGKILL)
        wait_for(lambda: answers, 60, "its client is told")
    assert answers[0][0] == 503 and answers[0][1]["error"]["code"] == "cluster_unavailable"
    wait_for(lambda: images(b) == [], 30, f"nothing is left: {images(b)}")
    b.await_state("held")
    for part in ("gateway", "broker"):
        wait_for(lambda: b.member_pid() and len(workers(b)) == 8 and b.state() == "held", 60, "its member is up")
        await_state(b, key, "cut-off", "elsewhere")
        with a_create_that_waits(b, key, "cut-off") as answers:
            os.kill(b.daemon._part(part), signal.SIGKILL)
            wait_for(lambda: answers, 60, "its client is told")
        await_up(b)
        wait_for(lambda: images(b) == [], 30, f"nothing is left: {images(b)}")
    wait_for(lambda: b.state() == "held", 60, "it is back")
    wait_for(lambda: seen(b, key, "cut-off"), 60, "it knows the template again")
    assert mark_of(b, key, "cut-off") == "one"
    remove(pair, key, "cut-off")


def test_a_store_with_other_bytes_brings_nothing_to_a_mount(pair):
    a, b = pair
    key = key_of(pair)
    before = set(a.store.objects("chunks"))
    make_template(a, key, "tampered", size=9_000_000)
    await_state(b, key, "tampered", "elsewhere")
    chunks = sorted(set(a.store.objects("chunks")) - before)
    assert len(chunks) >= 2
    right = chunks[0].read_bytes()
    for wrong in (bytes(len(right)), right[:-1], chunks[1].read_bytes(), b""):
        chunks[0].write_bytes(wrong)
        status, answer = attempt(b, key, "tampered")
        assert (status, answer["error"]["code"]) == (503, "unavailable"), answer
        assert "store of objects" in answer["error"]["message"] and answer["error"]["hint"]
        assert images(b) == [] and state(b, key, "tampered") == "elsewhere"
    chunks[0].unlink()
    assert attempt(b, key, "tampered")[0] == 503 and images(b) == []
    chunks[0].write_bytes(right)
    assert mark_of(b, key, "tampered") == "one"
    remove(pair, key, "tampered")


def test_a_database_that_lies_has_nothing_mounted_that_no_broker_sealed(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "honest", "honest", size=2_000_000)
    make_template(a, key, "other", "other", size=2_000_000)
    await_state(b, key, "honest", "elsewhere")
    await_state(b, key, "other", "elsewhere")
    project = a.ok("POST", "/v1/projects", {"name": "thieves"})
    thief = a.ok("POST", "/v1/keys", {"name": "k", "project": project["id"]})["secret"]

    def record(name):
        return json.loads(a.database.ask(f"SELECT record FROM cluster.records WHERE kind = 'image' AND record->>'name' = '{name}'", "one"))

    ids = {name: a.database.ask(f"SELECT id FROM cluster.records WHERE kind = 'image' AND record->>'name' = '{name}'", "one") for name in ("honest", "other")}

    def say(name, changed):
        text = json.dumps(changed).replace("'", "''")
        a.database.ask("UPDATE cluster.changes SET number = number + 1;"  # and this together, as the functions do
                       f"UPDATE cluster.records SET record = '{text}', number = (SELECT number FROM cluster.changes) WHERE id = '{ids[name]}'", "one")

    right, of_other = record("honest"), record("other")
    part = right["parts"][0]
    gateway = b.daemon.gateway_pid
    for shape in ({}, [], {**right, "parts": []}, {**right, "parts": [part] * 20}, {**right, "parts": [7]}, {**right, "manifest": 7}, {**right, "was": "x"}, {**right, "name": "other"},
                  {**right, "template_id": "../../x"}, {**right, "parts": [{**part, "bytes": -1}]}, {**right, "node": -1}, {**right, "manifest": "{"}):
        refused = b.daemon.log().count('"cluster.record_refused"')
        say("honest", shape)
        wait_for(lambda refused=refused: b.daemon.log().count('"cluster.record_refused"') > refused, 30, f"{shape} is refused")
    # A manifest is its maker's text: a number in it that no program can hold reaches nobody else.
    say("honest", {**right, "manifest": '{"x": 1e300}'})
    wait_for(lambda: (seen(b, key, "honest") or {}).get("manifest") == {"x": 1e300}, 30, "it is the maker's")
    say("honest", right)
    wait_for(lambda: "sealed" in seen(b, key, "honest")["manifest"], 30, "it is as it was")
    assert b.daemon.gateway_pid == gateway and seen(b, key, "honest")["digest"] == f"sha256:{part['digest']}"
    lies = {
        "another image under this seal": {**part, "digest": of_other["parts"][0]["digest"]},
        "another size": {**part, "bytes": part["bytes"] + 4096},
        "no seal": {**part, "seal": "0" * 64},
    }
    for what, lie in lies.items():
        say("honest", {**right, "parts": [lie]})
        wait_for(lambda lie=lie: seen(b, key, "honest")["digest"] == f"sha256:{lie['digest']}" and seen(b, key, "honest")["bytes"] == lie["bytes"], 30, what)
        wait_for(lambda: attempt(b, key, "honest")[0] == 409, 30, what)
        assert images(b) == [], what
    # Another project's image is not theirs, though it is here and its seal is right for its owner.
    say("honest", right)
    wait_for(lambda: attempt(b, key, "honest")[0] == 201, 30, "what is right comes")
    assert mark_of(b, key, "honest") == "honest"
    copied = json.dumps({**right, "name": "stolen", "template_id": "tpl_" + "a" * 26}).replace("'", "''")
    image_id = "img_" + hashlib.sha256(f"{project['id']}/stolen".encode()).hexdigest()[:32]
    a.database.ask("UPDATE cluster.changes SET number = number + 1;"
                   f"INSERT INTO cluster.records VALUES ('image', '{image_id}', '{project['id']}', NULL, '{copied}', false, (SELECT number FROM cluster.changes), 1)", "one")
    await_state(b, thief, "stolen", "elsewhere")
    status, answer = attempt(b, thief, "stolen")
    assert (status, answer["error"]["code"]) == (409, "conflict") and "sealed" in answer["error"]["message"], answer
    a.database.ask("DELETE FROM cluster.records WHERE record->>'name' = 'stolen'", "one")
    remove(pair, key, "honest", "other")


def test_who_can_still_write_into_it_stops_it(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "held-open", size=5_000_000)
    await_state(b, key, "held-open", "elsewhere")
    with a_create_that_waits(b, key, "held-open") as answers:
        (name,) = images(b)
        fd = os.open(b.data / "templates" / name / "image.erofs", os.O_RDWR)
    try:
        assert answers[0][0] == 409 and "still open for writing" in answers[0][1]["error"]["message"]
        assert images(b) == []
    finally:
        os.close(fd)
    assert mark_of(b, key, "held-open") == "one"
    remove(pair, key, "held-open")


def test_without_the_database_what_is_made_waits_and_nothing_is_removed(pair):
    a, b = pair
    key = key_of(pair)
    make_template(a, key, "kept")
    await_state(b, key, "kept", "elsewhere")
    with without(a.database, a, b):
        make_template(a, key, "later")
        assert state(a, key, "later") == "sending" or seen(a, key, "later")["cluster"]["message"]
        assert mark_of(a, key, "later") == "one"
        assert a.refused("DELETE", "/v1/templates/kept", key=key) == (503, "cluster_unavailable")
        assert attempt(b, key, "kept")[0] == 503
    await_state(a, key, "later", "everywhere")
    await_state(b, key, "later", "elsewhere")
    assert mark_of(b, key, "later") == mark_of(b, key, "kept") == "one"
    remove(pair, key, "later", "kept")


def test_what_was_removed_and_replaced_meanwhile_is_so_after_a_start(pair):
    a, b = pair
    key = key_of(pair)
    for name in ("gone", "newer"):
        make_template(a, key, name, "old")
        await_state(b, key, name, "elsewhere")
        assert mark_of(b, key, name) == "old"
    b.daemon.stop()
    a.ok("DELETE", "/v1/templates/gone", key=key)
    make_template(a, key, "newer", "new", replace=True)
    await_state(a, key, "newer", "everywhere")
    b.daemon.start()
    b.await_state("held")
    wait_for(lambda: seen(b, key, "gone") is None, 60, "what was removed is gone")
    wait_for(lambda: attempt(b, key, "newer")[0] == 201 and mark_of(b, key, "newer") == "new", 60, "what was replaced is new")
    remove(pair, key, "newer")


def test_by_way_of_a_real_s3_server(tmp_path_factory):
    program = s3rver(tmp_path_factory)
    with Bucket(place_of(tmp_path_factory.mktemp("s3")) / "bucket", program).start() as bucket, nodes_with(bucket.options, "a", "b") as nodes:
        a, b = nodes
        key = key_of(nodes)
        make_template(a, key, "by-s3", size=9_000_000)
        await_state(b, key, "by-s3", "elsewhere")
        assert mark_of(b, key, "by-s3") == "one"
        make_template(a, key, "later")
        await_state(b, key, "later", "elsewhere")
        bucket.stop()
        status, answer = attempt(b, key, "later")
        assert status == 503 and "store of objects" in answer["error"]["message"] and "objects_endpoint" in answer["error"]["hint"]
        bucket.start()
        assert mark_of(b, key, "later") == "one"


def test_without_a_store_it_is_told_where_it_lies_and_what_to_do():
    with nodes_with([], "a", "b") as nodes:
        a, b = nodes
        key = key_of(nodes)
        make_template(a, key, "alone")
        await_state(a, key, "alone", "here")
        assert "this node alone" in seen(a, key, "alone")["cluster"]["message"]
        await_state(b, key, "alone", "elsewhere")
        status, answer = attempt(b, key, "alone")
        assert status == 503 and "node 1 alone" in answer["error"]["message"] and "objects" in answer["error"]["hint"]
        assert mark_of(a, key, "alone") == "one"
        make_template(b, key, "alone", "of b", replace=True)
        wait_for(lambda: state(a, key, "alone") == "elsewhere", 60, "a has it no more")


def objects_keys(node):
    path = node.data / "cluster" / "objects.keys"
    return path.read_bytes() if path.exists() else None


def test_the_keys_come_with_the_invitation_and_the_database_has_them_no_more(tmp_path):
    store = Directory(place_of(tmp_path) / "store")
    database = Database()
    nodes = []
    try:
        database.make("one")
        a, b, c = nodes = [Node(name, database.conninfo("one"), objects={"objects": f"dir://{store.path}"}) for name in "abc"]
        a.init(database.owner("one"), lost_after_s=LOST_AFTER_S)
        a.start()
        a.await_state("held")
        keys = objects_keys(a)
        assert len(keys) == 64 and keys[:32] != keys[32:] and (a.data / "cluster/objects.keys").stat().st_mode & 0o777 == 0o600
        invited = a.ask("cluster", "invite")
        parcel = database.ask("SELECT parcel FROM cluster.invitations", "one")
        assert len(parcel) > 100
        b.join(invited["token"])
        assert objects_keys(b) == keys
        b.start()
        b.await_state("held")
        wait_for(lambda: b.status()["objects"]["state"] == "ok", 60, f"the store: {b.status()}")
        assert database.ask("SELECT count(*) FROM cluster.invitations WHERE parcel IS NOT NULL", "one") == "0"
        dump = database.ask("SELECT string_agg(t::text, '') FROM cluster.invitations t", "one")
        assert keys[:32].hex() not in dump and keys[32:].hex() not in dump
        assert "used already" in c.refused("node", "join", invited["token"], "--name", "c") and not objects_keys(c)
        # A database that exchanges them is found out.
        again = a.ask("cluster", "invite")
        database.ask(f"UPDATE cluster.invitations SET parcel = '{parcel}' WHERE node IS NULL", "one")
        assert "other keys" in c.refused("node", "join", again["token"], "--name", "c") and not objects_keys(c)
    finally:
        for n in nodes:
            n.close()
        database.close()


def test_a_cluster_from_before_gets_keys_by_a_migration(tmp_path):
    store = Directory(place_of(tmp_path) / "store")
    database = Database()
    nodes = []
    try:
        database.make("one")
        a, b = nodes = [Node(name, database.conninfo("one"), objects={"objects": f"dir://{store.path}"}) for name in "ab"]
        a.init(database.owner("one"), lost_after_s=LOST_AFTER_S)
        a.start()
        a.await_state("held")
        # As if it had been made before there were keys.
        (a.data / "cluster/objects.keys").unlink()
        database.ask("UPDATE cluster.cluster SET has_object_keys = false", "one")
        b.join(a.ask("cluster", "invite")["token"])
        assert not objects_keys(b)
        b.start()
        b.await_state("held")
        wait_for(lambda: b.status().get("objects", {}).get("problem", {}).get("code") == "objects_keys_missing", 60, f"it is told: {b.status()}")
        assert not b.ask("cluster", "migrate", "--owner", database.owner("one"))["made_keys"]  # the authority's key is not here
        assert a.ask("cluster", "migrate", "--owner", database.owner("one"))["made_keys"]
        keys = objects_keys(a)
        assert len(keys) == 64 and not a.ask("cluster", "migrate", "--owner", database.owner("one"))["made_keys"] and objects_keys(a) == keys
    finally:
        for n in nodes:
            n.close()
        database.close()
