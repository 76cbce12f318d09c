"""The seam between dump formats and everything else: a reader turns a file's bytes into batches of RAW_SCHEMA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import BinaryIO, Protocol

import pyarrow as pa

from longpole.config import Chrome
from longpole.events import DumpFacts

ENTRY_POINTS = "longpole.formats"
"""Group of entry points under which installed packages offer readers: classes that take no argument."""

Sink = Callable[[pa.Table], None]
"""Takes the next batch (RAW_SCHEMA, file order, at most ~200,000 rows); called from one thread at a time, in order."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a dump."""

    threads: int = 1  # decoders beside the thread that reads and splits
    keep_python: bool = False  # Python frames are the bulk of some dumps
    scratch: str | None = None  # folder for temporary files; None: the system's own
    marker: str | None = None  # RE2 pattern of the run's step markers; None: torch.profiler's own


class Reader(Protocol):
    """One dump format."""

    name: str

    def recognises(self, head: bytes, path: str) -> bool:
        """Return whether a file that begins with `head` (decompressed, up to 64 KiB) is of this format."""
        ...

    def read(self, file: BinaryIO, path: str, sink: Sink, options: ReadOptions) -> DumpFacts:
        """Read the whole file, handing batches to `sink`, and return what else it says.

        Raises:
            DumpError: The file is no dump of this format at all. A damaged dump is no error:
                what is whole is handed over and the facts say what is missing.
        """
        ...


def reader_for(head: bytes, path: str, chrome: Chrome | None = None) -> Reader:
    """Return the reader of a file that begins with `head` (decompressed, up to 64 KiB); installed ones are asked first.

    Args:
        head: The file's beginning.
        path: Its name, for messages and formats without a magic of their own.
        chrome: How the run's run.toml says that trace events are read; None: as PyTorch's profiler writes them.

    Raises:
        DumpError: No reader knows it; the error says what the file is instead.
        LongpoleError: An installed reader cannot be loaded.
    """
    # Here, because the readers themselves import this seam.
    from longpole.errors import DumpError
    from longpole.formats import sniff
    from longpole.formats.chrome import layout_of
    from longpole.formats.fields import KINETO
    from longpole.formats.kineto import KinetoReader
    from longpole.formats.nsys_recipe import NsysRecipeReader
    from longpole.formats.rocprofv3_json import RocprofJsonReader
    from longpole.formats.sqlite_dump import SqliteReader
    from longpole.formats.timers_log import TimersReader

    events = KinetoReader(KINETO if chrome is None else layout_of(chrome))
    for reader in (*_installed(), RocprofJsonReader(), TimersReader(), events, NsysRecipeReader(), SqliteReader()):
        if reader.recognises(head, path):
            return reader
    raise DumpError(*sniff.refusal(head, path))


@cache
def _installed() -> tuple[Reader, ...]:
    """Return the readers that installed packages offer, in order of name."""
    from longpole.errors import LongpoleError

    readers: list[Reader] = []
    for point in sorted(entry_points(group=ENTRY_POINTS)):
        try:
            readers.append(point.load()())
        except Exception as error:
            raise LongpoleError(
                f"the reader {point.name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}",
                "Mend or uninstall the package that offers it.",
            ) from None
    return tuple(readers)
