"""SQLite databases that profilers write: which profiler's it is, its tables say."""

from __future__ import annotations

from typing import BinaryIO

from longpole.errors import DumpError
from longpole.events import DumpFacts
from longpole.formats import ReadOptions, Sink, nsys_export, rocprofv3, rpd
from longpole.formats.sqlite_file import MAGIC, SqliteFile, on_disk


class SqliteReader:
    """Reads Nsight Systems' exports and ROCm's RPD and rocpd."""

    name = "sqlite"

    def recognises(self, head: bytes, path: str) -> bool:
        """Return whether the file is an SQLite database at all; `read` says whose."""
        return head.startswith(MAGIC)

    def read(self, file: BinaryIO, path: str, sink: Sink, options: ReadOptions) -> DumpFacts:
        """Hand over the rows of a database that a profiler wrote; a file elsewhere is copied here first.

        Raises:
            DumpError: It is damaged, locked, or no profiler's.
        """
        with on_disk(file, path, options.scratch) as local, SqliteFile(local, path) as database:
            if nsys_export.is_export(database):
                return nsys_export.read(database, path, sink, options.marker)
            if rpd.is_profile(database):
                return rpd.read(database, path, sink)
            if rocprofv3.recordings(database):
                return rocprofv3.read(database, path, sink)
            shown = ", ".join(sorted(database.tables)[:5]) or "none"
            raise DumpError(
                f"{path} is an SQLite database of no known profiler (its first tables: {shown[:200]})",
                "Of SQLite, ROCm's RPD and rocpd are read, and Nsight Systems' exports:"
                " nsys export --type sqlite REPORT.nsys-rep",
            )
