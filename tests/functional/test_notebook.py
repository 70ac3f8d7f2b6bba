# SPDX-License-Identifier: Apache-2.0
"""A notebook's worth of cells behaves as in Jupyter: the same cells are run in a sandbox and in a real kernel (ipykernel), and what
they print, show and fail with is compared. pandas and its kin are Debian's, which both see."""

import base64
import json
import os
import re
import struct
import subprocess

import pytest
from harness.daemon import IS_SANITIZED, ROOT

PYTHON = "/usr/bin/python3"
JUPYTER = ROOT / "tests" / "harness" / "jupyter.py"
NEEDED = "numpy", "pandas", "matplotlib", "PIL", "ipykernel", "jupyter_client"

# In the order of a notebook: later cells use what earlier ones made.
CELLS = {
    "imports": "import numpy as np, pandas as pd\nimport matplotlib.pyplot as plt\nprint('ready')",
    "a frame": "df = pd.DataFrame({'city': ['Oslo', 'Rome', 'Oslo'], 'sold': [3, 4, 5]})\ndf",
    "a series": "df.groupby('city').sold.sum()",
    "statistics": "df.describe()",
    "an array": "np.arange(12).reshape(3, 4)",
    "a figure without savefig": "plt.plot([1, 2, 3]);",
    "figures that are shown by the code": "plt.hist([1, 2, 2]); plt.show()\nprint('between')\nplt.bar(['a', 'b'], [1, 2]); plt.show()",
    "a plot of pandas": "df.sold.plot(title='sold');",
    "an image": "from PIL import Image\nImage.new('RGB', (20, 10), 'red')",
    "await": "import asyncio\nasync def later(x):\n    await asyncio.sleep(0)\n    return x * 2\nawait later(21)",
    "await in a comprehension": "[await later(i) for i in range(3)]",
    "gather": "await asyncio.gather(*(later(i) for i in range(3)))",
    "async for": "async def count():\n    for i in range(3): yield await later(i)\nasync for i in count(): print(i)",
    "a task of an earlier cell": "task = asyncio.ensure_future(later(4))",
    "its end": "await task",
    "a child's output": "import subprocess\nsubprocess.run(['echo', 'caught'], capture_output=True, text=True).stdout",
    "both streams": "import sys\nprint('fine')\nprint('oops', file=sys.stderr)",
    "no newline at the end": "print('x', end='')",
    "text": "'a\\nb'",
    "nothing": "None",
    "a semicolon hides": "1 + 1;",
    "the last value": "40 + 2",
    "is an underscore": "_ + 1",
    "an error": "def f(x):\n    return 1 / x\nprint('before')\nf(0)",
    "the state after it": "f(2)",
    "an error of pandas": "df['nope']",
    "an error with a cause": "try:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e",
    "an error in a task": "await asyncio.gather(later(1), later(None))",
    "an error of one's own": "class Broken(Exception): pass\nraise Broken('by', 2)",
    "display": "display(1)\ndisplay(df)\n'last'",
    "many forms": "class R:\n    def _repr_html_(self): return '<b>r</b>'\n    def _repr_markdown_(self): return '**r**'\n"
    "    def _repr_latex_(self): return '$r$'\n    def __repr__(self): return 'R!'\nR()",
    "a bundle": "class B:\n    def _repr_mimebundle_(self, **kw): return {'text/plain': 'b', 'application/json': {'b': 1}}\nB()",
    "a thread": "import threading\nt = threading.Thread(target=lambda: print('in a thread'))\nt.start(); t.join()",
    "source": "import inspect\nprint(inspect.getsource(f))",
    "pickle": "import dataclasses, pickle\n@dataclasses.dataclass\nclass P:\n    a: int\npickle.loads(pickle.dumps(P(1)))",
    "the main module": "__name__",
}


def has_packages():
    code = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(n) for n in {NEEDED!r}))"
    return os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", code]).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_SANITIZED, reason="nothing of this is C"),
    pytest.mark.skipif(not has_packages(), reason=f"the host's Python lacks one of {', '.join(NEEDED)}"),
]


@pytest.fixture(scope="module", params=os.environ.get("CLOCHE_TEST_ENGINES", "jail").split(","))
def notebook(request, client):
    """{cell: (what the sandbox gave, what Jupyter gave)}, the former as the SDK has it."""
    jupyter = subprocess.Popen([PYTHON, JUPYTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        json.dump(list(CELLS.values()), jupyter.stdin)
        jupyter.stdin.close()
        with client.create(engine=request.param) as sandbox:
            ours = [sandbox.run_code(code, timeout=60) for code in CELLS.values()]
        theirs = json.load(jupyter.stdout)
    finally:
        jupyter.kill()
        jupyter.stdout.close()
        jupyter.wait()
    return dict(zip(CELLS, zip(ours, theirs)))


def plain(mime, value):
    """A form of a result without what differs from process to process: pictures by their size, no addresses."""
    if mime == "image/png":
        return struct.unpack(">II", base64.b64decode(value)[16:24])
    return re.sub(r"( object)? at 0x[0-9A-Fa-f]+", "", value) if isinstance(value, str) else value


def forms(data):
    """Without those that are ours alone: a chart's and a frame's figures, for programs."""
    return {mime: plain(mime, value) for mime, value in data.items() if not mime.startswith("application/vnd.cloche.")}


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_gives_what_jupyter_gives(notebook, cell):
    ours, theirs = notebook[cell]
    assert (ours.stdout, ours.printed_stderr) == (theirs["stdout"], theirs["stderr"])
    assert [forms(r.data) for r in ours.results] == [forms(data) for data in theirs["results"]]
    error = ours.error and {"name": ours.error.name, "message": ours.error.message}
    assert error == (theirs["error"] and {k: theirs["error"][k] for k in ("name", "message")})


def test_an_error_shows_the_lines_of_the_cells_and_no_others(notebook):
    ours, theirs = notebook["an error"]
    for line in ("return 1 / x", "f(0)"):
        assert line in str(ours.error) and line in re.sub("\x1b\\[[0-9;]*m", "", theirs["error"]["traceback"])
    assert "/opt/cloche" not in str(ours.error)
    outer = str(notebook["an error with a cause"][0].error)
    assert "ZeroDivisionError" in outer and "ValueError: outer" in outer


# Where we differ, and why.


def test_what_a_child_prints_is_in_its_own_cell_and_not_in_a_later_one(sandbox):
    code = "import subprocess\nsubprocess.run(['sh', '-c', 'echo from a child; echo oops >&2']).returncode"
    r = sandbox.run_code(code)
    assert (r.stdout, r.stderr, r.text) == ("from a child\n", "oops\n", "0")


@pytest.mark.jail("the suite's template for vms has no matplotlib")
def test_a_figure_that_is_the_value_is_shown_once_and_not_twice(sandbox):
    r = sandbox.run_code("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig", timeout=60)
    assert [set(forms(x.data)) for x in r.results] == [{"text/plain", "image/png"}]


def test_lines_of_notebooks_work_without_ipython(sandbox):
    r = sandbox.run_code("%matplotlib inline\n%cd /tmp\nlines = !echo a; echo b\n!echo $HOME\nlines")
    assert (r.status, r.stdout, r.text) == ("ok", "/tmp\n/home/user\n", "['a', 'b']")
    r = sandbox.run_code("%%bash\nfor i in 1 2; do echo $i; done")
    assert (r.status, r.stdout) == ("ok", "1\n2\n")
    r = sandbox.run_code("%magic")
    assert (r.status, r.error.name) == ("error", "NameError") and "%timeit" in r.error.message
    assert sandbox.run_code("1").text == "1"


def test_a_wrong_line_is_told_by_the_cells_own_name(sandbox):
    r = sandbox.run_code("x = 1\ny = = 2")
    assert (r.error.name, r.error.message) == ("SyntaxError", "invalid syntax")
    assert "y = = 2" in str(r.error) and "line 2" in str(r.error)
