# SPDX-License-Identifier: Apache-2.0
"""E2B's published Python SDK against this daemon: the calls that a program begins with, with three variables set."""

import time

import pytest

e2b = pytest.importorskip("e2b")
interpreter = pytest.importorskip("e2b_code_interpreter")


@pytest.fixture(scope="module")
def settings(daemon):
    """As a user would set them."""
    key = daemon.key.removeprefix("clo_")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("E2B_API_URL", daemon.url)
        patch.setenv("E2B_SANDBOX_URL", daemon.url)
        patch.setenv("E2B_VOLUME_API_URL", daemon.url)
        patch.setenv("E2B_API_KEY", f"e2b_{key}")
        yield


@pytest.fixture
def box(settings):
    sandbox = interpreter.Sandbox.create(timeout=120, metadata={"made by": "tests"}, envs={"OF_BOX": "1"})
    yield sandbox
    sandbox.kill()


def test_commands_run_fail_and_take_input(box):
    assert box.commands.run("echo $OF_BOX; whoami").stdout == "1\nuser\n"
    with pytest.raises(e2b.CommandExitException) as failed:
        box.commands.run("echo out; exit 3")
    assert (failed.value.exit_code, failed.value.stdout) == (3, "out\n")
    handle = box.commands.run("cat", background=True, stdin=True)
    box.commands.send_stdin(handle.pid, "typed")
    box.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "typed"
    assert box.commands.kill(999999) is False


def test_files_are_written_read_watched_and_removed(box):
    box.files.make_dir("w")
    watch = box.files.watch_dir("w")
    assert box.files.write("w/a.txt", "ö").path == "/home/user/w/a.txt"
    assert [e.type.value for e in watch.get_new_events()] == ["create", "chmod", "write"]
    watch.stop()
    assert box.files.read("w/a.txt") == "ö" and [e.name for e in box.files.list("w")] == ["a.txt"]
    box.files.rename("w/a.txt", "b.txt")
    assert box.files.exists("b.txt") and not box.files.exists("w/a.txt")
    box.files.remove("b.txt")
    with pytest.raises(e2b.NotFoundException):
        box.files.read("b.txt")


def test_a_picture_is_shown_when_it_is_saved(box):
    if box.run_code("from PIL import Image").error:
        pytest.skip("this host has no PIL")
    saved = box.run_code("Image.new('RGB', (4, 4), 'red').save('red.png'); print('saved')")
    assert saved.results[0].png and saved.logs.stdout == ["saved\n"]
    assert box.run_code("import os; os.environ['E2B_SANDBOX']").text == "true"


def test_an_interpreter_that_root_has_killed_comes_back(box):
    """Theirs lives inside and is started again by systemd; here each call has one, whatever became of the last."""
    pid = box.run_code("import os; os.getpid()").text
    box.commands.run(f"kill -9 {pid}", user="root")
    deadline = time.monotonic() + 30
    while (again := box.run_code("x = 1; x")).error and time.monotonic() < deadline:
        assert again.error.name == "ContextDied"  # a call that came before the daemon had seen the end
    assert again.text == "1" and box.run_code("os.getpid()").error.name == "NameError"
    assert box.run_code("x").text == "1"


def test_code_keeps_its_state_and_tells_errors(box):
    assert box.run_code("x = 20; x + 1").text == "21"
    assert box.run_code("print(x)").logs.stdout == ["20\n"]
    assert box.run_code("no_such_name").error.name == "NameError"
    context = box.create_code_context(cwd="/tmp")
    assert box.run_code("import os; os.getcwd()", context=context).text == "/tmp"


def test_a_sandbox_is_found_paused_woken_and_killed_once(settings):
    sandbox = e2b.Sandbox.create(timeout=120, metadata={"name": "one of its own"})
    listed = e2b.Sandbox.list(query=e2b.SandboxQuery(metadata={"name": "one of its own"})).next_items()
    assert [s.sandbox_id for s in listed] == [sandbox.sandbox_id]
    sandbox.commands.run("echo kept > file")
    sandbox.pause()
    assert not sandbox.is_running()
    assert sandbox.connect().files.read("file") == "kept\n"
    assert sandbox.kill() is True and sandbox.kill() is False
    with pytest.raises(e2b.NotFoundException):
        e2b.Sandbox.connect(sandbox.sandbox_id)


def test_a_wrong_key_is_told_as_such(settings):
    with pytest.raises((e2b.AuthenticationException, e2b.RateLimitException)):  # the second where many were refused just before
        e2b.Sandbox.create(api_key="e2b_" + "0" * 40)


def test_files_of_a_volume_are_there_with_and_without_a_sandbox(settings):
    volume = e2b.Volume.create("py-volume")
    try:
        volume.write_file("/x.txt", "from outside")
        sandbox = e2b.Sandbox.create(timeout=120, volume_mounts={"/mnt/v": volume})
        try:
            assert sandbox.commands.run("cat /mnt/v/x.txt; echo inside > /mnt/v/y.txt").stdout == "from outside"
        finally:
            sandbox.kill()
        assert volume.read_file("/y.txt") == "inside\n"
        assert sorted(entry.name for entry in volume.list("/")) == ["x.txt", "y.txt"]
    finally:
        assert e2b.Volume.destroy(volume.volume_id) is True


def test_cells_of_notebooks_run_commands_and_pip(box):
    assert box.run_code("!echo from a shell").logs.stdout == ["from a shell\n"]
    told = "".join(box.run_code("if True:\n    %pip --version").logs.stdout)
    assert told.startswith("pip ") or "No module named pip" in told + "".join(box.run_code("%pip --version").logs.stderr)


def version_of(client):
    return next(one["version"] for one in client.secrets() if one["name"] == "sdk-key")


def test_secrets_are_the_project_s_and_their_values_are_never_told(settings, client):
    made = e2b.Secret.create("sdk-key", "sk-of-the-test")
    try:
        assert made.name == "sdk-key" and "sk-of-the-test" not in repr(made)
        assert version_of(client) == 1
        with pytest.raises(e2b.SecretException, match="there is a secret"):
            e2b.Secret.create("sdk-key", "other")
        with pytest.raises(e2b.SecretException, match="metadata"):
            e2b.Secret.create("sdk-more", "value", metadata={"owner": "me"})
        e2b.Secret.update("sdk-key", "sk-of-tomorrow")
        assert version_of(client) == 2
        assert e2b.Secret.get_info(made.secret_id).name == "sdk-key"
        pages = e2b.Secret.list(limit=1)
        assert "sdk-key" in [one.name for _ in iter(lambda: pages.has_next, False) for one in pages.next_items()]
        rules = {"api.example.com": [{"transform": {"headers": {"Authorization": f"Bearer {e2b.Secret.fill('sdk-key')}"}}}]}
        box = e2b.Sandbox.create(timeout=60, network={"allow_out": ["api.example.com"], "deny_out": ["0.0.0.0/0"], "rules": rules})
        assert "Bearer secret://sdk-key" in repr(client.get(f"sb_{box.sandbox_id}").network())
        with pytest.raises(e2b.SecretException, match="refer to secret"):
            e2b.Secret.destroy("sdk-key")
        box.kill()
    finally:
        e2b.Secret.destroy("sdk-key")
    with pytest.raises(e2b.SecretNotFoundException):
        e2b.Secret.get_info("sdk-key")
