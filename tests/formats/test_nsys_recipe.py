"""Ranges of Nsight's recipe become device and host events; what is no such table is read, or refused, as before."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longpole.errors import DumpError
from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions, reader_for
from longpole.formats.canonical import FACTS_KEY, facts_to_json
from longpole.formats.nsys_recipe import NsysRecipeReader

Json = dict[str, Any]

THUNK = "TSL:Thunk:#name=pjit(step)/jit(main)/reduce_sum[axes=(0,)],hlo_op="


def _range(number: int, name: str | None, start: int, length: int, *, parent: int | None = None, **more: Any) -> Json:
    return {
        "Name": name, "Projected Start": start, "Projected Duration": length, "Orig Start": float(start - 50),
        "Orig Duration": 40.0, "Style": "PushPop", "PID": 4_000, "TID": 4_001, "NumGPUOps": 1, "Lvl": 0.0,
        "NumChild": 0, "RangeId": float(number), "ParentId": None if parent is None else float(parent),
        "RangeStack": "", "Rank": 0,
        **more,
    }  # fmt: skip


SCHEMA = pa.schema(
    [
        ("Name", pa.string()), ("Projected Start", pa.int64()), ("Projected Duration", pa.int64()),
        ("Orig Start", pa.float64()), ("Orig Duration", pa.float64()), ("Style", pa.string()), ("PID", pa.int64()),
        ("TID", pa.int64()), ("NumGPUOps", pa.int64()), ("Lvl", pa.float64()), ("NumChild", pa.int64()),
        ("RangeId", pa.float64()), ("ParentId", pa.float64()), ("RangeStack", pa.string()), ("Rank", pa.int64()),
    ]
)  # fmt: skip


def _file(table: pa.Table, facts: DumpFacts | None = None) -> bytes:
    target = io.BytesIO()
    with pq.ParquetWriter(target, table.schema) as writer:
        writer.write_table(table)
        if facts:
            writer.add_key_value_metadata({FACTS_KEY.decode(): facts_to_json(facts)})
    return target.getvalue()


def _read(*ranges: Json, table: pa.Table | None = None) -> tuple[list[Json], DumpFacts]:
    data = _file(pa.Table.from_pylist(list(ranges), schema=SCHEMA) if table is None else table)
    batches: list[pa.Table] = []
    facts = NsysRecipeReader().read(io.BytesIO(data), "proc0.parquet", batches.append, ReadOptions())
    assert all(batch.schema == RAW_SCHEMA for batch in batches)
    found = [{k: v for k, v in row.items() if v is not None} for batch in batches for row in batch.to_pylist()]
    assert facts.n_stored == len(found)
    assert facts.n_events == facts.n_stored + facts.n_skipped + facts.n_dropped
    assert facts.n_skipped == sum(n for _, n in facts.skipped)
    return found, facts


def _device(found: list[Json]) -> list[tuple[str, str, str | None]]:
    return [(r["category"], r["name"], r.get("comm_op")) for r in found if r["category"] != "annotation"]


def test_a_range_is_work_on_the_device_and_a_range_on_its_thread_and_nothing_else() -> None:
    found, facts = _read(_range(1, THUNK + "loop_add_fusion.3#", 1_000, 250))

    name = THUNK + "loop_add_fusion.3#"
    assert found == [
        {"category": "kernel", "name": name, "start_ns": 1_000, "duration_ns": 250, "device": 0},
        {
            "category": "annotation",
            "name": name,
            "start_ns": 950,
            "duration_ns": 40,
            "process": 4_000,
            "thread": 4_001,
        },
    ]
    assert facts == DumpFacts(
        format="nsys-recipe",
        schema="nvtx_gpu_proj_trace",
        n_events=2,
        n_stored=2,
        notes=(
            "NVTX ranges projected onto the device stand in for kernels: copies count as compute, streams, launches and"
            " message sizes are unknown",
        ),
    )


def test_a_collective_is_the_range_that_names_it_and_the_librarys_own_within_is_part_of_it() -> None:
    found, _ = _read(
        _range(1, "TSL:XlaModule:#hlo_module=pjit_step,program_id=40#", 0, 900, NumChild=2, NumGPUOps=2),
        _range(2, THUNK + "all-gather-start.2#", 0, 400, parent=1, NumChild=1),
        _range(3, "NCCL:ncclGroupEnd", 0, 400, parent=2),
        _range(4, THUNK + "fusion#", 500, 400, parent=1),
    )

    assert _device(found) == [
        ("gpu_annotation", "TSL:XlaModule:#hlo_module=pjit_step,program_id=40#", None),
        ("kernel", THUNK + "all-gather-start.2#", "all_gather"),
        ("gpu_annotation", "NCCL:ncclGroupEnd", None),
        ("kernel", THUNK + "fusion#", None),
    ]


@pytest.mark.parametrize(
    ("name", "op"),
    [
        (THUNK + "all-reduce-start#", "all_reduce"),
        (THUNK + "reduce-scatter.131#", "reduce_scatter"),
        ("TSL:Thunk:#hlo_op=all-to-all.4#", "all_to_all"),
        ("TSL:Thunk:#hlo_op=ragged-all-to-all-start#", "all_to_all"),
        ("TSL:Thunk:#hlo_op=collective-permute-start.1.2#", "send_recv"),
        ("TSL:Thunk:#hlo_op=collective-broadcast#", "broadcast"),
        ("TSL:Thunk:#hlo_op=send.7#", "send"),
        ("NCCL:ncclAllReduce", "all_reduce"),
        ("NCCL:ncclRecv", "recv"),
        ("NCCL:ncclGroupEnd", "ncclGroupEnd"),
        ("TSL:Thunk:#name=jit(all_gather)/x,hlo_op=all-gather-done.1#", None),
        ("TSL:Thunk:#hlo_op=all-reduce-fusion.1#", None),
        ("TSL:Thunk:#hlo_op=input_reduce_scatter_fusion.1#", None),
        ("my ncclAllReduce", None),
        ("NCCL:ncclCommInitRank", None),
    ],
)
def test_the_name_says_which_collective_it_is(name: str, op: str | None) -> None:
    found, _ = _read(_range(1, name, 0, 10))

    assert _device(found) == [("kernel", name, op)]


def test_several_reports_in_one_table_are_devices_of_their_own() -> None:
    found, facts = _read(_range(1, "a", 0, 10, Rank=0), _range(1, "a", 5, 10, Rank=1))

    assert [r["device"] for r in found if r["category"] == "kernel"] == [0, 1]
    assert facts.notes[-1] == "2 reports in one table"


def test_what_no_range_accounts_for_is_said() -> None:
    found, facts = _read(
        _range(0, None, 0, 9_000, NumGPUOps=383, **{"Orig Start": None, "Orig Duration": None, "RangeId": None}),
        _range(1, "outer", 0, 900, NumChild=1, NumGPUOps=30),
        _range(2, "inner", 0, 400, parent=1, NumGPUOps=24),
    )

    assert len(found) == 4
    assert facts.skipped == (("range without a name", 1),)
    assert facts.notes[1:] == (
        "in 1 ranges there are several GPU operations: time between them counts as theirs",
        "6 GPU operations are inside a range but in none of the ranges within it: they are no events",
        "383 GPU operations are in no range",
    )


def test_impossible_and_missing_times_are_counted() -> None:
    found, facts = _read(
        _range(1, "early", -5, 10, **{"Orig Start": None}),
        _range(2, "long", 5, 8 * 24 * 3600 * 10**9, **{"Orig Start": None}),
        _range(3, "lost", 5, 10, **{"Projected Start": None, "Orig Start": None}),
    )

    assert [r["name"] for r in found] == ["early", "long"]
    assert (facts.n_bad_times, facts.n_dropped, facts.samples) == (2, 1, ("a range without a start or a duration",))


def test_ids_may_be_integers_and_threads_unknown() -> None:
    table = pa.Table.from_pylist([_range(1, "a", 0, 10)], schema=SCHEMA).drop_columns(["PID", "TID", "Rank"])
    for name in ("RangeId", "ParentId"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))

    found, _ = _read(table=table)

    assert [(r["category"], r.get("device"), r.get("process")) for r in found] == [
        ("kernel", 0, None),
        ("annotation", None, None),
    ]


def test_gaps_that_pandas_wrote_as_no_number_are_gaps() -> None:
    table = pa.Table.from_pylist([_range(1, "a", 0, 10)], schema=SCHEMA)
    place = table.column_names.index("Orig Start")

    found, _ = _read(table=table.set_column(place, "Orig Start", pa.array([float("nan")])))

    assert [r["category"] for r in found] == ["kernel"]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("Projected Start", pa.array(["soon"])),
        ("Projected Start", pa.array([0.5])),
        ("RangeId", pa.array([float("inf")])),
        ("Rank", pa.array([2**40])),
    ],
    ids=["text", "fraction", "infinity", "huge"],
)
def test_a_column_that_holds_what_it_cannot_is_refused_with_the_file(column: str, values: pa.Array) -> None:
    table = pa.Table.from_pylist([_range(1, "a", 0, 10)], schema=SCHEMA)

    with pytest.raises(DumpError, match="an nvtx_gpu_proj_trace table with a value that it cannot have") as caught:
        _read(table=table.set_column(table.column_names.index(column), column, values))

    assert caught.value.fact.startswith("proc0.parquet ")
    assert caught.value.cure.startswith("Run the recipe again")


def test_damage_costs_the_rows_behind_it_and_is_counted() -> None:
    names = pa.array([b"a", b"\xff\xfe"], pa.binary()).view(pa.string())
    table = pa.Table.from_pylist([_range(1, "a", 0, 10), _range(2, "b", 20, 10)], schema=SCHEMA)

    found, facts = _read(table=table.set_column(0, "Name", names))

    assert found == []
    assert (facts.n_events, facts.n_dropped, facts.is_truncated, len(facts.samples)) == (2, 2, True, 1)


def test_canonical_events_are_read_as_before_and_other_parquet_is_refused_as_before() -> None:
    reader = reader_for(b"PAR1\x15\x04", "rank0.parquet")
    events = pa.Table.from_pylist([{"category": "kernel", "name": "gemm", "start_ns": 5}], schema=RAW_SCHEMA)
    said = DumpFacts(format="longpole-events", schema="longpole-events 1", rank=3, n_events=1, n_stored=1)
    batches: list[pa.Table] = []

    facts = reader.read(io.BytesIO(_file(events, said)), "rank0.parquet", batches.append, ReadOptions())

    assert facts == said
    assert batches[0].equals(events)
    with pytest.raises(DumpError, match="is a Parquet file without longpole's events"):
        reader.read(io.BytesIO(_file(pa.table({"a": [1]}))), "x.parquet", batches.append, ReadOptions())
    with pytest.raises(DumpError, match="begins like Parquet but cannot be opened"):
        reader.read(io.BytesIO(_file(events, said)[:-20]), "x.parquet", batches.append, ReadOptions())
