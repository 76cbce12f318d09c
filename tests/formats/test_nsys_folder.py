"""A folder of Parquet that Nsight Systems exported is one dump; what is no such folder is told in words."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.nsys_files import CUPTI, NAMES, as_folder, call, kernel, marked, read, read_folder, write
from longpole.cli.inspect import inspect
from longpole.config import parse
from longpole.discover import find
from longpole.errors import DumpError
from longpole.ingest import ingest_run
from longpole.store import Store
from pipeline_inline import inline

STEPS = "[steps]\nmarker = '^iteration (\\d+)$'\n"


def export(folder: Path, end: int = 1_250) -> Path:
    """Return a folder of a kernel, its call and a step around it."""
    tables = {
        CUPTI + "KERNEL": [kernel(1_000, end)],
        CUPTI + "RUNTIME": [call(900, 940)],
        "NVTX_EVENTS": [marked(800, 2_000, "iteration 3")],
        "ENUM_NSYS_EVENT_TYPE": [{"id": 59, "name": "NvtxPushPopRange"}],
    }
    database = write(folder.with_suffix(".sqlite"), tables)
    made = as_folder(database, folder)
    database.unlink()
    return made


@pytest.mark.parametrize("how", ["folder", "files", "parent"])
def test_the_folder_or_its_files_are_one_dump(tmp_path: Path, how: str) -> None:
    folder = export(tmp_path / "report_rank3_pqtdir")
    given = {"folder": [folder], "files": sorted(folder.iterdir()), "parent": [tmp_path]}[how]

    (found,) = find([str(path) for path in given])

    assert (found.name, found.is_named, len(found.parts)) == (str(folder), how == "files", 5)
    assert found.n_bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_a_folder_beside_other_dumps_is_one_of_the_ranks(tmp_path: Path) -> None:
    export(tmp_path / "rank0_pqtdir")
    export(tmp_path / "rank1_pqtdir", end=1_300)
    store = Store(str(tmp_path / "store"))

    def ingested() -> list[tuple[object, ...]]:
        with store.lock("job"):
            dumps = [c for c in find([str(tmp_path)]) if "store" not in c.url]
            manifest = ingest_run(store, "job", dumps, parse(STEPS, "run.toml"), STEPS, run_tasks=inline)
        return [(d.rank, d.format, d.schema, d.n_events, d.first_step, Path(d.path).name) for d in manifest.dumps]

    first = ingested()

    assert first == [
        (rank, "nsys", "nsys Parquet of an unknown version", 3, 3, f"rank{rank}_pqtdir") for rank in (0, 1)
    ]
    assert ingested() == first  # known by content: nothing is read


def test_a_grown_folder_is_another_dump(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")
    (before,) = find([str(folder)])
    pq.write_table(pa.table({"cudaId": [0], "gpuId": [0]}), folder / "TARGET_INFO_CUDA_DEVICE.parquet")

    (after,) = find([str(folder)])

    assert float(after.modified) >= float(before.modified)
    assert (after.n_bytes > before.n_bytes, len(after.parts)) == (True, 6)


def test_inspect_tells_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = export(tmp_path / "report_rank3_pqtdir")

    assert inspect([str(folder)]) == 0

    out = capsys.readouterr().out
    assert "format    nsys: nsys Parquet of an unknown version" in out
    assert "rank      3 (from its name) of unknown" in out
    assert "events    3 found, 3 stored, 0 skipped, 0 dropped" in out


def test_a_table_alone_asks_for_its_folder(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")

    with pytest.raises(DumpError) as error:
        read(folder / f"{CUPTI}KERNEL.parquet")

    assert error.value.fact == "CUPTI_ACTIVITY_KIND_KERNEL.parquet is one table of an Nsight Systems export"
    assert error.value.cure == "Give the folder that nsys export wrote it to."


def test_a_table_that_was_cut_off_is_named(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")
    table = folder / "NVTX_EVENTS.parquet"
    table.write_bytes(table.read_bytes()[:-20])

    with pytest.raises(DumpError) as error:
        read_folder(folder)

    assert error.value.fact.startswith(f"NVTX_EVENTS.parquet of {folder} is no Parquet file that can be read: ")
    assert error.value.cure == "Export it again: nsys export --type parquetdir REPORT.nsys-rep"


def test_a_page_damaged_in_the_middle_costs_what_follows_it_and_is_said(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")
    table = folder / f"{CUPTI}RUNTIME.parquet"
    pq.write_table(
        pa.Table.from_pylist([call(start, start + 1) for start in range(40_000)]),
        table,
        compression="none",
        row_group_size=16_384,
        use_dictionary=False,
    )
    data = bytearray(table.read_bytes())
    start = pq.read_metadata(table).row_group(1).column(0).data_page_offset
    data[start : start + 64] = b"\xff" * 64
    table.write_bytes(data)

    rows, facts = read_folder(folder)

    assert sum(row["category"] == "runtime" for row in rows) == 16_384
    assert facts.is_truncated
    assert facts.samples[0].startswith("CUPTI_ACTIVITY_KIND_RUNTIME ends early, after 16,384 rows: ")


def test_a_table_of_more_rows_than_its_bytes_can_hold_is_refused(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")
    n_rows = 2_000_000
    same = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n_rows), pa.array([1], pa.int64()))
    pq.write_table(pa.table({"start": same}), folder / f"{CUPTI}RUNTIME.parquet")
    n_bytes = (folder / f"{CUPTI}RUNTIME.parquet").stat().st_size

    with pytest.raises(DumpError) as error:
        read_folder(folder)

    assert n_bytes < 10_000
    assert error.value.fact == (
        f"CUPTI_ACTIVITY_KIND_RUNTIME.parquet of {folder} is no Parquet file that can be read: it says that it has"
        f" 2,000,000 rows, more than fit into its {n_bytes:,} bytes"
    )


def test_columns_of_other_types_are_as_if_missing_and_broken_utf8_is_replaced(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")
    odd = pa.table(
        {
            "start": pa.array([2**63, 1_000, 1_000], pa.uint64()),  # beyond any time
            "end": [1_100, 1_100, 1_100],
            "deviceId": pa.array([0, 2**31, 0], pa.uint32()),
            "streamId": pa.array(["7", "7", "7"]),
            "globalPid": pa.array([(1 << 48) | (144 << 24)] * 3, pa.uint64()),
            "correlationId": pa.array([1.0, 2.0, 3.0]),
            "demangledName": [1, 1, 1],
        }
    )
    pq.write_table(odd, folder / f"{CUPTI}KERNEL.parquet")
    names = pa.array([b"ge\xffmm"], pa.large_binary())
    text = pa.LargeStringArray.from_buffers(1, names.buffers()[1], names.buffers()[2])
    pq.write_table(pa.table({"id": [1], "value": text}), folder / "StringIds.parquet")

    rows, facts = read_folder(folder)

    assert [row for row in rows if row["category"] == "kernel"] == [
        {"category": "kernel", "name": "ge\N{REPLACEMENT CHARACTER}mm", "start_ns": 1_000, "duration_ns": 100,
         "device": 0, "process": 144}
    ]  # fmt: skip
    assert facts.samples == (
        "a device number that cannot be: 1",
        "no start, or one beyond any time: 1",
    )


def test_texts_without_numbers_are_refused(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")
    pq.write_table(pa.table({"value": list(NAMES.values())}), folder / "StringIds.parquet")

    with pytest.raises(DumpError) as error:
        read_folder(folder)

    assert error.value.fact == f"{folder} is an Nsight Systems export whose table StringIds has no key"


def test_a_folder_without_anything_recorded_says_how_to_record(tmp_path: Path) -> None:
    folder = tmp_path / "a_pqtdir"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1], "value": ["a"]}), folder / "StringIds.parquet")

    with pytest.raises(DumpError) as error:
        read_folder(folder)

    assert error.value.fact == f"{folder} is an Nsight Systems export without device work, calls or NVTX ranges"
    assert error.value.cure == "Record with nsys profile --trace=cuda,nvtx, and export again."


def test_a_long_text_that_many_rows_repeat_is_held_once(tmp_path: Path) -> None:
    folder = export(tmp_path / "a_pqtdir")
    n_rows = 4_000
    ranges = pa.Table.from_pylist([marked(start, start + 1, None) for start in range(n_rows)])
    text = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n_rows), pa.array(["x" * (4 << 20)]))
    ranges = ranges.set_column(ranges.schema.get_field_index("text"), "text", text)
    pq.write_table(ranges, folder / "NVTX_EVENTS.parquet", dictionary_pagesize_limit=1 << 26, store_schema=False)

    rows, _ = read_folder(folder)

    assert {(row["category"], len(row["name"])) for row in rows} == {
        ("kernel", 4), ("runtime", 16), ("annotation", 4_096),
    }  # fmt: skip


def test_a_folder_at_a_url_reads_alike(tmp_path: Path) -> None:
    folder = export(tmp_path / "report_rank3_pqtdir")
    fsspec.filesystem("memory").put(str(folder), "/tables/report_rank3_pqtdir", recursive=True)
    store = Store(str(tmp_path / "store"))

    with store.lock("job"):
        found = find(["memory://tables"])
        manifest = ingest_run(store, "job", found, parse(STEPS, "run.toml"), STEPS, run_tasks=inline)

    assert [(d.path, d.rank, d.n_stored) for d in manifest.dumps] == [("memory:///tables/report_rank3_pqtdir", 3, 3)]
