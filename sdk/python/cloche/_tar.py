# SPDX-License-Identifier: Apache-2.0
"""The pieces of tar_out() as a file object, for tarfile.open(fileobj=..., mode="r|*")."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, Iterable, Iterator


def open_tar(pieces: Iterable[bytes]) -> BinaryIO:
    """The pieces of files.tar_out() as a file object, for tarfile.open(fileobj=…, mode="r|*")."""
    return io.BufferedReader(_Pieces(iter(pieces)))


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
