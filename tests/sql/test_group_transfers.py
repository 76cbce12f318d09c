"""Transfers of a group beside those of its sibling groups, and what an instance says of its bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation import Row, answer


def transfers(
    *calls: Row,
    members: Mapping[str, Sequence[int]],
    hosts: Mapping[int, str | None],
    residuals: Mapping[int, int] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return (n_hosts, n_siblings, sibling_transfer_ns, verdict) by group and operation; groups are called dp."""
    whole: Row = {"op": "all_reduce", "n_bytes": 8, "is_complete": True}
    found = answer(
        "group_transfers",
        "group_id, op, n_hosts, n_siblings, sibling_transfer_ns, verdict",
        collective_instances=[{**whole, "n_ranks": len(members[call["group_id"]]), **call} for call in calls],
        groups=[
            {"group_id": group, "rank": rank, "description": (names or {}).get(group, "dp")}
            for group, ranks in members.items()
            for rank in ranks
        ],
        _hosts=[{"rank": rank, "host": host} for rank, host in hosts.items()],
        rank_clocks=[{"rank": rank, "residual_ns": (residuals or {}).get(rank)} for rank in hosts],
        params=[{"slow_link_ratio": 1.25}],
    )
    return {(group, op): tuple(rest) for group, op, *rest in found}


def call(group: str, transfer: int, **more: Any) -> Row:
    return {"group_id": group, "transfer_ns": transfer, **more}


PAIRS = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}

ONE_EACH = {rank: f"h{rank}" for rank in range(6)}


def test_a_link_is_slow_where_it_takes_more_than_a_quarter_longer_than_its_siblings() -> None:
    found = transfers(
        call("a", 100), call("b", 125), call("a", 100, op="barrier"), call("b", 126, op="barrier"),
        members=PAIRS, hosts=ONE_EACH,
    )  # fmt: skip

    assert found == {
        ("a", "all_reduce"): (2, 1, 125, "ok"),
        ("b", "all_reduce"): (2, 1, 100, "ok"),
        ("a", "barrier"): (2, 1, 126, "ok"),
        ("b", "barrier"): (2, 1, 100, "slow link"),
    }


def test_a_link_is_slow_only_by_more_than_three_residuals_of_the_worst_clock_of_its_own_members() -> None:
    """Rank 3's clock is known to 50 ns: 150 beyond the siblings are nothing, 151 are something. Rank 1 is no member."""
    found = transfers(
        call("a", 100), call("b", 250), call("a", 100, op="barrier"), call("b", 251, op="barrier"),
        members=PAIRS, hosts=ONE_EACH, residuals={0: 1, 1: 1_000, 2: 10, 3: 50},
    )  # fmt: skip

    assert found["b", "all_reduce"] == (2, 1, 100, "ok")
    assert found["b", "barrier"] == (2, 1, 100, "slow link")


def test_without_residuals_the_ratio_decides() -> None:
    assert transfers(call("a", 1), call("b", 2), members=PAIRS, hosts=ONE_EACH)["b", "all_reduce"][-1] == "slow link"


ALONE = (0, None, "n/a: no sibling group did the same")


def test_siblings_have_the_same_description_size_and_number_of_hosts() -> None:
    found = transfers(
        call("a", 100), call("size", 200), call("hosts", 200), call("name", 200), call("unknown", 200),
        members={"a": [0, 1], "size": [0, 1, 2], "hosts": [2, 3], "name": [0, 3], "unknown": [4, 5]},
        hosts={0: "x", 1: "y", 2: "y", 3: "y", 4: "x", 5: None},
        names={"name": "tp"},
    )  # fmt: skip

    assert found == {
        ("a", "all_reduce"): (2, *ALONE),
        ("size", "all_reduce"): (2, *ALONE),
        ("hosts", "all_reduce"): (1, *ALONE),
        ("name", "all_reduce"): (2, *ALONE),
        ("unknown", "all_reduce"): (None, *ALONE),
    }


def test_groups_whose_hosts_or_names_are_not_known_are_siblings_of_each_other() -> None:
    found = transfers(call("a", 100), call("b", 100), members=PAIRS, hosts=dict.fromkeys(range(6)))

    assert found == {("a", "all_reduce"): (None, 1, 100, "ok"), ("b", "all_reduce"): (None, 1, 100, "ok")}


def test_a_member_that_is_not_recorded_leaves_the_hosts_of_its_group_unknown() -> None:
    """Ranks 0 and 1 are recorded and send to each other; nothing says where rank 2 is."""
    found = transfers(
        call("p", 100, op="send_recv", n_ranks=2), members={"p": [0, 1, 2]}, hosts={0: "x", 1: "y"}
    )  # fmt: skip

    assert found == {("p", "send_recv"): (None, *ALONE)}


def test_instances_have_a_bandwidth_where_all_members_are_recorded_on_one_clock() -> None:
    """800 bytes in 100 ns are 8 GB/s; of an all-reduce of four each byte goes over a link 1.5 times."""
    whole: Row = {
        "group_id": "a", "op": "all_reduce", "n_ranks": 4, "n_present": 4, "n_bytes": 800, "is_aligned": True,
        "is_one_op": True, "is_one_size": True, "shard_step": 5, "first_arrival_ns": 10, "last_arrival_ns": 40,
        "end_ns": 140,
    }  # fmt: skip
    found = answer(
        "collective_instances",
        "seq, skew_ns, transfer_ns, algbw_bytes_per_s, busbw_bytes_per_s, verdict",
        _met_instances=[
            {**whole, "seq": 1},
            {**whole, "seq": 2, "n_present": 3},
            {**whole, "seq": 3, "is_aligned": False},
            {**whole, "seq": 4, "shard_step": 4},
            {**whole, "seq": 5, "last_arrival_ns": 150},
            {**whole, "seq": 6, "op": "all_gather"},
        ],
        shard=[{"first_step": 5}],
    )

    assert found == [
        (1, 30, 100, 8e9, 12e9, "ok"),
        (2, 30, 100, None, None, "peer not recorded: 3 of 4"),
        (3, None, None, None, None, "clock not aligned"),
        (5, 140, 0, None, None, "ok"),
        (6, 30, 100, 8e9, 6e9, "ok"),
    ]


def test_an_exchange_has_as_many_ranks_as_its_group_though_a_transfer_has_two() -> None:
    """A kernel of sends and receives of which no more is known is of the whole group; without a step it is of none."""
    pair: Row = {"group_id": "p", "op": "send_recv", "step": 1, "is_complete": True, "n_bytes": 8}
    spent: Row = {"rank": 0, "group_id": "p", "op": "send_recv", "arrival_ns": 10, "end_ns": 40, "exposed_ns": 5}

    assert answer(
        "step_exchanges",
        "step, n_ranks, n_instances, n_incomplete, n_bytes, duration_ns, exposed_ns",
        collective_instances=[
            {**pair, "n_ranks": 2},
            {**pair, "n_ranks": 4, "is_complete": False},
            {**pair, "n_ranks": 2, "step": None},
        ],
        collectives=[{**spent, "step": 1}, {**spent, "step": None}],
    ) == [(1, 4, 2, 1, 16, 30, 5)]
