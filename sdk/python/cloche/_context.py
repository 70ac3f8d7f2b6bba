# SPDX-License-Identifier: Apache-2.0
"""The files that a Dockerfile may copy: a directory as a tar, without what its .dockerignore names."""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
from typing import IO, List, Tuple

Pattern = Tuple["re.Pattern[str]", bool]


def read_dockerfile(context: str) -> str:
    with open(os.path.join(context, "Dockerfile"), encoding="utf-8") as file:
        return file.read()


def pack_context(context: str) -> IO[bytes]:
    """A file with the tar; it is gone when it is closed. Owners are not told: what is copied is root's."""
    patterns = _patterns(context)
    archive: IO[bytes] = tempfile.TemporaryFile()
    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, context, "", patterns)
    except BaseException:
        archive.close()
        raise
    archive.seek(0)
    return archive


def _add(tar: tarfile.TarFile, context: str, folder: str, patterns: List[Pattern]) -> None:
    for name in sorted(os.listdir(os.path.join(context, folder))):
        path = os.path.join(folder, name)
        whole = os.path.join(context, path)
        is_ignored = ignored(path, patterns)
        if not is_ignored and (os.path.islink(whole) or os.path.isfile(whole) or os.path.isdir(whole)):
            tar.add(whole, path, recursive=False, filter=_without_owner)
        if os.path.isdir(whole) and not os.path.islink(whole) and (not is_ignored or any(keeps for _, keeps in patterns)):
            _add(tar, context, path, patterns)


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode &= 0o777
    if info.islnk():
        info.type = tarfile.REGTYPE
    return info


def _patterns(context: str) -> List[Pattern]:
    try:
        with open(os.path.join(context, ".dockerignore"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        keeps = line.startswith("!")
        path = os.path.normpath(line[keeps:].strip()).lstrip("/")
        if path not in ("", "."):
            found.append((re.compile(_expression(path)), keeps))
    return found


def ignored(path: str, patterns: List[Pattern]) -> bool:
    """Is a path left out? The last pattern that matches it, or a directory that it is in, says so."""
    parts = path.split("/")
    prefixes = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    found = False
    for pattern, keeps in patterns:
        if any(pattern.fullmatch(prefix) for prefix in prefixes):
            found = not keeps
    return found


def _expression(pattern: str) -> str:
    out, i = "", 0
    while i < len(pattern):
        char = pattern[i]
        if pattern.startswith("**/", i):
            out, i = out + "(?:.*/)?", i + 3
            continue
        if pattern.startswith("**", i):
            out, i = out + ".*", i + 2
            continue
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "[" and "]" in pattern[i + 1 :]:
            end = pattern.index("]", i + 1)
            out += "[" + pattern[i + 1 : end].replace("\\", "\\\\") + "]"
            i = end
        elif char == "\\" and i + 1 < len(pattern):
            i += 1
            out += re.escape(pattern[i])
        else:
            out += re.escape(char)
        i += 1
    return out
