# SPDX-License-Identifier: Apache-2.0
"""The page of one sandbox: each of its panels, that it shows what happens, and that a restart of the daemon costs nothing."""

import json

import pytest
from cloche import Client
from dashboard.conftest import take_pictures
from harness.daemon import Daemon, end, wait_for
from harness.running import running

PATIENCE_S = 60  # what is there at once on a quiet machine; later than that is never
PANELS = ["code", "output", "terminal", "files", "network", "ports", "usage", "snapshots", "events", "isolation"]
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"
LIBRARY_MS = 120_000  # its first import looks at all fonts
DRAWING = """class Curve:
    def _repr_svg_(self):
        line = '<polyline points="0,90 60,20 120,70 180,10 240,50" fill="none" stroke="teal" stroke-width="3"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="240" height="100">{line}</svg>'
Curve()"""


@pytest.fixture
def box(tab, sandbox):
    """A function that opens a panel of a fresh sandbox's page."""
    with tab(f"/sandboxes/{sandbox.id}") as page:

        def go(panel):
            page.click(f"#tab-{panel}")
            return page

        yield go


def run_code(page, code):
    """Types it, runs it by the keyboard, and gives the card of the run when it is over."""
    page.fill("textarea[aria-label=Code]", code)
    page.keyboard.press("Shift+Enter")
    card = page.locator(".run").first
    card.locator("[data-status]").wait_for(timeout=LIBRARY_MS)
    return card


def test_a_newcomer_comes_from_the_key_to_a_plot_of_typed_code(dashboard, daemon, sandbox):
    with dashboard.open(key="") as page:
        page.fill("#key", daemon.key)
        page.keyboard.press("Enter")
        page.click("nav a:has-text('Sandboxes')")
        page.click(f"a[href='/sandboxes/{sandbox.id}']")
        page.locator("textarea[aria-label=Code]").press_sequentially(PLOT)
        page.keyboard.press("Shift+Enter")
        image = page.locator(".result-image")
        image.wait_for(timeout=LIBRARY_MS)
        assert image.evaluate("i => i.decode().then(() => i.naturalWidth)") > 300


def test_code_keeps_its_state_and_shows_values_in_their_own_form(box):
    page = box("code")
    assert "hello" in run_code(page, "x = 6 * 7\nprint('hello')").locator(".screen").inner_text()
    assert run_code(page, "x").locator(".result-text").inner_text().strip() == "42"
    page.locator("textarea[aria-label=Code]").press("ArrowUp")
    page.locator("textarea[aria-label=Code]").press("ArrowUp")
    assert page.input_value("textarea[aria-label=Code]").startswith("x = 6")
    error = run_code(page, "def f():\n    return 1 / 0\nf()").locator(".result-error")
    assert "ZeroDivisionError: division by zero" in error.inner_text() and "in f" in error.inner_text()
    table = run_code(page, "import pandas\npandas.DataFrame({'n': [1, 2], 'w': ['<b>', 'c']})").locator(".result-grid")
    assert table.locator("td").all_inner_texts() == ["1", "<b>", "2", "c"]
    page.select_option("select[aria-label=Language]", "bash")
    assert "inside 3" in run_code(page, "echo inside $((1 + 2))").inner_text()
    page.select_option("select[aria-label=Language]", "javascript")
    assert run_code(page, "[1, 2].map((n) => n * n)").locator(".result-text").inner_text().split() == ["[", "1,", "4", "]"]


def test_a_context_of_its_own_has_variables_of_its_own(box, sandbox):
    page = box("code")
    run_code(page, "x = 1")
    page.select_option("select[aria-label=Context]", "+")
    page.fill("dialog input[name=name]", "second")
    page.keyboard.press("Enter")
    wait_for(lambda: page.input_value("select[aria-label=Context]") == "second", PATIENCE_S, "the new context is chosen")
    assert "NameError" in run_code(page, "x").inner_text()
    assert {c.name for c in sandbox.contexts.list()} >= {"python", "second"}


def test_output_is_live_and_its_end_has_code_and_cause(box, sandbox):
    page = box("output")
    page.wait_for_selector("text=No commands yet")
    running = sandbox.start("echo first; read line; echo got $line; exit 3", open_stdin=True)
    page.wait_for_selector(".exec-view .screen-line:has-text('first')")
    page.wait_for_selector(".exec-view [data-outcome=running]")
    running.write_stdin(b"word\n")
    page.wait_for_selector(".exec-view .screen-line:has-text('got word')")
    page.wait_for_selector(".exec-view .badge:has-text('exit 3')")
    page.click("button:has-text('Replay')")
    page.wait_for_selector("text=Played to its end")
    assert page.locator(".exec-view .screen-line").all_inner_texts() == ["first", "got word"]
    page.fill("input[aria-label=Command]", "printf '\\033[31mred\\033[0m plain'; kill -9 $$")
    page.keyboard.press("Enter")
    page.wait_for_selector(".exec-view .badge:has-text('signal 9')")
    assert page.locator(".exec-view .screen-line .fg-1").inner_text() == "red"


def terminal_text(page):
    return "\n".join(page.locator(".xterm-rows > div").all_inner_texts()).replace("\xa0", " ")


def test_a_terminal_takes_keys_and_is_found_again_after_a_reload(box, sandbox):
    page = box("terminal")
    page.wait_for_selector("[data-terminal=open]")
    page.locator(".xterm-helper-textarea").press_sequentially("x=marked; stty size\n")
    wait_for(lambda: "marked" in terminal_text(page), PATIENCE_S, "the echo of what was typed")
    rows, cols = page.locator(".code-bar .mono").inner_text().split("×")[::-1]
    wait_for(lambda: f"{rows} {cols}" in terminal_text(page), PATIENCE_S, "the size that the terminal has inside")
    page.set_viewport_size({"width": 900, "height": 700})
    wait_for(lambda: page.locator(".code-bar .mono").inner_text().split("×")[0] != cols, PATIENCE_S, "another size")
    page.locator(".xterm-helper-textarea").press_sequentially("clear; stty size\n")
    size = page.locator(".code-bar .mono")
    wait_for(lambda: " ".join(size.inner_text().split("×")[::-1]) in terminal_text(page), PATIENCE_S, "the new size inside")
    page.reload()
    page.wait_for_selector("[data-terminal=open]")
    paste = "const d = new DataTransfer(); d.setData('text/plain', 'echo again $x\\n'); e.dispatchEvent(new ClipboardEvent('paste', {clipboardData: d, bubbles: true}))"
    page.locator(".xterm-helper-textarea").evaluate(f"e => {{ {paste} }}")
    page.locator(".xterm-helper-textarea").press("Enter")
    wait_for(lambda: "again marked" in terminal_text(page), PATIENCE_S, "the shell of before")
    assert len([e for e in sandbox.execs() if e.info.raw["has_pty"]]) == 1


def test_files_are_listed_edited_moved_and_sent_both_ways(box, sandbox, tmp_path):
    page = box("files")
    page.watch.allow("409")  # a write that is refused
    sandbox.run("printf one > a.txt; mkdir -p deep/below")
    row = page.locator("tr[data-key='a.txt']")
    row.wait_for()  # told by the watch
    row.locator(".file-name").click()
    area = page.locator("textarea[aria-label=Content]")
    assert area.input_value() == "one"
    area.fill("two")
    page.keyboard.press("Control+s")
    page.wait_for_selector("text=Saved a.txt")
    assert sandbox.files.read("a.txt") == b"two"
    sandbox.files.write("a.txt", b"theirs, and longer")
    area.fill("three")
    page.keyboard.press("Control+s")
    page.wait_for_selector("text=The file was changed in the sandbox")
    assert sandbox.files.read("a.txt") == b"theirs, and longer"
    page.click("button:has-text('Overwrite')")
    page.wait_for_selector("dialog [role=status]:has-text('Saved')")
    assert sandbox.files.read("a.txt") == b"three"
    page.click("dialog button:has-text('Close')")
    page.click("[aria-label='Rename a.txt']")
    page.fill("dialog input[name=name]", "b.txt")
    page.keyboard.press("Enter")
    page.locator("tr[data-key='b.txt']").wait_for()
    with page.expect_download() as got:
        page.click("[aria-label='Download b.txt']")
    assert got.value.path().read_bytes() == b"three"
    big = bytes(range(256)) * 4096
    (tmp_path / "big.bin").write_bytes(big)
    page.set_input_files("input[type=file]", tmp_path / "big.bin")
    page.wait_for_selector("text=Uploaded big.bin")
    page.locator("tr[data-key='big.bin']").wait_for()
    assert sandbox.files.read("big.bin") == big
    drop = "d => { const t = new DataTransfer(); t.items.add(new File(['dropped'], 'c.txt')); d.dispatchEvent(new DragEvent('drop', {dataTransfer: t, bubbles: true})) }"
    page.locator("[data-drop]").evaluate(drop)
    page.wait_for_selector("text=Uploaded c.txt")
    page.locator("tr[data-key='c.txt']").wait_for()
    assert sandbox.files.read("c.txt") == b"dropped"
    page.click("[aria-label='Delete c.txt']")
    page.click("dialog button.danger")
    page.locator("tr[data-key='c.txt']").wait_for(state="detached")
    page.click("tr[data-key=deep] .file-name")
    page.locator("tr[data-key=below]").wait_for()


def test_a_host_that_was_denied_is_allowed_by_a_click(tab, make_sandbox):
    sandbox = make_sandbox(network={"allow": ["example.com"]})
    with tab(f"/sandboxes/{sandbox.id}#network") as page:
        page.wait_for_selector("text=No decisions yet")
        sandbox.run("getent hosts denied.example.org")
        page.click("[aria-label='Allow denied.example.org']")
        page.wait_for_selector("text=denied.example.org is allowed")
        assert sandbox.explain_network("https://denied.example.org/")["allowed"] is True
        assert "denied.example.org" in page.locator(".policy").inner_text()
        sandbox.set_network("allow-all")  # by somebody else
        page.wait_for_selector("[data-field=policy]:has-text('allow-all')")
        page.click("button:has-text('Deny all')")
        page.click("dialog button.danger")
        page.wait_for_selector("[data-field=policy]:has-text('deny-all')")
        assert sandbox.network()["kind"] == "deny-all"


def test_a_server_inside_is_seen_by_a_preview_link(box, sandbox):
    sandbox.files.write("index.html", b"<h1>from inside</h1>")
    sandbox.start(["python3", "-m", "http.server", "8123"])
    wait_for(lambda: sandbox.run("ss -ltn 2>/dev/null | grep -q 8123 || grep -q :1FBB /proc/net/tcp").exit_code == 0, PATIENCE_S, "the server")
    page = box("ports")
    page.wait_for_selector("text=No port is open")
    sandbox.expose(9000)  # by somebody else
    page.wait_for_selector("[aria-label='Close port 9000']")
    sandbox.close_port(9000)
    page.wait_for_selector("text=No port is open")
    page.click("button:has-text('Look again')")
    page.click("[aria-label='Open port 8123']")
    with page.context.expect_page() as opened:
        page.click(".port-link")
    opened.value.wait_for_selector("h1:has-text('from inside')")
    opened.value.close()
    page.click("[aria-label='Close port 8123']")
    page.click("dialog button.danger")
    page.wait_for_selector("text=No port is open")
    assert sandbox.ports() == []


def test_snapshots_and_forks_are_made_and_drawn(box, sandbox, client):
    sandbox.files.write("kept.txt", b"before")
    page = box("snapshots")
    page.click("button:has-text('Take a snapshot')")
    page.fill("dialog input[name=name]", f"s-{sandbox.id[-6:]}")
    page.click("dialog button[type=submit]")
    row = page.locator("table[aria-label=Snapshots] tbody tr")
    row.wait_for()
    sandbox.files.write("kept.txt", b"after")
    row.locator("button:has-text('Roll back')").click()
    page.click("dialog button.danger")
    page.locator("dialog").wait_for(state="detached")
    assert sandbox.files.read("kept.txt") == b"before"
    (fork,) = sandbox.fork(1, memory=False)
    try:
        page.locator(f".tree-node[data-id='{fork.id}']").wait_for()
        page.locator(f".tree-node[data-id='{fork.id}']").press("Enter")
        page.wait_for_url(f"**/sandboxes/{fork.id}*")
    finally:
        end(fork)
        for snapshot in client.snapshots(sandbox=sandbox.id):
            client.delete_snapshot(snapshot["id"])


def test_use_events_and_walls_are_told(box, sandbox):
    page = box("usage")
    wait_for(lambda: "B" in page.locator("[data-tile=Memory] .value").inner_text(), PATIENCE_S, "the memory in use")
    assert page.locator(".uplot:not(.history .uplot)").count() == 4  # those of the past come with the first reading
    page.click("#tab-events")
    page.wait_for_selector("[data-type='sandbox.running']")
    page.click("#tab-isolation")
    walls = page.locator(".walls.is-wall [data-wall]").evaluate_all("all => all.map((w) => w.dataset.wall)")
    assert sorted(walls) == sorted(sandbox.info.isolation["walls"])
    assert page.locator(".walls.is-gap li").count() == len(sandbox.info.isolation["gaps"])


def test_results_are_told_and_downloaded_when_it_has_ended(tab, make_sandbox, client, tmp_path):
    sandbox = make_sandbox(results=["score.json", "missing"])
    sandbox.files.write("score.json", b'{"reward": 1}')
    with tab(f"/sandboxes/{sandbox.id}#results") as page:
        page.wait_for_selector("text=kept when the sandbox ends")
        page.watch.allow("409", "410", "404")
        sandbox.delete()
        with page.expect_download() as download:
            page.locator("button[aria-label='Download score.json']").click()
        download.value.save_as(tmp_path / "score")
        assert (tmp_path / "score").read_text() == '{"reward": 1}'
        assert "not kept" in page.locator("tr[data-key=missing]").inner_text()
    client.get(sandbox.id).delete()


def test_a_sandbox_is_paused_resumed_and_deleted_from_its_head(tab, make_sandbox):
    sandbox = make_sandbox(name="for-the-head", tags={"team": "blue"})
    with tab(f"/sandboxes/{sandbox.name}#files") as page:
        assert page.locator("[data-field=name]").inner_text() == "for-the-head"
        assert "team: blue" in page.locator(".box-tags").inner_text()
        page.locator("tr[data-key]").first.wait_for()
        page.watch.allow("409", "410", "404")  # the folder's watch ends with the sandbox, and is asked for before the page knows why
        sandbox.pause(to="memory")
        page.wait_for_selector("[data-state=paused]")  # told by the event
        page.wait_for_selector(".panel >> text=The sandbox is paused")
        page.click(".box-actions button:has-text('Resume')")
        page.wait_for_selector(".box-head [data-state=running]")
        page.locator("tr[data-key]").first.wait_for()
        page.click("button:has-text('Delete') >> nth=0")
        page.click("dialog button:has-text('Cancel')")
        page.click(".box-actions button:has-text('Delete')")
        page.click("dialog button.danger")
        page.wait_for_url("**/sandboxes")
    assert sandbox.refresh().state == "stopped"


KEEP_STATES = """() => {
  const screen = document.querySelector("[data-terminal]");
  window.states = [];
  new MutationObserver(() => window.states.push(screen.dataset.terminal)).observe(screen, {attributes: true});
}"""


def test_the_page_lives_through_a_restart_of_the_daemon(dashboard, browser):
    with running(Daemon()) as own, Client(own.url, own.key) as client:
        sandbox = client.create()
        with type(dashboard)(browser, own).open(f"/sandboxes/{sandbox.id}#terminal") as page:
            page.watch.allow("Failed to load", "WebSocket", "ERR_", "503")
            page.wait_for_selector("[data-terminal=open]")
            page.evaluate(KEEP_STATES)
            page.locator(".xterm-helper-textarea").press_sequentially("x=stays\n")
            wait_for(lambda: "stays" in terminal_text(page), PATIENCE_S, "the echo")
            own.kill_parts("gateway")
            wait_for(lambda: page.evaluate("states.includes('lost') && states.at(-1) === 'open'"), PATIENCE_S, "the line to be made again")
            page.locator(".xterm-helper-textarea").press_sequentially("echo it $x\n")
            wait_for(lambda: "it stays" in terminal_text(page), PATIENCE_S, "the same shell")
            page.click("#tab-events")
            page.wait_for_selector("[data-type='sandbox.adopted']")
            sandbox.run(["true"])
            page.wait_for_selector("[data-type='exec.exited']")


def test_a_read_key_looks_and_changes_nothing(dashboard, project_keys, sandbox):
    sandbox.run("echo seen")
    with dashboard.open(f"/sandboxes/{sandbox.id}", key=project_keys["read"]) as page:
        page.wait_for_selector("text=This key can only read")
        assert page.locator(".box-actions button").count() == 0
        page.click("#tab-output")
        page.wait_for_selector(".screen-line:has-text('seen')")
        page.click("#tab-files")
        page.locator("tr[data-key]").first.wait_for()
        assert page.locator("button:has-text('Upload')").count() == 0


def test_what_is_not_there_is_said(tab):
    with tab("/sandboxes/nobody") as page:
        page.watch.allow("404")
        page.wait_for_selector(".failure:has-text('nobody')")


@pytest.fixture
def lived_in(client):
    """A sandbox with something in every panel."""
    sandbox = client.create(name="analysis", tags={"team": "research"}, network={"allow": ["example.com"]}, ports=[8000])
    sandbox.run("echo building; seq 1 5; echo careful >&2; exit 1")
    sandbox.run("ls --color=always /")
    sandbox.run("getent hosts pypi.example.org")
    sandbox.files.write("notes.md", b"# Notes\n")
    sandbox.snapshot(name="baseline")
    forks = sandbox.fork(2, memory=False)
    yield sandbox
    for one in [*forks, sandbox]:
        end(one)
    for left in list(client.snapshots(sandbox=sandbox.id)):
        client.delete_snapshot(left["id"])


def settle(page, panel):
    page.wait_for_selector(f"[data-panel={panel}]")
    page.locator(".panel [aria-busy=true]").first.wait_for(state="detached")
    if panel == "terminal":
        page.wait_for_selector("[data-terminal=open]")


def test_every_panel_is_whole_in_both_themes_and_on_a_phone(tab, lived_in):
    with tab(f"/sandboxes/{lived_in.id}") as page:
        run_code(page, DRAWING)
        page.locator("#tab-code").focus()
        for panel in PANELS:
            settle(page, panel)
            assert page.evaluate("document.activeElement.id") == f"tab-{panel}"
            if panel != "usage":
                take_pictures(page, f"sandbox-{panel}")
            page.keyboard.press("ArrowRight")
        assert page.evaluate("location.hash") == "#code"
        page.click("#tab-usage")  # last: it has been measured meanwhile
        settle(page, "usage")
        take_pictures(page, "sandbox-usage")


LACKING = """import os
if "HAS_IT" not in os.environ:
    raise ModuleNotFoundError("No module named 'matplotlib'")
print("it is drawn")"""


@pytest.fixture
def creates(box, client):
    """The creates that the page asks for; each makes a sandbox of the host's programs in which LACKING is at home."""
    asked, made = [], []

    def make(route):
        if route.request.method != "POST":
            return route.continue_()
        asked.append(route.request.post_data_json)
        reply = route.fetch(post_data=json.dumps({"template": "host", "env": {"HAS_IT": "1"}}))
        made.append(reply.json()["id"])
        return route.fulfill(response=reply)

    box("code").route("**/v1/sandboxes", make)
    yield asked
    for one in made:
        end(client.get(one))


def test_a_missing_module_leads_to_a_sandbox_of_a_template_that_has_it(box, creates):
    page = box("code")
    build = {"id": "bld_1", "name": "python-datasci", "state": "running", "progress": {"fraction": 0.42, "left_ms": 95_000}}
    templates = []
    page.route("**/v1/builds", lambda route: route.fulfill(json={"builds": [build]}))
    page.route("**/v1/templates", lambda route: route.fulfill(json={"templates": templates}))
    card = run_code(page, LACKING)
    card.locator("text=python-datasci has it, and is being built: 42 %, about 1 min 35 s left.").wait_for()
    take_pictures(page, "sandbox-missing")
    build["progress"]["fraction"] = 0.5
    card.locator("text=is being built: 50 %").wait_for()  # with the next figures
    assert creates == [] and card.locator(".missing button").count() == 0
    templates.append({"name": "python-datasci"})
    build["state"] = "ready"
    card.locator("text=Run this in a new sandbox of it").click()
    page.wait_for_selector(".run .screen-line:has-text('it is drawn')")
    assert creates == [{"template": "python-datasci"}]


def test_a_missing_module_of_no_template_is_had_from_pip(box, creates):
    page = box("code")
    card = run_code(page, LACKING.replace("matplotlib", "yaml.nodes"))
    card.locator("text=Run this in a new one with pip's pyyaml").click()
    page.wait_for_selector(".run .screen-line:has-text('it is drawn')")
    assert creates == [{"template": "host", "packages": ["pip:pyyaml"]}]
    assert run_code(page, 'raise ModuleNotFoundError("No module named \'a b\'")').locator(".missing").count() == 0
