# SPDX-License-Identifier: Apache-2.0
"""A value as the payload of a `result` or `display` message: its text and its MIME bundle.

A value shows itself by the methods that notebooks know: `_repr_mimebundle_` and `_repr_html_` and its kin. They are looked
up on the type, so that a mock which answers to every name is not taken for an image. A method that fails, or that returns
what its type cannot be, costs the value that one form and nothing else.
"""

from __future__ import annotations

import binascii
import types

from . import charts, figures
from .framing import quote, to_json

TEXT_MAX = 1 << 20
BUNDLE_MAX = 8 << 20
JPEG, PNG, TEXT = "image/jpeg", "image/png", "text/plain"
CHART, TABLE = "application/vnd.cloche.chart+json", "application/vnd.cloche.table+json"  # what is on it, as data

_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", PNG),
    ("_repr_jpeg_", JPEG),
    ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)
_PLAIN_TYPES = frozenset(
    (int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, type, types.FunctionType)
)


def of_value(value: object) -> str:
    """The payload that shows a value."""
    if type(value) in _PLAIN_TYPES:
        return _text_payload(*plain_text(value))
    data, metadata = _rich(value)
    text = data.pop(TEXT, None)
    return _payload(*(plain_text(value) if text is None else _cut(text)), data, metadata)


def of_data(given: dict[str, object], metadata: dict[str, object]) -> str:
    """The payload of a bundle that the code made itself."""
    data = _sendable(given)
    text, is_cut = _cut(str(data.pop(TEXT, "")))
    return _payload(text, is_cut, data, metadata)


def plain_text(value: object) -> tuple[str, bool]:
    """repr() of the value, cut to TEXT_MAX, and whether it was cut."""
    try:
        return _cut(repr(value))
    except Exception as error:
        return f"<{type(value).__name__} object: its repr raised {type(error).__name__}>", False


def _cut(text: str) -> tuple[str, bool]:
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if len(text) <= TEXT_MAX:
        return text, False
    return f"{text[:TEXT_MAX]}… [cut: {len(text)} characters in all]", True


def _rich(value: object) -> tuple[dict[str, object], dict[str, object]]:
    """All forms, as what they can be sent as; the text only where a bundle has it."""
    if figures.is_figure(value):
        image = figures.png(value)
        chart = charts.of_figure(value) if image else None
        forms = {PNG: image} | ({CHART: chart} if chart else {})
        return (_sendable(forms) if image else {}), {}
    data: dict[str, object] = {}
    metadata: dict[str, object] = {}
    for method, mime in _METHODS:
        if mime == JPEG and PNG in data:  # PIL offers the same picture as both
            continue
        _take(data, metadata, _ask(value, method), mime)
    bundle = _ask(value, "_repr_mimebundle_")
    if isinstance(bundle, tuple) and len(bundle) == 2:
        bundle, more = bundle
        if isinstance(more, dict):
            metadata.update(more)
    if isinstance(bundle, dict):
        data.update(bundle)
    table = charts.of_table(value) if charts.is_table(value) else None
    if table is not None:
        data[TABLE] = table
    return _sendable(data), metadata


def _ask(value: object, method: str) -> object:
    function = getattr(type(value), method, None)
    if function is None:
        return None
    try:
        return function(value)
    except Exception:
        return None


def _take(data: dict[str, object], metadata: dict[str, object], form: object, mime: str) -> None:
    """A method returns the form, or the form and its metadata."""
    if isinstance(form, tuple) and len(form) == 2:
        form, extra = form
        if isinstance(extra, dict):
            metadata[mime] = extra
    if form is not None:
        data[mime] = form


def _sendable(data: dict[str, object]) -> dict[str, object]:
    """The forms that a message can carry: text as it is, bytes in base64, JSON where the type is JSON."""
    sendable: dict[str, object] = {}
    for mime, form in data.items():
        if not isinstance(mime, str):
            continue
        if isinstance(form, str):
            sendable[mime] = form
        elif isinstance(form, (bytes, bytearray, memoryview)):
            sendable[mime] = _encoded(mime, bytes(form))
        elif mime.endswith("json"):  # application/json, …+json, and altair's …vegalite.v6.json
            sendable[mime] = form
    return sendable


def _encoded(mime: str, form: bytes) -> str:
    if mime.startswith("text/") or mime == "image/svg+xml":
        return form.decode("utf-8", "replace")
    return binascii.b2a_base64(form, newline=False).decode()


def _payload(text: str, is_cut: bool, data: dict[str, object], metadata: dict[str, object]) -> str:
    forms = {}
    for mime, form in data.items():
        try:
            forms[mime] = to_json(form)
        except (TypeError, ValueError, RecursionError):
            continue
    if not forms:
        return _text_payload(text, is_cut)
    if sum(map(len, forms.values())) + len(text) > BUNDLE_MAX:
        return _text_payload(text, True)
    try:
        notes = to_json({mime: note for mime, note in metadata.items() if mime in forms})
    except (TypeError, ValueError, RecursionError):
        notes = "{}"
    rich = ",".join(f"{quote(mime)}:{form}" for mime, form in forms.items())
    mark = ',"truncated":true' if is_cut else ""
    return f'{{"data":{{"text/plain":{quote(text)},{rich}}},"metadata":{notes}{mark}}}'


def _text_payload(text: str, is_cut: bool) -> str:
    mark = ',"truncated":true' if is_cut else ""
    return f'{{"data":{{"text/plain":{quote(text)}}},"metadata":{{}}{mark}}}'
