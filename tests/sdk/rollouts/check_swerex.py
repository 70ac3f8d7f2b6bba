# SPDX-License-Identifier: Apache-2.0
"""SWE-ReX in cloche: deployments and runtimes as SWE-agent calls them, in the real package."""

import asyncio
import os

import pytest
from cloche import errors
from cloche.integrations.swerex import ClocheDeployment, ClocheDeploymentConfig
from conftest import FIELDS
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)


@pytest.fixture
async def deployment():
    deployment = ClocheDeploymentConfig(fields=FIELDS).get_deployment()
    await deployment.start()
    yield deployment
    await deployment.stop()


@pytest.fixture
def runtime(deployment):
    return deployment.runtime


@pytest.fixture
async def session(runtime):
    """Runs a command in a session."""
    await runtime.create_session(CreateBashSessionRequest())

    async def run(command, **fields):
        return await runtime.run_in_session(BashAction(command=command, **fields))

    return run


async def test_a_session_keeps_its_state(session):
    await session("cd /tmp; X=5; f() { echo called; }; export Y=6")
    assert (await session("pwd; echo $X; f; sh -c 'echo $Y'")).output == "/tmp\n5\ncalled\n6\n"


async def test_both_streams_come_in_their_order(session):
    assert (await session("echo 1; echo 2 >&2; echo 3; ls /nowhere || echo 4")).output.splitlines()[:3] == ["1", "2", "3"]


@pytest.mark.parametrize("command, code", [("true", 0), ("false", 1), ("(exit 7)", 7), ("no-such-program", 127), ("cat <<E\nhello\nE", 0), ("echo a\nfalse", 1),
                                           ("sh -c 'kill -9 $$'", 137)])
async def test_the_exit_code_is_the_last_command_s(session, command, code):
    assert (await session(command, check="silent")).exit_code == code
    assert (await session(command, check="ignore")).exit_code is None
    if code == 0:
        assert (await session(command)).exit_code == 0
    else:
        with pytest.raises(NonZeroExitCodeError, match="so it goes: .*exit code"):
            await session(command, error_msg="so it goes")


async def test_a_command_whose_time_is_up_is_interrupted_and_the_session_goes_on(session, runtime):
    await session("X=5")
    with pytest.raises(CommandTimeoutError):
        await session("sleep 7654", timeout=1)
    assert (await runtime.run_in_session(BashInterruptAction())).exit_code == 0
    assert (await session("echo $X; pgrep -x sleep || echo none")).output == "5\nnone\n"


async def test_a_shell_that_exits_is_told_and_replaced(session):
    await session("X=5")
    assert (await session("echo bye; exit 3", check="silent")).exit_code == 3
    assert (await session("echo \"<$X>\"; echo err >&2")).output == "<>\nerr\n"


async def test_bad_syntax_is_refused_before_it_runs(session):
    with pytest.raises(BashIncorrectSyntaxError) as e:
        await session("touch /tmp/ran; if then")
    assert "syntax error" in e.value.extra_info["bash_stderr"]
    assert (await session("ls -A /tmp")).output == ""


async def test_what_needs_a_terminal_is_refused_by_name(session):
    for field, value in (("is_interactive_command", True), ("is_interactive_quit", True), ("expect", ["gdb"])):
        with pytest.raises(NotImplementedError, match=field):
            await session("gdb", **{field: value})


async def test_sessions_are_apart_and_named(runtime):
    await runtime.write_file(WriteFileRequest(path="/tmp/rc", content="echo sourced; Z=9\n"))
    made = await runtime.create_session(CreateBashSessionRequest(session="a", startup_source=["/tmp/rc"]))
    assert made.output == "sourced\n"
    await runtime.create_session(CreateBashSessionRequest(session="b"))
    with pytest.raises(SessionExistsError):
        await runtime.create_session(CreateBashSessionRequest(session="a"))
    told = [(await runtime.run_in_session(BashAction(command="echo <$Z>".replace("<", "'<'").replace(">", "'>'"), session=name))).output for name in "ab"]
    assert told == ["<9>\n", "<>\n"]
    await runtime.close_session(CloseBashSessionRequest(session="a"))
    for call in (runtime.run_in_session(BashAction(command="true", session="a")), runtime.close_session(CloseBashSessionRequest(session="a"))):
        with pytest.raises(SessionDoesNotExistError):
            await call


async def test_a_command_is_run_as_subprocess_does(runtime):
    async def run(command, **fields):
        return await runtime.execute(Command(command=command, **fields))

    done = await run(["sh", "-c", "echo out; echo err >&2; exit 4"])
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 4)
    assert (await run("echo $((1 + 1)) $V", shell=True, env={"V": "v"}, cwd="/tmp")).stdout == "2 v\n"
    merged = await run(["sh", "-c", "echo 1; echo 2 >&2; echo 3"], merge_output_streams=True)
    assert (merged.stdout, merged.stderr) == ("1\n2\n3\n", "")
    assert (await run(["sh", "-c", "kill -9 $$"])).exit_code == -9
    assert (await run(["printf", "\\377"])).stdout == "\\xff"
    with pytest.raises(CommandTimeoutError):
        await run(["sleep", "7654"], timeout=0.5)
    with pytest.raises(NonZeroExitCodeError):
        await run(["false"], check=True)
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await run(["no-such-program"])
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        await run(["true"], cwd="/nowhere")
    with pytest.raises(PermissionError):
        await run(["/etc/passwd"])


async def test_files_and_directories_go_in_with_their_modes_and_links(runtime, tmp_path):
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "deep" / "run.sh").chmod(0o750)
    os.symlink("deep/run.sh", tree / "link")
    await runtime.upload(UploadRequest(source_path=str(tree), target_path="/tmp/in/tree"))
    assert (await runtime.execute(Command(command=["/tmp/in/tree/link"]))).stdout == "ran\n"
    assert (await runtime.execute(Command(command="stat -c %a deep/run.sh; readlink link", shell=True, cwd="/tmp/in/tree"))).stdout == "750\ndeep/run.sh\n"
    await runtime.upload(UploadRequest(source_path=str(tree / "deep" / "run.sh"), target_path="/tmp/in"))
    assert (await runtime.execute(Command(command=["/tmp/in/run.sh"]))).stdout == "ran\n"
    await runtime.write_file(WriteFileRequest(path="/tmp/new/a.txt", content="grün\r\n"))
    assert (await runtime.read_file(ReadFileRequest(path="/tmp/new/a.txt"))).content == "grün\n"  # as Path.read_text()
    assert (await runtime.read_file(ReadFileRequest(path="/tmp/new/a.txt", encoding="ascii", errors="replace"))).content == "gr\ufffd\ufffdn\n"
    for path, kind in (("/nowhere", FileNotFoundError), ("/etc/shadow", PermissionError), ("/etc", IsADirectoryError)):
        with pytest.raises(kind, match=path):
            await runtime.read_file(ReadFileRequest(path=path))
    with pytest.raises(PermissionError, match="/etc/x"):
        await runtime.write_file(WriteFileRequest(path="/etc/x", content=""))


async def test_a_deployment_lives_from_start_to_stop():
    deployment = ClocheDeployment(**FIELDS)
    with pytest.raises(DeploymentNotStartedError):
        deployment.runtime
    await deployment.start()
    sandbox = deployment.runtime.sandbox
    assert await deployment.is_alive()
    await deployment.start()
    assert deployment.runtime.sandbox is sandbox
    await sandbox.delete()
    told = await deployment.is_alive()
    assert not told and told.message
    await deployment.stop()
    await deployment.stop()
    with pytest.raises(DeploymentNotStartedError):
        await deployment.is_alive()


async def test_what_cannot_be_made_is_said_at_the_start():
    with pytest.raises(TypeError, match="did you mean 'image'"):
        ClocheDeployment(imag="x")
    with pytest.raises(DeploymentStartupError, match="no-such-template"):
        await ClocheDeployment(template="no-such-template").start()


async def test_many_deployments_at_once_leave_nothing():
    deployments = [ClocheDeployment(**FIELDS) for _ in range(6)]
    await asyncio.gather(*(d.start() for d in deployments))
    sandboxes = [d.runtime.sandbox for d in deployments]
    done = await asyncio.gather(*(d.runtime.execute(Command(command=["echo", str(i)])) for i, d in enumerate(deployments)))
    assert [d.stdout for d in done] == [f"{i}\n" for i in range(6)]
    await asyncio.gather(*(d.stop() for d in deployments))
    for sandbox in sandboxes:
        try:
            assert (await sandbox.refresh()).ended is not None
        except errors.NotFound:
            pass
