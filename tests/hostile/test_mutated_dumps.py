"""Whatever is done to a dump of any format, it is refused in words or read, and what is lost is counted.

LONGPOLE_FUZZ_CASES sets how many cases each property takes. A case is a format and a number, and makes the same bytes
again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile import mutations
from hostile.consuming import consumed
from hostile.seeds import case, mutated, seeds

N_CASES = int(os.environ.get("LONGPOLE_FUZZ_CASES", "8"))

COUNTED = sorted(name for name, seed in seeds().items() if seed.counted)


def for_each(check: Callable[[int], None], n_cases: int = N_CASES) -> None:
    """Try the property with so many numbers, the same ones each time."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    numbers = st.integers(0, 2**32)
    settings(max_examples=n_cases, deadline=None, derandomize=True, database=None, suppress_health_check=slow)(
        given(number=numbers)(check)
    )()


@pytest.mark.parametrize("name", sorted(seeds()))
def test_a_damaged_dump_is_refused_or_read_and_adds_up(tmp_path: Path, name: str) -> None:
    seed = seeds()[name]

    def check(number: int) -> None:
        consumed(tmp_path, seed, mutated(seed, case(name, number), tmp_path))

    for_each(check)


@pytest.mark.parametrize("name", sorted(name for name, seed in seeds().items() if seed.kind == "trace"))
def test_every_event_with_odd_values_is_stored_skipped_or_counted_as_dropped(tmp_path: Path, name: str) -> None:
    seed = seeds()[name]

    def check(number: int) -> None:
        data, n_events = mutations.trace(seed.data, case(name, number))
        assert consumed(tmp_path, seed, data).n_events == n_events

    for_each(check)


@pytest.mark.parametrize("name", COUNTED)
def test_every_row_with_odd_values_is_stored_skipped_or_counted_as_dropped(tmp_path: Path, name: str) -> None:
    seed = seeds()[name]
    whole = consumed(tmp_path, seed, seed.data)

    def check(number: int) -> None:
        random = case(name, number)
        if seed.kind == "sqlite":
            data = mutations.cells(seed.data, random, tmp_path, seed.counted)
        else:
            data = mutations.parquet_values(seed.data, random, seed.counted)
        found = consumed(tmp_path, seed, data)
        assert found.error or found.n_events == whole.n_events

    for_each(check)


@pytest.mark.parametrize("name", sorted(seeds()))
def test_the_dumps_that_are_damaged_here_are_whole_before(tmp_path: Path, name: str) -> None:
    whole = consumed(tmp_path, seeds()[name], seeds()[name].data)
    assert (whole.error, whole.n_dropped) == (None, 0)
    assert whole.n_stored >= 4
