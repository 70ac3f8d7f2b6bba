# SPDX-License-Identifier: Apache-2.0
"""Inspect's sandboxes in cloche: what Inspect's own suite does not ask for."""

import asyncio

import pytest
import yaml
from cloche import AsyncClient, errors
from conftest import FIELDS
from inspect_ai.util import OutputLimitExceededError, SandboxUnavailableError
from inspect_ai.util._sandbox.limits import override_max_exec_output_size


async def test_more_output_than_inspect_wants_ends_the_command(sandbox_env):
    with override_max_exec_output_size(1000):
        assert len((await sandbox_env.exec(["head", "-c", "1000", "/dev/zero"])).stdout) == 1000
        for stream in ("1", "2"):
            with pytest.raises(OutputLimitExceededError) as e:
                await sandbox_env.exec(["sh", "-c", f"yes 7654321 >&{stream}"])
            assert e.value.truncated_output.startswith("7654321\n") and len(e.value.truncated_output) == 1000
        assert not (await sandbox_env.exec(["pgrep", "-x", "yes"])).success


async def test_what_a_command_said_before_its_time_was_up_is_told(sandbox_env):
    with pytest.raises(TimeoutError) as e:
        await sandbox_env.exec(["sh", "-c", "echo begun; sleep 7654"], timeout=1)
    assert e.value.truncated_output == "begun\n"


async def test_a_program_that_is_not_there_is_a_failed_command(sandbox_env):
    done = await sandbox_env.exec(["no-such-program"])
    assert (done.success, done.returncode) == (False, 127) and "no-such-program" in done.stderr
    done = await sandbox_env.exec(["true"], cwd="/nowhere")
    assert not done.success and "/nowhere" in done.stderr
    done = await sandbox_env.exec(["no-such-program", *["x" * 1000] * 200])
    assert done.returncode == 127 and "no-such-program" in done.stderr
    assert (await sandbox_env.exec(["sh", "-c", "ls -A /tmp"])).stdout == ""  # what carried the words is gone


async def test_root_works_where_the_sample_s_files_are(sandbox_env):
    await sandbox_env.write_file("mine", "1")
    done = await sandbox_env.exec(["sh", "-c", "id -u; cat mine"], user="root")
    assert done.stdout == "0\n1"
    await sandbox_env.exec(["sh", "-c", "umask 077; echo secret > his"], user="root")
    with pytest.raises(PermissionError, match="his"):
        await sandbox_env.read_file("his")
    with pytest.raises(PermissionError):
        await sandbox_env.exec(["true"], cwd="/root")
    with pytest.raises(NotADirectoryError):
        await sandbox_env.write_file("mine/deeper", "2")


async def test_text_that_is_none_is_refused_and_line_ends_stay(sandbox_env):
    await sandbox_env.write_file("bad", b"\xff\xfe\x00")
    with pytest.raises(UnicodeDecodeError):
        await sandbox_env.read_file("bad")
    await sandbox_env.write_file("dos", "a\r\nb\r\n")
    assert await sandbox_env.read_file("dos") == "a\r\nb\r\n"
    assert (await sandbox_env.exec(["printf", "\\377"])).stdout == "\ufffd"


async def test_a_mode_stays_when_a_file_is_written_anew(sandbox_env):
    await sandbox_env.write_file("run.sh", "#!/bin/sh\necho one\n")
    await sandbox_env.exec(["chmod", "755", "run.sh"])
    await sandbox_env.write_file("run.sh", "#!/bin/sh\necho two\n")
    assert (await sandbox_env.exec(["./run.sh"])).stdout == "two\n"


async def test_a_command_that_nobody_waits_for_any_more_is_killed(sandbox_env):
    waiting = asyncio.ensure_future(sandbox_env.exec(["sh", "-c", "touch begun; sleep 7653"]))
    while not (await sandbox_env.exec(["test", "-e", "begun"])).success:
        await asyncio.sleep(0.05)
    waiting.cancel()
    while (await sandbox_env.exec(["pgrep", "-f", "sleep 765[3]"])).success:
        await asyncio.sleep(0.05)


async def test_a_sandbox_that_has_ended_is_unavailable(provider, config):
    made = await provider.sample_init("suite", config, {})
    env = made["default"]
    assert (await env.connection(user="root")).command.split()[:4] == ["cloche", "shell", "--user", "root"]
    waiting = asyncio.ensure_future(env.exec(["sh", "-c", "touch begun; sleep 7652"]))
    while not (await env.exec(["test", "-e", "begun"])).success:
        await asyncio.sleep(0.05)
    await env.sandbox.delete()
    for call in (waiting, env.exec(["true"]), env.read_file("x"), env.write_file("x", "")):
        with pytest.raises(SandboxUnavailableError):
            await call
    with pytest.raises(ConnectionError):
        await env.connection()
    await provider.sample_cleanup("suite", config, made, True)  # it is gone: fine


async def test_several_sandboxes_each_with_its_own_place_and_policy(provider, tmp_path):
    file = tmp_path / "cloche.yaml"
    fields = {name: value for name, value in FIELDS.items() if value}
    both = {"other": {**fields, "env": {"WHO": "other"}}, "default": {**fields, "working_dir": "/tmp/deep/work", "env": {"WHO": "first"}}}
    file.write_text(yaml.safe_dump({"sandboxes": both}))
    made = await provider.sample_init("suite", str(file), {})
    try:
        assert list(made) == ["default", "other"]
        await made["default"].write_file("a", "1")
        told = [(await env.exec(["sh", "-c", "echo $WHO; pwd; ls"])).stdout.split() for env in made.values()]
        assert told == [["first", "/tmp/deep/work", "a"], ["other", "/home/user"]]
    finally:
        await provider.sample_cleanup("suite", str(file), made, False)


@pytest.mark.parametrize("fields, words", [
    ({"memory_mb": 512}, "limits="),
    ({"netwrk": "deny-all"}, "did you mean 'network'"),
    ({"sandboxes": {"one": {}}}, "called default"),
    ({"sandboxes": {"default": {}}, "image": "x"}, "no image"),
    ({"sandboxes": {"default": {"imag": "x"}}}, "did you mean 'image'"),
])
async def test_a_field_that_no_sandbox_has_is_refused_by_name(provider, tmp_path, fields, words):
    file = tmp_path / "cloche.yaml"
    file.write_text(yaml.safe_dump(fields))
    with pytest.raises((TypeError, ValueError), match=words):
        await provider.task_init("suite", str(file))
    with pytest.raises((TypeError, ValueError), match=words):
        provider.config_deserialize(fields)


async def test_a_policy_that_the_daemon_does_not_take_makes_no_sandbox(provider):
    config = provider.config_deserialize({"network": {"allow": ["not a host!"]}})
    with pytest.raises(errors.InvalidField) as e:
        await provider.sample_init("suite", config, {})
    assert e.value.field.startswith("network")


async def test_a_sample_that_is_cancelled_while_its_sandbox_is_made_leaves_none(provider, config):
    for pause in (0, 0.01, 0.03):
        making = asyncio.ensure_future(provider.sample_init("cancelled", config, {}))
        await asyncio.sleep(pause)
        making.cancel()
        try:
            await provider.sample_cleanup("cancelled", config, await making, True)
        except asyncio.CancelledError:
            pass
    async with AsyncClient() as client:
        while [s async for s in client.list(tag="inspect:cancelled") if s.info.ended is None]:
            await asyncio.sleep(0.05)


async def test_the_command_line_cleans_up_what_is_left(provider, config):
    made = await provider.sample_init("forgotten", config, {})
    async with AsyncClient() as client:
        other = await client.create(engine=FIELDS["engine"], template=FIELDS["template"])
        await provider.cli_cleanup(None)
        assert (await made["default"].sandbox.refresh()).ended["cause"] == "deleted"
        assert (await other.refresh()).ended is None
        await provider.cli_cleanup(other.id)
        assert (await other.refresh()).ended["cause"] == "deleted"


async def test_a_compose_file_s_services_are_the_sample_s_sandboxes(provider, tmp_path):
    """They reach each other by name, the default one is asked for commands, and nothing of them stays."""
    file = tmp_path / "compose.yaml"
    file.write_text(
        f"x-here: &here\n  x-cloche: {{template: {FIELDS['template'] or 'host'}}}\n"
        "services:\n  solver:\n    <<: *here\n    x-default: true\n    working_dir: /tmp\n    command: sleep infinity\n    depends_on: [files]\n"
        "  files:\n    <<: *here\n    command: python3 -m http.server 8000\n"
    )
    if FIELDS["engine"]:
        (tmp_path / "cloche.yaml").write_text(f"compose: compose.yaml\nengine: {FIELDS['engine']}\n")
        file = tmp_path / "cloche.yaml"
    assert file.name in provider.config_files()
    made = await provider.sample_init("suite", str(file), {})
    try:
        assert list(made) == ["default", "files"]
        asked = await made["default"].exec(["curl", "-sS", "--retry", "20", "--retry-all-errors", "--retry-delay", "0", "http://files:8000/"])
        assert "Directory listing" in asked.stdout, asked
        await made["default"].write_file("note", "1")
        assert (await made["default"].exec(["cat", "/tmp/note"])).stdout == "1"
        group = made["files"].as_type(provider).sandbox.info.group
    finally:
        await provider.sample_cleanup("suite", str(file), made, False)
    async with AsyncClient() as client:
        assert [s async for s in client.list(group=group)] == []


async def test_a_compose_file_without_a_default_is_refused_before_the_first_sample(provider, tmp_path):
    file = tmp_path / "compose.yaml"
    file.write_text("services:\n  a: {x-cloche: {template: host}}\n  b: {x-cloche: {template: host}}\n")
    with pytest.raises(ValueError, match="there are a, b"):
        await provider.task_init("suite", str(file))
    (tmp_path / "cloche.yaml").write_text("compose: compose.yaml\nnonsense: 1\n")
    with pytest.raises(TypeError, match="nonsense"):
        await provider.task_init("suite", str(tmp_path / "cloche.yaml"))
