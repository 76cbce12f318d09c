"""The events of one rank of a mesh: what its profiler records of the launches that a simulation timed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from longpole.synth.made import US
from longpole.synth.mesh_program import LOADER_NS, WORK_NS, Launch, Simulation
from longpole.synth.rows import COMPUTE_STREAM, Collective, RankRows

FIRST_STEP = 10
_STREAMS = {"compute": COMPUTE_STREAM, "tp": 20, "dp": 24, "pp": 28, "world": 32}


@dataclass(frozen=True)
class Group:
    """A process group: its name, what the job calls it, its members."""

    name: str
    description: str
    members: tuple[int, ...]


def group_config(groups: Sequence[Group], rank: int) -> str:
    """Return `pg_config` of a rank: its own groups, their members in full."""
    return json.dumps(
        [
            {
                "pg_name": group.name,
                "pg_desc": group.description,
                "backend_config": "cuda:nccl",
                "pg_size": len(group.members),
                "ranks": list(group.members),
            }
            for group in groups
            if rank in group.members
        ]
    )


@dataclass(frozen=True)
class Kind:
    """A collective as the library and the profiler spell it, what the answers call it, and its size on a rank."""

    kernel: str
    word: str
    operator: str
    annotation: str
    answer: str
    dtype: str
    n_dtype_bytes: int
    n_in: int
    n_out: int


def kinds(n_data: int) -> dict[str, Kind]:
    """Return what `Launch.kind` stands for, where `n_data` ranks share each layer's weights."""
    weights, activations = 3_276_800 * n_data, 6_553_600
    reduce = ("allreduce", "c10d::allreduce_", "nccl:all_reduce", "all_reduce")
    pair = ("send_recv", "BFloat16", 2, activations, activations)
    return {
        "sum": Kind("AllReduce_Sum_bf16_RING_LL", *reduce, "BFloat16", 2, activations, activations),
        "norm": Kind("AllReduce_Sum_f32_RING_LL", *reduce, "Float", 4, 1, 1),
        "gather": Kind(
            "AllGather_RING_LL", "_allgather_base", "c10d::_allgather_base_", "nccl:_all_gather_base", "all_gather",
            "BFloat16", 2, weights // n_data, weights,
        ),
        "scatter": Kind(
            "ReduceScatter_Sum_f32_RING_LL", "_reduce_scatter_base", "c10d::_reduce_scatter_base_",
            "nccl:_reduce_scatter_base", "reduce_scatter", "Float", 4, weights, weights // n_data,
        ),
        "send": Kind("SendRecv", "send", "c10d::send", "nccl:send {0}->{1}", *pair),
        "recv": Kind("SendRecv", "recv", "c10d::recv_", "nccl:recv {0}<-{1}", *pair),
    }  # fmt: skip


class Writer:
    """Sets down the rows of one rank, a step at a time; `groups` are its own, by dimension."""

    def __init__(self, rank: int, groups: Mapping[str, Group], simulation: Simulation) -> None:
        self._rows = RankRows(rank)
        self._rank = rank
        self._groups = groups
        self._simulation = simulation
        self._kinds = kinds(simulation.n_data)
        self._launches = simulation.programs[rank // simulation.width]
        self._seq = dict.fromkeys(groups, 0)
        self._recorded: list[int] = []

    def step(self, step: int) -> pa.Table:
        """Return the rows of the step that the simulation holds."""
        simulation, rows, rank = self._simulation, self._rows, self._rank
        marker, synchronised = int(simulation.marker[rank]), int(simulation.synchronised[rank])
        rows.annotate(f"ProfilerStep#{FIRST_STEP + step}", marker, synchronised + 5 * US)
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        rows.annotate(loader, marker + 10 * US, marker + LOADER_NS - 10 * US)
        self._recorded = []  # by place, the call that recorded its end
        begins = 0
        for place, launch in enumerate(self._launches):
            begins, start, end = (int(x[place, rank]) for x in (simulation.begins, simulation.start, simulation.end))
            write = self._exchange if launch.kind else self._work
            self._recorded.append(write(launch, begins, start, end))
        item = rows.operate("aten::item", begins + WORK_NS, synchronised + 2 * US)
        rows.call("cudaStreamSynchronize", begins + WORK_NS + 2 * US, synchronised, item)
        return rows.take()

    def _work(self, launch: Launch, begins: int, start: int, end: int) -> int:
        assert launch.names is not None
        rows, thread = self._rows, self._thread(launch)
        kernel, outer, inner = launch.names
        around = rows.annotate if outer.startswith("Optimizer") else rows.operate
        around(outer, begins, begins + 38 * US, thread)
        operator = rows.operate(inner, begins + 2 * US, begins + 36 * US, thread)
        self._waits(launch, begins + 3 * US, operator, thread)
        rows.launch(kernel, start, end, called_ns=begins + launch.call_ns, external_id=operator, thread=thread)
        return rows.record_event(begins + 32 * US, operator, thread)

    def _exchange(self, launch: Launch, begins: int, start: int, end: int) -> int:
        assert launch.kind is not None
        rows, thread, kind = self._rows, self._thread(launch), self._kinds[launch.kind]
        stream, comm = _STREAMS[launch.stream], self._collective(launch, kind)
        name = kind.annotation
        if launch.stream == "pp":
            me = self._groups["pp"].members.index(self._rank)
            name = name.format(me, 1 - me)
        rows.operate(kind.operator, begins + 20 * US, begins + 120 * US, thread)
        record = rows.operate("record_param_comms", begins + 30 * US, begins + 110 * US, thread, comm=comm)
        annotation = rows.annotate(name, begins + 40 * US, begins + 100 * US, thread)
        self._waits(launch, begins + 50 * US, record, thread)
        rows.launch(
            f"ncclDevKernel_{kind.kernel}(ncclDevKernelArgsStorage<4096ul>)",
            start,
            end,
            called_ns=begins + launch.call_ns,
            external_id=record,
            thread=thread,
            stream=stream,
            comm=comm,
        )
        rows.project(name, start, end, annotation, stream)
        return rows.record_event(begins + 90 * US, record, thread)

    def _waits(self, launch: Launch, at_ns: int, operator: int, thread: int) -> None:
        """Make the launch's stream wait for the ends of what it comes after."""
        for number, earlier in enumerate(launch.after):
            self._rows.wait_event(
                at_ns + 3 * number * US,
                operator,
                thread,
                stream=_STREAMS[launch.stream],
                on_stream=_STREAMS[self._launches[earlier].stream],
                recorded_by=self._recorded[earlier],
            )

    def _collective(self, launch: Launch, kind: Kind) -> Collective:
        group = self._groups[launch.stream]
        self._seq[launch.stream] += 1
        peer = next(member for member in group.members if member != self._rank)
        return Collective(
            op=kind.word,
            seq=self._seq[launch.stream],
            n_elements=kind.n_in,
            n_out=kind.n_out,
            n_ranks=len(group.members),
            dtype=kind.dtype,
            group=group.name,
            description=group.description,
            members=group.members,
            source=peer if launch.kind == "recv" else None,
            target=peer if launch.kind == "send" else None,
        )

    def _thread(self, launch: Launch) -> int:
        return self._rows.backward if launch.is_backward else self._rows.main
