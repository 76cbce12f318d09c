"""Flight recorders of all ranks say where a hang began: made dumps with the answer known."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flight_cases import MS, START_NS, TP_DP, Groups, analyzed, call, dump, lost_rank_5, of_calls, write_dumps
from longpole.errors import DumpError, LongpoleError
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

PAIR: Groups = {"0": ("default_pg", [0, 1])}
FOUR: Groups = {"0": ("default_pg", range(4))}
HANGS = "SELECT kind, group_id, seq, ranks, role, cause_lane FROM hangs ORDER BY place"


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with Session(store) as session:
        return session.con.execute(sql).fetchall()


def hangs(dumps: Mapping[int, Any], sql: str = HANGS) -> list[tuple[Any, ...]]:
    return analyzed(dumps).execute(sql).fetchall()


def verdicts(dumps: Mapping[int, Any]) -> list[str]:
    return [text for (text,) in hangs(dumps, "SELECT verdict FROM hangs ORDER BY place")]


def test_a_hang_of_groups_within_groups_names_the_first_cause_not_who_reports_it() -> None:
    found = hangs(lost_rank_5())
    assert found == [
        ("missing", "3", 3, [5], "first cause", None),
        ("missing", "6", 2, [5], "cause", None),
        ("missing", "5", 2, [4], "consequence", "3 of ranks 4-5"),
    ]
    assert hangs(lost_rank_5(), "SELECT verdict, frame, first_ns FROM hangs WHERE place <> 2") == [
        ("rank 5 never enqueued all_reduce, collective 3 of group 3 (tp2)", "train.py:11 step", START_NS + 20 * MS),
        (
            "rank 4 never enqueued all_reduce, collective 2 of group 5 (dp0), for it waits in group 3 of ranks 4-5",
            "train.py:13 step",
            START_NS + 40 * MS,
        ),
    ]


def test_each_member_of_what_hangs_is_told() -> None:
    sql = "SELECT rank, situation, is_culprit, last_seq, stuck_lane FROM hang_ranks WHERE group_id = '5' ORDER BY rank"
    assert hangs(lost_rank_5(), sql) == [
        (0, "started", False, 2, None),
        (2, "started", False, 2, None),
        (4, "never enqueued", True, 1, "3 of ranks 4-5"),
        (6, "started", False, 2, None),
    ]


def test_the_rank_that_everyone_waits_for_is_named_even_where_its_peers_came_first() -> None:
    dumps = lost_rank_5()
    for rank in (1, 3, 7):
        dumps[rank]["entries"][-1]["time_created_ns"] = START_NS + 15 * MS
    assert [(row[1], row[3], row[4]) for row in hangs(dumps)] == [
        ("6", [5], "first cause"),
        ("3", [5], "cause"),
        ("5", [4], "consequence"),
    ]


def test_where_all_is_complete_nothing_hangs() -> None:
    calls = {rank: [call("0", n, "all_reduce", n) for n in (1, 2, 3)] for rank in range(4)}
    assert hangs(of_calls(calls, FOUR)) == []


@pytest.mark.parametrize(
    ("odd", "kind", "verdict"),
    [
        (call("0", 2, "_all_gather_base", 5, "started"), "op", "enqueued _all_gather_base where the others enqueued"),
        (call("0", 2, "all_reduce", 5, "started", 500), "size", "enqueued 500 elements, the others 1000, in"),
        (
            call("0", 2, "all_reduce", 5, "started", input_dtypes=["Half"]),
            "dtype",
            "enqueued Half, the others Float, in",
        ),
    ],
)
def test_who_enqueued_something_else_is_named(odd: dict[str, Any], kind: str, verdict: str) -> None:
    calls = {rank: [call("0", 1, "all_reduce", 1), call("0", 2, "all_reduce", 4, "started")] for rank in range(4)}
    calls[2][1] = odd
    assert hangs(of_calls(calls, FOUR), "SELECT kind, seq, ranks, verdict FROM hangs") == [
        (kind, 2, [2], f"rank 2 {verdict} all_reduce, collective 2 of group 0 (default_pg)")
    ]


def test_the_same_elements_in_another_shape_are_no_difference() -> None:
    calls = {rank: [call("0", 1, "all_reduce", 1, "started")] for rank in range(4)}
    calls[3][0]["input_sizes"] = [[10, 50], [500]]
    assert hangs(of_calls(calls, FOUR)) == [("unfinished", "0", 1, [], "first cause", None)]


def test_an_exchange_may_be_uneven() -> None:
    calls = {rank: [call("0", 1, "all_to_all", 1, "started", 10 * rank)] for rank in range(4)}
    assert [row[0] for row in hangs(of_calls(calls, FOUR))] == ["unfinished"]


def test_of_two_that_differ_neither_is_right() -> None:
    calls = {0: [call("0", 1, "all_reduce", 1, "started")], 1: [call("0", 1, "barrier", 1, "started")]}
    assert hangs(of_calls(calls, PAIR)) == [("op", "0", 1, [0, 1], "first cause", None)]


def test_a_rank_that_swapped_two_collectives_took_another_order() -> None:
    calls = {
        rank: [call("0", 1, "all_reduce", 1, "started"), call("0", 2, "broadcast", 2, "scheduled")] for rank in range(4)
    }
    calls[1] = [call("0", 1, "broadcast", 1, "started"), call("0", 2, "all_reduce", 2, "scheduled")]
    assert verdicts(of_calls(calls, FOUR)) == [
        "rank 1 enqueued broadcast before, not after, all_reduce, collective 1 of group 0 (default_pg)"
    ]


def test_groups_that_wait_for_each_other_in_a_circle_were_taken_in_another_order() -> None:
    groups: Groups = {"1": ("a", [0, 1]), "2": ("b", [0, 1])}
    calls = {0: [call("1", 1, "all_reduce", 1, "started")], 1: [call("2", 1, "all_reduce", 2, "started")]}
    found = hangs(of_calls(calls, groups))
    assert [(row[0], row[1], row[3], row[4]) for row in found] == [
        ("order", "1", [1], "first cause"),
        ("missing", "2", [0], "consequence"),
    ]


def test_what_all_enqueued_behind_a_call_that_hangs_is_a_consequence() -> None:
    groups: Groups = {"0": ("default_pg", range(3)), "1": ("tp", [0, 1])}
    calls = {rank: [call("0", 1, "all_reduce", 1, "started"), call("1", 1, "barrier", 2, "started")] for rank in (0, 1)}
    assert hangs(of_calls({**calls, 2: []}, groups)) == [
        ("missing", "0", 1, [2], "first cause", None),
        ("unfinished", "1", 1, [], "consequence", "0 of ranks 0-2"),
    ]
    assert verdicts(of_calls({**calls, 2: []}, groups))[1] == (
        "every member enqueued barrier, collective 1 of group 1 (tp), and it did not end on 2 of 2,"
        " behind group 0 of ranks 0-2"
    )


def test_two_groups_enqueued_in_another_order_by_two_ranks_block_each_other() -> None:
    groups: Groups = {"1": ("a", [0, 1]), "2": ("b", [0, 1])}
    calls = {
        0: [call("1", 1, "all_reduce", 1, "started"), call("2", 1, "all_reduce", 2, "scheduled")],
        1: [call("2", 1, "all_reduce", 3, "started"), call("1", 1, "all_reduce", 4, "scheduled")],
    }
    assert [(row[0], row[1], row[4]) for row in hangs(of_calls(calls, groups))] == [
        ("order", "1", "first cause"),
        ("not started", "2", "consequence"),
    ]
    assert verdicts(of_calls(calls, groups))[0] == (
        "members took all_reduce, collective 1 of group 1 (a), and group 2 of ranks 0-1 in another order"
    )


def test_a_rank_without_a_dump_is_said_to_have_none() -> None:
    calls = {rank: [call("0", 1, "all_reduce", 1, "started")] for rank in (0, 1, 3)}
    assert verdicts(of_calls(calls, FOUR)) == [
        "rank 2 left no dump; the others wait in all_reduce, collective 1 of group 0 (default_pg)"
    ]


def test_a_rank_that_is_known_to_be_missing_comes_before_one_without_a_dump() -> None:
    calls = {rank: [call("0", 1, "all_reduce", 1, "started")] for rank in (0, 1)}
    assert [row[3] for row in hangs(of_calls({**calls, 3: []}, FOUR))] == [[3]]


def test_what_a_recorder_no_longer_holds_is_no_absence() -> None:
    groups: Groups = {"0": ("default_pg", range(2)), "1": ("tp", range(2))}
    early = [call("1", 4, "all_reduce", 1, "started")]
    dumps = {
        0: dump([*early, call("0", 900, "all_reduce", 90)], groups, 0, first=10),
        1: dump([call("0", 900, "all_reduce", 90)], groups, 1, first=4000),
    }
    assert hangs(dumps, "SELECT rank, situation, is_culprit FROM hang_ranks ORDER BY rank") == [
        (0, "started", False),
        (1, "overwritten", False),
    ]


def test_nccl_is_done_with_what_timed_out_yet_it_did_not_end() -> None:
    calls = {rank: [call("0", 1, "all_reduce", 1, "started", retired=True)] for rank in (0, 1)}
    assert [row[0] for row in hangs(of_calls(calls, PAIR))] == ["unfinished"]


def test_a_collective_before_one_that_ended_has_ended() -> None:
    calls = {rank: [call("0", 1, "all_reduce", 1, "started"), call("0", 2, "barrier", 2)] for rank in (0, 1)}
    assert hangs(of_calls(calls, PAIR)) == []


def test_a_device_that_never_started_is_named() -> None:
    calls = {rank: [call("0", 1, "all_reduce", 1, "scheduled" if rank == 3 else "started")] for rank in range(4)}
    assert verdicts(of_calls(calls, FOUR)) == [
        "rank 3 enqueued all_reduce, collective 1 of group 0 (default_pg), and the device never started it"
    ]


def transfer(way: str, own: int, other: int, state: str, number: int = 1) -> dict[str, Any]:
    arrow = "->" if way == "send" else "<-"
    return call("1", 0, f"{way} {own}{arrow}{other}", number, state, is_p2p=True, p2p_seq_id=number)


def test_a_send_that_nobody_receives_names_the_receiver() -> None:
    groups: Groups = {"1": ("pp", [2, 6])}  # members name each other by their place in the group
    calls = {
        2: [transfer("send", 0, 1, "completed"), transfer("send", 0, 1, "started", 2)],
        6: [transfer("recv", 1, 0, "completed")],
    }
    assert hangs(of_calls(calls, groups), "SELECT kind, is_p2p, ranks, verdict FROM hangs") == [
        ("missing", True, [6], "rank 6 never enqueued transfer 2->6, number 2 of group 1 (pp)")
    ]


def test_transfers_made_as_one_end_with_the_record_that_follows_them() -> None:
    groups: Groups = {"1": ("pp", [0, 1])}
    one = call("1", 0, "coalesced", 2, is_p2p=True, p2p_seq_id=1)
    calls = {
        0: [transfer("send", 0, 1, "scheduled"), one],
        1: [transfer("recv", 1, 0, "scheduled"), one],
    }
    assert hangs(of_calls(calls, groups)) == []


SAMPLE: dict[str, Any] = {
    "version": "2.5",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 2, "last_started_collective": -1, "last_completed_collective": 2}},
    "entries": [
        {
            "frames": [
                {"name": "test_short_pickle", "filename": "pytorch/test/distributed/test_c10d_nccl.py", "line": 3647},
                {"name": "spawn_main", "filename": "multiprocessing/spawn.py", "line": 116},
            ],
            "record_id": 0,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": 1,
            "p2p_seq_id": 0,
            "op_id": 1,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1724779239936775119,
            "input_sizes": [[3, 4]],
            "input_dtypes": ["Float"],
            "output_sizes": [[3, 4]],
            "output_dtypes": ["Float"],
            "state": "completed",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": 1724779239975811724,
            "retired": True,
            "duration_ms": 0.5,
            "timeout_ms": 600000,
            "is_p2p": False,
        }
    ],
}
"""Every field that PyTorch documents, with the values of its documentation, and how long it took."""

FIELDS = (
    *("record_id", "group_id", "group_description", "group_ranks", "seq", "p2p_seq", "op_id", "op", "backend"),
    *("is_p2p", "input_sizes", "input_dtypes", "input_elements", "output_sizes", "output_dtypes"),
    *("output_elements", "state", "is_retired", "is_complete", "created_ns", "started_ns", "completed_ns"),
    *("duration_ns", "timeout_ns", "frame"),
)
READ = (
    *(0, "0", "default_pg", "0-1", 1, None, 1, "all_reduce", "nccl", False, "[[3,4]]", "Float", 12, "[[3,4]]"),
    *("Float", 12, "completed", True, True, 1724779239936775119, None, 1724779239975811724, 500_000),
    600_000_000_000,
    "test_c10d_nccl.py:3647 test_short_pickle",
)


@pytest.mark.parametrize("as_json", [False, True])
def test_every_documented_field_is_read(tmp_path: Path, as_json: bool) -> None:
    store = Store(str(tmp_path / "store"))
    make_run(store, "job", [write_dumps(tmp_path / "dumps", {0: SAMPLE}, as_json=as_json)])
    assert rows(store, f"SELECT {', '.join(FIELDS)} FROM flight_records") == [READ]
    ((form, world, rank),) = rows(store, "SELECT schema, world_size, rank FROM dumps")
    assert (form, world, rank) == (f"{'JSON' if as_json else 'pickle'}, version 2.5", 2, 0)


def older(entry: dict[str, Any]) -> dict[str, Any]:
    names = (
        "process_group",
        "collective_seq_id",
        "p2p_seq_id",
        "timeout_ms",
        "is_p2p",
        "input_dtypes",
        "output_dtypes",
    )
    kept = {k: v for k, v in entry.items() if k not in names}
    return {**kept, "pg_name": "0", "pg_desc": "default_pg", "seq_id": 1}


@pytest.mark.parametrize("is_bare", [False, True])
def test_the_fields_of_older_versions_are_read(tmp_path: Path, is_bare: bool) -> None:
    entries = [older(e) for e in SAMPLE["entries"]]
    told: Any = entries if is_bare else {"version": "1.5", "entries": entries}
    store = Store(str(tmp_path / "store"))
    make_run(store, "job", [write_dumps(tmp_path / "dumps", {0: told})])
    sql = (
        "SELECT group_id, group_description, group_ranks, seq, op, is_p2p, input_dtypes, timeout_ns, duration_ns"
        " FROM flight_records"
    )
    assert rows(store, sql) == [("0", "default_pg", None, 1, "all_reduce", False, None, None, 500_000)]


def test_a_dump_in_both_forms_is_read_once_and_two_that_differ_are_refused(tmp_path: Path) -> None:
    write_dumps(tmp_path / "dumps", lost_rank_5())
    folder = write_dumps(tmp_path / "dumps", lost_rank_5(), as_json=True)
    store = Store(str(tmp_path / "store"))
    make_run(store, "job", [folder])
    make_run(store, "job", [folder])
    assert rows(store, "SELECT count(*), count(DISTINCT rank), min(schema), max(schema) FROM dumps") == [
        (8, 8, "pickle, version 2.5", "pickle, version 2.5")
    ]
    assert rows(store, "SELECT count(*) FROM flight_records") == [(8 * 3 + 1 + 6 * 2,)]
    (folder / "nccl_trace_rank_5.json").write_text(json.dumps(dump([], TP_DP, 5)))
    with pytest.raises(LongpoleError, match="rank 5 has two flight recorder dumps that differ"):
        make_run(store, "job", [folder])


def test_a_dump_may_be_compressed_and_lie_under_a_name_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "hang7.json.gz").write_bytes(gzip.compress(json.dumps(SAMPLE).encode()))
    store = Store(str(tmp_path / "store"))
    make_run(store, "job", [tmp_path / "hang7.json.gz"])
    assert rows(store, "SELECT rank, seq FROM flight_records") == [(7, 1)]


def test_a_malicious_dump_is_an_unreadable_dump_and_does_nothing(tmp_path: Path) -> None:
    target = tmp_path / "owned"

    class Attack:
        def __reduce__(self) -> Any:
            return (__import__("os").system, (f"touch {target}",))

    folder = write_dumps(tmp_path / "dumps", lost_rank_5())
    (folder / "nccl_trace_rank_5").write_bytes(pickle.dumps({"version": "2.5", "entries": [Attack()]}, 2))
    store = Store(str(tmp_path / "store"))
    make_run(store, "job", [folder])
    ((error,),) = rows(store, "SELECT error FROM dumps WHERE error IS NOT NULL")
    assert "nccl_trace_rank_5 is a pickle with the opcode GLOBAL at byte" in error
    assert rows(store, "SELECT kind, ranks FROM hangs WHERE place = 1") == [("no dump", [5])]
    assert not target.exists()


@pytest.mark.parametrize(
    "raw", [pickle.dumps([1, 2], 2), pickle.dumps({"a": 1}, 2), b"\x80\x02}", b'{"entries":[{,"pg_config"']
)
def test_a_file_that_is_no_dump_says_what_it_is(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "fr_rank_0"
    path.write_bytes(raw)
    with pytest.raises(DumpError, match="fr_rank_0 is "):
        make_run(Store(str(tmp_path / "store")), "job", [path])


def test_texts_in_numbers_and_numbers_beyond_any_are_left_out(tmp_path: Path) -> None:
    entry = SAMPLE["entries"][0] | {
        "record_id": "17",
        "time_created_ns": 1 << 80,
        "input_sizes": [[1 << 62, 1 << 62]],
        "output_sizes": [["x"]],
        "frames": "none",
        "state": None,
        "retired": "yes",
        "process_group": [None],
    }
    store = Store(str(tmp_path / "store"))
    make_run(store, "job", [write_dumps(tmp_path / "dumps", {0: {"entries": [entry]}})])
    sql = "SELECT record_id, group_id, created_ns, output_sizes, frame, state, is_retired FROM flight_records"
    assert rows(store, sql) == [(17, "0", None, None, None, None, None)]


def test_numbers_at_the_edge_of_any_are_left_out_and_stop_nothing() -> None:
    most = (1 << 63) - 1
    calls = {rank: [call("0", 1, "all_reduce", 1), call("0", 2, "all_reduce", 2, "started")] for rank in (0, 1)}
    calls[0][0] |= {"collective_seq_id": most, "time_created_ns": most, "timeout_ms": most}
    calls[0][1]["time_created_ns"] = -most
    calls[1].pop()
    assert hangs(of_calls(calls, PAIR), "SELECT kind, seq, ranks, first_ns FROM hangs") == [("missing", 2, [1], None)]


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([0, 1, 2, 3], "0-3"),
        ([1, 3, 5, 7], "1-7:2"),
        ([4], "4"),
        ([2, 6], "2,6"),
        ([0, 1, 2, 8, 16, 24, 25], "0-2,8-24:8,25"),
    ],
)
def test_members_are_told_as_runs_and_each_is_a_member(ranks: list[int], told: str) -> None:
    groups: Groups = {"g": ("some", ranks)}
    con = analyzed(of_calls({ranks[0]: [call("g", 1, "all_reduce", 1, "started")]}, groups))
    assert con.execute("SELECT group_ranks FROM flight_records").fetchall() == [(told,)]
    assert con.execute("SELECT rank FROM hang_ranks ORDER BY rank").fetchall() == [(rank,) for rank in ranks]
