# SPDX-License-Identifier: Apache-2.0
"""The Python interpreter, driven as the agent drives it. One test per promise of issue and protocol."""

import base64
import os
import signal
import subprocess
import sys

import pytest
from kernels.kernel import KERNELS, Kernel, KernelDied, microseconds_per_call

PYTHON = os.environ.get("CLOCHE_TEST_PYTHON", sys.executable)
ARGV = [PYTHON, str(KERNELS / "python")]
PNG = b"\x89PNG"


@pytest.fixture
def kernel():
    with Kernel(ARGV) as kernel:
        yield kernel


def needs(module):
    """Skips where the interpreter under test, which need not be this one, has no such module."""
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    missing = subprocess.run([PYTHON, "-c", look]).returncode != 0
    return pytest.mark.skipif(missing, reason=f"{module} is not installed")


def png_of(bundle):
    return base64.b64decode(bundle["data"]["image/png"])


# ---- state and values


def test_it_says_what_it_is_before_the_first_call(kernel):
    assert kernel.ready["language"] == "python"
    assert kernel.ready["version"].startswith("3.")
    assert kernel.ready["pid"] == kernel.pid


def test_state_stays_from_call_to_call(kernel):
    kernel.run("import math\nx = 20\ndef twice(n): return 2 * n")
    assert kernel.run("twice(x) + math.floor(2.5)").text == "42"


def test_a_call_tells_the_cpu_that_it_took(kernel):
    assert kernel.run("x = 1").cpu_us >= 0
    burn = "import time\nuntil = time.process_time() + 0.05\nwhile time.process_time() < until: pass"
    assert kernel.run(burn).cpu_us >= 50_000
    assert kernel.run("import subprocess, sys; subprocess.run([sys.executable, '-Sc', " + repr(burn) + "])").cpu_us >= 30_000  # children are counted in ticks


def test_calls_are_counted_from_one_also_when_they_fail(kernel):
    assert [kernel.run(code).done["count"] for code in ("1", "1/0", "def")] == [1, 2, 3]


def test_the_last_expression_is_the_result(kernel):
    reply = kernel.run("a = 1\na + 1\na + 2")
    assert reply.result == {"data": {"text/plain": "3"}, "metadata": {}}
    assert reply.done == {"status": "ok", "count": 1}


@pytest.mark.parametrize("code", ["a = 1", "None", "print()", "", "# nothing", "for i in range(3): i", "del a"])
def test_what_has_no_value_has_no_result(kernel, code):
    kernel.run("a = 0")
    reply = kernel.run(code)
    assert reply.result is None and reply.status == "ok"


@pytest.mark.parametrize("code", ["1;", "1 ; ", "x = 2\n(x);  # why", "'é;é';"])
def test_a_semicolon_at_the_end_hides_the_value(kernel, code):
    assert kernel.run(code).result is None


def test_a_semicolon_elsewhere_hides_nothing(kernel):
    assert kernel.run("a = 1; a").text == "1"
    assert kernel.run("'a;'").text == "'a;'"


def test_the_namespace_holds_nothing_of_the_driver(kernel):
    assert kernel.run("dir()").text == str(
        ["__builtins__", "__doc__", "__loader__", "__name__", "__package__", "__spec__"]
    )
    assert kernel.run("__name__").text == "'__main__'"


def test_modules_of_the_user_are_not_shadowed_by_the_driver(tmp_path):
    (tmp_path / "errors.py").write_text("mine = True")
    with Kernel(ARGV, cwd=str(tmp_path)) as kernel:
        assert kernel.run("import errors\nerrors.mine").text == "True"


def test_classes_of_a_cell_can_be_pickled(kernel):
    kernel.run("import pickle\nclass Point:\n  def __init__(self, x): self.x = x")
    assert kernel.run("pickle.loads(pickle.dumps(Point(3))).x").text == "3"


def test_future_imports_hold_for_later_cells(kernel):
    kernel.run("from __future__ import annotations")
    assert kernel.run("def f(x: undefined): pass\nf.__annotations__").text == "{'x': 'undefined'}"


def test_code_and_output_in_any_script_come_through(kernel):
    reply = kernel.run("größe = '雪 🌱'\nprint(größe)\ngröße")
    assert reply.stdout.decode() == "雪 🌱\n" and reply.text == "'雪 🌱'"


def test_code_that_is_not_utf8_is_an_error_of_the_call(kernel):
    assert kernel.run(b"x = '\xff'").error["name"] == "UnicodeDecodeError"
    assert kernel.run("1").text == "1"


# ---- await


def test_await_works_at_top_level(kernel):
    assert kernel.run("import asyncio\nawait asyncio.sleep(0, 'slept')").text == "'slept'"
    assert kernel.run("async with asyncio.Lock() as lock: x = 5\nx").text == "5"


def test_tasks_and_locks_outlive_the_call_that_made_them(kernel):
    kernel.run("import asyncio\nasync def f(): await asyncio.sleep(0); return 7\ntask = asyncio.create_task(f()) if await asyncio.sleep(0) else asyncio.ensure_future(f())")
    assert kernel.run("await task").text == "7"


def test_asyncio_run_works_beside_await(kernel):
    kernel.run("import asyncio\nasync def f(): return 8")
    assert kernel.run("asyncio.run(f())").text == "8"
    assert kernel.run("await f()").text == "8"
    assert kernel.run("asyncio.run(f())").text == "8"


def test_a_loop_that_the_code_closed_is_made_anew(kernel):
    kernel.run("import asyncio\nawait asyncio.sleep(0)\nloop = asyncio.get_running_loop()")
    kernel.run("loop.close()")
    assert kernel.run("await asyncio.sleep(0, 1)").text == "1"


def test_context_variables_hold_across_sync_and_async_calls(kernel):
    kernel.run("import contextvars, asyncio\nv = contextvars.ContextVar('v')\nv.set(1);")
    assert kernel.run("await asyncio.sleep(0)\nbefore = v.get()\nv.set(2)\nbefore").text == "1"
    assert kernel.run("v.get()").text == "2"


def test_errors_of_async_code_show_the_users_lines_only(kernel):
    reply = kernel.run("async def f():\n    raise ValueError('deep')\nawait f()")
    assert reply.error["name"] == "ValueError"
    assert [line for line in reply.error["traceback"] if "File" in line] == [
        '  File "<cell 1>", line 3, in <module>',
        '  File "<cell 1>", line 2, in f',
    ]


# ---- MIME bundles


def test_every_repr_method_is_in_the_bundle(kernel):
    kernel.run(
        "class All:\n"
        "  def __repr__(self): return 'all'\n"
        "  def _repr_html_(self): return '<b>all</b>'\n"
        "  def _repr_markdown_(self): return '**all**'\n"
        "  def _repr_svg_(self): return '<svg/>'\n"
        "  def _repr_png_(self): return b'\\x89PNG'\n"
        "  def _repr_latex_(self): return '$a$'\n"
        "  def _repr_json_(self): return {'a': [1, None]}\n"
        "  def _repr_javascript_(self): return 'a()'\n"
        "class Photo:\n"
        "  def _repr_jpeg_(self): return b'\\xff\\xd8', {'width': 3}\n"
    )
    assert kernel.run("All()").data == {
        "text/plain": "all",
        "text/html": "<b>all</b>",
        "text/markdown": "**all**",
        "image/svg+xml": "<svg/>",
        "image/png": base64.b64encode(PNG).decode(),
        "text/latex": "$a$",
        "application/json": {"a": [1, None]},
        "application/javascript": "a()",
    }
    photo = kernel.run("Photo()").result
    assert base64.b64decode(photo["data"]["image/jpeg"]) == b"\xff\xd8"
    assert photo["metadata"] == {"image/jpeg": {"width": 3}}


def test_a_mimebundle_goes_before_single_methods(kernel):
    reply = kernel.run(
        "class B:\n"
        "  def _repr_html_(self): return 'single'\n"
        "  def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "    return {'text/html': 'bundle', 'application/x+json': {'a': float('nan')}}, {'text/html': {'isolated': True}}\n"
        "B()"
    )
    assert kernel.run("class C:\n  def _repr_mimebundle_(self, **_): return {'text/plain': 'its own'}\nC()").text == "its own"
    assert reply.data["text/html"] == "bundle"
    assert reply.data["application/x+json"] == {"a": None}
    assert reply.result["metadata"] == {"text/html": {"isolated": True}}


def test_a_failing_repr_costs_only_itself(kernel):
    reply = kernel.run("class Bad:\n  def __repr__(self): 1/0\n  def _repr_html_(self): 1/0\n  def _repr_latex_(self): return '$x$'\nBad()")
    assert reply.status == "ok"
    assert reply.data == {"text/plain": "<Bad object: its repr raised ZeroDivisionError>", "text/latex": "$x$"}


def test_forms_that_cannot_be_sent_are_left_out(kernel):
    reply = kernel.run("class Odd:\n  def _repr_html_(self): return 5\n  def _repr_json_(self): return {1j}\n  def __repr__(self): return 'odd'\nOdd()")
    assert reply.data == {"text/plain": "odd"}


def test_a_mock_is_not_taken_for_an_image(kernel):
    assert list(kernel.run("from unittest.mock import MagicMock\nMagicMock()").data) == ["text/plain"]
    assert list(kernel.run("class A:\n  def _repr_html_(self): return 'x'\nA").data) == ["text/plain"]


def test_nul_and_lone_surrogates_never_reach_the_host(kernel):
    reply = kernel.run("class N:\n  def __repr__(self): return 'a\\0b\\ud800c'\n  def _repr_html_(self): return 'x\\0y'\nN()")
    assert reply.text == "a\ufffdb?c" and reply.data["text/html"] == "x\ufffdy"
    assert kernel.run("raise ValueError('a\\0b')").error["message"] == "a\ufffdb"


def test_a_huge_text_is_cut_and_says_so(kernel):
    reply = kernel.run("'x' * 5_000_000")
    assert reply.result["truncated"] is True
    assert len(reply.text) < 1_100_000 and reply.text.endswith("[cut: 5000002 characters in all]")


def test_a_bundle_over_the_limit_falls_back_to_its_text(kernel):
    reply = kernel.run("class Big:\n  def __repr__(self): return 'big'\n  def _repr_html_(self): return 'x' * (9 << 20)\nBig()")
    assert reply.result == {"data": {"text/plain": "big"}, "metadata": {}, "truncated": True}


def test_an_underscore_is_the_last_value_that_was_shown(kernel):
    kernel.run("40 + 2")
    kernel.run("x = 1")
    assert kernel.run("_ - 2").text == "40"
    kernel.run("None")
    kernel.run("7;")
    assert kernel.run("_").text == "40"
    kernel.run("_ = 'mine'\n5")
    assert kernel.run("_").text == "'mine'"


def test_what_is_displayed_does_not_overtake_output_before_it(kernel):
    reply = kernel.run("print('a')\ndisplay(1, 'two')\nprint('b')\ndisplay({'text/html': '<i>'}, raw=True)\n3")
    assert reply.events[0][0] == "stdout" and reply.events[0][1].startswith(b"a\n") and reply.stdout == b"a\nb\n"
    assert [verb for verb, _ in reply.events if verb != "stdout"] == ["display", "display", "display", "result", "done"]
    assert [d["data"] for d in reply.displays] == [
        {"text/plain": "1"},
        {"text/plain": "'two'"},
        {"text/plain": "", "text/html": "<i>"},
    ]


NEEDS_MATPLOTLIB = needs("matplotlib")


@needs("pandas")
def test_a_dataframe_is_html_and_text(kernel):
    kernel.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})")
    data = kernel.run("df").data
    assert "<table" in data["text/html"] and data["text/plain"].split() == ["a", "0", "1", "1", "2"]


@needs("pandas")
def test_a_dataframe_is_its_columns_too(kernel):
    kernel.run("import pandas as pd, datetime\ndf = pd.DataFrame({'a': [1, float('nan')], 'b': [datetime.date(2026, 1, 2), 'x']})")
    assert kernel.run("df").data["application/vnd.cloche.table+json"] == {"a": [1.0, None], "b": ["2026-01-02", "x"]}
    kernel.run("big = pd.DataFrame({'a': range(100_001)})")
    assert "application/vnd.cloche.table+json" not in kernel.run("big").data


CHARTS = {
    "plt.plot([1, 2], [3, 4], label='l'); plt.xlabel('time (s)'); plt.title('t')": {
        "type": "line", "title": "t", "x_label": "time (s)", "x_unit": "s", "y_label": None, "x_scale": "linear",
        "elements": [{"label": "l", "points": [[1.0, 3.0], [2.0, 4.0]]}]},
    "plt.scatter([1], [2], label='s'); plt.yscale('log')": {
        "type": "scatter", "y_scale": "log", "elements": [{"label": "s", "points": [[1.0, 2.0]]}]},
    "plt.bar(['a', 'b'], [1, 2], label='g')": {
        "type": "bar", "elements": [{"label": "a", "group": "g", "value": 1.0}, {"label": "b", "group": "g", "value": 2.0}]},
    "plt.pie([90, 10], labels=['x', 'y'])": {
        "type": "pie", "elements": [{"label": "x", "angle": 324.0, "radius": 1.0}, {"label": "y", "angle": 36.0, "radius": 1.0}]},
    "plt.boxplot([[1, 2, 3, 4, 5, 99]], patch_artist=True)": {
        "type": "box_and_whisker", "elements": [{"label": "1", "min": 1.0, "first_quartile": 2.25, "median": 3.5, "third_quartile": 4.75,
                                                 "max": 5.0, "outliers": [99.0]}]},
    "plt.gca().add_patch(plt.Circle((0, 0), 1))": {"type": "unknown", "elements": []},
    "fig, (a, b) = plt.subplots(2); a.plot([1]); b.scatter([1], [2]); fig.suptitle('two')": {"type": "superchart", "title": "two"},
}


@needs("matplotlib")
def test_a_figure_tells_what_is_on_it(kernel):
    kernel.run("import matplotlib.pyplot as plt")
    for code, wanted in CHARTS.items():
        chart = kernel.run(code + "; plt.show()").displays[0]["data"]["application/vnd.cloche.chart+json"]
        assert {name: chart[name] for name in wanted} == wanted


@needs("IPython")
def test_ipythons_display_shows_here(kernel):
    shown = kernel.run("from IPython.display import display\ndisplay({'text/latex': 'x'}, raw=True)").displays[0]["data"]
    assert shown["text/latex"] == "x"


@needs("PIL")
def test_a_pil_image_that_is_shown_is_shown_here(kernel):
    assert png_of(kernel.run("from PIL import Image\nImage.new('RGB', (4, 4)).show()").displays[0]).startswith(PNG)


@needs("PIL")
def test_a_pil_image_that_is_saved_is_shown_to_programs_of_e2b_alone(kernel, tmp_path):
    save = f"Image.new('RGB', (4, 4)).save('{tmp_path}/a.png')"
    assert kernel.run(f"from PIL import Image\n{save}").displays == []
    kernel.env(E2B_SANDBOX="true")
    assert [png_of(one)[:len(PNG)] for one in kernel.run(save).displays] == [PNG]
    kernel.env(E2B_SANDBOX="true")
    assert kernel.run("import io\nImage.new('RGB', (4, 4)).save(io.BytesIO(), 'png')").displays == []
    assert kernel.run(save).displays == []


@needs("PIL")
def test_a_pil_image_is_a_png(kernel):
    reply = kernel.run("from PIL import Image\nImage.new('RGB', (4, 4), 'red')")
    assert png_of(reply.result).startswith(PNG) and "image/jpeg" not in reply.data


@NEEDS_MATPLOTLIB
def test_figures_are_shown_at_the_end_of_the_call_and_closed(kernel):
    reply = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nplt.plot([3])\nprint('drawn');")
    assert [png_of(d)[:4] for d in reply.displays] == [PNG, PNG]
    assert reply.stderr == b""
    assert kernel.run("plt.get_fignums()").text == "[]"
    assert kernel.run("1").displays == []


@NEEDS_MATPLOTLIB
def test_plt_show_shows_what_is_drawn_so_far(kernel):
    reply = kernel.run(
        "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint('between')\nplt.plot([2])\nplt.show()"
    )
    first, second = (png_of(d) for d in reply.displays)
    assert first.startswith(PNG) and second.startswith(PNG) and reply.stderr == b""


@NEEDS_MATPLOTLIB
def test_a_figure_that_is_the_result_is_shown_once(kernel):
    reply = kernel.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1])\nfig")
    assert png_of(reply.result).startswith(PNG) and reply.displays == []


@NEEDS_MATPLOTLIB
def test_figures_are_shown_also_when_the_call_fails(kernel):
    reply = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1])\n1/0")
    assert reply.status == "error" and png_of(reply.displays[0]).startswith(PNG)


@NEEDS_MATPLOTLIB
def test_a_figure_that_cannot_be_drawn_says_why_on_stderr(kernel):
    reply = kernel.run("import matplotlib.pyplot as plt\nplt.title(r'$\\badtex$');")
    assert reply.status == "ok" and b"cannot be drawn: ValueError" in reply.stderr
    assert kernel.run("1").text == "1"


@needs("plotly")
def test_plotly_shows_itself_by_its_own_type(kernel):
    kernel.run("import plotly.graph_objects as go\nfig = go.Figure(go.Scatter(y=[1, 2]))")
    assert kernel.run("fig").data["application/vnd.plotly.v1+json"]["data"][0]["type"] == "scatter"
    assert "application/vnd.plotly.v1+json" in kernel.run("fig.show()").displays[0]["data"]


@needs("altair")
def test_altair_shows_itself_by_its_own_type(kernel):
    reply = kernel.run("import altair as alt\nalt.Chart(alt.Data(values=[{'a': 1}])).mark_bar().encode(x='a:Q')")
    assert any(mime.startswith("application/vnd.vegalite") for mime in reply.data)


# ---- errors


def test_an_error_is_name_message_and_the_users_lines(kernel):
    kernel.run("def divide(a):\n    return a / 0")
    reply = kernel.run("x = 1\ndivide(x)")
    assert (reply.error["name"], reply.error["message"]) == ("ZeroDivisionError", "division by zero")
    lines = [line for line in reply.error["traceback"] if "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<cell 2>", line 2, in <module>',
        "    divide(x)",
        '  File "<cell 1>", line 2, in divide',
        "    return a / 0",
        "ZeroDivisionError: division by zero",
    ]
    assert reply.result is None and reply.done == {"status": "error", "count": 2}


def test_output_and_names_before_an_error_are_kept(kernel):
    assert kernel.run("kept = 5\nprint('before')\nundefined").stdout == b"before\n"
    assert kernel.run("kept").text == "5"


def test_chained_exceptions_are_all_told(kernel):
    text = kernel.run("try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('outer') from e").traceback
    assert text.index("KeyError: 'k'") < text.index("direct cause") < text.index("ValueError: outer")
    text = kernel.run("raise ExceptionGroup('many', [ValueError('one'), TypeError('two')])").traceback
    assert "ValueError: one" in text and "TypeError: two" in text and "cloche_kernel" not in text


def test_a_syntax_error_points_at_its_place(kernel):
    reply = kernel.run("x = 1\ny = = 2")
    assert (reply.error["name"], reply.error["message"]) == ("SyntaxError", "invalid syntax")
    assert reply.error["traceback"] == [
        '  File "<cell 1>", line 2',
        "    y = = 2",
        "        ^",
        "SyntaxError: invalid syntax",
    ]


@pytest.mark.parametrize(
    "code, stdout, text",
    [
        ("!echo hi", "hi\n", None),
        ("x = 1\n!echo {x + 1} $x $HOME/{x} ${NOT}x {no", "2 1 /root/1 x {no\n", None),
        ("!echo a \\\n  b\n1", "a b\n", "1"),
        ("names = !printf 'a\\nb\\n'\nnames", "", "['a', 'b']"),
        ("if True:\n    !echo inside\n    %cd /\n", "inside\n/\n", None),
        ("!echo it's | cat", "", None),
        ("%matplotlib inline\n%load_ext autoreload\n2", "", "2"),
        ("%cd /usr\n%pwd", "/usr\n", "'/usr'"),
        ("%env A=5\nimport os; os.environ['A']", "env: A=5\n", "'5'"),
        ("%%bash\necho $((6*7))\ncat <<'X'\n%cd\nX", "42\n%cd\n", None),
        ("\n  %%sh\necho hi", "hi\n", None),
        ("%%writefile /dev/null\na\nb", "Writing /dev/null\n", None),
        ("%%capture out\nprint(1)\n", "", None),
        ("    x = 3\n    if x:\n        y = 4\n    x + y", "", "7"),
        ("text = '''\n!echo no\n%cd /\n'''\n!echo yes\ntext", "yes\n", "'\\n!echo no\\n%cd /\\n'"),
        ("(7\n% 4)", "", "3"),
    ],
)
def test_what_notebooks_have_beside_python_works(kernel, code, stdout, text):
    kernel.run("import os; os.environ['HOME'] = '/root'")
    reply = kernel.run(code)
    assert (reply.error, reply.stdout.decode(), reply.text) == (None, stdout, text)


def test_a_magic_that_runs_code_runs_it_in_the_cell(kernel):
    reply = kernel.run("%time x = 41 + 1\nx")
    assert reply.text == "42" and b"Wall time: " in reply.stdout
    assert kernel.run("%%time\ny = x\ny").text == "42"
    assert b"per loop" in kernel.run("%timeit -n 2 -r 2 x + y").stdout
    reply = kernel.run("%%time\nz = 1\n1 / 0")
    assert reply.error["name"] == "ZeroDivisionError" and '  File "<cell 4>", line 3, in <module>' in reply.error["traceback"]


def test_what_is_wrong_in_such_a_cell_is_told(kernel):
    error = kernel.run("%no_such_thing 1").error
    assert error["name"] == "NameError" and "%no_such_thing is not known here; there are " in error["message"]
    assert "%%rust" in kernel.run("%%rust\nfn").error["message"]
    assert kernel.run("%%bash\nexit 3").error["name"] == "CalledProcessError"
    reply = kernel.run("!exit 4\n_exit_code")
    assert (reply.error, reply.text) == (None, "4")
    error = kernel.run("!true\nx = = 1").error
    assert (error["name"], error["traceback"][0]) == ("SyntaxError", '  File "<cell 5>", line 2')
    assert kernel.run("%cd /no/such").error["name"] == "FileNotFoundError"


def test_an_exception_that_cannot_tell_itself_is_still_an_error(kernel):
    reply = kernel.run("class Bad(Exception):\n  def __str__(self): raise KeyError\nraise Bad")
    assert reply.error["name"] == "Bad" and "KeyError" in reply.error["message"]


def test_endless_recursion_and_lack_of_memory_are_errors(kernel):
    reply = kernel.run("def f(): return f()\nf()")
    assert reply.error["name"] == "RecursionError" and len(reply.error["traceback"]) < 50
    assert kernel.run("bytearray(1 << 60)").error["name"] == "MemoryError"
    assert kernel.run("1").text == "1"


def test_a_huge_message_is_cut(kernel):
    error = kernel.run("raise ValueError('x' * 5_000_000)").error
    assert len(error["message"]) < 100_000 and sum(map(len, error["traceback"])) < 200_000


@pytest.mark.parametrize("code", ["fail(Thing())", "Thing()\nNone", "Thing();", "display(Thing())"])
def test_nothing_of_a_call_is_held_after_it(kernel, code):
    kernel.run(
        "import gc, weakref\ngc.disable()\nclass Thing:\n  def __init__(self): global seen; seen = weakref.ref(self)\n"
        "def fail(thing): raise ValueError"
    )
    kernel.run(code)
    assert kernel.run("seen() is None").text == "True"
    kernel.run("Thing()")  # is `_` until the next value takes its place
    assert kernel.run("seen() is None").text == "False"
    assert kernel.run("seen() is None").text == "True"


def test_input_fails_clearly(kernel):
    error = kernel.run("input('name? ')").error
    assert error["name"] == "EOFError" and "input() is not available here" in error["message"]
    assert kernel.run("import sys\nsys.stdin.read()").text == "''"


# ---- ends


@pytest.mark.parametrize(
    "code,exit_code,stderr",
    [
        ("import sys; sys.exit(3)", 3, b""),
        ("exit()", 0, b""),
        ("quit(7)", 7, b""),
        ("raise SystemExit('no luck')", 1, b"no luck\n"),
        ("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)", 4, b""),
    ],
)
def test_an_exit_ends_the_interpreter_with_its_code(kernel, code, exit_code, stderr):
    reply = kernel.run(code)
    assert reply.done == {"status": "exit", "count": 1, "exit_code": exit_code}
    assert reply.error is None and reply.stderr == stderr
    assert kernel.wait() == exit_code


def test_an_exit_runs_atexit_and_waits_for_no_thread(kernel):
    reply = kernel.run(
        "import atexit, sys, threading\natexit.register(lambda: print('bye'))\n"
        "threading.Thread(target=threading.Event().wait).start()\nsys.exit(2)"
    )
    assert kernel.wait() == 2 and reply.stdout == b"bye\n"


def test_os_exit_ends_the_process_without_done(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("import os; print('last', flush=True); os._exit(5)")
    assert died.value.returncode == 5 and died.value.reply.stdout == b"last\n"


def test_a_crash_in_c_ends_the_process_and_tells_the_line(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("import ctypes\nctypes.string_at(0)")
    assert died.value.returncode == -signal.SIGSEGV
    assert b'File "<cell 1>", line 2' in died.value.reply.stderr


def test_end_of_file_ends_the_driver_with_zero(kernel):
    kernel.run("x = 1")
    assert kernel.hang_up() == 0


@pytest.mark.parametrize(
    "bytes_", [b"jump 1 0\n", b"run 1\n", b"run x 3\nabc", b"run 1 -1\n", b"run 1 99999999999\n", b"x" * 100, b"\n"]
)
def test_what_is_no_message_ends_the_driver_with_seventy(kernel, bytes_):
    kernel.send_raw(bytes_)
    assert kernel.wait() == 70


def test_a_message_cut_short_ends_the_driver_with_seventy(kernel):
    kernel.send_raw(b"run 1 10\nabc")
    assert kernel.hang_up() == 70


def test_large_code_is_taken_in_pieces(kernel):
    assert kernel.run("x = '" + "a" * 5_000_000 + "'\nlen(x)").text == "5000000"


# ---- output


def test_output_is_split_and_never_overtaken_by_the_reply(kernel):
    for i in range(50):
        reply = kernel.run(f"import sys\nprint('out {i}', end='')\nprint('err {i}', end='', file=sys.stderr)\n{i}")
        assert reply.events[-1][0] == "done" and reply.events[-2][0] == "result"
        assert (reply.stdout, reply.stderr) == (b"out %d" % i, b"err %d" % i)


def test_lines_come_as_they_are_printed(kernel):
    kernel.start("import signal\nprint('waiting')\nsignal.pause()")
    kernel.wait_output(b"waiting\n")
    assert kernel.stop().error["name"] == "KeyboardInterrupt"


def test_lines_held_back_in_a_burst_come_without_another_print(kernel):
    kernel.start("import signal\nfor i in range(5000): print(i)\nsignal.pause()")
    kernel.wait_output(b"\n4999\n")
    assert kernel.stop().stdout == b"".join(b"%d\n" % i for i in range(5000))


def test_output_of_child_processes_comes_before_done_in_order(kernel):
    reply = kernel.run(
        "import subprocess, os\nprint('one', flush=True)\nsubprocess.run(['sh', '-c', 'echo two; echo oops >&2'])\n"
        "print('three', flush=True)\nos.system('echo four');"
    )
    assert reply.stdout == b"one\ntwo\nthree\nfour\n" and reply.stderr == b"oops\n"


def test_binary_and_invalid_utf8_output_is_passed_as_it_is(kernel):
    reply = kernel.run("import sys, os\nsys.stdout.buffer.write(bytes(range(256)))\nsys.stdout.flush()\nos.write(1, b'\\xff\\0');")
    assert reply.stdout == bytes(range(256)) + b"\xff\0"
    assert kernel.run("print('a\\ud800b')").stdout == b"a\\ud800b\n"


def test_what_c_code_left_in_stdio_is_flushed(kernel):
    assert kernel.run("import ctypes\nctypes.CDLL(None).printf(b'from C\\n');").stdout == b"from C\n"


@pytest.mark.parametrize("code", ["print('x' * 100_000_000, end='')", "for _ in range(1_000_000): print('x' * 99)"])
def test_a_hundred_megabytes_of_output_come_whole(kernel, code):
    assert len(kernel.run(code, timeout=120).stdout) == 100_000_000


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close()",
        "import sys; sys.stdout = None; sys.stderr = 5",
        "import os; os.close(1); os.close(2)",
        "import os, sys; fd = os.open('/dev/null', os.O_WRONLY); os.dup2(fd, 1); os.dup2(fd, 2)",
        "import sys; del sys.stdout, sys.stderr",
        "import sys; sys.stdout.detach(); sys.stderr.detach()",
        "import sys; sys.stdout.buffer.close()",
        "import os; os.set_blocking(1, False)",
        "import io, sys; sys.stdout = sys.stderr = io.StringIO()",
        "def print(*a, **k): raise RuntimeError\n",
    ],
)
def test_streams_that_the_code_broke_are_back_for_the_next_call(kernel, code):
    assert kernel.run(code).status == "ok"
    reply = kernel.run("import sys, builtins\nbuiltins.print('a' * 200_000)\nbuiltins.print('err', file=sys.stderr)\n1")
    assert (len(reply.stdout), reply.stderr, reply.text) == (200_001, b"err\n", "1")


# ---- interrupts


def test_an_interrupted_loop_keeps_its_variables(kernel):
    kernel.start("n = 0\nwhile True: n += 1; n == 1000 and print('go')")
    kernel.wait_output(b"go\n")
    kernel.interrupt()
    reply = kernel.finish()
    assert reply.error["name"] == "KeyboardInterrupt" and reply.status == "error"
    assert any("while True" in line for line in reply.error["traceback"])
    assert kernel.run("n >= 1000").text == "True"


def test_a_blocking_call_is_interrupted(kernel):
    kernel.start("import time, threading\nthreading.Timer(0.1, print, ['go']).start()\ntime.sleep(1000)")
    kernel.wait_output(b"go\n")
    assert "time.sleep(1000)" in kernel.stop().traceback


def test_an_endless_repr_is_interrupted(kernel):
    kernel.start("class Slow:\n  def __repr__(self):\n    print('go')\n    while True: pass\nSlow()")
    kernel.wait_output(b"go\n")
    kernel.interrupt()
    assert kernel.finish().error["name"] == "KeyboardInterrupt"


def test_an_awaiting_call_is_cancelled(kernel):
    kernel.start(
        "import asyncio, threading\nthreading.Timer(0.1, print, ['go']).start()\n"
        "async def f():\n  try:\n    await asyncio.sleep(1000)\n  finally:\n    print('cleaned')\nawait f()"
    )
    kernel.wait_output(b"go\n")
    reply = kernel.stop()
    assert reply.error["name"] == "KeyboardInterrupt" and reply.stdout == b"go\ncleaned\n"
    assert "await asyncio.sleep(1000)" in reply.traceback
    assert kernel.run("await asyncio.sleep(0, 1)").text == "1"


@pytest.mark.parametrize("call", ["await spin()", "await asyncio.gather(spin(), asyncio.sleep(1000))", "asyncio.run(asyncio.sleep(1000))"])
def test_async_code_is_interrupted_wherever_it_is(kernel, call):
    kernel.run("import asyncio\nasync def spin():\n  await asyncio.sleep(0)\n  while True: pass")
    kernel.start(f"print('go')\n{call}")
    kernel.wait_output(b"go\n")
    assert kernel.stop().error["name"] == "KeyboardInterrupt"
    assert kernel.run("await asyncio.sleep(0, 1)").text == "1"


def test_an_interrupt_between_calls_is_ignored(kernel):
    kernel.run("x = 1")
    for _ in range(20):
        kernel.interrupt()
        assert kernel.renew().status == "ok"  # taken after the signal
        assert kernel.run("x").text == "1"


def test_an_interrupt_for_a_call_that_waits_is_not_lost(kernel):
    os.kill(kernel.pid, signal.SIGSTOP)
    kernel.start("while True: pass")
    kernel.interrupt()
    os.kill(kernel.pid, signal.SIGCONT)
    assert kernel.finish().error["name"] == "KeyboardInterrupt"
    assert kernel.run("1").text == "1"


# Between the read of a call and its first line; the end of the call that sets this up uses the second one, too.
@pytest.mark.parametrize("module, function, uses_before", [("framing", "_parse_line", 0), ("driver", "_cpu_us", 1)])
def test_an_interrupt_for_a_call_that_is_being_taken_is_not_lost(kernel, module, function, uses_before):
    kernel.run(f"""
import os, signal
from cloche_kernel import {module}
def strike(*args, usual={module}.{function}, uses=[]):
    uses.append(1)
    if len(uses) == {uses_before} + 1:
        os.kill(os.getpid(), signal.SIGINT)
    return usual(*args)
{module}.{function} = strike
""")
    assert kernel.run("1").error["name"] == "KeyboardInterrupt"
    assert kernel.run("1").text == "1"


def test_interrupts_at_any_moment_leave_the_messages_whole(kernel):
    for _ in range(30):
        kernel.start("print('go')\nwhile True: display('x' * 1000)")
        kernel.wait_output(b"go\n")
        kernel.interrupt()
        assert kernel.finish().error["name"] == "KeyboardInterrupt"


def test_a_handler_that_the_code_set_does_not_outlive_its_call(kernel):
    kernel.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    kernel.start("print('go')\nwhile True: pass")
    kernel.wait_output(b"go\n")
    kernel.interrupt()
    assert kernel.finish().error["name"] == "KeyboardInterrupt"


# ---- processes and threads


def test_a_forked_child_ends_with_the_cell_and_says_nothing_to_the_host(kernel):
    reply = kernel.run("import os\npid = os.fork()\nif pid == 0: print('child')\nelse: status = os.waitpid(pid, 0)[1]\npid == 0")
    assert reply.stdout == b"child\n" and reply.text == "False"
    assert kernel.run("status").text == "0"


@pytest.mark.parametrize(
    "code,exit_code,stderr", [("1/0", 1, b"ZeroDivisionError"), ("raise SystemExit(9)", 9, b""), ("os._exit(4)", 4, b"")]
)
def test_a_forked_child_ends_with_the_code_of_its_end(kernel, code, exit_code, stderr):
    reply = kernel.run(f"import os\npid = os.fork()\nif pid == 0:\n  {code}\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert reply.text == str(exit_code) and stderr in reply.stderr
    assert kernel.run("1").text == "1"


def test_display_in_a_forked_child_is_text_on_its_output(kernel):
    reply = kernel.run("import os\npid = os.fork()\ndisplay('shown')\nif pid: os.waitpid(pid, 0);")
    assert reply.stdout == b"'shown'\n" and len(reply.displays) == 1


def test_a_child_forked_behind_pythons_back_is_silent_too(kernel):
    reply = kernel.run("import ctypes, os\npid = ctypes.CDLL(None).fork()\ndisplay('x')\nif pid: os.waitpid(pid, 0)\npid > 0")
    assert reply.text == "True" and len(reply.displays) == 1 and reply.stdout == b"'x'\n"


def test_output_before_a_fork_is_not_written_twice(kernel):
    reply = kernel.run("import os\nprint('once', end='')\npid = os.fork()\nif pid: os.waitpid(pid, 0);")
    assert reply.stdout == b"once"


def test_a_fork_after_much_output_warns_of_no_thread(kernel):
    reply = kernel.run(
        "import os, warnings\nwarnings.simplefilter('always')\nfor i in range(5000): print(i)\n"
        "pid = os.fork()\nif pid: os.waitpid(pid, 0);"
    )
    assert reply.stdout.count(b"4999\n") == 1 and reply.stderr == b""


def test_multiprocessing_by_fork_works(kernel):
    reply = kernel.run(
        "import multiprocessing\ndef square(x): return x * x\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: squares = pool.map(square, range(4))\nsquares"
    )
    assert reply.text == "[0, 1, 4, 9]"


def test_a_child_process_does_not_inherit_the_hosts_socket(kernel):
    reply = kernel.run("import subprocess\nprint(subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout)")
    assert b"socket" not in reply.stdout


def test_a_thread_goes_on_after_its_call(kernel):
    kernel.run(
        "import threading\ngo = threading.Event()\nover = threading.Event()\n"
        "def work():\n  go.wait()\n  print('late')\n  display('text')\n  over.set()\nthreading.Thread(target=work).start()"
    )
    assert kernel.run("go.set()\nover.wait()").text == "True"
    kernel.run("go.clear(); over.clear(); threading.Thread(target=work).start()")
    kernel.run("threading.Timer(0.05, go.set).start()")
    kernel.wait_output(b"late\n'text'\n")
    assert kernel.run("1").text == "1"


def test_an_error_in_a_thread_is_told_on_stderr(kernel):
    reply = kernel.run("import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start()\nt.join()")
    assert reply.status == "ok" and b"ZeroDivisionError" in reply.stderr


def test_code_that_closes_every_fd_ends_as_a_death_not_as_a_hang(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("import os; os.closerange(0, 4096)")
    assert died.value.returncode == 70


def test_threads_that_display_all_the_time_never_speak_out_of_a_call(kernel):
    kernel.run(
        "import threading\nstop = False\ndef work():\n  while not stop: display(1)\n"
        "for _ in range(3): threading.Thread(target=work).start()"
    )
    for i in range(50):
        assert kernel.run(f"{i}").text == str(i)
    kernel.run("stop = True")


# ---- sync


def test_a_sync_is_answered_behind_the_running_call_and_changes_nothing(kernel):
    kernel.run("x = 6")
    kernel.start("import time; print('go', flush=True); time.sleep(0.2); x = 7")
    kernel.wait_output(b"go")
    assert kernel.sync().done == {"status": "ok", "count": 2}
    reply = kernel.run("x")
    assert (reply.text, reply.done["count"]) == ("7", 3)


# ---- env


def test_variables_of_a_call_are_there_for_that_call_alone(kernel):
    assert kernel.ready["env"] is True and kernel.sync_idle().takes_env is True
    kernel.env(TRACEPARENT="00-1", TRACESTATE="a=1,b=é 2")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == "00-1 a=1,b=é 2\n".encode()
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"none none\n"
    kernel.run("import os; os.environ['TRACEPARENT'] = 'mine'")
    kernel.env(TRACEPARENT="00-2")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"00-2 none\n"
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"mine none\n"
    kernel.env(TRACEPARENT="00-3")
    kernel.run("import os; os.environ['TRACEPARENT'] = 'mine'")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"mine none\n"


def test_variables_are_put_back_behind_a_call_that_failed(kernel):
    kernel.env(TRACEPARENT="00-1")
    kernel.run("1 / 0")
    assert kernel.run("import os; print(os.environ.get('TRACEPARENT', 'none'), os.environ.get('TRACESTATE', 'none'))").stdout == b"none none\n"


# ---- renewal and zygotes


def test_renew_gives_every_generator_a_new_state(kernel):
    code = "import random, tempfile, uuid\nrandom.seed(1)\nnext(tempfile._get_candidate_names())\nrandom.random()"
    first = kernel.run(code).text
    assert kernel.run(code).text == first
    kernel.run("random.seed(1)\nnames = tempfile._name_sequence")
    assert kernel.renew(bytes(32)).done == {"status": "ok", "count": 3}
    assert kernel.run("random.random()").text != first
    assert kernel.run("tempfile._name_sequence is names").text == "False"


@needs("numpy")
def test_renew_reseeds_numpy(kernel):
    first = kernel.run("import numpy\nnumpy.random.seed(1)\nnumpy.random.rand()").text
    kernel.run("numpy.random.seed(1)")
    kernel.renew(os.urandom(32))
    assert kernel.run("numpy.random.rand()").text != first


def test_warm_modules_are_loaded_before_the_first_call():
    with Kernel(ARGV, env={"CLOCHE_WARM": "decimal, colorsys,nosuchmodule"}) as kernel:
        reply = kernel.run("import sys, os\n'colorsys' in sys.modules and 'decimal' in sys.modules, 'CLOCHE_WARM' in os.environ")
        assert reply.text == "(True, False)"


def test_forks_of_one_zygote_serve_apart_and_draw_apart(tmp_path):
    zygote = tmp_path / "zygote.py"
    zygote.write_text(
        f"import os, sys\nsys.path.insert(0, {str(KERNELS / 'python')!r})\n"
        "from cloche_kernel import driver\nimport random\ndriver.prepare()\nrandom.seed(1)\n"
        "import ctypes\npid = ctypes.CDLL(None).fork()\n"
        "if pid == 0: driver.serve(3)\nos.close(3)\nsys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    drawn = []
    for _ in range(3):
        with Kernel([PYTHON, str(zygote)]) as kernel:
            kernel.renew(bytes(32))
            drawn.append(kernel.run("import random\nrandom.random()").text)
            assert kernel.run("dir()").text.count("'") == 14
            assert kernel.hang_up() == 0
    assert len(set(drawn)) == 3


def test_the_time_of_a_call_is_printed(kernel, capsys):
    times = {code: microseconds_per_call(kernel, code) for code in ("1+1", "x = 1", "pass")}
    with capsys.disabled():
        print("\n  python kernel, µs per call: " + ", ".join(f"{code!r} {t:.0f}" for code, t in times.items()))
