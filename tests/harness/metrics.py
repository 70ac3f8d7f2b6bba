# SPDX-License-Identifier: Apache-2.0
"""A daemon's /metrics, as text and as figures."""

import re

from harness.daemon import call

SAMPLE = re.compile(r'^([a-z_]+)((?:\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})?) ([0-9.]+)$')


def page_of(daemon):
    status, page = call(daemon, "GET", "/metrics")
    assert status == 200
    return page.decode()


def figures(daemon):
    """{name and labels: value}; each line must be a comment or a sample."""
    found = [SAMPLE.match(line) for line in page_of(daemon).splitlines() if not line.startswith("# ")]
    assert all(found)
    return {m.group(1) + m.group(2): float(m.group(3)) for m in found}
