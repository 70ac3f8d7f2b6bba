# SPDX-License-Identifier: Apache-2.0
"""The documents in a browser: the dashboard leads to them, and a search finds what a stranger asks."""

import pytest
from dashboard.conftest import take_pictures
from playwright.sync_api import expect

# What somebody types who has not read a word, and a page of the first three found that answers it.
QUESTIONS = {
    "limit memory": "/docs/guides/limits-and-cost",
    "allow PyPI": "/docs/guides/network",
    "hide an API key": "/docs/guides/secrets",
    "back up": "/docs/guides/operate",
    "two machines": "/docs/guides/operate",
    "install pandas": "/docs/packages",
    "go back to a snapshot": "/docs/guides/snapshots",
}


# And for who looks through the list: what answers it on a page that the first one leads to.
ANSWERS = {
    "limit memory": "--memory 256m",
    "allow PyPI": "cloche network allow shop pip",
    "hide an API key": "Keep the key outside",
    "back up": "cloche backup /mnt/backup/cloche",
    "two machines": "can form one cluster",
}


@pytest.fixture
def documents(dashboard):
    with dashboard.open("/docs/", key="") as page:
        page.wait_for_selector("#search")
        yield page


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_strangers_question_is_answered_by_one_search(documents, question):
    documents.keyboard.press("/")
    documents.keyboard.type(question)
    documents.wait_for_selector("#found a")
    expect(documents.locator("#search")).to_have_value(question)
    found = [link.get_attribute("href").partition("#")[0] for link in documents.locator("#found a").all()]
    assert QUESTIONS[question] in found[:3], found


@pytest.mark.parametrize("question", ANSWERS)
def test_a_strangers_question_is_answered_one_click_from_the_first_page(documents, question):
    documents.locator(f"main a[href='{QUESTIONS[question]}']").click()
    documents.wait_for_url(f"**{QUESTIONS[question]}")
    expect(documents.locator("main")).to_contain_text(ANSWERS[question])


def test_the_keyboard_leads_through_what_was_found(documents):
    documents.keyboard.press("/")
    documents.keyboard.type("secrets")
    first = documents.locator("#found a").first
    first.wait_for()
    documents.keyboard.press("ArrowDown")
    expect(first).to_be_focused()
    documents.keyboard.press("ArrowDown")
    expect(documents.locator("#found a").nth(1)).to_be_focused()
    documents.keyboard.press("ArrowUp")
    documents.keyboard.press("ArrowUp")
    expect(documents.locator("#search")).to_be_focused()
    documents.keyboard.press("Escape")
    expect(documents.locator("#found")).to_be_hidden()
    documents.keyboard.type(" ")
    first.wait_for()
    documents.keyboard.press("Enter")
    documents.wait_for_url("**/docs/guides/secrets*")


def test_what_is_not_there_is_said(documents):
    documents.fill("#search", "zzyzx")
    documents.wait_for_selector("#told:has-text('Nothing found')")


def test_the_search_has_its_picture(documents):
    documents.fill("#search", "limit memory")
    documents.wait_for_selector("#found a")
    take_pictures(documents, "documents")


def test_the_dashboard_leads_to_the_documents(tab):
    with tab("/") as page:
        page.click("nav >> text=Documents")
        page.wait_for_url("**/docs/")
        page.wait_for_selector("h1")
