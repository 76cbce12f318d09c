"""Kineto dumps of jobs that nobody ran: everything a dump can hold, thrown together by chance on a coarse clock.

Real and planned runs seldom have two events that end in the same instant, a call whose activity is lost beside a graph
of them, or a wait that begins where another ends. Here times are multiples of 100 µs and most lengths a few of them, so
that bounds are met and rules have cases on both sides.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flight_cases import MS, START_NS, TP_DP, call, dump, of_calls, write_dumps
from json_lines import json_lines

UNIT_US = 100
STEP_UNITS = 700
BASE_NS = 1_700_000_000_000_000_000
BASE_US = 1_000_000
"""When the first capture starts, after `BASE_NS`."""

GROUPS: dict[str, tuple[str, tuple[int, ...]]] = {
    "0": ("default_pg", (0, 1, 2, 3)),
    "1": ("tp", (0, 1)),
    "2": ("tp", (2, 3)),
    "3": ("dp", (0, 2)),
    "4": ("dp", (1, 3)),
}
"""Description and ranks of each process group."""

COLLECTIVES = (
    ("allreduce", "AllReduce_Sum_f32_RING_LL", "all_reduce"),
    ("_allgather_base", "AllGather_RING_LL", "_all_gather_base"),
    ("_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL", "_reduce_scatter_base"),
    ("all_to_all", "SendRecv", "all_to_all"),
    ("broadcast", "Broadcast_RING_LL", "broadcast"),
)

OPERATORS: tuple[tuple[str, list[Any], list[str], list[str]], ...] = (
    ("aten::mm", [[64, 32], [32, 128]], ["c10::BFloat16", "c10::BFloat16"], ["", ""]),
    ("aten::mm", [[64, 32], []], ["float", "float"], ["", ""]),
    (
        "aten::addmm",
        [[128], [64, 32], [32, 128], [], []],
        ["float", "float", "float", "Scalar", "Scalar"],
        ["", "", "", "1", "1"],
    ),
    ("aten::bmm", [[4, 64, 32], [4, 32, 16]], ["c10::Half", "c10::Half"], ["", ""]),
    ("aten::linear", [[8, 64, 32], [128, 32], [128]], ["float", "float", "float"], ["", "", ""]),
    ("aten::matmul", [[8, 64, 32], [32, 128]], ["double", "double"], ["", ""]),
    (
        "aten::baddbmm",
        [[4, 64, 16], [4, 64, 32], [4, 32, 16], [], []],
        ["float"] * 3 + ["Scalar"] * 2,
        ["", "", "", "1", "1"],
    ),
    (
        "aten::_scaled_mm",
        [[64, 32], [32, 128], [], [], [], [], [], []],
        ["c10::Float8_e4m3fn"] * 2 + ["float"] * 2 + [""] * 4,
        [""] * 8,
    ),
    (
        "aten::convolution",
        [[2, 8, 16, 16], [4, 8, 3, 3], [], [], [], [], [], [], []],
        ["c10::Half", "c10::Half", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"],
        ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
    ),
    (
        "aten::convolution_backward",
        [[2, 4, 16, 16], [2, 8, 16, 16], [4, 8, 3, 3], [], [], [], [], [], [], [], []],
        ["c10::Half"] * 3 + ["ScalarList"] * 4 + ["Scalar", "ScalarList", "Scalar", "ScalarList"],
        ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"],
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        [[2, 4, 64, 16], [2, 2, 64, 16], [2, 2, 64, 16], [], []],
        ["c10::Half"] * 3 + ["Scalar", "Scalar"],
        ["", "", "", "0.", "True"],
    ),
    (
        "aten::_scaled_dot_product_flash_attention_backward",
        [[2, 4, 64, 16]] * 4 + [[]] * 3,
        ["c10::Half"] * 4 + ["Scalar"] * 3,
        [""] * 7,
    ),
    (
        "flash_attn::_flash_attn_forward",
        [[2, 64, 4, 16], [2, 64, 2, 16], [2, 64, 2, 16]],
        ["c10::BFloat16"] * 3,
        ["", "", ""],
    ),
    ("aten::add_", [[64, 32], [64, 32], []], ["float", "float", "Scalar"], ["", "", "1"]),
    ("aten::mul", [[64, 1], [1, 32]], ["float", "c10::Half"], ["", ""]),
    ("aten::sum", [[64, 32], [], []], ["float", "ScalarList", "Scalar"], ["", "[0]", "False"]),
    ("aten::copy_", [[64, 32], [64, 32], []], ["c10::Half", "float", "Scalar"], ["", "", "False"]),
    ("aten::relu", [[64, 32]], ["float"], [""]),
    ("aten::unheard_of", [[64, 32]], ["float"], [""]),
    ("aten::_grouped_mm", [[64, 32], [4, 32, 16], [4], [], []], ["c10::BFloat16"] * 2 + ["int", "", ""], [""] * 5),
    ("aten::_grouped_mm", [[64, 32], [32, 16], [4], [], []], ["c10::BFloat16"] * 2 + ["int", "", ""], [""] * 5),
    ("aten::_grouped_mm", [[4, 64, 32], [32, 16], [4], [], []], ["c10::BFloat16"] * 2 + ["int", "", ""], [""] * 5),
    ("aten::_grouped_mm", [[4, 64, 32], [4, 32, 16], [], [], []], ["c10::BFloat16"] * 2 + ["", "", ""], [""] * 5),
    ("aten::matmul", [[4, 64, 32], [4, 32, 16]], ["float", "float"], ["", ""]),
    (
        "aten::native_layer_norm",
        [[8, 32], [], [32], [32], []],
        ["float", "ScalarList", "float", "float", "Scalar"],
        [""] * 5,
    ),
    ("triton_poi_fused_add_0", [[64, 32], [32]], ["float", "c10::BFloat16"], ["", ""]),
    ("aten::mm", [], [], []),
)
"""Operators: name, shapes of inputs, their types and concrete values."""

KERNELS = (
    "sm90_xmma_gemm_bf16bf16_f32",
    "elementwise_kernel",
    "flash_fwd_kernel",
    "triton_poi_fused_add_0",
    "ampere_s1688_tf32_conv",
)


@dataclass
class _Trace:
    """One dump as it grows: its events, and the numbers that it has given out."""

    chance: random.Random
    rank: int
    first_us: int
    device: int
    events: list[dict[str, Any]] = field(default_factory=list)
    n_calls: int = 0
    allocated: int = 1 << 20

    def add(self, category: str, name: str, at: int, length: int, *, pid: Any = 100, tid: Any = 1, **args: Any) -> None:
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": self.first_us + at * UNIT_US,
                "dur": length * UNIT_US,
                "args": args,
            }
        )

    def launch(self, at: int, *, thread: int = 1, name: str = "cudaLaunchKernel", length: int = 1) -> int:
        """Write a call, unless chance loses it, and return its correlation."""
        self.n_calls += 1
        number = self.n_calls if self.chance.random() > 0.03 else self.chance.randint(1, self.n_calls)
        if self.chance.random() > 0.04:
            self.add("cuda_runtime", name, at, length, tid=thread, correlation=number, **{"External id": number})
        return number

    def activity(
        self, name: str, at: int, length: int, stream: int, number: int, *, kind: str = "kernel", **args: Any
    ) -> None:
        if self.chance.random() < 0.04:
            return
        told = {"device": self.device, "context": 1, "stream": stream, "correlation": number, **args}
        self.add(kind, name, at, length, pid=self.device, tid=stream, **told)


def write_soup(
    folder: Path,
    seed: int,
    *,
    n_captures: int = 2,
    n_steps: int = 3,
    has_device: bool = True,
    update_every: int | None = None,
    is_one_host: bool = False,
    recomputes: bool = False,
) -> None:
    """Write `n_captures` dumps of each of four ranks; equal seeds give equal bytes.

    Args:
        has_device: Else nothing runs on one, and exchanges are spans of a host's thread.
        update_every: Steps from one update to the next; None leaves to chance which steps have one.
        is_one_host: No dump names its host, and each rank has another of its four devices.
        recomputes: Operators are computed once more in the backward pass, and some exchanges are told of in other ways.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for capture in range(n_captures):
        plan = _exchanges(random.Random(f"{seed} {capture}"), n_steps)  # noqa: S311 - the same again, no secrets
        for rank in range(4):
            chance = random.Random(f"{seed} {capture} {rank}")  # noqa: S311
            first_us = BASE_US + 10**6 * capture + 1700 * rank
            trace = _Trace(chance, rank, first_us, device=rank if is_one_host else 0)
            for step in range(n_steps):
                _step(trace, capture * n_steps + step, step * STEP_UNITS)
                if chance.random() > 0.2 if update_every is None else step % update_every == 0:
                    trace.add("user_annotation", "Optimizer.step#AdamW.step", (step + 1) * STEP_UNITS - 13, 5)
            _meet(trace, plan)
            if recomputes:
                _more(trace, plan, n_steps)
            if not has_device:
                trace.events = [
                    e for e in trace.events if "device" not in e["args"] and not e["cat"].startswith("cuda_")
                ]
            path = folder / f"rank{rank}.capture{capture}.pt.trace.json"
            path.write_text(json.dumps(_dump(trace, is_one_host)))


def _dump(trace: _Trace, is_one_host: bool) -> dict[str, Any]:
    device = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480}
    config = [
        {"pg_name": name, "pg_desc": told, "backend_config": "cuda:nccl", "pg_size": len(ranks), "ranks": list(ranks)}
        for name, (told, ranks) in GROUPS.items()
    ]
    return {
        "schemaVersion": 1,
        **({} if is_one_host else {"host_name": f"node{trace.rank // 2}"}),
        "deviceProperties": [{"id": n, **device} for n in range(4 if is_one_host else 1)],
        "distributedInfo": {"backend": "nccl", "rank": trace.rank, "world_size": 4, "pg_config": config},
        "baseTimeNanoseconds": BASE_NS,
        "traceEvents": trace.events,
    }


def write_samples(folder: Path, seed: int) -> None:
    """Write telemetry of those ranks' devices: a sample every 10 ms, some lost and some slow, of one device none."""
    chance = random.Random(f"{seed} samples")  # noqa: S311 - the same again, not a secret
    lines = ["timestamp, host, index, clocks.sm [MHz], power.draw [W], temperature.gpu, clocks_event_reasons.active"]
    for at in range(0, 2 * STEP_UNITS * 3, 100):
        for rank in range(3):
            if chance.random() < 0.2:
                continue
            seconds = BASE_NS // 10**9 + (BASE_US + at * UNIT_US) / 1e6
            mhz, power = chance.choice((1980, 1980, 1400)), chance.choice(("688.75", "300", "[N/A]"))
            mask = chance.choice((0, 0, 1, 4, 8, 32, 44, 256))
            lines.append(f"{seconds:.3f}, node{rank // 2}, {rank % 2}, {mhz}, {power}, {60 + at % 7}, 0x{mask:x}")
    (folder / "telemetry.csv").write_text("\n".join(lines) + "\n")
    others = [
        line.replace("node0", "node1").replace(", 1, 1980", ", 0, 1700") for line in lines[1:] if chance.random() < 0.3
    ]
    (folder / "more.csv").write_text("\n".join([lines[0], *others]) + "\n")


def write_records(folder: Path, seed: int) -> None:
    """Write flight recorders of those ranks: the exchanges of the first capture, some lost and some at odds."""
    plan = _exchanges(random.Random(f"{seed} 0"), 3)  # noqa: S311
    calls: dict[int, list[dict[str, Any]]] = {}
    for rank in range(4):
        chance = random.Random(f"{seed} records {rank}")  # noqa: S311
        calls[rank] = []
        for n, (end, group, place, size) in enumerate(plan):
            if rank not in GROUPS[group][1] or chance.random() < 0.05 or (rank == 2 and n > len(plan) - 4):
                continue
            at = (BASE_US + 1700 * rank + (end - chance.choice((1, 3, 9))) * UNIT_US) * 1000 + BASE_NS
            state = "completed" if n < len(plan) - 3 else chance.choice(("scheduled", "started", "completed"))
            op = COLLECTIVES[place][2] if chance.random() > 0.05 else "barrier"
            made = call(group, n, op, (at - START_NS) / MS, state, size if chance.random() > 0.05 else size + 1)
            if chance.random() < 0.5:
                made["duration_ms"] = chance.choice((0.1, 1.5))
            calls[rank].append(made)
    write_dumps(folder, of_calls(calls, GROUPS), as_json=True)


def write_timers(folder: Path, seed: int) -> None:
    """Write a log of four ranks' timers for 24 steps: who is late changes, and lines lack now this and now that."""
    chance = random.Random(f"{seed} timers")  # noqa: S311
    others = (
        "batch-generator",
        "save_checkpoint",
        "forward-compute",
        "params-all-gather",
        "unheard-of",
        "optimizer-clip",
    )
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = []
    for step in range(24):
        late, slow = chance.choice((0, 1, 1, 1, 2, 3)), chance.choice(("data_loading", "forward", "forward"))
        order = ["data_loading", "forward", "backward", "grads-all-reduce", "optimizer"]
        for name in chance.sample(others, chance.choice((0, 0, 1, 2))):
            order.insert(chance.randint(0, 5), name)
        for rank in range(4):
            at = 200 * step
            is_timed = chance.random() > (0.9 if rank == 3 else 0.1)
            if chance.random() > 0.1:
                lines.append({"rank": rank, "step": step, "name": "step", "duration_ms": 150, "start_ns": at})
            if chance.random() < 0.2:
                lines.append(
                    {"rank": rank, "step": step, "name": "forward-backward", "duration_ms": 60, "start_ns": at + 10}
                )
            for name in order:
                ms = chance.choice((10, 10, 10, 10, 11)) + (25 if rank == late and name == slow else 0)
                ms = max(0, 200 * step + 110 - at) if name == "grads-all-reduce" else ms
                line: dict[str, Any] = {"rank": rank, "step": step, "name": name, "duration_ms": ms}
                if is_timed and chance.random() > 0.03:
                    line["start_ns"] = at
                if chance.random() < 0.02:
                    del line["step"]
                lines.append(line)
                at += ms if chance.random() < 0.95 else ms // 2
    for line in lines:
        if "start_ns" in line:
            line["start_ns"] = START_NS + MS * line["start_ns"]
    (folder / "timers.jsonl").write_text(json_lines(lines))


def hung_sender(seed: int) -> dict[int, dict[str, Any]]:
    """Return flight recorders of eight ranks of which neighbours send to each other, in terms of several versions."""
    chance = random.Random(f"{seed} senders")  # noqa: S311
    backend = chance.choice(("nccl", "nccl", "gloo"))
    tells_states = chance.random() < 0.6
    calls: dict[int, list[dict[str, Any]]] = {}
    for rank in range(8):
        made = []
        for n in range(1, 7):
            group = "0" if n % 3 else str(5 + rank % 2)
            is_last = n == 6 or chance.random() < 0.1
            other: dict[str, Any] = {"retired": not is_last if chance.random() > 0.1 else is_last, "backend": backend}
            if not tells_states:
                other |= {"time_discovered_completed_ns": None, "time_discovered_started_ns": None}
            if n % 3 == 2:
                peer = rank ^ 1 if chance.random() > 0.1 else (rank + 2) % 8
                ways = (f"send {rank}->{peer}", f"recv {rank}<-{peer}")
                way = chance.choice(ways) if n > 2 else ways[rank % 2]
                state = "completed" if tells_states and not is_last else "scheduled"
                made.append(call(group, n, way, 10 * n, state, is_p2p=True, p2p_seq_id=n, **other))
                continue
            op = "coalesced" if n == 4 and chance.random() < 0.5 else "all_reduce"
            state = "completed" if not is_last else chance.choice(("scheduled", "started"))
            state = state if tells_states else "scheduled"
            made.append(call(group, n, op, 10 * n + chance.choice((0, 2)), state, **other))
            if is_last and chance.random() < 0.7:
                break
        calls[rank] = made
    dumps = {rank: dump(entries, TP_DP, rank, first=2 if rank == seed % 8 else 0) for rank, entries in calls.items()}
    for told in dumps.values():
        for entry in told["entries"]:
            entry["profiling_name"] = entry["profiling_name"].replace("nccl:", f"{backend}:")
            if chance.random() < 0.05:
                del entry["output_sizes"]
            if chance.random() < 0.05:
                entry["input_dtypes"] = ["Float", "BFloat16"]
    if seed % 3 == 0:
        dumps[seed % 8]["pg_config"]["0"]["ranks"] = "[0, 1, 2, 3]"
    return dumps


def hung_job(seed: int) -> dict[int, dict[str, Any]]:
    """Return flight recorders of eight ranks that follow their groups' calls until chance has them do otherwise."""
    chance = random.Random(seed)  # noqa: S311
    ops = ("all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast", "all_to_all", "barrier")
    program = {group: [(chance.choice(ops), 1 << chance.randint(3, 12)) for _ in range(5)] for group in TP_DP}
    calls: dict[int, list[dict[str, Any]]] = {}
    for rank in range(8):
        if chance.random() < 0.1:
            continue  # its dump is lost
        made = []
        for group, (_, ranks) in TP_DP.items():
            if rank not in ranks:
                continue
            n_done = chance.choice((5, 5, 5, 5, 4, 3, 0))
            steps = list(enumerate(program[group], 1))[:n_done]
            if chance.random() < 0.1 and len(steps) > 3:
                steps[2], steps[3] = (3, steps[3][1]), (4, steps[2][1])
            for n, (op, size) in steps:
                last = (n == n_done and n_done < 5) or (n == 5 and chance.random() < 0.5)
                state = chance.choice(("scheduled", "started")) if last else "completed"
                other = {"is_p2p": True} if chance.random() < 0.03 else {}
                wrong = size + 1 if chance.random() < 0.06 else size
                op = "reduce" if chance.random() < 0.04 else op
                made.append(
                    call(group, n, op, 10 * n + int(group) + chance.choice((0, 0, 0, 3)), state, wrong, **other)
                )
        made.sort(key=lambda c: c["time_created_ns"])
        first = chance.choice((0, 0, 0, 2))  # older ones are overwritten
        if made:
            calls[rank] = made[first:]
    return {rank: dump(entries, TP_DP, rank, first=3 if rank % 3 == 0 else 0) for rank, entries in calls.items()}


def _step(trace: _Trace, number: int, first: int) -> None:
    chance = trace.chance
    last = first + STEP_UNITS - chance.choice((0, 0, 1, 7))
    if chance.random() > 0.05:
        trace.add("user_annotation", f"ProfilerStep#{number}", first, last - first)
    actions = (
        _compute,
        _compute,
        _compute,
        _backward,
        _synchronise,
        _copy,
        _allocate,
        _event,
        _graph,
        _silence,
        _span,
        _idle,
    )
    at = first + chance.randint(0, 3)
    while at < last - 8:
        at = chance.choice(actions)(trace, at, last)


def _inputs(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Return an operator's name and what the profiler says of its inputs; of some, sizes that do not go together."""
    name, shapes, types, values = chance.choice(OPERATORS)
    if not shapes:
        return name, {}
    shapes, types, values = [list(shape) for shape in shapes], list(types), list(values)
    if chance.random() < 0.5:
        for _ in range(chance.randint(1, 2)):
            place = chance.randrange(len(shapes))
            what = chance.randrange(5)
            if what == 0 and shapes[place]:
                shapes[place][chance.randrange(len(shapes[place]))] *= 2
            elif what == 1 and shapes[place]:
                shapes[place].pop(chance.randrange(len(shapes[place])))
            elif what == 2:
                shapes[place].insert(0, 3)
            elif what == 3:
                types[place] = chance.choice(("double", "c10::Half", "unheard_of", ""))
            elif "conv" in name:
                at = chance.randrange(len(values))
                values[at] = {"False": "True", "1": "2", "[True, True, False]": "[True, False, False]"}.get(
                    values[at], ""
                )
            else:
                shapes, types, values = shapes[:-1], types[:-1], values[:-1]
            if not shapes:
                break
    return name, {"Input Dims": shapes, "Input type": types, "Concrete Inputs": values}


def _compute(trace: _Trace, at: int, last: int) -> int:
    """An operator, perhaps with another in it, that launches some kernels."""
    chance = trace.chance
    name, told = _inputs(chance)
    length = chance.randint(2, 9)
    sequence = {"Sequence number": at // 3} if chance.random() < 0.5 else {}
    trace.add("cpu_op", name, at, length, **{"External id": at, **told, **sequence})
    if chance.random() < 0.3:
        inner, told = _inputs(chance)
        trace.add("cpu_op", inner, at + chance.randint(0, 1), length - 1, **told)
    for n in range(chance.randint(0, 2)):
        number = trace.launch(
            at + n + chance.randint(0, 1), name=chance.choice(("cudaLaunchKernel", "cuLaunchKernelEx"))
        )
        stream = chance.choice((7, 7, 20))
        trace.activity(
            chance.choice(KERNELS),
            at + n + chance.choice((1, 2, 2, 5, 30)),
            chance.choice((0, 1, 2, 2, 4, 12)),
            stream,
            number,
        )
    return at + length + chance.choice((0, 0, 1, 3))


def _backward(trace: _Trace, at: int, last: int) -> int:
    """The same of another thread, below an autograd node."""
    chance = trace.chance
    length = chance.randint(3, 8)
    numbers = {"Sequence number": at // 3, "Fwd thread id": 1}
    trace.add("cpu_op", "autograd::engine::evaluate_function: MmBackward0", at, length, tid=2, **numbers)
    name, told = _inputs(chance)
    trace.add("cpu_op", name, at, length - 1, tid=2, **told)
    number = trace.launch(at + 1, thread=2)
    trace.activity(chance.choice(KERNELS), at + chance.choice((1, 2, 4)), chance.choice((1, 2, 6)), 7, number)
    return at + length


def _synchronise(trace: _Trace, at: int, last: int) -> int:
    """A call that waits for a stream, an event or the device."""
    chance = trace.chance
    name = chance.choice(("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"))
    length = chance.choice((0, 1, 4, 20))
    number = trace.launch(at, name=name, length=length, thread=chance.choice((1, 1, 2, 9)))
    if chance.random() < 0.7:
        what = {"cudaStreamSynchronize": "Stream Sync", "cudaDeviceSynchronize": "Device Sync"}.get(name, "Event Sync")
        stream = chance.choice((7, 20, -1))
        trace.activity(what, at, length, stream, number, kind="cuda_sync", wait_on_stream=chance.choice((7, 20, -1)))
    return at + length + chance.choice((0, 1))


def _copy(trace: _Trace, at: int, last: int) -> int:
    chance = trace.chance
    name = chance.choice(("cudaMemcpyAsync", "cudaMemcpy", "cudaMemsetAsync"))
    length = chance.choice((1, 5))
    number = trace.launch(at, name=name, length=length)
    kind, what = (
        ("gpu_memset", "Memset (Device)") if "set" in name else ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)")
    )
    trace.activity(
        what,
        at + 1,
        chance.choice((1, 3, 5)),
        chance.choice((7, 21)),
        number,
        kind=kind,
        bytes=chance.choice((0, 4096)),
    )
    return at + length


def _allocate(trace: _Trace, at: int, last: int) -> int:
    """A call that allocates, and what the allocator says of it."""
    chance = trace.chance
    if chance.random() < 0.4:
        trace.launch(at, name=chance.choice(("cudaMalloc", "cudaFree")), length=chance.choice((1, 6)))
    size = chance.choice((-1, 1)) * chance.randint(1, 64) * 512
    trace.allocated += size
    told = {"Bytes": size, "Device Type": 1, "Device Id": 0, "Addr": at}
    totals = (
        {"Total Allocated": trace.allocated, "Total Reserved": trace.allocated * 2} if chance.random() < 0.9 else {}
    )
    trace.events.append(
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": 100,
            "tid": 1,
            "ts": trace.first_us + at * UNIT_US,
            "args": {**told, **totals},
        }
    )
    return at + chance.randint(0, 7)


def _event(trace: _Trace, at: int, last: int) -> int:
    """A stream that waits for what another has recorded."""
    chance = trace.chance
    one, other = chance.choice(((7, 20), (20, 7), (7, 40)))
    recorded = trace.launch(at, name="cudaEventRecord")
    waiting = trace.launch(at + 1, name="cudaStreamWaitEvent")
    if chance.random() < 0.8:
        told = {"wait_on_stream": one, "wait_on_cuda_event_id": at % 5, "wait_on_cuda_event_record_corr_id": recorded}
        trace.activity("Stream Wait Event", at + 1, 0, other, waiting, kind="cuda_sync", **told)
    number = trace.launch(at + 2)
    trace.activity(chance.choice(KERNELS), at + chance.choice((3, 6)), chance.choice((1, 5)), other, number)
    return at + 4


def _graph(trace: _Trace, at: int, last: int) -> int:
    """One call that launches several kernels."""
    chance = trace.chance
    number = trace.launch(at, name="cudaGraphLaunch", length=2)
    start = at + 1
    for node in range(chance.randint(1, 4)):
        length = chance.choice((0, 1, 2))
        numbers: dict[str, Any] = {"graph node id": node, "graph id": 3}
        trace.activity(chance.choice(KERNELS), start, length, 7, number, **numbers)
        start += length + chance.choice((0, 1))
    return at + 3


def _silence(trace: _Trace, at: int, last: int) -> int:
    """An operator in which the thread makes no call for 8 to 16 ms, beside a long kernel."""
    chance = trace.chance
    length = chance.choice((80, 100, 101, 160))
    if at + length + 4 > last or chance.random() < 0.5:
        return at + 2
    trace.add("cpu_op", "aten::to", at, length + 3)
    number = trace.launch(at)
    trace.activity("elementwise_kernel", at + chance.choice((1, 30)), length - chance.choice((0, 1, 2, 31)), 7, number)
    trace.launch(at + length + 1)
    return at + length + 3


def _span(trace: _Trace, at: int, last: int) -> int:
    """A range of a name that says what it is for."""
    chance = trace.chance
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    name = chance.choice(("forward", "backward", loader, "gc", "forward", "backward", loader, "save_checkpoint"))
    length = chance.choice((1, 5, 30))
    trace.add("user_annotation", name, at, min(length, last - at), tid=chance.choice((1, 1, 2)))
    return at + chance.randint(0, length)


def _idle(trace: _Trace, at: int, last: int) -> int:
    return at + trace.chance.choice((1, 1, 10, 40))


def _more(trace: _Trace, plan: Sequence[tuple[int, str, int, int]], n_steps: int) -> None:
    """Operators that backward does once more, on a thread of their own, and what few dumps tell of exchanges."""
    chance = trace.chance
    for at in range(3, n_steps * STEP_UNITS - 40, 25):
        thread = chance.choice((5, 5, 6))
        outer = chance.choice(
            ("CheckpointFunctionBackward", "autograd::engine::evaluate_function: CheckpointFunctionBackward")
        )
        if chance.random() < 0.5:
            trace.add("cpu_op", outer, at, 20, tid=thread)
        if chance.random() < 0.5:
            trace.add("cpu_op", "MmBackward0", at + chance.choice((0, 4, 8)), chance.choice((4, 8, 12)), tid=thread)
        if chance.random() < 0.4:
            trace.add("cpu_op", "aten::numbered", at + 4, chance.choice((4, 9)), tid=thread, **{"Sequence number": at})
        for start in (0, 4, 8, 12, 16, 20):
            name, told = _inputs(chance)
            kind = chance.choice(("cpu_op", "cpu_op", "user_annotation"))
            trace.add(kind, name, at + start, chance.choice((0, 1, 3)), tid=thread, **told)
            number = trace.launch(at + start, thread=thread)
            trace.activity(chance.choice(KERNELS), at + start + 1, chance.choice((1, 1, 2)), 60 + thread, number)
    for n, (end, group, place, size) in enumerate(plan):
        ranks = GROUPS[group][1]
        if trace.rank not in ranks or n % 2:
            continue
        op = chance.choice(("wait", "send", "recv", COLLECTIVES[place][0], "barrier", "alltoallv"))
        other = ranks[(ranks.index(trace.rank) + 1) % len(ranks)]
        args: dict[str, Any] = {
            "Collective name": op,
            "In msg nelems": size,
            "Out msg nelems": size // chance.choice((1, 2)),
            "Group size": len(ranks),
            "dtype": chance.choice(("BFloat16", "Byte", "unheard")),
            "Process Group Name": group,
        }
        args |= {"Dst Rank": other} if op == "send" else {"Src Rank": other} if op == "recv" else {}
        trace.add("cpu_op", "record_param_comms", end + 2, chance.choice((1, 3)), tid=7, **args)
        trace.add(
            chance.choice(("cpu_op", "user_annotation")),
            chance.choice((f"c10d::{op}_", f"nccl:{op}")),
            end + 2,
            2,
            tid=7,
        )
        number = trace.launch(end + chance.choice((2, 3, 4, 5)), thread=7)
        trace.activity("ncclDevKernel_SendRecv()", end + 6, chance.choice((1, 4)), 70 + int(group), number)


def _exchanges(chance: random.Random, n_steps: int) -> list[tuple[int, str, int, int]]:
    """Return when each exchange of the job ends, its group, which of COLLECTIVES it is, and its size."""
    plan = []
    for step in range(n_steps):
        at = step * STEP_UNITS
        for _ in range(16):
            at += chance.randint(20, 45)
            plan.append(
                (at, chance.choice(list(GROUPS)), chance.randrange(len(COLLECTIVES)), 1 << chance.randint(4, 20))
            )
    return plan


def _meet(trace: _Trace, plan: Sequence[tuple[int, str, int, int]]) -> None:
    """Write a rank's part of the exchanges: its call on a thread of its own, its kernel, and what both say."""
    chance = trace.chance
    for n, (end, group, place, size) in enumerate(plan):
        told, ranks = GROUPS[group]
        if trace.rank not in ranks:
            continue
        op, kernel, call = COLLECTIVES[place]
        length = chance.choice((1, 2, 3, 8, 15))
        start = end - length
        at = start - chance.choice((0, 1, 4))
        args: dict[str, Any] = {
            "Collective name": op,
            "In msg nelems": size,
            "Out msg nelems": size,
            "Group size": len(ranks),
            "dtype": "Float",
            "Process Group Name": group,
            "Process Group Description": told,
            "Process Group Ranks": str(list(ranks)),
            "Seq": n,
        }
        if op == "all_to_all" and chance.random() < 0.5:
            args |= {"Collective name": "send", "Dst Rank": ranks[-1]}
        trace.add("cpu_op", "record_param_comms", at, 2, tid=3, **args)
        trace.add("user_annotation", f"nccl:{call}", at, 2, tid=3)
        trace.add("user_annotation", f"gloo:{call}", start, length, tid=4)
        number = trace.launch(at, thread=3)
        name = f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)"
        trace.activity(name, start, length, 40 + int(group), number, **(args if chance.random() < 0.9 else {}))
