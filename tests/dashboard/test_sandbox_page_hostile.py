# SPDX-License-Identifier: Apache-2.0
"""What a sandbox can do to who looks at it: nothing. Every text that it controls is tried as markup, in every panel; a page of
the tests' own, which does take it for markup, shows that the texts would work."""

import pytest
from harness.daemon import end, wait_for

MARK = "window.top.pwned"
SCRIPT = f"<script>{MARK}=1</script>"
IMAGE = f"<img src=x onerror={MARK}=1>"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{MARK}=1"><script>{MARK}=1</script><circle r="9" cx="10" cy="10"/></svg>'
BREAKS = ['"><', "</pre>", "</title>", "</textarea>", "'--></script>", ""]
OUTSIDE, CONTROL = "http://outside.example/", "http://control.example/"
# What asks somebody by being shown, most of it by a request, some by the connection that a browser makes ahead of one.
LOADS = f"""<link rel=preconnect href={OUTSIDE}><link rel=dns-prefetch href={OUTSIDE}><link rel=stylesheet href={OUTSIDE}css><meta http-equiv=refresh content='0;url={OUTSIDE}'>
<img src={OUTSIDE}img><img srcset={OUTSIDE}srcset><iframe src={OUTSIDE}iframe></iframe><object data={OUTSIDE}object></object><embed src={OUTSIDE}embed><video poster={OUTSIDE}poster></video>
<svg><image href={OUTSIDE}image /><a href={OUTSIDE}><text>x</text></a><path mask='url({OUTSIDE}mask)' fill='url({OUTSIDE}fill#f)'/></svg><table background={OUTSIDE}background></table>
<style>@import url({OUTSIDE}import);</style><div style='background: url({OUTSIDE}style)'>x</div><svg><style>&lt;img src={OUTSIDE}escaped></style></svg><noscript><img src={OUTSIDE}noscript></noscript>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src={OUTSIDE}mutated&gt;"></table></mtext></math>"""
LOADED = {b"/css", b"/img", b"/srcset", b"/iframe", b"/object", b"/embed", b"/poster", b"/image", b"/background", b"/import", b"/style"}
LEADS = f"<form action={OUTSIDE}><button id=send>send</button></form><a id=up target=_top href={OUTSIDE}>up</a><a id=on href={OUTSIDE} ping={OUTSIDE}>on</a>"
PATIENCE_S = 60  # what is there at once on a quiet machine; later than that is never


def payload(i=0):
    return f"{BREAKS[i % len(BREAKS)]}{IMAGE}{SCRIPT}"


def untouched(page):
    """No script of the sandbox's ran, and nothing of it became an element."""
    assert page.evaluate("[window.pwned, document.querySelectorAll('main script, main img[src=x], main [onerror], main [onload]').length]") == [None, 0]


def test_A20_the_texts_of_these_tests_run_where_they_are_taken_for_markup(browser):
    with browser.new_context() as context:
        page = context.new_page()
        for text in [payload(i) for i in range(len(BREAKS))] + [SVG]:
            page.goto("about:blank")
            page.set_content(f"<title>{text}</title><body><div title=\"{text}\">{text}</div>")
            page.wait_for_function("window.pwned")


@pytest.fixture
def hostile(client):
    """A sandbox that says markup wherever it says anything."""
    sandbox = client.create(tags={"label": payload(1)}, network={"allow": ["example.com"]})
    sandbox.run(["sh", "-c", 'printf "%s\\n\\033]0;%s\\007\\033]8;;javascript:%s\\007link\\033]8;;\\007\\033[31m%s\\033[0m\\n" "$1" "$1" "$1" "$1"; printf %s "$1" >&2', payload(2), payload(2)])
    sandbox.run(["python3", "-c", f"open({IMAGE!r}, 'w').write('#!/bin/sh'); import os; os.symlink({payload(4)[:200]!r}, 'link'); open('right\\u202etxt.exe', 'w')"])
    sandbox.files.write("page.html", payload(0).encode())
    sandbox.files.write("drawing.svg", SVG.encode())
    sandbox.files.chmod(IMAGE, 0o755)
    sandbox.run([f"./{IMAGE}", payload(5)])
    sandbox.run(["getent", "hosts", "xn--a.b-script-alert.example"])
    yield sandbox
    end(sandbox)


def test_A20_E49_no_text_of_a_sandbox_becomes_markup_in_any_panel(tab, hostile):
    with tab(f"/sandboxes/{hostile.id}") as page:
        page.on("dialog", lambda d: pytest.fail(f"a dialog: {d.message}"))
        assert IMAGE in page.locator(".box-tags").inner_text()
        page.click("#tab-output")
        for item in page.locator(".exec-item").all():
            item.click()
            page.wait_for_selector(".exec-view .badge[data-outcome=over]")
            untouched(page)
        page.locator(".exec-item:has-text('printf')").click()
        page.wait_for_selector(f".exec-view .screen-line:has-text('{MARK}')")
        assert "javascript:" not in page.locator(".exec-view .screen").inner_text()  # a link's address is no text
        assert page.locator(".exec-view .screen a").count() == 0
        page.click("#tab-files")
        page.locator("tr[data-key='page.html']").wait_for()
        names = page.locator(".file-name").all_inner_texts()
        assert IMAGE in names and "right\\u202etxt.exe" in names
        untouched(page)
        for name in ("page.html", "drawing.svg"):
            page.click(f"tr[data-key='{name}'] .file-name")
            page.wait_for_selector("textarea[aria-label=Content]")
            assert page.input_value("textarea[aria-label=Content]") == (payload(0) if name == "page.html" else SVG)
            page.click("dialog button:has-text('Close')")
        for panel in ("network", "ports", "usage", "snapshots", "events", "isolation"):
            page.click(f"#tab-{panel}")
            page.locator(".panel [aria-busy=true]").first.wait_for(state="detached")
            untouched(page)
        page.click("#tab-events")
        page.wait_for_selector(f"[data-type='exec.started']:has-text('{MARK}')")
        untouched(page)
        assert "<" not in page.title()


# A value with a form of each kind: H(text__html="…") has text/html.
MAKE = """class H:
    def __init__(self, **forms): self.forms = forms
    def _repr_mimebundle_(self, **_): return {m.replace('__', '/').replace('_p_', '+'): v for m, v in self.forms.items()}
"""


def results_of(page, code):
    page.fill("textarea[aria-label=Code]", code)
    page.keyboard.press("Shift+Enter")
    card = page.locator(".run").first
    card.locator("[data-status]").wait_for()
    return card


ADDRESSES = "h => [...h.querySelectorAll('*')].flatMap((e) => [...e.attributes]).filter((a) => a.value.includes('outside')).map((a) => a.name)"


def test_A20_the_loads_of_these_tests_reach_whom_they_name_where_nothing_holds_them(browser, outside):
    host = outside["control.example"]
    with browser.new_context() as context:
        page = context.new_page()
        page.set_content(LOADS.replace("http-equiv", "name").replace(OUTSIDE, CONTROL))
        wait_for(lambda: host.asked >= LOADED, PATIENCE_S, "all that is loaded")
        page.set_content(LEADS.replace(OUTSIDE, f"{CONTROL}on"))
        page.click("#on")
        wait_for(lambda: b"/on" in host.asked, PATIENCE_S, "what is led to")


def check_nobody_was_asked(page, outside):
    """Whatever the page has begun by now was begun before this, which arrives."""
    other = page.context.new_page()
    try:
        other.goto(f"{CONTROL}last")
    finally:
        other.close()
    assert b"/last" in outside["control.example"].asked
    assert (outside["outside.example"].asked, outside["outside.example"].connections) == (set(), 0)
    assert not [f for f in page.watch.found if f.startswith("asks")]


def test_A20_results_of_code_run_nothing_and_ask_nobody(tab, dashboard, make_sandbox, outside):
    sandbox = make_sandbox()
    shows = "<h1>shown</h1><table border=1><tr><td colspan=2>cell</table><img id=dot src='data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw=='>"
    draws = "<svg><linearGradient id=g><stop stop-color=red /></linearGradient><circle id=disc r=5 fill='url(#g)' /></svg>"
    html = f"{payload()}{LOADS}{LEADS}{shows}{draws}"
    with tab(f"/sandboxes/{sandbox.id}") as page:
        # What the browser says of the document that is never shown, and of the form that it does not send.
        page.watch.allow("inline event handler", "inline style", "sandboxed")
        results_of(page, MAKE)
        card = results_of(page, f"H(text__html={html!r}, text__plain='t')")
        frame = card.locator(".result-frame")
        inside = card.frame_locator(".result-frame")
        assert inside.locator("h1").inner_text() == "shown"
        assert inside.locator("td[colspan]").inner_text() == "cell"
        assert inside.locator("#dot").evaluate("i => i.naturalWidth") == 1
        assert inside.locator("#disc").get_attribute("fill") == "url(#g)"
        assert frame.get_attribute("sandbox") == ""
        assert inside.locator("html").evaluate(ADDRESSES) == ["title"]  # which is text
        for id in ("#send", "#up", "#on"):
            inside.locator(id).click()
        untouched(page)
        assert frame.evaluate("f => f.contentDocument") is None
        check_nobody_was_asked(page, outside)
        card = results_of(page, f"H(image__svg_p_xml={SVG!r}, text__plain='t')")
        assert card.locator("img.result-image").evaluate("i => i.decode().then(() => i.naturalWidth)") > 0
        untouched(page)
        for mime in ("application__javascript", "text__markdown", "text__latex", "application__json", "image__png"):
            results_of(page, f"H(**{{{mime!r}: {payload(2)!r}}}, text__plain={payload(3)!r})")
            untouched(page)
        card = results_of(page, f"raise type({payload(0)!r}, (Exception,), {{}})({payload(1)!r})")
        assert MARK in card.locator(".result-error").inner_text()
        card = results_of(page, f"import pandas\npandas.DataFrame({{{payload(0)!r}: [{payload(1)!r}]}})")
        assert card.locator(".result-grid td").inner_text() == payload(1)
        untouched(page)
        check_nobody_was_asked(page, outside)
        assert page.url.startswith(dashboard.daemon.url)


def test_E49_a_terminal_takes_no_title_link_or_clipboard_from_a_sandbox(dashboard, sandbox):
    codes = {
        "a title": "\\033]0;pwned title\\007\\033]2;pwned title\\007",
        "the clipboard": "\\033]52;c;cHduZWQ=\\007",
        "a link": f"\\033]8;;{OUTSIDE}\\033\\\\HERE\\033]8;;\\033\\\\",
        "markup": payload(0).replace("%", "%%"),
        "a true colour": "\\033[38;2;255;0;0mRED\\033[0m",
    }
    sandbox.files.write("codes.sh", "".join(f"printf '{c}\\n'\n" for c in codes.values()).encode())
    with dashboard.open(f"/sandboxes/{sandbox.id}#terminal") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.on("dialog", lambda d: pytest.fail(f"a dialog: {d.message}"))
        page.context.on("page", lambda p: pytest.fail(f"a window: {p.url}"))
        page.wait_for_selector("[data-terminal=open]")
        page.evaluate("navigator.clipboard.writeText('mine')")
        title = page.title()
        page.locator(".xterm-helper-textarea").press_sequentially("sh codes.sh; echo d''one\n")
        rows = page.locator(".xterm-rows > div")
        wait_for(lambda: "done" in rows.all_inner_texts(), PATIENCE_S, "the end of the codes")
        red = page.locator(".xterm-rows span:has-text('RED')").last  # the control: what it may do is done
        assert red.evaluate("s => getComputedStyle(s).color") == "rgb(255, 0, 0)"
        link = page.locator(".xterm-rows span:has-text('HERE')").last.bounding_box()
        page.mouse.move(link["x"] + 4, link["y"] + 4)
        page.mouse.click(link["x"] + 5, link["y"] + 5)
        untouched(page)
        assert page.title() == title
        assert page.evaluate("navigator.clipboard.readText()") == "mine"


def test_A12_a_page_of_another_origin_gets_no_terminal_by_the_cookie(dashboard, sandbox):
    """A WebSocket is sent with cookies whoever opens it: only its Origin tells."""
    shell = sandbox.start(["cat"], pty=True, open_stdin=True)
    url = f"{dashboard.daemon.url.replace('http', 'ws')}/v1/sandboxes/{sandbox.id}/execs/{shell.id}/attach"
    ask = """url => new Promise((done) => { const s = new WebSocket(url); s.onopen = () => done("open"); s.onclose = () => done("closed"); })"""
    with dashboard.open(f"/sandboxes/{sandbox.id}") as page:
        assert page.evaluate(ask, url) == "open"  # the control
        other = page.context.new_page()
        other.route("http://localhost:1/*", lambda route: route.fulfill(body="<h1>another site</h1>", content_type="text/html"))
        other.goto("http://localhost:1/")
        assert other.evaluate(ask, url) == "closed"
        assert other.evaluate("location.origin") == "http://localhost:1"
