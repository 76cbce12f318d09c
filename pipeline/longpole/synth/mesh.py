"""Data, tensor and pipeline parallel training on hosts whose clocks disagree: every collective's answer is known.

Two pipeline stages of `dp` x 4 ranks each run one list of launches (`_program`), two micro-batches a step, all forward
passes before all backward ones. Time is the clock of rank 0; a rank's rows are brought to its host's own clock last.
Members of a collective leave within JITTER_NS of each other. Only integers and raw random bits are used, so every
machine makes the same run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from longpole.errors import UsageError
from longpole.synth.made import BASE_NS, MS, ORIGIN_NS, RANKS_PER_HOST, US, MadeRun, rank_facts
from longpole.synth.rows import CALL_NS, COMPUTE_STREAM, Collective, RankRows

Times = npt.NDArray[np.int64]
Dimension = Literal["pp", "dp", "tp", "world"]

SEED = 20_260_402
FIRST_STEP = 10
STAGES = 2
TENSOR = 4
LAYERS = 2
MICRO_BATCHES = 2
JITTER_NS = 2 * US
REFERENCE_NS = BASE_NS + ORIGIN_NS + 100 * MS
"""When every clock is `offset_ns` ahead of rank 0's, by its own hands."""

_OFFSET_NS = 10 * 10**9
_DRIFT_PPB = 50_000
"""Clocks are off by up to this: as far as hosts without NTP drift apart in weeks, and what a cheap crystal may do."""

_LOADER_NS = 300 * US
_LATENCY_NS = 4 * US
"""From a call to the earliest start of what it launches."""

_PACE_NS = 900
_EVENT_NS = 1_500
"""From the end of work on another stream to the start of what waits for it."""

_SETTLE_NS = 8 * US
_BETWEEN_STEPS_NS = 20 * US
_WORK_NS = 40 * US
_EXCHANGE_NS = 130 * US
"""Host time of a launch: of a kernel, of a collective."""

_STREAMS: dict[str, int] = {"compute": COMPUTE_STREAM, "tp": 20, "dp": 24, "pp": 28, "world": 32}
_FORWARD = ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64", "aten::linear", "aten::addmm")
_BACKWARD = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x256x64",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "aten::mm",
)
_UPDATE = (
    "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float>>",
    "Optimizer.step#AdamW.step",
    "aten::_fused_adamw_",
)
_STORAGE = "(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class _Kind:
    """A collective as the library names it, and as the answers do."""

    kernel: str
    word: str
    operator: str
    annotation: str
    answer: str
    dtype: str
    n_dtype_bytes: int
    n_in: int
    n_out: int


def _kinds(n_data: int) -> dict[str, _Kind]:
    shard, activations = 3_276_800, 6_553_600
    reduce = ("allreduce", "c10d::allreduce_", "nccl:all_reduce", "all_reduce")
    kinds = {
        "tp": _Kind("AllReduce_Sum_bf16_RING_LL", *reduce, "BFloat16", 2, activations, activations),
        "world": _Kind("AllReduce_Sum_f32_RING_LL", *reduce, "Float", 4, 1, 1),
        "gather": _Kind(
            "AllGather_RING_LL", "_allgather_base", "c10d::_allgather_base_", "nccl:_all_gather_base", "all_gather",
            "BFloat16", 2, shard, shard * n_data,
        ),
        "scatter": _Kind(
            "ReduceScatter_Sum_f32_RING_LL", "_reduce_scatter_base", "c10d::_reduce_scatter_base_",
            "nccl:_reduce_scatter_base", "reduce_scatter", "Float", 4, shard * n_data, shard,
        ),
    }  # fmt: skip
    for word, operator, arrow in (("send", "c10d::send", "{0}->{1}"), ("recv", "c10d::recv_", "{0}<-{1}")):
        kinds[word] = _Kind(
            "SendRecv", word, operator, f"nccl:{word} {arrow}", "send_recv", "BFloat16", 2, activations, activations
        )
    return kinds


@dataclass(frozen=True)
class Clock:
    """A host's clock against rank 0's: t of its own is t - offset - drift * (t - REFERENCE_NS) / 1e9 of rank 0's."""

    host: str
    offset_ns: int
    drift_ppb: int

    def own(self, aligned_ns: Times) -> Times:
        """Return what it shows at times of rank 0's clock, epoch or without the base, to the nanosecond."""
        return aligned_ns + self.offset_ns + self._error(aligned_ns + self.offset_ns, 10**9 - self.drift_ppb)

    def aligned(self, own_ns: Times) -> Times:
        """Return the times of rank 0's clock at which it shows `own_ns`, to the nanosecond."""
        return own_ns - self.offset_ns - self._error(own_ns, 10**9)

    def _error(self, time_ns: Times, per: int) -> Times:
        since = time_ns - (REFERENCE_NS if time_ns.max(initial=0) > BASE_NS else REFERENCE_NS - BASE_NS)
        error: Times = (2 * self.drift_ppb * since + per) // (2 * per)
        return error


@dataclass(frozen=True)
class Group:
    """A process group as `init_device_mesh` makes them: a number of its own over the whole job for a name."""

    name: str
    description: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class _Launch:
    """One launch of a stage's step: on which stream, after the ends of which earlier launches of other streams."""

    stream: str
    base_ns: int
    names: tuple[str, str, str] = ("", "", "")  # kernel, outer operator, inner operator
    kind: str = ""
    is_backward: bool = False
    after: tuple[int, ...] = ()


def make(n_ranks: int, n_steps: int) -> MadeRun:
    """Return the run; `n_ranks` must be a multiple of STAGES * TENSOR.

    Raises:
        UsageError: It is not.
    """
    if n_ranks % (STAGES * TENSOR):
        raise UsageError(
            f"{n_ranks} ranks are no mesh of {STAGES} stages with {TENSOR} tensor-parallel ranks",
            f"Give a multiple of {STAGES * TENSOR}.",
        )
    groups = mesh_groups(n_ranks)
    clocks = _clocks(n_ranks)

    def chunks() -> Iterator[tuple[int, pa.Table]]:
        simulation = _Simulation(groups, n_ranks)
        writers = [_Writer(rank, groups, simulation) for rank in range(n_ranks)]
        for step in range(n_steps):
            simulation.run(step)
            for rank, writer in enumerate(writers):
                yield rank, _on_clock(writer.step(step), clocks[rank])

    def instances() -> Iterator[dict[str, object]]:
        simulation = _Simulation(groups, n_ranks)
        for step in range(n_steps):
            simulation.run(step)
            yield from simulation.instances(FIRST_STEP + step)

    return MadeRun(
        facts=tuple(
            replace(rank_facts(rank, n_ranks), process_groups=_config(groups, rank)) for rank in range(n_ranks)
        ),
        chunks=chunks,
        known={"clock_reference_ns": REFERENCE_NS},
        lists={
            "clocks": lambda: (
                {"rank": rank, "host": clock.host, "offset_ns": clock.offset_ns, "drift_ppb": clock.drift_ppb}
                for rank, clock in enumerate(clocks)
            ),
            "groups": lambda: (
                {"group": group.name, "description": group.description, "ranks": list(group.members)}
                for group in groups
            ),
            "instances": instances,
        },
        aligned=lambda rank_steps: _aligned(rank_steps, clocks),
    )


def mesh_groups(n_ranks: int) -> tuple[Group, ...]:
    """Return all groups of the job in the order they are made: all ranks, then by pp, dp and tp."""
    ranks = np.arange(n_ranks).reshape(STAGES, -1, TENSOR)
    found = [Group("0", "default_pg", tuple(range(n_ranks)))]
    for place, dimension in enumerate(("pp", "dp", "tp")):
        for members in ranks.swapaxes(-1, place).reshape(-1, ranks.shape[place]).tolist():
            found.append(Group(str(len(found)), f"mesh_{dimension}", tuple(members)))
    return tuple(found)


def _config(groups: Sequence[Group], rank: int) -> str:
    """Return `pg_config` of a rank: the groups that it is in, their ranks in full."""
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


def _clocks(n_ranks: int) -> tuple[Clock, ...]:
    """Return the clock of each rank: the first host's is the run's, each other one is off by amounts of its own."""
    bits = np.random.PCG64(np.random.SeedSequence((SEED, 1_000_000))).random_raw(2 * n_ranks)
    hosts = [Clock("node0", 0, 0)]
    for number in range(1, -(-n_ranks // RANKS_PER_HOST)):
        offset, drift = (int(word) >> 16 for word in bits[2 * number : 2 * number + 2])
        hosts.append(
            Clock(
                f"node{number}",
                offset % (2 * _OFFSET_NS) - _OFFSET_NS,
                drift % (2 * _DRIFT_PPB) - _DRIFT_PPB,
            )
        )
    return tuple(hosts[rank // RANKS_PER_HOST] for rank in range(n_ranks))


def _on_clock(table: pa.Table, clock: Clock) -> pa.Table:
    start = table["start_ns"].to_numpy()
    own = clock.own(start)
    length = clock.own(start + table["duration_ns"].to_numpy()) - own
    place = table.column_names.index("start_ns")
    return table.set_column(place, "start_ns", pa.array(own)).set_column(place + 1, "duration_ns", pa.array(length))


def _aligned(rank_steps: pa.Table, clocks: Sequence[Clock]) -> pa.Table:
    rank = rank_steps["rank"].to_numpy()
    for name in ("start_ns", "end_ns"):
        times = rank_steps[name].to_numpy().copy()
        for number, clock in enumerate(clocks):
            times[rank == number] = clock.aligned(times[rank == number])
        rank_steps = rank_steps.set_column(rank_steps.column_names.index(name), name, pa.array(times))
    return rank_steps


def _program(stage: int, n_data: int) -> list[_Launch]:
    """Return a stage's launches of one step, in the order the host makes them."""
    launches: list[_Launch] = []

    def add(stream: str, base_ns: int, **more: object) -> int:
        launches.append(_Launch(stream, base_ns, **more))  # type: ignore[arg-type]
        return len(launches) - 1

    def layer(names: tuple[str, str, str], base_ns: int, n_kernels: int, after: tuple[int, ...], back: bool) -> int:
        last = -1
        for _ in range(2):  # attention, then the feed-forward part; in the backward pass the other way round
            for _ in range(n_kernels):
                last = add("compute", base_ns, names=names, after=after, is_backward=back)
                after = ()
            last = add("tp", 150 * US, kind="tp", after=(last,), is_backward=back)
            after = (last,)
        return last

    has_data = n_data > 1
    gathered = [add("dp", 400 * US, kind="gather") for _ in range(LAYERS if has_data else 0)]
    for batch in range(MICRO_BATCHES):
        after = (add("pp", 120 * US, kind="recv"),) if stage else ()
        for number in range(LAYERS):
            weights = (gathered[number],) if has_data and batch == 0 else ()
            after = (layer(_FORWARD, 900 * US, 1, after + weights, back=False),)
        if not stage:
            add("pp", 120 * US, kind="send", after=after)
    reduced: list[int] = []
    for batch in range(MICRO_BATCHES):
        after = () if stage else (add("pp", 120 * US, kind="recv", is_backward=True),)
        for _ in range(LAYERS):
            after = (layer(_BACKWARD, 800 * US, 2, after, back=True),)
            if has_data and batch == MICRO_BATCHES - 1:
                reduced.append(add("dp", 500 * US, kind="scatter", after=after, is_backward=True))
        if stage:
            add("pp", 120 * US, kind="send", after=after, is_backward=True)
    norm = add("world", 30 * US, kind="world", after=(*reduced, *after))
    for number in range(2):
        add("compute", 350 * US, names=_UPDATE, after=() if number else (norm,))
    return launches


class _Simulation:
    """Steps in order, each from where the host of every rank ended the one before; what a step came to is kept."""

    def __init__(self, groups: Sequence[Group], n_ranks: int) -> None:
        self.n_data = n_ranks // (STAGES * TENSOR)
        self.programs = tuple(_program(stage, self.n_data) for stage in range(STAGES))
        self.kinds = _kinds(self.n_data)
        self.width = n_ranks // STAGES
        self.marker: Times = np.full(n_ranks, ORIGIN_NS + 100 * MS)
        n_most = max(len(program) for program in self.programs)
        self.begins, self.start, self.end = (np.zeros((n_most, n_ranks), np.int64) for _ in range(3))
        self.synchronised = self.marker
        self._groups = groups
        self._n_ranks = n_ranks

    def run(self, step: int) -> None:
        """Work out the next step: `marker`, `begins` (of each launch on the host), `start`, `end`, `synchronised`."""
        shape = self.start.shape
        bits = np.random.PCG64(np.random.SeedSequence((SEED, step))).random_raw(shape[0] * shape[1]).reshape(shape)
        if step:
            self.marker = self.synchronised + _BETWEEN_STEPS_NS
        self._noise = ((bits >> np.uint64(40)) & np.uint64(0xFFFF)).astype(np.int64) - 0x8000
        self._jitter = ((bits >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64) * (JITTER_NS + 1) >> 16
        for stage, program in enumerate(self.programs):
            mine = self._ranks(stage)
            lasts = [_EXCHANGE_NS if launch.kind else _WORK_NS for launch in program]
            before = np.cumsum([0, *lasts[:-1]])[:, None]
            self.begins[: len(program), mine] = self.marker[mine] + _LOADER_NS + before + (mine * 37 % 11) * US
        self._meet()
        last = np.concatenate([self.end[len(p) - 1, self._ranks(s)] for s, p in enumerate(self.programs)])
        self.synchronised = last + _SETTLE_NS

    def instances(self, step: int) -> Iterator[dict[str, object]]:
        """Yield the answers of the step's collectives."""
        for stage, program in enumerate(self.programs):
            exchanges = [place for place, launch in enumerate(program) if launch.kind]
            for group in self._groups:
                if group.members[0] not in self._ranks(stage):
                    continue  # of two stages, so answered with the first
                dimension = group.description.removeprefix("mesh_").replace("default_pg", "world")
                for place in (p for p in exchanges if program[p].stream == dimension):
                    yield self._instance(step, group, place, program[place])

    def group_of(self, rank: int, dimension: str) -> Group:
        """Return the rank's group of a dimension."""
        description = "default_pg" if dimension == "world" else f"mesh_{dimension}"
        return next(g for g in self._groups if g.description == description and rank in g.members)

    def _instance(self, step: int, group: Group, place: int, launch: _Launch) -> dict[str, object]:
        members = np.array(group.members)
        places = np.full(len(members), place)
        if launch.stream in ("pp", "world"):  # the other stage's place in its own list
            nth = [p for p, other in enumerate(self.programs[0]) if other.stream == launch.stream].index(place)
            theirs = [p for p, other in enumerate(self.programs[1]) if other.stream == launch.stream][nth]
            places[members >= self.width] = theirs
        start, end = self.start[places, members], self.end[places, members]
        kind = self.kinds[launch.kind]
        last = int(start.max())
        return {
            "step": step,
            "group": group.name,
            "op": kind.answer,
            "n_ranks": len(members),
            "n_bytes": max(kind.n_in, kind.n_out) * kind.n_dtype_bytes,
            "last_arrival_ns": BASE_NS + last,
            "last_rank": int(members[start.argmax()]),
            "margin_ns": last - int(np.sort(start)[-2]),
            "skew_ns": last - int(start.min()),
            "wait_ns": np.minimum(last - start, end - start).tolist(),
        }

    def _meet(self) -> None:
        """Go through both stages' lists; one waits where only the other can go on."""
        at = [0, 0]
        while at[0] < len(self.programs[0]) or at[1] < len(self.programs[1]):
            for stage, program in enumerate(self.programs):
                while at[stage] < len(program) and program[at[stage]].stream not in ("pp", "world"):
                    self._arrive(stage, at[stage])
                    self._leave(at[stage], program[at[stage]], self._ranks(stage))
                    at[stage] += 1
            if at[0] < len(self.programs[0]):
                launches = [program[place] for program, place in zip(self.programs, at, strict=True)]
                assert launches[0].stream == launches[1].stream, "stages meet in the order of their lists"
                for stage in range(STAGES):
                    self._arrive(stage, at[stage])
                self._leave_together(at, launches[0])
                at = [place + 1 for place in at]

    def _arrive(self, stage: int, place: int) -> None:
        program, mine = self.programs[stage], self._ranks(stage)
        launch = program[place]
        start = self.begins[place, mine] + _call_ns(launch) + _LATENCY_NS
        before = [p for p in range(place) if program[p].stream == launch.stream]
        if before:
            start = np.maximum(start, self.end[before[-1], mine] + _PACE_NS)
        for earlier in launch.after:
            start = np.maximum(start, self.end[earlier, mine] + _EVENT_NS)
        self.start[place, mine] = start

    def _leave(self, place: int, launch: _Launch, mine: Times) -> None:
        start, noise = self.start[place, mine], self._noise[place, mine]
        if launch.stream == "compute":
            self.end[place, mine] = start + launch.base_ns + launch.base_ns * noise // (40 * 0x8000)
            return
        axis = 1 if launch.stream == "tp" else 0
        square = (self.n_data, TENSOR)
        last = start.reshape(square).max(axis=axis, keepdims=True)
        swing = noise.reshape(square).take([0], axis=axis)
        left = last + launch.base_ns + launch.base_ns * swing // (20 * 0x8000)
        self.end[place, mine] = (left + self._jitter[place, mine].reshape(square)).ravel()

    def _leave_together(self, at: Sequence[int], launch: _Launch) -> None:
        both = np.stack([self.start[at[stage], self._ranks(stage)] for stage in range(STAGES)])
        last = both.max(axis=0) if launch.stream == "pp" else np.full(self.width, both.max())
        for stage in range(STAGES):
            mine = self._ranks(stage)
            self.end[at[stage], mine] = last + launch.base_ns + self._jitter[at[stage], mine]

    def _ranks(self, stage: int) -> Times:
        return np.arange(stage * self.width, (stage + 1) * self.width)


def _call_ns(launch: _Launch) -> int:
    """From where the host begins with a launch to the call."""
    return 70 * US if launch.kind else 20 * US


class _Writer:
    """Sets down the rows of one rank, a step at a time."""

    def __init__(self, rank: int, groups: Sequence[Group], simulation: _Simulation) -> None:
        self._rows = RankRows(rank)
        self._rank = rank
        self._simulation = simulation
        self._program = simulation.programs[rank // simulation.width]
        self._groups = {dimension: simulation.group_of(rank, dimension) for dimension in ("pp", "dp", "tp", "world")}
        self._seq = dict.fromkeys(self._groups, 0)
        self._recorded: dict[int, int] = {}

    def step(self, step: int) -> pa.Table:
        """Return the rows of the step that the simulation has just run."""
        simulation, rows, rank = self._simulation, self._rows, self._rank
        marker, synchronised = int(simulation.marker[rank]), int(simulation.synchronised[rank])
        rows.annotate(f"ProfilerStep#{FIRST_STEP + step}", marker, synchronised + 5 * US)
        loaded = marker + _LOADER_NS - 10 * US
        rows.annotate("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", marker + 10 * US, loaded)
        self._recorded = {}
        for place, launch in enumerate(self._program):
            times = tuple(int(x[place, rank]) for x in (simulation.begins, simulation.start, simulation.end))
            if launch.kind:
                self._exchange(place, launch, *times)
            else:
                self._work(place, launch, *times)
        called = int(simulation.begins[len(self._program) - 1, rank]) + _WORK_NS
        item = rows.operate("aten::item", called, synchronised + 2 * US)
        rows.call("cudaStreamSynchronize", called + 2 * US, synchronised, item)
        return rows.take()

    def _work(self, place: int, launch: _Launch, begins: int, start: int, end: int) -> None:
        rows, thread = self._rows, self._thread(launch)
        kernel, outer, inner = launch.names
        if outer.startswith("Optimizer"):
            rows.annotate(outer, begins, begins + 38 * US, thread)
        else:
            rows.operate(outer, begins, begins + 38 * US, thread)
        operator = rows.operate(inner, begins + 2 * US, begins + 36 * US, thread)
        self._waits(launch, begins + 3 * US, operator, thread)
        rows.launch(kernel, start, end, called_ns=begins + _call_ns(launch), external_id=operator, thread=thread)
        self._recorded[place] = rows.record_event(begins + 32 * US, operator, thread)

    def _exchange(self, place: int, launch: _Launch, begins: int, start: int, end: int) -> None:
        rows, thread, kind = self._rows, self._thread(launch), self._simulation.kinds[launch.kind]
        stream = _STREAMS[launch.stream]
        comm = self._collective(launch, kind)
        rows.operate(kind.operator, begins + 20 * US, begins + 120 * US, thread)
        record = rows.operate("record_param_comms", begins + 30 * US, begins + 110 * US, thread, comm=comm)
        name = kind.annotation
        if launch.kind in ("send", "recv"):
            me = self._groups["pp"].members.index(self._rank)
            name = name.format(me, 1 - me)
        annotation = rows.annotate(name, begins + 40 * US, begins + 100 * US, thread)
        self._waits(launch, begins + 50 * US, record, thread)
        rows.launch(
            f"ncclDevKernel_{kind.kernel}{_STORAGE}",
            start,
            end,
            called_ns=begins + _call_ns(launch),
            external_id=record,
            thread=thread,
            stream=stream,
            comm=comm,
        )
        rows.project(name, start, end, annotation, stream)
        self._recorded[place] = rows.record_event(begins + 90 * US, record, thread)

    def _waits(self, launch: _Launch, at_ns: int, operator: int, thread: int) -> None:
        """Make the launch's stream wait for the ends of what it comes after on others."""
        for number, earlier in enumerate(launch.after):
            self._rows.wait_event(
                at_ns + number * (CALL_NS // 3),
                operator,
                thread,
                stream=_STREAMS[launch.stream],
                on_stream=_STREAMS[self._program[earlier].stream],
                recorded_by=self._recorded[earlier],
            )

    def _collective(self, launch: _Launch, kind: _Kind) -> Collective:
        group = self._groups[launch.stream]
        self._seq[launch.stream] += 1
        peer = None
        if launch.stream == "pp":
            (peer,) = (member for member in group.members if member != self._rank)
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

    def _thread(self, launch: _Launch) -> int:
        return self._rows.backward if launch.is_backward else self._rows.main
