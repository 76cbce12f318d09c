"""A timers log of 64 ranks and 2,000 steps, of one file: how long to ranges, and how much memory it takes.

    python tests/bench/timers.py [--ranks 64] [--steps 2000]

Lines are made while they are read, so that no disk is in the numbers.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator

from measuring import Clock, peak_bytes

from longpole.formats import ReadOptions
from longpole.formats.timers_log import TimersReader

STEP_MS = 110
PARTS = (("data_loading", 0, 10), ("forward", 10, 40), ("backward", 40, 70), ("grads-all-reduce", 70, 100))


def blocks(ranks: int, steps: int) -> Iterator[bytes]:
    """Yield the lines of each step of all ranks: its own, and a line a part."""
    for step in range(steps):
        start = 1_700_000_000_000 + STEP_MS * step
        rows = []
        for rank in range(ranks):
            head = f'{{"rank": {rank}, "step": {step}, "name": '
            rows.append(f'{head}"step", "start_ms": {start}, "duration_ms": {STEP_MS}}}\n')
            rows += [f'{head}"{n}", "start_ms": {start + a}.25, "duration_ms": {b - a}}}\n' for n, a, b in PARTS]
        yield "".join(rows).encode()


class Made(io.RawIOBase):
    """The lines as a file."""

    def __init__(self, ranks: int, steps: int) -> None:
        self._blocks = blocks(ranks, steps)
        self.n_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next step's lines, whatever the size."""
        block = next(self._blocks, b"")
        self.n_bytes += len(block)
        return block


def main() -> None:
    """Read one made log and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2_000)
    told = parser.parse_args()
    file = Made(told.ranks, told.steps)
    with Clock() as took:
        facts = TimersReader().read(file, "timers.jsonl", lambda batch: None, ReadOptions())  # type: ignore[arg-type]
    peak = peak_bytes() >> 20
    n_lines = told.ranks * told.steps * (1 + len(PARTS))
    print(f"{n_lines:,} lines, {file.n_bytes / 1e6:,.0f} MB: {took.cpu_s:.1f} CPU s, {took.wall_s:.1f} s, {peak:,} MiB")
    print(f"{facts.n_stored:,} ranges of {len(facts.processes)} ranks, {facts.n_dropped} dropped")


if __name__ == "__main__":
    main()
