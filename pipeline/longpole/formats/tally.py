"""What is counted while a dump is read; block by block, added up in file order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

_MAX_SAMPLES = 5
_SAMPLE_CHARS = 200


@dataclass
class Tally:
    """Counts of the events of one block, or of a dump; n_events == n_stored + n_skipped + n_dropped."""

    n_events: int = 0
    n_stored: int = 0
    n_dropped: int = 0
    n_salvaged: int = 0
    n_rounded: int = 0
    n_bad_times: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)  # what is odd about a value, how many
    samples: list[str] = field(default_factory=list)
    is_of_2021: bool = False
    ranks: set[int] = field(default_factory=set)  # that events of devices say they are of
    first_ns: int | None = None  # earliest start and latest end of what is stored
    last_ns: int | None = None

    def add(self, other: Tally) -> None:
        """Add the counts of the next block."""
        self.n_events += other.n_events
        self.n_stored += other.n_stored
        self.n_dropped += other.n_dropped
        self.n_salvaged += other.n_salvaged
        self.n_rounded += other.n_rounded
        self.n_bad_times += other.n_bad_times
        self.skipped.update(other.skipped)
        self.oddities.update(other.oddities)
        self.samples = (self.samples + other.samples)[:_MAX_SAMPLES]
        self.is_of_2021 |= other.is_of_2021
        self.ranks |= other.ranks  # at most 65 of a block, which makes any dump of more be refused
        if other.first_ns is not None:
            self.first_ns = other.first_ns if self.first_ns is None else min(self.first_ns, other.first_ns)
        if other.last_ns is not None:
            self.last_ns = other.last_ns if self.last_ns is None else max(self.last_ns, other.last_ns)

    def drop(self, n: int, why: str, text: str = "") -> None:
        """Count `n` events as lost, and keep a sample of them."""
        self.n_dropped += n
        self.keep_sample(why, text)

    def keep_sample(self, why: str, text: str = "") -> None:
        """Keep why an event was lost, with what it looked like."""
        if len(self.samples) < _MAX_SAMPLES:
            self.samples.append(sample(f"{why}: {text}" if text else why))


@dataclass
class Decoded:
    """The rows of one block, RAW_SCHEMA in file order, and its counts."""

    table: pa.Table
    tally: Tally
    halves: pa.Table | None = None  # begins and ends, likewise, with a column is_begin; counted as skipped


def sample(text: str) -> str:
    """Return the beginning of a text that may hold anything, fit to be printed on one line."""
    shown = " ".join(text[: 4 * _SAMPLE_CHARS].split())
    return "".join(char if char.isprintable() else "?" for char in shown)[:_SAMPLE_CHARS]
