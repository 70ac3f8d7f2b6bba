# SPDX-License-Identifier: Apache-2.0
"""The documents as the daemon serves them: every link leads somewhere, nothing in them runs but the search, and the Markdown is there."""

import http.client
import re
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin

import pytest
from harness.daemon import ROOT

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Document(HTMLParser):
    """Links and anchors of a page; tags must spawner."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.tags, self.open, self.scripts = [], set(), set(), [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        if tag == "script":
            self.scripts.append(attrs.get("src"))
        assert not [name for name in attrs if name.startswith("on") or name == "style"], (tag, attrs)
        if "id" in attrs:
            assert attrs["id"] not in self.ids, attrs["id"]
            self.ids.add(attrs["id"])
        if "href" in attrs:
            self.links.append(attrs["href"])
        if tag == "img":
            assert attrs["alt"]
            self.links.append(attrs["src"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.open)


@pytest.fixture
def get(daemon):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)

    def get(path, method="GET", **headers):
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read().decode()

    yield get
    connection.close()


def walk(get):
    """{path: Document or text} of all that can be reached from the first page by links."""
    seen, todo = {}, ["/docs/"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        status, headers, text = get(path)
        assert status == 200, path
        if not headers["Content-Type"].startswith("text/html"):
            seen[path] = text
            continue
        seen[path] = page = Document(text)
        todo += [urldefrag(urljoin(path, link))[0] for link in page.links if link.startswith(("/docs", "#"))]
    return seen


def test_every_link_leads_somewhere_and_nothing_runs_but_the_search(get):
    pages = walk(get)
    documents = {path: page for path, page in pages.items() if isinstance(page, Document)}
    assert len(documents) > 35 and "/docs/guides/evals" in documents and "/docs/api" in documents
    for path, page in documents.items():
        assert page.scripts == ["/docs/search.js"] and not page.tags & {"iframe", "object", "form", "style"}, path
        for link in page.links:
            target, anchor = urldefrag(urljoin(path, link))
            if link.startswith(("http:", "https:")) or target == "/":
                continue
            assert target in pages, f"{path} leads to {link}"
            if anchor:
                assert anchor in pages[target].ids, f"{path} leads to {link}"


def test_a_page_has_a_policy_without_foreign_scripts_and_its_markdown_beside_it(get):
    status, headers, text = get("/docs/guides/files")
    policy = headers["Content-Security-Policy"]
    assert status == 200 and "default-src 'none'" in policy and "script-src 'self'; connect-src 'self';" in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert 'href="/docs/guides/files.md"' in text and "<title>Files · cloche</title>" in text
    status, headers, text = get("/docs/guides/files.md")
    assert headers["Content-Type"] == "text/markdown; charset=utf-8" and text == (ROOT / "docs/guides/files.md").read_text()


def test_code_is_shown_as_it_stands(get):
    _, _, text = get("/docs/guides/files")
    assert "cloche cp box:project - | tar -t" in text and "&gt; project/out.txt" in text
    _, _, text = get("/docs/cli")
    assert "<em>" not in "".join(re.findall(r"<code>.*?</code>", text, re.S))


def test_docs_is_a_door_to_the_first_page_and_what_is_not_there_says_so(get):
    status, headers, _ = get("/docs")
    assert (status, headers["Location"]) == (308, "/docs/")
    status, _, text = get("/docs/teleport")
    assert status == 404 and "there is no such document" in text
    status, _, text = get("/docs/teleport", Accept="text/html")
    assert status == 404 and '<a href="/docs/">' in text
    assert get("/docs/../etc/passwd")[0] >= 400
    assert get("/docs/", Host="evil.example.com")[0] in (400, 403, 421)
    assert get("/docs/", method="HEAD")[2] == ""


def test_a_browser_that_asks_for_what_is_not_there_gets_a_page(get):
    status, headers, text = get("/nonsense", Accept="text/html,*/*")
    assert (status, headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "There is no such page" in text and '<a href="/">' in text
    status, headers, _ = get("/nonsense")  # a program
    assert (status, headers["Content-Type"]) == (401, "application/json")
    assert get("/v1/nonsense", Accept="text/html")[0] == 401
