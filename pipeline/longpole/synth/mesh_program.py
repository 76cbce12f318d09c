"""Pipeline stages of tensor- and data-parallel ranks as arrays: lists of launches that meet in their collectives.

Each stage runs one list of launches on all of its ranks (`program`). The host makes them ahead of the device; work
begins when its call was made, its stream is free and what it comes after has ended; a collective ends on all members
within JITTER_NS after the last one began it. Only integers and raw random bits are used, so every machine makes the
same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from longpole.synth.made import MS, ORIGIN_NS, US

Times = npt.NDArray[np.int64]

SEED = 20_260_402
STAGES = 2
TENSOR = 4
LAYERS = 2
MICRO_BATCHES = 2
JITTER_NS = 2 * US

LOADER_NS = 300 * US
WORK_NS = 40 * US
EXCHANGE_NS = 130 * US
"""Host time of the batch, of launching a kernel, of launching a collective."""

_LATENCY_NS = 4 * US
"""From a call to the earliest start of what it launches."""

_PACE_NS = 900
_EVENT_NS = 1_500
"""From the end of work on another stream to the start of what comes after it."""

_SETTLE_NS = 8 * US
"""From the end of the last kernel to the return of the synchronise that waits for it."""

_BETWEEN_STEPS_NS = 20 * US

Names = tuple[str, str, str]
"""A kernel, the operator or range around its launch, the operator within."""

FORWARD: Names = ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64", "aten::linear", "aten::addmm")
BACKWARD: Names = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x256x64",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "aten::mm",
)
UPDATE: Names = (
    "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float>>",
    "Optimizer.step#AdamW.step",
    "aten::_fused_adamw_",
)


@dataclass(frozen=True)
class Launch:
    """One launch of a stage's step."""

    stream: str  # compute, or the dimension of the mesh that it spans: tp, dp, pp, world
    base_ns: int
    names: Names | None = None  # of a kernel
    kind: str | None = None  # of a collective
    is_backward: bool = False
    after: tuple[int, ...] = ()  # the launches, by place, on other streams that end before it begins

    @property
    def body_ns(self) -> int:
        """How long the host is busy with it."""
        return EXCHANGE_NS if self.kind else WORK_NS

    @property
    def call_ns(self) -> int:
        """From where the host begins with it to the call."""
        return 70 * US if self.kind else 20 * US


def program(stage: int, n_data: int) -> list[Launch]:
    """Return a stage's launches of one step in the order the host makes them: all forward passes, then all backward."""
    launches: list[Launch] = []

    def add(launch: Launch) -> int:
        launches.append(launch)
        return len(launches) - 1

    def layer(names: Names, base_ns: int, n_kernels: int, after: tuple[int, ...], is_backward: bool) -> int:
        """Add attention and the feed-forward part, each with the sum over its tensor-parallel ranks."""
        for _ in range(2):
            for _ in range(n_kernels):
                last = add(Launch("compute", base_ns, names=names, is_backward=is_backward, after=after))
                after = ()
            after = (add(Launch("tp", 150 * US, kind="sum", is_backward=is_backward, after=(last,))),)
        return after[0]

    gathered = [add(Launch("dp", 400 * US, kind="gather")) for _ in range(LAYERS if n_data > 1 else 0)]
    for batch in range(MICRO_BATCHES):
        after = (add(Launch("pp", 120 * US, kind="recv")),) if stage else ()
        for number in range(LAYERS):
            weights = (gathered[number],) if gathered and batch == 0 else ()
            after = (layer(FORWARD, 900 * US, 1, after + weights, False),)
        if not stage:
            add(Launch("pp", 120 * US, kind="send", after=after))
    reduced: list[int] = []
    for batch in range(MICRO_BATCHES):
        after = () if stage else (add(Launch("pp", 120 * US, kind="recv", is_backward=True)),)
        for _ in range(LAYERS):
            after = (layer(BACKWARD, 800 * US, 2, after, True),)
            if n_data > 1 and batch == MICRO_BATCHES - 1:
                reduced.append(add(Launch("dp", 500 * US, kind="scatter", is_backward=True, after=after)))
        if stage:
            add(Launch("pp", 120 * US, kind="send", is_backward=True, after=after))
    norm = add(Launch("world", 30 * US, kind="norm", after=(*reduced, *after)))
    add(Launch("compute", 350 * US, names=UPDATE, after=(norm,)))
    add(Launch("compute", 350 * US, names=UPDATE))
    return launches


class Simulation:
    """Steps in order, each from where the host of every rank ended the one before; the last one run is held.

    `begins` (of each launch on the host), `start` and `end` (on the device) are by place and rank; `marker` and
    `synchronised`, where a rank's host enters and leaves the step, by rank. Nanoseconds without BASE_NS.
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_data = n_ranks // (STAGES * TENSOR)
        self.programs = tuple(program(stage, self.n_data) for stage in range(STAGES))
        self.width = n_ranks // STAGES
        n_places = max(len(launches) for launches in self.programs)
        self.begins, self.start, self.end, self._noise, self._jitter = (
            np.zeros((n_places, n_ranks), np.int64) for _ in range(5)
        )
        self.marker: Times = np.full(n_ranks, ORIGIN_NS + 100 * MS)
        self.synchronised = self.marker

    def ranks(self, stage: int) -> Times:
        """Return the ranks of a stage."""
        return np.arange(stage * self.width, (stage + 1) * self.width)

    def places(self, stage: int, stream: str) -> list[int]:
        """Return where a stage's launches on a stream stand in its list."""
        return [place for place, launch in enumerate(self.programs[stage]) if launch.stream == stream]

    def run(self, step: int) -> None:
        """Work out the next step; they are counted from 0."""
        shape = self.start.shape
        bits = np.random.PCG64(np.random.SeedSequence((SEED, step))).random_raw(self.start.size).reshape(shape)
        self._noise = ((bits >> np.uint64(40)) & np.uint64(0xFFFF)).astype(np.int64) - 0x8000
        self._jitter = ((bits >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64) * (JITTER_NS + 1) >> 16
        if step:
            self.marker = self.synchronised + _BETWEEN_STEPS_NS
        for stage, launches in enumerate(self.programs):
            mine = self.ranks(stage)
            before = np.cumsum([0, *(launch.body_ns for launch in launches[:-1])])[:, None]
            self.begins[: len(launches), mine] = self.marker[mine] + LOADER_NS + before + mine * 37 % 11 * US
        self._meet()
        last = [self.end[len(launches) - 1, self.ranks(stage)] for stage, launches in enumerate(self.programs)]
        self.synchronised = np.concatenate(last) + _SETTLE_NS

    def _meet(self) -> None:
        """Go through the lists of both stages; one stops where it meets the other."""
        at = [0] * STAGES
        while at[0] < len(self.programs[0]):
            for stage, launches in enumerate(self.programs):
                while at[stage] < len(launches) and launches[at[stage]].stream not in ("pp", "world"):
                    self._arrive(stage, at[stage])
                    self._leave(stage, at[stage])
                    at[stage] += 1
            if at[0] < len(self.programs[0]):
                self._leave_together(at)
                at = [place + 1 for place in at]

    def _arrive(self, stage: int, place: int) -> None:
        mine, launch = self.ranks(stage), self.programs[stage][place]
        start = self.begins[place, mine] + launch.call_ns + _LATENCY_NS
        before = [earlier for earlier in self.places(stage, launch.stream) if earlier < place]
        if before:
            start = np.maximum(start, self.end[before[-1], mine] + _PACE_NS)
        for earlier in launch.after:
            start = np.maximum(start, self.end[earlier, mine] + _EVENT_NS)
        self.start[place, mine] = start

    def _leave(self, stage: int, place: int) -> None:
        """End a kernel, to 2.5 % of its length; or a collective within a stage, 5 % alike for a group."""
        mine, launch = self.ranks(stage), self.programs[stage][place]
        start, noise = self.start[place, mine], self._noise[place, mine]
        if launch.kind is None:
            self.end[place, mine] = start + launch.base_ns + launch.base_ns * noise // (40 * 0x8000)
            return
        axis = 1 if launch.stream == "tp" else 0
        square = (self.n_data, TENSOR)
        last = start.reshape(square).max(axis=axis, keepdims=True)
        length = launch.base_ns + launch.base_ns * noise.reshape(square).take([0], axis=axis) // (20 * 0x8000)
        self.end[place, mine] = (last + length + self._jitter[place, mine].reshape(square)).ravel()

    def _leave_together(self, at: Sequence[int]) -> None:
        """End a collective between the stages: of each rank with its like, or of all."""
        launches = [self.programs[stage][at[stage]] for stage in range(STAGES)]
        assert launches[0].stream == launches[1].stream, "both stages meet in the order of their lists"
        for stage in range(STAGES):
            self._arrive(stage, at[stage])
        both = np.stack([self.start[at[stage], self.ranks(stage)] for stage in range(STAGES)])
        last = both.max(axis=0) if launches[0].stream == "pp" else both.max()
        for stage in range(STAGES):
            mine = self.ranks(stage)
            self.end[at[stage], mine] = last + launches[0].base_ns + self._jitter[at[stage], mine]
