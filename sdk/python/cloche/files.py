# SPDX-License-Identifier: Apache-2.0
"""A sandbox's files. All work is done inside, as `user` (the sandbox's default user without it)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO, Iterable, Iterator, List, Optional, Union

from ._protocol import FOREVER, NDJSON, Entry, Json, LineDecoder, Request, mode_word, request
from ._transport import CHUNK

if TYPE_CHECKING:
    from .client import Client

Source = Union[bytes, str, BinaryIO, Iterable[bytes]]


def _stream_of(source: Source) -> Union[bytes, Iterable[bytes]]:
    if isinstance(source, str):
        return source.encode()
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "read"):
        return iter(lambda: source.read(CHUNK), b"")  # type: ignore[union-attr]
    return source


class Files:
    def __init__(self, client: "Client", sandbox_id: str) -> None:
        self._client = client
        self._parts = ["sandboxes", sandbox_id, "files"]

    def _request(self, method: str, op: str = "", **rest: Any) -> Request:
        return request(method, self._parts + ([op] if op else []), **rest)

    def _post(self, op: str, **body: Any) -> Json:
        return self._client.call(self._request("POST", op, body=body))

    def read(
        self, path: str, *, offset: Optional[int] = None, length: Optional[int] = None, user: Optional[str] = None
    ) -> bytes:
        query = {"path": path, "offset": offset, "length": length, "user": user}
        with self._client.open(self._request("GET", query=query)) as reply:
            return reply.read()

    def read_text(self, path: str, *, user: Optional[str] = None) -> str:
        return self.read(path, user=user).decode()

    def read_stream(self, path: str, *, user: Optional[str] = None) -> Iterator[bytes]:
        """The bytes in pieces as they come, in constant memory."""
        return self._client.open(self._request("GET", query={"path": path, "user": user}, timeout=FOREVER)).chunks()

    def write(
        self,
        path: str,
        data: Source,
        *,
        mode: Optional[int] = None,
        append: bool = False,
        parents: bool = False,
        exclusive: bool = False,
        user: Optional[str] = None,
    ) -> Entry:
        """Puts all of it there or nothing. A file object or iterable of bytes is streamed."""
        query = {
            "path": path,
            "mode": mode_word(mode),
            "append": append,
            "parents": parents,
            "exclusive": exclusive,
            "user": user,
        }
        return Entry.from_json(self._client.call(self._request("PUT", query=query, stream=_stream_of(data))))

    def append(self, path: str, data: Source, *, user: Optional[str] = None) -> Entry:
        return self.write(path, data, append=True, user=user)

    def stat(self, path: str, *, follow: bool = False, user: Optional[str] = None) -> Entry:
        query = {"path": path, "follow": follow, "user": user}
        return Entry.from_json(self._client.call(self._request("GET", "stat", query=query)))

    def exists(self, path: str, *, follow: bool = False, user: Optional[str] = None) -> bool:
        query = {"path": path, "follow": follow, "user": user}
        return bool(self._client.call(self._request("GET", "exists", query=query))["exists"])

    def list(
        self,
        path: str,
        *,
        recursive: bool = False,
        depth: Optional[int] = None,
        limit: Optional[int] = None,
        user: Optional[str] = None,
    ) -> List[Entry]:
        query = {"path": path, "recursive": recursive, "depth": depth, "limit": limit, "user": user}
        reply = self._client.call(self._request("GET", "list", query=query))
        return [Entry.from_json(e) for e in reply["entries"]]

    def mkdir(
        self, path: str, *, parents: bool = False, mode: Optional[int] = None, user: Optional[str] = None
    ) -> None:
        self._post("mkdir", path=path, parents=parents or None, mode=mode_word(mode), user=user)

    def move(
        self, path: str, to: str, *, parents: bool = False, exclusive: bool = False, user: Optional[str] = None
    ) -> None:
        self._post("move", path=path, to=to, parents=parents or None, exclusive=exclusive or None, user=user)

    def copy(
        self,
        path: str,
        to: str,
        *,
        recursive: bool = False,
        parents: bool = False,
        exclusive: bool = False,
        user: Optional[str] = None,
    ) -> None:
        self._post(
            "copy",
            path=path,
            to=to,
            recursive=recursive or None,
            parents=parents or None,
            exclusive=exclusive or None,
            user=user,
        )

    def chmod(self, path: str, mode: int, *, recursive: bool = False, user: Optional[str] = None) -> None:
        self._post("chmod", path=path, mode=mode_word(mode), recursive=recursive or None, user=user)

    def chown(self, path: str, owner: str, *, recursive: bool = False, user: Optional[str] = None) -> None:
        """`owner` is "user" or "user:group", names or numbers."""
        self._post("chown", path=path, owner=owner, recursive=recursive or None, user=user)

    def symlink(self, path: str, target: str, *, user: Optional[str] = None) -> None:
        """Makes `path` a link that says `target`."""
        self._post("symlink", path=path, target=target, user=user)

    def remove(
        self, path: str, *, recursive: bool = False, missing_ok: bool = False, user: Optional[str] = None
    ) -> None:
        query = {"path": path, "recursive": recursive, "missing_ok": missing_ok, "user": user}
        self._client.call(self._request("DELETE", query=query))

    def tar_out(self, path: str, *, compress: Optional[str] = None, user: Optional[str] = None) -> Iterator[bytes]:
        """A directory as a tar archive, in pieces; `compress`: none, gzip or zstd."""
        query = {"path": path, "compress": compress, "user": user}
        return self._client.open(self._request("GET", "tar", query=query, timeout=FOREVER)).chunks()

    def tar_in(
        self,
        path: str,
        archive: Source,
        *,
        compress: Optional[str] = None,
        parents: bool = False,
        user: Optional[str] = None,
    ) -> Json:
        """Unpacks an archive into the directory `path`; {entries, bytes}."""
        query = {"path": path, "compress": compress, "parents": parents, "user": user}
        return self._client.call(self._request("PUT", "tar", query=query, stream=_stream_of(archive)))

    def watch(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> "Watch":
        query = {"path": path, "recursive": recursive, "user": user}
        return Watch(self._client, self._request("GET", "watch", query=query, accept=NDJSON, timeout=FOREVER))


class Watch:
    """Changes as they happen: an iterator that ends when it is closed."""

    def __init__(self, client: "Client", req: Request) -> None:
        self._reply = client.open(req)
        self._decoder = LineDecoder()
        self._pending: List[Json] = []

    def __iter__(self) -> "Watch":
        return self

    def __next__(self) -> Json:
        while not self._pending:
            data = self._reply.read(CHUNK)
            if not data:
                raise StopIteration
            self._pending.extend(self._decoder.feed(data))
        return self._pending.pop(0)

    def close(self) -> None:
        self._reply.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


def open_tar(pieces: Iterable[bytes]) -> BinaryIO:
    """The pieces of tar_out() as a file object, for tarfile.open(fileobj=..., mode="r|*")."""
    return io.BufferedReader(_Pieces(iter(pieces)))  # type: ignore[arg-type]


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._rest:
            try:
                self._rest = next(self._pieces)
            except StopIteration:
                return 0
        n = min(len(into), len(self._rest))
        into[:n], self._rest = self._rest[:n], self._rest[n:]
        return n
