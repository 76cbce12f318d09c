"""Collectives of a flight recorder beside the profiler's of the same rank."""

from __future__ import annotations

from typing import Any

from evaluation import Row, answer


def recorded(record: int, group: str, op: str, seq: int, **more: Any) -> Row:
    """Return what a flight recorder has of rank 0."""
    return {
        "rank": 0, "record_id": record, "group_name": group, "group_id": group, "op": op, "seq": seq, "place": 1,
        "is_p2p": False, **more,
    }  # fmt: skip


def profiled(activity: int, group: str, op: str, seq: int | None) -> Row:
    return {"rank": 0, "activity_no": activity, "group_id": group, "op": op, "seq": seq}


def matches(records: list[Row], activities: list[Row]) -> list[tuple[int, int | None, str | None, str]]:
    """Return (record_id, activity_no, match_by, verdict)."""
    return answer(
        "collective_records",
        "record_id, activity_no, match_by, verdict",
        _flight_enqueued=records,
        collectives=activities,
    )


ABSENT = (None, None, "not in what the profiler recorded")
PAIR = (None, None, "transfers between two ranks are not matched")


def test_a_number_is_matched_with_the_collective_that_has_it_and_not_with_a_transfer() -> None:
    """Sends and receives count on their rank alone: the profiler's 8 and the recorder's transfer 7 are others."""
    assert matches(
        [
            recorded(1, "a", "all_reduce", 7),
            recorded(2, "a", "all_reduce", 8),
            recorded(3, "a", "send_recv", 7, is_p2p=True),
        ],
        [profiled(10, "a", "all_reduce", 7), profiled(11, "a", "send_recv", 8)],
    ) == [(1, 10, "seq", "ok"), (2, *ABSENT), (3, *PAIR)]


def test_numbers_of_two_groups_under_one_name_say_nothing() -> None:
    assert matches(
        [recorded(1, "x", "all_reduce", 3), recorded(2, "y", "all_reduce", 3)],
        [
            profiled(10, "x@0", "all_reduce", 3),
            profiled(11, "x@1", "all_reduce", 4),
            profiled(12, "y@0", "all_reduce", 3),
        ],
    ) == [(1, *ABSENT), (2, 12, "seq", "ok")]


def test_without_numbers_collectives_are_matched_by_their_order_and_transfers_are_not() -> None:
    assert matches(
        [recorded(1, "a", "all_reduce", 3), recorded(2, "a", "send_recv", 4), recorded(3, "a", "all_reduce", 5)],
        [
            profiled(10, "a", "all_reduce", None),
            profiled(11, "a", "send_recv", None),
            profiled(12, "a", "all_reduce", -1),
        ],
    ) == [(1, 10, "order", "ok"), (2, *ABSENT), (3, 12, "order", "ok")]
