"""One bad event costs that event only: what dumps in the wild hold, and what one made to mislead may hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from formats.reading import dump, event, names, read, said
from longpole.formats import blocks
from longpole.formats.blocks import EventBlocks
from longpole.formats.decode import Parsed, finish, parse_whole
from longpole.formats.mixed import parse_mixed
from longpole.formats.salvage import parse_each

A, B = event("a"), event("b")


def text(inside: str, name: str = '"z"') -> str:
    """Return an event as JSON text with something more in it."""
    return f'{{"ph": "X", "cat": "kernel", "name": {name}, "pid": 0, "tid": 7, "ts": 1, "dur": 2{inside}}}'


@pytest.mark.parametrize(
    ("inside", "column", "value"),
    [
        (', "args": {"stream": "0x0"}', "stream", 0),  # old ROCm
        (', "args": {"stream": "0x1F"}', "stream", 31),
        (', "args": {"bytes": "9216"}', "n_bytes", 9216),
        (', "args": {"stream": 7.0}', "stream", 7),
        (', "args": {"stream": null}', "stream", None),
        (', "args": {"stream": ""}', "stream", None),
        (', "args": {"Process Group Name": 3}', "comm_group", "3"),
        (', "args": {"Process Group Ranks": [0, 1]}', "comm_group_ranks", "[0, 1]"),
        (', "args": {"grid": [1, 2]}', "grid", [1, 2]),
        (', "args": {"grid": [null, 2, 1]}', "grid", [None, 2, 1]),
        (', "args": {"grid": []}', "grid", []),
        (', "args": null', "stream", None),
        (', "args": []', "stream", None),
        (', "args": "none"', "stream", None),
    ],
)
def test_a_value_of_another_type_is_read_for_what_it_says(inside: str, column: str, value: object) -> None:
    rows, facts = read(dump(A, text(inside), B))
    assert names(rows) == ["a", "z", "b"]
    assert rows[1][column] == value
    assert (facts.n_salvaged, facts.notes) == (0, ())


@pytest.mark.parametrize("number", ["18446744073709551615", "9223372036854775808", "-9223372036854775809", "9" * 40])
def test_an_id_beyond_int64_is_null_and_noted_and_never_wraps(number: str) -> None:
    rows, facts = read(dump(A, text(f', "args": {{"External id": {number}, "stream": 7}}'), B))
    assert [row["external_id"] for row in rows] == [None, None, None]
    assert rows[1]["stream"] == 7
    assert facts.notes == ("Numbers beyond the range of their column, read as NULL: 1.",)


def test_the_largest_ids_are_kept() -> None:
    rows, _ = read(dump(event(args={"External id": 2**63 - 1, "correlation": -(2**63), "device": 2**31 - 1})))
    assert (rows[0]["external_id"], rows[0]["correlation_id"], rows[0]["device"]) == (2**63 - 1, -(2**63), 2**31 - 1)


def test_a_number_beyond_a_narrow_column_is_null_and_noted() -> None:
    rows, facts = read(dump(event(args={"device": 2**31, "Group size": 2**31, "grid": [2**31, 1, 1]})))
    assert (rows[0]["device"], rows[0]["comm_group_size"], rows[0]["grid"]) == (None, None, [None, 1, 1])
    assert facts.notes == ("Numbers beyond the range of their column, read as NULL: 3.",)


@pytest.mark.parametrize("value", ['"seven"', "true", "7.5", "{}", '"7 8"'])
def test_what_is_no_number_is_null_and_noted(value: str) -> None:
    rows, facts = read(dump(text(f', "args": {{"stream": {value}}}')))
    assert rows[0]["stream"] is None
    assert facts.notes == ("Values that should be numbers and are none, read as NULL: 1.",)


@pytest.mark.parametrize("number", ["18446744073709551615", "1e400", "NaN", "-Infinity", '"\\u0001"', "[[[]]]"])
def test_what_nobody_reads_may_be_anything(number: str) -> None:
    rows, facts = read(dump(A, text(f', "args": {{"Addr": {number}, "stream": 7}}'), B))
    assert names(rows) == ["a", "z", "b"]
    assert rows[1]["stream"] == 7
    assert facts.notes == ()


@pytest.mark.parametrize(
    ("event_text", "name"),
    [
        (text(', "args": {"stream": 7, "memory bandwidth (GB/s)": inf}'), "z"),
        (text(', "args": {"stream": 7, "x": -nan}'), "z"),
        (text(', "args": {"x": [nan, INF, -inf], "stream": 7}'), "z"),
        (text(', "args": {"x": , "stream": 7}'), "z"),
        (text(', "args": {"stream": 7,},'), "z"),
        (text(', "args": {"stream": 7, "x": [1, 2, ]}'), "z"),
        (text(', "args": {"stream": 7}', name=r'"C:\Users\x"'), r"C:\Users\x"),
        (text(', "args": {"stream": 7}', name=r'"half \u12 escape"'), r"half \u12 escape"),
        (text(', "args": {"stream": 7}', name='"tab\there"'), "tab here"),
        (text(', "args": {"stream": 7}', name='"line\nbreak"'), "line break"),
        (text(', "args": {"stream": 7}', name='"bell\x07"'), "bell "),
        (text(', "args": {"stream": 7}', name=r'"lone \ud800 half"'), "lone � half"),
        (text(', "args": {"stream": 7}', name=r'"nan, inf, \x and ,} stay"'), r"nan, inf, \x and ,} stay"),
    ],
)
def test_an_event_that_is_no_json_is_mended_where_it_is_plain_what_was_meant(event_text: str, name: str) -> None:
    rows, facts = read(dump(A, event_text, B))
    assert [(row["name"], row["stream"]) for row in rows] == [("a", None), (name, 7), ("b", None)]
    assert (facts.n_salvaged, facts.n_dropped) == (1, 0)


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    data = dump(A, event("kern\xe9l"), B).encode("latin-1")
    rows, facts = read(data)
    assert names(rows) == ["a", "kern�l", "b"]
    assert facts.n_salvaged == 1


def test_bytes_that_are_no_utf_8_where_nobody_reads_are_no_repair() -> None:
    rows, facts = read(dump(A, event("z", args={"Call stack": "\xe9"}), B).encode("latin-1"))
    assert names(rows) == ["a", "z", "b"]
    assert facts.n_salvaged == 0


def test_text_in_any_script_is_kept() -> None:
    rows, facts = read(dump(event("ядро 核 🚀"), text("", name=r'"\ud83d\ude80 \u00e9 \" \\"')))
    assert names(rows) == ["ядро 核 🚀", '🚀 é " \\']
    assert facts.n_salvaged == 0


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    rows, facts = read(dump(A, text(', "tid": 9, "name": "y", "args": {"stream": 1, "stream": 2}')))
    assert (rows[1]["thread"], rows[1]["name"], rows[1]["stream"]) == (9, "y", 2)
    assert facts.n_salvaged == 0


@pytest.mark.parametrize(
    "bad",
    [
        '{"ph": "X", "name": "a"b", "pid": 0, "ts": 1, "dur": 1}',  # a quote that should have been escaped
        '{"ph": "X", "name": "k", "pid": 0, "ts": 1 "dur": 1}',
        '{"ph": "X", "name" "k", "pid": 0, "ts": 1}',
        "{'ph': 'X', 'ts': 1}",
        '{"ph": "X", "name": "k", "args": {"grid": [1, 2, 3}, "ts": 1}',
    ],
)
def test_an_event_that_cannot_be_mended_costs_itself_alone(bad: str) -> None:
    rows, facts = read(dump(A, bad, B))
    assert names(rows) == ["a", "b"]
    assert (facts.n_events, facts.n_dropped, facts.n_salvaged) == (3, 1, 0)
    assert facts.samples[0].startswith("cannot be read as an event: {")
    assert len(facts.samples[0]) <= 200


def test_bad_events_in_a_row_cost_themselves_alone() -> None:
    bad = '{"ph": "X", "name": "a"b", "pid": 0, "ts": 1, "dur": 1}'
    rows, facts = read(dump(A, bad, bad, bad, B, bad))
    assert names(rows) == ["a", "b"]
    assert (facts.n_events, facts.n_dropped) == (6, 4)


def test_only_a_few_samples_are_kept() -> None:
    _, facts = read(dump(*(text("", name=f'"a"{n}"') for n in range(50))))
    assert facts.n_dropped == 50
    assert len(facts.samples) == 5


def test_a_sample_is_fit_to_be_printed() -> None:
    _, facts = read(dump('{"ph": "X", "name": "a"b\x1b[31m\x00"}'))
    assert facts.samples == ('cannot be read as an event: { "ph": "X", "name": "a"b?[31m?" }',)


@pytest.mark.parametrize(
    "item", ["5", "null", '"text"', "[1]", "true", "{}", '{"foo": 1}', '{"ph": null}', '{"ph": ""}']
)
def test_what_stands_among_the_events_and_is_none_is_lost_and_counted(item: str) -> None:
    whole = json.dumps({"traceEvents": [A, B]}).replace('[{"ph"', f'[{item}, {{"ph"')
    rows, facts = read(whole)
    assert names(rows) == ["a", "b"]
    assert (facts.n_events, facts.n_dropped) == (3, 1)


def test_an_event_nested_beyond_reason_costs_nothing_else() -> None:
    deep = text(', "args": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}")
    rows, _ = read(dump(A, deep, B))
    assert names(rows) == ["a", "z", "b"]
    rows, facts = read(dump(A, deep, text(', "x": inf', name='"m"'), B))
    assert names(rows) == ["a", "m", "b"]
    assert (facts.n_dropped, facts.n_salvaged) == (1, 1)


def test_a_long_name_is_whole_and_one_beyond_64_kib_is_cut_and_noted() -> None:
    rows, facts = read(dump(event("x" * 65_536), event("y" * 1_000_000), event("é" * 65_537)))
    assert [len(name) for name in names(rows)] == [65_536, 65_536, 65_536]
    assert facts.notes == ("Texts longer than 65,536 characters, cut there: 2.",)


def test_an_event_without_an_end_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4 << 10)
    monkeypatch.setattr(blocks, "LONGEST_EVENT", 64 << 10)
    rows, facts = read(dump(A, event("x" * 5_000_000), B, tail=',\n  "distributedInfo": {"rank": 3}'))
    assert names(rows) == ["a", "b"]
    assert (facts.n_events, facts.n_dropped, facts.rank, facts.is_truncated) == (3, 1, 3, False)


def test_a_second_document_in_the_file_is_noted() -> None:
    rows, facts = read(dump(A) + dump(B))
    assert names(rows) == ["a"]
    assert facts.notes == (f"{len(dump(B).strip())} characters that follow the dump's end are left unread.",)


def test_a_list_of_objects_behind_the_events_is_not_taken_for_events() -> None:
    others = ', "others": [' + ", ".join('{"a": 1}' for _ in range(100)) + "]"
    rows, facts = read('{"traceEvents": [' + json.dumps(A) + ", " + json.dumps(B) + "]" + others + "}")
    assert names(rows) == ["a", "b"]
    assert facts.n_events == 2


Rung = Callable[[memoryview], Parsed]


@pytest.mark.parametrize("rung", [parse_mixed, parse_each])
def test_every_rung_of_the_ladder_gives_the_same_rows(rung: Rung) -> None:
    arguments: dict[str, Any] = {
        "External id": 7,
        "correlation": 0,
        "stream": 3,
        "device": 1,
        "grid": [1, 2, 3],
        "Process Group ID": 4,
        "Collective name": "allreduce",
        "In msg nelems": 2**40,
        "Addr": 2**64 - 1,
    }
    events = [
        event("a", args=arguments),
        event("a", ts="12.5", dur=1712195495519689.25),
        event("b", dur=-1, cat="Operator"),
        event("c", ts=1.00051),
        event("d", cat=None),
        event("e", dur=None),
        {"ph": "X", "ts": 1},
        {"ph": "i", "name": "[memory]", "ts": 1},
        {"ph": "M", "name": "x", "args": {"name": "python"}},
        {"nothing": 1},
        event("p", cat="python_function"),
    ]
    block = memoryview(json.dumps(events)[1:-1].encode())
    reference, other = finish(parse_whole(block), False), finish(rung(block), False)
    assert other.table.to_pylist() == reference.table.to_pylist()
    assert len(said(reference.table.to_pylist()[0])) == 13
    for counted in ("n_events", "n_stored", "n_dropped", "n_salvaged", "n_rounded", "n_bad_times", "skipped"):
        assert getattr(other.tally, counted) == getattr(reference.tally, counted), counted


def test_a_dump_whose_every_block_is_of_another_kind_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2 << 10)
    rows, facts = read(dump(*(event(f"k{n}", tid="stream 7") for n in range(2_000))), threads=2)
    assert names(rows) == [f"k{n}" for n in range(2_000)]
    assert {row["label"] for row in rows} == {"stream 7"}
    assert facts.n_salvaged == 0


def test_objects_too_small_for_events_come_in_blocks_of_a_bounded_number() -> None:
    text = '{"traceEvents": [' + json.dumps(A) + "," + "{}," * 200_000 + json.dumps(B) + "]}"
    rows, facts = read(text)
    assert names(rows) == ["a", "b"]
    assert (facts.n_events, facts.n_dropped) == (200_002, 200_000)
    found = [bytes(block).count(b"{") for block in EventBlocks([text.encode()])]
    assert sum(found) == 200_002
    assert max(found) <= 64_000


def test_an_event_of_very_many_objects_is_whole() -> None:
    rows, facts = read(json.dumps({"traceEvents": [A, event("z", args={"x": [{"y": 1}] * 200_000}), B]}))
    assert names(rows) == ["a", "z", "b"]
    assert (facts.n_events, facts.n_dropped) == (3, 0)


INNER = event("z", args={"x": [{"y": 1}, {"y": 2}], "stream": 7})


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [
        ('"ts": 1', '"ts" 1'),
        ('[{"y": 1}, {"y": 2}]', '[{"y": 1}, {"y": 2}'),  # what follows may look like more of that list
        ('[{"y": 1}, {"y": 2}]', '{"y": 1}, {"y": 2}]'),
        ('"stream": 7}', '"stream": 7'),
        ('"name": "z"', '"name": "z'),
        ('"args": {', ""),
    ],
)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("size", [100, 1_000, 1 << 20])
def test_damage_to_an_event_with_objects_inside_costs_no_other(
    whole: str, damaged: str, place: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    bad = json.dumps(INNER).replace(whole, damaged, 1)
    good = [event(f"k{n}", args={"x": [{"y": n}]}) for n in range(10)]
    at = {"first": 0, "middle": 5, "last": 10}[place]
    rows, facts = read(dump(*good[:at], bad, *good[at:], tail=',\n  "distributedInfo": {"rank": 3}'))
    assert [name for name in names(rows) if name != "z"] == [f"k{n}" for n in range(10)]
    assert (facts.n_events, facts.rank, facts.is_truncated) == (11, 3, False)
