# SPDX-License-Identifier: Apache-2.0
"""How results show in notebooks: values by MIME type as one piece of HTML. Whatever is text is escaped; HTML that the sandboxed
code made is put into a frame that runs no script and reaches nothing of the page around it."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Mapping, Optional

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
SAFE = (*PICTURES, "text/plain", "text/markdown", "text/latex", "application/json")


def bundle(data: Mapping[str, Any]) -> Dict[str, Any]:
    """The forms that a notebook may show as they are, and HTML in its frame."""
    made = {kind: value for kind, value in data.items() if kind in SAFE}
    if "text/html" in data or "image/svg+xml" in data:
        made["text/html"] = html_of(data)
    return made


def html_of(data: Mapping[str, Any]) -> str:
    """The richest form that there is."""
    for kind in PICTURES:
        if isinstance(data.get(kind), str):
            return f'<img src="data:{kind};base64,{html.escape("".join(data[kind].split()))}">'
    for kind in ("text/html", "image/svg+xml"):
        if isinstance(data.get(kind), str):
            style = "border:0;width:100%;height:20em"
            return f'<iframe sandbox="" style="{style}" srcdoc="{html.escape(data[kind])}"></iframe>'
    return text(str(data.get("text/plain", "")))


def text(words: str, color: Optional[str] = None) -> str:
    style = f' style="color:{color}"' if color else ""
    return f"<pre{style}>{html.escape(words)}</pre>"


def page(stdout: str, stderr: str, shown: List[str], error: Optional[str]) -> str:
    parts = [text(stdout)] if stdout else []
    if stderr:
        parts.append(text(stderr, "#a60"))
    parts += shown
    if error:
        parts.append(text(error, "#b00"))
    return "\n".join(parts)
