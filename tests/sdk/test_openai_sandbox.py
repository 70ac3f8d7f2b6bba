# SPDX-License-Identifier: Apache-2.0
"""Sandbox agents of OpenAI's Agents SDK in cloche: the real library, with a model that follows a script."""

import asyncio
import io
from pathlib import Path

import pytest
from cloche import AsyncClient


@pytest.fixture
def using(daemon):
    """Runs fn(sandbox client) in a loop of its own."""
    from cloche.integrations.openai_sandbox import ClocheSandboxClient

    def run(fn):
        async def inside():
            async with AsyncClient(daemon.url, daemon.key) as client:
                return await fn(ClocheSandboxClient(client))

        return asyncio.run(inside())

    return run


def test_a_sandbox_agent_s_commands_and_files_are_the_sandbox_s(using):
    from agents import RunConfig, Runner, set_tracing_disabled
    from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
    from agents.sandbox.entries import File
    from agents.testing import ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)

    async def talk(client):
        model = ScriptedModel([[function_call("exec_command", {"cmd": "cat notes.txt; pwd; exit 3"}, call_id="c")], [assistant_message("done")]])
        agent = SandboxAgent(name="coder", model=model, default_manifest=Manifest(entries={"notes.txt": File(content=b"remember\n")}))
        return await Runner.run(agent, "look", run_config=RunConfig(sandbox=SandboxRunConfig(client=client)))

    result = using(talk)
    assert result.final_output == "done"
    (told,) = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert "remember\n/workspace" in told and "code 3" in told


def test_a_session_reads_writes_persists_and_goes_on(using):
    from agents.sandbox.errors import ExecTimeoutError, WorkspaceReadNotFoundError

    async def work(client):
        session = await client.create()
        await session.start()
        await session.write(Path("d/a.bin"), io.BytesIO(bytes(range(256))))
        assert (await session.read(Path("d/a.bin"))).read() == bytes(range(256))
        with pytest.raises(WorkspaceReadNotFoundError):
            await session.read(Path("none"))
        assert (await session.exec("echo out; echo err >&2; exit 4")).exit_code == 4
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 7654", timeout=0.5)
        archive = (await session.persist_workspace()).read()
        again = await client.resume(client.deserialize_session_state(client.serialize_session_state(session.state)))
        assert again.state.sandbox_id == session.state.sandbox_id and await again.running()
        other = await client.create()
        await other.hydrate_workspace(io.BytesIO(archive))
        assert (await other.exec("wc -c < d/a.bin")).stdout == b"256\n"
        for one in (session, other):
            await client.delete(one)
        assert not await session.running()
        replaced = await client.resume(session.state)  # what it was in is gone
        assert replaced.state.sandbox_id != other.state.sandbox_id and await replaced.running()
        await client.delete(replaced)

    using(work)
