# SPDX-License-Identifier: Apache-2.0
"""What differs between snapshots and sandboxes: told as a plain walk of both would, and of nobody else's."""

import contextlib
import json
import random
import uuid

import pytest
from cloche import Client, errors
from harness.daemon import wait_for
from harness.trees import CHANGE, MAKE, TOPS, expected, run_inside, told, walk

BEFORE = "cd && echo a > f && mkdir -p d/e && echo x > d/e/x && ln -s f l && printf 'a\\0b' > bin && seq 100 > nums && mkfifo p"
AFTER = """cd && echo b >> f && rm -r d && echo d > d && chmod 700 nums && ln -sf q l && printf 'a\\0c' > bin && sed -i 50d nums
mkdir n && echo 1 > n/1 && sudo rm -rf /usr/share/common-licenses && sudo chown root f && echo t > /tmp/t"""


@pytest.fixture
def saved(client):
    made = []

    def take(sandbox):
        made.append(sandbox.snapshot()["id"])
        return made[-1]

    yield take
    for one in made:
        with contextlib.suppress(errors.NotFound):
            client.delete_snapshot(one)


def test_a_diff_tells_paths_kinds_sizes_and_texts(client, sandbox, saved):
    assert sandbox.run(BEFORE).exit_code == 0
    snapshot = saved(sandbox)
    assert sandbox.diff(snapshot)["changes"] == []
    assert sandbox.run(AFTER).exit_code == 0
    reply = sandbox.diff(snapshot, patch=True)
    changes = {c["path"]: c for c in reply["changes"]}
    assert not reply["truncated"]
    short = {p: (c["kind"], c["changed"]) for p, c in changes.items() if not p.startswith("/usr/share/common-licenses/")}
    assert short == {
        "/home/user/bin": ("modified", ["content"]),
        "/home/user/d": ("modified", ["type"]),
        "/home/user/d/e": ("deleted", []),
        "/home/user/d/e/x": ("deleted", []),
        "/home/user/f": ("modified", ["content", "owner"]),
        "/home/user/l": ("modified", ["content"]),
        "/home/user/n": ("added", []),
        "/home/user/n/1": ("added", []),
        "/home/user/nums": ("modified", ["content", "mode"]),
        "/tmp/t": ("added", []),
        "/usr/share/common-licenses": ("deleted", []),
    }
    assert changes["/usr/share/common-licenses/Artistic"]["kind"] == "deleted"  # of the template
    f = changes["/home/user/f"]
    assert (f["size"], f["old_size"], f["uid"], f["old_uid"], f["mode"], f["type"]) == (4, 2, 0, 1000, "0644", "file")
    assert f["patch"] == "@@ -1,1 +1,2 @@\n a\n+b\n"
    assert "-50\n" in changes["/home/user/nums"]["patch"]
    assert changes["/home/user/bin"]["patch_omitted"] == "binary"
    assert (changes["/home/user/d"]["type"], changes["/home/user/d"]["old_type"]) == ("file", "directory")
    assert [c["path"] for c in reply["changes"]] == sorted(changes, key=lambda p: p.split("/"))
    back = {c["path"]: c["kind"] for c in client.diff(sandbox.id, snapshot)["changes"]}
    turned = {"added": "deleted", "deleted": "added", "modified": "modified"}
    assert back == {p: turned[c["kind"]] for p, c in changes.items()}
    # The snapshot that was taken for it goes with it.
    wait_for(lambda: [s["id"] for s in client.snapshots(sandbox=sandbox.id)] == [snapshot], 10, "nothing but what was asked for")


def test_a_diff_is_what_a_plain_walk_says(make_sandbox, client, saved):
    seed = uuid.uuid4().int & 0xFFFFFF
    sandbox = make_sandbox()
    run_inside(sandbox, MAKE, seed)
    before, first = walk(sandbox), saved(sandbox)
    run_inside(sandbox, CHANGE, seed + 1)
    after, second = walk(sandbox), saved(sandbox)
    assert told(client.diff(first, second, limit=100000), TOPS) == expected(before, after), f"seed {seed}"
    assert told(sandbox.diff(first, limit=100000), TOPS) == expected(before, after), f"seed {seed}"
    with pytest.raises(errors.ClocheError, match="the same"):
        client.diff(first, first)


def test_two_forks_are_compared_without_what_each_has_of_its_own(client, sandbox):
    one, other = sandbox.fork(2, memory=False)
    with one, other:
        assert client.diff(one.id, other.id)["changes"] == []  # not by their names in /etc
        one.run("echo 1 > a")
        assert [(c["path"], c["kind"]) for c in client.diff(one.id, other.id)["changes"]] == [("/home/user/a", "deleted")]


def test_a_limit_cuts_and_says_so(sandbox, saved):
    snapshot = saved(sandbox)
    sandbox.run("touch $(seq 20)")
    reply = sandbox.diff(snapshot, limit=7)
    assert (len(reply["changes"]), reply["truncated"]) == (7, True)
    assert not sandbox.diff(snapshot, limit=20)["truncated"]


def test_hostile_files_harm_only_their_own_diff(client, sandbox, saved):
    snapshot = saved(sandbox)
    deep = "import os\nfor i in range(400):\n    os.mkdir('d'); os.chdir('d')\n"
    sandbox.run(["python3", "-c", deep])
    with pytest.raises(errors.ClocheError, match="deeper"):
        sandbox.diff(snapshot)
    sandbox.run("chmod -R u+w d; rm -rf d; mkfifo pipe; ln -s /proc/self/mem mem; ln -s / root; truncate -s 1T holes; touch $(printf 'a\\377b')")
    changes = {c["path"]: c for c in sandbox.diff(snapshot, patch=True)["changes"]}
    assert changes["/home/user/root"]["type"] == "symlink" and "/home/user/root/etc" not in changes
    assert changes["/home/user/holes"]["patch_omitted"] == "too_large" and changes["/home/user/pipe"]["type"] == "fifo"


def test_nobody_compares_what_is_not_theirs(daemon, client, sandbox, saved, project_keys):
    snapshot = saved(sandbox)
    own = sandbox.id
    with Client(daemon.url, project_keys["other"]) as stranger, stranger.create() as mine:
        for pair in ((snapshot, mine.id), (mine.id, own), (own, snapshot), (mine.id, "sn_none")):
            with pytest.raises(errors.NotFound):
                stranger.diff(*pair)
        saved_by_them = mine.snapshot()["id"]
        assert mine.diff(saved_by_them)["changes"] == []
        stranger.delete_snapshot(saved_by_them)


def test_the_command_line_tells_changes_and_texts(cli, client, sandbox, saved):
    sandbox.run("echo a > f")
    snapshot = saved(sandbox)
    sandbox.run("echo b >> f; touch g; chmod 600 f")
    assert cli.ok("diff", snapshot, sandbox.id) == "M /home/user/f  (content, mode)\nA /home/user/g\n"
    assert " a\n+b\n" in cli.ok("diff", "--patch", snapshot, sandbox.id)
    assert json.loads(cli.ok("diff", "--json", snapshot, sandbox.id))["truncated"] is False
    assert "no snapshot or sandbox" in cli("diff", "sn_none", sandbox.id)[2]
