# SPDX-License-Identifier: Apache-2.0
"""Results: named files, and what execs have printed, outlive their sandbox, in bounds, for whoever comes back."""

import io
import os
import signal
import tarfile
import threading

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon, call, children_of, read_text, wait_for
from harness.running import running


@pytest.fixture(scope="module")
def own():
    """A daemon with room for 256 KiB of results of a sandbox, and for 512 KiB of a project."""
    options = ("--default-memory", "64MiB", "--pool-max", "0", "--results-sandbox", "256KiB", "--results-project", "512KiB", "--usage-period", "200ms")
    with running(Daemon(*options)) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


@pytest.fixture
def project(own, request):
    daemon, admin = own
    key = admin.create_key("results", scope="admin", project=admin.create_project(request.node.name[-50:].replace("[", "-").replace("]", ""))["id"])["secret"]
    with Client(daemon.url, key) as client:
        yield client
        for sandbox in client.list():
            sandbox.delete()


def told(client, sandbox):
    return {r["path"]: (r["state"], r["type"], r["bytes"]) for r in client.get(sandbox.id).info.results}


def await_end(client, sandbox):
    wait_for(lambda: client.get(sandbox.id).info.state == "stopped", what="the sandbox's end")


def test_files_and_output_stay_fetchable_after_a_delete_until_the_next_one(project):
    sandbox = project.create(results=["score.json", "/tmp/out", "missing"])
    assert told(project, sandbox) == {path: ("awaited", None, 0) for path in ("score.json", "/tmp/out", "missing")}
    exec_ = sandbox.start("mkdir -p /tmp/out/sub && echo deep > /tmp/out/sub/file && echo -n '{\"score\": 1}' > score.json && echo said")
    exec_.wait()
    sandbox.delete()
    assert told(project, sandbox)["score.json"] == ("kept", "file", 12) and told(project, sandbox)["missing"] == ("missing", None, 0)
    again = project.get(sandbox.id)
    assert again.read_result("score.json") == b'{"score": 1}'
    with tarfile.open(fileobj=io.BytesIO(again.read_result("/tmp/out"))) as tar:
        assert {m.name.rstrip("/") for m in tar.getmembers()} >= {"sub", "sub/file"} or any(m.name.endswith("sub/file") for m in tar.getmembers())
    with pytest.raises(errors.NotFound, match="no result 'missing' was kept"):
        again.read_result("missing")
    with pytest.raises(errors.InvalidField, match="not one of the sandbox's results"):
        again.read_result("/etc/passwd")
    (kept,) = again.execs()
    assert kept.id == exec_.id and b"".join(e.data for e in kept.output() if e.type == "stdout") == b"said\n"
    again.delete()
    with pytest.raises(errors.NotFound):
        project.get(sandbox.id)


@pytest.mark.vm
def test_each_engine_keeps_them(make_sandbox, client):
    sandbox = make_sandbox(results=["score.json", "logs"])
    sandbox.run("mkdir logs && echo 1 > logs/a && echo -n 42 > score.json")
    sandbox.delete()
    assert sandbox.read_result("score.json") == b"42"
    with tarfile.open(fileobj=io.BytesIO(sandbox.read_result("logs"))) as tar:
        assert any(m.name.endswith("/a") or m.name == "a" for m in tar.getmembers())
    client.get(sandbox.id).delete()


def test_nobody_has_to_be_there_when_its_time_is_up(own, project):
    """As when the trainer was killed: who comes back finds it by its tag, also after the daemon was killed."""
    daemon, _ = own
    sandbox = project.create(results=["report"], tags={"run": "7"}, timeout=30)
    sandbox.files.write("report", b"done")
    sandbox.update(timeout=1)
    await_end(project, sandbox)
    daemon.kill_parts("gateway")
    (found,) = project.list(tag="run:7", state="stopped")
    assert found.info.ended["cause"] == "timeout" and found.read_result("report") == b"done"


def test_what_is_still_awaited_is_refused_and_the_file_itself_can_be_read(project):
    sandbox = project.create(results=["a"])
    sandbox.files.write("a", b"1")
    with pytest.raises(errors.Conflict, match="has not ended"):
        sandbox.read_result("a")
    assert sandbox.files.read("a") == b"1"


@pytest.mark.parametrize("parts", [("gateway",), ("gateway", "broker")])
def test_a_kill_after_the_end_loses_none(own, project, parts):
    daemon, _ = own
    sandbox = project.create(results=["a"])
    sandbox.files.write("a", b"kept")
    sandbox.delete()
    daemon.kill_parts(*parts)
    assert project.get(sandbox.id).read_result("a") == b"kept"


def agent_of(daemon, sandbox):
    """The process on the host: a child of the broker's."""
    return next(p for p in children_of(daemon.broker_pid) if sandbox.id in read_text(f"/proc/{p}/cgroup"))


def delete_soon(client, sandbox):
    """Nobody waits for it: the daemon is killed meanwhile."""
    def delete():
        try:
            sandbox.delete()
        except errors.ClocheError:
            pass

    thread = threading.Thread(target=delete)
    thread.start()
    wait_for(lambda: client.get(sandbox.id).info.state == "stopping", what="the end to begin")
    return thread


@pytest.mark.parametrize("parts", [("gateway",), ("gateway", "broker")])
def test_a_kill_while_they_are_read_loses_none(own, project, parts):
    """Its agent stands still, so that the end cannot get beyond the results before the kill."""
    daemon, _ = own
    sandbox = project.create(results=["a", "logs"])
    sandbox.run("echo -n kept > a; mkdir logs; echo -n said > logs/all")
    agent = agent_of(daemon, sandbox)
    os.kill(agent, signal.SIGSTOP)
    try:
        thread = delete_soon(project, sandbox)
        daemon.kill_parts(*parts)
    finally:
        os.kill(agent, signal.SIGCONT)
    thread.join()
    await_end(project, sandbox)
    assert told(project, sandbox)["a"] == ("kept", "file", 4) and project.get(sandbox.id).read_result("a") == b"kept"
    with tarfile.open(fileobj=io.BytesIO(project.get(sandbox.id).read_result("logs"))) as tar:
        assert any(member.name.endswith("all") for member in tar.getmembers())
    assert project.get(sandbox.id).info.ended["cause"] == "deleted"


def test_a_kill_while_they_are_read_and_an_agent_that_is_silent_then_end_it_with_the_reason(own, project):
    daemon, _ = own
    sandbox = project.create(results=["a"])
    sandbox.files.write("a", b"1")
    agent = agent_of(daemon, sandbox)
    os.kill(agent, signal.SIGSTOP)
    thread = delete_soon(project, sandbox)
    daemon.kill_parts("gateway")
    thread.join()
    await_end(project, sandbox)
    assert "took too long" in project.get(sandbox.id).info.results[0]["why"]


def test_a_rollback_is_no_end_and_keeps_none(project):
    sandbox = project.create(results=["a"])
    sandbox.files.write("a", b"first")
    snapshot = sandbox.snapshot()
    sandbox.rollback(snapshot)
    assert told(project, sandbox)["a"][0] == "awaited"
    sandbox.files.write("a", b"second")
    sandbox.delete()
    assert project.get(sandbox.id).read_result("a") == b"second"


def test_forks_have_those_of_their_source_or_their_own(project):
    sandbox = project.create(results=["a"])
    sandbox.files.write("a", b"of all")
    (same,), (other,), (none,) = sandbox.fork(memory=False), sandbox.fork(memory=False, results=["b"]), sandbox.fork(memory=False, results=[])
    other.files.write("b", b"its own")
    for one in (same, other, none):
        one.delete()
    assert project.get(same.id).read_result("a") == b"of all" and project.get(other.id).read_result("b") == b"its own"
    assert project.get(none.id).info.results is None
    with pytest.raises(errors.InvalidField) as e:
        sandbox.fork(memory=False, persistent=True, results=["a"])
    assert e.value.field == "results"


def test_a_run_keeps_them_too(own, project):
    daemon, _ = own
    assert project.run("echo -n 1 > score; echo said", results=["score"], tags={"run": "once"}).stdout == "said\n"
    (ended,) = project.list(tag="run:once", state="stopped")
    assert ended.read_result("score") == b"1"
    project.run(code="open('score', 'w').write('2')", language="python", results=["score"], tags={"run": "code"})
    (ended,) = project.list(tag="run:code", state="stopped")
    assert ended.read_result("score") == b"2"
    with pytest.raises(errors.InvalidField) as e:
        project.run("true", results=["a", "a"])
    assert e.value.field == "results"


def test_the_command_line_s_run_and_fork_name_them(own, tmp_path):
    daemon, admin = own
    cli = Cli(daemon)
    status, out, err = cli("run", "--result", "score", "--", "sh", "-c", "echo 7 > score")
    id = err.split()[-1]
    assert (status, out) == (0, "") and err == f"cloche: the results are kept, see: cloche results {id}\n" and cli.ok("results", id, "score") == "7\n"
    source = cli.ok("create").strip()
    copy = cli.ok("fork", "--files", "--result", "b", source).strip()
    cli.ok("exec", copy, "--", "sh", "-c", "echo 8 > b")
    cli.ok("rm", source, copy)
    assert cli.ok("results", copy, "b") == "8\n"
    cli.ok("rm", id, copy)
    assert cli("run", "--standalone", "--result", "score", "--", "true")[0] == 125


def test_of_another_project_they_do_not_exist(own, project):
    _, admin = own
    sandbox = project.create(results=["a"])
    sandbox.files.write("a", b"mine")
    sandbox.delete()
    status, reply = call(own[0], "GET", f"/v1/sandboxes/{sandbox.id}/results?path=a")
    assert (status, reply["error"]["code"]) == (404, "not_found")


def test_R13_what_is_too_large_is_not_kept_and_the_rest_is(project):
    sandbox = project.create(results=["small", "large", "endless", "later"])
    sandbox.run("echo -n 12345 > small; head -c 300000 /dev/zero > large; ln -s /dev/zero endless; echo -n x > later")
    sandbox.delete()
    assert told(project, sandbox) == {"small": ("kept", "file", 5), "large": ("missing", None, 0), "endless": ("missing", None, 0), "later": ("kept", "file", 1)}
    why = {r["path"]: r["why"] for r in project.get(sandbox.id).info.results}
    assert "262144 bytes" in why["large"] and "neither a file nor a directory" in why["endless"]


def test_R13_past_the_bound_of_a_project_its_oldest_go(own, project):
    _, admin = own
    other = admin.create(results=["a"])
    other.files.write("a", b"0" * 200000)
    other.delete()
    made = []
    for _ in range(4):
        sandbox = project.create(results=["a"])
        sandbox.files.write("a", b"0" * 200000)
        sandbox.delete()
        made.append(sandbox)
    assert [told(project, s)["a"][0] for s in made] == ["missing", "missing", "kept", "kept"]
    assert "newer results" in project.get(made[0].id).info.results[0]["why"]
    assert told(admin, other)["a"] == ("kept", "file", 200000)


def test_E24_links_pipes_and_devices_as_results_hold_nobody_up(own, project):
    """A pipe is not opened, a link leads nowhere but inside, and programs that go on writing end with their sandbox."""
    sandbox = project.create(results=["pipe", "link", "loop", "growing", "/proc/1/mem", "/dev"])
    sandbox.run("mkfifo pipe; ln -s /etc/hostname link; ln -s loop loop; (while :; do echo x >> growing; done) >/dev/null 2>&1 &")
    sandbox.delete()
    states = {path: state for path, (state, _, _) in told(project, sandbox).items()}
    assert states["pipe"] == states["loop"] == states["/proc/1/mem"] == "missing" and states["link"] == "kept"
    assert project.get(sandbox.id).read_result("link").strip() != b""
    assert project.get(sandbox.id).info.ended["cause"] == "deleted"


def test_a_sandbox_that_is_paused_or_killed_tells_why_there_are_none(project):
    paused = project.create(results=["a"])
    paused.files.write("a", b"1")
    paused.pause()
    paused.delete()
    assert "did not run" in project.get(paused.id).info.results[0]["why"]


def test_they_are_charged_as_disk_until_they_are_gone(own, project):
    sandbox = project.create(results=["a"])
    sandbox.files.write("a", b"0" * 250000)
    sandbox.delete()

    def charged():
        rows = project.usage(group_by="sandbox")
        return sum(row["disk_mib_ms"] for row in rows if row["sandbox_id"] == f"res{sandbox.id[2:]}")

    wait_for(lambda: charged() > 0, what="the results to be charged")
    project.get(sandbox.id).delete()


@pytest.mark.parametrize("body, why", [
    ({"results": ["a"], "persistent": True}, "not persistent"),
    ({"results": ["a", "a"]}, "in it twice"),
    ({"results": [""]}, "must be paths"),
    ({"results": ["x" * 5000]}, "must be paths"),
    ({"results": [1]}, "must be paths"),
    ({"results": "a"}, "results"),
    ({"results": [f"f{i}" for i in range(33)]}, "results"),
])
def test_a_wish_that_cannot_be_is_refused_by_name(own, project, body, why):
    status, reply = call(own[0], "POST", "/v1/sandboxes", body)
    assert (status, reply["error"]["field"]) == (400, "results") and why in reply["error"]["message"]


def test_members_of_a_batch_have_results_too(project):
    made = list(project.create_many(3, results=["n"], timeout=60))
    for n, sandbox in enumerate(made):
        sandbox.files.write("n", str(n).encode())
    project.delete_batch(made[0].info.tags["batch"])
    assert sorted(project.get(s.id).read_result("n") for s in made) == [b"0", b"1", b"2"]
