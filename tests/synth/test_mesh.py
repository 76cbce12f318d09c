"""The mesh says of its groups and pairs what a profiler says, and its answers follow from its own rows."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from longpole.errors import UsageError
from longpole.synth import write

Json = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 32 ranks of two steps: text in kineto/, Parquet in events/."""
    target = tmp_path_factory.mktemp("mesh")
    for form in ("kineto", "events"):
        write("mesh", target / form, form=form, steps=2)
    return target


@pytest.fixture(scope="module")
def truth(folder: Path) -> Json:
    found: Json = json.loads((folder / "events" / "truth.json").read_text())
    return found


def _dump(folder: Path, rank: int) -> Json:
    found: Json = json.loads((folder / "kineto" / f"rank{rank}.pt.trace.json").read_text())
    return found


def test_a_rank_lists_its_own_groups_in_full_by_numbers_of_the_whole_job(folder: Path) -> None:
    said = _dump(folder, 21)

    assert said["host_name"] == "node2"
    assert said["distributedInfo"]["world_size"] == 32
    assert said["distributedInfo"]["pg_count"] == 4
    # 16 pairs of stages, 8 groups of four over data, 8 of four neighbours.
    assert [(g["pg_name"], g["pg_desc"], g["ranks"]) for g in said["distributedInfo"]["pg_config"]] == [
        ("0", "default_pg", list(range(32))),
        ("6", "mesh_pp", [5, 21]),
        ("22", "mesh_dp", [17, 21, 25, 29]),
        ("30", "mesh_tp", [20, 21, 22, 23]),
    ]


def test_a_kernel_says_what_it_moves_and_for_whom_and_cuts_a_long_list_of_ranks(folder: Path) -> None:
    events = _dump(folder, 21)["traceEvents"]
    first: dict[str, Json] = {}
    for event in events:
        if event.get("cat") == "kernel" and "Collective name" in event["args"]:
            args = event["args"]
            key = f"{args['Process Group Description']} {args['Collective name']}"
            first.setdefault(key, {"kernel": event["name"].partition("(")[0], **args})

    keys = ("kernel", "stream", "In msg nelems", "Out msg nelems", "dtype", "Process Group Name", "Group size", "Seq")
    assert {key: tuple(said[k] for k in keys) for key, said in first.items()} == {
        "mesh_dp _allgather_base": (
            "ncclDevKernel_AllGather_RING_LL", 24, 3_276_800, 13_107_200, "BFloat16", "22", 4, 1,
        ),
        "mesh_pp recv": ("ncclDevKernel_SendRecv", 28, 6_553_600, 6_553_600, "BFloat16", "6", 2, 1),
        "mesh_tp allreduce": (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 6_553_600, 6_553_600, "BFloat16", "30", 4, 1,
        ),
        "mesh_dp _reduce_scatter_base": (
            "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 24, 13_107_200, 3_276_800, "Float", "22", 4, 3,
        ),
        "mesh_pp send": ("ncclDevKernel_SendRecv", 28, 6_553_600, 6_553_600, "BFloat16", "6", 2, 3),
        "default_pg allreduce": ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 32, 1, 1, "Float", "0", 32, 1),
    }  # fmt: skip
    assert first["mesh_tp allreduce"]["Process Group Ranks"] == "[20, 21, 22, 23]"
    listed = ", ".join(str(rank) for rank in range(30))
    assert first["default_pg allreduce"]["Process Group Ranks"] == f"[{listed}, ...]"
    assert (first["mesh_pp recv"].get("Src Rank"), first["mesh_pp recv"].get("Dst Rank")) == (5, None)
    assert (first["mesh_pp send"].get("Src Rank"), first["mesh_pp send"].get("Dst Rank")) == (None, 5)


def test_a_send_has_its_range_and_the_other_end_a_receive(folder: Path) -> None:
    ranges = {
        rank: [
            event["name"]
            for event in sorted(_dump(folder, rank)["traceEvents"], key=lambda event: event.get("ts", 0))
            if event.get("cat") == "user_annotation" and event["name"].startswith(("nccl:send", "nccl:recv"))
        ]
        for rank in (5, 21)
    }

    assert ranges[5] == ["nccl:send 0->1", "nccl:send 0->1", "nccl:recv 0<-1", "nccl:recv 0<-1"] * 2
    assert ranges[21] == ["nccl:recv 1<-0", "nccl:recv 1<-0", "nccl:send 1->0", "nccl:send 1->0"] * 2


def test_ranks_of_a_host_share_a_clock_and_rank_0_has_the_runs(truth: Json) -> None:
    clocks = {(c["host"], c["offset_ns"], c["drift_ppb"]) for c in truth["clocks"]}

    assert [c["host"] for c in truth["clocks"]] == [f"node{rank // 8}" for rank in range(32)]
    assert clocks == {
        ("node0", 0, 0),
        ("node1", -8_773_803_390, -255),
        ("node2", -1_262_762_004, 47_950),
        ("node3", 6_913_117_824, 18_402),
    }


def test_every_group_and_every_collective_of_a_step_is_answered(truth: Json) -> None:
    sizes = [(g["description"], len(g["ranks"])) for g in truth["groups"]]
    per_step: dict[tuple[int, str], int] = defaultdict(int)
    for instance in truth["instances"]:
        per_step[instance["step"], instance["op"]] += 1

    assert sizes == [("default_pg", 32), *[("mesh_pp", 2)] * 16, *[("mesh_dp", 4)] * 8, *[("mesh_tp", 4)] * 8]
    assert [group["group"] for group in truth["groups"]] == [str(number) for number in range(33)]
    # 16 sums in each of 8 groups and one over all; 4 pairs in each of 16; 2 buckets, out and in, in each of 8.
    each = {"all_reduce": 129, "send_recv": 64, "all_gather": 16, "reduce_scatter": 16}
    assert per_step == {(step, op): n for step in (10, 11) for op, n in each.items()}


def _members(folder: Path, truth: Json) -> dict[tuple[str, int], dict[int, tuple[int, int]]]:
    """Return start and end of every collective kernel in the run's time by group and number, and rank."""
    found: dict[tuple[str, int], dict[int, tuple[int, int]]] = defaultdict(dict)
    base = 1_790_857_026_000_000_000
    columns = ["category", "comm_group", "comm_seq", "start_ns", "duration_ns"]
    for clock in truth["clocks"]:

        def aligned(shown: int, clock: Json = clock) -> int:
            since: int = shown - truth["clock_reference_ns"]
            return shown - int(clock["offset_ns"]) - round(int(clock["drift_ppb"]) * since / 1e9)

        path = folder / "events" / f"rank{clock['rank']}.parquet"
        for row in pq.read_table(path, columns=columns).to_pylist():
            if row["category"] == "kernel" and row["comm_group"] is not None:
                start = base + row["start_ns"]
                times = (aligned(start), aligned(start + row["duration_ns"]))
                found[row["comm_group"], row["comm_seq"]][clock["rank"]] = times
    return found


def test_answers_are_what_the_rows_say_once_their_clocks_are_put_right(folder: Path, truth: Json) -> None:
    members = _members(folder, truth)
    groups = {group["group"]: group["ranks"] for group in truth["groups"]}
    number: dict[str, int] = defaultdict(int)

    for instance in truth["instances"]:
        number[instance["group"]] += 1
        times = members.pop((instance["group"], number[instance["group"]]))
        start = {rank: began for rank, (began, _) in times.items()}
        last = max(start.values())
        assert sorted(times) == groups[instance["group"]]
        assert instance["n_ranks"] == len(times)
        # Two times, each to a nanosecond.
        assert abs(last - instance["last_arrival_ns"]) <= 2
        assert abs(last - min(start.values()) - instance["skew_ns"]) <= 2
        assert last - start[instance["last_rank"]] <= 2
        for rank, wait in zip(groups[instance["group"]], instance["wait_ns"], strict=True):
            assert abs(min(last - start[rank], times[rank][1] - start[rank]) - wait) <= 2
        ends = [end for _, end in times.values()]
        assert max(ends) - min(ends) <= 2_002
        assert min(ends) > last
    assert members == {}


def test_waits_differ_and_the_last_rank_has_none(truth: Json) -> None:
    waits = [instance["wait_ns"] for instance in truth["instances"] if instance["op"] == "all_reduce"]
    last = {instance["last_rank"] for instance in truth["instances"]}

    assert all(min(of_one) == 0 < max(of_one) for of_one in waits)
    assert last == set(range(32))


def test_sixteen_ranks_are_two_data_parallel_ones_and_eight_share_no_weights(tmp_path: Path) -> None:
    groups: dict[int, list[list[int]]] = {}
    ops: dict[int, set[str]] = {}
    for ranks in (8, 16):
        write("mesh", tmp_path / str(ranks), form="events", ranks=ranks, steps=1)
        truth = json.loads((tmp_path / str(ranks) / "truth.json").read_text())
        groups[ranks] = [g["ranks"] for g in truth["groups"] if g["description"] == "mesh_dp"]
        ops[ranks] = {instance["op"] for instance in truth["instances"]}

    assert groups == {
        8: [[rank] for rank in range(8)],
        16: [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]],
    }
    assert ops == {8: {"all_reduce", "send_recv"}, 16: {"all_reduce", "send_recv", "all_gather", "reduce_scatter"}}


def test_other_numbers_of_ranks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="12 ranks are no mesh of 2 stages with 4 tensor-parallel ranks") as caught:
        write("mesh", tmp_path / "none", ranks=12)

    assert caught.value.cure == "Give a multiple of 8."
    assert not (tmp_path / "none").exists()
