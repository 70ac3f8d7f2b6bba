# SPDX-License-Identifier: Apache-2.0
"""The page of secrets in a real browser: set, set anew, removed, and for whom; no value comes back to it."""

import re
import uuid

import pytest
from dashboard.test_hostile import PAYLOAD, SHORT, is_clean
from harness.daemon import end

VALUE = "sk-0123456789-of-the-page"


def policy(name):
    return {"rules": [{"match": {"domains": ["api.example.com"]}, "action": {"transform": {"headers": {"authorization": f"Bearer secret://{name}"}}}}]}


def versions(client):
    return {s["name"]: s["version"] for s in client.secrets()}


@pytest.fixture
def name(client):
    name = f"S{uuid.uuid4().hex[:8]}"
    yield name
    if name in versions(client):
        client.delete_secret(name, force=True)


@pytest.fixture
def kept(client, name):
    client.set_secret(name, VALUE)
    return name


def row_of(page, name):
    return page.locator(f"table[aria-label=Secrets] tr[data-key='{name}']")


def show_only(page, secrets):
    """What the daemon cannot be brought to say at will."""
    page.route("**/v1/secrets", lambda route: route.fulfill(json={"secrets": secrets}))
    page.click("nav >> text=Secrets")


def secret(name, **more):
    return {"id": "sec_1", "name": name, "version": 1, "hosts": [], "locked": False, "created_us": 1, "changed_us": 1, **more}


def test_a_secret_is_set_referred_to_and_given_another_value(page, client, name):
    replies = []

    def overhear(route):
        reply = route.fetch()
        replies.append(reply.text())
        route.fulfill(response=reply)

    page.route(re.compile("/v1/secrets"), overhear)
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/secrets")
    page.click("text=New secret")
    assert page.get_attribute("dialog [name=value]", "type") == "password"
    page.fill("dialog [name=name]", name)
    page.fill("dialog [name=value]", VALUE)
    page.click("dialog button[type=submit]")
    assert page.locator("[data-what=reference]").input_value() == f"secret://{name}"
    page.click("text=Done")
    row_of(page, name).locator(".badge:text-is('ready')").wait_for()
    page.click(f"tr[data-key='{name}'] >> text=New value")
    page.fill("dialog [name=value]", VALUE + "-2")
    page.click("dialog button[type=submit]")
    page.click("text=Done")
    row_of(page, name).locator("[data-label=Version]:text-is('2')").wait_for()
    assert versions(client)[name] == 2
    assert VALUE not in page.content() and len(replies) > 2 and VALUE not in "".join(replies)


def test_what_is_wrong_is_told_at_its_field_and_none_is_replaced_unasked(tab, client, kept):
    with tab("/secrets") as page:
        page.watch.allow("400")
        row_of(page, kept).wait_for()
        page.click("text=New secret")
        page.fill("dialog [name=name]", kept)
        page.fill("dialog [name=value]", "another")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("[data-field=name] .problem:has-text('press New value')")
        page.fill("dialog [name=name]", SHORT)
        page.click("dialog button[type=submit]")
        page.wait_for_selector("[data-field=name] .problem:has-text('Must begin with a letter')")
        assert is_clean(page)
    assert versions(client)[kept] == 1


def test_hosts_are_set_shown_kept_with_a_new_value_and_refused_at_their_field(tab, client, kept):
    with tab("/secrets") as page:
        page.watch.allow("400")
        row_of(page, kept).locator("td:has-text('any host')").wait_for()
        page.click(f"tr[data-key='{kept}'] >> text=New value")
        page.fill("dialog [name=value]", VALUE)
        page.fill("dialog [name=hosts]", "https://api.example.com/")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("[data-field=hosts] .problem")
        page.fill("dialog [name=hosts]", "api.example.com, *.example.org")
        page.click("dialog button[type=submit]")
        page.click("text=Done")
        row_of(page, kept).locator("td:text-is('api.example.com, *.example.org')").wait_for()
        page.click(f"tr[data-key='{kept}'] >> text=New value")
        page.fill("dialog [name=value]", VALUE)
        page.click("dialog button[type=submit]")
        page.click("text=Done")
        row_of(page, kept).locator("[data-label=Version]:text-is('3')").wait_for()
    assert [s["hosts"] for s in client.secrets() if s["name"] == kept] == [["api.example.com", "*.example.org"]]


def test_lines_are_not_lost_from_a_value_that_is_pasted(tab):
    paste = "(input) => { const data = new DataTransfer(); data.setData('text', 'one\\ntwo'); return input.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, cancelable: true })); }"
    with tab("/secrets") as page:
        page.click("text=New secret")
        value = page.locator("dialog [name=value]")
        assert value.evaluate(paste) is False  # refused
        assert "more than one line" in value.evaluate("(input) => input.validationMessage")
        value.fill("one")
        assert value.evaluate("(input) => input.validity.valid")


def test_a_secret_is_removed_once_it_was_asked(tab, client, kept):
    with tab("/secrets") as page:
        page.click(f"tr[data-key='{kept}'] >> text=Remove")
        page.wait_for_selector(f"dialog:has-text('Remove the secret {kept}?')")
        page.click("dialog >> text=Cancel")
        assert kept in versions(client)
        page.click(f"tr[data-key='{kept}'] >> text=Remove")
        page.click("dialog button[type=submit]")
        row_of(page, kept).wait_for(state="detached")
    assert kept not in versions(client)


def test_one_that_is_in_use_is_removed_after_a_second_question(tab, client, kept):
    sandbox = client.create(network=policy(kept))
    with tab("/secrets") as page:
        page.watch.allow("409")
        page.click(f"tr[data-key='{kept}'] >> text=Remove")
        page.click("dialog button[type=submit]")
        question = page.locator("dialog", has_text="all the same?")
        question.wait_for()
        assert "the policies of 1 sandbox refer to secret" in question.inner_text() and "is denied" in question.inner_text()
        assert kept in versions(client)
        question.locator("button[type=submit]").click()
        row_of(page, kept).wait_for(state="detached")
    end(sandbox)


def test_who_is_no_admin_sees_the_list_and_why_it_cannot_be_changed(dashboard, client, kept):
    key = client.create_key(f"k-{uuid.uuid4().hex[:8]}", scope="write")
    with dashboard.open("/secrets", key=key["secret"]) as page:
        row_of(page, kept).wait_for()
        page.wait_for_selector("[data-what=why]:has-text('yours has scope write')")
        assert page.locator("main button:not(.sort):visible").count() == 0
    client.revoke_key(key["key"]["id"])


def test_what_others_set_and_remove_shows_without_a_reload(tab, client, name):
    with tab("/secrets") as page:
        page.locator("main :is(table, .empty)").first.wait_for()
        client.set_secret(name, VALUE)
        row_of(page, name).wait_for()
        client.delete_secret(name)
        row_of(page, name).wait_for(state="detached")


def test_one_that_is_locked_says_what_to_do_and_none_says_what_they_are_for(tab):
    with tab("/sandboxes") as page:
        show_only(page, [secret("LOST", locked=True)])
        row_of(page, "LOST").locator("td", has_text=re.compile("locked.*Put that file back, or set the value again", re.DOTALL)).wait_for()
        page.unroute("**/v1/secrets")
        page.click("nav >> text=Host")
        show_only(page, [])
        page.wait_for_selector("main .empty:has-text('No secrets yet') strong + p + p.first")
        with page.context.expect_page() as opened:
            page.click(".empty >> text=The guide")
        opened.value.wait_for_selector("h1:has-text('Secrets')")
        opened.value.close()


def test_A20_a_hostile_name_is_text_in_the_list_and_in_every_question(tab):
    refusal = {"error": {"code": "conflict", "message": f"the policies of 1 sandbox refer to secret '{PAYLOAD}'"}}
    with tab("/sandboxes") as page:
        page.watch.allow("409")
        page.route("**/v1/secrets/*", lambda route: route.fulfill(status=409, json=refusal) if route.request.method == "DELETE" else route.fulfill(json=secret(PAYLOAD)))
        show_only(page, [secret(PAYLOAD, hosts=[PAYLOAD])])
        page.click("main tbody >> text=New value")
        page.wait_for_selector("dialog h2:has-text('onerror')")
        assert is_clean(page)
        page.fill("dialog [name=value]", "any")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("dialog [data-what=reference]")
        assert is_clean(page) and page.locator("[data-what=reference]").input_value().startswith("secret://\"'><img")
        page.click("text=Done")
        page.click("main tbody >> text=Remove")
        page.click("dialog button[type=submit]")
        page.locator("dialog", has_text="all the same?").locator("p", has_text="onerror").wait_for()
        assert is_clean(page)
