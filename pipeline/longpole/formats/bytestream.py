"""A file's bytes, decompressed as they come: gzip is told by its magic, not by its name; a cut end is no error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from isal import isal_zlib

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's spelling of "expect a gzip header"
_RAW_READ = 1 << 20
_GZIP_READ = 128 << 10  # a profiler dump inflates about 15 times
_INFLATED = 256 << 10  # at most so much at once, however hard the input was squeezed; lost where gzip is damaged


class ByteStream:
    """The decompressed pieces of one file, in order; ask the attributes after the last."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.is_cut = False  # the compressed bytes end early or are damaged
        self.problem = ""  # what is wrong with them, a clause for a person

    def __iter__(self) -> Iterator[bytes]:
        first = self._file.read(_GZIP_READ)
        if first[:2] == _GZIP_MAGIC:
            yield from self._inflated(first)
            return
        while first:
            yield first
            first = self._file.read(_RAW_READ)

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        member = isal_zlib.decompressobj(_GZIP_WINDOW)
        try:
            while data:
                out = member.decompress(data, _INFLATED)
                if out:
                    yield out
                if member.eof:
                    data = member.unused_data.lstrip(b"\0") or self._file.read(_GZIP_READ).lstrip(b"\0")
                    if data and data[:2] != _GZIP_MAGIC[: len(data[:2])]:
                        self.problem = "bytes that are no gzip follow its end"
                        return
                    member = isal_zlib.decompressobj(_GZIP_WINDOW)
                else:
                    data = member.unconsumed_tail or self._file.read(_GZIP_READ)
                    if not data:
                        self.is_cut, self.problem = True, "the gzip stream ends early"
        except isal_zlib.IsalError as error:  # type: ignore[misc]  # the stubs call the class an instance
            self.is_cut, self.problem = True, f"the gzip stream is damaged ({error})"
