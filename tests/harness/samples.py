# SPDX-License-Identifier: Apache-2.0
"""What the documents show: their blocks, in the order of the page.

A block marked `run` is run by tests/functional/test_docs.py, on a daemon without templates, and by `make test-first-hour`, on what `make up` gives.
One marked `up` needs that: it is run by the latter alone. Any other block that could be typed is in NOT_TYPED, with the reason.
"""

import re
from dataclasses import dataclass

from .daemon import ROOT

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```([a-z]+)( run| up)?\n(.*?)^```$", re.M | re.S)
PROMISE = re.compile(r"(?:#|//)(?: .*:)? prints (.+)$", re.M)
TYPED = ("sh", "python", "js")
# All that they show is typed, marked or not.
WHOLE = ["sdk/python/README.md", "sdk/typescript/README.md"]
# Pages that are made from the sources they tell of.
MADE = {"docs/sdk-python.md": "python", "docs/sdk-typescript.md": "ts"}
# By page: words of a block, and why nobody types it in the first hour.
NOT_TYPED = {
    "README.md": [("make test ", "make up has been typed before all others; make test is the rest of the suites")],
    "CONTRIBUTING.md": [("make ", "for those who change cloche, not for the first hour"), ("meson test", "likewise")],
    "docs/quick-start.md": [("git clone", "tools/test-first-hour does it with the clone that is here")],
    "docs/abuse-cases.md": [("inotify", "fills what a whole host has; tests/security/test_shared_kernel.py does the same")],
    "docs/cli.md": [("git.example.com", "a repository of yours")],
    "docs/dashboard.md": [("ssh -L", "another machine")],
    "docs/guides/agents.md": [("claude mcp add", "a program that cloche does not bring")],
    "docs/guides/cluster.md": [
        ("make up-cluster", "tests/functional/test_up_cluster.py does it under another name"),
        ("apt install", "machines of yours; make test-deb installs the packages"),
        ("--on-node-loss", "machines of yours; tests/functional/test_cluster_restore.py does it with daemons here"),
        ("cloche cluster", "machines of yours; tests/functional/test_cluster_member.py makes a cluster of daemons here"),
        ("cloche node", "machines of yours; tests/functional/test_cluster_operation.py cordons and removes nodes"),
        ("example.com", "machines of yours; tests/functional/test_up_cluster.py does the same behind its balancer"),
    ],
    "docs/guides/first-team.md": [("", "needs a provider and three people; tests/functional/test_people_guide.py has them")],
    "docs/guides/identity.md": [("", "needs an issuer; tests/functional/test_identity.py does it on a daemon that is one")],
    "docs/guides/operate.md": [
        ("make deb", "make test-deb"),
        ("--upgrade", "make test-upgrade"),
        ("/mnt/backup", "a disk of yours; tests/functional/test_docs.py does it elsewhere"),
        ("one.example.com", "machines of yours; tests/functional/test_docs.py does it with two daemons"),
        ("aws s3 sync", "a bucket of yours; tests/functional/test_audit_sinks.py has one"),
    ],
    "docs/guides/rollouts.md": [("", "frameworks that bring much along; tests/sdk/test_rollouts.py types it")],
    "docs/mcp.md": [("claude mcp add", "a program that cloche does not bring")],
    "docs/migrate-from-e2b.md": [("my-template", "a template of yours; tests/compat/test_e2b_builds.py has one"), ("mcp=", "needs a repository of yours; tests/compat/test_e2b_mcp.py starts servers so")],
    "docs/sources.md": [("example.com", "repositories and registries of yours")],
    "examples/README.md": [("API_KEY=…", "needs a model; tests/first_hour/test_programs.py has one that follows a script")],
}


@dataclass
class Sample:
    place: str  # PAGE:LINE
    language: str
    mark: str  # "run", "up" or ""
    code: str

    def broken_promises(self, said):
        """What a comment says that it prints, and it did not."""
        return [promise for promise in PROMISE.findall(self.code) if promise.strip() not in said]


def samples_of(page):
    """All blocks of a page, which is named by its path from the top."""
    text = (ROOT / page).read_text()
    for block in BLOCK.finditer(text):
        place = f"{page}:{text[: block.start()].count(chr(10)) + 1}"
        yield Sample(place, block.group(1), (block.group(2) or "").strip(), block.group(3))


def why_not_typed(page, sample):
    return next((why for words, why in NOT_TYPED.get(page, []) if words in sample.code), None)


def typed_samples(page):
    """What somebody types who follows the page."""
    for sample in samples_of(page):
        if sample.language in TYPED and (sample.mark or (page in WHOLE and MADE.get(page) != sample.language)):
            yield sample


def pages():
    """In the order in which docs/README.md leads to them, behind the front page."""
    targets = re.findall(r"\]\(([^)#\s]+\.md)\)", (DOCS / "README.md").read_text())
    paths = [(DOCS / target).resolve().relative_to(ROOT).as_posix() for target in targets if not target.startswith("design/")]
    return list(dict.fromkeys(["README.md", *(p for p in paths if p.startswith("docs/")), *WHOLE, "examples/README.md"]))
