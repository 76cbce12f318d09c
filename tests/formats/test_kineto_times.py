"""Microseconds in text become nanoseconds exactly, whatever the number of digits."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.reading import dump, names, read
from longpole.formats import times
from longpole.formats.fields import KINETO

MAX = 2**63 - 1


def at(ts: str, dur: str = "0") -> str:
    return f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}}}'


@pytest.mark.parametrize(
    ("written", "start_ns"),
    [
        ("1706850122846038", 1706850122846038000),  # absolute integer microseconds
        ("1712195495519689.047", 1712195495519689047),  # absolute, beyond what a float holds
        ("6322354275471.360", 6322354275471360),  # relative to a base
        ('"6322354275471.360"', 6322354275471360),
        ('" 12.5 "', 12500),
        ("0", 0),
        ("0.001", 1),
        ("1.5e3", 1500000),
        ("1e-3", 1),
        ("9007199254740993.001", 9007199254740993001),
        ("12.3000000000", 12300),  # ten decimals, all of them nothing
        ("12.300000000000000000000", 12300),
        ("9223372036854775.807", MAX),
    ],
)
def test_a_time_is_exact(written: str, start_ns: int) -> None:
    rows, facts = read(dump(at(written)))
    assert [row["start_ns"] for row in rows] == [start_ns]
    assert facts.n_rounded == 0


@pytest.mark.parametrize(
    ("written", "start_ns"),
    [
        ("1.0005", 1001),  # half up
        ("1.00049999", 1000),
        ("0.0015", 2),
        ("0.0025", 3),  # not half to even
        ("1712195495519689.0475000001", 1712195495519689048),
        ("12.288000000000002", 12288),  # what a float prints
        ("1e-5", 0),
        ("1e-400", 0),
        ("4.0005000000000000000000000001", 4001),
    ],
)
def test_digits_below_a_nanosecond_round_half_up_and_are_counted(written: str, start_ns: int) -> None:
    rows, facts = read(dump(at(written), at("5")))
    assert [row["start_ns"] for row in rows] == [start_ns, 5000]
    assert facts.n_rounded == 1


def test_an_event_rounded_in_both_its_times_counts_once() -> None:
    _, facts = read(dump(at("1.00051", "2.00051")))
    assert facts.n_rounded == 1


@pytest.mark.parametrize(
    "written",
    ["9223372036854775.808", "-9223372036854775.809", "1e30", "1e999", "9" * 40, "1e99999999999999999999"],
)
def test_a_time_beyond_int64_costs_its_event_and_is_counted(written: str) -> None:
    rows, facts = read(dump(at("1"), at(written), at("2")))
    assert [row["start_ns"] for row in rows] == [1000, 2000]
    assert (facts.n_events, facts.n_dropped) == (3, 1)
    assert len(facts.samples) == 1


def test_an_end_beyond_int64_costs_its_event() -> None:
    rows, facts = read(dump(at("9223372036854775.000", "0.807"), at("9223372036854775.000", "0.808")))
    assert [row["duration_ns"] for row in rows] == [807]
    assert facts.samples == ("its end is beyond int64 ns: k",)


@pytest.mark.parametrize(
    "written", ['"soon"', '""', "null", "true", "[1]", '{"a": 1}', '"1_000"', '"0x10"', '"inf"', "NaN"]
)
def test_a_start_that_is_no_number_costs_its_event(written: str) -> None:
    rows, facts = read(dump(at("1"), at(written)))
    assert [row["start_ns"] for row in rows] == [1000]
    assert facts.n_dropped == 1


def test_an_event_without_a_start_is_lost_and_one_without_a_duration_did_not_finish() -> None:
    no_start = '{"ph": "X", "name": "a", "pid": 0, "dur": 1}'
    no_duration = '{"ph": "X", "name": "b", "pid": 0, "ts": 1}'
    rows, facts = read(dump(no_start, no_duration))
    assert [(row["name"], row["start_ns"], row["duration_ns"]) for row in rows] == [("b", 1000, None)]
    assert (facts.n_dropped, facts.n_bad_times, facts.samples) == (1, 1, ("no ts: a",))


@pytest.mark.parametrize(
    ("ts", "dur", "start_ns", "duration_ns"),
    [
        ("-5", "2", -5000, 2000),
        ("1", "-1", 1000, None),  # did not finish
        ("1", "-1.000", 1000, None),
        ("1", "-3.5", 1000, -3500),
        ("1", "604800000000.001", 1000, 604800000000001),  # a week and a nanosecond
    ],
)
def test_a_time_that_makes_no_sense_is_kept_and_counted(
    ts: str, dur: str, start_ns: int, duration_ns: int | None
) -> None:
    rows, facts = read(dump(at(ts, dur), at("1", "604800000000")))
    assert (rows[0]["start_ns"], rows[0]["duration_ns"]) == (start_ns, duration_ns)
    assert (facts.n_stored, facts.n_bad_times) == (2, 1)


def test_the_unit_is_microseconds_whatever_is_to_be_displayed() -> None:
    rows, _ = read(dump(at("1.5"), tail=',\n  "displayTimeUnit": "ns"'))
    assert rows[0]["start_ns"] == 1500


def exact(text: str) -> tuple[int | None, bool]:
    """Return nanoseconds and whether they are rounded, by rational numbers; None beyond int64."""
    value = Fraction(text) * 1000
    ns = math.floor(value + Fraction(1, 2))
    return (ns if -(2**63) <= ns <= MAX else None), ns != value


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,18})(\.([0-9]{1,3}|[0-9]{3}5|[0-9]{4,18}))?", fullmatch=True)


@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_texts_become_the_same_numbers_as_rational_arithmetic(texts: list[str]) -> None:
    found = times.from_texts(list(texts))
    for slot, text in enumerate(texts):
        ns, is_rounded = exact(text)
        is_malformed = found.is_malformed is not None and bool(found.is_malformed[slot])
        assert is_malformed == (ns is None)
        if ns is not None:
            assert int(found.ns[slot]) == ns
            assert (found.is_rounded is not None and bool(found.is_rounded[slot])) == is_rounded


@given(st.lists(st.none() | st.decimals(min_value=-(10**17), max_value=10**17, places=10), min_size=1, max_size=30))
def test_decimals_become_the_same_numbers_as_rational_arithmetic(values: list[Decimal | None]) -> None:
    found = times.from_decimals(pa.array(values, KINETO.decimal))
    for slot, value in enumerate(values):
        assert bool(found.is_absent[slot]) == (value is None)
        if value is None:
            continue
        ns, _ = exact(str(value))
        if ns is None:
            assert found.is_malformed is not None and found.is_malformed[slot]
        else:
            assert int(found.ns[slot]) == ns


def test_a_slice_of_decimals_is_read_from_where_it_begins() -> None:
    array = pa.array([Decimal(1), None, Decimal(3)], KINETO.decimal).slice(1)
    found = times.from_decimals(array)
    assert found.ns.tolist() == [0, 3000]
    assert found.is_absent.tolist() == [True, False]


def test_names_stay_with_their_times_when_some_are_lost() -> None:
    events = [at(str(n)).replace('"k"', f'"k{n}"') for n in range(5)]
    events[2] = events[2].replace('"ts": 2', '"ts": "x"')
    rows, _ = read(dump(*events))
    assert names(rows) == ["k0", "k1", "k3", "k4"]
