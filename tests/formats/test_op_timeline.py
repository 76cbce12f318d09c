"""Op timelines are read exactly, and nothing in one or in its metadata does more than be refused in words."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluation import connection
from longpole import catalog
from longpole.errors import DumpError, LongpoleError
from longpole.formats.op_timeline import RAW_OPS, Job, is_op_timeline, metadata_names, read_job, read_ops
from longpole.session import Session
from longpole.store import Manifest, Store
from pipeline_inline import make_run

Row = dict[str, Any]

STEP: list[Row] = [
    {"optype": "forward-compute", "start_ts": 0.0, "duration": 0.25, "mc": 0, "mb_id": 0, "gmc": 0},
    {"optype": "backward-compute", "start_ts": 0.25, "duration": 0.5, "mc": 0, "mb_id": 0, "gmc": 0},
    {"optype": "optimizer", "start_ts": 0.75, "duration": 0.125},
]
"""One worker's step of 875 ms."""


def table(rows: list[Row], **types: pa.DataType) -> pa.Table:
    whole = {"dp_rank": 0, "stage": 0, "rank": 0, "step": 7, "seq_id": 0, "mc": -1, "mb_id": -1, "gmc": -1}
    kinds = {
        **dict.fromkeys(("dp_rank", "stage", "rank", "step", "seq_id", "mc", "mb_id", "gmc"), pa.int64()),
        "optype": pa.string(),
        "start_ts": pa.float64(),
        "duration": pa.float64(),
        **types,
    }
    return pa.Table.from_pylist([{**whole, **r} for r in rows], schema=pa.schema(list(kinds.items())))


def write(folder: Path, rows: list[Row], name: str = "trace-job.parquet", **types: pa.DataType) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(table(rows, **types), folder / name)
    return folder / name


def ingest(tmp_path: Path, *dumps: Path, run: str = "job") -> tuple[Store, Manifest]:
    store = Store(str(tmp_path / "store"))
    return store, make_run(store, run, dumps)


def ops(store: Store, columns: str) -> list[tuple[Any, ...]]:
    with Session(store) as session:
        ordered = "(FROM timeline_ops ORDER BY step, rank, start_ns, optype)"
        return session.con.execute(f"SELECT {columns} FROM {ordered}").fetchall()


def read(file: bytes) -> tuple[int, pa.Table]:
    batches: list[pa.Table] = []
    n_rows = read_ops(io.BytesIO(file), "trace.parquet", batches.append)
    return n_rows, pa.concat_tables([RAW_OPS.empty_table(), *batches])


def kept(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return the types of the ops that are left of these rows, in order of start."""
    pq.write_table(table(rows), buffer := io.BytesIO())
    con = connection()
    con.register("raw_ops", read(buffer.getvalue())[1])
    for relation in catalog.needed("ops", {"raw_ops"}):
        con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
    return con.execute("SELECT optype FROM timeline_ops ORDER BY start_ns").fetchall()


def test_a_job_is_read_into_ops_and_answered(tmp_path: Path) -> None:
    store, manifest = ingest(tmp_path, write(tmp_path / "dumps", STEP))
    assert ops(store, "step, dp_rank, stage, rank, optype, seq_id, start_ns, duration_ns, chunk, microbatch") == [
        (7, 0, 0, 0, "forward-compute", 0, 0, 250_000_000, 0, 0),
        (7, 0, 0, 0, "backward-compute", 0, 250_000_000, 500_000_000, 0, 0),
        (7, 0, 0, 0, "optimizer", 0, 750_000_000, 125_000_000, None, None),
    ]
    (dump,) = manifest.dumps
    assert (dump.format, dump.rank, dump.first_step, dump.n_events, dump.n_stored, dump.verdict) == (
        *("op-timeline", 0, 7, 3, 3),
        "ok",
    )
    with Session(store) as session:
        found = session.con.execute(
            "SELECT value_ratio, duration_ns FROM run_whatif WHERE measure = 'S' AND dimension = 'run'"
        ).fetchall()
        assert found == [(1.0, 875_000_000)]
        assert session.con.execute("SELECT n_ranks FROM runs").fetchall() == [(1,)]


def test_repeating_costs_nothing_and_changes_nothing(tmp_path: Path) -> None:
    dump = write(tmp_path / "dumps", STEP)
    store, _ = ingest(tmp_path, dump)
    before = store.manifest("job")
    ingest(tmp_path, dump)
    assert store.manifest("job") == before


def test_the_same_dump_gives_the_same_bytes(tmp_path: Path) -> None:
    dump = write(tmp_path / "dumps", STEP)
    digests = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        digests.append([(f.path, f.digest) for f in ingest(tmp_path / place, dump)[1].files])
    assert digests[0] == digests[1]


def test_changed_metadata_is_read_again(tmp_path: Path) -> None:
    dump = write(tmp_path / "dumps", STEP)
    assert ingest(tmp_path, dump)[1].dumps[0].world_size is None
    (tmp_path / "dumps" / "meta-job.yaml").write_text("world_size: 4\n")
    assert ingest(tmp_path, dump)[1].dumps[0].world_size == 4


def test_seconds_become_nanoseconds_however_large_they_are(tmp_path: Path) -> None:
    epoch = 1_700_000_000.000000238418579  # what a double can say next to a whole second: 2**-22 s more
    rows = [{"optype": "gc", "start_ts": epoch, "duration": 1e-9}, {"optype": "gc", "start_ts": -1.5, "duration": 0.0}]
    store, _ = ingest(tmp_path, write(tmp_path / "dumps", rows))
    assert ops(store, "start_ns, duration_ns") == [(-1_500_000_000, 0), (1_700_000_000_000_000_238, 1)]


def test_narrow_types_coded_text_and_floats_with_gaps_are_read(tmp_path: Path) -> None:
    types = {"optype": pa.dictionary(pa.int32(), pa.string()), "start_ts": pa.float32(), "duration": pa.float32()}
    whole = {"dp_rank": pa.int8(), "rank": pa.int16(), "mb_id": pa.float64()}
    rows = [{**row, "mb_id": None if row["optype"] == "optimizer" else 0.0} for row in STEP]
    store, _ = ingest(tmp_path, write(tmp_path / "dumps", rows, **types, **whole))
    assert ops(store, "optype, start_ns, microbatch") == [
        ("forward-compute", 0, 0),
        ("backward-compute", 250_000_000, 0),
        ("optimizer", 750_000_000, None),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"start_ts": float("nan")},
        {"start_ts": float("inf")},
        {"start_ts": 1e300},
        {"duration": float("nan")},
        {"duration": -1.0},
        {"duration": 1e7},  # beyond a week
        {"duration": 1e300},
        {"start_ts": None},
        {"duration": None},
        {"optype": None},
        {"step": None},
        {"step": -1},
        {"step": 2**63 - 1},
        {"rank": None},
        {"rank": -1},
        {"rank": 2**40},
        {"dp_rank": 2**20},
        {"stage": 256},
        {"seq_id": None},
        {"seq_id": -1},
        {"mc": 2**40},
        {"gmc": 2**62},
        {"mb_id": 2**31},
    ],
)
def test_an_op_with_a_value_that_makes_no_sense_costs_that_op(bad: Row) -> None:
    assert kept([*STEP, {**STEP[2], "seq_id": 1, **bad}]) == [(row["optype"],) for row in STEP]


def test_dropped_ops_are_counted(tmp_path: Path) -> None:
    _, manifest = ingest(tmp_path, write(tmp_path / "dumps", [*STEP, {**STEP[2], "duration": -1.0}]))
    (dump,) = manifest.dumps
    assert (dump.n_events, dump.n_stored, dump.n_dropped) == (4, 3, 1)
    assert dump.verdict == "1 ops with a value that makes no sense dropped"


def test_types_that_no_model_knows_are_kept_and_said(tmp_path: Path) -> None:
    name = "</script><b>'; DROP TABLE ops; --"
    store, manifest = ingest(tmp_path, write(tmp_path / "dumps", [*STEP, {**STEP[2], "optype": name}]))
    assert ops(store, "count(*)") == [(4,)]
    assert manifest.dumps[0].verdict == "1 ops of types that no model of a step knows"
    assert manifest.dumps[0].notes[1] == f"1 ops of type {name!r} are in no what-if"


def test_a_table_without_an_op_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LongpoleError, match="without an op that could be read"):
        ingest(tmp_path, write(tmp_path / "dumps", []))


def test_other_parquet_is_none_of_ours(tmp_path: Path) -> None:
    other = table(STEP).drop_columns(["gmc"])
    buffer = io.BytesIO()
    pq.write_table(other, buffer)
    assert not is_op_timeline(buffer)
    assert not is_op_timeline(io.BytesIO(b"PAR1 and then something else PAR1"))
    pq.write_table(table(STEP), buffer := io.BytesIO())
    assert is_op_timeline(buffer)


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        ("start_ts", pa.string(), "0"),
        ("rank", pa.list_(pa.int64()), [0]),
        ("optype", pa.int64(), 1),
        ("step", pa.float64(), 0.5),
    ],
)
def test_a_column_of_another_kind_is_an_error_that_names_it(column: str, kind: pa.DataType, value: Any) -> None:
    pq.write_table(table([{**STEP[0], column: value}], **{column: kind}), buffer := io.BytesIO())
    with pytest.raises(DumpError, match=r"trace\.parquet is an op timeline that cannot be read"):
        read(buffer.getvalue())


def test_a_damaged_file_is_an_error_or_is_read_whatever_byte_is_wrong(tmp_path: Path) -> None:
    pq.write_table(table(STEP * 50), buffer := io.BytesIO())
    whole = buffer.getvalue()
    n_refused = 0
    for place in range(4, len(whole), 37):
        damaged = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        try:
            n_rows, found = read(damaged)
        except DumpError:
            n_refused += 1
        else:
            assert found.schema == RAW_OPS
            assert n_rows >= found.num_rows
    assert n_refused > 10
    for cut in (len(whole) // 2, len(whole) - 1):
        assert not is_op_timeline(io.BytesIO(whole[:cut]))


def test_several_ranks_of_one_worker_are_refused(tmp_path: Path) -> None:
    twice = write(tmp_path / "dumps", [*STEP, {**STEP[0], "rank": 5}])
    with pytest.raises(LongpoleError, match=r"several ranks of dp rank 0 and stage 0: \[0, 5\]"):
        ingest(tmp_path, twice)


def test_a_rank_at_two_places_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LongpoleError, match="rank 0 at several dp ranks or stages"):
        ingest(tmp_path, write(tmp_path / "dumps", [*STEP, {**STEP[0], "stage": 1}]))


def test_two_jobs_are_not_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    write(folder, STEP, "trace-a.parquet")
    write(folder, [*STEP, {**STEP[0], "step": 8}], "trace-b.parquet")
    with pytest.raises(LongpoleError, match="an op timeline is a run of its own") as caught:
        ingest(tmp_path, folder)
    assert "trace-a.parquet" in caught.value.fact
    assert "trial_name" in caught.value.cure


def test_of_a_folder_of_jobs_the_one_is_read_that_its_metadata_gives_the_runs_name(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    for name, step in (("a", 1), ("b", 2)):
        write(folder, [{**row, "step": step} for row in STEP], f"trace-{name}.parquet")
        (folder / f"meta-{name}.yaml").write_text(f"trial_name: job-{name}\nworld_size: 1\n")
    store, manifest = ingest(tmp_path, folder, run="job-b")
    assert [d.path for d in manifest.dumps] == [str(folder / "trace-b.parquet")]
    assert ops(store, "DISTINCT step") == [(2,)]


def test_a_timeline_is_not_mixed_with_profiler_dumps(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    write(folder, STEP)
    events = [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}}]
    (folder / "rank0.pt.trace.json").write_text(json.dumps({"traceEvents": events, "schemaVersion": 1}))
    with pytest.raises(LongpoleError, match="an op timeline is a run of its own"):
        ingest(tmp_path, folder)


def test_metadata_is_looked_for_beside_the_timeline_under_names_of_its_own() -> None:
    assert metadata_names("trace-AR.parquet") == ["meta-AR.yaml", "meta-AR.yml", "meta.yaml", "meta.yml"]
    assert metadata_names("ops.parquet")[0] == "meta-ops.yaml"
    assert metadata_names("/elsewhere/../trace.parquet")[0] == "meta.yaml"


def test_metadata_says_sizes() -> None:
    raw = b"trial_name: AR\nrun_id: 0\ndp_size: 4\npp_size: 2\nworld_size: 8\nsomething_else: [1, 2]\n"
    job = read_job(raw, "meta.yaml")
    assert job == Job("AR", dp_size=4, pp_size=2, world_size=8)
    assert job.note() == "its metadata says: AR, dp 4, pp 2, world 8"
    assert read_job(b"trial_name: 7", "m").note() == "its metadata says: 7"
    assert read_job(b"dp_size: 2", "m").note() == "its metadata says: a job without a name, dp 2"


BOMB = b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (c + 1, c + 1, c, c) for c in range(97, 121))


@pytest.mark.parametrize(
    ("raw", "fact"),
    [
        (b"", "no mapping"),
        (b"- 1\n- 2\n", "no mapping"),
        (b"dp_size: 0", "no size"),
        (b"dp_size: -4", "no size"),
        (b"dp_size: 4.5", "no size"),
        (b"dp_size: true", "no size"),
        (b"dp_size: '4'", "no size"),
        (b"dp_size: [4]", "no size"),
        (b"dp_size: 99999999999", "no size"),
        (b"dp_size: " + b"9" * 9_000, "no YAML"),
        (b"dp_size: 2026-99-99", "no YAML"),
        (b"trial_name: {a: b}", "no text"),
        (b"trial_name: !!python/object/apply:os.system ['touch /tmp/never']", "no YAML"),
        (b"!!python/name:os.system\n", "no YAML"),
        (b"dp_size: [", "no YAML"),
        (b"[" * 30_000, "no YAML"),
        (b"\xff\xfe\x00", "no YAML"),
        (b"\x00", "no YAML"),
        (b"a: b\n" * 20_000, "too many for a job's sizes"),
        (b"a: &a [*a]\ndp_size: *a", "no size"),
    ],
)
def test_metadata_that_is_none_is_an_error_in_words(raw: bytes, fact: str) -> None:
    with pytest.raises(DumpError, match=fact) as caught:
        read_job(raw, "meta-job.yaml")
    assert caught.value.fact.startswith("meta-job.yaml ")
    assert len(caught.value.fact) < 400
    assert "\n" not in caught.value.fact


def test_metadata_that_would_fill_the_memory_does_not() -> None:
    assert len(BOMB) < 1_000
    assert read_job(BOMB + b"dp_size: 2\n", "meta.yaml") == Job(dp_size=2)


def test_wrong_metadata_makes_the_dump_unreadable_and_is_named(tmp_path: Path) -> None:
    dump = write(tmp_path / "dumps", STEP)
    (tmp_path / "dumps" / "meta-job.yaml").write_text("dp_size: many\n")
    with pytest.raises(LongpoleError, match=r"meta-job\.yaml has dp_size: 'many', which is no size"):
        ingest(tmp_path, dump)
