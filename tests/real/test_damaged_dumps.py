"""Other people's dumps, damaged: each is refused in words or read, and what it lost is counted.

The cases of tests/hostile on what profilers of many versions wrote; LONGPOLE_FUZZ_CASES sets how many each dump takes.
"""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path

import pytest

from hostile import mutations
from hostile.consuming import consumed
from hostile.seeds import Seed, case, mutated

N_CASES = int(os.environ.get("LONGPOLE_FUZZ_CASES", "3"))
N_EVENTS = 1_500
"""Of a trace, at most, from all over it: as many kinds of events as the whole has, in a hundredth of the time."""

KINETO = (
    "megatron-tp8-a100/megatron_kineto_3.json.gz",
    "nanogpt-8x-h100/Baseline-12-11-6bd4b-rank1-chrome-trace.json.gz",
    "torchrec-4x-v100/node0_21149.1698955063514749919.pt.trace.json.gz",
    "dlrm-8x-v100/worker3_step_12.1694128201557.pt.trace.json.gz",
    "gloo-4x-cpu/rank2.step14.pt.trace.json.gz",
    "single/simple_add.json.gz",
    "single/hip_graph_421_kernels_one_launch.json.gz",
    "single/cpu_only.json.gz",
    "single/rank_missing.json.gz",
    "single/nccl_args_rank0_of_2.json.gz",
    "single/rccl_mi300_rank0_of_8.json.gz",
    "single/absolute_float_us.json.gz",
    "single/kineto_2021_schema.pt.trace.json.gz",
    "single/cuda_graphs_rank0_of_16.json.gz",
)

OTHERS = {
    "flight-recorder/missing/fr_rank_2": "pickle",
    "flight-recorder/mismatch/fr_rank_1.json": "json",
    "nsys-2x/before.sqlite": "sqlite",
    "rocpd/mytrace.rpd.gz": "sqlite",
    "nsys-recipe-4x-a100/proc1.nvtx_gpu_proj_trace.parquet": "parquet",
    "straggler-whatif/trace-AR.parquet": "parquet",
}


@cache
def seed(traces: Path, name: str) -> Seed:
    """Return the dump, of a trace some of its events."""
    path = traces / name
    data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    if name in OTHERS:
        return Seed(path.name.removesuffix(".gz"), data, OTHERS[name])
    told = json.loads(data)
    events = told["traceEvents"]
    told["traceEvents"] = events[:: -(-len(events) // N_EVENTS)]
    return Seed(path.name.removesuffix(".gz"), json.dumps(told).encode(), "trace")


@pytest.mark.parametrize("name", [*KINETO, *OTHERS])
@pytest.mark.parametrize("number", range(N_CASES))
def test_a_damaged_real_dump_is_refused_or_read_and_adds_up(
    traces: Path, tmp_path: Path, name: str, number: int
) -> None:
    whole = seed(traces, name)

    found = consumed(tmp_path, whole, mutated(whole, case(name, number), tmp_path))

    skipped = found.facts.n_skipped if found.facts else 0
    assert found.error or found.n_events == found.n_stored + found.n_dropped + skipped


@pytest.mark.parametrize("name", KINETO)
@pytest.mark.parametrize("number", range(N_CASES))
def test_every_event_of_a_real_trace_with_odd_values_is_accounted_for(
    traces: Path, tmp_path: Path, name: str, number: int
) -> None:
    whole = seed(traces, name)

    data, n_events = mutations.trace(whole.data, case(name, number))

    assert consumed(tmp_path, whole, data).n_events == n_events


@pytest.mark.parametrize("name", KINETO)
def test_what_is_taken_of_a_real_trace_is_whole_before(traces: Path, tmp_path: Path, name: str) -> None:
    whole = seed(traces, name)

    found = consumed(tmp_path, whole, whole.data)

    assert (found.error, found.n_dropped) == (None, 0)
    assert found.n_stored >= 40
