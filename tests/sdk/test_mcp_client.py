# SPDX-License-Identifier: Apache-2.0
"""The official Python client against /mcp and `cloche mcp`, in both eras of the protocol."""

import asyncio
import os
import re
import subprocess
import sys

import pytest
from harness.cli import CLOCHE
from harness.daemon import BUILD, ROOT, wait_for


def text_of(result):
    return "".join(block.text for block in result.content if block.type == "text")


def server_of(transport, environment, http):
    from mcp.client.stdio import StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

    if transport == "http":
        return streamable_http_client(environment["CLOCHE_URL"] + "/mcp", http_client=http)
    return StdioServerParameters(command=CLOCHE, args=["mcp"], env={k: environment[k] for k in ("CLOCHE_URL", "CLOCHE_API_KEY")})


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
            if named:
                await client.call_tool("close_sandbox", named)
            return told.structured_content["sandbox_id"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_tools_are_listed_and_called(client, environment, transport, mode):
    id = asyncio.run(use(transport, mode, environment))
    wait_for(lambda: client.get(id).info.state in ("stopped", "stopping"), what="the end of the session's sandbox")


def test_the_program_of_the_page_runs(environment):
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/mcp.md").read_text(), re.M | re.S)
    env = {**os.environ, **environment, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "42\n\n", done.stderr
