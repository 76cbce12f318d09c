"""Lines of timers become ranges: units, nesting, lines without a start, and what is no timer at all."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pytest

from longpole.errors import DumpError
from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions, reader_for
from longpole.formats.timers_log import MOST_RANKS, TimersReader

Row = dict[str, Any]
Range = tuple[str, str, int, int]


def read(*lines: Row | str, compress: bool = False) -> tuple[list[Row], DumpFacts]:
    """Return the rows that lines give, and what the log says besides; the counts must add up."""
    data = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
    batches: list[pa.Table] = []
    file = io.BytesIO(gzip.compress(data) if compress else data)
    facts = TimersReader().read(file, "timers.jsonl", batches.append, ReadOptions())
    assert all(batch.schema == RAW_SCHEMA for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert facts.n_stored == len(rows)
    assert facts.n_events == facts.n_stored + facts.n_skipped + facts.n_dropped
    return rows, facts


def ranges(rows: list[Row]) -> list[Range]:
    return [(r["category"], r["name"], r["start_ns"], r["duration_ns"]) for r in rows]


def timer(name: str, duration: float | str, **more: Any) -> Row:
    return {"rank": 0, "step": 4, "name": name, "duration": duration, **more}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", "1700000000.123456789"),
        ("_s", "1700000000.123456789"),
        ("_ms", "1700000000123.456789"),
        ("_us", "1700000000123456.789"),
        ("_ns", "1700000000123456789"),
    ],
)
def test_a_time_of_any_unit_keeps_its_nanoseconds(key: str, value: str) -> None:
    rows, facts = read(f'{{"rank": 0, "step": 4, "name": "forward", "start{key}": {value}, "duration_us": 2.5}}')

    assert ranges(rows) == [
        ("annotation", "ProfilerStep#4", 1_700_000_000_123_456_789, 2_500),
        ("cpu_op", "forward", 1_700_000_000_123_456_789, 2_500),
    ]
    assert (facts.rank, facts.processes, facts.n_rounded) == (0, (), 0)


def test_digits_below_a_nanosecond_are_rounded_half_up_and_counted() -> None:
    rows, facts = read('{"name": "forward", "step": 1, "start_ns": 10.5, "duration_us": 1.0004}')
    assert ranges(rows)[1] == ("cpu_op", "forward", 11, 1_000)
    assert facts.n_rounded == 2
    assert facts.rank is None


def test_an_exchange_has_its_operation_and_group_and_a_batch_is_input() -> None:
    rows, _ = read(
        timer("all-grads-sync", 0.5, start=2, group="dp3"),
        timer("grads-reduce-scatter", 0.5, start=3),
        timer("forward-send-backward-recv", 0.5, start=4),
        timer("batch-generator", 0.5, start=5),
        timer("my own", 0.5, start=6),
    )
    assert [(r["name"], r["category"], r["comm_op"], r["comm_group"]) for r in rows] == [
        ("ProfilerStep#4", "annotation", None, None),
        ("all-grads-sync", "annotation", "all_reduce", "dp3"),
        ("grads-reduce-scatter", "annotation", "reduce_scatter", None),
        ("forward-send-backward-recv", "annotation", "send_recv", None),
        ("batch-generator", "annotation", None, None),
        ("my own", "annotation", None, None),
    ]


def test_a_timer_that_holds_others_is_left_to_them_and_a_batch_is_taken_out_of_its_forward() -> None:
    rows, _ = read(
        timer("interval-time", 10, start=0),
        timer("forward-backward", 8, start=0),
        timer("forward-compute", 3, start=0),
        timer("batch-generator", 1, start=1),
        timer("backward-compute", 4, start=3),
        timer("optimizer", 2, start=8),
        timer("optimizer-inner-step", 1, start=8),
    )
    assert [(r[0], r[1], r[2] // 10**9, r[3] // 10**9) for r in ranges(rows)] == [
        ("annotation", "ProfilerStep#4", 0, 10),
        ("annotation", "forward-backward", 0, 8),
        ("cpu_op", "forward-compute", 0, 1),
        ("annotation", "batch-generator", 1, 1),
        ("cpu_op", "forward-compute", 2, 1),
        ("cpu_op", "backward-compute", 3, 4),
        ("annotation", "optimizer", 8, 2),
        ("cpu_op", "optimizer-inner-step", 8, 1),
    ]


def test_forward_backward_alone_is_compute() -> None:
    rows, _ = read(timer("forward-backward", 8, start=0))
    assert ranges(rows)[1][0] == "cpu_op"


def test_timers_without_a_start_lie_behind_each_other_and_steps_too() -> None:
    rows, facts = read(
        timer("step", 10),
        timer("forward-compute", 3),
        timer("batch-generator", 1),
        timer("forward-backward", 8),
        timer("backward-compute", 4),
        timer("forward-compute", 5, step=5),
        timer("optimizer", 1, step=5),
    )
    assert [(r[1], r[2] // 10**9, r[3] // 10**9) for r in ranges(rows)] == [
        ("ProfilerStep#4", 0, 10),
        ("forward-compute", 0, 3),
        ("backward-compute", 3, 4),
        ("ProfilerStep#5", 10, 6),
        ("forward-compute", 10, 5),
        ("optimizer", 15, 1),
    ]
    assert dict(facts.skipped) == {"a batch within a forward pass": 1, "a timer that holds others": 1}
    assert facts.n_dropped == 0


def test_timers_without_a_start_lie_from_the_start_that_their_step_has() -> None:
    rows, _ = read(timer("step", 10, start=100), timer("forward", 3), timer("backward", 6))
    assert [(r[1], r[2] // 10**9, r[3] // 10**9) for r in ranges(rows)] == [
        ("ProfilerStep#4", 100, 10),
        ("forward", 100, 3),
        ("backward", 103, 6),
    ]


def test_what_cannot_be_placed_is_counted() -> None:
    rows, facts = read(
        timer("step", 10),
        timer("forward", 8),
        timer("backward", 3),  # 11 of 10
        timer("optimizer", 1, step=None),
    )
    assert ranges(rows) == [("annotation", "ProfilerStep#4", 0, 10_000_000_000)]
    assert facts.samples == (
        "neither a start nor a step: 1",
        "no start, and durations that add up to more than their step: 2",
    )


def test_a_line_without_a_start_is_not_laid_over_those_that_have_one() -> None:
    _, facts = read(timer("forward", 1, start=0), timer("backward", 1), timer("forward", 1, step=5))
    assert facts.samples == (
        "no start, where other steps of the rank have one: 1",
        "no start, where others of its step have one: 1",
    )
    assert facts.n_dropped == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("not JSON", "a line that is no timer: JSON with a name"),
        ("[1, 2]", "a line that is no timer: JSON with a name"),
        ('{"name": 3, "duration": 1}', "a line that is no timer: JSON with a name"),
        ('{"name": "forward", "duration": NaN}', "a line that is no timer: JSON with a name"),
        ('{"name": "forward", "duration": "' + "9" * 70_000 + '"}', "a line too long for a timer"),
        ('{"name": "forward"}', "no duration, or one below 0"),
        ('{"name": "forward", "duration": -1}', "no duration, or one below 0"),
        ('{"name": "forward", "duration": 1e999999999}', "a time beyond any"),
        ('{"name": "forward", "start_ns": 1e19, "duration": 1}', "a time beyond any"),
        ('{"name": "forward", "rank": -1, "duration": 1}', "a rank that cannot be"),
        ('{"name": "forward", "rank": 1048576, "duration": 1}', "a rank that cannot be"),
        ('{"name": "forward", "rank": 0, "step": -3, "duration": 1}', "a step that cannot be"),
        ('{"name": "forward", "step": 4, "start": 5, "duration": 1}', "no rank, where other lines have one"),
    ],
)
def test_a_line_that_is_no_timer_costs_that_line_and_is_counted(line: str, why: str) -> None:
    rows, facts = read(timer("forward", 1, start=0), line, timer("backward", 1, start=1))
    assert [r["name"] for r in rows if r["category"] == "cpu_op"] == ["forward", "backward"]
    assert facts.n_dropped >= 1
    assert why in [sample.rpartition(":")[0] for sample in facts.samples]


def test_ranks_of_one_file_are_told_apart() -> None:
    rows, facts = read(timer("forward", 1, start=0, rank=5), timer("forward", 2, start=0, rank=2), compress=True)
    assert [(r["process"], r["name"], r["duration_ns"]) for r in rows] == [
        (2, "ProfilerStep#4", 2_000_000_000),
        (2, "forward", 2_000_000_000),
        (5, "ProfilerStep#4", 1_000_000_000),
        (5, "forward", 1_000_000_000),
    ]
    assert (facts.rank, facts.processes, facts.processes_are_ranks) == (None, (2, 5), True)


def test_a_log_that_lost_its_end_gives_its_whole_lines() -> None:
    data = gzip.compress("".join(json.dumps(timer("forward", 1, start=n)) + "\n" for n in range(5_000)).encode())
    batches: list[pa.Table] = []
    facts = TimersReader().read(io.BytesIO(data[: len(data) // 2]), "t.jsonl.gz", batches.append, ReadOptions())
    assert facts.is_truncated
    assert "the gzip stream ends early" in facts.samples
    assert 100 < facts.n_stored < 5_000


def test_a_file_of_too_many_ranks_or_of_no_timer_is_refused() -> None:
    with pytest.raises(DumpError, match=f"more than {MOST_RANKS:,} ranks"):
        read(*(timer("forward", 1, rank=n) for n in range(MOST_RANKS + 1)))
    with pytest.raises(DumpError, match="no line that is a timer's"):
        read("", "[]")


def test_a_timers_log_is_told_by_its_lines_whatever_its_size() -> None:
    line = json.dumps(timer("forward", 1, start=0)).encode() + b"\n"
    for head in (line, b"cut\n" + line, line * 1_000):
        assert reader_for(head[: 64 << 10], "a.json").name == "timers"
    kineto = b'{"traceEvents": [\n{"ph": "X", "name": "k", "duration": 3}\n'
    assert reader_for(kineto, "a.json").name == "kineto"
    with pytest.raises(DumpError):
        reader_for(b'{"name": "loss", "value": 3}\n', "metrics.jsonl")
