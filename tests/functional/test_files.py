# SPDX-License-Identifier: Apache-2.0
"""A sandbox's files: every operation, done inside as the chosen user."""

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import errors
from harness.daemon import IS_SANITIZED, memory_kib, wait_for


@pytest.mark.vm
@pytest.mark.neutral
def test_what_is_written_is_read(sandbox):
    data = bytes(range(256)) * 300
    entry = sandbox.files.write("a.bin", data)
    assert (entry.type, entry.size, entry.user, entry.mode & 0o777) == ("file", len(data), "user", 0o644)
    assert sandbox.files.read("a.bin") == data
    assert sandbox.files.read("/home/user/a.bin") == data


@pytest.mark.neutral
def test_an_empty_file_is_a_file(sandbox):
    sandbox.files.write("empty", b"")
    assert sandbox.files.read("empty") == b""
    assert sandbox.files.stat("empty").size == 0


@pytest.mark.neutral
def test_a_range_of_a_file_can_be_read(sandbox):
    sandbox.files.write("r", b"0123456789")
    assert sandbox.files.read("r", offset=3, length=4) == b"3456"
    assert sandbox.files.read("r", offset=8) == b"89"
    assert sandbox.files.read("r", offset=8, length=100) == b"89"
    assert sandbox.files.read("r", offset=100) == b""
    assert sandbox.files.read("r", length=0) == b""


@pytest.mark.neutral
def test_append_adds_to_what_is_there(sandbox):
    sandbox.files.write("log", b"one\n")
    sandbox.files.append("log", b"two\n")
    assert sandbox.files.read("log") == b"one\ntwo\n"


@pytest.mark.neutral
def test_a_write_replaces_and_keeps_nothing_of_the_old(sandbox):
    sandbox.files.write("f", b"x" * 1000)
    sandbox.files.write("f", b"y")
    assert sandbox.files.read("f") == b"y"


@pytest.mark.neutral
def test_a_file_that_was_changed_since_it_was_read_is_not_replaced(sandbox):
    files = sandbox.files
    seen = files.write("shared", b"mine")
    seen = files.write("shared", b"mine, again", if_unchanged=seen)
    sandbox.run("echo theirs > shared; touch -d @1000 shared").check()
    with pytest.raises(errors.FileChanged):
        files.write("shared", b"over it", if_unchanged=seen)

    def slowly():
        yield b"over "
        sandbox.run("echo later > shared; touch -d @2000 shared").check()
        yield b"it"

    with pytest.raises(errors.FileChanged):
        files.write("shared", slowly(), if_unchanged=files.stat("shared"))
    assert files.read("shared") == b"later\n" and [e.name for e in files.list(".") if e.name.startswith(".cloche-")] == []
    files.remove("shared")
    with pytest.raises(errors.FileMissing):
        files.write("shared", b"again", if_unchanged=seen)


@pytest.mark.neutral
def test_of_writers_on_condition_none_loses_anothers(sandbox):
    """Each adds one to what it has read, until it was not disturbed: a sum that is right needs every one of them."""
    files, each, writers = sandbox.files, 5, 4
    files.write("sum", b"0")

    def add(_):
        done = 0
        while done < each:
            seen = files.stat("sum")
            try:
                files.write("sum", b"%d" % (int(files.read("sum")) + 1), if_unchanged=seen)
                done += 1
            except errors.FileChanged:
                pass

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(add, range(writers)))
    assert files.read("sum") == b"%d" % (each * writers)
    assert [entry.name for entry in files.list(".") if entry.name.startswith(".cloche-")] == []


@pytest.mark.neutral
def test_a_file_that_is_written_in_place_has_the_condition_too(sandbox):
    files = sandbox.files
    sandbox.run("mkdir /closed && cd /closed && echo old > f && chmod 666 f", user="root").check()
    seen = files.stat("/closed/f")  # nobody but root makes names beside it
    sandbox.run("echo theirs > /closed/f; touch -d @1000 /closed/f", user="root").check()
    for how in ({}, {"append": True}):
        with pytest.raises(errors.FileChanged):
            files.write("/closed/f", b"mine", if_unchanged=seen, **how)
    assert files.read("/closed/f") == b"theirs\n"
    files.write("/closed/f", b"mine", if_unchanged=files.stat("/closed/f"))
    files.write("/closed/f", b" too", if_unchanged=files.stat("/closed/f"), append=True)
    assert files.read("/closed/f") == b"mine too"


@pytest.mark.neutral
def test_exclusive_refuses_what_exists(sandbox):
    sandbox.files.write("once", b"1", exclusive=True)
    with pytest.raises(errors.FileExists):
        sandbox.files.write("once", b"2", exclusive=True)
    assert sandbox.files.read("once") == b"1"


@pytest.mark.neutral
def test_parents_are_made_when_asked_for(sandbox):
    with pytest.raises(errors.FileMissing):
        sandbox.files.write("p/q/r", b"1")
    sandbox.files.write("p/q/r", b"1", parents=True)
    assert sandbox.files.stat("p/q").type == "directory"


@pytest.mark.neutral
def test_the_mode_is_the_one_asked_for(sandbox):
    sandbox.files.write("run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert sandbox.run(["./run.sh"]).stdout == "ran\n"
    sandbox.files.chmod("run.sh", 0o600)
    assert sandbox.files.stat("run.sh").mode == 0o600


@pytest.mark.neutral
def test_files_belong_to_who_wrote_them(sandbox):
    sandbox.files.write("/tmp/by-root", b"", user="root")
    assert sandbox.files.stat("/tmp/by-root").uid == 0
    sandbox.files.chown("/tmp/by-root", "user:user", user="root")
    entry = sandbox.files.stat("/tmp/by-root")
    assert (entry.user, entry.group) == ("user", "user")


@pytest.mark.neutral
def test_a_user_may_not_do_what_the_user_inside_may_not(sandbox):
    with pytest.raises(errors.FileDenied):
        sandbox.files.read("/etc/shadow")
    with pytest.raises(errors.FileDenied):
        sandbox.files.write("/etc/new", b"")
    with pytest.raises(errors.FileDenied):
        sandbox.files.list("/root")
    with pytest.raises(errors.FileDenied):
        sandbox.files.chown("/home/user", "root")


@pytest.mark.neutral
def test_what_is_missing_is_a_typed_error_for_every_operation(sandbox):
    f = sandbox.files
    for call in (
        lambda: f.read("no"), lambda: f.stat("no"), lambda: f.list("no"), lambda: f.move("no", "x"),
        lambda: f.copy("no", "x"), lambda: f.remove("no"), lambda: f.chmod("no", 0o600),
        lambda: f.chown("no", "user"), lambda: list(f.tar_out("no")), lambda: f.mkdir("no/no"),
        lambda: f.watch("no"),
    ):
        with pytest.raises(errors.FileMissing):
            call()
    f.remove("no", missing_ok=True)
    assert not f.exists("no")


@pytest.mark.neutral
def test_the_wrong_kind_of_file_is_a_typed_error(sandbox):
    f = sandbox.files
    f.mkdir("d")
    f.write("f", b"")
    for call in (lambda: f.read("d"), lambda: f.list("f"), lambda: f.write("d", b""), lambda: f.read("f/x")):
        with pytest.raises((errors.FileInvalid, errors.FileMissing, errors.FileExists)):
            call()


@pytest.mark.neutral
def test_a_symlink_is_seen_as_such_and_followed_when_asked(sandbox):
    f = sandbox.files
    f.write("target", b"12345")
    f.symlink("link", "target")
    assert (f.stat("link").type, f.stat("link").target) == ("symlink", "target")
    assert f.stat("link", follow=True).size == 5
    assert f.read("link") == b"12345"
    f.symlink("broken", "/no/where")
    assert f.exists("broken")
    assert not f.exists("broken", follow=True)
    f.remove("link")
    assert f.exists("target")


@pytest.mark.neutral
def test_a_symlink_loop_is_a_typed_error(sandbox):
    sandbox.files.symlink("a", "b")
    sandbox.files.symlink("b", "a")
    with pytest.raises(errors.FileInvalid):
        sandbox.files.read("a")


@pytest.mark.neutral
def test_a_directory_is_listed_with_depth_and_limit(sandbox):
    sandbox.run("mkdir -p t/a/b/c; touch t/1 t/a/2 t/a/b/3 t/a/b/c/4")
    names = lambda **k: sorted(e.path for e in sandbox.files.list("t", **k))  # noqa: E731
    assert names() == ["1", "a"]
    assert names(recursive=True) == ["1", "a", "a/2", "a/b", "a/b/3", "a/b/c", "a/b/c/4"]
    assert names(recursive=True, depth=2) == ["1", "a", "a/2", "a/b"]
    assert len(names(recursive=True, limit=3)) == 3


@pytest.mark.neutral
def test_names_of_any_bytes_can_be_listed_and_read(sandbox):
    for name in ("with space", "new\nline", "quote'\"\\", "ü🎈", "-dash", "per%cent", "a?b&c=d#e", "\t", "x" * 255):
        sandbox.files.write(f"odd/{name}", name.encode(), parents=True)
        assert sandbox.files.read(f"odd/{name}") == name.encode()
    assert len(sandbox.files.list("odd")) == 9
    sandbox.run(["python3", "-c", "open(b'odd/\\xff\\xfe', 'w').close()"])
    assert len(sandbox.files.list("odd")) == 10


@pytest.mark.neutral
def test_a_name_that_is_too_long_is_a_typed_error(sandbox):
    with pytest.raises((errors.FileInvalid, errors.InvalidField)):
        sandbox.files.write("x" * 256, b"")
    with pytest.raises((errors.FileInvalid, errors.InvalidField, errors.FileMissing)):
        sandbox.files.read("y/" * 2050)


@pytest.mark.neutral
def test_a_path_of_nearly_the_longest_kind_can_be_used(sandbox):
    """Each byte of it takes three on the wire."""
    path = "/tmp/" + "/".join(["ü" * 120] * 15) + "/f"
    assert len(path.encode()) > 3600
    sandbox.files.write(path, b"1", parents=True)
    assert sandbox.files.read(path) == b"1"


@pytest.mark.neutral
def test_directories_are_made_moved_copied_and_removed(sandbox):
    f = sandbox.files
    f.mkdir("m/n", parents=True, mode=0o750)
    assert f.stat("m/n").mode == 0o750
    with pytest.raises(errors.FileExists):
        f.mkdir("m")
    f.write("m/n/x", b"1")
    f.move("m", "moved")
    assert not f.exists("m") and f.read("moved/n/x") == b"1"
    with pytest.raises((errors.FileInvalid, errors.FileExists)):
        f.copy("moved", "copied")
    f.copy("moved", "copied", recursive=True)
    f.write("copied/n/x", b"2")
    assert f.read("moved/n/x") == b"1"
    with pytest.raises((errors.FileInvalid, errors.FileExists, errors.Conflict)):
        f.remove("moved")
    f.remove("moved", recursive=True)
    assert not f.exists("moved")


@pytest.mark.neutral
def test_remove_of_a_tree_goes_through_no_symlink(sandbox):
    sandbox.run("mkdir keep tree; touch keep/me; ln -s ../keep tree/link; ln -s /home/user/keep tree/abs")
    sandbox.files.remove("tree", recursive=True)
    assert sandbox.files.exists("keep/me")


@pytest.mark.neutral
def test_a_deep_tree_is_removed(sandbox):
    sandbox.run(["python3", "-c", "import os\nfor i in range(1500):\n os.mkdir('dddddddd'); os.chdir('dddddddd')"], cwd="/tmp")
    sandbox.files.remove("/tmp/dddddddd", recursive=True)
    assert not sandbox.files.exists("/tmp/dddddddd")


@pytest.mark.neutral
def test_a_move_refuses_what_exists_when_asked(sandbox):
    f = sandbox.files
    f.write("a", b"a")
    f.write("b", b"b")
    with pytest.raises(errors.FileExists):
        f.move("a", "b", exclusive=True)
    f.move("a", "b")
    assert f.read("b") == b"a"


@pytest.mark.neutral
def test_an_upload_that_breaks_off_leaves_the_old_file(sandbox, daemon):
    sandbox.files.write("keep", b"old")

    def broken():
        yield b"new" * 100_000
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sandbox.files.write("keep", broken())
    assert sandbox.files.read("keep") == b"old"
    wait_for(lambda: [e.path for e in sandbox.files.list("/home/user")].count("keep") == 1
             and not [e for e in sandbox.files.list("/home/user") if "keep" in e.path and e.path != "keep"],
             10, "the half-written file's end")


@pytest.mark.slow
def test_a_gibibyte_goes_in_and_out_byte_identical_in_constant_memory(daemon, make_sandbox):
    sandbox = make_sandbox(limits={"disk_mib": 3000, "memory_mib": 512})
    # A sanitized agent sets freed memory aside, and its own bound is fixed.
    count = 64 if IS_SANITIZED else 1024
    block = os.urandom(1 << 20)
    peak, stop = [0], threading.Event()

    def watch_memory():
        while not stop.wait(0.05):
            peak[0] = max(peak[0], memory_kib(daemon.gateway_pid))

    watcher = threading.Thread(target=watch_memory)
    watcher.start()
    try:
        sent = hashlib.sha256()

        def pieces():
            for i in range(count):
                piece = i.to_bytes(8, "big") + block[8:]
                sent.update(piece)
                yield piece

        assert sandbox.files.write("big", pieces()).size == count << 20
        got = hashlib.sha256()
        for piece in sandbox.files.read_stream("big"):
            got.update(piece)
    finally:
        stop.set()
        watcher.join()
    assert got.digest() == sent.digest()
    assert peak[0] > 0 or IS_SANITIZED
    assert peak[0] < 64 * 1024


@pytest.mark.neutral
def test_special_files_are_refused_and_block_nothing(sandbox):
    sandbox.run("mkfifo fifo; ln -s /dev/zero zero; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"")
    for path in ("fifo", "sock", "/dev/zero", "zero", "/dev/tty"):
        with pytest.raises(errors.ClocheError) as e:
            sandbox.files.read(path)
        assert e.value.status < 500
    with pytest.raises(errors.ClocheError):
        sandbox.files.append("fifo", b"x")
    assert sandbox.run(["true"]).exit_code == 0


@pytest.mark.neutral
def test_a_sparse_file_of_a_pebibyte_can_be_looked_at(sandbox):
    if sandbox.run(["truncate", "-s", "1P", "sparse"]).exit_code != 0:
        pytest.skip("the layer's file system has no such files")
    assert sandbox.files.stat("sparse").size == 1 << 50
    assert sandbox.files.read("sparse", offset=(1 << 50) - 3) == b"\0\0\0"


@pytest.mark.neutral
def test_a_file_in_proc_can_be_read(sandbox):
    assert sandbox.files.read("/proc/self/status").startswith(b"Name:")


def test_a_full_disk_is_a_typed_error(make_sandbox):
    sandbox = make_sandbox(limits={"disk_mib": 32})
    if "disk_limit" in sandbox.info.isolation["gaps"]:
        pytest.skip("this host gives no disk limit")
    with pytest.raises(errors.DiskFull):
        sandbox.files.write("big", (b"x" * (1 << 20) for _ in range(64)))
    assert not sandbox.files.exists("big")
    sandbox.files.write("small", b"fits")


@pytest.mark.vm
@pytest.mark.neutral
def test_changes_are_watched(sandbox):
    sandbox.run("mkdir w; touch w/old")
    with sandbox.files.watch("w", recursive=True) as watch:
        assert next(watch)["type"] == "ready"
        sandbox.run("echo 1 > w/new")
        seen = []
        while not {("created", "new"), ("modified", "new")} <= set(seen):
            event = next(watch)
            seen.append((event["type"], event["path"]))
        sandbox.run("mv w/new w/moved; rm w/old; mkdir w/sub")
        wanted = {("removed", "old"), ("created", "sub")}
        moved = False
        while wanted or not moved:
            event = next(watch)
            wanted.discard((event["type"], event["path"]))
            moved = moved or (event["type"] == "moved" and (event["path"], event["to"]) == ("new", "moved"))
        sandbox.run("touch w/sub/inner")
        while (event := next(watch))["path"] != "sub/inner":
            pass


@pytest.mark.neutral
def test_a_watcher_that_leaves_leaves_nothing(sandbox):
    def count():
        return int(sandbox.run("ls /proc | grep -c '^[0-9]'").stdout)

    before = count()
    for _ in range(5):
        with sandbox.files.watch("/tmp") as watch:
            next(watch)
    wait_for(lambda: count() <= before, 10, "the watchers' end")
