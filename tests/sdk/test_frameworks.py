# SPDX-License-Identifier: Apache-2.0
"""The Python SDK's adapters in frameworks that bring much along: each runs in a process of its own, with the packages of
frameworks/requirements.txt in a directory of their own, so that no other suite meets their plugins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "frameworks"


def install(path, *packages):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--no-compile", "--upgrade", "--target", str(path)]
    done = subprocess.run([*pip, *packages], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


def check(frameworks, environment, name):
    path = os.pathsep.join([str(frameworks), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    words = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(HERE), "-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin",
             "-o", "asyncio_mode=auto", "-W", "ignore", str(HERE / f"check_{name}.py")]
    env = {**environment, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, env=env, cwd=frameworks, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="session")
def frameworks(tmp_path_factory):
    path = tmp_path_factory.mktemp("frameworks")
    install(path, "-r", str(HERE / "requirements.txt"))
    return path


@pytest.mark.parametrize("name", ["deepagents", "smolagents"])
def test_a_framework_s_agent_works_in_a_sandbox(frameworks, environment, name):
    check(frameworks, environment, name)


@pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_LANGCHAIN"), reason="it is run by make test-langchain")
def test_langchain_s_suite_for_sandboxes_passes_whole(environment, tmp_path):
    install(tmp_path, "-r", str(HERE / "requirements.txt"))
    install(tmp_path, "deepagents==0.6.12", "langchain-anthropic==1.7.7", "langchain-google-genai==4.4.2")
    assert "86 passed" in check(tmp_path, environment, "langchain")


@pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_LANGCHAIN"), reason="it is run by make test-langchain")
def test_langchain_s_suite_passes_with_its_backend_for_e2b(environment, e2b_settings, tmp_path):
    install(tmp_path, "-r", str(HERE / "requirements.txt"))
    install(tmp_path, "deepagents==0.6.12", "langchain-anthropic==1.7.7", "langchain-google-genai==4.4.2", "langchain-e2b==0.0.6")
    assert "86 passed" in check(tmp_path, {**environment, **e2b_settings}, "langchain_e2b")
