# SPDX-License-Identifier: Apache-2.0
"""Makes the table's calls with the Python SDK, by either face, and prints what each gave."""

import asyncio
import inspect
import json
import sys

import cloche


def plain(value):
    """As JSON has it; bytes as text."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def field(value, path):
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return plain(value)


def shown(value, names):
    if names == []:
        return None
    if names is None:
        return plain(value) if isinstance(value, (str, bytes, bool, int, type(None))) else None
    if isinstance(value, list):
        return [shown(v, names) for v in value]
    return {name: field(value, name) for name in names}


def resolve(value, kept):
    if isinstance(value, dict) and "$" in value:
        name, _, path = value["$"].partition(".")
        return field(kept[name], path) if path else kept[name]
    return value


async def settled(value):
    """What a call gave, of either face: awaited, and collected where it comes piece by piece."""
    if inspect.isawaitable(value):
        value = await value
    if hasattr(value, "__aiter__"):
        return [v async for v in value]
    return list(value) if hasattr(value, "__next__") else value


async def make(row, kept):
    name, *path, verb = row["call"].split(".")
    target = kept[name]
    for part in path:
        target = getattr(target, part)
    args = [resolve(a, kept) for a in row["args"]]
    options = {k: resolve(v, kept) for k, v in row["options"].items()}
    try:
        value = await settled(getattr(target, verb)(*args, **options))
    except cloche.ClocheError as e:
        if row["keep"]:  # what is kept is needed: there is nothing to go on with
            raise
        return {"fails": type(e).__name__, "code": e.code, "field": e.field}
    if row["keep"]:
        kept[row["keep"]] = value
    return {"gives": shown(value, row["show"])}


async def main(face, table, engine, template="", id=None):
    prefix = "Async" if face == "async" else ""
    kind = getattr(cloche, prefix + "Sandbox")
    client = getattr(cloche, prefix + "Client")(timeout=150)  # a vm that is emulated boots slowly
    place = {"engine": engine, "template": template or None}
    sandbox = await settled(kind.get(id, client=client) if id else kind.create(client=client, **place))
    kept = {"client": client, "Sandbox": kind, **place, "sandbox": sandbox}
    with open(table) as f:
        rows = json.load(f)
    print(json.dumps([await make(row, kept) for row in rows]))
    client.close()


asyncio.run(main(*sys.argv[1:]))
