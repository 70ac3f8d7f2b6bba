# SPDX-License-Identifier: Apache-2.0
"""A sandbox's files. All work is done inside, as `user` (the sandbox's default user without it)."""

from __future__ import annotations

import posixpath
from typing import Any, AsyncIterator, List, Optional

from .. import errors
from .._protocol import FOREVER, NDJSON, Entry, Json, mode_word, stream_of
from ._part import AsyncPart
from ._stream import AsyncStream, bytes_of, lines_of
from ._transport import AsyncReply
from ._wire import Source


class AsyncFiles:
    def __init__(self, sandbox: AsyncPart) -> None:
        self._sandbox = sandbox

    async def _call(self, method: str, op: str = "", **parts: Any) -> Json:
        return await self._sandbox._call(method, ["files", op] if op else ["files"], **parts)

    async def _post(self, op: str, **body: Any) -> None:
        await self._call("POST", op, body=body)

    async def _open(self, method: str, op: str = "", **parts: Any) -> AsyncReply:
        return await self._sandbox._reply(method, ["files", op] if op else ["files"], **parts)

    async def read(
        self, path: str, *, offset: Optional[int] = None, length: Optional[int] = None, user: Optional[str] = None
    ) -> bytes:
        """Reads a file: all bytes, or `length` bytes from `offset`."""
        query = {"path": path, "offset": offset, "length": length, "user": user}
        async with await self._open("GET", query=query) as reply:
            return await reply.read()

    async def read_text(self, path: str, *, user: Optional[str] = None) -> str:
        """Reads a file as UTF-8 text."""
        return (await self.read(path, user=user)).decode()

    def read_stream(self, path: str, *, user: Optional[str] = None) -> AsyncStream[bytes]:
        """Reads a file in pieces, for files that are too large for memory."""
        return bytes_of(lambda: self._open("GET", query={"path": path, "user": user}, timeout=FOREVER))

    async def write(
        self,
        path: str,
        data: Source,
        *,
        mode: Optional[int] = None,
        append: bool = False,
        parents: bool = False,
        exclusive: bool = False,
        if_unchanged: Optional[Entry] = None,
        user: Optional[str] = None,
    ) -> Entry:
        """Writes a file, completely or not at all. A file object or iterable of bytes is streamed. `parents` creates missing
        directories. With `if_unchanged`, an Entry that you got for the file, it raises FileChanged if the file was changed since."""
        query = {
            "path": path,
            "mode": mode_word(mode),
            "append": append,
            "parents": parents,
            "exclusive": exclusive,
            "if_mtime_us": if_unchanged.mtime_us if if_unchanged else None,
            "user": user,
        }
        return Entry.from_json(await self._call("PUT", query=query, stream=stream_of(data)))

    async def append(self, path: str, data: Source, *, user: Optional[str] = None) -> Entry:
        """Appends to a file, and creates it if it is missing."""
        return await self.write(path, data, append=True, user=user)

    async def stat(self, path: str, *, follow: bool = False, user: Optional[str] = None) -> Entry:
        """Describes a file, directory or link. A link is described itself, unless `follow` is set."""
        query = {"path": path, "follow": follow, "user": user}
        return Entry.from_json(await self._call("GET", "stat", query=query))

    async def exists(self, path: str, *, follow: bool = False, user: Optional[str] = None) -> bool:
        """Whether the path exists."""
        query = {"path": path, "follow": follow, "user": user}
        return bool((await self._call("GET", "exists", query=query))["exists"])

    async def list(
        self,
        path: str,
        *,
        recursive: bool = False,
        depth: Optional[int] = None,
        limit: Optional[int] = None,
        user: Optional[str] = None,
    ) -> List[Entry]:
        """Lists a directory, sorted by name. `recursive` includes what is below, `depth` levels deep at most."""
        query = {"path": path, "recursive": recursive, "depth": depth, "limit": limit, "user": user}
        reply = await self._call("GET", "list", query=query)
        return [Entry.from_json(e) for e in reply["entries"]]

    async def mkdir(
        self, path: str, *, parents: bool = False, mode: Optional[int] = None, user: Optional[str] = None
    ) -> None:
        """Creates a directory. `parents` also creates missing ones above it, and accepts an existing directory."""
        await self._post("mkdir", path=path, parents=parents or None, mode=mode_word(mode), user=user)

    async def move(
        self, path: str, to: str, *, parents: bool = False, exclusive: bool = False, user: Optional[str] = None
    ) -> None:
        """Moves or renames. An existing `to` is replaced, unless `exclusive` is set."""
        await self._post("move", path=path, to=to, parents=parents or None, exclusive=exclusive or None, user=user)

    async def copy(
        self,
        path: str,
        to: str,
        *,
        recursive: bool = False,
        parents: bool = False,
        exclusive: bool = False,
        user: Optional[str] = None,
    ) -> None:
        """Copies a file, or with `recursive` a directory."""
        await self._post(
            "copy",
            path=path,
            to=to,
            recursive=recursive or None,
            parents=parents or None,
            exclusive=exclusive or None,
            user=user,
        )

    async def chmod(self, path: str, mode: int, *, recursive: bool = False, user: Optional[str] = None) -> None:
        """Sets the permission bits; with `recursive` also of everything below."""
        await self._post("chmod", path=path, mode=mode_word(mode), recursive=recursive or None, user=user)

    async def chown(self, path: str, owner: str, *, recursive: bool = False, user: Optional[str] = None) -> None:
        """Sets the owner: "user" or "user:group", as names or numbers."""
        await self._post("chown", path=path, owner=owner, recursive=recursive or None, user=user)

    async def symlink(self, path: str, target: str, *, user: Optional[str] = None) -> None:
        """Makes `path` a symbolic link to `target`."""
        await self._post("symlink", path=path, target=target, user=user)

    async def remove(
        self, path: str, *, recursive: bool = False, missing_ok: bool = False, user: Optional[str] = None
    ) -> None:
        """Removes a file, or with `recursive` a directory and everything in it."""
        query = {"path": path, "recursive": recursive, "missing_ok": missing_ok, "user": user}
        await self._call("DELETE", query=query)

    def tar_out(self, path: str, *, compress: Optional[str] = None, user: Optional[str] = None) -> AsyncStream[bytes]:
        """Downloads a directory as a tar archive, in pieces. `compress`: none, gzip or zstd."""
        query = {"path": path, "compress": compress, "user": user}
        return bytes_of(lambda: self._open("GET", "tar", query=query, timeout=FOREVER))

    async def tar_in(
        self,
        path: str,
        archive: Source,
        *,
        compress: Optional[str] = None,
        parents: bool = False,
        user: Optional[str] = None,
    ) -> Json:
        """Unpacks a tar archive into the directory `path`. Returns {entries, bytes}."""
        query = {"path": path, "compress": compress, "parents": parents, "user": user}
        return await self._call("PUT", "tar", query=query, stream=stream_of(archive))

    def watch(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> AsyncStream[Json]:
        """Yields changes below `path` as they happen: {type, path, to?}. The first one has the type `ready`. Goes on until it is closed."""
        query = {"path": path, "recursive": recursive, "user": user}
        return lines_of(lambda: self._open("GET", "watch", query=query, accept=NDJSON, timeout=FOREVER))


class AsyncSandboxPath:
    """A path inside a sandbox, with the methods of pathlib.Path. A relative path begins where commands do: in the image's WORKDIR, or the user's home."""

    def __init__(self, files: AsyncFiles, path: str) -> None:
        self._files = files
        self._path = path

    def __truediv__(self, name: str) -> "AsyncSandboxPath":
        return AsyncSandboxPath(self._files, posixpath.join(self._path, str(name)))

    def __str__(self) -> str:
        return self._path

    def __fspath__(self) -> str:
        return self._path

    def __repr__(self) -> str:
        return f"<SandboxPath {self._path}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncSandboxPath) and (self._files, self._path) == (other._files, other._path)

    def __hash__(self) -> int:
        return hash(self._path)

    @property
    def name(self) -> str:
        return posixpath.basename(self._path)

    @property
    def suffix(self) -> str:
        return posixpath.splitext(self._path)[1]

    @property
    def parent(self) -> "AsyncSandboxPath":
        return AsyncSandboxPath(self._files, posixpath.dirname(self._path) or ".")

    async def read_bytes(self) -> bytes:
        return await self._files.read(self._path)

    async def read_text(self) -> str:
        return await self._files.read_text(self._path)

    async def write_bytes(self, data: bytes) -> int:
        await self._files.write(self._path, data)
        return len(data)

    async def write_text(self, text: str) -> int:
        await self._files.write(self._path, text)
        return len(text)

    async def stat(self) -> Entry:
        return await self._files.stat(self._path, follow=True)

    async def exists(self) -> bool:
        return await self._files.exists(self._path, follow=True)

    async def _has_type(self, type: str) -> bool:
        try:
            return (await self.stat()).type == type
        except errors.FileMissing:
            return False

    async def is_file(self) -> bool:
        return await self._has_type("file")

    async def is_dir(self) -> bool:
        return await self._has_type("directory")

    async def iterdir(self) -> AsyncIterator["AsyncSandboxPath"]:
        for entry in await self._files.list(self._path):
            yield self / entry.name

    async def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        try:
            await self._files.mkdir(self._path, parents=parents, mode=None if mode == 0o777 else mode)
        except errors.FileExists:
            if not exist_ok or not await self.is_dir():
                raise

    async def rename(self, target: Any) -> "AsyncSandboxPath":
        await self._files.move(self._path, str(target))
        return AsyncSandboxPath(self._files, str(target))

    async def unlink(self, missing_ok: bool = False) -> None:
        await self._files.remove(self._path, missing_ok=missing_ok)

    async def rmdir(self) -> None:
        """Removes an empty directory. remove() removes a whole tree."""
        await self._files.remove(self._path)

    async def remove(self) -> None:
        """Removes it with everything below."""
        await self._files.remove(self._path, recursive=True)

    async def chmod(self, mode: int) -> None:
        await self._files.chmod(self._path, mode)

    async def symlink_to(self, target: Any) -> None:
        await self._files.symlink(self._path, str(target))
