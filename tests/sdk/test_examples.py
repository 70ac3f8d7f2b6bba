# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/ run, each against a model that follows a script; what counts is what the model and the user are told."""

import json
import os
import shutil
from pathlib import Path

import pytest
from harness.daemon import ROOT, end
from harness.models import Models, call
from harness.npm import run

HERE = Path(__file__).parent
EXAMPLES = ROOT / "examples"
KEYS = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "AI_GATEWAY_API_KEY": "none"}
# Where a package of an example's project is in the one that has them all.
PACKAGES = {
    "podflare": {"ai": "ai4", "@ai-sdk/openai": "openai1", "zod": "zod3", "cloche": "cloche"},
    "vercel": {"ai": "ai5", "zod": "zod", "cloche": "cloche"},
}


@pytest.fixture
def models():
    models = Models()
    yield models
    models.close()


@pytest.fixture
def env(environment, models):
    urls = {"MODELS_URL": models.url, "ANTHROPIC_BASE_URL": models.url, "OPENAI_BASE_URL": f"{models.url}/v1"}
    words = {"TEMPLATE": "host", "RUNTIME": "host", "PYTHON": "python3", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    mine = {k: v for k, v in environment.items() if k != "PYTHONPATH" or not os.environ.get("CLOCHE_TEST_FRESH")}
    return {**mine, **KEYS, **urls, **words}


@pytest.fixture(scope="module")
def projects(request, tmp_path_factory):
    """The examples' projects, each with the packages that it asks for."""
    if os.environ.get("CLOCHE_TEST_FRESH"):
        return request.getfixturevalue("fresh") / "examples"
    adapters_project = request.getfixturevalue("adapters_project")
    base = tmp_path_factory.mktemp("examples")
    for name, packages in PACKAGES.items():
        shutil.copytree(EXAMPLES / name, base / name, ignore=shutil.ignore_patterns("node_modules"))
        asked = json.loads((EXAMPLES / name / "package.json").read_text())["dependencies"]
        assert set(asked) == set(packages)
        for package, there in packages.items():
            link = base / name / "node_modules" / package
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(adapters_project / "node_modules" / there)
            version = json.loads((link / "package.json").read_text())["version"]
            assert asked[package] in (version, f"file:../../build/npm/cloche-{version}.tgz"), package
    return base


@pytest.fixture
def forgotten(client):
    """What a program only stopped is remembered for a while, with its output: not for longer than the test."""
    yield
    for sandbox in list(client.list(state="stopped")):
        end(sandbox)


@pytest.fixture
def example(projects, python, env, forgotten):
    def run_it(path, *words, **more):
        directory = projects / Path(path).parent
        argv = [python] if path.endswith(".py") else ["node", "--import", str(HERE / "redirect.mjs")]
        return run(*argv, Path(path).name, *words, cwd=directory, env={**env, **more})

    return run_it


needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


def told(models, number=-1):
    """All that a request says, as text."""
    return json.dumps(models.asked[number])


@needs_npm
def test_the_ai_sdk_s_route_streams_what_python_found(example, models):
    models.steps = [call("run_python", code="x = 111"), call("run_python", code="print(x * x)"), "It is 12321."]
    said = example("podflare/route.mjs", "What is 111 * 111?")
    assert "12321" in told(models) and "It is 12321." in said
    assert models.asked[0]["tools"][0]["function"]["name"] == "run_python"


@needs_npm
def test_a_tool_by_hand_shows_output_while_it_runs(example, models):
    models.steps = [call("run_python", code="for i in range(3): print('tick', i)"), call("run_python", code="1/0"), "done"]
    said = example("podflare/hand-rolled.mjs")
    assert "tick 0\ntick 1\ntick 2\ndone\n" in said
    assert "tick 2" in told(models, 1) and "ZeroDivisionError" in told(models, 2)
    assert models.asked[0]["tools"][0]["function"]["parameters"]["properties"]["code"]["type"] == "string"


@needs_npm
def test_a_tool_makes_its_own_sandbox_and_ends_it(example, models, client):
    models.steps = [call("runCode", code="echo $((6*7))", language="bash"), "42"]
    assert example("podflare/generate.mjs") == "42\n"
    assert "42" in told(models)
    assert not [s for s in client.list(state="running")]


@needs_npm
def test_a_chat_finds_its_sandbox_by_id(example):
    assert example("podflare/chat.mjs") == "6\n\n"


def test_the_anthropic_loop_runs_until_the_model_is_content(example_python, models):
    models.steps = [[call("run_code", code="n = sum(range(101))"), call("run_code", code="print(n)")], "The sum is 5050."]
    assert example_python("anthropic_loop.py") == "The sum is 5050.\n"
    assert "5050" in told(models)


def test_the_openai_agent_computes(example_python, models):
    models.steps = [call("run_code", code="111 * 111"), "12321"]
    assert example_python("openai_agent.py").splitlines()[-1] == "12321"
    assert "12321" in told(models)


def test_the_persistent_repl_keeps_frames_and_files(example_python):
    said = example_python("repl_chat.py")
    assert "events" in said and "sample.csv" in said


@pytest.fixture
def example_python(python, env):
    """A program that needs no project."""

    def run_it(name, *words):
        return run(python, str(EXAMPLES / "podflare" / name), *words, cwd=EXAMPLES, env=env)

    return run_it


@needs_npm
def test_the_interpreter_runs_each_call_in_a_fresh_sandbox(example, models):
    models.steps = [call("executeCode", code="open('left', 'w'); print(1)"), call("executeCode", code="import os; print(os.path.exists('left'))"), "168"]
    assert example("vercel/interpreter.mjs") == "168\n"
    assert "False" in told(models)


@needs_npm
def test_a_session_keeps_its_files(example):
    assert example("vercel/session.mjs") == "0 3\n\n"


@needs_npm
def test_an_agent_mends_its_own_code(example, models):
    models.steps = [
        call("runCode", code="const rows = undefined; console.log(rows.map(String))"),
        call("runCode", code="const rows = [3, 1, 4]; console.log(rows.sort()[1])"),
        "The median is 3.",
    ]
    said = example("vercel/self-correct.mjs")
    assert said == "[run-code] node main.js → exitCode 1\n[run-code] node main.js → exitCode 0\nThe median is 3.\n"
    assert "TypeError: Cannot read properties of undefined (reading 'map')" in told(models, 1)


@needs_npm
def test_a_warm_sandbox_is_prepared_once(example, client):
    try:
        assert example("vercel/warm.mjs", "warm-example").splitlines()[1:] == ["42", ""]
        assert example("vercel/warm.mjs", "warm-example").splitlines() == ["resumed", "42", ""]
    finally:
        sandbox = client.get("warm-example")
        saved = [s["id"] for s in sandbox.snapshots()]
        sandbox.delete()
        for one in saved:
            client.delete_snapshot(one)


@needs_npm
def test_generated_code_has_the_packages_that_it_asks_for(example, models):
    make = "require('fs').mkdirSync('/tmp/greet'); require('fs').writeFileSync('/tmp/greet/package.json', '{\"name\": \"greet\", \"version\": \"1.0.0\"}');"
    make += "require('fs').writeFileSync('/tmp/greet/index.js', 'module.exports = () => \"hello from a package\"');"
    models.steps = [
        call("generateAndRunCode", code=make, packages=[]),
        call("generateAndRunCode", code="console.log(require('greet')())", packages=["--offline", "--no-audit", "/tmp/greet"]),
        "done",
    ]
    example("vercel/agent.mjs", "greet me")
    assert "hello from a package" in told(models)


@needs_npm
def test_deleting_a_folder_deletes_the_sandbox_s(example, models, projects):
    mine = projects / "vercel" / "tmp"
    mine.mkdir()
    (mine / "precious").write_text("mine")
    code = "const fs = require('fs'); fs.mkdirSync('./tmp', {recursive: true}); fs.rmSync('./tmp', {recursive: true}); console.log('there:', fs.existsSync('./tmp'))"
    models.steps = [call("generateAndRunCode", code=code), "deleted"]
    example("vercel/agent.mjs", "Delete the ./tmp folder and show me the result")
    assert "there: false" in told(models)
    assert (mine / "precious").read_text() == "mine"


@needs_npm
def test_printing_the_environment_prints_the_sandbox_s(example, models):
    models.steps = [call("generateAndRunCode", code="console.log(JSON.stringify(process.env))"), "printed"]
    example("vercel/agent.mjs", "Print process.env", SECRET_OF_THE_APP="do-not-tell")
    said = told(models)
    assert "HOME" in said and "do-not-tell" not in said and "AI_GATEWAY_API_KEY" not in said
