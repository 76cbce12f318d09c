"""Macros: what each makes of values, and that its file says so."""

from __future__ import annotations

import re

import duckdb
import pytest

from evaluation import connection
from longpole import catalog
from longpole.catalog import Column

MACROS = catalog.macros()
EVERY = pytest.mark.parametrize("name", sorted(MACROS))

SECOND = 1_000_000_000
MORNING = 1_700_000_000 * SECOND


@pytest.mark.parametrize(
    ("at_ns", "offset_ns", "drift_ppb", "reference_ns", "aligned"),
    [
        (1_000, 300, 0.0, 0, 700),
        (1_000, -300, 0.0, 0, 1_300),
        (1_000, 300, None, None, 700),
        (1_000, 300, 5.0, None, 700),
        (1_000, 300, None, 0, 700),
        # A microsecond a second, one second after the reference, at it, and one before.
        (MORNING + SECOND, 7, 1e3, MORNING, MORNING + SECOND - 7 - 1_000),
        (MORNING, 7, 1e3, MORNING, MORNING - 7),
        (MORNING - SECOND, 7, 1e3, MORNING, MORNING - SECOND - 7 + 1_000),
        (MORNING + SECOND, 7, -1e3, MORNING, MORNING + SECOND - 7 + 1_000),
        # Half a nanosecond is rounded away from 0.
        (SECOND, 0, 0.5, 0, SECOND - 1),
        (SECOND, 0, -0.5, 0, SECOND + 1),
        (SECOND, 0, 0.25, 0, SECOND),
        (SECOND, 0, 2.5, 0, SECOND - 3),
        (None, 300, 1.0, 0, None),
        (1_000, None, 1.0, 0, None),
    ],
)
def test_an_instant_of_a_rank_on_the_runs_clock(
    at_ns: int | None, offset_ns: int | None, drift_ppb: float | None, reference_ns: int | None, aligned: int | None
) -> None:
    asked = "SELECT aligned_ns($1::BIGINT, $2::BIGINT, $3::DOUBLE, $4::BIGINT)"
    given = [at_ns, offset_ns, drift_ppb, reference_ns]
    assert connection().execute(asked, given).fetchall() == [(aligned,)]


def test_columns_named_as_the_parameters_are_taken_for_what_they_are_given_as() -> None:
    clock = "SELECT 100::BIGINT AS at_ns, 10::BIGINT AS offset_ns, 1e9::DOUBLE AS drift_ppb, 30::BIGINT AS reference_ns"
    asked = (
        "aligned_ns(at_ns, offset_ns, drift_ppb, reference_ns), aligned_ns(reference_ns, at_ns, drift_ppb, offset_ns)"
    )
    assert connection().execute(f"SELECT {asked} FROM ({clock})").fetchall() == [(100 - 10 - 70, 30 - 100 - 20)]


@pytest.mark.parametrize(
    ("errors", "rounded_ns", "visible_ns"),
    [
        # Standing at 0, 100, 200, 300: kurtosis 1.64, standard deviation 111.8, so at most
        # 3 * (1 + (6 * 1.64 / 4)^2) = 21.16 and 4 * 1.4826 * 300 / (2 * 111.8) = 7.96 median deviations.
        ((-10.0, 10.0, -10.0, 10.0), 1.0, 211.55),
        ((-10.0, 10.0, -10.0, 1e9), 1.0, 211.55),
        ((0.0, 0.0, 0.0, 0.0), 1.0, 21.155),
    ],
)
def test_a_rise_that_scatter_does_not_make(errors: tuple[float, ...], rounded_ns: float, visible_ns: float) -> None:
    asked = "SELECT visible_rise_ns(100.0 * i, $1[i]::DOUBLE, $2::DOUBLE) FROM range(1, len($1::DOUBLE[]) + 1) AS t (i)"
    ((found,),) = connection().execute(asked, [list(errors), rounded_ns]).fetchall()
    assert found == pytest.approx(visible_ns, rel=1e-4)


@pytest.mark.parametrize(
    ("n_steps", "most_bins", "bins"),
    [
        (4, 4, [0, 1, 2, 3]),
        (5, 4, [0, 0, 1, 1, 2]),
        (8, 4, [0, 0, 1, 1, 2, 2, 3, 3]),
        (9, 4, [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        (1, 240, [0]),
    ],
)
def test_the_column_of_a_step(n_steps: int, most_bins: int, bins: list[int]) -> None:
    asked = "SELECT step_bin(place, $1::BIGINT, $2::BIGINT) FROM range($1::BIGINT) AS t (place) ORDER BY place"
    assert [bin for (bin,) in connection().execute(asked, [n_steps, most_bins]).fetchall()] == bins


def test_many_points_show_a_rise_of_a_few_deviations() -> None:
    asked = "SELECT visible_rise_ns(i::DOUBLE, 10 * (-1) ** i, 1.0::DOUBLE) FROM range(10000) AS t (i)"
    ((found,),) = connection().execute(asked).fetchall()
    assert found == pytest.approx(30, rel=1e-3)


@EVERY
def test_the_header_says_what_a_macro_takes_and_returns(name: str) -> None:
    macro = MACROS[name]
    typed = ", ".join(f"NULL::{p.type}" for p in macro.parameters)
    assert connection().sql(f"SELECT {name}({typed}) AS made").types == [macro.returns.type]
    assert macro.meaning.endswith(".")
    assert all(c.meaning.endswith(".") for c in (*macro.parameters, macro.returns))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("-- Macro: x.\n-- Returns: BIGINT X.\n(SELECT max(step) FROM steps)", "must name no table: steps"),
        ("-- Macro: x.\n-- Returns: BIGINT X.\na +", "does not parse: "),
        ("-- Macro: x.\n-- Returns: BIGINT X.\n", "does not parse: "),
        ("-- Macro: x.\n-- Returns: BIGINT X.\n1; SELECT 2", "must hold one SELECT and no semicolon"),
        ("-- Macro: x.\n-- a BIGINT A.\na", "the header must say what it returns"),
        ("-- Macro: x.\n-- a bigint A.\n-- Returns: BIGINT X.\na", "not a header line: -- a bigint A."),
        ("-- Macro: x.\n-- Returns: bigint X.\na", "not a header line: -- Returns: bigint X."),
    ],
)
def test_what_is_wrong_with_a_macro_is_said_with_its_file(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)) as caught:
        catalog.parse_macro("wrong", text, duckdb.connect())
    assert str(caught.value).startswith("lib/wrong.sql")


def test_a_macro_is_read_as_written() -> None:
    text = (
        "-- Macro: a half.\n--\n-- a BIGINT What.\n--\n-- Returns: DOUBLE Its half.\n-- How: by two,\n-- not by four.\n"
        "a / 2"
    )
    made = catalog.parse_macro("half", text, duckdb.connect())
    assert (made.name, made.meaning, made.how, made.sql) == ("half", "a half.", "by two, not by four.", "a / 2")
    assert made.parameters == (Column("a", "BIGINT", "What."),)
    assert made.returns == Column("half", "DOUBLE", "Its half.")
