# SPDX-License-Identifier: Apache-2.0
"""Each sample of each page, typed in the order of the page, in one terminal: what a newcomer meets who follows them."""

import pytest
from first_hour.conftest import counts
from harness.samples import pages, typed_samples

# Read while `make up` still builds in the background.
FIRST = ["README.md", "docs/quick-start.md"]


def type_page(shell, page):
    shell.begin_page()
    samples = list(typed_samples(page))
    wrong = [shell.type(page, sample) for sample in samples]
    counts[page] = (len(samples), wrong.count(None))
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("page", FIRST)
def test_a_page_is_typed_at_once(shell, page):
    type_page(shell, page)


@pytest.mark.parametrize("page", [p for p in pages() if p not in FIRST and any(typed_samples(p))])
def test_a_page_is_typed_when_all_is_built(shell, settled, built, page):
    type_page(shell, page)
