"""The rule of critical paths on hand-made rows: what breaks it is found, and nothing else."""

from __future__ import annotations

import duckdb
import pytest

from longpole import catalog

Segment = tuple[int, int, int]
"""Place, start, end."""


def _broken(
    segments: list[Segment], *, duration: int | None = 100, kinds: int | None = 100
) -> list[tuple[int | None, ...]]:
    """Return what the rule says of one step from 1000, without run and step."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE steps AS SELECT 'r' AS run, 7::BIGINT AS step, CASE WHEN $1 IS NOT NULL THEN 1000 END::BIGINT"
        " AS start_ns, 1000 + $1::BIGINT AS end_ns, $1::BIGINT AS duration_ns",
        [duration],
    )
    con.execute(
        "CREATE TABLE step_critical_path"
        " (run TEXT, step BIGINT, seq BIGINT, start_ns BIGINT, end_ns BIGINT, duration_ns BIGINT)"
    )
    for seq, start, end in segments:
        con.execute("INSERT INTO step_critical_path VALUES ('r', 7, $1, $2, $3, $4)", [seq, start, end, end - start])
    con.execute("CREATE TABLE step_path_kinds (run TEXT, step BIGINT, duration_ns BIGINT)")
    if kinds is not None:
        con.execute("INSERT INTO step_path_kinds VALUES ('r', 7, $1)", [kinds])
    rows = con.execute(catalog.relations()["paths_add_up"].sql).fetchall()
    assert {row[:2] for row in rows} <= {("r", 7)}
    return [row[2:] for row in rows]


WHOLE = [(0, 1000, 1040), (1, 1040, 1100)]


def test_segments_that_tile_the_step_are_fine() -> None:
    assert _broken(WHOLE) == []


@pytest.mark.parametrize("duration", [None, 0])
def test_a_step_without_length_has_no_path(duration: int | None) -> None:
    assert _broken([], duration=duration, kinds=None) == []
    assert _broken(WHOLE, duration=duration) == [(duration, 100, 100, 1 if duration is None else 0, 0)]


@pytest.mark.parametrize(
    ("segments", "row"),
    [
        ([], (100, None, 100, 0, 0)),
        ([(0, 1000, 1040), (1, 1041, 1100)], (100, 99, 100, 1, 0)),
        ([(0, 1000, 1041), (1, 1040, 1100)], (100, 101, 100, 1, 0)),
        ([(0, 1001, 1101)], (100, 100, 100, 1, 0)),
        ([(0, 1000, 1099)], (100, 99, 100, 0, 0)),
        ([(0, 1000, 1000), (1, 1000, 1100)], (100, 100, 100, 0, 1)),
        ([(0, 1000, 1060), (1, 1060, 1050), (2, 1050, 1100)], (100, 100, 100, 0, 1)),
    ],
    ids=["none", "gap", "overlap", "late", "short", "empty", "backwards"],
)
def test_a_path_that_is_not_its_step_is_found(segments: list[Segment], row: tuple[int | None, ...]) -> None:
    assert _broken(segments) == [row]


def test_kinds_that_do_not_add_up_are_found() -> None:
    assert _broken(WHOLE, kinds=99) == [(100, 100, 99, 0, 0)]
    assert _broken(WHOLE, kinds=None) == [(100, 100, None, 0, 0)]
