# SPDX-License-Identifier: Apache-2.0
"""The backend for deepagents: LangChain's own suite for such backends, and an agent whose model follows a script."""

import pytest
from cloche.integrations.deepagents import ClocheBackend
from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestClocheBackend(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        with ClocheBackend(env={"PATH": "/tmp/bin:/usr/local/bin:/usr/bin:/bin"}) as backend:
            backend.execute("mkdir /tmp/bin && ln -s /usr/bin/python3 /tmp/bin/python")  # the suite calls it so
            yield backend


# deepagents 0.7 answers glob() with whole paths and lets write() replace a file, in code of its own that backends inherit (BaseSandbox.glob()
# and write()); LangChain's suite, in its newest version, still asks for what 0.6 did. A backend of ten lines that runs commands right here
# fails the same seven, and with 0.6 all 86 pass in a sandbox: `make test-langchain` has that.
for stale in ("glob", "glob_basic_pattern", "glob_with_directories", "glob_hidden_files_explicitly", "glob_with_character_class",
              "glob_with_question_mark", "write_existing_file_fails"):
    case = getattr(SandboxIntegrationTests, f"test_{stale}")
    setattr(TestClocheBackend, case.__name__, pytest.mark.xfail(reason="deepagents itself does otherwise", strict=True)(case))


class Scripted(BaseChatModel):
    steps: list

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        return ChatResult(generations=[ChatGeneration(message=self.steps.pop(0))])


def use(id, name, **args):
    return AIMessage(content="", tool_calls=[{"id": id, "name": name, "args": args}])


def test_an_agent_s_files_and_commands_are_the_sandbox_s():
    with ClocheBackend() as backend:
        steps = [use("1", "write_file", file_path="/tmp/a.txt", content="x"), use("2", "execute", command="cat /tmp/a.txt; echo err >&2; exit 3"),
                 AIMessage(content="done")]
        agent = create_deep_agent(model=Scripted(steps=steps), backend=backend)
        messages = agent.invoke({"messages": [{"role": "user", "content": "go"}]})["messages"]
        (told,) = [m.content for m in messages if m.type == "tool" and m.name == "execute"]
        assert told.startswith("xerr\n") and "3" in told
        assert backend.sandbox.files.read_text("/tmp/a.txt") == "x"


def test_a_command_whose_time_is_up_ends_with_124():
    with ClocheBackend() as backend:
        done = backend.execute("echo begun; sleep 7654", timeout=1)
        assert (done.exit_code, done.output.split("\n")[0]) == (124, "begun")
