"""A run as one trace: what stands on which track, when, and that any reader of such traces can take it."""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole import export
from longpole.chrome_trace import Process, Trace
from longpole.errors import LongpoleError
from longpole.formats import ReadOptions
from longpole.formats.kineto import KinetoReader
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from skew import ClockError, skewed_copies
from trace_reading import PATH_PID, RUN_PID, Json, overlaps, times

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over the worked example, and over a copy of it with rank 1's clock 5 s and 30 ppm ahead."""
    folder = tmp_path_factory.mktemp("export")
    dumps = sorted((FIXTURES / "worked").glob("*.json.gz"))
    skewed_copies(dumps, folder / "skewed", [ClockError(0, 0), ClockError(5_000_000_321, 30_000)])
    store = Store(str(folder / "store"))
    make_run(store, "worked", dumps)
    make_run(store, "skewed", [folder / "skewed"])
    with Session(store) as session:
        yield session


def _text(
    session: Session,
    run: str,
    steps: tuple[int | None, int | None] | None = None,
    ranks: Sequence[int] | None = None,
    kind: export.Kind = "all",
) -> str:
    pieces: list[str] = []
    export.write(session.con, export.choose(session.con, run, steps, ranks), kind, pieces.append)
    return "".join(pieces)


MS = 1_000_000


def test_steps_of_the_run_and_of_each_rank_are_the_worked_ones(worked: Session) -> None:
    trace = json.loads(_text(worked, "worked"))

    expected = [(f"step {10 + n}", 100 * MS + n * 750 * MS, 750 * MS) for n in range(4)]
    assert trace["displayTimeUnit"] == "ns"
    assert trace["baseTimeNanoseconds"] == 1_795_958_103_000_000_000
    for pid in (RUN_PID, 0, 1):
        assert times(trace, pid, "steps") == expected
    first = next(e for e in trace["traceEvents"] if e["pid"] == 1 and e["ph"] == "X")
    assert first["args"] == {
        "step": 10, "compute_ns": 700 * MS, "exposed_comm_ns": 50 * MS, "exposed_copy_ns": 0, "idle_ns": 0,
        "wait_ns": 0, "verdict": "ok",
    }  # fmt: skip


def test_processes_are_ranks_and_threads_are_streams_and_host_threads(worked: Session) -> None:
    trace = json.loads(_text(worked, "worked"))

    names = [(e["pid"], e["args"]["name"]) for e in trace["traceEvents"] if e["name"] == "process_name"]
    places = [(e["pid"], e["args"]["sort_index"]) for e in trace["traceEvents"] if e["name"] == "process_sort_index"]
    threads = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name" and e["pid"] == 1]
    assert names == [
        (RUN_PID, "run worked"), (PATH_PID, "critical path"), (0, "rank 0 · node0 · GPU 0"),
        (1, "rank 1 · node0 · GPU 1"),
    ]  # fmt: skip
    assert places == [(RUN_PID, 0), (PATH_PID, 1), (0, 2), (1, 3)]
    assert threads == [
        "steps", "collectives", "stream 7", "stream 7 ranges", "stream 7 sync", "stream 20", "stream 20 ranges",
        "stream 20 ranges (2)", "stream 20 sync", "thread 21100", "thread 21156",
    ]  # fmt: skip


FORWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"
BACKWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_the_critical_path_is_a_track_of_its_own_on_which_each_nanosecond_of_the_steps_lies_once(
    worked: Session,
) -> None:
    trace = json.loads(_text(worked, "worked"))

    path = times(trace, PATH_PID, "critical path")
    steps = times(trace, RUN_PID, "steps")
    assert path[0][1] == steps[0][1]
    assert all(start + length == later for (_, start, length), (_, later, _) in itertools.pairwise(path))
    assert path[-1][1] + path[-1][2] == steps[-1][1] + steps[-1][2]
    names = [name for name, *_ in path[:17]]
    assert names[:13] == [f"compute: {FORWARD}"] * 4 + [f"compute: {BACKWARD}"] * 8 + [f"comm: {REDUCE}"]
    assert path[12][1:] == (700 * MS, 50 * MS)
    told = [e["args"] for e in trace["traceEvents"] if e.get("cat") == "critical_path"]
    assert told[12] == {"step": 10, "rank": 0, "lane": "stream 20", "kind": "comm", "verdict": "ok"}


def test_a_path_through_a_rank_that_is_not_exported_is_whole(worked: Session) -> None:
    trace = json.loads(_text(worked, "worked", (11, 11), [1], "device"))

    path = times(trace, PATH_PID, "critical path")
    assert sum(length for *_, length in path) == 750 * MS
    assert {e["args"]["rank"] for e in trace["traceEvents"] if e.get("cat") == "critical_path"} == {0}


def test_a_kernel_says_its_step_its_kind_and_its_launch(worked: Session) -> None:
    trace = json.loads(_text(worked, "worked", (10, 10)))

    comm = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "kernel" and e["args"]["kind"] == "comm"]
    assert len(comm) == 8
    assert comm[0]["args"] == {
        "step": 10, "kind": "comm", "device": 0, "stream": 20, "correlation": 10, "comm_op": "allreduce", "group": "0",
    }  # fmt: skip


@pytest.mark.parametrize("run", ["worked", "skewed"])
def test_our_own_reader_gives_every_time_back_as_the_store_has_it_aligned(worked: Session, run: str) -> None:
    text = _text(worked, run, (10, 12))
    batches: list[pa.Table] = []
    facts = KinetoReader().read(io.BytesIO(text.encode()), "trace.json", batches.append, ReadOptions())
    read = pa.concat_tables(batches).to_pylist()

    found = Counter(
        (r["process"], r["category"], r["name"], r["start_ns"] + facts.base_ns, r["duration_ns"])
        for r in read
        if r["category"] not in ("longpole", "critical_path", "wait", "transfer")
    )
    aligned = "{0} - offset_ns - coalesce(round(drift_ppb * ({0} - reference_ns) / 1e9), 0)::BIGINT"
    start, end = aligned.format("start_ns"), aligned.format("(start_ns + duration_ns)")
    stored = worked.con.execute(
        f"SELECT rank, category, name, {start}, {end} - ({start}) FROM events JOIN rank_clocks USING (run, rank)"
        " WHERE run = $1 AND step BETWEEN 10 AND 12",
        [run],
    ).fetchall()
    assert (facts.n_dropped, facts.n_rounded, facts.n_bad_times) == (0, 0, 0)
    assert sum((Counter(stored) - found).values()) == 0
    assert len(stored) > 700
    assert {r[0] for r in found} == {0, 1}


def test_a_wrong_clock_does_not_show(worked: Session) -> None:
    plain, skewed = json.loads(_text(worked, "worked")), json.loads(_text(worked, "skewed"))

    assert skewed["otherData"]["clocks"] == "aligned by collective ends, to 0.0 µs"
    assert plain["otherData"]["clocks"] == "one clock, that of the ranks' host"
    assert plain["otherData"]["is_aligned"] is skewed["otherData"]["is_aligned"] is True
    tracks = [(1, track) for track in ("steps", "collectives", "stream 7", "stream 20")]
    for pid, track in [*tracks, (PATH_PID, "critical path")]:
        before, after = times(plain, pid, track), times(skewed, pid, track)
        assert len(before) > 3
        assert [name for name, *_ in after] == [name for name, *_ in before]
        for (_, start, duration), (_, start2, duration2) in zip(before, after, strict=True):
            assert max(abs(start2 - start), abs(duration2 - duration)) <= 1


def test_steps_and_ranks_are_those_asked_for_and_device_work_alone_where_asked(worked: Session) -> None:
    trace = json.loads(_text(worked, "worked", (11, 12), [1], "device"))

    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["pid"] for e in slices} == {RUN_PID, PATH_PID, 1}
    assert {e["args"].get("step") for e in slices} == {11, 12, None}
    assert {e["cat"] for e in slices} == {"longpole", "critical_path", "transfer", "kernel", "sync", "gpu_annotation"}
    assert (trace["otherData"]["steps"], trace["otherData"]["ranks"]) == ("11-12", "1")


def test_the_trace_is_written_in_pieces_and_is_the_same_in_any(
    worked: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _text(worked, "worked")
    again = _text(worked, "worked")
    monkeypatch.setattr(export, "_SLICES", 3)
    monkeypatch.setattr(export, "_BATCH_ROWS", 7)
    pieces: list[str] = []
    export.write(worked.con, export.choose(worked.con, "worked", None, None), "all", pieces.append)

    assert again == whole
    assert "".join(pieces) == whole
    assert max(len(p) for p in pieces) < len(whole) / 20


@pytest.mark.parametrize(
    ("steps", "ranks", "says"),
    [
        ((1, 9), None, "has no step from 1 to 9\n\nIt recorded steps 10 to 13: --steps 10:13."),
        ((None, 9), None, "has no step from 10 to 9"),
        (None, [0, 2, 3, 5], "has no rank 2-3,5 in steps 10 to 13\n\nRanks that recorded them: 0-1."),
    ],
)
def test_what_was_not_recorded_is_said(
    worked: Session, steps: tuple[int | None, int | None] | None, ranks: list[int] | None, says: str
) -> None:
    with pytest.raises(LongpoleError) as caught:
        export.choose(worked.con, "worked", steps, ranks)

    assert says in str(caught.value)


def _dump(path: Path, rank: int, events: list[Json], *, host: str = "a", world: int = 2) -> None:
    """Write a dump of one step, 0 to 1,000 µs, with these events beside its marker."""
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 9, "tid": 9, "ts": 0, "dur": 1000}
    told = {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H100"}], "host_name": host,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000, "distributedInfo": {"rank": rank, "world_size": world},
        "traceEvents": [step, *events],
    }  # fmt: skip
    (path / f"rank{rank}.json").write_text(json.dumps(told))


def _kernel(name: str, start: int, duration: int, *, stream: int = 7, launch: int = 1, **args: Any) -> list[Json]:
    """Return a kernel of microseconds and the call that launched it."""
    number = 10_000 * stream + start + 1
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": launch, "dur": 0,
         "args": {"correlation": number}},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration,
         "args": {"device": 0, "stream": stream, "correlation": number, **args}},
    ]  # fmt: skip


def _all_reduce(start: int, duration: int, *, group: str = "0", stream: int = 20, seq: int = 1) -> list[Json]:
    args: Json = {"Collective name": "allreduce", "Process Group Name": group, "Process Group Ranks": "[0, 1]",
            "Group size": 2, "Seq": seq, "dtype": "Float", "In msg nelems": 256, "Out msg nelems": 256}  # fmt: skip
    return _kernel("ncclDevKernel_AllReduce", start, duration, stream=stream, **args)


HOSTILE = ['"}]}', "\\", "a\u0000b", "\x1b[31m", "</script>", "ключ 🔑", "\u2028", "\ud800", ""]


def _operator(name: str, start: int, duration: int) -> Json:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": 9, "ts": start, "dur": duration}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over three small runs."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("waits", "crowded", "apart"):
        (folder / name).mkdir()
    _dump(
        folder / "waits", 0,
        [*_all_reduce(100, 300), *_all_reduce(150, 350, group="1", stream=21), *_all_reduce(450, 100, seq=2)],
    )  # fmt: skip
    _dump(
        folder / "waits", 1,
        [*_all_reduce(350, 50), *_all_reduce(360, 140, group="1", stream=21), *_all_reduce(450, 100, seq=2)],
    )  # fmt: skip
    next_step = {
        "ph": "X",
        "cat": "user_annotation",
        "name": "ProfilerStep#6",
        "pid": 9,
        "tid": 9,
        "ts": 1000,
        "dur": 9,
    }
    _dump(
        folder / "crowded", 0,
        [
            *_kernel("a", 100, 100), *_kernel("b", 150, 100), *_kernel("c", 160, 10), *_kernel("d", 250, 10),
            *_kernel("unlinked", 300, 10)[1:], *_kernel("late", 1100, 50), *_kernel("next", 1200, 10, launch=1001),
            *(e for n, name in enumerate(HOSTILE) for e in _kernel(name, 100 + 20 * n, 10, stream=8)),
            _operator("outer", 10, 100), _operator("inner", 20, 90), _operator("crossing", 50, 100),
            _operator("leaf", 60, 5), _operator("open", 70, -1), _operator("year", 70, 31_557_600_000_000), next_step,
        ],
        host='node"\n\u0000<b>', world=1,
    )  # fmt: skip
    _dump(folder / "apart", 0, _kernel("gemm", 100, 10), host="a")
    _dump(folder / "apart", 1, _kernel("gemm", 900, 10), host="b")
    store = Store(str(folder / "store"))
    for name in ("waits", "crowded", "apart"):
        make_run(store, name, [folder / name])
    with Session(store) as session:
        yield session


def test_a_collective_is_a_wait_for_the_last_rank_and_a_transfer_and_those_at_once_lie_beside_it(made: Session) -> None:
    trace = json.loads(_text(made, "waits"))

    assert times(trace, 0, "collectives") == [
        ("wait for rank 1", 100_000, 250_000),
        ("transfer all_reduce", 350_000, 50_000),
        ("transfer all_reduce", 450_000, 100_000),
    ]
    assert times(trace, 0, "collectives (2)") == [
        ("wait for rank 1", 150_000, 210_000),
        ("transfer all_reduce", 360_000, 140_000),
    ]
    assert times(trace, 1, "collectives") == [
        ("transfer all_reduce", 350_000, 50_000),
        ("transfer all_reduce", 450_000, 100_000),
    ]
    told = next(e["args"] for e in trace["traceEvents"] if e.get("cat") == "wait")
    assert told == {"step": 5, "group": "0", "seq": 1, "op": "all_reduce", "n_bytes": 1024}


def test_an_arrow_leads_from_the_last_to_arrive_to_who_waited(made: Session) -> None:
    trace = json.loads(_text(made, "waits"))

    arrows = [(e["ph"], e["pid"], e["id"], e["ts"]) for e in trace["traceEvents"] if e["ph"] in "sf"]
    assert sorted(arrows) == [
        ("f", 0, 1, 350.001),
        ("f", 0, 2, 360.001),
        ("s", 0, 3, 450),
        ("s", 1, 1, 350),
        ("s", 1, 2, 360),
    ]


def test_kernels_that_overlap_on_a_stream_and_operators_that_cross_lie_on_further_tracks(made: Session) -> None:
    trace = json.loads(_text(made, "crowded", (5, 5)))

    assert [n for n, *_ in times(trace, 0, "stream 7")] == ["a", "d", "unlinked", "late"]
    assert [n for n, *_ in times(trace, 0, "stream 7 (2)")] == ["b"]
    assert [n for n, *_ in times(trace, 0, "stream 7 (3)")] == ["c"]
    host = [n for n, *_ in times(trace, 0, "thread 9")]
    assert [n for n in host if n != "cudaLaunchKernel"] == ["ProfilerStep#5", "outer", "inner", "leaf"]
    assert [n for n, *_ in times(trace, 0, "thread 9 (2)")] == ["crossing"]


def test_a_kernel_that_runs_past_its_step_is_of_it_and_the_next_steps_are_not(made: Session) -> None:
    of_steps = {
        step: {e["name"] for e in json.loads(_text(made, "crowded", (step, step)))["traceEvents"] if e["ph"] == "X"}
        for step in (5, 6)
    }

    assert {"late", "unlinked"} < of_steps[5]
    assert "next" not in of_steps[5]
    path = {name for name in of_steps[6] if ": " in name}
    assert of_steps[6] - path == {"step 6", "ProfilerStep#6", "cudaLaunchKernel", "next"}


def test_an_event_without_an_end_or_of_a_year_is_left_out(made: Session) -> None:
    stored = made.con.execute(
        "SELECT count(*) FROM events WHERE run = 'crowded' AND name IN ('open', 'year')"
    ).fetchall()
    trace = json.loads(_text(made, "crowded"))

    assert stored == [(2,)]
    assert {e["name"] for e in trace["traceEvents"]}.isdisjoint({"open", "year"})


def test_hostile_names_and_hosts_stay_text(made: Session) -> None:
    text = _text(made, "crowded")
    trace = json.loads(text)

    found = [name for name, *_ in times(trace, 0, "stream 8")]
    assert found[:7] == HOSTILE[:7]
    assert len(found) == len(HOSTILE)
    assert found[7].encode()  # half of a pair is no text: the reader has put another character there
    title = next(e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name" and e["pid"] == 0)
    assert title == 'rank 0 · node"\n\u0000<b> · GPU 0'
    assert text.isascii()


def test_ranks_without_a_common_clock_keep_their_own_and_the_trace_says_so(made: Session) -> None:
    trace = json.loads(_text(made, "apart"))

    assert trace["otherData"]["is_aligned"] is False
    assert trace["otherData"]["clocks"] == "clock not aligned: 2 hosts without a collective that ties them"
    assert times(trace, 0, "stream 7") == [("gemm", 100_000, 10_000)]
    assert times(trace, 1, "stream 7") == [("gemm", 900_000, 10_000)]
    assert {e["pid"] for e in trace["traceEvents"]} == {0, 1}


def test_slices_beyond_the_most_lanes_are_counted_and_left_out() -> None:
    pieces: list[str] = []
    trace = Trace(pieces.append, 0)
    process = Process(3)
    track = process.track(0, "crowd")
    for n in range(70):
        trace.slice(track, "x", "x", n, 1000, {})
    trace.flush()

    assert (trace.written.n_slices, trace.written.n_left_out) == (64, 6)
    assert 3 not in {tid for tid, _ in process.names()}


def test_times_before_the_base_keep_their_sign() -> None:
    pieces: list[str] = []
    trace = Trace(pieces.append, 2_000)
    trace.slice(Process(0).track(0, "t"), "x", "x", 1, 2_001, {})
    trace.flush()

    assert '"ts":-1.999,"dur":2.000' in "".join(pieces)


@pytest.mark.parametrize("run", ["worked", "skewed", "waits", "crowded", "apart"])
def test_no_slice_overlaps_another_on_its_track(worked: Session, made: Session, run: str) -> None:
    trace = json.loads(_text(worked if run in ("worked", "skewed") else made, run))

    assert len(trace["traceEvents"]) > 10
    assert overlaps(trace) == []
