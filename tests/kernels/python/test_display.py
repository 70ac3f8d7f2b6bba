# SPDX-License-Identifier: Apache-2.0
"""Python: what a value shows itself as, and figures."""

import base64

from kernels.python.driver import needs

PNG = b"\x89PNG"


def png_of(bundle):
    return base64.b64decode(bundle["data"]["image/png"])


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
