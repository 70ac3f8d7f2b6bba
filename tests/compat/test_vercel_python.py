# SPDX-License-Identifier: Apache-2.0
"""Vercel's published Python client against this daemon: it is given an address and credentials, and needs no shim."""

import uuid

import pytest

client_module = pytest.importorskip("vercel.sandbox.sync")
sandbox_module = pytest.importorskip("vercel.sandbox")


@pytest.fixture(scope="module")
def vercel(daemon):
    def credentials():
        return sandbox_module.SandboxCredentials(token=daemon.key, team_id="team_any", project_id="prj_any")

    options = client_module.SandboxServiceOptions(base_url=f"{daemon.url}/vercel/api", credentials_factory=credentials)
    client = client_module.SyncSandboxClient.create(options=options)
    yield client
    client.close()


@pytest.fixture(scope="module")
def box(vercel):
    with vercel.create_sandbox(name=f"python-{uuid.uuid4().hex[:8]}") as box:
        yield box


def test_a_process_runs_and_takes_input(box):
    done = box.run_process("echo", ["hello"], capture_output=True)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert box.run_process("sort", input="b\na\n", capture_output=True).stdout == "a\nb\n"
    assert box.run_process("bash", ["-c", "exit 3"]).returncode == 3
    long = "x" * 300_000
    assert box.run_process("wc", ["-c"], input=long, capture_output=True).stdout.strip() == str(len(long))
    assert box.run_process("env", env={"OF_CALL": "1"}, capture_output=True).stdout.count("OF_CALL=1\n") == 1


def test_a_program_that_is_not_there_is_told_apart_by_its_code(box):
    with pytest.raises(sandbox_module.SandboxError) as refused:
        box.create_process("no-such-program")
    assert (refused.value.status_code, refused.value.code) == (400, "executable_not_found")


def test_a_process_that_goes_on_is_talked_to(box):
    server = box.create_process("cat", stdin=-1)
    server.stdin.write(b"ping\n")
    assert server.stdout.readline() == "ping\n"
    assert server.communicate()[0] in ("", None) and server.wait() == 0


def test_files_are_written_read_listed_and_removed(box):
    box.fs.mkdir("d")
    box.fs.write_text("d/one.txt", "one")
    box.fs.write_bytes("d/two.bin", b"\0\xff")
    assert box.fs.read_text("d/one.txt") == "one" and box.fs.read_bytes("d/two.bin") == b"\0\xff"
    assert sorted(entry.path for entry in box.fs.listdir("d")) == ["one.txt", "two.bin"]
    box.fs.rename("d/one.txt", "d/three.txt")
    assert box.fs.exists("d/three.txt") and not box.fs.exists("d/one.txt")
    box.fs.remove("d", recursive=True)
    assert not box.fs.exists("d")


def test_a_sandbox_is_stopped_with_a_snapshot_and_goes_on_from_it(vercel):
    name = f"kept-{uuid.uuid4().hex[:8]}"
    box = vercel.create_sandbox(name=name, persistent=True)
    try:
        box.fs.write_text("kept.txt", "kept")
        taken = box.snapshot()
        assert taken.id in [one.id for one in vercel.query_snapshots()]
        assert vercel.get_snapshot(snapshot_id=taken.id).id == taken.id
        box.stop()
        again = vercel.get_sandbox(name=name)
        assert again.fs.read_text("kept.txt") == "kept"
        assert name in [one.name for one in vercel.query_sandboxes()]
        again.stop()
    finally:
        vercel.get_sandbox(name=name).destroy(delete_orphan_snapshots=True)
    with pytest.raises(sandbox_module.SandboxError):
        vercel.get_sandbox(name=name)


def test_drives_are_mounted_and_found_by_name_or_id(vercel):
    name = f"drive-{uuid.uuid4().hex[:8]}"
    drive, is_new = vercel.get_or_create_drive(name=name)
    try:
        assert is_new and vercel.get_or_create_drive(name=name)[1] is False
        with vercel.create_sandbox(persistent=False, mounts={"/mnt/data": drive}) as box:
            box.run_process("sh", ["-c", "echo held > /mnt/data/file"])
        with vercel.create_sandbox(persistent=False, mounts={"/mnt/data": drive.snapshot()}) as box:
            assert box.run_process("cat", ["/mnt/data/file"], capture_output=True).stdout == "held\n"
        assert vercel.get_drive(name_or_id=name).id == vercel.get_drive(name_or_id=drive.id).id == drive.id
        assert name in [one.name for one in vercel.query_drives()]
    finally:
        drive.delete()
    with pytest.raises(sandbox_module.SandboxError):
        vercel.get_drive(name_or_id=name)


def test_a_drive_is_forked_with_its_files_and_tells_where_it_comes_from(vercel):
    names = [f"drive-{uuid.uuid4().hex[:8]}" for _ in range(3)]
    drive, _ = vercel.get_or_create_drive(name=names[0], max_size_bytes=64 << 20)
    try:
        with vercel.create_sandbox(persistent=False, mounts={"/mnt/data": drive}) as box:
            box.run_process("sh", ["-c", "echo held > /mnt/data/file"])
            fork = drive.fork(name=names[1])  # while it is in use
            box.run_process("sh", ["-c", "echo later > /mnt/data/file"])
        assert (fork.name, fork.max_size_bytes, fork.region) == (names[1], 64 << 20, drive.region)
        again = vercel.fork_drive(source=names[1], name=names[2])
        assert [(one.parent_drive_id, one.root_drive_id) for one in (drive, fork, again)] == [(None, None), (drive.id, drive.id), (fork.id, drive.id)]
        for one in (fork, again):
            with vercel.create_sandbox(persistent=False, mounts={"/mnt/data": one}) as box:
                assert box.run_process("cat", ["/mnt/data/file"], capture_output=True).stdout == "held\n"
        with pytest.raises(sandbox_module.SandboxError):
            vercel.fork_drive(source=names[0], name=names[1])
        with pytest.raises(sandbox_module.SandboxError):
            vercel.fork_drive(source="not-there", name="other")
    finally:
        for one in vercel.query_drives():
            if one.name in names:
                one.delete()
