"""What a dump says of itself: rank, base time, devices, groups; before the events or behind them, or senseless."""

from __future__ import annotations

import json

import pytest

from formats.reading import dump, event, read
from longpole.events import Device

KEYS = """
  "baseTimeNanoseconds": 1759300074000000000,
  "trace_id": "AAAB",
  "host_name": "n17",
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480, "numSms": 132
    },
    {
      "id": 1, "name": ""
    }
  ],
  "distributedInfo": {"backend": "nccl", "rank": 4, "world_size": 8, "pg_count": 1,
    "pg_config": [{"pg_name": "0", "pg_size": 8, "ranks": [0, 1, 2]}]}"""


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_dump_may_say_who_it_is_before_its_events_or_behind(place: str) -> None:
    text = dump(event(), head=KEYS + ",") if place == "before" else dump(event(), tail="," + KEYS)
    _, facts = read(text)
    assert facts.format == "kineto"
    assert facts.schema == "kineto 1, base time"
    assert facts.base_ns == 1759300074000000000
    assert (facts.rank, facts.world_size, facts.backend, facts.host) == (4, 8, "nccl", "n17")
    assert facts.devices == (Device(0, "NVIDIA H100 80GB HBM3", 85028372480), Device(1, "", None))
    assert facts.process_groups == '[{"pg_name":"0","pg_size":8,"ranks":[0,1,2]}]'
    assert facts.trace_id == "AAAB"
    assert facts.notes == ()


def test_a_dump_that_says_nothing_is_still_a_dump() -> None:
    _, facts = read('{"traceEvents": [' + json.dumps(event()) + "]}")
    assert facts.schema == "kineto, absolute time"
    assert (facts.base_ns, facts.rank, facts.world_size, facts.host, facts.devices) == (0, None, None, None, ())
    assert facts.notes == ()


@pytest.mark.parametrize(
    ("info", "rank", "note"),
    [
        ('{"rank": 3}', 3, None),
        ('{"rank": "3"}', 3, None),
        ('"{\\"rank\\": 3}"', 3, None),
        ('{"backend": "nccl"}', None, None),
        ('{"rank": -1}', None, "rank makes no sense and is not used: -1."),
        ('{"rank": 99999999}', None, "rank makes no sense and is not used: 99999999."),
        ('{"rank": true}', None, "rank makes no sense and is not used: True."),
        ('{"rank": [3]}', None, "rank makes no sense and is not used: [3]."),
        ('{"rank": 8, "world_size": 8}', None, "rank 8 is not below world_size 8; neither is used."),
        ('"rank 3"', None, "distributedInfo is no object: rank 3."),
        ("[3]", None, "distributedInfo is no object: [3]."),
        ("null", None, None),
    ],
)
def test_a_rank_is_believed_where_it_makes_sense(info: str, rank: int | None, note: str | None) -> None:
    _, facts = read(dump(event(), head=f'\n  "distributedInfo": {info},'))
    assert facts.rank == rank
    assert facts.notes == (() if note is None else (note,))


@pytest.mark.parametrize("base", ["-1", '"soon"', "4611686018427387904", "1e300", "{}"])
def test_a_base_time_that_makes_no_sense_is_not_used_and_noted(base: str) -> None:
    _, facts = read(dump(event(), head=f'\n  "baseTimeNanoseconds": {base},'))
    assert facts.base_ns == 0
    assert facts.notes[0].startswith("baseTimeNanoseconds makes no sense and is not used: ")


def test_a_base_time_in_text_is_used() -> None:
    _, facts = read(dump(event(), head='\n  "baseTimeNanoseconds": "1759300074000000000",'))
    assert facts.base_ns == 1759300074000000000


def test_a_base_time_that_would_leave_int64_is_not_used_and_noted() -> None:
    head = '\n  "baseTimeNanoseconds": 1759300074000000000,'
    _, facts = read(dump(event(ts=8_000_000_000_000_000), head=head))
    assert facts.base_ns == 0
    assert facts.notes == (
        "baseTimeNanoseconds 1759300074000000000 would carry the times beyond int64 and is not used.",
    )


def test_of_a_key_that_comes_twice_the_last_counts_and_it_is_noted() -> None:
    head = '\n  "host_name": "a", "host_name": "b", "trace_id": "t",'
    _, facts = read(dump(event(), head=head, tail=',\n  "trace_id": "u"'))
    assert (facts.host, facts.trace_id) == ("b", "u")
    assert facts.notes == (
        "Keys that come twice, the last counts: host_name.",
        "Keys that come twice, the last counts: trace_id.",
    )


def test_a_header_that_is_no_json_still_says_what_it_can() -> None:
    head = '\n  "host_name": "a"b", "distributedInfo": {"rank": 3}, "baseTimeNanoseconds": 17,'
    _, facts = read(dump(event(), head=head))
    assert (facts.rank, facts.base_ns, facts.n_stored) == (3, 17, 1)
    assert facts.notes == ("What the dump says before its events is no JSON; single keys were still read.",)


def test_nan_and_bad_escapes_in_a_header_cost_nothing() -> None:
    head = '\n  "cuda": NaN, "roctracer": inf, "path": "C:\\Users", "distributedInfo": {"rank": 3},'
    _, facts = read(dump(event(), head=head))
    assert facts.rank == 3
    assert facts.notes == ()


def test_only_the_outermost_list_of_events_counts() -> None:
    head = '\n  "metadata": {"traceEvents": [{"a": 1}], "note": "\\"traceEvents\\": ["},'
    rows, facts = read(dump(event("a"), head=head, tail=',\n  "distributedInfo": {"rank": 3}'))
    assert [row["name"] for row in rows] == ["a"]
    assert (facts.n_events, facts.rank) == (1, 3)


def test_a_header_of_many_megabytes_is_passed_over_and_noted() -> None:
    head = '\n  "distributedInfo": {"rank": 3}, "x": "' + "y" * 6_000_000 + '",'
    rows, facts = read(dump(event("a"), head=head))
    assert [row["name"] for row in rows] == ["a"]
    assert facts.rank == 3
    assert any("more than a dump has to say" in note for note in facts.notes)


def test_a_trailer_of_many_megabytes_is_no_damage() -> None:
    tail = ',\n  "distributedInfo": {"rank": 3}, "x": [' + ", ".join(['{"y": 1}'] * 800_000) + "]"
    rows, facts = read(dump(event("a"), tail=tail))
    assert [row["name"] for row in rows] == ["a"]
    assert (facts.rank, facts.is_truncated, facts.n_dropped) == (3, False, 0)
    assert any("more than a dump has to say" in note for note in facts.notes)


def test_a_device_that_is_described_oddly_is_left_out() -> None:
    devices = '[{"id": 0, "name": "A"}, {"name": "no id"}, {"id": "x"}, {"id": -1}, 5, null]'
    _, facts = read(dump(event(), head=f'\n  "deviceProperties": {devices},'))
    assert facts.devices == (Device(0, "A", None),)
    assert facts.notes == (
        "device id makes no sense and is not used: x.",
        "device id makes no sense and is not used: -1.",
    )


def test_half_a_surrogate_pair_in_a_name_does_not_travel_on() -> None:
    head = '\n  "host_name": "n\\ud800", "deviceProperties": [{"id": 0, "name": "\\udfff"}],'
    _, facts = read(dump(event(), head=head))
    assert (facts.host, facts.devices[0].name) == ("n\ufffd", "\ufffd")


def test_a_second_list_of_events_is_noted() -> None:
    rows, facts = read(dump(event("a"), tail=',\n  "traceEvents": [' + json.dumps(event("b")) + "]"))
    assert [row["name"] for row in rows] == ["a"]
    assert facts.notes == ("A second list of events behind the first is left unread.",)


def test_deep_nesting_around_the_events_is_no_error() -> None:
    head = '\n  "x": ' + "[" * 50_000 + "]" * 50_000 + ', "distributedInfo": {"rank": 3},'
    _, facts = read(dump(event(), head=head))
    assert (facts.rank, facts.n_stored) == (3, 1)
