# SPDX-License-Identifier: Apache-2.0
"""The tools of Claude Managed Agents in a sandbox: run by the real SDK's dispatch, as a worker does."""

import asyncio

import pytest


def test_each_tool_does_what_the_toolset_promises(client):
    from anthropic.lib.tools import ToolError
    from cloche.integrations.anthropic_agents import agent_toolset

    async def use_all():
        tools = {tool.name: tool for tool in agent_toolset(client=client)}

        async def use(name, **input):
            return await tools[name].call(input)

        async def fails(name, word, **input):
            with pytest.raises(ToolError, match=word):
                await use(name, **input)

        assert list(tools) == ["bash", "read", "write", "edit", "glob", "grep"]
        assert tools["edit"].to_dict()["input_schema"]["required"] == ["file_path", "old_string", "new_string"]
        try:
            await use("write", file_path="src/a b.txt", content="one\ntwo\none\n")
            await use("bash", command="cd src; X=7")
            assert await use("bash", command="pwd | xargs basename; echo $X") == "src\n7\n"
            assert await use("bash", restart=True) == "bash was restarted"
            assert await use("bash", command="echo [$X]") == "[]\n"
            await fails("bash", "why", command="echo why; exit 3")
            assert await use("read", file_path="src/a b.txt", view_range=[2, 2]) == "two"
            await fails("edit", "2 times", file_path="src/a b.txt", old_string="one", new_string="1")
            await use("edit", file_path="src/a b.txt", old_string="one", new_string="1", replace_all=True)
            assert await use("read", file_path="src/a b.txt") == "1\ntwo\n1\n"
            assert await use("glob", pattern="**/*.txt") == "src/a b.txt\n"
            assert await use("grep", pattern="t[wx]o", path="src") == "src/a b.txt:2:two\n"
            assert await use("grep", pattern="absent") == "(nothing found)"
            await fails("grep", ".", pattern="(")
            await fails("read", "none", file_path="none")
        finally:
            await tools["bash"].close()

    asyncio.run(use_all())
