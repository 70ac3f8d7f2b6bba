# SPDX-License-Identifier: Apache-2.0
"""Anthropic's own EnvironmentWorker, in Python and TypeScript, with the tools of a sandbox: from the queue to the end of the session, by
HTTP with a provider that follows a script."""

import asyncio
import shutil
import signal
import subprocess

import pytest
from harness.managed_agents import ENVIRONMENT, ENVIRONMENT_KEY, SESSIONS_TOKEN, ManagedAgents

STEPS = [
    [("a", "bash", {"command": "cd /tmp; X=7; id -un"}), ("b", "write", {"file_path": "src/a.txt", "content": "one\ntwo\n"})],
    [("c", "bash", {"command": "echo $PWD $X; cat ~/src/a.txt"})],
    [("d", "edit", {"file_path": "src/a.txt", "old_string": "two", "new_string": "2"}), ("e", "bash", {"command": "echo why; exit 3"})],
    [("f", "read", {"file_path": "src/a.txt"}), ("g", "glob", {"pattern": "src/*"}), ("h", "grep", {"pattern": "^2$"})],
]


@pytest.fixture
def provider():
    made = ManagedAgents(STEPS)
    yield made
    made.close()


def check(provider, client, workdir):
    told = provider.results
    assert {id: text for id, (text, is_error) in told.items() if not is_error} == {
        "a": "user\n",
        "b": "src/a.txt was written",
        "c": "/tmp 7\none\ntwo\n",
        "d": "src/a.txt was changed",
        "f": "one\n2\n",
        "g": "src/a.txt\n",
        "h": "./src/a.txt:2:2\n",
    }
    assert told["e"][1] and "why" in told["e"][0]
    keys = {}
    for verb, key in provider.calls:
        keys.setdefault(verb, set()).add(key)
    assert set(keys) >= {"poll", "ack", "heartbeat", "events/stream", "events", "stop"}
    assert keys["poll"] == {f"Bearer {ENVIRONMENT_KEY}"} and keys["events"] == {f"Bearer {SESSIONS_TOKEN}"}
    assert not list(workdir.iterdir())  # nothing happened here
    assert not list(client.list(tag="for:worker", state="running"))


def test_a_worker_s_sessions_work_in_sandboxes(provider, client, tmp_path):
    from anthropic import AsyncAnthropic
    from anthropic.lib.environments import EnvironmentWorker
    from cloche.integrations.anthropic_agents import agent_toolset

    async def serve():
        def tools(env):
            return agent_toolset(client=client, tags={"for": "worker"})

        async with AsyncAnthropic(base_url=provider.url, api_key="unused") as anthropic:
            worker = EnvironmentWorker(anthropic, environment_id=ENVIRONMENT, environment_key=ENVIRONMENT_KEY, workdir=tmp_path, tools=tools)
            running = asyncio.ensure_future(worker.run())
            assert await asyncio.to_thread(provider.stopped.wait, 60)
            running.cancel()
            await asyncio.wait({running})

    asyncio.run(serve())
    check(provider, client, tmp_path)


@pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
def test_a_typescript_worker_s_sessions_work_in_sandboxes(provider, client, adapters_project, environment, tmp_path):
    env = {**environment, "ANTHROPIC_BASE_URL": provider.url}
    words = ["node", str(adapters_project / "environment-worker.mjs"), ENVIRONMENT, ENVIRONMENT_KEY]
    worker = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert provider.stopped.wait(60), worker.poll()
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=60)
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.communicate()
    assert worker.returncode == 0, said
    check(provider, client, tmp_path)
