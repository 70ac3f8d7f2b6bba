# SPDX-License-Identifier: Apache-2.0
"""File snapshots: what is in them, what is started from them, what they are charged for, and when they go."""

import base64
import random
import uuid

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, call
from harness.trees import CHANGE, MAKE, run_inside, walk

TREE = r"""
set -e
cd "$HOME" && mkdir -p d/e && echo one > d/one && echo two > /tmp/two && ln -s d/one link && ln d/one hard
mkfifo pipe && truncate -s 20M holes && printf end >> holes && chmod 741 d/one && touch -d @1000000000 d/one
sudo sh -c 'echo lib > /usr/local/lib/mine && chown 33:44 /usr/local/lib/mine && chmod 4755 /usr/local/lib/mine && rm /etc/issue'
python3 -c 'import os; os.setxattr("d/one", "user.note", b"kept")'
"""
# Everything of a tree that can be told of it, without what each sandbox has of its own.
DIGEST = r"""
import hashlib, os, stat, sys
def one(path):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    data = b""
    if stat.S_ISREG(st.st_mode):
        data = open(path, "rb").read()
    if stat.S_ISLNK(st.st_mode):
        data = os.readlink(path).encode()
    attributes = sorted((n, os.getxattr(path, n, follow_symlinks=False)) for n in os.listxattr(path, follow_symlinks=False))
    size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
    return repr((path, oct(st.st_mode), st.st_uid, st.st_gid, size, st.st_mtime_ns, st.st_nlink * (kind == stat.S_IFREG),
                 hashlib.sha256(data).hexdigest(), attributes))
for top in sys.argv[1:]:
    print(one(top))
    for where, dirs, names in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + names):
            print(one(os.path.join(where, name)))
"""


def digest(sandbox, *tops):
    result = sandbox.run(["python3", "-c", DIGEST, *tops], user="root")
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def saved(client):
    """A function that takes snapshots; all are removed at the end."""
    made = []

    def take(sandbox, *args, **fields):
        made.append(sandbox.snapshot(*args, **fields)["id"])
        return client.snapshot(made[-1])

    yield take
    for one in made:
        try:
            client.delete_snapshot(one)
        except errors.NotFound:
            pass


def test_a_sandbox_from_a_snapshot_has_every_file_as_it_was(sandbox, make_sandbox, saved):
    assert sandbox.run(TREE).exit_code == 0
    before = digest(sandbox, "/home", "/tmp", "/usr/local/lib/mine")
    snapshot = saved(sandbox)
    sandbox.run("rm -rf d /tmp/two; echo changed > link")
    copy = make_sandbox(snapshot=snapshot["id"])
    assert digest(copy, "/home", "/tmp", "/usr/local/lib/mine") == before
    assert copy.run("test -e /etc/issue").exit_code == 1
    assert int(copy.run("stat -c %b holes").stdout) < 100
    assert copy.info.snapshot_id == snapshot["id"] and snapshot["state"] == "ready"


def test_neither_side_sees_what_the_other_writes_later(sandbox, make_sandbox, saved):
    sandbox.run("echo 1 > a")
    snapshot = saved(sandbox)
    first, second = (make_sandbox(snapshot=snapshot["id"]) for _ in range(2))
    first.run("echo 2 > a; sudo rm -rf /usr/share/common-licenses")
    sandbox.run("echo 3 > a")
    assert [s.run("cat a").stdout for s in (sandbox, first, second)] == ["3\n", "2\n", "1\n"]
    assert second.run("test -d /usr/share/common-licenses").exit_code == 0
    assert make_sandbox(snapshot=snapshot["id"]).run("cat a").stdout == "1\n"


def test_it_goes_on_while_a_snapshot_is_taken(sandbox, saved):
    running = sandbox.start("i=0; while read line; do i=$((i+1)); echo $i; done", open_stdin=True)
    running.write_stdin("a\n")
    saved(sandbox)
    running.write_stdin("b\n", eof=True)
    assert b"".join(e.data for e in running.output() if e.type == "stdout") == b"1\n2\n"


@pytest.mark.parametrize("rest", ["pause", "stop"])
def test_one_that_rests_can_be_saved(make_sandbox, saved, rest):
    sandbox = make_sandbox(persistent=True)
    sandbox.run("echo kept > a")
    getattr(sandbox, rest)()
    snapshot = saved(sandbox)
    assert sandbox.refresh().state == {"pause": "paused", "stop": "stopped"}[rest]
    assert make_sandbox(snapshot=snapshot["id"]).run("cat a").stdout == "kept\n"
    sandbox.resume()
    assert sandbox.run("cat a").stdout == "kept\n"


def test_a_persistent_one_from_a_snapshot_keeps_its_own_files(make_sandbox, sandbox, saved):
    sandbox.run("echo 1 > a")
    copy = make_sandbox(snapshot=saved(sandbox)["id"], persistent=True)
    copy.run("echo 2 >> a")
    copy.stop()
    copy.resume()
    assert copy.run("cat a").stdout == "1\n2\n"


def test_a_snapshot_outlives_its_sandbox_and_what_was_started_from_it_outlives_the_snapshot(client, make_sandbox, saved):
    source = make_sandbox()
    source.run("echo 1 > a")
    snapshot = saved(source)
    source.delete()
    copy = make_sandbox(snapshot=snapshot["id"])
    client.delete_snapshot(snapshot["id"])
    assert copy.run("cat a; echo 2 >> a; cat a").stdout == "1\n1\n2\n"
    with pytest.raises(errors.InvalidField) as refused:
        client.create(snapshot=snapshot["id"])
    assert refused.value.field == "snapshot"


def test_names_are_the_projects_own(client, sandbox, saved):
    name = f"s-{uuid.uuid4().hex[:8]}"
    snapshot = saved(sandbox, name)
    assert client.snapshot(name) == snapshot
    with pytest.raises(errors.Conflict):
        sandbox.snapshot(name)
    with pytest.raises(errors.InvalidField) as refused:
        sandbox.snapshot("Not/good")
    assert refused.value.field == "name"
    renamed = client.update_snapshot(name, name=name + "-2")
    assert client.snapshot(name + "-2") == renamed
    with pytest.raises(errors.NotFound):
        client.snapshot(name)


def test_the_last_ones_and_those_with_a_name_are_kept(client, sandbox, saved):
    named = saved(sandbox, f"s-{uuid.uuid4().hex[:8]}")
    for _ in range(4):
        last = saved(sandbox, keep_last=2)
    kept = list(sandbox.snapshots())
    assert kept[0] == last and kept[-1] == client.snapshot(named["id"]) and len(kept) == 3
    assert [s["generation"] for s in kept] == [5, 4, 1]


def test_one_that_expires_goes_by_itself(client, sandbox, daemon):
    snapshot = sandbox.snapshot(expires_in=0.2)
    for event in client.events(follow=True, type="snapshot.removed", sandbox=sandbox.id):
        if event["data"]["snapshot_id"] == snapshot["id"]:
            break
    with pytest.raises(errors.NotFound):
        client.snapshot(snapshot["id"])


def test_environment_and_limits_come_with_it_and_the_network_does_not(make_sandbox, saved):
    source = make_sandbox(env={"A": "1", "B": "2"}, limits={"memory_mib": 200, "disk_mib": 300}, network="allow-all")
    snapshot = saved(source)
    assert snapshot["env_names"] == ["A", "B"] and "1" not in str(snapshot["env_names"])
    copy = make_sandbox(snapshot=snapshot["id"], env={"B": "3"})
    assert copy.run("echo $A$B").stdout == "13\n"
    assert copy.info.limits["memory_mib"] == 200 and copy.info.limits["disk_mib"] == 300
    assert copy.network()["kind"] == "deny-all"


def test_a_template_is_not_given_with_a_snapshot(client, sandbox, saved):
    with pytest.raises(errors.InvalidField) as refused:
        client.create(snapshot=saved(sandbox)["id"], template="host")
    assert refused.value.field == "template"


def test_a_snapshot_becomes_a_template(client, sandbox, make_sandbox, saved):
    # What the agent needs where it is not static: a sanitized one is not.
    libraries = 'for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o "/[^ ]*"); do cp --parents -L $i /template; done'
    sandbox.run(f"mkdir -p /template && echo saved > /template/word; {libraries}", user="root").check()
    snapshot = saved(sandbox)
    sandbox.run("echo later > /template/word", user="root").check()
    name = f"of-snapshot-{uuid.uuid4().hex[:8]}"
    client.create_template(name, snapshot["id"], tree=True)
    try:
        with client.create(template=name) as made:
            assert made.files.read("/word") == b"saved\n"
    finally:
        client.delete_template(name)
    with pytest.raises(errors.NotFound, match="no sandbox or snapshot 'nothing'"):
        client.create_template(name, "nothing", tree=True)


def test_usage_is_read_page_by_page_over_snapshots_too(daemon, sandbox, saved):
    id = saved(sandbox)["id"]
    cursor = base64.urlsafe_b64encode(id.encode()).decode().rstrip("=")  # as a page that ends with its account has it
    status, body = call(daemon, "GET", f"/v1/usage?group_by=sandbox&cursor={cursor}", key=daemon.key)
    assert status == 200 and all(row["sandbox_id"] > id for row in body["rows"])


def disk_mib(sandbox):
    return sandbox.usage()["now"]["disk_bytes"] / (1 << 20)


def test_the_disk_shows_all_files_at_once_also_those_that_a_snapshot_has(make_sandbox, saved):
    source = make_sandbox(limits={"disk_mib": 128})
    before = disk_mib(source)
    assert source.run("head -c 8M /dev/urandom > data; sync").exit_code == 0
    assert before + 8 <= disk_mib(source) < before + 16
    taken = saved(source)
    assert before + 8 <= disk_mib(source) < before + 16
    copy = make_sandbox(snapshot=taken["id"])
    assert before + 8 <= disk_mib(copy) < before + 16


def test_shared_bytes_are_counted_once_and_the_disk_limit_holds(make_sandbox, saved, client):
    source = make_sandbox(limits={"disk_mib": 64})
    assert source.run("head -c 30M /dev/urandom > a").exit_code == 0
    first, second = saved(source), saved(source)
    assert 30 << 20 <= first["bytes"] < 34 << 20 and first["own_bytes"] == first["bytes"]
    assert second["bytes"] >= first["bytes"] and second["own_bytes"] < 1 << 20
    client.delete_snapshot(first["id"])  # the bytes are the second's now
    assert client.snapshot(second["id"])["own_bytes"] >= 30 << 20
    copy = make_sandbox(snapshot=second["id"])
    full = copy.run("head -c 50M /dev/urandom > b")
    assert full.exit_code != 0 and "quota" in full.stderr.lower() + "quota" * ("space" in full.stderr)
    assert copy.run("rm b; sync; head -c 20M /dev/zero > c").exit_code == 0
    # What only the snapshot has is not the source's any more: it can write as much again.
    assert source.run("rm a; head -c 30M /dev/urandom > a").exit_code == 0
    with pytest.raises(errors.InvalidField) as refused:
        client.create(snapshot=second["id"], limits={"disk_mib": 16})
    assert refused.value.field == "limits.disk_mib"


def test_forks_have_the_files_and_names_of_their_own(sandbox, client):
    sandbox.run("echo x > a")
    forks = sandbox.fork(3, memory=False, name=f"f-{uuid.uuid4().hex[:6]}", tags={"k": "v"})
    try:
        assert [f.run("cat a").stdout for f in forks] == ["x\n"] * 3
        assert [f.info.name[-2:] for f in forks] == ["-1", "-2", "-3"]
        assert {f.info.snapshot_id for f in forks} == {forks[0].info.snapshot_id}
        assert forks[0].info.tags == {"k": "v"}
        automatic = client.snapshot(forks[0].info.snapshot_id)
        assert automatic["automatic"] and automatic["sandbox_id"] == sandbox.id
    finally:
        for fork in forks:
            fork.delete()
    with pytest.raises(errors.NotFound):  # it goes with the last of them
        client.snapshot(automatic["id"])


@pytest.mark.slow
def test_a_hundred_forks_share_no_identity(sandbox, engine):
    many = {"jail": 100, "vm": 4}[engine]
    sandbox.run("true")
    forks = sandbox.fork(many, memory=False)
    try:
        seen = [f.run("cat /etc/machine-id; hostname; cat /etc/hostname").stdout.split() for f in [sandbox, *forks]]
        for values in zip(*seen):
            assert len(set(values)) == many + 1
        assert len({f.id for f in [sandbox, *forks]}) == many + 1
    finally:
        for fork in forks:
            fork.delete()


def test_a_fork_that_some_cannot_be_made_of_tells_which(client, daemon):
    project = client.create_project(f"forks-{uuid.uuid4().hex[:8]}")["id"]
    client.set_quota(project=project, sandboxes=4)
    with Client(daemon.url, client.create_key("k", scope="write", project=project)["secret"]) as own:
        source = own.create()
        source.run("echo x > a")
        with pytest.raises(errors.ForkError) as some:
            source.fork(5, memory=False)
        made = some.value.sandboxes
        assert [(f["index"], f["code"]) for f in some.value.failed] == [(3, "quota_exceeded"), (4, "quota_exceeded")]
        assert [s.run("cat a").stdout for s in made] == ["x\n"] * 3
        with pytest.raises(errors.QuotaError):  # none at all: nothing is left of it either
            source.fork(2, memory=False)
        assert len(list(own.snapshots())) == 1
        for one in [source, *made]:
            one.delete()
        assert own.quota()["current"]["sandboxes"] == 0 and list(own.snapshots()) == []


def test_without_criu_memory_is_refused_by_name_and_files_are_saved():
    hide = 'for i in /usr/sbin/criu /usr/bin/criu /usr/local/sbin/criu; do [ ! -e $i ] || mount --bind /dev/null $i; done; exec "$@"'
    daemon = Daemon(prefix=["unshare", "--mount", "sh", "-c", hide, "sh"]).start()
    try:
        with Client(daemon.url, daemon.key) as client, client.create() as sandbox:
            with pytest.raises(errors.Unsupported, match="CRIU") as refused:
                sandbox.fork(1)
            assert "install the package criu" in refused.value.hint
            with sandbox.fork(1, memory=False)[0] as copy:
                assert copy.run("true").exit_code == 0
    finally:
        assert daemon.stop() == 0
        daemon.remove()


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
def test_a_rollback_brings_the_files_back_under_the_same_id(make_sandbox, saved, persistent, state):
    if state == "stopped" and not persistent:
        pytest.skip("one that is not persistent has ended then")
    name = f"r-{uuid.uuid4().hex[:8]}"
    sandbox = make_sandbox(persistent=persistent, name=name, env={"A": "1"})
    sandbox.run("echo 1 > a; sudo sh -c 'echo u > /usr/local/u'")
    snapshot = saved(sandbox)
    sandbox.run("echo 2 > a; echo b > b; sudo rm /usr/local/u /etc/issue")
    left = sandbox.start("sleep 1000")
    if state != "running":
        getattr(sandbox, {"paused": "pause", "stopped": "stop"}[state])()
    info = sandbox.rollback(snapshot["id"])
    assert (info.id, info.name, info.state, info.snapshot_id) == (sandbox.id, name, "running", snapshot["id"])
    assert info.persistent == persistent
    assert sandbox.run("cat a /usr/local/u /etc/issue > /dev/null && cat a; ls b 2>/dev/null; echo $A").stdout == "1\n1\n"
    assert left.refresh().state != "running"
    sandbox.run("echo 3 > a")
    sandbox.rollback(snapshot["id"])  # again
    assert sandbox.run("cat a").stdout == "1\n"
    if persistent:
        sandbox.stop()
        sandbox.resume()
        assert sandbox.run("cat a").stdout == "1\n"


def test_bytes_are_counted_rightly_after_a_rollback(make_sandbox, saved):
    sandbox = make_sandbox(persistent=True, limits={"disk_mib": 64})
    sandbox.run("head -c 10M /dev/urandom > a")
    first = saved(sandbox)
    sandbox.rollback(first["id"])
    sandbox.run("head -c 5M /dev/urandom > b")
    second = saved(sandbox)
    assert 15 << 20 <= second["bytes"] < 18 << 20
    assert 5 << 20 <= second["own_bytes"] < 7 << 20  # what was written since, and no less for what there was before
    assert sandbox.run("rm a b; head -c 80M /dev/urandom > c").exit_code != 0


def test_a_rollback_that_cannot_be_is_refused_and_changes_nothing(make_sandbox, saved, client):
    sandbox = make_sandbox(limits={"disk_mib": 64})
    sandbox.run("head -c 20M /dev/urandom > a")
    snapshot = saved(sandbox)
    other = make_sandbox(limits={"disk_mib": 16})
    for target, wanted in [(snapshot["id"], errors.InvalidField), ("nobody", errors.NotFound)]:
        with pytest.raises(wanted):
            other.rollback(target)
    assert other.run("echo still here").stdout == "still here\n"


def test_the_tree_tells_who_comes_from_whom(client, make_sandbox, saved):
    root = make_sandbox()
    first = saved(root)
    middle = make_sandbox(snapshot=first["id"])
    second = saved(middle)
    leaf = make_sandbox(snapshot=second["id"])
    middle.delete()
    tree = leaf.tree()
    parents = {n["id"]: n["parent_id"] for n in tree["nodes"]}
    assert tree["root_id"] == root.id == tree["nodes"][0]["id"]
    assert parents == {root.id: None, first["id"]: root.id, middle.id: first["id"], second["id"]: middle.id, leaf.id: second["id"]}
    assert tree == client.snapshot_tree(first["id"]) == root.tree()


def test_random_trees_come_back_identical(sandbox, make_sandbox, saved):
    seed = uuid.uuid4().int & 0xFFFFFF
    rng = random.Random(seed)
    script = ["cd $HOME", "mkdir -p r && cd r"]
    for i in range(120):
        name = "".join(rng.choice("ab/.c\\ é'\"$-") for _ in range(rng.randint(1, 8))).replace("//", "/").strip("/. ") or "n"
        name = "'./" + name.replace("'", "'\\''") + f"{i}'"
        script.append(
            rng.choice([
                f"mkdir -p {name}",
                f"mkdir -p \"$(dirname {name})\"; head -c {rng.randint(0, 9000)} /dev/urandom > {name}",
                f"mkdir -p \"$(dirname {name})\"; ln -s ../{i} {name}",
                f"find . -mindepth 1 | sort | sed -n {rng.randint(1, 30)}p | tr '\\n' '\\0' | xargs -0 -r rm -rf",
                f"find . -type f | sort | sed -n {rng.randint(1, 30)}p | tr '\\n' '\\0' | xargs -0 -r chmod {rng.choice(['600', '755', '4711'])}",
                f"find . -mindepth 1 | sort | sed -n {rng.randint(1, 30)}p | tr '\\n' '\\0' | xargs -0 -r -I@ mv -n @ m{i}",
            ]) + " 2>/dev/null || true"
        )
    cut = rng.randint(40, 110)
    sandbox.run("\n".join(script[:cut]))
    before = digest(sandbox, "/home")
    snapshot = saved(sandbox)
    sandbox.run("\n".join(script[:2] + script[cut:]))
    assert digest(make_sandbox(snapshot=snapshot["id"]), "/home") == before, f"seed {seed}"


@pytest.mark.parametrize("persistent", [False, True])
def test_a_rollback_leaves_nothing_of_what_was_done_since(make_sandbox, saved, persistent):
    seed = uuid.uuid4().int & 0xFFFFFF
    sandbox = make_sandbox(persistent=persistent)
    run_inside(sandbox, MAKE, seed)
    before, first = walk(sandbox), saved(sandbox)["id"]
    run_inside(sandbox, CHANGE, seed + 1)
    after, second = walk(sandbox), saved(sandbox)["id"]
    assert after != before, f"seed {seed}"
    for snapshot, wanted in [(first, before), (second, after), (first, before)]:  # back, and forth again
        run_inside(sandbox, CHANGE, seed + 2)
        sandbox.rollback(snapshot)
        assert walk(sandbox) == wanted, f"seed {seed}"
    assert walk(make_sandbox(snapshot=second)) == after, f"seed {seed}"
