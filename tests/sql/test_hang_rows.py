"""Where a hang began, one relation at a time on hand-made rows: what each says of flight recorders' records."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer

Rows = list[tuple[Any, ...]]

BOUNDS = {"longest_epoch_s": 9e9, "largest_step": 10**15, "longest_event_ns": 7 * 24 * 3600 * 10**9}
"""What a number in a dump is believed up to."""


def _record(record_id: int, name: str, number: int | None, **more: Any) -> Row:
    """Return a record as the dump has it: enqueued at 100, not started, of group 1."""
    told: Row = {
        "record_id": record_id, "group_id": "1", "group_description": None, "group_ranks": None,
        "collective_seq": number, "p2p_seq": None, "op_id": None, "name": name, "is_p2p": False, "input_sizes": None,
        "input_dtypes": None, "output_sizes": None, "output_dtypes": None, "state": "scheduled", "is_retired": False,
        "created_ns": 100, "started_ns": None, "completed_ns": None, "duration_ms": None, "timeout_ms": None,
        "frame": None,
    }  # fmt: skip
    return {**told, **more}


def _complete(*records: Row) -> list[int]:
    """Return the numbers of the records that ended."""
    given = {"raw_flight": records, "context": [{"rank": 0}], "params": [BOUNDS]}
    found = answer("flight_records", "record_id, is_complete", **given)
    assert [record_id for record_id, _ in found] == sorted(r["record_id"] for r in records)
    return [record_id for record_id, is_complete in found if is_complete]


def test_a_record_ended_where_its_state_or_its_time_says_so() -> None:
    assert _complete(
        _record(0, "nccl:barrier", 1, group_id="a", state="completed"),
        _record(1, "nccl:barrier", 1, group_id="b", completed_ns=150),
        _record(2, "nccl:barrier", 1, group_id="c", state="started", started_ns=120),
        _record(3, "nccl:barrier", 1, group_id="d"),
    ) == [0, 1]


def test_that_the_recorder_is_done_says_the_end_only_where_the_library_never_says_more() -> None:
    """One record with a state, a start or an end shows that the library tells of it, so silence means not ended."""
    assert _complete(
        _record(0, "gloo:barrier", 1, group_id="a", is_retired=True),
        _record(1, "gloo:barrier", 1, group_id="b"),
        _record(2, "ucc:barrier", 1, group_id="a", is_retired=True),
        _record(3, "ucc:barrier", 1, group_id="b", state="started"),
        _record(4, "xccl:barrier", 1, group_id="a", is_retired=True),
        _record(5, "xccl:barrier", 1, group_id="b", started_ns=120),
        _record(6, "hccl:barrier", 1, group_id="a", is_retired=True),
        _record(7, "hccl:barrier", 1, group_id="b", completed_ns=150),
        _record(8, "nccl:barrier", 1, group_id="c", is_retired=True),
    ) == [0, 7]


def test_calls_made_as_one_ended_where_the_record_behind_them_did_and_only_by_that() -> None:
    assert _complete(
        _record(0, "nccl:all_gather", 4, group_id="a"),
        _record(1, "nccl:coalesced", 4, group_id="a", state="completed"),
        _record(2, "nccl:all_gather", 4, group_id="b"),
        _record(3, "nccl:coalesced", 4, group_id="b"),
        _record(4, "nccl:all_gather", 4, group_id="b", state="completed"),
        _record(5, "nccl:send 0->1", 4, group_id="c", is_p2p=True, p2p_seq=7),
        _record(6, "nccl:coalesced", 4, group_id="c", is_p2p=True, p2p_seq=7, state="completed"),
        _record(7, "nccl:send 0->1", 4, group_id="c", is_p2p=True, p2p_seq=8),
        _record(8, "nccl:broadcast", 4, group_id="c"),
    ) == [0, 1, 4, 5, 6]


def test_a_collective_before_one_that_ended_did_and_a_transfer_says_nothing_of_either() -> None:
    assert _complete(
        _record(0, "nccl:barrier", 1),
        _record(1, "nccl:barrier", 2, state="completed"),
        _record(2, "nccl:barrier", 3),
        _record(3, "nccl:send 0->1", 4, is_p2p=True, state="completed"),
        _record(4, "nccl:send 0->1", 1, is_p2p=True),
        _record(5, "nccl:barrier", 1, group_id="2"),
    ) == [0, 1, 3]


def _placed(*records: Row, groups: dict[str, list[int]] | None = None) -> Rows:
    told = [{"group_ranks": text, "ranks": ranks} for text, ranks in (groups or {}).items()]
    return answer(
        "_flight_places",
        "lane, group_ranks, pair, seq, rank, record_id",
        flight_records=[{"group_id": "1", "is_p2p": False, "created_ns": 100, **r} for r in records],
        _flight_groups=told,
    )


def test_members_that_one_rank_lists_are_those_of_all_who_use_the_name_unless_two_lists_differ() -> None:
    assert _placed(
        {"rank": 0, "record_id": 0, "group_id": "a", "group_ranks": "0-2", "seq": 1, "op": "barrier"},
        {"rank": 1, "record_id": 0, "group_id": "a", "group_ranks": "0-2", "seq": 1, "op": "barrier"},
        {"rank": 2, "record_id": 0, "group_id": "a", "seq": 1, "op": "barrier"},
        {"rank": 0, "record_id": 1, "group_id": "b", "group_ranks": "0-1", "seq": 5, "op": "barrier"},
        {"rank": 2, "record_id": 1, "group_id": "b", "group_ranks": "2-3", "seq": 5, "op": "barrier"},
        {"rank": 4, "record_id": 0, "group_id": "b", "seq": 5, "op": "barrier"},
    ) == [
        ("a of ranks 0-2", "0-2", None, 1, 0, 0),
        ("a of ranks 0-2", "0-2", None, 1, 1, 0),
        ("a of ranks 0-2", "0-2", None, 1, 2, 0),
        ("b", None, None, 5, 4, 0),
        ("b of ranks 0-1", "0-1", None, 5, 0, 1),
        ("b of ranks 2-3", "2-3", None, 5, 2, 1),
    ]


def test_both_ends_of_a_transfer_are_in_one_lane_whether_named_by_places_in_the_group_or_by_ranks() -> None:
    assert _placed(
        {"rank": 4, "record_id": 0, "group_ranks": "4-6:2", "op": "send 0->1", "is_p2p": True},
        {"rank": 6, "record_id": 0, "group_ranks": "4-6:2", "op": "recv 1<-0", "is_p2p": True},
        {"rank": 4, "record_id": 1, "group_ranks": "4-6:2", "op": "send 4->6", "is_p2p": True},
        {"rank": 6, "record_id": 1, "group_ranks": "4-6:2", "op": "recv 6<-4", "is_p2p": True},
        {"rank": 4, "record_id": 2, "group_ranks": "4-6:2", "op": "recv 0<-1", "is_p2p": True},
        groups={"4-6:2": [4, 6]},
    ) == [
        ("1 of ranks 4-6:2 4->6", "4-6:2", [4, 6], 1, 4, 0),
        ("1 of ranks 4-6:2 4->6", "4-6:2", [4, 6], 1, 6, 0),
        ("1 of ranks 4-6:2 4->6", "4-6:2", [4, 6], 2, 4, 1),
        ("1 of ranks 4-6:2 4->6", "4-6:2", [4, 6], 2, 6, 1),
        ("1 of ranks 4-6:2 6->4", "4-6:2", [6, 4], 1, 4, 2),
    ]


def test_a_transfer_of_a_group_that_nobody_lists_is_named_by_ranks() -> None:
    assert _placed(
        {"rank": 0, "record_id": 0, "op": "send 0->1", "is_p2p": True},
        {"rank": 1, "record_id": 0, "op": "recv 1<-0", "is_p2p": True},
    ) == [("1 0->1", None, [0, 1], 1, 0, 0), ("1 0->1", None, [0, 1], 1, 1, 0)]


def test_a_call_that_the_dump_calls_no_transfer_has_its_own_number_and_no_pair_whatever_its_name() -> None:
    assert _placed({"rank": 0, "record_id": 0, "op": "send 0->1", "seq": 9}) == [("1", None, None, 9, 0, 0)]


def test_how_far_each_member_of_a_lane_came() -> None:
    """Members are those listed, of a group that some record calls the default all who left a dump, else who called.

    Those of a pair are its two ends, in the default group too.
    """
    places: list[Row] = [
        {"lane": "tp", "group_ranks": "0-2", "seq": 3, "rank": 0, "is_complete": True, "created_ns": 30},
        {"lane": "tp", "group_ranks": "0-2", "seq": 4, "rank": 0, "is_complete": False, "created_ns": 40},
        {"lane": "tp", "group_ranks": "0-2", "seq": 5, "rank": 0, "is_complete": False, "created_ns": 50},
        {"lane": "all", "seq": 1, "rank": 0, "is_complete": True, "group_description": "default_pg"},
        {"lane": "all", "seq": 2, "rank": 0, "is_complete": True, "group_description": "undefined"},
        {"lane": "own", "seq": 1, "rank": 0, "is_complete": True, "group_description": "own"},
        {"lane": "plain", "seq": 1, "rank": 1, "is_complete": True},
        {
            "lane": "all 0->3",
            "seq": 1,
            "rank": 0,
            "is_complete": True,
            "group_description": "default_pg",
            "is_p2p": True,
            "pair": [0, 3],
        },
    ]
    assert answer(
        "_flight_members",
        "lane, rank, has_dump, first_seq, last_seq, open_seq, open_ns, oldest_ns",
        _flight_places=[{"is_p2p": False, **p} for p in places],
        _flight_groups=[{"group_ranks": "0-2", "ranks": [0, 1, 2]}],
        flight_ranks=[{"rank": 0}, {"rank": 1}, {"rank": 4}],
        flight_records=[
            {"rank": 0, "record_id": 0, "created_ns": 10},
            {"rank": 1, "record_id": 7, "created_ns": 20},
            {"rank": 1, "record_id": 8, "created_ns": 21},
        ],
    ) == [
        ("all", 0, True, 1, 2, None, None, None),
        ("all", 1, True, None, None, None, None, 20),
        ("all", 4, True, None, None, None, None, None),
        ("all 0->3", 0, True, 1, 1, None, None, None),
        ("all 0->3", 3, False, None, None, None, None, None),
        ("own", 0, True, 1, 1, None, None, None),
        ("plain", 1, True, 1, 1, None, None, 20),
        ("tp", 0, True, 3, 5, 4, 40, None),
        ("tp", 1, True, None, None, None, None, 20),
        ("tp", 2, False, None, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("members", "seq"),
    [
        # Its first open call, though the others came no further either.
        ([{"has_dump": True, "first_seq": 1, "last_seq": 6, "open_seq": 6}], 6),
        # One came to 3 only, although older records of its own were overwritten.
        (
            [
                {"has_dump": True, "first_seq": 1, "last_seq": 6, "open_seq": 6},
                {"has_dump": True, "first_seq": 2, "last_seq": 3, "oldest_ns": 100},
            ],
            4,
        ),
        # One with no call here that overwrote its records may have made any of them.
        (
            [
                {"has_dump": True, "first_seq": 1, "last_seq": 6, "open_seq": 6},
                {"has_dump": True, "oldest_ns": 100},
            ],
            6,
        ),
        # One with no call here and all of its records made none; of one without a dump nobody knows.
        ([{"has_dump": True, "first_seq": 1, "last_seq": 6, "open_seq": 6}, {"has_dump": True}], 1),
        ([{"has_dump": True, "first_seq": 1, "last_seq": 6, "open_seq": 6}, {"has_dump": False}], 6),
        ([{"has_dump": True, "first_seq": 1, "last_seq": 6}], None),
    ],
)
def test_a_lane_comes_apart_at_the_first_number_that_is_open_or_that_a_member_did_not_come_to(
    members: list[Row], seq: int | None
) -> None:
    found = answer("_flight_stuck", _flight_members=[{"lane": "tp", "rank": n, **m} for n, m in enumerate(members)])
    assert found == ([] if seq is None else [("tp", seq)])


def test_what_each_rank_enqueued_where_a_lane_came_apart_and_after_it() -> None:
    """Calls made as one share a number: the last stands for them, they started where any did and ended where all did.

    A library tells of starts where any record of it has a start or the state: nccl by the state, ucc by the time.
    """

    def of(rank: int, record_id: int, seq: int, op: str, backend: str | None, **more: Any) -> Row:
        return {"lane": "tp", "rank": rank, "record_id": record_id, "seq": seq, "op": op, "backend": backend, **more}

    assert answer(
        "_flight_calls",
        "group_description, seq, place, rank, op, elements, dtypes, is_started, is_complete, created_ns, timeout_ns,"
        " frame",
        _flight_stuck=[{"lane": "tp", "seq": 4}],
        flight_records=[
            {"backend": "nccl", "state": "started"},
            {"backend": "nccl", "state": "scheduled"},
            {"backend": "ucc", "state": "scheduled", "started_ns": 5},
            {"backend": "gloo", "state": "scheduled"},
            {"backend": None, "state": "scheduled"},
        ],
        _flight_places=[
            {"is_complete": False, "state": "scheduled", "group_description": "t", **p}
            for p in (
                of(0, 1, 3, "barrier", "nccl"),
                of(0, 2, 4, "zip", "nccl", state="started", input_elements=2, input_dtypes="Float", created_ns=40,
                   timeout_ns=700, frame="a.py:1 f", group_description="s"),
                of(0, 3, 4, "all_gather", None, input_elements=3, input_dtypes="Half", created_ns=41, timeout_ns=600,
                   frame="a.py:2 f", is_complete=True),
                of(0, 4, 5, "barrier", "nccl", is_complete=True, created_ns=50),
                of(0, 5, 6, "barrier", "nccl"),
                of(1, 1, 4, "barrier", "ucc", started_ns=60, created_ns=42),
                of(2, 1, 4, "barrier", "ucc", created_ns=43),
                of(3, 1, 4, "barrier", "gloo", created_ns=44),
                of(4, 1, 4, "barrier", None, created_ns=45),
            )
        ],
    ) == [
        ("s", 4, 0, 0, "all_gather of 2", 5, "Half", True, False, 40, 600, "a.py:2 f"),
        ("t", 4, 0, 1, "barrier", None, None, True, False, 42, None, None),
        ("t", 4, 0, 2, "barrier", None, None, False, False, 43, None, None),
        ("t", 4, 0, 3, "barrier", None, None, None, False, 44, None, None),
        ("t", 4, 0, 4, "barrier", None, None, None, False, 45, None, None),
        ("t", 5, 1, 0, "barrier", None, None, False, True, 50, None, None),
    ]  # fmt: skip


def test_the_bytes_of_a_gather_or_a_scatter_of_sums_are_those_of_its_larger_side() -> None:
    sizes: list[tuple[str, int | None, int | None]] = [
        ("all_gather", 10, 80),
        ("reduce_scatter", 80, 10),
        ("all_reduce", 10, 80),
        ("coalesced", 10, 80),
        ("barrier", None, None),
    ]
    found = answer(
        "_flight_enqueued",
        "seq, op, n_bytes, n_ranks",
        _flight_places=[
            {"lane": "tp", "group_id": "1", "is_p2p": False, "rank": 0, "record_id": n, "seq": n, "op": op,
             "input_elements": inputs, "output_elements": outputs, "input_dtypes": "float"}
            for n, (op, inputs, outputs) in enumerate(sizes)
        ],
        _flight_members=[{"lane": "tp", "rank": 0}, {"lane": "tp", "rank": 1}],
    )  # fmt: skip
    assert found == [
        (0, "all_gather", 320, 2),
        (1, "reduce_scatter", 320, 2),
        (2, "all_reduce", 40, 2),
        (4, "barrier", None, 2),
    ]


def _hang_ranks(select: str, members: list[Row], calls: list[Row], records: list[Row] | None = None) -> Rows:
    """Return what each rank of the lane tp, which came apart at its call 5, did."""
    return answer(
        "hang_ranks",
        select,
        _flight_stuck=[{"lane": "tp", "seq": 5}],
        _flight_members=[{"lane": "tp", "has_dump": True, **m} for m in members],
        _flight_calls=[
            {"lane": "tp", "seq": 5, "place": 0, "op": "barrier", "is_p2p": False, "is_complete": False, **c}
            for c in calls
        ],
        flight_records=records or [],
    )


def test_a_rank_without_the_call_never_enqueued_it_unless_its_recorder_begins_behind_it() -> None:
    """Its recorder begins later where its first record of the group has a greater number; where it has none, by time.

    Clocks differ, so a time says nothing of a rank that has the call before: it stopped there.
    """
    members: list[Row] = [
        {"rank": 0, "first_seq": 1, "last_seq": 5},
        {"rank": 1, "first_seq": 4, "last_seq": 4, "oldest_ns": 900},
        {"rank": 2, "first_seq": 6, "last_seq": 8, "oldest_ns": 900},
        {"rank": 3, "oldest_ns": 100},
        {"rank": 4, "oldest_ns": 101},
        {"rank": 5},
        {"rank": 6, "has_dump": False},
    ]
    calls: list[Row] = [{"rank": 0, "created_ns": 100}, {"rank": 2, "seq": 6, "place": 1, "created_ns": 50}]
    assert _hang_ranks("rank, situation, is_culprit", members, calls) == [
        (0, "enqueued", False),
        (1, "never enqueued", True),
        (2, "overwritten", False),
        (3, "never enqueued", True),
        (4, "overwritten", False),
        (5, "never enqueued", True),
        (6, "no dump", False),
    ]


def test_a_group_that_ranks_call_otherwise_has_one_description_in_all_rows() -> None:
    members: list[Row] = [{"rank": n, "first_seq": 1, "last_seq": 5} for n in range(3)]
    calls: list[Row] = [
        {"rank": 0, "group_description": None},
        {"rank": 1, "group_description": "tp"},
        {"rank": 2, "group_description": "dp"},
    ]
    assert _hang_ranks("rank, group_description", members, calls) == [(0, "dp"), (1, "dp"), (2, "dp")]


def _member(rank: int, situation: str, *, culprit: bool = False, **more: Any) -> Row:
    """Return a member of the group tp, which hangs in its all_reduce 5."""
    told: Row = {
        "lane": "tp", "group_id": "tp", "is_p2p": False, "seq": 5, "rank": rank, "situation": situation,
        "is_culprit": culprit, "common_op": "all_reduce",
    }  # fmt: skip
    return {**told, **more}


def _hangs(select: str, *members: Row) -> Rows:
    return answer("hangs", select, hang_ranks=members)


WHAT = "all_reduce, collective 5 of group tp"


@pytest.mark.parametrize(
    ("ranks", "who"),
    [
        ([1], "rank 1"),
        ([1, 2], "ranks 1, 2"),
        (list(range(1, 9)), "ranks 1, 2, 3, 4, 5, 6, 7, 8"),
        (list(range(1, 10)), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 1 more"),
        (list(range(1, 13)), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 4 more"),
    ],
)
def test_a_sentence_names_eight_ranks_and_counts_the_others(ranks: list[int], who: str) -> None:
    members = [_member(0, "started"), *(_member(rank, "never enqueued", culprit=True) for rank in ranks)]
    assert _hangs("kind, ranks, verdict", *members) == [("missing", ranks, f"{who} never enqueued {WHAT}")]


def test_of_several_that_did_something_else_the_lowest_rank_stands_for_them() -> None:
    size = [
        _member(rank, "other size", culprit=True, elements=10 * rank, common_elements=7, frame=f"a.py:{rank} f")
        for rank in (3, 2)
    ]
    assert _hangs("kind, ranks, frame, verdict", _member(0, "enqueued", elements=7), *size) == [
        ("size", [2, 3], "a.py:2 f", f"ranks 2, 3 enqueued 20 elements, the others 7, in {WHAT}")
    ]
    dtype = [
        _member(3, "other dtype", culprit=True, dtypes="Double", common_dtypes="Float"),
        _member(2, "other dtype", culprit=True, dtypes="Half", common_dtypes="Float"),
    ]
    assert _hangs("kind, ranks, verdict", _member(0, "enqueued", dtypes="Float"), *dtype) == [
        ("dtype", [2, 3], f"ranks 2, 3 enqueued Half, the others Float, in {WHAT}")
    ]


def test_the_line_of_the_program_is_that_of_the_first_rank_which_waits_in_no_other_call() -> None:
    waiting = _member(1, "never enqueued", culprit=True, frame="a.py:1 f", stuck_lane="dp")
    free = _member(2, "never enqueued", culprit=True, frame="a.py:2 f")
    last = _member(3, "never enqueued", culprit=True, frame="a.py:3 f")
    assert _hangs("ranks, role, frame", _member(0, "started"), last, free, waiting) == [
        ([2, 3], "first cause", "a.py:2 f")
    ]


def test_who_enqueued_something_else_is_a_cause_though_it_waits_in_another_call_too() -> None:
    odd = _member(1, "other op", culprit=True, op="broadcast", frame="a.py:1 f", stuck_lane="dp")
    free = _member(2, "other op", culprit=True, op="barrier", frame="a.py:2 f")
    members = [_member(0, "started", op="all_reduce"), free, odd]
    assert _hangs("kind, ranks, role, cause_lane, n_waiting, frame, verdict", *members) == [
        (
            "op",
            [1, 2],
            "first cause",
            None,
            3,
            "a.py:1 f",
            f"ranks 1, 2 enqueued broadcast where the others enqueued {WHAT}",
        )
    ]


def test_a_call_is_told_with_its_first_time_and_the_shortest_time_until_the_library_gives_up() -> None:
    members = [
        _member(0, "started", created_ns=30, timeout_ns=900),
        _member(1, "started", created_ns=20, timeout_ns=600),
        _member(2, "completed", created_ns=25, timeout_ns=700),
    ]
    assert _hangs("kind, ranks, n_ranks, n_waiting, first_ns, timeout_ns, verdict", *members) == [
        ("unfinished", [], 3, 2, 20, 600, f"every member enqueued {WHAT}, and it did not end on 2 of 3")
    ]


def _of_dp(member: Row) -> Row:
    return {**member, "lane": "dp", "group_id": "dp", "seq": 3}


def test_of_groups_that_wait_for_each_other_the_first_is_the_order_and_the_others_follow_from_it() -> None:
    """Rank 1 waits in dp and never came to tp, rank 0 waits in tp and never came to dp."""
    members = [
        _member(0, "started", created_ns=10, stuck_lane=None),
        _member(1, "never enqueued", culprit=True, stuck_lane="dp"),
        _of_dp(_member(0, "never enqueued", culprit=True, stuck_lane="tp")),
        _of_dp(_member(1, "started", created_ns=20)),
    ]
    assert _hangs("place, lane, kind, ranks, role, cause_lane, verdict", *members) == [
        (
            1,
            "tp",
            "order",
            [1],
            "first cause",
            "dp",
            f"rank 1 never enqueued {WHAT} but waits in group dp, which waits for this one: another order",
        ),
        (
            2,
            "dp",
            "missing",
            [0],
            "consequence",
            "tp",
            "rank 0 never enqueued all_reduce, collective 3 of group dp, for it waits in group tp",
        ),
    ]


def test_groups_that_all_enqueued_in_another_order_are_told_as_such() -> None:
    """Every member enqueued both, rank 1 dp first."""
    members = [
        _member(0, "enqueued", created_ns=10),
        _member(1, "enqueued", created_ns=40, stuck_lane="dp"),
        _of_dp(_member(0, "enqueued", created_ns=20, stuck_lane="tp")),
        _of_dp(_member(1, "enqueued", created_ns=30)),
    ]
    assert _hangs("place, lane, kind, ranks, role, cause_lane, verdict", *members) == [
        (1, "tp", "order", [], "first cause", "dp", f"members took {WHAT}, and group dp in another order"),
        (
            2,
            "dp",
            "unfinished",
            [],
            "consequence",
            "tp",
            "every member enqueued all_reduce, collective 3 of group dp, and it did not end on 2 of 2, behind group tp",
        ),
    ]
