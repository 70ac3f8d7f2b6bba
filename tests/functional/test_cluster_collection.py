# SPDX-License-Identifier: Apache-2.0
"""What nobody needs goes from a cluster's store of objects, and nothing else: whole daemons, a real PostgreSQL, and a store that is a directory or a real S3 server."""

import contextlib
import http.client
import json
import os
import signal
import time

import pytest
from harness.cluster import Database
from harness.daemon import BUILD, wait_for
from harness.sinks import CREDENTIALS, KEY, SUFFIX, Server, s3rver
from harness.stored import Directory, await_up, make_template, place_of, workers
from harness.whole_node import cluster_of

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")
DAY_S = 86400
EVERY = ["--cluster-objects-collect", "1s"]


class Bucket(Server):
    def __init__(self, directory, program):
        super().__init__(directory)
        self.program = program
        (self.dir / "keys").write_text(CREDENTIALS.format(id=KEY, secret=KEY))
        (self.dir / "keys").chmod(0o644)
        self.options = ["--cluster-objects", "s3://audit/a/b", "--cluster-objects-endpoint", f"http://127.0.0.1:{self.port}", "--cluster-objects-credentials", str(self.dir / "keys")]

    def words(self):
        return ["node", str(self.program / "serve.js"), str(self.dir / "data"), str(self.port)]

    def objects(self, kind):
        return sorted(p for p in (self.dir / "data/audit/a/b/v1" / kind).rglob(f"*{SUFFIX}") if p.is_file())


@contextlib.contextmanager
def nodes_over(store):
    database = Database()
    try:
        database.make("one")
        with cluster_of(database, "a", "b", options=lambda name: [*store.options, *EVERY]) as nodes:
            for n in nodes:
                n.database, n.store = database, store
            yield nodes
    finally:
        database.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with nodes_over(Directory(place_of(tmp_path_factory.mktemp("objects")) / "store")) as nodes:
        yield nodes


def key_of(nodes):
    return nodes[0].daemon.key


def sql(node, text):
    return node.database.ask(text, "one")


def state(node, key, word):
    status, answer = node.call("GET", f"/v1/templates/{word}", key=key)
    return answer["cluster"]["state"] if status == 200 else None


def await_state(node, key, word, wanted):
    wait_for(lambda: state(node, key, word) == wanted, 90, f"{word} is {wanted} on {node.name}: {state(node, key, word)} {node.daemon.log()[-1500:]}")


def share(node, key, name, mark="one", size=9_000_000):
    make_template(node, key, name, mark, size=size)
    await_state(node, key, name, "everywhere")


def drop(nodes, key, name):
    nodes[0].ok("DELETE", f"/v1/templates/{name}", key=key)
    for n in nodes:
        wait_for(lambda n=n: state(n, key, name) is None, 60, f"{n.name} hears of it")


def all_objects(store):
    return {*store.objects("chunks"), *store.objects("manifests")}


def make_folder(store, name):
    """As workers make one."""
    folder = store.path / "v1/chunks" / name
    for path in (folder.parent.parent, folder.parent, folder, store.path / "v1/tmp"):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
    return folder


def age(store, days=3):
    """What was written is written long ago."""
    then = time.time() - days * DAY_S
    for path in all_objects(store):
        os.utime(path, (then, then))


def age_rows(node):
    sql(node, "UPDATE cluster.left_objects SET left_at = left_at - interval '3 days'")


def collection(node):
    return node.status()["objects"]["collection"]


def await_round(nodes, wanted=lambda c: not c.get("problem"), rounds=2):
    """Whole rounds, which began after this call, have ended; of the last one what is wanted holds."""
    for _ in range(rounds):
        before = int(sql(nodes[0], "SELECT coalesce((figures->>'at_us')::bigint, 0) FROM cluster.duties"))
        wait_for(lambda before=before: int(sql(nodes[0], "SELECT coalesce((figures->>'at_us')::bigint, 0) FROM cluster.duties")) > before, 90,
                 f"a round: {sql(nodes[0], 'SELECT * FROM cluster.duties')} {[collection(n) for n in nodes]} {nodes[0].daemon.log()[-1500:]}")
    figures = json.loads(sql(nodes[0], "SELECT figures FROM cluster.duties"))
    assert wanted(figures), figures
    return figures


def metrics(node):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.daemon.port, timeout=30)) as connection:
        connection.request("GET", "/metrics", headers={"X-API-Key": node.daemon.key})
        return connection.getresponse().read().decode()


def settle(nodes):
    """What earlier tests have left goes."""
    age(nodes[0].store)
    age_rows(nodes[0])
    await_round(nodes)


def mark_of(node, key, template):
    with node.client(key).create(template=template) as sandbox:
        done = sandbox.run(["cat", "/mark"])
        assert done.exit_code == 0, done.stderr
        return done.stdout.strip()


def what_goes_and_what_stays(nodes):
    a, b = nodes
    key, store = key_of(nodes), a.store
    share(a, key, "kept", "kept")
    kept = all_objects(store)
    share(a, key, "gone", "gone")
    with a.client(key).create(template="gone") as sandbox:  # its template goes, the snapshot stays
        snapshot = a.ok("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", {}, key=key)["id"]
    wait_for(lambda: a.ok("GET", f"/v1/snapshots/{snapshot}", key=key)["durable"], 90, "it is durable")
    make_template(a, key, "gone", "newer", size=9_000_000, replace=True)
    await_state(a, key, "gone", "everywhere")
    before = all_objects(store)
    assert len(before) > len(kept)
    age_rows(a)
    await_round(nodes)
    assert all_objects(store) == before  # young
    age(store)
    await_round(nodes)
    assert all_objects(store) == before  # a snapshot needs its template's image
    with b.client(key).create(snapshot=snapshot) as sandbox:
        assert sandbox.run(["cat", "/mark"]).stdout.strip() == "gone"
    a.ok("DELETE", f"/v1/snapshots/{snapshot}", key=key)
    wait_for(lambda: sql(a, "SELECT count(*) FROM cluster.snapshots WHERE gone_at IS NULL") == "0", 60, "the row is gone")
    drop(nodes, key, "gone")
    await_round(nodes)
    assert all_objects(store) == before  # a row left it a moment ago
    age_rows(a)
    wait_for(lambda: all_objects(store) == kept, 90, f"what nobody needs goes: {collection(a)} {a.daemon.log()[-2000:]}")
    figures = await_round(nodes, lambda c: c["objects"] == len(kept) and c["waiting"] == 0)
    assert figures["bytes"] > 9_000_000
    wait_for(lambda: collection(b).get("objects") == len(kept), 60, "each node knows of it")
    assert mark_of(b, key, "kept") == "kept"  # fetched from what is left
    return figures


def test_what_was_removed_goes_after_a_day_and_what_a_row_names_stays(pair):
    a, _ = pair
    figures = what_goes_and_what_stays(pair)
    wait_for(lambda: "cloche_cluster_objects{" in metrics(a), 120, "its metric")
    assert f'cloche_cluster_objects{{state="stored"}} {figures["objects"]}' in metrics(a), metrics(a)
    drop(pair, key_of(pair), "kept")


def test_by_way_of_a_real_s3_server(tmp_path_factory):
    with Bucket(place_of(tmp_path_factory.mktemp("s3")) / "bucket", s3rver(tmp_path_factory)).start() as bucket, nodes_over(bucket) as nodes:
        what_goes_and_what_stays(nodes)


def test_what_is_not_ours_stays_and_what_dead_workers_left_goes(pair):
    a, _ = pair
    store = a.store
    folder = make_folder(store, "ab")
    foreign = [folder / "readme", folder / ("cd" * 32), store.path / "notes", store.path / "v1/else"]
    (folder / ("ab" * 32)).symlink_to(store.path / "notes")
    left = store.path / "v1/tmp/tmp_old"
    young = store.path / "v1/tmp/tmp_young"
    ours = folder / ("ab" + "01" * 31)
    for path in (*foreign, left, young, ours):
        path.write_text("x")
    for path in (*foreign, left, ours):
        os.utime(path, (1, 1))
    wait_for(lambda: not left.exists() and not ours.exists(), 60, f"what is left over goes: {collection(a)}")
    await_round(pair)
    assert all(p.exists() for p in foreign) and young.exists() and (folder / ("ab" * 32)).is_symlink()
    for path in (*foreign, young, folder / ("ab" * 32)):
        path.unlink()


def test_an_upload_that_meets_a_removal_begins_anew(pair):
    """Its chunks are there, and somebody is about to remove them: it counts on none. Without the marks it goes on: the control."""
    a, _ = pair
    key = key_of(pair)
    share(a, key, "again", "again")
    names = json.dumps([p.name for p in all_objects(a.store)])
    sql(a, "UPDATE cluster.duties SET until = now() + interval '1 hour'")  # whoever marks them goes on with it
    sql(a, f"INSERT INTO cluster.object_marks VALUES (2, '{names}') ON CONFLICT (node) DO UPDATE SET names = excluded.names")
    sql(a, "SET session_replication_role = replica; DELETE FROM cluster.records WHERE kind = 'image' AND record->>'name' = 'again'")
    a.daemon.stop()
    a.daemon.start()
    a.await_state("held")
    wait_for(lambda: "is being removed just now" in (a.call("GET", "/v1/templates/again", key=key)[1]["cluster"]["message"] or ""), 60, "it is refused")
    assert sql(a, "SELECT count(*) FROM cluster.records WHERE kind = 'image' AND record->>'name' = 'again' AND NOT is_gone") == "0"
    sql(a, "DELETE FROM cluster.object_marks")
    await_state(a, key, "again", "everywhere")
    sql(a, "UPDATE cluster.duties SET until = '-infinity'")
    drop(pair, key, "again")


def test_a_manifest_that_cannot_be_read_keeps_everything(pair):
    a, _ = pair
    key, store = key_of(pair), a.store
    known = {*store.objects("manifests")}
    share(a, key, "read", "read")
    manifest = next(p for p in store.objects("manifests") if p not in known)
    share(a, key, "loose", "loose")
    drop(pair, key, "loose")
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    age(store)
    before = all_objects(store)
    age_rows(a)
    figures = await_round(pair, lambda c: c["problem"]["code"] == "objects_damaged")
    assert "manifest" in figures["problem"]["message"] and figures["problem"]["hint"] and all_objects(store) == before
    manifest.unlink()
    await_round(pair, lambda c: c["problem"]["code"] == "object_missing")
    assert all_objects(store) == before - {manifest}
    manifest.write_bytes(whole)
    wait_for(lambda: len(all_objects(store)) < len(before), 90, f"the control: {collection(a)}")
    drop(pair, key, "read")


def test_a_database_that_was_set_back_has_nothing_removed_before_all_have_told(pair):
    """It has forgotten a snapshot of b, which is away. The control is that it goes when b has told, and has removed it."""
    a, b = pair
    key, store = key_of(pair), a.store
    settle(pair)
    with b.client(key).create(template="host") as sandbox:
        assert sandbox.run(["sh", "-c", "head -c 9000000 /dev/urandom > /root/noise"], user="root", timeout=60).exit_code == 0
        snapshot = b.ok("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", {}, key=key)["id"]
    wait_for(lambda: b.ok("GET", f"/v1/snapshots/{snapshot}", key=key)["durable"], 90, "it is durable")
    before = all_objects(store)
    b.daemon.stop()
    a.database.stop()
    a.database.start()
    sql(a, f"SET session_replication_role = replica; DELETE FROM cluster.snapshots WHERE id = '{snapshot}'")
    a.await_state("held")
    age(store)
    wait_for(lambda: collection(a).get("untold") == ["b"], 90, f"it waits for b: {collection(a)}")
    rounds = sql(a, "SELECT figures->>'at_us' FROM cluster.duties")
    for _ in range(5):
        assert collection(a)["state"] == "untold" and all_objects(store) == before
    assert sql(a, "SELECT figures->>'at_us' FROM cluster.duties") == rounds
    b.daemon.start()
    b.await_state("held")
    wait_for(lambda: not collection(a).get("untold"), 120, f"b has told: {collection(a)} {b.daemon.log()[-2000:]}")
    await_round(pair)
    assert sql(a, f"SELECT count(*) FROM cluster.snapshots WHERE id = '{snapshot}'") == "1"
    b.daemon.stop()
    with a.client(key).create(snapshot=snapshot) as sandbox:  # out of the store
        assert sandbox.run(["wc", "-c", "/root/noise"], user="root").stdout.split()[0] == "9000000"
    b.daemon.start()
    b.await_state("held")
    before = all_objects(store)
    b.ok("DELETE", f"/v1/snapshots/{snapshot}", key=key)
    wait_for(lambda: sql(a, f"SELECT count(*) FROM cluster.snapshots WHERE id = '{snapshot}' AND gone_at IS NULL") == "0", 60, "the row is gone")
    age(store)
    age_rows(a)
    wait_for(lambda: len(all_objects(store)) < len(before), 90, f"the control: {collection(a)}")


def test_a_database_without_its_rows_has_nothing_removed_before_somebody_has_looked(pair):
    """It says that nobody needs anything, as one does that was emptied or that lies."""
    a, _ = pair
    store = a.store
    folder = make_folder(store, "ef")
    fakes = [folder / f"ef{i:062x}" for i in range(400)]
    for path in fakes:
        path.write_text("x")
    await_round(pair)
    for path in fakes:
        os.utime(path, (1, 1))
    figures = await_round(pair, lambda c: c["problem"]["code"] == "objects_held")
    assert "400" in figures["problem"]["message"] and "objects_collect_most" in figures["problem"]["hint"]
    assert all(p.exists() for p in fakes)
    for path in fakes[200:]:  # the control: fewer may go at once
        path.unlink()
    wait_for(lambda: not any(p.exists() for p in fakes), 90, f"the control: {collection(a)}")


def test_a_database_that_lies_about_rows_has_nothing_removed(pair):
    a, _ = pair
    key, store = key_of(pair), a.store
    share(a, key, "named", "named")
    share(a, key, "unnamed", "unnamed")
    drop(pair, key, "unnamed")
    before = all_objects(store)
    true = sql(a, "SELECT pg_get_functiondef('cluster.object_rows'::regproc)")
    row = {"at": "a1", "is_left": False, "objects": [{"project_id": "shared", "kind": "image", "generation": 0, "digest": "00" * 32, "bytes": 1}]}
    lies = [
        {"rows": "none"}, {}, {"rows": [{**row, "at": ""}]}, {"rows": [{**row, "objects": None}]}, {"rows": [row]},  # without end
        *({"rows": [{**row, "objects": [{**row["objects"][0], field: value}]}]} for field, value in (
            ("digest", "x"), ("digest", 1), ("generation", -1), ("bytes", 0), ("bytes", 1 << 62), ("kind", "else"), ("project_id", "p" * 200), ("project_id", None))),
    ]
    try:
        for lie in lies:
            text = json.dumps(lie).replace("'", "''")
            sql(a, f"CREATE OR REPLACE FUNCTION cluster.object_rows(node int, secret text, after text) RETURNS jsonb LANGUAGE sql STABLE SECURITY DEFINER AS $f$ SELECT '{text}'::jsonb $f$")
            age(store)
            age_rows(a)
            await_round(pair, lambda c: c.get("problem"))
            assert all_objects(store) == before, lie
    finally:
        sql(a, true)
    wait_for(lambda: len(all_objects(store)) < len(before), 90, f"the control: {collection(a)}")
    assert mark_of(a, key, "named") == "named"
    drop(pair, key, "named")


def test_a_collector_that_is_killed_leaves_nothing_undone(pair):
    a, b = pair
    key, store = key_of(pair), a.store
    settle(pair)
    share(a, key, "stays", "stays")
    kept = all_objects(store)
    share(a, key, "goes", "goes", size=40_000_000)
    drop(pair, key, "goes")
    age(store)
    for n in (a, b):
        for p in workers(n):  # at any place of a round
            os.kill(p, signal.SIGSTOP)
    age_rows(a)
    wait_for(lambda: sql(a, "SELECT until > now() FROM cluster.duties") == "t", 60, "a round is under way")
    for n in (a, b):
        held = workers(n)
        os.kill(n.member_pid(), signal.SIGKILL)
        for p in held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGKILL)
    for n in (a, b):
        await_up(n)
        n.await_state("held")
    sql(a, "UPDATE cluster.duties SET until = '-infinity'")  # a quarter of an hour has passed
    wait_for(lambda: all_objects(store) <= kept, 120, f"the next one goes on: {collection(a)} {collection(b)}")
    assert all_objects(store) == kept and mark_of(b, key, "stays") == "stays"
    drop(pair, key, "stays")
