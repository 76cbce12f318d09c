"""JSON of trace events that a run.toml tells how to read: what events are, where their columns stand, units, ranks."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole.config import parse
from longpole.discover import find
from longpole.errors import DumpError
from longpole.events import DumpFacts
from longpole.formats import ReadOptions, blocks, reader_for
from longpole.ingest import ingest_run
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import inline

OWN = """
[chrome]
unit = "ns"
rank = "job.rank"
events = [
    {is = "kernel", pid = '^gpu', name = '^(gemm|all)'},
    {is = "memcpy", pid = '^gpu', name = 'copy'},
    {is = "runtime", cat = '^launch$', tid = '^9$'},
    {is = "annotation", name = '^iteration '},
]

[chrome.columns]
device = "args.gpu"
stream = ["args.queue", "tid"]
correlation_id = "args.ticket"
n_bytes = "args.size"
comm_group = "args.group"
"""


def read(config: str, data: str | bytes) -> tuple[list[dict[str, Any]], DumpFacts]:
    """Return what the rows of a dump have, without NULLs, and what it says besides."""
    batches: list[pa.Table] = []
    raw = data.encode() if isinstance(data, str) else data
    reader = reader_for(raw, "a.json", parse(config, "run.toml").layout())
    facts = reader.read(io.BytesIO(raw), "a.json", batches.append, ReadOptions())
    assert facts.n_events == facts.n_stored + facts.n_skipped + facts.n_dropped
    return [{k: v for k, v in row.items() if v is not None} for batch in batches for row in batch.to_pylist()], facts


def whole(*events: dict[str, Any], **around: Any) -> str:
    return json.dumps({**around, "traceEvents": [{"ph": "X", **event} for event in events]})


def ingested(folder: Path, dump: Path, config: str, sql: str) -> list[tuple[Any, ...]]:
    """Return what a query says of the run that a dump gives, its events alone."""
    store = Store(str(folder / "store"))
    with store.lock("mine"):
        ingest_run(store, "mine", find([str(dump)]), parse(config, "run.toml"), config, run_tasks=inline)
    with Session(store) as session:
        return session.con.execute(sql).fetchall()


def test_rules_say_what_events_are_and_keys_where_their_columns_stand() -> None:
    rows, facts = read(
        OWN,
        whole(
            {"name": "gemm_1", "pid": "gpu 0", "tid": 7, "ts": 1_700_000_000_000_000_123, "dur": 40,
             "args": {"gpu": 0, "ticket": 5, "group": "dp"}},
            {"name": "copy in", "pid": "gpu 0", "tid": 8, "ts": 200, "dur": 5.5, "args": {"queue": 3, "size": "4096"}},
            {"name": "go", "cat": "launch", "pid": 1, "tid": 9, "ts": 100, "dur": 3, "args": {"ticket": 5, "queue": 7}},
            {"name": "go", "cat": "Launch", "pid": 1, "tid": 10, "ts": 110, "dur": 3},
            {"name": "iteration 4", "pid": 1, "tid": 9, "ts": 90, "dur": -1},
            job={"rank": 3, "size": 8},
        ),
    )  # fmt: skip

    assert rows == [
        {"category": "kernel", "name": "gemm_1", "start_ns": 1_700_000_000_000_000_123, "duration_ns": 40, "device": 0,
         "stream": 7, "thread": 7, "label": "gpu 0", "correlation_id": 5, "comm_group": "dp"},
        {"category": "memcpy", "name": "copy in", "start_ns": 200, "duration_ns": 6, "stream": 3, "thread": 8,
         "label": "gpu 0", "n_bytes": 4_096},
        {"category": "runtime", "name": "go", "start_ns": 100, "duration_ns": 3, "stream": 7, "process": 1, "thread": 9,
         "correlation_id": 5},
        {"category": "launch", "name": "go", "start_ns": 110, "duration_ns": 3, "process": 1, "thread": 10},
        {"category": "annotation", "name": "iteration 4", "start_ns": 90, "process": 1, "thread": 9},
    ]  # fmt: skip
    assert (facts.format, facts.schema, facts.rank) == ("chrome", "trace events as run.toml tells, absolute time", 3)
    assert facts.n_rounded == 1


@pytest.mark.parametrize(
    ("unit", "start_ns", "duration_ns"),
    [("ns", 2, 1), ("us", 1_500, 1_000), ("ms", 1_500_000, 1_000_000), ("s", 1_500_000_000, 1_000_000_000)],
)
def test_a_unit_is_exact(unit: str, start_ns: int, duration_ns: int) -> None:
    plain = whole({"name": "a", "cat": "kernel", "pid": 0, "tid": 0, "ts": 1.5, "dur": 1})
    quoted = plain.replace("1.5", '"1.5"')  # goes another way: not the engine's types

    for text in (plain, quoted):
        rows, _ = read(f'[chrome]\nunit = "{unit}"\nrank = "rank"\n', text)
        assert [(row["start_ns"], row["duration_ns"]) for row in rows] == [(start_ns, duration_ns)]


def test_every_way_through_the_reader_gives_the_same_rows() -> None:
    event = {"name": "all_reduce", "pid": "gpu 1", "tid": 2, "ts": 10, "dur": 5, "args": {"gpu": 1, "ticket": 4}}
    text = whole(event)

    rows, _ = read(OWN, text)
    others = [read(OWN, text.replace('"gpu": 1', '"gpu": "1"'))[0], read(OWN, text.replace("}}]", "},}]"))[0]]

    assert others == [rows, rows]
    assert (rows[0]["category"], rows[0]["device"], rows[0]["stream"]) == ("kernel", 1, 2)


def test_shapes_are_found_under_keys_of_any_name() -> None:
    columns = "{input_types = 'args.t', input_shapes = ['args.s.(', 'args.s2'], input_values = 'args.v'}"
    config = f"[chrome]\ncolumns = {columns}\n"
    event = {"cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 1}

    rows, _ = read(
        config,
        whole(
            {**event, "name": "mm", "args": {"t": ["f", "f"], "s.(": [[8, 4], [4, 2]], "v": ["", ""]}},
            {**event, "name": "conv", "args": {"t": ["f"], "s2": [[1, 3]], "v": ["same"]}},
        ),
    )

    assert [row["inputs"] for row in rows] == ["[[8,4],[4,2]]|f;f|", "[[1,3]]|f|same"]


def test_a_key_that_stands_nowhere_leaves_its_column_empty() -> None:
    rows, _ = read(OWN, whole({"name": "gemm", "pid": "gpu", "tid": "x", "ts": 1, "dur": 1, "args": {"gpu": 2**40}}))

    assert rows == [{"category": "kernel", "name": "gemm", "start_ns": 1, "duration_ns": 1, "label": "gpu"}]


SHARED = """
[chrome]
rank = "pid"
events = [{is = "kernel", cat = '^gpu$'}, {is = "annotation", cat = '^step$'}]
columns = {device = "args.device", stream = "tid"}

[steps]
marker = '^step (\\d+)$'
"""


def test_one_file_of_many_ranks_gives_each_its_own_numbers(tmp_path: Path) -> None:
    dump = tmp_path / "all.json"
    dump.write_text(
        whole(
            *(
                event
                for rank, end in ((2, 300), (7, 400))
                for event in (
                    {"name": "step 5", "cat": "step", "pid": rank, "tid": 1, "ts": 100, "dur": end - 100},
                    {"name": "gemm", "cat": "gpu", "pid": rank, "tid": 20, "ts": 150, "dur": 50, "args": {"device": 0}},
                )
            )
        )
    )
    found = ingested(
        tmp_path,
        dump,
        SHARED,
        "SELECT rank, category, name, step, start_ns, stream, process FROM events ORDER BY ALL",
    )

    assert found == [
        (2, "kernel", "gemm", None, 150_000, 20, 2),
        (2, "step", "step 5", 5, 100_000, None, 2),
        (7, "kernel", "gemm", None, 150_000, 20, 7),
        (7, "step", "step 5", 5, 100_000, None, 7),
    ]


def test_a_rank_in_the_arguments_of_events_is_the_dumps_rank() -> None:
    event = {"name": "k", "cat": "kernel", "pid": 4_000, "tid": 1, "ts": 1, "dur": 1, "args": {"r": 6}}

    rows, facts = read('[chrome]\nrank = "args.r"\n', whole(event, {**event, "cat": "cpu_op", "args": {}}))

    assert (facts.rank, facts.processes) == (6, ())
    assert [row["process"] for row in rows] == [6, 4_000]


def test_made_up_ranks_are_no_ranks() -> None:
    event = {"name": "k", "cat": "kernel", "tid": 1, "ts": 1, "dur": 1}

    _, facts = read('[chrome]\nrank = "pid"\n', whole(*({**event, "pid": pid} for pid in (-1, 2**40, 3))))
    with pytest.raises(DumpError) as error:
        read('[chrome]\nrank = "pid"\n', whole(*({**event, "pid": pid} for pid in range(65))))

    assert facts.rank == 3
    assert facts.notes == ("Ranks that cannot be, whose events are in none: 2.",)
    assert error.value.fact == "a.json has events of more than 64 ranks"


def test_a_changed_mapping_reads_the_dumps_again(tmp_path: Path) -> None:
    dump = tmp_path / "rank0.json"
    dump.write_text(whole({"name": "gemm", "cat": "gpu", "pid": 0, "tid": 1, "ts": 100, "dur": 50}))
    found = []
    for category in ("kernel", "memcpy"):
        config = f"[chrome]\nevents = [{{is = '{category}', cat = 'gpu'}}]\ncolumns = {{device = 'pid'}}\n"
        found += ingested(
            tmp_path, dump, config, "SELECT category, device, duration_ns FROM events WHERE name = 'gemm'"
        )

    assert found == [("kernel", 0, 50_000), ("memcpy", 0, 50_000)]


def half(phase: str, name: str | None, ts: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": phase, "cat": "cpu_op", "pid": 1, "tid": tid, "ts": ts} | ({"name": name} if name else {})


def test_begins_and_ends_on_one_thread_are_events() -> None:
    rows, facts = read(
        "[chrome]\nrank = 'rank'\n",
        whole(
            half("B", "outer", 1),
            half("B", "inner", 2),
            half("B", "other thread", 3, tid=2),
            half("E", None, 4.5),
            half("E", "outer", 9),
            half("E", None, 5, tid=2),
            half("E", None, 10),
            half("B", "late", 12),
            half("E", None, 11),
            half("B", "open", 13),
        ),
    )

    assert [(row["name"], row["start_ns"], row["duration_ns"], row["thread"]) for row in rows] == [
        ("inner", 2_000, 2_500, 1),
        ("outer", 1_000, 8_000, 1),
        ("other thread", 3_000, 2_000, 2),
    ]
    assert (facts.n_events, facts.n_stored, facts.skipped) == (10, 3, (("begin or end", 7),))
    assert facts.notes == ("Begins without an end, left out: 1.", "Ends before their begin, left out: 1.")


def test_an_end_may_stand_blocks_behind_its_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MOST_OBJECTS", 40)
    many = [{"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": n, "dur": 1} for n in range(300)]

    rows, facts = read("[chrome]\nunit = 'ns'\n", whole(half("B", "step", 5), *many, half("E", None, 305)))

    assert facts.n_stored == 301
    assert [(row["name"], row["start_ns"], row["duration_ns"]) for row in rows if row["category"] == "cpu_op"] == [
        ("step", 5, 300)
    ]


def test_pytorchs_own_layout_leaves_begins_and_ends_out() -> None:
    rows, facts = read("", whole(half("B", "a", 1), half("E", None, 2), half("X", "b", 3)))

    assert [row["name"] for row in rows] == ["b"]
    assert facts.skipped == (("begin or end", 2),)
