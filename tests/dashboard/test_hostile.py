# SPDX-License-Identifier: Apache-2.0
"""What sandboxes and strangers say is shown as text, on every page (A20, E49): no script of theirs runs, and no markup is made."""

import json
import uuid

from harness.daemon import end

PAYLOAD = "\"'><img src=x onerror=window.pwned=1><script>window.pwned=1</script><svg onload=window.pwned=1>\u202e\x1b[31m"
SHORT = "<img src=x onerror=window.pwned=1>"
PAGES = ["/", "/sandboxes", "/templates", "/usage", "/keys", "/secrets", "/events", "/audit", "/host", "/settings"]
# Foreign markup: what the dashboard itself never makes in a page.
FOREIGN = "main img, main script, main iframe, main [onerror], main [onload], dialog img, dialog script"


def is_clean(page):
    return page.evaluate("window.pwned") is None and page.locator(FOREIGN).count() == 0


def test_A20_the_payload_works_where_nothing_holds_it(browser):
    context = browser.new_context()
    page = context.new_page()
    page.set_content(f"<p>{PAYLOAD}</p>")
    page.wait_for_selector("img", state="attached")
    assert page.evaluate("new Promise((done) => setTimeout(() => done(window.pwned), 0))") == 1
    context.close()


def hostile(value):
    """Every text of an answer with the payload behind it, but for what the next question is asked with."""
    if isinstance(value, dict):
        return {key: v if key in ("project_id", "next_cursor") else hostile(v) for key, v in value.items()}
    if isinstance(value, list):
        return [hostile(v) for v in value]
    return value + PAYLOAD if isinstance(value, str) else value


def poison(route):
    """Answers with each of its texts made hostile. What streams for ever is left alone."""
    if "follow=1" in route.request.url or "/v1/login" in route.request.url:
        route.continue_()
        return
    reply = route.fetch()
    try:
        lines = [json.dumps(hostile(json.loads(line))) for line in reply.text().splitlines() if line.strip()]
    except ValueError:
        route.fulfill(response=reply)
        return
    route.fulfill(response=reply, body="\n".join(lines))


def test_A20_no_text_of_any_answer_becomes_markup(tab, client, lively):
    client.set_secret("HOSTILE", "any")
    with tab("/login") as page:
        page.watch.allow("400", "404")  # addresses that are made of it lead nowhere
        page.route("**/v1/**", poison)
        for path in PAGES:
            page.evaluate("([path]) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", [path])
            page.wait_for_selector("main :is(.tile, table, .quotas)")
            page.locator("main .spinner").wait_for(state="detached")
            page.locator("main", has_text="onerror=window.pwned").wait_for()
            assert is_clean(page), path
        page.unroute_all(behavior="ignoreErrors")
    client.delete_secret("HOSTILE")


def test_A20_what_a_sandbox_and_its_owner_say_is_text(tab, client):
    project = client.create_project(SHORT + uuid.uuid4().hex[:6])
    key = client.create_key(SHORT, project=project["id"])
    sandbox = client.create(tags={"note": PAYLOAD[:90]})
    sandbox.run(["sh", "-c", "cp /bin/true '/tmp/<img src=x onerror=1>'; exec '/tmp/<img src=x onerror=1>'"])
    with tab("/events") as page:
        page.wait_for_selector("tr:has-text('onerror')")
        page.locator("tbody button.link").first.click()
        assert is_clean(page)
    with tab("/keys") as page:
        page.select_option("select[aria-label=Project]", project["id"])
        page.wait_for_selector("tr:has-text('onerror')")
        page.click("tr:has-text('onerror') >> text=Revoke")
        page.wait_for_selector("dialog:has-text('onerror')")
        assert is_clean(page)
    with tab("/sandboxes") as page:
        page.fill("[data-filter]", SHORT)
        assert is_clean(page)
    client.revoke_key(key["key"]["id"], project=project["id"])
    end(sandbox)


def test_A20_the_page_s_policy_forbids_what_the_program_never_does(page):
    """The second wall, for the day on which the first has a hole."""
    page.watch.allow("Content Security Policy", "TrustedHTML", "TrustedScript")
    markup = "(text) => { try { document.body.appendChild(document.createElement('div')).innerHTML = text; return 'made'; } catch (e) { return e.name; } }"
    assert page.evaluate(markup, PAYLOAD) == "TypeError"
    for inline in ("document.createElement('img').setAttribute('onerror', 'window.pwned=1')", "document.createElement('script').text = 'window.pwned=1'"):
        assert page.evaluate(f"() => {{ try {{ {inline}; return 'done'; }} catch (e) {{ return e.name; }} }}") == "TypeError", inline
    outside = "() => fetch('http://127.0.0.1:1/').then(() => 'sent', (e) => e.name)"
    assert page.evaluate(outside) == "TypeError"
    page.watch.allow("127.0.0.1:1/")
    assert page.evaluate("document.cookie") == ""
