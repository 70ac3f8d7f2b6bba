# SPDX-License-Identifier: Apache-2.0
"""cloche eval: cases of code, commands and models, what they claim, and how that is told."""

import json
import signal
import xml.etree.ElementTree as ET

import pytest
from harness.daemon import ROOT, wait_for
from harness.models import Models, call

EXAMPLE = ROOT / "examples" / "evals" / "code-interpreter.toml"
TEMPLATE = 'template = "host"\n'
MODEL = '[model]\napi = "{api}"\nname = "scripted"\nbase_url = "{url}"\n'


@pytest.fixture
def models():
    models = Models()
    yield models
    models.close()


@pytest.fixture
def eval_(cli, tmp_path):
    """Runs cases that are written as they stand; gives status, what is printed, and the errors."""

    def run(text, *words, name="evals.toml"):
        path = tmp_path / name
        path.write_text(text if name.endswith(".json") else TEMPLATE + text)
        return cli("eval", *words, str(path))

    return run


def report_of(status, out, err):
    assert err == "" and status in (0, 1), (status, err)
    return json.loads(out)


def reasons(case):
    return [reason for run in case["runs"] for reason in run["reasons"]]


def test_code_and_commands_are_held_against_what_a_case_says(eval_):
    status, out, err = eval_("""
[case.sum]
code = '''
import os
print(6 * 7)
open("made.txt", "w").write(open("given.txt").read().upper() + os.environ["TAIL"])
'''
output = "42"
stdout_matches = '^4\\d\\n$'
output_lacks = ["43", "44"]
[case.sum.files]
"given.txt" = "abc"
[case.sum.env]
TAIL = "!"
[case.sum.file]
"made.txt" = "ABC!"
[case.sum.file_contains]
"made.txt" = ["AB", "C"]

[case.status]
command = "echo no >&2; exit 3"
exit_code = 3
stderr_contains = "no"
check = "test ! -e made.txt"
""")
    assert status == 0 and err == "", (out, err)
    assert "2 of 2 cases passed" in out


def test_each_claim_that_does_not_hold_is_told(eval_):
    case = 'code = "print(41); import sys; print(\'why\', file=sys.stderr); sys.exit(2)"\n'
    claims = 'output = "42"\noutput_contains = "x"\noutput_lacks = "41"\nstdout_matches = "^b"\nstderr_contains = "z"\ncheck = "echo broken; false"\n'
    bounds = 'max_time = "1ms"\n'
    files = '[case.all.file]\n"none" = "x"\n'
    report = report_of(*eval_(f"[case.all]\n{case}{claims}{bounds}{files}", "--json"))
    said = reasons(report["cases"][0])
    assert not report["passed"] and report["cases_failed"] == 1
    for part in ['output is not "42": "41"', 'output does not contain "x"', 'output contains "41"', 'stdout does not match "^b"', "stderr does not contain",
                 "exit code 2, 0 was expected", "stderr: why", "the check failed with exit code 1: broken", "there is no file 'none'", "1 are allowed"]:
        assert any(part in s for s in said), (part, said)


def test_rates_count_against_the_threshold(eval_, models):
    models.steps = ["yes", "no", "yes", "yes"]
    flaky = MODEL.format(api="openai", url=models.url + "/v1") + '[case.flaky]\nrepeat = 4\nthreshold = 0.75\nprompt = "?"\noutput = "yes"\n'
    status, out, _ = eval_(flaky)
    assert status == 0 and "3/4 (75 % needed)" in out and '"yes": "no"' in out
    models.asked.clear()
    assert eval_(flaky, "--threshold", "0.9")[0] == 1
    report = report_of(*eval_("[case.never]\ncommand = 'false'\n", "--repeat", "3", "--threshold", "0.5", "--json"))
    (case,) = report["cases"]
    assert (case["pass_rate"], case["threshold"], len(case["runs"]), case["passed"]) == (0, 0.5, 3, False)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_model_runs_code_and_is_told_what_came_of_it(eval_, models, api):
    models.steps = [
        call("run_code", language="python", code="open('kept', 'w').write('7'); 1/0"),
        [call("run_code", language="bash", code="cat kept; echo; exit 4"), call("nonsense", x=1)],
        "It is seven.",
    ]
    url = models.url + ("/v1/" if api == "openai" else "")
    head = MODEL.format(api=api, url=url) + "input_price = 1000000\n"
    report = report_of(*eval_(head + '[case.seven]\nsystem = "Be brief."\nprompt = "Which?"\noutput = "It is seven."\nstdout = "7"\nexit_code = 4\nmax_calls = 2\n', "--json"))
    (run,) = report["cases"][0]["runs"]
    assert report["passed"], run
    assert (run["calls"], run["input_tokens"], run["output_tokens"]) == (2, 3, 3) and float(run["cost"]) >= 3
    asked = json.dumps(models.asked)
    assert "ZeroDivisionError" in asked and "This tool takes" in asked and "Be brief." in asked and r'\"exit_code\":4' in asked
    assert len(models.asked) == 3


def test_a_model_that_never_ends_is_ended(eval_, models):
    models.steps = [call("run_code", language="bash", code="true")] * 9
    report = report_of(*eval_(MODEL.format(api="openai", url=models.url + "/v1") + 'output_price = 1000000\n[case.loop]\nprompt = "?"\nmax_turns = 2\nmax_calls = 1\nmax_cost = "0.01"\n', "--json"))
    said = ["the model was not done after 2 turns", "the model ran code 2 times, 1 are allowed", "it cost 2.00, 0.01 are allowed"]
    assert reasons(report["cases"][0]) == said


def test_a_busy_model_is_asked_again_and_a_refusal_is_an_error(eval_, models):
    models.failures = [(429, 0), (503, 0), (401, None)]
    models.steps = ["yes"]
    text = MODEL.format(api="anthropic", url=models.url) + '[case.a]\nprompt = "?"\noutput = "yes"\n'
    assert eval_(text)[0] == 1 and len(models.refused) == 3
    report = report_of(*eval_(text, "--json"))
    assert report["passed"]
    models.failures = [(401, None)]
    report = report_of(*eval_(text, "--json"))
    assert report["cases"][0]["runs"][0]["verdict"] == "error"
    assert reasons(report["cases"][0]) == ["the model answered with status 401: not today"]


def test_the_key_comes_from_the_environment_and_goes_to_the_model_alone(cli, models, tmp_path):
    (tmp_path / "e.toml").write_text(TEMPLATE + MODEL.format(api="openai", url=models.url + "/v1") + 'key_env = "MY_KEY"\n[case.a]\nprompt = "?"\noutput = "env"\ncheck = "! env | grep s3cret"\n')
    models.steps = ["env"]
    cli.env["MY_KEY"] = "s3cret"
    status, out, err = cli("eval", "--json", str(tmp_path / "e.toml"))
    assert status == 0 and models.keys == ["Bearer s3cret"]
    assert "s3cret" not in out + err


def test_a_failing_sandbox_is_kept_on_request_and_can_be_entered(eval_, cli, client):
    status, out, _ = eval_("[case.bad]\ncommand = 'echo here > trace; false'\n[case.good]\ncommand = 'true'\n", "--keep")
    kept = out.partition("cloche shell ")[2].split()[0]
    try:
        assert status == 1 and kept in cli.ids()
        assert cli.ok("exec", kept, "cat", "trace") == "here\n"
    finally:
        client.get(kept).delete()
    before = cli.ids()
    assert eval_("[case.bad]\ncommand = 'false'\n")[0] == 1
    assert cli.ids() == before


def test_junit_is_well_formed_whatever_code_prints(eval_, tmp_path):
    xml = tmp_path / "report.xml"
    code = "print('<&\\\"]]>\\x01\\x1b[31m\\uffff\\n'); raise SystemExit(1)"
    eval_(f"[case.odd]\ncode = '''\n{code}\n'''\n[case.fine]\ncommand = 'true'\n", "--junit", str(xml))
    (suite,) = ET.parse(xml).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    odd, fine = suite
    assert "exit code 1, 0 was expected" in odd.find("failure").text and fine.find("failure") is None
    assert "<&\"]]>" in odd.find("system-out").text


def test_what_code_prints_drives_no_terminal(eval_):
    _, out, _ = eval_("[case.odd]\ncode = 'print(\"\\x1b]0;owned\\x07\"); raise SystemExit(1)'\noutput = \"x\"\n")
    assert "\x1b" not in out and "owned" in out


@pytest.mark.parametrize(
    "text, said",
    [
        ("[case.a]\ncheck = 'true'\n", "evals.toml: case.a: has nothing to run"),
        ("[case.a]\ncommand = 'true'\n[case.empty]\n", "evals.toml: case.empty: has nothing to run"),
        ('[case.a]\ncode = "1"\nprompt = "x"\n', "case.a: has more than one thing to run"),
        ('[case.a]\nprompt = "x"\n', "case.a.prompt: there is no model to ask"),
        ('[case.a]\ncode = "1"\noutput_matches = "("\n', "case.a.output_matches: the expression"),
        ('[case.a]\ncode = "1"\ntimeout = "soon"\n', "case.a.timeout: must be a time"),
        ('[case.a]\ncode = "1"\nlanguage = "perl"\n', "case.a.language: 'perl' is not one of"),
        ('[case.a]\ncode = "1"\nexit_code = 256\n', "case.a.exit_code: must be from 0 to 255"),
        ('[case.a]\ncode = "1"\nrepeat = 0\n', "case.a.repeat: must be from 1"),
        ('[case.a]\ncode = "1"\nthreshold = 1.5\n', "case.a.threshold: must be from 0 to 1"),
        ('[case.a]\ncode = "1"\nexpects = "x"\n', "case.a.expects: is not a known field"),
        ('[case.a]\ncode = "1"\noutput_contain = "x"\n', "did you mean 'output_contains'?"),
        ('[cases.a]\ncode = "1"\n', "evals.toml: cases: is not a known field\n  hint: did you mean 'case'?"),
        ('[case.a]\ncode = "1"\n[model]\napi = "openai"\nnames = "x"\n', "did you mean 'name'?"),
        ('[[case]]\nname = "a"\ncode = "1"\n', "write [SECTION.NAME], such as [case.first]"),
        ('[case.a]\ncode = "1"\nmax_cost = "lots"\n', "case.a.max_cost: must be an amount"),
        ('[case.a]\ncode = "1"\ncode = "2"\n', "evals.toml:4: code: is given twice"),
        ('[case.a]\ncode = yes\n', "evals.toml:3: code: 'yes' is no number"),
        ("[case.a]\ncode = '''\n1\n", "evals.toml:3: a string of several lines does not end"),
        ('[model]\napi = "openai"\nname = "x"\nkey_env = "NO_SUCH_KEY"\nbase_url = "http://127.0.0.1:1"\n[case.a]\nprompt = "1"\n', "model.key_env: there is no key: NO_SUCH_KEY is not in"),
        ('[model]\napi = "cohere"\nname = "x"\n[case.a]\ncode = "1"\n', "model.api: 'cohere' is neither"),
        ("", "evals.toml: case: is required"),
    ],
)
def test_a_mistake_names_file_case_and_field_and_nothing_runs(eval_, text, said):
    status, out, err = eval_(text)
    assert (status, out) == (125, "") and said in err, err


def test_json_says_the_same(eval_):
    case = {"template": "host", "case": {"sum": {"code": "print(1)\n", "output": "1", "max_time": 60}}}
    assert eval_(json.dumps(case), name="evals.json")[0] == 0
    status, _, err = eval_('{"case": {"sum": {"code": 5}}}', name="bad.json")
    assert status == 125 and "bad.json: case.sum.code: must be a string" in err
    assert eval_("{", name="half.json")[2].startswith("cloche: ")


def test_ctrl_c_ends_the_runs_and_leaves_no_sandbox(cli, tmp_path):
    (tmp_path / "e.toml").write_text(TEMPLATE + "repeat = 8\n[case.long]\ncommand = 'sleep 60'\n")
    before = cli.ids()
    p = cli.start("eval", str(tmp_path / "e.toml"))
    wait_for(lambda: cli.ids() - before, 20, "a sandbox of a run")
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 128 + signal.SIGINT
    p.communicate()
    assert cli.ids() == before


def test_the_example_catches_a_model_that_guesses(cli, models):
    good = ["The median is 3.5."], ["The median is about 3."]
    for steps, wanted in zip(good, (0, 1)):
        models.steps, models.asked = steps, []
        words = ["--base-url", models.url, "--case", "median", "--case", "runtime", "--case", "no-network", str(EXAMPLE)]
        status, out, err = cli("eval", *words)
        assert status == wanted, (out, err)
    assert 'output does not contain "3.5": "The median is about 3."' in out


def test_the_example_sees_a_model_mend_its_own_code(cli, models):
    first = "import json, statistics\nprint({k: statistics.median(v) for k, v in json.load(open('latencies.json')).items()})"
    second = "import json, statistics\njson.dump({k: statistics.median(v) for k, v in json.load(open('latencies.json')).items() if v}, open('summary.json', 'w'))"
    models.steps = [call("run_code", language="python", code=first), call("run_code", language="python", code=second), "Done."]
    status, out, err = cli("eval", "--base-url", models.url, "--case", "self-correction", str(EXAMPLE))
    assert status == 0, (out, err)
    assert "StatisticsError" in json.dumps(models.asked[1])
