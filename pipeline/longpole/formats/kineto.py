"""Reads JSON of trace events: of PyTorch's profiler of every generation since 2021, or as a layout tells, streaming.

bytes -> blocks of whole events -> rows, in threads -> batches in file order
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

import pyarrow as pa

from longpole.errors import DumpError
from longpole.events import DumpFacts
from longpole.formats import ReadOptions, Sink, sniff
from longpole.formats.blocks import LONGEST_EVENT, EventBlocks, NoEventsError
from longpole.formats.bytestream import ByteStream
from longpole.formats.decode import MOST_RANKS
from longpole.formats.fields import KINETO
from longpole.formats.frame import Frame, Origin, origin, rank_at, read_frame
from longpole.formats.halves import Halves
from longpole.formats.layout import Layout
from longpole.formats.salvage import Ladder
from longpole.formats.tally import Decoded, Tally
from longpole.formats.times import INT64_MAX

_BATCH_ROWS = 100_000
_BATCH_BYTES = 64 << 20
_MOST_ROWS = 200_000


class KinetoReader:
    """Reads `{"traceEvents": [...]}` and bare lists of trace events."""

    def __init__(self, layout: Layout = KINETO) -> None:
        self.name = layout.name
        self._layout = layout

    def recognises(self, head: bytes, path: str) -> bool:
        """Return whether a file that begins with `head` (decompressed, up to 64 KiB) may be such a dump."""
        return sniff.is_trace_events(head)

    def read(self, file: BinaryIO, path: str, sink: Sink, options: ReadOptions) -> DumpFacts:
        """Hand the rows of a dump to `sink`, and return what else it says and what was lost.

        Raises:
            DumpError: There are no events in it at all: it is something else, or ends before the first.
        """
        stream = ByteStream(file)
        pieces = iter(stream)
        head = b""
        for piece in pieces:
            head += piece
            if len(head) >= sniff.HEAD_BYTES:
                break
        if not head and stream.problem:
            raise DumpError(
                f"{path} cannot be decompressed: {stream.problem}", "Copy it again from where it was written."
            )
        if not sniff.is_trace_events(head):
            raise DumpError(*sniff.refusal(head, path))
        blocks = EventBlocks(_chain(head, pieces))
        tally = Tally()
        batches = _Batches(sink)
        halves = Halves()
        try:
            for decoded in _decoded(blocks, self._layout, options):
                tally.add(decoded.tally)
                if len(tally.ranks) > MOST_RANKS:
                    raise DumpError(
                        f"{path} has events of more than {MOST_RANKS} ranks", "Give dumps of one machine each."
                    )
                batches.add(decoded.table)
                if decoded.halves is not None:
                    batches.add(halves.joined(decoded.halves, tally))
        except NoEventsError:
            raise DumpError(*sniff.refusal(blocks.header, path)) from None
        batches.flush()
        halves.end(tally)
        return _facts(self._layout, blocks, stream, tally)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _decoded(blocks: EventBlocks, layout: Layout, options: ReadOptions) -> Iterator[Decoded]:
    """Yield the decoded blocks in file order, with as many at work at once as there are threads."""
    ladder = Ladder(layout, options.keep_python)
    n_threads = max(1, options.threads)
    waiting: deque[Future[Decoded]] = deque()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="longpole-decode") as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(ladder.decode, block))
                if len(waiting) > n_threads + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class _Batches:
    """Joins the rows of blocks to batches of a size that suits a row group."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._tables: list[pa.Table] = []
        self._n_rows = self._n_bytes = 0

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._tables.append(table)
        self._n_rows += table.num_rows
        self._n_bytes += table.nbytes
        if self._n_rows >= _BATCH_ROWS or self._n_bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._tables:
            return
        whole = pa.concat_tables(self._tables).unify_dictionaries()
        self._tables, self._n_rows, self._n_bytes = [], 0, 0
        for start in range(0, whole.num_rows, _MOST_ROWS):
            self._sink(whole.slice(start, _MOST_ROWS))


def _facts(layout: Layout, blocks: EventBlocks, stream: ByteStream, tally: Tally) -> DumpFacts:
    frame = read_frame(
        blocks.header,
        blocks.trailer,
        is_list=blocks.is_list,
        is_cut=blocks.is_cut,
        is_whole=not blocks.n_unkept_trailer,
    )
    told = origin(frame)
    rank = told.rank if not layout.rank_path else rank_at(frame, layout.rank_path)
    if len(tally.ranks) == 1:
        (rank,) = tally.ranks
    ranks = tuple(sorted(tally.ranks)) if len(tally.ranks) > 1 else ()
    if blocks.n_cut:
        tally.drop(blocks.n_cut, f"the dump ends in the middle of an event, {blocks.n_lost_bytes:,} bytes into it")
    if blocks.n_endless:
        tally.drop(blocks.n_endless, f"no end within {LONGEST_EVENT >> 20} MiB")
    return DumpFacts(
        format=layout.name,
        schema=_schema(layout, told, blocks.is_list, tally.is_of_2021),
        base_ns=_base(told, frame, tally),
        rank=rank,
        world_size=told.world_size,
        backend=told.backend,
        host=told.host,
        devices=told.devices,
        process_groups=told.process_groups,
        trace_id=told.trace_id,
        n_events=tally.n_events + blocks.n_cut + blocks.n_endless,
        n_stored=tally.n_stored,
        n_skipped=tally.skipped.total(),
        n_dropped=tally.n_dropped,
        n_salvaged=tally.n_salvaged,
        n_rounded=tally.n_rounded,
        n_bad_times=tally.n_bad_times,
        skipped=tuple(sorted((+tally.skipped).items())),
        samples=tuple(tally.samples),
        is_truncated=stream.is_cut or frame.is_cut,
        n_lost_bytes=blocks.n_lost_bytes + frame.n_lost_bytes,
        processes=ranks,
        processes_are_ranks=bool(ranks),
        notes=(*_notes(blocks, stream, tally, frame.is_cut), *frame.notes),
    )


def _schema(layout: Layout, told: Origin, is_list: bool, is_of_2021: bool) -> str:
    if layout is not KINETO:
        version = "trace events as run.toml tells"
    elif is_of_2021:
        return "kineto 2021"
    else:
        version = "events alone" if is_list else f"kineto {told.schema}" if told.schema is not None else "kineto"
    return f"{version}, {'absolute time' if told.base_ns is None else 'base time'}"


def _base(told: Origin, frame: Frame, tally: Tally) -> int:
    """Return what is to be added to every start; 0 where that would leave int64, which is then noted."""
    base = told.base_ns or 0
    if tally.last_ns is not None and base + tally.last_ns > INT64_MAX:
        frame.notes.append(f"baseTimeNanoseconds {base} would carry the times beyond int64 and is not used.")
        return 0
    return base


def _notes(blocks: EventBlocks, stream: ByteStream, tally: Tally, is_cut: bool) -> Iterator[str]:
    if stream.problem:
        yield f"In the file, {stream.problem}."
    if is_cut:
        yield "The dump ends early; what stood behind its events is lost."
    if n_unkept := blocks.n_unkept_header + blocks.n_unkept_trailer:
        yield f"{n_unkept:,} bytes around the events are more than a dump has to say, and are left unread."
    for what, n in sorted((+tally.oddities).items()):
        yield f"{what}: {n:,}."
