# SPDX-License-Identifier: Apache-2.0
"""Agent frameworks that bring clients of E2B's or Vercel's sandboxes along, as they are published: a variable or two lead them here. Mastra's
and LangChain's are in tests/sdk, where the rest of those is."""

import asyncio
import io
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.npm import NPM, made_once, run

HERE = Path(__file__).parent / "frameworks"
SUITES = sorted(p.name for p in HERE.glob("*.test.mjs"))
NODE = 20  # @ai-sdk/sandbox-vercel asks for 22 and runs with this


@pytest.fixture(scope="module")
def frameworks(typescript_package, tmp_path_factory):
    if not shutil.which("npm"):
        pytest.skip("this host has no npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=30).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < NODE:
        pytest.skip(f"these packages need Node {NODE} or newer, and this host has {version}")

    def make(path):
        shutil.copytree(HERE, path, dirs_exist_ok=True)
        run(*NPM, "ci", "--engine-strict=false", cwd=path)
        run(*NPM, "install", "--no-save", "--engine-strict=false", str(typescript_package), cwd=path)

    return made_once(tmp_path_factory, "frameworks", make)


@pytest.fixture
def swept(client):
    """They leave some sandboxes and snapshots to their timeouts."""
    yield
    for sandbox in client.list():
        sandbox.delete()
    for snapshot in client.snapshots():
        client.delete_snapshot(snapshot["id"])


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("suite", SUITES)
def test_a_framework_s_agent_works_here_without_knowing(frameworks, environment, e2b_settings, suite):
    run("node", "--import", "cloche/vercel", "--test", suite, cwd=frameworks, env={**environment, **e2b_settings})


@pytest.mark.usefixtures("swept")
def test_openai_s_agents_work_in_python_s_client_of_e2b(e2b_settings, monkeypatch):
    pytest.importorskip("e2b")
    from agents import RunConfig, Runner, set_tracing_disabled
    from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
    from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
    from agents.sandbox.entries import File
    from agents.testing import ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)
    for name, value in e2b_settings.items():
        monkeypatch.setenv(name, value)
    options = E2BSandboxClientOptions(sandbox_type="e2b")

    async def talk():
        client = E2BSandboxClient()
        model = ScriptedModel([[function_call("exec_command", {"cmd": "cat notes.txt; exit 3"}, call_id="c")], [assistant_message("done")]])
        agent = SandboxAgent(name="coder", model=model, default_manifest=Manifest(entries={"notes.txt": File(content=b"remember\n")}))
        result = await Runner.run(agent, "look", run_config=RunConfig(sandbox=SandboxRunConfig(client=client, options=options)))
        assert result.final_output == "done"
        (told,) = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
        assert "remember" in told and "code 3" in told
        session, other = [await client.create(options=options) for _ in range(2)]
        for one in (session, other):
            await one.start()
        await session.write(Path("d/a.bin"), io.BytesIO(bytes(range(256))))
        await other.hydrate_workspace(await session.persist_workspace())
        assert (await other.exec("wc -c < d/a.bin")).stdout.strip() == b"256"
        for one in (session, other):
            await client.delete(one)

    asyncio.run(talk())
