"""Events written as Parquet come back as they were; any other Parquet is refused with what is wrong with it."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longpole.errors import DumpError
from longpole.events import RAW_SCHEMA, Device, DumpFacts
from longpole.formats import ReadOptions
from longpole.formats.canonical import FACTS_KEY, CanonicalReader, facts_to_json, open_writer
from longpole.formats.kineto import KinetoReader
from longpole.synth import write

FACTS = DumpFacts(format="longpole-events", schema="longpole-events 1", rank=3, n_events=3, n_stored=3)
ROWS = pa.Table.from_pylist(
    [
        {"category": "kernel", "name": "gemm", "start_ns": 5, "duration_ns": 7, "grid": [4, 2, 1]},
        {"category": "python", "name": "train.py(12): step", "start_ns": 1, "duration_ns": 20},
        {"name": "no category", "start_ns": 2, "duration_ns": None},
    ],
    schema=RAW_SCHEMA,
)


def _file(path: Path, table: pa.Table = ROWS, facts: DumpFacts | str | None = FACTS) -> Path:
    text = facts_to_json(facts) if isinstance(facts, DumpFacts) else facts
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        if text is not None:
            writer.add_key_value_metadata({FACTS_KEY.decode(): text})
    return path


def _read(path: Path, options: ReadOptions | None = None) -> tuple[DumpFacts, pa.Table]:
    batches: list[pa.Table] = []
    with path.open("rb") as file:
        facts = CanonicalReader().read(file, str(path), batches.append, options or ReadOptions())
    assert all(batch.schema == RAW_SCHEMA for batch in batches)
    return facts, pa.concat_tables([RAW_SCHEMA.empty_table(), *batches])


def test_a_made_dump_comes_back_with_its_facts_and_every_row(tmp_path: Path) -> None:
    paths = write("worked", tmp_path, form="events")

    facts, table = _read(paths[1])

    assert facts == DumpFacts(
        format="longpole-events",
        schema="longpole-events 1",
        base_ns=1790857026000000000,
        rank=1,
        world_size=2,
        backend="nccl",
        host="node0",
        devices=(
            Device(0, "NVIDIA H100 80GB HBM3", 85028372480),
            Device(1, "NVIDIA H100 80GB HBM3", 85028372480),
        ),
        process_groups=(
            '[{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 1]}]'
        ),
        trace_id="6C0F9A3E51D84B7786A2000000000001",
        n_events=515,
        n_stored=515,
    )
    # A step is 20 kernels; the one before the first step is the 81st.
    assert Counter(table["category"].to_pylist()) == {
        "kernel": 81,
        "runtime": 149,
        "cpu_op": 201,
        "annotation": 32,
        "sync": 32,
        "gpu_annotation": 20,
    }


def test_it_knows_parquet_by_its_first_bytes() -> None:
    assert CanonicalReader().recognises(b"PAR1\x15\x04", "rank0.parquet")
    assert not CanonicalReader().recognises(b'{"schemaVersion": 1', "rank0.parquet")
    assert CanonicalReader().name == "longpole-events"


def test_python_frames_are_left_out_and_counted_unless_asked_for(tmp_path: Path) -> None:
    path = _file(tmp_path / "rank3.parquet")

    facts, table = _read(path)
    kept_facts, kept = _read(path, ReadOptions(keep_python=True))

    assert table["name"].to_pylist() == ["gemm", "no category"]
    assert facts == replace(FACTS, n_stored=2, n_skipped=1, skipped=(("python", 1),))
    assert kept.equals(ROWS)
    assert kept_facts == FACTS


def test_a_long_file_is_handed_over_in_batches(tmp_path: Path) -> None:
    n_rows = 300_000
    table = pa.table(
        [pa.array(range(n_rows)) if field.name == "start_ns" else pa.nulls(n_rows, field.type) for field in RAW_SCHEMA],
        schema=RAW_SCHEMA,
    )
    with open_writer(str(tmp_path / "long.parquet")) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({FACTS_KEY.decode(): facts_to_json(FACTS)})
    sizes: list[int] = []

    with (tmp_path / "long.parquet").open("rb") as file:
        facts = CanonicalReader().read(file, "long.parquet", lambda batch: sizes.append(batch.num_rows), ReadOptions())

    assert sum(sizes) == facts.n_stored == facts.n_events == 300_000
    assert max(sizes) <= 200_000


@pytest.mark.parametrize(
    ("table", "facts", "fact"),
    [
        (ROWS, None, "is a Parquet file without longpole's events: its footer has no 'longpole.dump'"),
        (ROWS, "{", "has a 'longpole.dump' that cannot be read: Input data was truncated"),
        (ROWS, '{"format": 1, "schema": ""}', "Expected `str`, got `int`"),
        (ROWS.drop_columns(["stream"]), FACTS, "has no column 'stream'"),
        (ROWS.set_column(2, "start_ns", pa.array([0.5] * 3)), FACTS, "has 'start_ns' as double, where events"),
        (ROWS.append_column("note", pa.array(["x"] * 3)), FACTS, r"columns that events do not have: \['note'\]"),
        (ROWS.select(ROWS.column_names[::-1]), FACTS, "its columns in another order"),
    ],
)
def test_parquet_that_is_not_ours_is_refused_with_the_reason(
    table: pa.Table, facts: DumpFacts | str | None, fact: str, tmp_path: Path
) -> None:
    path = _file(tmp_path / "other.parquet", table, facts)

    with pytest.raises(DumpError, match=fact) as caught:
        _read(path)

    assert str(path) in caught.value.fact
    assert caught.value.cure


def test_a_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path / "cut.parquet")
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(DumpError, match="begins like Parquet but cannot be opened"):
        _read(path)


@pytest.mark.parametrize("place", range(1, 400, 7))
def test_a_damaged_footer_is_refused_or_read_and_never_a_traceback(tmp_path: Path, place: int) -> None:
    path = _file(tmp_path / "damaged.parquet")
    data = bytearray(path.read_bytes())
    data[-9 - place] ^= 0xA5
    path.write_bytes(data)

    with contextlib.suppress(DumpError):
        _read(path)


def test_damage_in_the_middle_costs_the_rows_behind_it_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    with open_writer(str(path)) as writer:
        writer.write_table(ROWS)
        writer.write_table(ROWS)
        writer.add_key_value_metadata({FACTS_KEY.decode(): facts_to_json(replace(FACTS, n_stored=6))})
    column = pq.ParquetFile(path).metadata.row_group(1).column(2)
    data = bytearray(path.read_bytes())
    for place in range(column.data_page_offset, column.data_page_offset + column.total_compressed_size):
        data[place] = 0xFF
    path.write_bytes(data)

    facts, table = _read(path, ReadOptions(keep_python=True))

    assert table.num_rows + facts.n_dropped == 6
    assert (facts.n_events, facts.n_stored) == (6, table.num_rows)
    assert facts.is_truncated
    assert len(facts.samples) == 1


def test_text_that_is_not_utf8_does_not_travel_on(tmp_path: Path) -> None:
    names = pa.DictionaryArray.from_arrays(
        pa.array([0, 0, 0], pa.int32()), pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    )
    path = _file(tmp_path / "bad.parquet", ROWS.set_column(1, RAW_SCHEMA.field("name"), names))

    facts, table = _read(path)

    assert table.num_rows == 0
    assert (facts.n_dropped, facts.is_truncated) == (3, True)


def test_facts_survive_as_json() -> None:
    facts = json.loads(facts_to_json(replace(FACTS, devices=(Device(0, "H100"),))))

    assert facts["devices"] == [{"index": 0, "name": "H100", "memory_bytes": None}]
    assert facts["rank"] == 3


@pytest.mark.parametrize("scenario", ["worked-late-input", "idle-causes", "cpu", "training", "graphs", "mesh"])
def test_both_forms_of_a_run_hold_the_same_events(scenario: str, tmp_path: Path) -> None:
    """The profiler's text has one row more: the span it recorded."""
    sizes: dict[str, dict[str, Any]] = {
        "training": {"ranks": 2, "steps": 3},
        "graphs": {"ranks": 2, "steps": 2},
        "mesh": {"ranks": 16, "steps": 2},
    }
    size = sizes.get(scenario, {})
    text = write(scenario, tmp_path / "text", gzip=True, **size)
    parquet = write(scenario, tmp_path / "parquet", form="events", **size)

    for of_text, of_parquet in zip(text, parquet, strict=True):
        batches: list[pa.Table] = []
        with of_text.open("rb") as file:
            facts = KinetoReader().read(file, str(of_text), batches.append, ReadOptions())
        written_facts, written = _read(of_parquet)
        read = pa.concat_tables(batches).to_pylist()

        assert [row["name"] for row in read if row["category"] == "trace"] == ["PyTorch Profiler (0)"]
        assert _sorted(row for row in read if row["category"] != "trace") == _sorted(written.to_pylist())
        assert (facts.n_dropped, facts.n_salvaged, facts.n_rounded, facts.n_bad_times) == (0, 0, 0, 0)
        assert (facts.rank, facts.world_size, facts.base_ns, facts.host, facts.devices) == (
            written_facts.rank,
            written_facts.world_size,
            written_facts.base_ns,
            written_facts.host,
            written_facts.devices,
        )
    assert (tmp_path / "text" / "truth.json").read_bytes() == (tmp_path / "parquet" / "truth.json").read_bytes()


def _sorted(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_a_file_that_says_more_than_its_bytes_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path / "a.parquet")
    monkeypatch.setattr("longpole.formats.parquet_file._MOST_COLUMN_BYTES", 20)
    with pytest.raises(DumpError, match=r"a column of a row group has [0-9]+ bytes, which no dump's has"):
        _read(path)
    monkeypatch.setattr("longpole.formats.parquet_file._MOST_ROWS_OF_A_BYTE", 1 / path.stat().st_size)
    monkeypatch.setattr("longpole.formats.parquet_file._FEW_ROWS", 1)
    with pytest.raises(DumpError, match=r"it says that it has 3 rows, more than fit into its [0-9,]+ bytes"):
        _read(path)
