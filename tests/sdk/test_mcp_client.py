# SPDX-License-Identifier: Apache-2.0
"""The official Python client against /mcp and `cloche mcp`, in both eras of the protocol."""

import asyncio
import os
import subprocess
import sys

import pytest
from harness.cli import CLOCHE
from harness.daemon import BUILD, wait_for
from harness.samples import samples_of


snapshots = []


def text_of(result):
    return "".join(block.text for block in result.content if block.type == "text")


def server_of(transport, environment, http):
    from mcp.client.stdio import StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

    if transport == "http":
        return streamable_http_client(environment["CLOCHE_URL"] + "/mcp", http_client=http)
    return StdioServerParameters(command=CLOCHE, args=["mcp"], env={k: environment[k] for k in ("CLOCHE_URL", "CLOCHE_API_KEY")})


async def use_the_rest(client, named):
    """Each tool beside those that run something."""

    async def call(tool, **arguments):
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        return result

    await call("write_file", path="d/a.txt", content="text", **named)
    assert text_of(await call("read_file", path="d/a.txt", **named)) == "text"
    assert "a.txt" in text_of(await call("list_files", path="d", **named))
    (fork,) = (await call("fork_sandbox", count=1, memory=False, **named)).structured_content["sandbox_ids"]
    assert text_of(await call("read_file", path="d/a.txt", sandbox_id=fork)) == "text"
    await call("close_sandbox", sandbox_id=fork)
    saved = (await call("snapshot_sandbox", **named)).structured_content["snapshot_id"]
    made = (await call("create_sandbox", snapshot=saved)).structured_content["sandbox_id"]
    await call("close_sandbox", sandbox_id=made)
    opened = (await call("open_port", port=8000, **named)).structured_content["port"]
    assert opened["port"] == 8000 and opened["url"]
    listed = (await call("list_sandboxes")).structured_content["sandboxes"]
    assert [s["ports"][0]["port"] for s in listed if s["sandbox_id"] == named["sandbox_id"]] == [8000]
    snapshots.append(saved)


async def use(transport, mode, environment):
    """Lists and calls; gives the id of the sandbox that the calls were made in."""
    import httpx2
    from mcp import Client

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {environment['CLOCHE_API_KEY']}"}, timeout=60) as http:
        async with Client(server_of(transport, environment, http), mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["run_code", "exec"]
            named = {}
            if (transport, mode) == ("http", "auto"):
                named = {"sandbox_id": (await client.call_tool("create_sandbox", {})).structured_content["sandbox_id"]}
            await client.call_tool("run_code", {"code": "x = 6", **named})
            assert text_of(await client.call_tool("run_code", {"code": "x * 7", **named})) == "42\n"
            failed = await client.call_tool("run_code", {"code": "1/0", **named})
            assert failed.is_error and "ZeroDivisionError" in text_of(failed)
            seen = []

            async def note(progress, total, message):
                seen.append(message)

            told = await client.call_tool("exec", {"command": "echo one; echo two", **named}, progress_callback=note)
            assert text_of(told) == "one\ntwo\n" and "".join(seen) == "one\ntwo\n"
            await use_the_rest(client, {"sandbox_id": told.structured_content["sandbox_id"]})
            if named:
                await client.call_tool("close_sandbox", named)
            return told.structured_content["sandbox_id"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_tools_are_listed_and_called(client, environment, transport, mode):
    id = asyncio.run(use(transport, mode, environment))
    client.delete_snapshot(snapshots.pop())
    wait_for(lambda: client.get(id).info.state in ("stopped", "stopping"), what="the end of the session's sandbox")


def test_the_program_of_the_page_runs(environment):
    (code,) = [sample.code for sample in samples_of("docs/mcp.md") if sample.language == "python"]
    env = {**os.environ, **environment, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "42\n\n", done.stderr
