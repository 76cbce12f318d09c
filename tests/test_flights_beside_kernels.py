"""Collectives by flight recorders: alone, and beside the profiler's kernels of the same calls; made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

from flight_cases import MS, START_NS, Groups, call, lost_rank_5, of_calls, write_dumps
from longpole.report import of_run
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

PAIR: Groups = {"0": ("default_pg", [0, 1])}
START_US = START_NS // 1000


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with Session(store) as session:
        return session.con.execute(sql).fetchall()


def profile(rank: int, kernels: Sequence[tuple[int | None, str, int, int]]) -> dict[str, Any]:
    """Return a dump of the profiler: one step from 10 to 100 ms, collectives by number, name, start and end in ms."""

    def event(cat: str, name: str, start_ms: float, end_ms: float, tid: int, **args: Any) -> dict[str, Any]:
        times = {"ts": START_US + round(start_ms * 1000), "dur": round((end_ms - start_ms) * 1000)}
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, **times, "args": args}

    events = [event("user_annotation", "ProfilerStep#3", 10, 100, 1)]
    for n, (seq, op, start, end) in enumerate(kernels):
        events.append(event("cuda_runtime", "cudaLaunchKernel", 11 + n, 11.5 + n, 1, correlation=n + 1))
        told = {
            **{"correlation": n + 1, "device": rank, "stream": 9, "Collective name": op, "dtype": "Float"},
            **{"In msg nelems": 1000, "Out msg nelems": 1000, "Process Group Name": "0", "Group size": 2},
            **{"Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"},
            **({} if seq is None else {"Seq": seq}),
        }
        events.append(event("kernel", "ncclDevKernel_Generic", start, end, 9, **told))
    return {
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "host_name": "one",
        "traceEvents": events,
    }


KERNELS = {
    0: [(5, "allreduce", 20, 30), (6, "_allgather_base", 40, 45), (7, "allreduce", 60, 70)],
    1: [(5, "allreduce", 24, 30), (6, "_allgather_base", 41, 45), (7, "allreduce", 55, 70)],
}
"""Rank 1 comes 4 ms late to number 5, 1 ms late to 6; rank 0 5 ms late to 7."""


def calls(*, hangs: bool) -> dict[int, list[dict[str, Any]]]:
    """Return what both recorders have: numbers 4 to 7, and of a hang number 8, which rank 1 never enqueued."""
    found = {}
    for rank in (0, 1):
        mine = [call("0", 4, "all_reduce", 2), call("0", 5, "all_reduce", 11), call("0", 6, "_all_gather_base", 12)]
        mine += [call("0", 7, "all_reduce", 13, duration_ms=10.5), call("0", 8, "barrier", 90, "started")]
        found[rank] = mine if hangs and rank == 0 else mine[:-1]
    return found


def made(folder: Path, profiles: Mapping[int, Any], flights: Mapping[int, Any] | None) -> Store:
    (folder / "dumps").mkdir()
    for rank, dump in profiles.items():
        (folder / "dumps" / f"rank{rank}.pt.trace.json").write_text(json.dumps(dump))
    if flights is not None:
        write_dumps(folder / "dumps", flights, as_json=True)
    store = Store(str(folder / "store"))
    make_run(store, "job", [folder / "dumps"])
    return store


SEEN = "SELECT rank, seq, state, created_ns - {0}, step, arrival_ns - {0}, end_ns - {0}, wait_ns, match_by, verdict"
RECORDS = f"{SEEN.format(START_NS)} FROM collective_records ORDER BY rank, record_id"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Store:
    profiles = {rank: profile(rank, kernels) for rank, kernels in KERNELS.items()}
    return made(tmp_path_factory.mktemp("both"), profiles, of_calls(calls(hangs=True), PAIR))


def test_a_record_and_the_kernel_of_the_same_number_are_one_row(both: Store) -> None:
    outside = (None, None, None, None, None, "not in what the profiler recorded")
    assert rows(both, RECORDS) == [
        (0, 4, "completed", 2 * MS, *outside),
        (0, 5, "completed", 11 * MS, 3, 20 * MS, 30 * MS, 4 * MS, "seq", "ok"),
        (0, 6, "completed", 12 * MS, 3, 40 * MS, 45 * MS, 1 * MS, "seq", "ok"),
        (0, 7, "completed", 13 * MS, 3, 60 * MS, 70 * MS, 0, "seq", "ok"),
        (0, 8, "started", 90 * MS, *outside),
        (1, 4, "completed", 2 * MS, *outside),
        (1, 5, "completed", 11 * MS, 3, 24 * MS, 30 * MS, 0, "seq", "ok"),
        (1, 6, "completed", 12 * MS, 3, 41 * MS, 45 * MS, 0, "seq", "ok"),
        (1, 7, "completed", 13 * MS, 3, 55 * MS, 70 * MS, 5 * MS, "seq", "ok"),
    ]
    told = "SELECT op, n_bytes, n_ranks, duration_ns, group_id FROM collective_records WHERE rank = 1 AND seq > 5"
    assert rows(both, f"{told} ORDER BY seq") == [
        ("all_gather", 4_000, 2, None, "0"),
        ("all_reduce", 4_000, 2, 10_500_000, "0"),
    ]


def test_no_collective_is_counted_twice_and_the_hang_is_told_as_ever(both: Store, tmp_path: Path) -> None:
    profiles = {rank: profile(rank, kernels) for rank, kernels in KERNELS.items()}
    alone = made(tmp_path, profiles, None)
    for view in ("collectives", "collective_instances", "steps", "rank_steps", "step_exchanges"):
        assert rows(both, f"FROM {view} ORDER BY ALL") == rows(alone, f"FROM {view} ORDER BY ALL"), view
    assert rows(alone, "FROM collective_records") == []
    assert rows(both, "SELECT kind, seq, ranks FROM hangs") == [("missing", 8, [1])]


def test_without_numbers_calls_are_matched_in_order_where_both_have_as_many(tmp_path: Path) -> None:
    profiles = {rank: profile(rank, [(None, *k[1:]) for k in kernels]) for rank, kernels in KERNELS.items()}
    found = rows(made(tmp_path, profiles, of_calls(calls(hangs=False), PAIR)), RECORDS)
    assert [(row[0], row[1], row[5], row[8]) for row in found] == [
        *((0, 4, None, None), (0, 5, None, None), (0, 6, 40 * MS, "order"), (0, 7, None, None)),
        *((1, 4, None, None), (1, 5, None, None), (1, 6, 41 * MS, "order"), (1, 7, None, None)),
    ]


def test_a_call_that_the_profiler_has_as_another_says_so(tmp_path: Path) -> None:
    profiles = {0: profile(0, KERNELS[0])}
    recorded = {0: [call("0", 5, "broadcast", 11)], 1: [call("0", 5, "broadcast", 11)]}
    found = rows(made(tmp_path, profiles, of_calls(recorded, PAIR)), RECORDS)
    assert [(row[0], row[8], row[9]) for row in found] == [
        (0, "seq", "the profiler has all_reduce there"),
        (1, None, "no profiler recorded the rank"),
    ]


def test_of_recorders_alone_every_call_is_a_collective_without_times_across_ranks(tmp_path: Path) -> None:
    store = made(tmp_path, {}, of_calls(calls(hangs=True), PAIR))
    mine = "SELECT rank, seq, op, n_bytes, arrival_ns - $1, end_ns - $1, wait_ns, is_last, is_complete, step"
    with Session(store) as session:
        found = session.con.execute(f"{mine} FROM collectives WHERE rank = 0 ORDER BY seq", [START_NS]).fetchall()
    assert found == [
        (0, 4, "all_reduce", 4_000, 2 * MS + 10_000, 2 * MS + 50_000, None, None, True, None),
        (0, 5, "all_reduce", 4_000, 11 * MS + 10_000, 11 * MS + 50_000, None, None, True, None),
        (0, 6, "all_gather", 4_000, 12 * MS + 10_000, 12 * MS + 50_000, None, None, True, None),
        (0, 7, "all_reduce", 4_000, 13 * MS + 10_000, 13 * MS + 50_000, None, None, True, None),
        (0, 8, "barrier", 4_000, 90 * MS + 10_000, None, None, None, False, None),
    ]
    instances = "SELECT seq, op, dtype, n_ranks, n_present, last_arrival_ns, algbw_bytes_per_s, is_complete, verdict"
    assert rows(store, f"{instances} FROM collective_instances ORDER BY seq") == [
        *((n, "all_reduce", "Float", 2, 2, None, None, True, "clock not aligned") for n in (4, 5)),
        (6, "all_gather", "Float", 2, 2, None, None, True, "clock not aligned"),
        (7, "all_reduce", "Float", 2, 2, None, None, True, "clock not aligned"),
        (
            *(8, "barrier", "Float", 2, 1, None, None, False),
            "peer not recorded: 1 of 2; ended on 0 of 1 ranks; clock not aligned",
        ),
    ]
    assert rows(store, "SELECT DISTINCT match_by, verdict FROM collective_records") == [
        (None, "no profiler recorded the rank")
    ]


def test_groups_that_share_a_name_are_apart_and_a_transfer_is_of_two(tmp_path: Path) -> None:
    def transfer(way: str) -> dict[str, Any]:
        name = "send 0->1" if way == "send" else "recv 1<-0"
        return call("1", 0, name, 5, is_p2p=True, p2p_seq_id=1)

    groups = {rank: {"1": ("tp", [rank - rank % 2, rank - rank % 2 + 1])} for rank in range(4)}
    dumps: dict[int, Any] = {}
    for rank in range(4):
        mine = [
            call("1", 1, "all_reduce", 1),
            call("1", 2, "coalesced", 2),
            transfer("recv" if rank % 2 else "send"),
        ]
        dumps |= of_calls({rank: mine}, groups[rank])
    store = made(tmp_path, {}, dumps)
    found = rows(store, "SELECT group_id, seq, op, n_ranks, n_present FROM collective_instances ORDER BY ALL")
    assert found == [
        *(("1@0", 1, "all_reduce", 2, 2), ("1@0", 1, "send_recv", 2, 2)),
        *(("1@2", 1, "all_reduce", 2, 2), ("1@2", 1, "send_recv", 2, 2)),
    ]


COLUMNS = ["Group", "Operation", "Members", "Calls", "Records", "Not ended", "Largest", "Beside a kernel", "Kernel ms"]


def page_of(store: Store) -> BeautifulSoup:
    with Session(store) as session:
        html, _ = of_run.told(session.con, "job", tool_version="1")
    return BeautifulSoup(html, "html.parser")


def table_of(page: BeautifulSoup, section: str) -> list[list[str]]:
    return [[c.get_text().strip() for c in row.select("th, td")] for row in page.select(f"#{section} tr")]


def test_the_page_of_a_run_with_both_has_the_hang_and_what_was_recorded(both: Store) -> None:
    page = page_of(both)
    assert [s["id"] for s in page.select("main > section")][-3:] == ["hangs", "calls", "coverage"]
    (head,) = [p.get_text() for p in page.select("header > p.caveat")]
    assert head.startswith("It hung. First cause: rank 1 never enqueued barrier, collective 8 of group 0 (default_pg).")
    assert table_of(page, "hangs")[1][:2] == [
        "first cause",
        "rank 1 never enqueued barrier, collective 8 of group 0 (default_pg)",
    ]
    assert table_of(page, "calls") == [
        COLUMNS,
        ["0", "barrier", "2", "1", "1", "1", "4 kB", "0", "n/a"],
        ["0", "all_reduce", "2", "3", "6", "0", "4 kB", "4", "10.000"],
        ["0", "all_gather", "2", "1", "2", "0", "4 kB", "2", "4.000"],
    ]


def test_the_page_of_recorders_alone_has_what_was_recorded(tmp_path: Path) -> None:
    page = page_of(made(tmp_path, {}, of_calls(calls(hangs=False), PAIR)))
    assert [s["id"] for s in page.select("main > section")] == ["hangs", "calls", "coverage"]
    assert table_of(page, "calls")[1:] == [
        ["0", "all_reduce", "2", "3", "6", "0", "4 kB", "0", "n/a"],
        ["0", "all_gather", "2", "1", "2", "0", "4 kB", "0", "n/a"],
    ]


def test_a_hang_of_many_groups_has_each_of_its_calls_once(tmp_path: Path) -> None:
    store = made(tmp_path, {}, lost_rank_5())
    found = rows(
        store, "SELECT group_id, count(*), sum(n_present)::INTEGER FROM collective_instances GROUP BY 1 ORDER BY 1"
    )
    assert found == [
        *(("1", 3, 6), ("2", 3, 6), ("3", 3, 5), ("4", 3, 6)),  # pairs; rank 5 is not in the third pair's last
        *(("5", 2, 7), ("6", 2, 7)),  # fours; ranks 4 and 5 are not in their last
    ]
