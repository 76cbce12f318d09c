"""Kineto dumps as a host with a wrong clock would have written them: every time moved by an offset and a drift.

Both ends of an event are read from that clock, so durations stretch with it; `baseTimeNanoseconds` stays. All
arithmetic is on integers, in nanoseconds.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TIMES = re.compile(rb'(?<!\\)"ts": ([0-9]+)(?:\.([0-9]+))?(?:, "dur": ([0-9]+)(?:\.([0-9]+))?)?(?![0-9.eE+-])')
"""A start and, right behind it as the profiler writes them, a duration; a quote inside a name has a backslash."""

_KEYS = re.compile(rb'(?<!\\)"(?:ts|dur)": ')


@dataclass(frozen=True)
class ClockError:
    """How wrong a clock is: at `since_ns` (of the true clock, without the dump's base) by the offset, from there by the drift."""

    offset_ns: int
    drift_ppb: int
    since_ns: int = 0

    def applied(self, ns: int) -> int:
        """Return what the clock shows at a true time, to the nearest nanosecond."""
        return ns + self.offset_ns + _nearest(self.drift_ppb * (ns - self.since_ns), 10**9)


def skewed_copy(source: Path, target: Path, error: ClockError) -> None:
    """Write the dump `source` to `target`, gzip'd, with the times of a wrong clock.

    Raises:
        ValueError: A time is written in a way that is not known here, or would fall below 0.
    """
    raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    text, n_starts = _TIMES.subn(_moving(error), raw)
    n_durations = sum(1 for _ in re.finditer(rb'(?<!\\)"ts": [0-9.]+, "dur": ', raw))
    if len(_KEYS.findall(raw)) != n_starts + n_durations:
        raise ValueError(f"{source.name}: a time stands alone, or is no plain number")
    # No name and no time in the gzip header: equal input, equal bytes.
    target.write_bytes(gzip.compress(text, 1, mtime=0))


def skewed_copies(dumps: Sequence[Path], folder: Path, errors: Sequence[ClockError]) -> None:
    """Write a copy of each dump into `folder` under its own name, each with the error at its place."""
    folder.mkdir(parents=True, exist_ok=True)
    for source, error in zip(dumps, errors, strict=True):
        name = source.name if source.suffix == ".gz" else f"{source.name}.gz"
        skewed_copy(source, folder / name, error)


def first_start_ns(dump: Path) -> int:
    """Return the earliest start that a dump writes, in nanoseconds, without its base."""
    raw = gzip.decompress(dump.read_bytes()) if dump.suffix == ".gz" else dump.read_bytes()
    return min(_nanoseconds(m[1], m[2]) for m in _TIMES.finditer(raw) if m[3] is not None)


def _moving(error: ClockError) -> Callable[[re.Match[bytes]], bytes]:
    def moved(match: re.Match[bytes]) -> bytes:
        start_ns = _nanoseconds(match[1], match[2])
        start = error.applied(start_ns)
        if start < 0:
            raise ValueError(f"{match[0]!r} would fall below 0")
        if match[3] is None:
            return b'"ts": %d.%03d' % divmod(start, 1000)
        end = error.applied(start_ns + _nanoseconds(match[3], match[4]))
        return b'"ts": %d.%03d, "dur": %d.%03d' % (*divmod(start, 1000), *divmod(end - start, 1000))

    return moved


def _nanoseconds(whole: bytes, decimals: bytes | None) -> int:
    decimals = decimals or b""
    if len(decimals) > 3:
        raise ValueError(f"{(whole + b'.' + decimals).decode()} µs has digits below 1 ns")
    return int(whole) * 1000 + int(decimals.ljust(3, b"0"))


def _nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
