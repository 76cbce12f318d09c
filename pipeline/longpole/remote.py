"""File systems by URL: what is missing is said with its cure, and of a file no more is fetched than is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler

READ_AHEAD = 4 << 20
"""Bytes fetched at once from a remote file that is read from its beginning; by default some file systems take 50 MB."""

_TAIL = 64 << 10  # holds the footer of all but the widest files
_FILES_AT_ONCE = 64  # their bytes are held until they are written


@dataclass(frozen=True)
class StepRange:
    """Rows of a file that are wanted: those of steps from `first` to `last`, as `column` has them."""

    column: str
    first: int
    last: int


def failures() -> tuple[type[BaseException], ...]:
    """Return what file systems raise where they cannot be reached, read or written: that of S3 has its own."""
    botocore = sys.modules.get("botocore.exceptions")
    return (OSError, NotImplementedError, *([botocore.BotoCoreError] if botocore is not None else []))


def cure_of(error: Exception, url: str) -> str:
    """Return what to do where a URL's file system cannot be had."""
    if isinstance(error, ImportError) and url.startswith(("s3://", "s3a://")):
        return "pip install 'longpole[s3]', here and where workers run."
    return "Give a folder or a URL that fsspec knows."


def reason(error: BaseException) -> str:
    """Return a file system's error in words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def open_file(url: str) -> BinaryIO:
    """Open a file for reading from its beginning.

    Raises:
        OSError: It cannot be read.
    """
    fs, path = fsspec.core.url_to_fs(url)
    return cast(BinaryIO, fs.open(path, "rb", block_size=READ_AHEAD))


def head_of(url: str, n_bytes: int) -> bytes:
    """Return a file's first bytes, no more of it is fetched.

    Raises:
        OSError: It cannot be read.
    """
    fs, path = fsspec.core.url_to_fs(url)
    with open_lean(fs, path) as file:
        return file.read(n_bytes)


def is_local(url: str) -> bool:
    """Return whether a URL means a file of this machine."""
    return isinstance(fsspec.core.url_to_fs(url)[0], LocalFileSystem)


def open_lean(fs: Any, path: str) -> BinaryIO:
    """Open a file that fetches what is read and nothing ahead of it."""
    lean = {"cache_type": "none"} if isinstance(fs, AsyncFileSystem) else {}
    return cast(BinaryIO, fs.open(path, "rb", **lean))


class LeanHandler(FSSpecHandler):  # type: ignore[misc]
    """An fsspec file system for pyarrow, which knows the ranges it needs: reading ahead of them is waste."""

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Return a file for random access."""
        return pa.PythonFile(open_lean(self.fs, path), mode="r")


def fetch(fs: Any, paths: Sequence[str], targets: Sequence[Path], rows: StepRange | None = None) -> None:
    """Copy Parquet files of a remote file system to local ones.

    Args:
        rows: Copy no more than the row groups that can hold these; in place of the others is nothing but zeros, which
            a reader that asks for these rows never looks at.

    Raises:
        OSError: One cannot be read.
    """
    for start in range(0, len(paths), _FILES_AT_ONCE):
        some = slice(start, start + _FILES_AT_ONCE)
        if rows is None:
            fs.get(list(paths[some]), [str(t) for t in targets[some]])
        else:
            _fetch_rows(fs, paths[some], targets[some], rows)


def _fetch_rows(fs: Any, paths: Sequence[str], targets: Sequence[Path], rows: StepRange) -> None:
    sizes = fs.sizes(list(paths))
    starts = [max(0, size - _TAIL) for size in sizes]
    tails = fs.cat_ranges(list(paths), starts, sizes, on_error="raise")
    wanted: list[tuple[int, int, int]] = []
    for n, (path, size, start, tail) in enumerate(zip(paths, sizes, starts, tails, strict=True)):
        footer = size - 8 - int.from_bytes(tail[-8:-4], "little")
        if footer < start:
            tail, start = fs.cat_file(path, footer, start) + tail, footer
        metadata = pq.read_metadata(pa.BufferReader(tail[footer - start :]))
        with targets[n].open("wb") as file:
            file.truncate(size)
            file.seek(start)
            file.write(tail)
        wanted += [(n, low, min(high, start)) for low, high in _ranges(metadata, footer, rows) if low < start]
    found = fs.cat_ranges(
        [paths[n] for n, _, _ in wanted],
        [low for _, low, _ in wanted],
        [high for _, _, high in wanted],
        on_error="raise",
    )
    for (n, low, _), content in zip(wanted, found, strict=True):
        with targets[n].open("r+b") as file:
            file.seek(low)
            file.write(content)


def _ranges(metadata: pq.FileMetaData, footer: int, rows: StepRange) -> list[tuple[int, int]]:
    """Return the ranges of bytes, apart from each other, that hold the wanted row groups and what lies behind them."""
    column = metadata.schema.names.index(rows.column)
    ranges: list[tuple[int, int]] = [(0, 4)]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = [group.column(n) for n in range(group.num_columns)]
        low = min(c.dictionary_page_offset or c.data_page_offset for c in chunks)
        high = max((c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size for c in chunks)
        known = group.column(column).statistics
        if known is None or not known.has_min_max or (known.min <= rows.last and known.max >= rows.first):
            ranges.append((low, high))
        last = high
    ranges.append((last if metadata.num_row_groups else 4, footer))  # filters and indexes of columns
    joined: list[tuple[int, int]] = []
    for low, high in ranges:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        elif low < high:
            joined.append((low, high))
    return joined
