"""Kineto dumps as a host with a wrong clock would have written them: every time moved by an offset and a drift.

Both ends of an event are read from that clock, so durations stretch with it; `baseTimeNanoseconds` stays. All
arithmetic is on integers, in nanoseconds.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TIMES = re.compile(
    rb'(?<!\\)"ts": (?P<start>[0-9]+)(?:\.(?P<start_rest>[0-9]+))?'
    rb'(?:(?P<between>,\s*"dur": )(?P<length>[0-9]+)(?:\.(?P<length_rest>[0-9]+))?)?(?![0-9.eE+-])'
)
"""A start and, right behind it as the profiler writes them, a duration; a quote inside a name has a backslash."""

_KEYS = re.compile(rb'(?<!\\)"(?:ts|dur)": ')


@dataclass(frozen=True)
class ClockError:
    """How wrong a clock is: by the offset at `since_ns`, a true time without the base, and by the drift from there."""

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
    moving = _Moving(error)
    text = _TIMES.sub(moving, raw)
    if len(_KEYS.findall(raw)) != moving.n_times:
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
    return min(_nanoseconds(m["start"], m["start_rest"]) for m in _TIMES.finditer(raw) if m["length"])


class _Moving:
    """Replaces the times of a match, and counts them."""

    def __init__(self, error: ClockError) -> None:
        self._error = error
        self.n_times = 0

    def __call__(self, match: re.Match[bytes]) -> bytes:
        was, was_rest, between, length, length_rest = match.groups()
        start_ns = _nanoseconds(was, was_rest)
        start = self._error.applied(start_ns)
        if start < 0:
            raise ValueError(f"{match[0]!r} would fall below 0")
        self.n_times += 1
        if between is None:
            return b'"ts": %d.%03d' % divmod(start, 1000)
        self.n_times += 1
        end = self._error.applied(start_ns + _nanoseconds(length, length_rest))
        return b'"ts": %d.%03d%s%d.%03d' % (*divmod(start, 1000), between, *divmod(end - start, 1000))


def _nanoseconds(whole: bytes, decimals: bytes | None) -> int:
    decimals = decimals or b""
    if len(decimals) > 3:
        raise ValueError(f"{(whole + b'.' + decimals).decode()} µs has digits below 1 ns")
    return int(whole) * 1000 + int(decimals.ljust(3, b"0"))


def _nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
