"""What a run's analysis does again and what it leaves, and how many tasks it makes of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longpole import analyze
from longpole.errors import LongpoleError
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[1] / "fixtures"


def _dump(path: Path, rank: int, steps: list[int], *, start_us: int = 0, devices: int = 1) -> Path:
    """Write a dump with a step of 100 µs for each number, each launching one kernel of 50 µs per device."""
    events: list[dict[str, Any]] = []
    for place, number in enumerate(steps):
        at = start_us + place * 100
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1,
                       "ts": at, "dur": 100})  # fmt: skip
        for device in range(devices):
            link = 1000 + place * devices + device
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                           "ts": at + 10, "dur": 5, "args": {"correlation": link}})  # fmt: skip
            events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 7, "ts": at + 20,
                           "dur": 50, "args": {"device": device, "stream": 7, "correlation": link}})  # fmt: skip
    whole = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 1}, "traceEvents": events}
    path.write_text(json.dumps(whole))
    return path


def test_step_numbers_far_apart_are_few_tasks_and_right_steps(tmp_path: Path) -> None:
    steps = [0, 1, 999, 4_000_000_000_000, 4_000_000_000_001]
    store = Store(str(tmp_path / "store"))

    manifest = make_run(store, "sparse", [_dump(tmp_path / "rank0.json", 0, steps)])

    assert len(manifest.of("steps")) == 3
    with Session(store) as session:
        found = session.con.execute("SELECT step, capture, duration_ns FROM steps ORDER BY step").fetchall()
    assert found == [(0, 0, 70_000), (1, 0, 100_000), (999, 1, 70_000), (4_000_000_000_000, 2, 70_000),
                     (4_000_000_000_001, 2, 100_000)]  # fmt: skip


def test_more_shards_than_the_most_make_wider_ones_and_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = _dump(tmp_path / "rank0.json", 0, [n * 1000 + k for n in range(12) for k in (0, 1)])
    store = Store(str(tmp_path / "store"))
    narrow = make_run(store, "narrow", [dump])
    monkeypatch.setattr(analyze, "MAX_SHARDS", 3)

    wide = make_run(store, "wide", [dump])

    assert (len(narrow.of("steps")), len(wide.of("steps"))) == (12, 3)
    with Session(store) as session:
        rows = "SELECT * EXCLUDE (run) FROM steps WHERE run = '{}' ORDER BY step"
        assert (
            session.con.execute(rows.format("narrow")).fetchall() == session.con.execute(rows.format("wide")).fetchall()
        )


def test_a_step_number_beyond_reason_is_no_step(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))

    make_run(
        store, "huge", [_dump(tmp_path / "rank0.json", 0, [99_999_999_999_999_999_999, 9_223_372_036_854_775_807])]
    )

    with Session(store) as session:
        assert session.con.execute("SELECT step, verdict FROM steps").fetchall() == [(0, "no step markers")]


def test_each_active_device_of_a_dump_is_a_rank(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))

    manifest = make_run(store, "two", [_dump(tmp_path / "rank0.json", 0, [1, 2], devices=2)])

    assert [(d.rank, d.device_index) for d in manifest.dumps] == [(0, 0), (1, 1)]
    assert all("2 devices in one dump: one rank each" in d.notes for d in manifest.dumps)
    with Session(store) as session:
        found = session.con.execute("SELECT rank, step, compute_ns FROM rank_windows ORDER BY ALL").fetchall()
    assert found == [(0, 1, 50_000), (0, 2, 50_000), (1, 1, 50_000), (1, 2, 50_000)]


def test_a_stray_kernel_on_another_device_moves_no_rank_that_the_dump_states(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    for rank in (0, 1):
        path = _dump(tmp_path / f"rank{rank}.json", rank, [1, 2], start_us=rank, devices=1 + (rank == 0))
        path.write_text(path.read_text().replace('"world_size": 1', '"world_size": 2'))

    made = make_run(store, "stray", [tmp_path / "rank0.json", tmp_path / "rank1.json"])

    assert [(d.rank, d.device_index, d.verdict) for d in made.dumps] == [
        (0, 0, "2 activities on other devices left out"),
        (1, 0, "ok"),
    ]
    with Session(store) as session:
        assert session.con.execute("SELECT world_size, n_ranks, reasons FROM runs").fetchall() == [
            (2, 2, ["clock not aligned: the dumps do not say that the ranks share a host, and no collective ties them",
                    "dump in doubt: 1 (2 activities on other devices left out)"])
        ]  # fmt: skip


def test_markers_without_a_usable_number_and_steps_marked_twice_are_said(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))

    made = make_run(store, "odd", [_dump(tmp_path / "rank0.json", 0, [10**20, 2, 2, 3])])

    assert [d.verdict for d in made.dumps] == ["1 step markers without a usable number; 1 steps marked more than once"]


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    dump = _dump(tmp_path / "rank0.json", 0, [1, 2])
    made = make_run(store, "hurt", [dump])
    for table in ("steps", "rank_windows", "events"):
        path = tmp_path / "store" / "runs" / "hurt" / made.of(table)[0].path
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])

        again = make_run(store, "hurt", [dump])

        assert path.read_bytes() == whole
        assert set(again.files) == set(made.files)


def test_a_dump_of_two_devices_is_read_again_where_the_events_of_one_are_gone(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    dump = _dump(tmp_path / "rank0.json", 0, [1, 2], devices=2)
    made = make_run(store, "two", [dump])
    path = Path(store.path("runs", "two", made.of("events")[1].path))
    whole = path.read_bytes()
    path.unlink()

    again = make_run(store, "two", [dump])

    assert path.read_bytes() == whole
    assert set(again.files) == set(made.files)


def test_a_dump_of_a_thousand_devices_is_refused(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))

    with pytest.raises(LongpoleError, match="kernels of 1000 devices"):
        make_run(store, "many", [_dump(tmp_path / "rank0.json", 0, [1], devices=1000)])


def test_a_new_capture_leaves_what_it_does_not_touch(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    first = _dump(tmp_path / "rank0.a.json", 0, [1, 2, 3])
    before = make_run(store, "grows", [first])

    after = make_run(store, "grows", [_dump(tmp_path / "rank0.b.json", 0, [101, 102], start_us=10_000)])

    assert {f.path for f in before.of("events")} < {f.path for f in after.of("events")}
    assert [(f.first_step, f.last_step) for f in after.of("steps")] == [(1, 3), (101, 102)]
    with Session(store) as session:
        assert session.con.execute("SELECT step FROM steps ORDER BY step").fetchall() == [
            (1,),
            (2,),
            (3,),
            (101,),
            (102,),
        ]
    kept = {p.name for p in (tmp_path / "store").rglob("*.parquet")}
    assert kept == {f.path.rpartition("/")[2] for f in after.files}


@pytest.mark.parametrize(("first", "n_kept"), [("a", 1), ("b", 0)])
def test_steps_that_a_new_capture_does_not_touch_are_not_made_again(tmp_path: Path, first: str, n_kept: int) -> None:
    (tmp_path / "dumps").mkdir()
    dumps = {
        "a": _dump(tmp_path / "dumps" / "rank0.a.json", 0, [47, 48, 49]),
        "b": _dump(tmp_path / "dumps" / "rank0.b.json", 0, [50, 51], start_us=10_000),
    }
    store = Store(str(tmp_path / "store"))
    before = make_run(store, "grows", [dumps[first]])

    after = make_run(store, "grows", list(dumps.values()))

    assert len(set(after.of("steps")) & set(before.of("steps"))) == n_kept  # step 50 follows on 49
    at_once = make_run(Store(str(tmp_path / "at once")), "grows", list(dumps.values()))
    assert set(after.files) == set(at_once.files)


def test_two_dumps_of_the_same_steps_of_a_rank_are_refused_by_name(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    dumps = [_dump(tmp_path / "a.json", 0, [1, 2]), _dump(tmp_path / "b.json", 0, [2, 3], start_us=10_000)]

    with pytest.raises(LongpoleError, match="rank 0 has two dumps of the same steps") as error:
        make_run(store, "twice", dumps)

    assert "a.json" in error.value.fact
    assert "--rank-from" in error.value.cure


def test_dumps_that_do_not_say_their_rank_are_an_error_that_says_how_to_map_them(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    for place, name in enumerate(("left", "right")):
        path = _dump(tmp_path / f"{name}.json", 0, [1], start_us=place)
        path.write_text(path.read_text().replace('"rank": 0, ', ""))
    dumps = [tmp_path / "left.json", tmp_path / "right.json"]

    with pytest.raises(LongpoleError, match="no rank is known for 2 of 2 dumps") as error:
        make_run(store, "unknown", dumps)
    assert "--rank-from" in error.value.cure

    (tmp_path / "left.json").rename(tmp_path / "x1_.json")
    (tmp_path / "right.json").rename(tmp_path / "x2_.json")
    made = make_run(store, "mapped", [tmp_path / "x1_.json", tmp_path / "x2_.json"], rank_pattern=r"x(\d)_")
    assert sorted(d.rank or 0 for d in made.dumps) == [1, 2]


def test_an_unreadable_dump_of_a_folder_is_kept_as_a_row_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    _dump(folder / "rank0.json", 0, [1])
    (folder / "rank1.json").write_bytes(b"")
    store = Store(str(tmp_path / "store"))

    make_run(store, "hurt", [folder])

    with Session(store) as session:
        dumps = session.con.execute("SELECT file_name, verdict, error IS NULL FROM dumps ORDER BY ALL").fetchall()
        reasons = session.con.execute("SELECT reasons FROM runs").fetchall()
    assert dumps == [("rank0.json", "ok", True), ("rank1.json", "unreadable", False)]
    assert reasons == [(["dump unreadable: 1"],)]
