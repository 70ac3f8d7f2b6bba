# SPDX-License-Identifier: Apache-2.0
"""The executor for smolagents: an agent whose model follows a script."""

import pytest
from cloche.integrations.smolagents import ClocheExecutor
from smolagents import ChatMessage, CodeAgent, Model, tool
from smolagents.utils import AgentError


class Scripted(Model):
    def __init__(self, *codes):
        super().__init__(model_id="scripted")
        self.codes, self.asked = list(codes), []

    def generate(self, messages, **_):
        self.asked.append(messages)
        return ChatMessage(role="assistant", content=f"Thought: go on\n<code>\n{self.codes.pop(0)}\n</code>")


@tool
def double(n: int) -> int:
    """Twice the number.

    Args:
        n: the number
    """
    return 2 * n


def test_an_agent_s_code_runs_in_the_sandbox_with_its_tools_and_state():
    with ClocheExecutor() as executor:
        model = Scripted("x = double(20)\nprint('seen', x)", "1/0", "import os\nfinal_answer({'x': x + 2, 'pid': os.getpid() > 0})")
        agent = CodeAgent(tools=[double], model=model, executor=executor, verbosity_level=0)
        assert agent.run("compute") == {"x": 42, "pid": True}
        assert "seen 40" in str(model.asked[1]) and "ZeroDivisionError" in str(model.asked[2])


def test_values_come_as_what_they_are_and_errors_with_their_name():
    with ClocheExecutor() as executor:
        assert executor("6 * 7").output == "42"
        assert executor("print('said')").logs == "said\n"
        with pytest.raises(AgentError, match="KeyError"):
            executor("{}['k']")
        executor.send_variables({"given": [1, 2]})
        assert executor("sum(given)").output == "3"
        assert executor.install_packages(["json"]) == ["json"]
