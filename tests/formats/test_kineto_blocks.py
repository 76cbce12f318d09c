"""A dump is cut into blocks between events only, whatever its style of writing and whatever a name holds."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.reading import Row, dump, event, names, read
from longpole.formats import blocks
from longpole.formats.blocks import EventBlocks

EVENTS: list[Row] = [
    event(f"void k{n}<float, {{lambda(int)}}>()", ts=n + 0.25, args={"grid": [n, 1, 1], "stream": 7, "x": {"y": {}}})
    for n in range(40)
]
TRICKY = [
    "}, {",
    "},{",
    "\n  },\n  {",
    '}, {"ph": "X", "pid": 0}, {',
    '"}]}',
    "}]",
    '\\"}, {\\"',
    "]}",
    '{"traceEvents": [',
]


def kineto(document: Row) -> str:
    return dump(*document["traceEvents"], head=f'\n  "distributedInfo": {json.dumps(document["distributedInfo"])},')


def mixed(document: Row) -> str:
    """Return a dump whose every event is written in another style."""
    gaps = [", ", ",", ",\n", " ,\n\t", ",\r\n  "]
    parts = [json.dumps(item, indent=n % 4 or None) for n, item in enumerate(document["traceEvents"])]
    body = "".join(gaps[n % len(gaps)] + part for n, part in enumerate(parts))
    return (
        '{"distributedInfo": '
        + json.dumps(document["distributedInfo"])
        + ', "traceEvents": ['
        + body.lstrip(", ")
        + "]}"
    )


STYLES: dict[str, Callable[[Row], str]] = {
    "kineto": kineto,
    "one line": json.dumps,
    "compact": lambda document: json.dumps(document, separators=(",", ":")),
    "indent 4": lambda document: json.dumps(document, indent=4),
    "indent 0": lambda document: json.dumps(document, indent=0),
    "tabs": lambda document: json.dumps(document, indent="\t"),
    "mixed": mixed,
}


def blocks_of(text: str, piece: int = 700) -> Iterator[str]:
    data = text.encode()
    for block in EventBlocks(data[at : at + piece] for at in range(0, len(data), piece)):
        yield bytes(block).decode()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [1, 300, 1_000, 5_000, 1 << 20])
def test_blocks_hold_whole_events_in_any_style(style: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    text = STYLES[style]({"distributedInfo": {"rank": 2}, "traceEvents": EVENTS})
    found = [json.loads(f"[{block}]") for block in blocks_of(text)]
    assert [item for block in found for item in block] == EVENTS
    if size == 1_000:
        assert len(found) >= 4


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", TRICKY)
def test_a_name_that_looks_like_the_end_of_an_event_is_healed(
    style: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 500)
    events = [event(f"{name} {n} {name}", args={"stream": n}) for n in range(30)]
    rows, facts = read(STYLES[style]({"distributedInfo": {"rank": 2}, "traceEvents": events}))
    assert names(rows) == [item["name"] for item in events]
    assert (facts.n_events, facts.n_dropped, facts.n_salvaged, facts.rank) == (30, 0, 0, 2)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("inner", [{"a": 1}, {"ph": "X", "ts": 1}])
def test_an_argument_that_is_a_list_of_objects_is_not_cut(
    style: str, inner: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 3_000)
    events = [event(f"k{n}", args={"list": [inner] * 100, "stream": n}) for n in range(20)]
    rows, facts = read(STYLES[style]({"distributedInfo": {}, "traceEvents": events}))
    assert [(row["name"], row["stream"]) for row in rows] == [(f"k{n}", n) for n in range(20)]
    assert (facts.n_events, facts.n_dropped) == (20, 0)


def test_a_name_with_the_separator_and_a_raw_line_break_is_mended_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 400)
    odd = '{"ph": "X", "name": "x\n  },\n  {\n    y", "pid": 0, "ts": 1, "dur": 1}'
    events: list[str | Row] = [event("a"), odd]
    rows, facts = read(dump(*events * 10))
    assert names(rows) == ["a", "x   },   {     y"] * 10
    assert (facts.n_events, facts.n_salvaged, facts.n_dropped) == (20, 10, 0)


def test_an_event_larger_than_a_block_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1_000)
    rows, _ = read(dump(event("a"), event("b", args={"Call stack": "x" * 50_000}), event("c")))
    assert names(rows) == ["a", "b", "c"]


def test_bad_events_do_not_keep_a_dump_from_being_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1_000)
    bad = '{"ph": "X", "name": "a"b", "pid": 0, "ts": 1, "dur": 1}'
    text = dump(*[bad] * 200)
    assert max(len(block) for block in blocks_of(text)) < 3_000
    _, facts = read(text)
    assert (facts.n_events, facts.n_dropped) == (200, 200)


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": []}',
        '{"traceEvents": [ \n ], "distributedInfo": {"rank": 2}}',
        '{"schemaVersion": 1, "traceEvents":\n[\n]}',
    ],
)
def test_a_dump_without_events_is_a_dump(text: str) -> None:
    rows, facts = read(text)
    assert (rows, facts.n_events, facts.is_truncated) == ([], 0, False)


@pytest.mark.parametrize("end", ["]", ",]", ",\n]\n", " , ]"])
def test_a_bare_list_of_events_is_a_dump_even_with_a_comma_too_many(end: str) -> None:
    rows, facts = read("[" + json.dumps(event("a")) + ", " + json.dumps(event("b")) + end)
    assert names(rows) == ["a", "b"]
    assert (facts.n_events, facts.n_salvaged, facts.is_truncated) == (2, 0, False)
    assert facts.schema == "events alone, absolute time"


def test_a_byte_order_mark_is_no_part_of_the_dump() -> None:
    assert names(read("\ufeff" + dump(event("a")))[0]) == ["a"]
    assert names(read("\ufeff[" + json.dumps(event("a")) + "]")[0]) == ["a"]


def whole_events(text: str) -> list[Any]:
    """Return the events that are whole in a text cut anywhere: one after the other, by the standard library."""
    start = text.find('"traceEvents"')
    at = text.find("[", start) + 1 if start >= 0 else 0
    found = []
    while at:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] == "]":
            break
        try:
            item, at = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            break
        found.append(item)
    return found


@given(st.sampled_from(sorted(STYLES)), st.floats(0, 1), st.sampled_from([64, 300, 2_000, 1 << 20]), st.randoms())
@settings(max_examples=300, deadline=None)
def test_a_dump_cut_anywhere_gives_every_whole_event(
    style: str, share: float, size: int, chance: random.Random
) -> None:
    events = [
        event(
            chance.choice(["aten::mm", "}, {", "\n  },\n  {", 'a "b" \\', "ядро"]),
            ts=n,
            args={"grid": [1, n, 1], "list": [{"a": n}] * chance.randrange(3), "x": {}},
        )
        for n in range(chance.randrange(1, 25))
    ]
    whole = STYLES[style]({"distributedInfo": {"rank": 1}, "traceEvents": events})
    cut = whole[: int(share * len(whole))]
    expected = whole_events(cut)
    if '"traceEvents"' not in cut or "[" not in cut[cut.index('"traceEvents"') :]:
        return
    before = blocks.BLOCK_BYTES
    blocks.BLOCK_BYTES = size
    try:
        rows, facts = read(cut)
    finally:
        blocks.BLOCK_BYTES = before
    assert [(row["name"], row["start_ns"]) for row in rows] == [(item["name"], item["ts"] * 1000) for item in expected]
    assert facts.is_truncated == (len(cut.rstrip()) < len(whole.rstrip()))
    assert facts.n_salvaged == 0
    assert facts.n_dropped <= 1


@given(
    st.sampled_from(sorted(STYLES)),
    st.integers(0, 11),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(["", *'{}[]":,\\x7 \n\x00', "NaN", "}, {", '\\"']),
    st.sampled_from([0, 1, 4]),
    st.sampled_from([100, 700, 1 << 20]),
)
@settings(max_examples=200, deadline=None)
def test_damage_anywhere_in_an_event_costs_no_other(
    style: str, which: int, share: float, inserted: str, n_removed: int, size: int
) -> None:
    events = [event(f"n{n}", ts=n, args={"stream": 7, "list": [{"a": n}] * (n % 3)}) for n in range(12)]
    whole = STYLES[style]({"distributedInfo": {"rank": 1}, "traceEvents": events})
    starts = [match.start() for match in re.finditer('"ph"', whole)]
    end = whole.rindex("]", 0, [*starts, whole.rindex("]")][which + 1])  # of the event's list
    at = starts[which] + int(share * (end - starts[which]))
    damaged = whole[:at] + inserted + whole[min(at + n_removed, end) :]
    before = blocks.BLOCK_BYTES
    blocks.BLOCK_BYTES = size
    try:
        rows, facts = read(damaged)
    finally:
        blocks.BLOCK_BYTES = before
    others = [(f"n{n}", n * 1000) for n in range(12) if n != which]
    assert [found for row in rows if (found := (row["name"], row["start_ns"])) in others] == others
    assert facts.rank == 1
    assert not facts.is_truncated or which == 11  # with a bracket lost there, it looks like a cut end
