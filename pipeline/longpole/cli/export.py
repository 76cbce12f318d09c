"""`longpole export`: a run as one trace for Perfetto."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import Parameter
from isal import isal_zlib

from longpole import export as traces
from longpole import timeline_trace, timelines
from longpole.chrome_trace import MARK, Sink, Written
from longpole.cli.options import Log, RunArgument, StoreOption, parse_steps, progress, stderr
from longpole.cli.output import output_path, whole_file
from longpole.errors import UsageError
from longpole.session import Session
from longpole.store import refuse_pruned, store_at
from longpole.text import printable
from longpole.units import parse_bytes

_GZIP = 31
"""Window bits of a gzip header, as zlib counts them."""


def export(
    run: RunArgument,
    /,
    *,
    steps: Annotated[
        str | None, Parameter(help="First and last step, as A:B. Default: all, where they are few.")
    ] = None,
    ranks: Annotated[str | None, Parameter(help="Ranks, as 0-7,12. Default: all.")] = None,
    kind: Annotated[traces.Kind, Parameter(help="Device work alone, or the host's too.")] = "all",
    output: Annotated[
        str | None,
        Parameter(name=["--output", "-o"], help="Path of the trace, compressed if in .gz. Default: RUN.trace.json.gz."),
    ] = None,
    store: StoreOption = None,
    force: Annotated[bool, Parameter(help="Overwrite a file that is no trace of longpole's.")] = False,
    memory: Annotated[str, Parameter(help="What reading may hold before it spills to disk.")] = "1GiB",
) -> None:
    """Write all ranks of a run, on one clock, as a trace that ui.perfetto.dev and chrome://tracing open.

    Of an op timeline the trace has each rank twice: as recorded, and as in the step without stragglers.

    Example: longpole export nightly-2117 --steps 100:104 -o trace.json.gz
    """
    console = stderr()
    wanted_steps, wanted_ranks = parse_steps(steps), _ranks(ranks)
    target = store_at(store)
    manifest = target.manifest(run)
    refuse_pruned(manifest, "a trace")
    has_ops = bool(manifest.of(timelines.TABLE))
    path = output_path(output, f"{run}.trace.json.gz", "trace", _begins_as_ours, force=force)
    if has_ops:
        with Session(target, [run], memory=parse_bytes(memory)) as session, session.explaining():
            chosen = timeline_trace.choose(session.con, run, wanted_steps, wanted_ranks)
            with (
                whole_file(path) as file,
                _sink(file, is_packed=path.suffix == ".gz") as sink,
                progress(console, "export ranks", len(chosen.ranks)) as advance,
            ):
                written = timeline_trace.write(session.con, chosen, sink, advance)
        _tell(console, path, written)
        return
    with Session(target, [run], memory=parse_bytes(memory)) as session, session.explaining():
        choice = traces.choose(session.con, run, wanted_steps, wanted_ranks)
        with (
            whole_file(path) as file,
            _sink(file, is_packed=path.suffix == ".gz") as sink,
            progress(console, "export ranks", len(choice.ranks)) as advance,
        ):
            written = traces.write(session.con, choice, kind, sink, advance)
    if not choice.is_aligned:
        console.print(f"{printable(choice.clocks)}; each rank keeps its own clock in the trace")
    _tell(console, path, written)


def _tell(console: Log, path: Path, written: Written) -> None:
    if written.n_left_out:
        console.print(f"{written.n_left_out} slices that overlap too many others were left out")
    console.print(f"wrote {path}: {written.n_slices} slices")


def _ranks(text: str | None) -> list[int] | None:
    """Return the ranks that "0-7,12" means, sorted.

    Raises:
        UsageError: The text means no ranks.
    """
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,7})(?:-([0-9]{1,7}))?\s*", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if high < low:
            raise UsageError(f"{text!r} names no ranks", "Give numbers and ranges, as --ranks 0-7,12.")
        found.update(range(low, high + 1))
    return sorted(found)


def _begins_as_ours(head: bytes) -> bool:
    mark = MARK.encode("ascii")
    if head.startswith(b"\x1f\x8b"):
        try:
            head = isal_zlib.decompressobj(wbits=_GZIP).decompress(head, len(mark))
        except isal_zlib.IsalError:  # type: ignore[misc]  # the stubs call the class an instance
            return False
    return head.startswith(mark)


@contextlib.contextmanager
def _sink(file: BinaryIO, *, is_packed: bool) -> Iterator[Sink]:
    if not is_packed:
        yield lambda text: file.write(text.encode("ascii"))
        return
    packer = isal_zlib.compressobj(2, wbits=_GZIP)  # its header holds no time: equal rows, equal bytes
    yield lambda text: file.write(packer.compress(text.encode("ascii")))
    file.write(packer.flush())
