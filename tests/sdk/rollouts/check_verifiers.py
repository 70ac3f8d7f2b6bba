# SPDX-License-Identifier: Apache-2.0
"""verifiers in cloche: its contract for runtimes, and whole rollouts whose model follows a script (ROLLOUT_MODEL says where)."""

import asyncio
import os

import pytest
import verifiers.v1 as vf
from cloche import Client
from cloche.integrations.verifiers import ClocheConfig, ClocheRuntime, cloche_runtime
from conftest import FIELDS
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.errors import SandboxError
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import SubprocessConfig

OWN = {name: FIELDS[name] for name in ("engine", "template")}


def config(**fields):
    return ClocheConfig(memory=1, fields=OWN, **fields)


@pytest.fixture
async def box():
    async with cloche_runtime(config()) as box:
        yield box


async def test_a_program_s_end_is_told_as_it_is(box):
    done = await box.run(["sh", "-c", "echo out; echo err >&2; pwd; whoami; echo $A$B; exit 3"], {"B": "2"})
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n/app\nroot\n2\n", "err\n")
    assert (await box.run(["sh", "-c", "kill -9 $$"], {})).exit_code == 137
    assert (await box.run(["no-such-program"], {})).exit_code == 127
    assert (await box.run(["/etc/passwd"], {})).exit_code == 126
    assert await box.alive() and box.info.id == box.sandbox.id


async def test_views_have_their_own_variables_and_user(box):
    view = box.with_env({"A": "1"})
    assert (await view.run(["sh", "-c", "echo $A$B"], {"B": "2"})).stdout == "12\n"
    user = view.with_user("user", "/tmp")
    assert (await user.run(["sh", "-c", "whoami; echo $HOME$A"], {})).stdout == "user\n/tmp1\n"
    await box.write("/root/mine", b"x")
    with pytest.raises(SandboxError, match="/root/mine"):
        await user.read("/root/mine")


async def test_files_are_bytes_and_a_cap_is_kept(box):
    await box.write("deep/a.bin", bytes(range(256)))
    assert await box.read("deep/a.bin") == await box.read("/app/deep/a.bin", max_bytes=256) == bytes(range(256))
    with pytest.raises(SandboxError, match="over the 255 byte limit"):
        await box.read("deep/a.bin", max_bytes=255)
    for cap in (None, 10):
        with pytest.raises(SandboxError, match="none"):
            await box.read("none", max_bytes=cap)
    with pytest.raises(SandboxError, match="/proc/x"):
        await box.write("/proc/x", b"")


async def test_a_process_that_lives_is_talked_to_in_bytes(box):
    process = await box.open_process(["sh", "-c", "printf '\\377'; cat; echo err >&2; exit 4"], {})
    assert await anext(process.stdout) == b"\xff" and await process.poll() is None
    await process.write(b"\x00\xfe")
    assert await anext(process.stdout) == b"\x00\xfe"
    await process.terminate()
    assert await process.wait() == 143 == await process.poll()
    assert [piece async for piece in process.stdout] == []
    deaf = await box.open_process(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], {})
    assert await anext(deaf.stdout) == b"up\n"
    await deaf.kill()
    assert await deaf.wait() == 137


async def test_a_server_in_the_background_is_reached_from_outside(box):
    await box.run_background(["python3", "-m", "http.server", "8000", "--bind", "0.0.0.0"], {}, "server.log")
    await box.write("index.html", b"it is up")
    while b"Serving" not in (await box.run(["cat", "server.log"], {})).stdout.encode():
        if (await box.run(["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8000))"], {})).exit_code == 0:
            break
        await asyncio.sleep(0.1)
    url = await box.expose(8000)
    done = await asyncio.create_subprocess_exec("curl", "-sSL", "-c", "/dev/null", url, stdout=asyncio.subprocess.PIPE)
    assert (await done.communicate())[0] == b"it is up"


async def test_a_box_that_is_gone_says_so():
    async with cloche_runtime(config()) as box:
        waiting = asyncio.ensure_future(box.run(["sleep", "7654"], {}))
        while not (await box.run(["pgrep", "-x", "sleep"], {})).stdout:
            await asyncio.sleep(0.05)
        await box.sandbox.delete()
        for call in (waiting, box.run(["true"], {}), box.read("x"), box.write("x", b"")):
            with pytest.raises(SandboxError):
                await call
        assert not await box.alive()
    with pytest.raises(SandboxError, match="stopped"):
        await box.run(["true"], {})


async def test_a_box_that_no_loop_could_stop_is_freed_at_the_end():
    box = ClocheRuntime(config())
    await box.start()
    box.cleanup()
    box.cleanup()
    with Client() as client:
        assert client.get(box.info.id).info.ended["cause"] == "deleted"


@pytest.mark.parametrize("fields", [{"allow": ["a*b.test"]}, {"allow": ["https://a.test/path"]}, {"block": ["10.0.0.0/8"]}, {"allow": ["ftp://a.test"]},
                                    {"fields": {"network": "allow-all"}}])
def test_a_rule_that_cannot_be_kept_exactly_is_refused(fields):
    with pytest.raises(ValueError, match="network"):
        ClocheConfig(**fields)


@pytest.mark.parametrize("fields, allowed, denied", [
    ({"allow": ["a.test", "*.b.test", "https://c.test", "d.test:8443"]},
     ["http://a.test/", "https://x.b.test/", "https://c.test/", "https://d.test:8443/"],
     ["http://x.a.test/", "https://b.test/", "http://c.test/", "https://d.test/", "https://e.test/"]),
    ({"block": ["a.test", "*.b.test"]}, ["https://b.test/", "https://e.test/"], ["https://a.test/", "https://x.a.test/", "https://x.b.test/", "http://93.184.216.34/"]),
    ({"allow": []}, [], ["https://a.test/"]),
    ({}, ["https://a.test/", "http://93.184.216.34/"], ["http://10.0.0.1/"]),
])
async def test_the_policy_is_the_agent_s_and_verifiers_own_routes_stay(fields, allowed, denied):
    async with cloche_runtime(config(**fields)) as box:
        assert (await box.sandbox.explain_network("https://e.test/"))["allowed"]  # setup may fetch
        await box.prepare_setup()
        route = "https://tunnel.test/v1"
        await box.prepare_execution([route])
        for url in [route, *allowed]:
            assert (await box.sandbox.explain_network(url))["allowed"], url
        for url in denied:
            assert not (await box.sandbox.explain_network(url))["allowed"], url


@pytest.mark.skipif("ROLLOUT_MODEL" in os.environ, reason="this daemon lends it")
async def test_a_daemon_that_does_not_lend_the_loopback_is_told(box):
    assert box.host_url("http://127.0.0.1:8123/v1?a=b") == "http://port-8123.trainer.internal/v1?a=b"
    assert box.host_url("https://tunnel.test/v1") == "https://tunnel.test/v1"
    with pytest.raises(SandboxError, match="network.may_open"):
        await box.prepare_execution(["http://port-8123.trainer.internal/v1"])


class AskOnce(Harness[HarnessConfig]):
    """A program of ten lines, run inside: it asks the model for a command, and runs it."""

    PROGRAM = """
import json, os, subprocess, sys, urllib.request
body = {"model": sys.argv[2], "messages": [{"role": "user", "content": sys.argv[3]}]}
headers = {"Authorization": "Bearer " + os.environ["SECRET"], "Content-Type": "application/json"}
reply = urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/chat/completions", json.dumps(body).encode(), headers), timeout=60)
subprocess.run(json.load(reply)["choices"][0]["message"]["content"], shell=True, check=True)
try:
    urllib.request.urlopen("http://elsewhere.test/", timeout=10)
except urllib.error.HTTPError as e:
    open("elsewhere", "w").write(str(e.code))
"""

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):
        return await runtime.run_program(["python3", "-c", self.PROGRAM, endpoint, ctx.model, data.prompt], {"SECRET": secret})


class Answer(vf.Task):
    @vf.reward
    async def is_right(self, trace, runtime):
        return 1.0 if (await runtime.read("answer")).strip() == b"42" else 0.0


@pytest.mark.skipif("ROLLOUT_MODEL" not in os.environ, reason="needs a model, and a daemon that lends the loopback")
async def test_rollouts_in_boxes_are_scored_by_what_is_in_them(monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "none")
    client = vf.EvalClientConfig(base_url=os.environ["ROLLOUT_MODEL"], api_key_var="MODEL_KEY")
    agent = vf.Agent(vf.AgentConfig(model="scripted", client=client, harness={"id": "null"}, runtime=SubprocessConfig()))
    agent.harness = AskOnce(agent.config.harness)

    async def roll(number):
        async with cloche_runtime(config(allow=["api.test"])) as box:
            trace = await agent.run(Answer(vf.TaskData(idx=number, prompt="what is 6 * 7?")), runtime=box)
            assert trace.ok, trace.errors
            assert await box.read("elsewhere") == b"403"
            return trace.reward

    assert sorted(await asyncio.gather(*(roll(number) for number in range(4)))) == [0.0, 1.0, 1.0, 1.0]
