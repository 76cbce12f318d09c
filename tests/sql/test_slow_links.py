"""What a step waited for at a link: groups whose transfers are slower than those of their siblings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation import Row, answer

PAIRS = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}

ONE_EACH = {rank: f"h{rank}" for rank in range(8)}
"""Every rank on a host of its own."""


def met(group: str, transfer: int, **more: Any) -> Row:
    """Return a collective of a group: all its members have come at 1,000 and leave after the transfer.

    Args:
        more: Columns of its instance that differ; `exposed` is what it alone explains, where that is not all of it.
    """
    return {"group": group, "transfer": transfer, **more}


def slow(
    *collectives: Row,
    members: Mapping[str, Sequence[int]] = PAIRS,
    hosts: Mapping[int, str | None] = ONE_EACH,
    residuals: Mapping[int, int] | None = None,
) -> list[tuple[Any, ...]]:
    """Return (step, rank, late_ns, residual_ns, noise_ns, place), of a shard from step 1 on."""
    instances: list[Row] = []
    aligned: list[Row] = []
    for no, told in enumerate(collectives):
        more = dict(told)
        group, transfer = more.pop("group"), more.pop("transfer")
        exposed = more.pop("exposed", transfer)
        at: Row = {"instance_no": no, "step": 1, "shard_step": 1, "end_ns": 1_000 + transfer}
        whole: Row = {"n_ranks": len(members[group]), "is_matched": True, "op": "all_reduce", "n_bytes": 8}
        instances.append({**at, **whole, "group_id": group, "last_arrival_ns": 1_000, **more})
        aligned += [
            {**at, "group_id": group, "rank": rank, "exposed_ns": exposed, "residual_ns": (residuals or {}).get(rank)}
            for rank in members[group]
        ]
    return answer(
        "_slow_links",
        _met_instances=instances,
        _aligned=aligned,
        groups=[{"group_id": g, "rank": r, "description": "dp"} for g, ranks in members.items() for r in ranks],
        _hosts=[{"rank": rank, "host": host} for rank, host in hosts.items()],
        shard=[{"first_step": 1}],
        params=[{"slow_link_ratio": 1.25}],
    )


def test_members_of_the_slow_group_are_late_by_what_its_transfer_took_beyond_the_median() -> None:
    found = slow(met("a", 100), met("b", 104), met("c", 200), residuals={2: 90, 4: 7, 5: 20})

    assert found == [(1, 4, 96, 20, 4, "h4, h5"), (1, 5, 96, 20, 4, "h4, h5")]


def test_a_transfer_a_quarter_longer_than_the_median_is_not_slow_and_one_longer_by_more_is() -> None:
    assert slow(met("a", 100), met("b", 100), met("c", 125)) == []
    assert slow(met("a", 100), met("b", 100), met("c", 126)) == [
        (1, 4, 26, 0, 0, "h4, h5"),
        (1, 5, 26, 0, 0, "h4, h5"),
    ]


def test_only_what_the_transfer_took_longer_is_late_where_siblings_hide_theirs_beside_compute() -> None:
    """All of its 200 are exposed and nothing of the others', yet the link is slow by 100."""
    found = slow(met("a", 100, exposed=0), met("b", 100, exposed=0), met("c", 200))

    assert found == [(1, 4, 100, 0, 0, "h4, h5"), (1, 5, 100, 0, 0, "h4, h5")]


def test_what_is_hidden_beside_compute_is_not_late() -> None:
    assert slow(met("a", 100), met("b", 100), met("c", 200, exposed=100)) == []


def test_sizes_that_are_both_slow_add_up_and_the_noise_is_that_of_the_noisier() -> None:
    """Of 8 bytes the groups differ from their median by 10, 0 and 100, of 16 bytes by 30, 0 and 100."""
    first = [met("a", 90), met("b", 100), met("c", 200)]
    second = [met("a", 70, n_bytes=16), met("b", 100, n_bytes=16), met("c", 200, n_bytes=16)]

    assert slow(*first, *second) == [(1, 4, 200, 0, 30, "h4, h5"), (1, 5, 200, 0, 30, "h4, h5")]


def test_a_rank_of_two_slow_groups_is_late_by_the_slower_of_them() -> None:
    members = {**PAIRS, "d": [4, 6]}

    assert slow(met("a", 100), met("b", 100), met("c", 300), met("d", 200), members=members) == [
        (1, 4, 200, 0, 0, "h4, h5"),
        (1, 5, 200, 0, 0, "h4, h5"),
        (1, 6, 100, 0, 0, "h4, h6"),
    ]


def test_groups_within_a_host_are_no_siblings_of_groups_across_hosts() -> None:
    hosts = {0: "x", 1: "x", 2: "y", 3: "y", 4: "x", 5: "y"}

    assert slow(met("a", 100), met("b", 100), met("c", 200), hosts=hosts) == []


def test_a_group_within_one_host_is_its_own_place() -> None:
    hosts = {0: "x", 1: "x", 2: "y", 3: "y", 4: "z", 5: "z"}

    assert slow(met("a", 100), met("b", 100), met("c", 200), hosts=hosts) == [
        (1, 4, 100, 0, 0, "group c"),
        (1, 5, 100, 0, 0, "group c"),
    ]


TRIPLES = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7, 8]}


def test_a_place_names_each_host_once() -> None:
    hosts = {rank: f"h{rank // 3}{rank % 3 // 2}" for rank in range(9)}

    found = slow(met("a", 100), met("b", 100), met("c", 200), members=TRIPLES, hosts=hosts)

    assert found == [(1, rank, 100, 0, 0, "h20, h21") for rank in (6, 7, 8)]


def test_a_group_with_a_member_whose_host_is_not_known_is_its_own_place() -> None:
    named = {rank: f"h{rank}" for rank in range(9) if rank % 3 < 2}
    calls = [met("a", 100), met("b", 100), met("c", 200)]

    own_place = [(1, rank, 100, 0, 0, "group c") for rank in (6, 7, 8)]
    assert slow(*calls, members=TRIPLES, hosts=named) == own_place
    assert slow(*calls, members=TRIPLES, hosts={**named, 2: None, 5: None, 8: None}) == own_place


def test_what_cannot_be_compared_is_not_slow() -> None:
    fast = [met("a", 100), met("b", 100)]

    assert slow(*fast, met("c", 200, is_matched=False)) == []
    assert slow(*fast, met("c", 200, op="all_gather")) == []
    assert slow(*fast, met("c", 100), met("c", 100)) == [], "two calls are not one"
    unsized = [met("a", 100, n_bytes=None), met("b", 100, n_bytes=None), met("c", 200, n_bytes=None)]
    assert slow(*unsized) == []
    pairs = [met("a", 100, op="send_recv"), met("b", 100, op="send_recv"), met("c", 200, op="send_recv")]
    assert slow(*pairs) == []


def test_a_group_of_one_rank_has_no_link() -> None:
    assert slow(met("a", 100), met("b", 100), met("c", 200), members={"a": [0], "b": [0], "c": [0]}) == []


def test_the_step_before_the_shard_is_another_shards() -> None:
    before: Row = {"step": 0, "shard_step": 0}

    assert slow(met("a", 100, **before), met("b", 100, **before), met("c", 200, **before)) == []
