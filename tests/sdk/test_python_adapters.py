# SPDX-License-Identifier: Apache-2.0
"""The Python SDK's tools for agent frameworks, in the real frameworks at pinned versions, with models that follow a script."""

import asyncio

import pytest
from cloche.integrations.anthropic import bash_tool, handle_tool_use, handle_tool_uses, run_code_tool, text_editor_tool
from cloche.integrations.openai_agents import cloche_code_interpreter
from harness.models import Models, call


@pytest.fixture
def scripted():
    """A Messages API that follows a script: (client, models)."""
    import anthropic

    models = Models()
    with anthropic.Anthropic(api_key="none", base_url=models.url, max_retries=0) as client:
        yield client, models
    models.close()


def use(id, name, **input):
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def test_the_loop_of_the_messages_api_runs_code_until_the_model_is_content(sandbox, scripted):
    client, models = scripted
    models.steps = [
        [call("run_code", code="x = 20"), call("bash", command="cd /tmp; Y=5")],
        [call("run_code", code="print(x + 22)"), call("bash", command="pwd; echo $Y")],
        "42",
    ]
    tools = [run_code_tool(), bash_tool(), text_editor_tool()]
    messages = [{"role": "user", "content": "compute"}]
    while True:
        reply = client.messages.create(model="m", max_tokens=100, tools=tools, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason != "tool_use":
            break
        messages.append({"role": "user", "content": handle_tool_uses(reply.content, sandbox)})
    assert reply.content[0].text == "42"
    results = models.asked[2]["messages"][-1]["content"]
    told = [(r["tool_use_id"], r["content"][0]["text"], r["is_error"]) for r in results]
    assert told == [("call_2_0", "42\n", False), ("call_2_1", "/tmp\n5\n", False)]


def test_a_block_that_fails_is_told_as_an_error(sandbox):
    def say(name, **input):
        result = handle_tool_use(use("tu", name, **input), sandbox)
        return result["content"][0]["text"], result["is_error"]

    text, is_error = say("run_code", code="1/0")
    assert "ZeroDivisionError" in text and is_error
    assert "`code` must be a string" in say("run_code")[0]
    assert "there is no tool 'nonsense'" in say("nonsense")[0]
    assert say("bash", command="exit 3")[1]
    assert say("bash", restart=True) == ("bash was restarted", False)
    assert say("code_execution", code="print('pasted loop')") == ("pasted loop\n", False)


def test_blocks_edit_files(sandbox):
    def edit(**input):
        result = handle_tool_use(use("tu", "str_replace_based_edit_tool", **{"path": "notes/a.txt", **input}), sandbox)
        return result["content"][0]["text"], result["is_error"]

    assert not edit(command="create", file_text="one\ntwo\ntwo\n")[1]
    assert "occurs 2 times" in edit(command="str_replace", old_str="two", new_str="2")[0]
    assert not edit(command="str_replace", old_str="one", new_str="1")[1]
    assert not edit(command="insert", insert_line=1, insert_text="new\n")[1]
    assert edit(command="view", view_range=[1, 2]) == ("     1\t1\n     2\tnew", False)
    assert edit(command="view", view_range=[9, 12])[1]
    assert edit(command="view", path="notes") == ("a.txt", False)
    assert edit(command="view", path="nothing-there")[1]
    assert "must be one of view, create" in edit(command="undo")[0]


def test_an_agent_of_openai_s_runs_code_whose_state_stays(sandbox):
    from agents import Agent, Runner, set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)
    calls = [{"code": "x = 111"}, {"code": "x * x"}, {"language": "python"}]
    steps = [[function_call("run_code", call, call_id=f"call-{i}")] for i, call in enumerate(calls)]
    model = ScriptedModel([*steps, [assistant_message("12321")]])
    agent = Agent(name="assistant", model=model, tools=[cloche_code_interpreter(sandbox)])
    result = asyncio.run(Runner.run(agent, "what is 111 * 111?"))
    assert result.final_output == "12321"
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert outputs[:2] == ["", "12321\n"] and "`code` must be a string" in outputs[2]


def test_a_tool_makes_a_sandbox_at_its_first_call_and_ends_it(client):
    tool = cloche_code_interpreter(client=client).code_tool
    assert tool.text(tool.run({"code": "print('own')"})) == "own\n"
    own = tool.sandbox
    tool.close()
    assert own.refresh().ended["cause"] == "deleted"
