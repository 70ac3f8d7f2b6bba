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


def test_a_model_talks_to_a_program_on_a_terminal(using):
    import re

    from agents import RunConfig, Runner, set_tracing_disabled
    from agents.sandbox import SandboxAgent, SandboxRunConfig
    from agents.testing import ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)
    told = []

    class Typist(ScriptedModel):
        """Has what the tool said before, and puts the session's number where the script says ID."""

        async def get_response(self, *words, **named):
            items = named["input"] if "input" in named else words[1]
            told[:] = [item["output"] for item in items if isinstance(item, dict) and item.get("type") == "function_call_output"]
            made = await super().get_response(*words, **named)
            for item in made.output:
                if getattr(item, "arguments", None):
                    item.arguments = item.arguments.replace('"ID"', re.search(r"session ID (\d+)", "".join(told) + "session ID 0")[1])
            return made

    program = """tty; stty -echo; echo ready; while read -r word; do echo "<$word>"; [ "$word" = bye ] && exit 5; done"""

    async def talk(client):
        ask = [
            function_call("exec_command", {"cmd": program, "tty": True, "yield_time_ms": 300}, call_id="1"),
            function_call("write_stdin", {"session_id": "ID", "chars": "one\n"}, call_id="2"),
            function_call("write_stdin", {"session_id": "ID", "chars": "bye\n", "yield_time_ms": 20000}, call_id="3"),
            function_call("write_stdin", {"session_id": "ID", "chars": "late\n"}, call_id="4"),
            function_call("exec_command", {"cmd": "test -t 0 || echo plain", "yield_time_ms": 20000}, call_id="5"),
        ]
        model = Typist([*([one] for one in ask), [assistant_message("done")]])
        agent = SandboxAgent(name="coder", model=model)
        return await Runner.run(agent, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=client)))

    assert using(talk).final_output == "done"
    assert "running with session ID" in told[0]
    said = "".join(told[:3])
    assert re.search(r"/dev/pts/\d+\r\n.*ready\r\n.*<one>\r\n.*<bye>\r\n", said, re.DOTALL)
    assert "exited with code 5" in told[2] and "not found" in told[3]
    assert "plain" in told[4] and "exited with code 0" in told[4]


def test_commands_that_go_on_are_read_piece_by_piece_and_end_with_the_session(using):
    from agents.sandbox.errors import PtySessionNotFoundError

    async def work(client):
        session = await client.create()
        await session.start()
        try:
            inner = session._inner
            script = "stty -echo; printf 'caf\\303'; read x; printf '\\251\\n'; exec sleep 7654"
            made = await inner.pty_exec_start(script, tty=True, yield_time_s=0)
            said, id = made.output, made.process_id
            assert id is not None and made.exit_code is None
            for _ in range(100):
                if b"\n" in said:
                    break
                chars = "\n" if b"caf" in said else ""  # what is typed earlier is still echoed
                made = await inner.pty_write_stdin(session_id=id, chars=chars, yield_time_s=0.25)
                said += made.output
            assert said.decode() == "caf\u00e9\r\n"  # a character cut in two waits for its rest
            made = await inner.pty_write_stdin(session_id=id, chars="\x03", yield_time_s=20)  # as at a keyboard
            assert made.process_id is None and made.exit_code == 130
            with pytest.raises(PtySessionNotFoundError):
                await inner.pty_write_stdin(session_id=id, chars="")

            quiet = await inner.pty_exec_start("echo began; exec sleep 7655", yield_time_s=0)
            with pytest.raises(RuntimeError, match="stdin is not available"):
                await inner.pty_write_stdin(session_id=quiet.process_id, chars="x")
            flood = await inner.pty_exec_start("yes", tty=True, yield_time_s=0, max_output_tokens=50)
            assert flood.process_id is not None and len(flood.output) < 1000
            await session.stop()
            left = "cat /proc/[0-9]*/comm | grep -qxE 'sleep|yes'"
            assert (await inner.exec(f"for i in $(seq 1000); do {left} || exit 0; done; exit 1")).exit_code == 0
        finally:
            await client.delete(session)

    using(work)
