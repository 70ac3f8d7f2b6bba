# SPDX-License-Identifier: Apache-2.0
"""The whole programs of examples/, which are those of five documents about running AI's code, each as it stands: with the templates that it names. The
model follows a script; that is all that is set up. What they must do is told where they are tried on templates of the host (tests/sdk)."""

import json
import subprocess

import pytest
from first_hour.conftest import CLONE
from harness.models import call
from sdk import test_examples
from sdk.test_examples import *  # noqa: F403
from sdk.test_eve import test_eve_s_evals_pass_in_a_sandbox  # noqa: F401

EVALS = CLONE / "examples" / "evals" / "code-interpreter.toml"
pytestmark = pytest.mark.usefixtures("built")


@pytest.fixture
def env(environment, models):
    """Keys and addresses of the model: no word about templates or runtimes."""
    urls = {"MODELS_URL": models.url, "ANTHROPIC_BASE_URL": models.url, "OPENAI_BASE_URL": f"{models.url}/v1"}
    return {**environment, **test_examples.KEYS, **urls, "OPENAI_AGENTS_DISABLE_TRACING": "1"}


@pytest.fixture(scope="module")
def projects(shell):
    """As examples/README.md says, which was typed before."""
    for name in ("podflare", "vercel"):
        assert (CLONE / "examples" / name / "node_modules" / "cloche").exists(), "examples/README.md comes first"
    return CLONE / "examples"


@pytest.fixture(scope="session")
def python(shell, settled):
    """The interpreter that the front page's commands have made."""
    return shell.run("command -v python")[1].strip()


@pytest.fixture(scope="session")
def typescript_package():
    (package,) = (CLONE / "build" / "npm").glob("cloche-*.tgz")
    return package


@pytest.fixture
def evaluate(env, models):
    def run(*words):
        argv = ["cloche", "eval", "--base-url", models.url, *words, str(EVALS)]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_the_evals_see_a_model_that_computes(evaluate, models):
    models.steps = [call("run_code", language="python", code="import statistics; statistics.median([3, 1, 4, 1, 5, 9, 2, 6])"), "The median is 3.5."]
    evaluate("--case", "median", "--case", "runtime", "--case", "no-network")


def test_the_evals_see_a_model_mend_its_own_code(evaluate, models):
    first = "import json, statistics\nprint({k: statistics.median(v) for k, v in json.load(open('latencies.json')).items()})"
    second = "import json, statistics\njson.dump({k: statistics.median(v) for k, v in json.load(open('latencies.json')).items() if v}, open('summary.json', 'w'))"
    models.steps = [call("run_code", language="python", code=first), call("run_code", language="python", code=second), "Done."]
    evaluate("--case", "self-correction")
    assert "StatisticsError" in json.dumps(models.asked[1])
