# SPDX-License-Identifier: Apache-2.0
"""Sandboxes at rest: paused, stopped, kept, resumed; get-or-create; and what time does to them."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import uuid

import pytest
from cloche import Client, Sandbox, errors
from harness import audit
from harness.daemon import Daemon, wait_for

TICK = "i=0; while :; do i=$((i+1)); echo $i > /tmp/tick; sleep 0.01; done"


def fresh_name():
    return f"r-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def own():
    """A daemon of this test's own that leaves sandboxes to the next one."""
    daemon = Daemon("--default-memory", "128MiB", "--plain-storage", rm=False).start()
    try:
        yield daemon
    finally:
        daemon.options.append("--rm")
        if daemon.process.poll() is not None:
            daemon.start()
        with Client(daemon.url, daemon.key) as client:
            for sandbox in client.list():
                sandbox.delete()
        ids = daemon.ids()
        status = daemon.stop()
        layers = os.listdir(daemon.data / "layers")
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, left, layers) == (0, [], [])


def test_a_paused_sandbox_stands_still_and_goes_on_where_it_was(make_sandbox):
    sandbox = make_sandbox()
    sandbox.start(TICK)
    wait_for(lambda: sandbox.files.exists("/tmp/tick"), what="the first tick")
    info = sandbox.pause(to="memory")
    assert (info.state, info.expires_us, info.ended) == ("paused", None, None)
    for call in (lambda: sandbox.run("true"), lambda: sandbox.files.read("/tmp/tick"), lambda: sandbox.run_code("1")):
        with pytest.raises(errors.Conflict) as e:
            call()
        assert "resume" in e.value.hint
    assert sandbox.resume().resumed is True
    assert sandbox.info.expires_us
    before = int(sandbox.files.read("/tmp/tick"))
    wait_for(lambda: int(sandbox.files.read("/tmp/tick") or 0) > before, what="the next tick")


def test_nothing_runs_while_it_is_paused(make_sandbox):
    sandbox = make_sandbox()
    sandbox.start("while :; do :; done")

    def stats():
        """State and CPU ticks of its processes; the agent, which stays awake, is not among them."""
        groups = [path for one in audit.cgroup_dirs({sandbox.id}) for path in pathlib.Path(one).rglob("user/cgroup.procs")]
        rows = [open(f"/proc/{pid}/stat").read().rpartition(")")[2].split() for path in groups for pid in path.read_text().split()]
        return [(row[0], int(row[11]) + int(row[12])) for row in rows]

    wait_for(lambda: any(ticks > 2 for _, ticks in stats()), what="CPU time")
    sandbox.pause(to="memory")
    before = stats()
    assert before and "R" not in [state for state, _ in before]
    assert stats() == before


def test_a_call_resumes_a_paused_sandbox_that_was_made_for_it(make_sandbox):
    sandbox = make_sandbox(auto_resume=True)
    sandbox.files.write("a", b"1")
    sandbox.pause(to="memory")
    assert sandbox.run("cat a").stdout == "1"
    assert sandbox.refresh().state == "running"


def test_interpreters_keep_their_state_over_a_pause(make_sandbox):
    sandbox = make_sandbox(auto_resume=True)
    sandbox.run_code("x = 41")
    sandbox.pause(to="memory")
    assert sandbox.run_code("x + 1").results[0].data["text/plain"] == "42"


def test_a_stop_ends_a_sandbox_and_its_record_stays(make_sandbox):
    sandbox = make_sandbox()
    assert sandbox.stop().ended["cause"] == "stopped"
    with pytest.raises(errors.Gone):
        sandbox.run("true")
    with pytest.raises(errors.Gone):
        sandbox.resume()


def test_a_persistent_sandbox_is_resumed_by_the_next_call_whatever_it_is(make_sandbox):
    sandbox = make_sandbox(persistent=True, env={"A": "b"}, tags={"t": "1"}, limits={"pids": 77})
    sandbox.files.write("/home/user/note", b"kept")
    sandbox.run("echo x > /usr/local/share/x && useradd -m bob", user="root")
    calls = [
        lambda: sandbox.run("cat note; id -un bob; echo $A").stdout == "kept" + "bob\nb\n",
        lambda: sandbox.files.read("/home/user/note") == b"kept",
        lambda: sandbox.run_code("open('/home/user/note').read()").results[0].data["text/plain"] == "'kept'",
        lambda: sandbox.files.write("/home/user/new", b"n" * 100000) is not None,
        lambda: sandbox.contexts.create("c") is not None,
    ]
    for n, call in enumerate(calls, 1):
        assert sandbox.stop().state == "stopped"
        assert call()
        info = sandbox.refresh()
        assert (info.state, info.resumes, info.tags, info.limits["pids"]) == ("running", n, {"t": "1"}, 77)


def test_what_a_stopped_persistent_sandbox_holds_is_only_its_files(make_sandbox, daemon):
    sandbox = make_sandbox(persistent=True)
    sandbox.start("sleep 1000")
    sandbox.stop()
    assert not audit.processes_of_cgroups({sandbox.id})
    assert not audit.cgroup_dirs({sandbox.id})
    assert not (daemon.run / "sandboxes" / sandbox.id).exists()
    assert (daemon.data / "layers" / sandbox.id).is_dir()
    sandbox.delete()
    assert not (daemon.data / "layers" / sandbox.id).exists()


def test_files_that_were_kept_count_against_the_disk_limit(make_sandbox):
    sandbox = make_sandbox(persistent=True, limits={"disk_mib": 64})
    sandbox.run("head -c 40M /dev/urandom > a")
    sandbox.stop()
    r = sandbox.run("head -c 40M /dev/urandom > b")
    assert r.exit_code != 0
    assert sandbox.run("stat -c %s a").stdout.strip() == str(40 << 20)


def test_a_resume_that_races_a_stop_and_a_delete_leaves_one_clear_state(make_sandbox, client):
    for _ in range(5):
        sandbox = make_sandbox(persistent=True)
        results = []

        def attempt(verb):
            try:
                getattr(client.get(sandbox.id), verb)()
                results.append(verb)
            except errors.ClocheError as e:
                results.append(type(e).__name__)

        threads = [threading.Thread(target=attempt, args=(v,)) for v in ("stop", "resume", "pause", "delete")]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert "delete" in results
        assert set(results) <= {"stop", "resume", "pause", "delete", "Conflict", "Gone", "NotFound"}


GET = """
import sys
from cloche import Client, Sandbox
made = resumed = 0
with Client(sys.argv[1], sys.argv[2]) as client:
    ids = set()
    for _ in range(int(sys.argv[4])):
        s = Sandbox.get_or_create(sys.argv[3], client=client)
        ids.add(s.id)
        made += s.info.created
print(made, *ids)
"""


def test_two_processes_that_get_or_create_100_times_make_one_sandbox(client, daemon):
    name = fresh_name()
    argv = [sys.executable, "-c", GET, daemon.url, daemon.key, name, "100"]
    both = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [p.communicate(timeout=60)[0].split() for p in both]
    try:
        assert sum(int(line[0]) for line in lines) == 1
        assert lines[0][1:] == lines[1][1:] and len(lines[0]) == 2
    finally:
        client.get(name).delete()


def test_callers_that_come_while_it_is_made_wait_for_it(client):
    name = fresh_name()
    found = []

    def get():
        s = Sandbox.get_or_create(name, client=client)
        found.append((s.id, s.info.created, s.run("echo up").stdout))

    threads = [threading.Thread(target=get) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    try:
        assert len({f[0] for f in found}) == 1 and sum(f[1] for f in found) == 1
        assert [f[2] for f in found] == ["up\n"] * 8
    finally:
        client.get(name).delete()


def test_get_or_create_resumes_and_tells_which_of_the_two_happened(client):
    name, seen = fresh_name(), []
    get = lambda: Sandbox.get_or_create(  # noqa: E731
        name, client=client, persistent=True, on_create=lambda s: seen.append("create"), on_resume=lambda s: seen.append("resume")
    )
    sandbox = get()
    try:
        sandbox.stop()
        assert get().id == sandbox.id
        assert get().info.resumes == 1
        sandbox.pause()
        assert get().refresh().state == "running"
        assert seen == ["create", "resume", "resume"]
    finally:
        sandbox.delete()


def test_a_name_is_required_for_get_or_create(client):
    with pytest.raises(errors.InvalidField) as e:
        client.create(get_or_create=True)
    assert e.value.field == "name"


def test_an_idle_sandbox_is_stopped_and_looking_at_it_is_no_activity(make_sandbox, client):
    sandbox = make_sandbox(persistent=True, idle_timeout=0.3)
    info = wait_for(lambda: next((s.info for s in client.list() if s.id == sandbox.id and s.info.state == "stopped"), None), 20, "the end")
    assert (info.state, info.ended["cause"], info.ended["detail"]) == ("stopped", "idle", {"idle_timeout_ms": 300})
    assert sandbox.run("echo back").stdout == "back\n"


@pytest.mark.parametrize("busy", ["exec", "code", "watch", "attach"])
def test_a_sandbox_in_which_something_goes_on_is_not_idle(make_sandbox, busy):
    sandbox, other, watch = make_sandbox(), make_sandbox(), None
    if busy == "exec":
        sandbox.start("sleep 1000")
    elif busy == "attach":
        sandbox.start("cat", open_stdin=True)
    elif busy == "watch":
        watch = sandbox.files.watch("/tmp")
        watch.__enter__()
    else:
        threading.Thread(target=lambda: _quietly(sandbox.run_code, "import time; time.sleep(1000)"), daemon=True).start()
        wait_for(lambda: any(c.state == "busy" for c in sandbox.contexts.list()), what="the call")
    for one, seconds in ((sandbox, 0.2), (other, 0.4)):
        one.update(idle_timeout=seconds)
    wait_for(lambda: other.refresh().ended, 20, "the end of an idle one")
    assert sandbox.refresh().state == "running"
    if watch:
        watch.close()
    else:
        return
    wait_for(lambda: sandbox.refresh().ended, 20, "the end")


def _quietly(fn, *args):
    try:
        fn(*args)
    except errors.ClocheError:
        pass


def test_a_lifetime_can_be_extended(make_sandbox):
    sandbox = make_sandbox(timeout=60)
    before = sandbox.info.expires_us
    assert abs(sandbox.extend(100).expires_us - before - 100_000_000) < 2_000_000
    with pytest.raises(errors.InvalidField):
        sandbox.extend(40 * 86400)


@pytest.mark.parametrize("action,state", [("delete", "stopped"), ("stop", "stopped"), ("pause", "paused")])
def test_what_happens_when_time_is_up_can_be_chosen(make_sandbox, action, state):
    sandbox = make_sandbox(on_timeout=action)
    sandbox.update(timeout=0.2)
    wait_for(lambda: sandbox.refresh().state == state, 20, state)
    if state == "paused":
        assert sandbox.resume().expires_us  # it has the same time again


def test_name_env_and_clocks_are_changed_while_it_runs(make_sandbox, client):
    sandbox = make_sandbox(env={"A": "1"})
    name = fresh_name()
    info = sandbox.update(name=name, env={"B": "2"}, idle_timeout=900, on_timeout="stop", auto_resume=True)
    assert client.get(name).id == sandbox.id
    assert (info.raw["env_names"], info.raw["idle_timeout_ms"], info.raw["on_timeout"]) == (["B"], 900000, "stop")
    assert sandbox.run("echo $A$B").stdout == "2\n"


def test_ten_tags_and_more_are_kept(make_sandbox):
    tags = {f"tag-{i}": str(i) for i in range(32)}
    assert make_sandbox(tags=tags).info.tags == tags


def test_kept_files_outlive_kill_9_and_a_restart_of_the_machine(own):
    with Client(own.url, own.key) as client:
        stopped = client.create(name="stopped", persistent=True)
        stopped.files.write("a", b"1")
        stopped.stop()
        running = client.create(name="running", persistent=True)
        running.files.write("b", b"2")
        pids = audit.processes_of_cgroups({running.id})
        own.process.send_signal(signal.SIGKILL)
        own.process.wait()
        for part in ("broker", "gateway"):  # they see the launcher's end; wait for it
            wait_for(lambda: not [p for p in _processes(own) if part in p], 20, part)
        for pid in sorted(pids):
            with contextlib.suppress(ProcessLookupError):  # it died with its agent
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not audit.processes_of_cgroups({running.id}), what="no guest")
        shutil.rmtree(own.run)  # it is on a tmpfs: gone with the machine
    own.start()
    with Client(own.url, own.key) as client:
        assert client.get("running").info.ended["cause"] in ("guest_crash", "host_restart")
        assert client.get("running").files.read("b") == b"2"
        assert client.get("stopped").files.read("a") == b"1"
        assert client.get("stopped").info.resumes == 1


def _processes(daemon):
    found = []
    for pid in os.listdir("/proc"):
        try:
            line = open(f"/proc/{pid}/cmdline", errors="replace").read() + open(f"/proc/{pid}/comm").read()
        except OSError:
            continue
        if str(daemon.dir) in line:
            found.append(line)
    return found


def test_a_database_that_was_lost_costs_no_kept_file(own):
    with Client(own.url, own.key) as client:
        kept = client.create(persistent=True)
        kept.files.write("a", b"1")
        kept.stop()
    own.stop()
    state = own.data / "gateway" / "state.db"
    state.rename(own.dir / "away.db")
    (own.data / "admin.key").rename(own.dir / "away.key")
    own.start()
    layer = own.data / "layers" / kept.id
    assert layer.is_dir()
    own.stop()
    assert layer.is_dir()
    for suffix in ("", "-wal", "-shm"):
        (own.data / "gateway" / f"state.db{suffix}").unlink(missing_ok=True)
    (own.dir / "away.db").rename(state)
    (own.dir / "away.key").rename(own.data / "admin.key")
    own.start()
    with Client(own.url, own.key) as client:
        assert client.get(kept.id).files.read("a") == b"1"
