"""Nsight Systems' `parquetdir` export: a folder with a Parquet file for each table, which together are one dump."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import fsspec
from fsspec.implementations.local import LocalFileSystem

from longpole import remote, scratch
from longpole.errors import DumpError
from longpole.events import DumpFacts
from longpole.formats import ReadOptions, Sink, nsys_export
from longpole.formats.parquet_tables import ParquetTables

TEXTS = "StringIds"
"""The table that every export has, so a folder with its file is one."""

_TABLE = re.compile(
    rf"({TEXTS}|ProcessStreams|ThreadNames|(?:ANALYSIS|CUDA|CUPTI|DIAGNOSTIC|ENUM|META_DATA|NVTX|OSRT|PROFILER"
    r"|SCHED|TARGET_INFO)_\w{1,100}|PROCESSES)\.parquet",
    re.ASCII,
)


def table_of(path: str) -> str | None:
    """Return the table that a file holds by its name, None where no export has such a file."""
    match = _TABLE.fullmatch(PurePosixPath(path).name)
    return match[1] if match else None


def local_tables(urls: Sequence[str], folder: Path) -> dict[str, Path]:
    """Return where each table's file lies on this machine; those from elsewhere are copied into `folder`.

    Raises:
        OSError: One cannot be fetched.
    """
    found: dict[str, Path] = {}
    for url in urls:
        fs, path = fsspec.core.url_to_fs(url)
        table = table_of(path)
        if table is None or not nsys_export.is_read(table):
            continue
        if isinstance(fs, LocalFileSystem):
            found[table] = Path(path)
            continue
        folder.mkdir(exist_ok=True)
        found[table] = folder / f"{table}.parquet"
        remote.fetch(fs, [path], [found[table]])
    return found


def read(paths: Mapping[str, Path], name: str, sink: Sink, options: ReadOptions) -> DumpFacts:
    """Hand over all rows of an export and return what else it says.

    Args:
        paths: Of the tables' files.
        name: Of the folder, as a person knows it.
        sink: Takes the rows.
        options: Where temporary files go.

    Raises:
        DumpError: A file is damaged, or the tables are no profile.
    """
    with (
        scratch.folder(options.scratch) as inside,
        ParquetTables(paths, name, Path(inside)) as tables,
    ):
        if not nsys_export.is_export(tables):
            raise DumpError(
                f"{name} is an Nsight Systems export without device work, calls or NVTX ranges",
                "Record with nsys profile --trace=cuda,nvtx, and export again.",
            )
        return nsys_export.read(tables, name, sink, options.marker)
