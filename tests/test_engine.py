"""What is published lies in its order, whether or not its rows came in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longpole import catalog
from longpole.engine import connection, quoted, write_ordered

IN_ORDER = [(1, 7), (1, 9), (1, None), (2, 3), (2, 3), (None, 1)]


def written(folder: Path, rows: Sequence[tuple[int | None, int | None]], *, is_sorted: bool) -> list[tuple[Any, ...]]:
    """Return the rows of the file that these rows become, and check how many it says there are."""
    file = folder / "made.parquet"
    with connection(folder, 1 << 28) as con:
        con.execute("CREATE TABLE made (a INTEGER, b BIGINT)")
        con.executemany("INSERT INTO made VALUES ($1, $2)", rows)
        assert write_ordered(con, "SELECT a, b FROM made", "a, b", file, is_sorted=is_sorted) == len(rows)
        assert [path.name for path in folder.iterdir()] == ["made.parquet"]
        return con.execute(f"FROM read_parquet({quoted(file)})").fetchall()


@pytest.mark.parametrize("is_sorted", [True, False])
def test_rows_that_come_in_order_stay_in_it(is_sorted: bool, tmp_path: Path) -> None:
    assert written(tmp_path, IN_ORDER, is_sorted=is_sorted) == IN_ORDER


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize(
    "rows",
    [
        [(1, 7), (1, None), (1, 9), (2, 3), (2, 3), (None, 1)],
        [(None, 1), (1, 7), (1, 9), (1, None), (2, 3), (2, 3)],
        [(1, 7), (1, 9), (1, None), (2, 3), (None, 1), (2, 3)],
    ],
)
def test_rows_that_do_not_are_sorted_with_null_last_even_where_they_were_thought_to_come_in_order(
    rows: list[tuple[int | None, int | None]], is_sorted: bool, tmp_path: Path
) -> None:
    assert written(tmp_path, rows, is_sorted=is_sorted) == IN_ORDER


def test_a_join_that_keeps_few_rows_and_then_all_keeps_their_order(tmp_path: Path) -> None:
    file = tmp_path / "made.parquet"
    with connection(tmp_path, 1 << 28) as con:
        con.execute("CREATE TABLE made AS SELECT i AS a FROM range(10000) AS t (i)")
        con.execute("CREATE TABLE kept AS SELECT i AS a FROM range(10000) AS t (i) WHERE i >= 5000 OR i % 100 = 0")
        con.execute(f"COPY (SELECT made.a FROM made JOIN kept ON made.a = kept.a) TO {quoted(file)} (FORMAT parquet)")
        rows = con.execute(f"FROM read_parquet({quoted(file)})").fetchall()

    assert [a for (a,) in rows] == [*range(0, 5000, 100), *range(5000, 10000)]


def test_rows_that_come_in_order_say_in_which() -> None:
    with connection(Path(), 1 << 28) as con, pytest.raises(ValueError, match="columns of their order"):
        catalog.parse("made", "run", "-- One row.\n--\n-- Scope: run\n-- As: sorted\nSELECT 1 AS a", con)
