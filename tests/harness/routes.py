# SPDX-License-Identifier: Apache-2.0
"""Tables of routes as the sources have them."""

import re

from harness.daemon import ROOT

ROUTE = re.compile(r'\{HTTP_(\w+),\s*((?:"[^"]*"|\w+|\s)+),\s*(\w+),\s*HTTP_BODY_(\w+),\s*(\w+)([^}]*)\}')


def routes_of(source):
    """Rows of a table in src/: (method, path, body, scope, rest)."""
    text = (ROOT / "src" / source).read_text()
    macros = {}

    def expand(words):
        return "".join(w.strip('"') if w.startswith('"') else macros[w] for w in re.findall(r'"[^"]*"|\w+', words))

    for name, words in re.findall(r'#define (\w+)\s+((?:\w+ )?".*)', text):
        macros[name] = expand(words)
    return [(method, expand(words), body, scope, rest) for method, words, _, body, scope, rest in ROUTE.findall(text)]
