"""What a killed writer leaves behind: every whole event is there, and the facts say what is not."""

from __future__ import annotations

import gzip

import pytest

from formats.reading import dump, event, names, read
from longpole.errors import DumpError

WHOLE = dump(
    event("a"), event("b"), event("c"), head='\n  "distributedInfo": {"rank": 3},', tail=',\n  "host_name": "n1"'
)


def test_a_dump_cut_within_an_event_loses_that_event_alone() -> None:
    cut = WHOLE[: WHOLE.index('"c"') + 2]
    rows, facts = read(cut, path="rank3.json.tmp")
    assert names(rows) == ["a", "b"]
    assert facts.is_truncated
    assert (facts.n_events, facts.n_dropped) == (3, 1)
    lost = len(cut) - cut.index('{\n    "ph": "X", "cat": "kernel", "name": "c')
    assert facts.n_lost_bytes == lost
    assert facts.samples == (f"the dump ends in the middle of an event, {lost} bytes into it",)
    assert facts.notes == ("The dump ends early; what stood behind its events is lost.",)
    assert facts.rank == 3


@pytest.mark.parametrize("end", ["}\n  }", "}\n  },", "}\n  },\n  "])
def test_a_dump_cut_between_events_loses_none(end: str) -> None:
    text = dump(event("a", args={"stream": 1}), event("b", args={"stream": 1}))
    rows, facts = read(text[: text.index("}\n  },")] + end)
    assert names(rows) == ["a"]
    assert (facts.is_truncated, facts.n_events, facts.n_dropped, facts.n_lost_bytes) == (True, 1, 0, 0)


def test_a_dump_cut_behind_its_events_loses_what_it_said_there() -> None:
    text = dump(event("a"), tail=',\n  "distributedInfo": {"rank": 3},\n  "baseTimeNanoseconds": 1700000000')
    cut = text[: text.index("1700000000") + 4]
    rows, facts = read(cut)
    assert names(rows) == ["a"]
    assert facts.is_truncated
    assert facts.rank == 3  # that key is whole
    assert facts.n_dropped == 0
    assert facts.n_lost_bytes == len(cut) - cut.index(',\n  "distributedInfo"')


@pytest.mark.parametrize("n_bytes", [20, 30, 60])
def test_a_dump_cut_in_its_header_is_refused_for_what_it_is(n_bytes: int) -> None:
    with pytest.raises(DumpError) as error:
        read(WHOLE[:n_bytes], path="rank3.json.tmp")
    assert error.value.fact == (
        'rank3.json.tmp is a profiler dump cut off in its header, before the first of its "traceEvents"'
    )
    assert error.value.cure == "The job may have died while it was written; leave the file out."


def test_gzip_cut_anywhere_gives_what_could_be_inflated() -> None:
    text = dump(*(event(f"k{n}", ts=n * 7919 % 1000, args={"correlation": n * 104729}) for n in range(3_000)))
    data = gzip.compress(text.encode())
    seen = []
    for share in (0.3, 0.6, 0.9, 0.999):
        rows, facts = read(data[: int(share * len(data))])
        assert names(rows) == [f"k{n}" for n in range(len(rows))]
        assert facts.is_truncated
        assert facts.notes[0] == "In the file, the gzip stream ends early."
        assert facts.n_dropped <= 1
        seen.append(len(rows))
    assert 500 < seen[0] < seen[1] < seen[2] <= seen[3] <= 3_000


def test_gzip_that_lost_only_its_checksum_is_all_there() -> None:
    rows, facts = read(gzip.compress(WHOLE.encode())[:-8])
    assert names(rows) == ["a", "b", "c"]
    assert facts.is_truncated
    assert facts.host == "n1"
    assert facts.notes == ("In the file, the gzip stream ends early.",)


def test_a_truncated_bare_list_gives_every_whole_event() -> None:
    rows, facts = read('[{"ph": "X", "name": "a", "ts": 1, "dur": 1}, {"ph": "X", "na')
    assert names(rows) == ["a"]
    assert (facts.is_truncated, facts.n_dropped, facts.n_lost_bytes) == (True, 1, 15)


def test_a_dump_that_ends_with_its_first_bracket_has_no_events() -> None:
    rows, facts = read('{"schemaVersion": 1, "traceEvents": [')
    assert (rows, facts.n_events, facts.is_truncated) == ([], 0, True)


def test_the_last_event_of_a_whole_dump_may_be_bad() -> None:
    bad = '{"ph": "X", "name": "a"b", "pid": 0, "ts": 1, "dur": 1}'
    rows, facts = read(dump(event("a"), bad, tail=',\n  "distributedInfo": {"rank": 5}'))
    assert names(rows) == ["a"]
    assert (facts.is_truncated, facts.n_dropped, facts.rank) == (False, 1, 5)
