"""Which process group a queue is, with metadata and without, and what a group says of its members' places."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from evaluation import Row, answer

US = 1_000
MS = 1_000_000
S = 1_000_000_000

PARAMS: list[Row] = [{"loose_end_ns": 1e6, "same_group_ns": 1e5}]


def anchors(rank: int, queue: str, ends: Sequence[int], *, shape: str = "s", **more: Any) -> list[Row]:
    """Return the collectives of a queue that end then, all in the sample that clocks are fitted to."""
    return [
        {
            "rank": rank, "queue": queue, "shape": shape, "capture_last_step": 9, "from_end": n, "end_ns": end,
            "is_anchor": True, **more,
        }
        for n, end in enumerate(ends)
    ]  # fmt: skip


def keep_together(
    apart: Sequence[int], *, n_queues: tuple[int, int] = (2, 2), host: tuple[bool, bool] = (False, False)
) -> Row:
    """Return a case of two ranks of so many queues, whose collectives, a second apart, end by so much apart."""
    return {"apart": apart, "n_queues": n_queues, "host": host}


def kept(**cases: Row) -> list[str]:
    """Return the cases whose two ranks' queues are taken for one group; each has ranks and a shape of its own."""
    queues: list[Row] = []
    collectives: list[Row] = []
    for place, (shape, case) in enumerate(cases.items()):
        for side in (0, 1):
            rank = 2 * place + side
            ends = [n * S + side * late for n, late in enumerate(case["apart"])]
            collectives += anchors(rank, "q0", ends, shape=shape)
            queues += [
                {"rank": rank, "queue": f"q{n}", "is_host": case["host"][side]} for n in range(case["n_queues"][side])
            ]
    found = answer("_met", "rank, mate", _queues=queues, rank_collectives=collectives, params=PARAMS)
    names = list(cases)
    pairs = [(rank, mate) for rank, mate in found if rank != mate]
    assert all(rank % 2 == 0 and mate == rank + 1 for rank, mate in pairs)
    return [names[rank // 2] for rank, _ in pairs]


def test_queues_are_one_group_where_their_ends_keep_together_to_a_tenth_of_a_millisecond() -> None:
    """Of two ends the median deviation is half of what their distance changes."""
    found = kept(
        steady=keep_together([5 * S, 5 * S]),
        bound=keep_together([0, 200 * US]),
        beyond=keep_together([0, 200 * US + 2]),
        far=keep_together([0, 4 * MS]),
    )

    assert found == ["steady", "bound"]


def test_the_only_queue_of_either_rank_may_be_as_loose_as_anchors() -> None:
    found = kept(
        bound=keep_together([0, 2 * MS], n_queues=(1, 1)),
        beyond=keep_together([0, 2 * MS + 2], n_queues=(1, 1)),
        first_has_two=keep_together([0, 2 * MS], n_queues=(2, 1)),
        second_has_two=keep_together([0, 2 * MS], n_queues=(1, 2)),
    )

    assert found == ["bound"]


def test_from_four_collectives_on_a_drift_does_not_part_a_group() -> None:
    """Each time they are 200 µs further apart: of three the deviation is 200 µs, of four none from that."""
    found = kept(
        three=keep_together([0, 200 * US, 400 * US]),
        four=keep_together([0, 200 * US, 400 * US, 600 * US]),
    )

    assert found == ["four"]


def test_host_threads_are_one_group_by_the_order_of_shapes_and_none_with_a_stream() -> None:
    found = kept(
        host=keep_together([0, 9 * MS], host=(True, True)),
        first_is_host=keep_together([0, 0], host=(True, False)),
        second_is_host=keep_together([0, 0], host=(False, True)),
    )

    assert found == ["host"]


def test_only_the_sample_that_clocks_are_fitted_to_is_compared() -> None:
    queues: list[Row] = [{"rank": rank, "queue": "q", "is_host": False} for rank in (0, 1)]
    first = anchors(0, "q", [S, 2 * S])
    second = anchors(1, "q", [S, 2 * S + 9 * MS])
    first[1]["is_anchor"] = second[1]["is_anchor"] = False

    found = answer("_met", _queues=queues, rank_collectives=[*first, *second], params=PARAMS)

    assert found == [(0, "q", 0, "q"), (0, "q", 1, "q"), (1, "q", 1, "q")]


def test_each_queue_is_compared_by_its_own_collectives_and_is_its_own_mate() -> None:
    queues: list[Row] = [{"rank": rank, "queue": queue, "is_host": False} for rank in (0, 1) for queue in ("a", "b")]
    named: Row = {"rank": 0, "queue": "tp", "group_name": "tp", "is_host": False}
    collectives = [
        *anchors(0, "a", [1 * S, 2 * S]), *anchors(1, "a", [6 * S, 7 * S]),
        *anchors(0, "b", [3 * S, 9 * S]), *anchors(1, "b", [8 * S, 14 * S]),
        *anchors(0, "tp", [1 * S, 2 * S]),
    ]  # fmt: skip

    found = answer("_met", _queues=[*queues, named], rank_collectives=collectives, params=PARAMS)

    assert found == [
        (0, "a", 0, "a"),
        (0, "a", 1, "a"),
        (0, "b", 0, "b"),
        (0, "b", 1, "b"),
        (1, "a", 1, "a"),
        (1, "b", 1, "b"),
    ]


Queue = tuple[int, str]


def unnamed(*pairs: tuple[Queue, Queue]) -> dict[Queue, tuple[str, list[int]]]:
    """Return group and members of each queue, where these pairs of queues keep together."""
    alone = sorted({queue for pair in pairs for queue in pair})
    met = [*pairs, *((queue, queue) for queue in alone)]
    found = answer(
        "group_queues",
        "rank, queue, group_id, members",
        _queues=[{"rank": rank, "queue": queue} for rank, queue in alone],
        _met=[{"rank": a[0], "queue": a[1], "mate": b[0], "mate_queue": b[1]} for a, b in met],
    )
    assert len(found) == len(alone)
    return {(rank, queue): (group, members) for rank, queue, group, members in found}


def test_a_group_is_all_that_is_reached_from_queue_to_queue() -> None:
    chain: list[Queue] = [(rank, "q") for rank in range(5)]

    found = unnamed(*itertools.pairwise(chain))

    assert found == {queue: ("inferred@0", [0, 1, 2, 3, 4]) for queue in chain}


def test_two_queues_of_each_rank_are_two_groups_named_after_the_lowest_ranks_queues() -> None:
    """The ranks number their streams differently: 20 of rank 0 goes with 31 of rank 1 and 40 of rank 2."""
    found = unnamed(
        ((0, "s20"), (1, "s31")), ((1, "s31"), (2, "s40")),
        ((0, "s30"), (1, "s21")), ((1, "s21"), (2, "s50")),
    )  # fmt: skip

    assert found == {
        (0, "s20"): ("inferred@0 s20", [0, 1, 2]),
        (1, "s31"): ("inferred@0 s20", [0, 1, 2]),
        (2, "s40"): ("inferred@0 s20", [0, 1, 2]),
        (0, "s30"): ("inferred@0 s30", [0, 1, 2]),
        (1, "s21"): ("inferred@0 s30", [0, 1, 2]),
        (2, "s50"): ("inferred@0 s30", [0, 1, 2]),
    }


def test_two_queues_of_one_name_on_every_rank_stay_apart() -> None:
    found = unnamed(
        ((0, "a"), (1, "a")), ((1, "a"), (2, "a")),
        ((0, "b"), (1, "b")), ((1, "b"), (2, "b")),
    )  # fmt: skip

    assert found == {(rank, queue): (f"inferred@0 {queue}", [0, 1, 2]) for rank in (0, 1, 2) for queue in ("a", "b")}


def test_where_two_chains_meet_the_lower_root_counts() -> None:
    """9 meets 7 and 8; 7 has met 2 and 8 has met 1."""
    queues: dict[int, Queue] = {1: (1, "x"), 2: (2, "y"), 7: (7, "y"), 8: (8, "x"), 9: (9, "z")}

    found = unnamed(
        (queues[2], queues[7]), (queues[1], queues[8]), (queues[7], queues[9]), (queues[8], queues[9])
    )  # fmt: skip

    assert found == {queue: ("inferred@1", [1, 2, 7, 8, 9]) for queue in queues.values()}


def test_groups_that_share_a_name_are_told_apart_by_their_lowest_rank() -> None:
    queues: list[Row] = [
        {"rank": 0, "queue": "dp|0", "group_name": "dp", "members": [0, 1]},
        {"rank": 2, "queue": "dp|2", "group_name": "dp", "members": [2, 3]},
        {"rank": 0, "queue": "pp|0", "group_name": "pp", "members": [0, 2]},
        {"rank": 2, "queue": "pp|0", "group_name": "pp", "members": [0, 2]},
        {"rank": 0, "queue": "ep", "group_name": "ep"},
        {"rank": 2, "queue": "ep", "group_name": "ep"},
    ]

    assert answer("group_queues", "rank, queue, group_id, members, source", _queues=queues) == [
        (0, "dp|0", "dp@0", [0, 1], "arguments"),
        (0, "ep", "ep", [0, 2], "met"),
        (0, "pp|0", "pp", [0, 2], "arguments"),
        (2, "dp|2", "dp@2", [2, 3], "arguments"),
        (2, "ep", "ep", [0, 2], "met"),
        (2, "pp|0", "pp", [0, 2], "arguments"),
    ]


def coordinates(
    groups: dict[str, tuple[str, list[int]]], *, worlds: Sequence[int] = (4,), **sizes: int
) -> list[tuple[Any, ...]]:
    """Return (rank, dp, tp, pp, ep, cp) of groups, each with its description and members, and of sizes in run.toml."""
    return answer(
        "_coordinates",
        groups=[
            {"group_id": group, "rank": rank, "description": description, "n_ranks": len(ranks)}
            for group, (description, ranks) in groups.items()
            for rank in ranks
        ],
        parallel=[{name: sizes.get(name) for name in ("dp", "tp", "pp", "ep", "cp")}],
        dumps=[{"world_size": world} for world in worlds],
        params=[{"largest_world": 1_048_576}],
    )


def test_a_rank_has_its_place_in_the_one_group_of_a_dimension_that_it_is_in() -> None:
    """2 is in two tensor-parallel groups, the group of data and context is of neither, and one of one rank is none."""
    found = coordinates(
        {
            "a": ("mesh_tp", [0, 2]),
            "b": ("mesh_tp", [2, 5]),
            "c": ("mesh_dp_cp", [0, 2, 5]),
            "d": ("mesh_pp", [5]),
            "e": ("EXPERT_MODEL_PARALLEL_GROUP", [0, 5]),
        }
    )

    assert found == [(0, None, 0, None, 0, None), (5, None, 1, None, 1, None)]


BY_SIZE = [(0, 0, 0, 0, None, 0), (1, 0, 1, 0, None, 0), (2, 0, 0, 1, None, 0), (3, 0, 1, 1, None, 0)]
"""Of tp = 2 and pp = 2: tensor fastest."""


def test_sizes_in_run_toml_place_every_rank_of_a_world_of_their_product() -> None:
    assert coordinates({}, tp=2, pp=2) == BY_SIZE
    assert coordinates({}, worlds=(4, 2), tp=2, pp=2) == BY_SIZE
    assert coordinates({}, worlds=(4, 8), tp=2, pp=2) == []
    assert coordinates({"a": ("mesh_pp", [1, 3])}, tp=2, pp=2) == [
        BY_SIZE[0],
        (1, 0, 1, 0, None, 0),
        BY_SIZE[2],
        (3, 0, 1, 1, None, 0),
    ]


def test_a_dump_that_says_its_job_has_more_than_a_million_ranks_is_not_believed() -> None:
    assert coordinates({}, worlds=(4, 1_048_577), tp=2, pp=2) == BY_SIZE
    assert coordinates({}, worlds=(4, 1_048_576), tp=2, pp=2) == []
