"""Steps of a job with a straggler as arrays: what is put in, and in the same breath the same steps without it.

A step is timed for several variants at once, which share all that is random: the run as it is, and the run without
one of the things that were put in. Host times are running sums; work begins when its call was made, its stream is
free and what it comes after has ended; a collective ends on all members within JITTER_NS after the last one began it.
Only integers and raw random bits are used, so every machine makes the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from longpole.synth.made import MS, ORIGIN_NS, US
from longpole.synth.straggler_program import Job, Launch

Times = npt.NDArray[np.int64]

JITTER_NS = 2 * US
_LOADER_NS = 300 * US
_LATENCY_NS = 4 * US
"""From a call to the earliest start of what it launches."""

_PACE_NS = 900
_EVENT_NS = 1_500
"""From the end of work on another stream to the start of what comes after it."""

_SETTLE_NS = 8 * US
"""From the end of the last copy to the return of the synchronise that waits for it."""

_BETWEEN_STEPS_NS = 20 * US
_HICCUP_NS = 60 * US
"""What the host loses once in 64 launches."""

_DEVICE_SPREAD = 53
_HOST_SPREAD = 160
"""Of durations, 3 % on a device and 9 % on a host, for `_spread`."""

SEED = 20_260_403
_STEP_BITS = 3
"""Which random numbers these are; other numbers of the same seed are the scenario's."""

Where = Literal["kernels", "attention", "head", "transfers", "host", "pause", "batch"]


@dataclass(frozen=True)
class Injection:
    """What is put into a run: on which ranks, and how much of it in each step, 0 for none.

    In millionths, how much longer kernels, kernels of attention, transfers of groups on the ranks' link, or host work
    are; in nanoseconds, how much each kernel of the head takes more, a pause of the host, or a batch comes late.
    """

    where: Where
    ranks: tuple[int, ...]
    amounts: tuple[int, ...]
    places: tuple[int, ...] = ()
    """Of a pause, the launch that it comes before, by step."""


Variant = Sequence[Injection]


class Points:
    """The times a step's rows are measured from: rows of the array that `Simulation.times` returns."""

    def __init__(self, n_places: int) -> None:
        self.begins, self.calls, self.finishes, self.starts, self.ends = (n * n_places for n in range(5))
        self.marker, self.loaded, self.synchronised = (5 * n_places + n for n in range(3))


@dataclass(frozen=True)
class _Move:
    """One launch of one stage; or what several launch together, with their group's members by place among them."""

    at: tuple[tuple[int, int], ...]  # stage, place
    members: Times | None = None


class Simulation:
    """Steps in order, each from where the host of every rank ended the one before; the last one run is held.

    `begins`, `calls` and `finishes` (of each launch on the host), `ready` (from when the device could begin it),
    `start` and `end` are by place, variant and rank; `marker`, `loaded`, `synchronised` and `completed` by variant and
    rank. Nanoseconds without BASE_NS. Without a seed nothing is random.
    """

    def __init__(self, job: Job, variants: Sequence[Variant], seed: int | None) -> None:
        self._job = job
        self._variants = variants
        self._seed = seed
        self._moves = _moves(job)
        self._before = [_before(program) for program in job.programs]
        self._ranks = [slice(job.ranks(stage).start, job.ranks(stage).stop) for stage in range(len(job.programs))]
        self.n_places = max(len(program) for program in job.programs)
        self._shape = (self.n_places, len(variants), job.n_ranks)
        self._base, self._lead, self._body = (self._constant(name) for name in ("base_ns", "lead_ns", "body_ns"))
        self._is_work = self._constant("is_work") > 0
        self._of_part = {
            part: np.concatenate([self._column(stage, part) for stage in range(len(job.programs))], axis=2)
            for part in ("attention", "head")
        }
        self._last = np.concatenate([np.full(job.width, len(program) - 1) for program in job.programs])
        self.start, self.end = np.zeros(self._shape, np.int64), np.zeros(self._shape, np.int64)
        self.begins = self.calls = self.finishes = self.ready = self.start
        self.marker: Times = np.full(self._shape[1:], ORIGIN_NS + 100 * MS)
        self.loaded = self.synchronised = self.completed = self.marker

    def run(self, step: int) -> None:
        """Work out the next step; they are counted from 0."""
        if step:
            self.marker = self.synchronised + _BETWEEN_STEPS_NS
        device, host, self._jitter = self._random(step)
        self._put_in(step)
        length = (self._base * _spread(device, _DEVICE_SPREAD)) >> 20
        self._length = length + length * self._longer // 10**6 + self._more

        slower = 10**6 + self._host
        hiccup = np.where(host >> np.uint64(58) == 0, _HICCUP_NS, 0)
        self.loaded = self.marker + _LOADER_NS + (device[0] >> np.uint64(48)).astype(np.int64) + self._late
        lead = (self._lead * _spread(host, _HOST_SPREAD) >> 20) * slower // 10**6 + hiccup + self._pause
        body = self._body * slower // 10**6
        self.finishes = self.loaded + np.cumsum(lead + body, axis=0)
        self.begins = self.finishes - body
        self.calls = self.begins + body // 2
        self.ready = self.calls + _LATENCY_NS + (host >> np.uint64(40)).astype(np.int64) % 1_024

        for move in self._moves:
            for stage, place in move.at:
                self._arrive(stage, place)
            if move.members is None:
                self._leave(*move.at[0])
            else:
                self._leave_together(move, move.members)
        self.completed = self.end[self._last, :, np.arange(self._job.n_ranks)].T
        self.synchronised = self.completed + _SETTLE_NS

    def times(self) -> Times:
        """Return the held step of the run as it is, by point and rank."""
        parts = (self.begins, self.calls, self.finishes, self.start, self.end)
        single = np.stack([self.marker[0], self.loaded[0], self.synchronised[0]])
        return np.concatenate([*(part[:, 0] for part in parts), single])

    def _constant(self, name: str) -> Times:
        """Return what each launch says by place and rank, 0 where a stage has no more."""
        found = np.zeros((self.n_places, 1, self._job.n_ranks), np.int64)
        for program, ranks in zip(self._job.programs, self._ranks, strict=True):
            found[: len(program), :, ranks] = np.array([getattr(launch, name) for launch in program])[:, None, None]
        return found

    def _column(self, stage: int, part: str) -> npt.NDArray[np.bool_]:
        program = self._job.programs[stage]
        found = np.zeros((self.n_places, 1, self._job.width), np.bool_)
        found[: len(program)] = np.array([launch.part == part for launch in program])[:, None, None]
        return found

    def _random(self, step: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], Times]:
        """Return random bits by place, no variant, and rank: of the device, of the host; and how late members leave."""
        shape = (2, self.n_places, 1, self._job.n_ranks)
        if self._seed is None:
            still = np.full(shape[1:], _STILL, np.uint64)
            return still, still, np.zeros(shape[1:], np.int64)
        sequence = np.random.SeedSequence((SEED, self._seed, _STEP_BITS, step))
        device, host = np.random.PCG64(sequence).random_raw(int(np.prod(shape))).reshape(shape).astype(np.uint64)
        return device, host, (device >> np.uint64(48)).astype(np.int64) * (JITTER_NS + 1) >> 16

    def _put_in(self, step: int) -> None:
        """Add up what each variant has in the step."""
        _, n_variants, n_ranks = self._shape
        self._longer, self._more, self._pause = (np.zeros(self._shape, np.int64) for _ in range(3))
        self._host, self._late, self._link = (np.zeros((n_variants, n_ranks), np.int64) for _ in range(3))
        for variant, injections in enumerate(self._variants):
            for injection in injections:
                amount, ranks = injection.amounts[step], list(injection.ranks)
                if injection.where == "kernels":
                    self._longer[:, variant, ranks] += amount * self._is_work[:, 0, ranks]
                elif injection.where == "attention":
                    self._longer[:, variant, ranks] += amount * self._of_part["attention"][:, 0, ranks]
                elif injection.where == "head":
                    self._more[:, variant, ranks] += amount * self._of_part["head"][:, 0, ranks]
                elif injection.where == "pause":
                    self._pause[injection.places[step], variant, ranks] += amount
                else:
                    by_rank = {"host": self._host, "batch": self._late, "transfers": self._link}[injection.where]
                    by_rank[variant, ranks] += amount

    def _arrive(self, stage: int, place: int) -> None:
        ranks = self._ranks[stage]
        start = self.ready[place, :, ranks]
        before = self._before[stage][place]
        if before is not None:
            start = np.maximum(start, self.end[before, :, ranks] + _PACE_NS)
        for earlier in self._job.programs[stage][place].after:
            start = np.maximum(start, self.end[earlier, :, ranks] + _EVENT_NS)
        self.start[place, :, ranks] = start

    def _leave(self, stage: int, place: int) -> None:
        ranks = self._ranks[stage]
        self.end[place, :, ranks] = self.start[place, :, ranks] + self._length[place, :, ranks]

    def _leave_together(self, move: _Move, members: Times) -> None:
        """End a collective, which takes one time for all of its group, and more where the group is on the link."""
        start, length, jitter = (self._joined(part, move) for part in (self.start, self._length, self._jitter))
        link = np.concatenate([self._link[:, self._ranks[stage]] for stage, _ in move.at], axis=1)
        lasts = length[:, members[:, 0]] * (10**6 + link[:, members].max(axis=2)) // 10**6
        end = np.empty_like(start)
        end[:, members] = (start[:, members].max(axis=2) + lasts)[:, :, None] + jitter[:, members]
        for number, (stage, place) in enumerate(move.at):
            width = self._job.width
            self.end[place, :, self._ranks[stage]] = end[:, number * width : (number + 1) * width]

    def _joined(self, part: Times, move: _Move) -> Times:
        """Return the move's launches by variant and rank, stage after stage."""
        return np.concatenate([part[place, :, self._ranks[stage]] for stage, place in move.at], axis=1)


_STILL = sum(511 << shift for shift in (0, 10, 20, 30)) + (1 << 58)
"""Random bits that are no jitter: the middle of each number, and no hiccup."""


def _spread(bits: npt.NDArray[np.uint64], size: int) -> Times:
    """Return 2**20 times a factor that is near 1 and skewed to the right, as a log-normal one: e**x up to x squared.

    x is `size` / 2**20 times the sum of four numbers of ten bits less their mean: of deviation 591 * `size` / 2**20.
    """
    total = sum((bits >> np.uint64(shift) & np.uint64(1_023)).astype(np.int64) for shift in (0, 10, 20, 30))
    x = (np.asarray(total) - 2_044) * size
    result: Times = (1 << 20) + x + (x * x >> 21)
    return result


def _before(program: Sequence[Launch]) -> list[int | None]:
    """Return of each launch the place of the one before it on its stream."""
    latest: dict[str, int] = {}
    found = []
    for place, launch in enumerate(program):
        found.append(latest.get(launch.stream))
        latest[launch.stream] = place
    return found


def _moves(job: Job) -> list[_Move]:
    """Return all launches of a step in an order that each comes after what it waits for."""
    programs, width = job.programs, job.width
    at = [0] * len(programs)
    found: list[_Move] = []
    own = [
        [
            group.members
            for group in job.groups
            if group.description == "mesh_dp" and group.members[0] in job.ranks(stage)
        ]
        for stage in range(len(programs))
    ]
    pairs = np.array([[rank, width + rank] for rank in range(width)])

    def stream(stage: int) -> str:
        return programs[stage][at[stage]].stream if at[stage] < len(programs[stage]) else "end"

    def take(*stages: int, members: Times | None) -> None:
        found.append(_Move(tuple((stage, at[stage]) for stage in stages), members))
        for stage in stages:
            at[stage] += 1

    while any(stream(stage) != "end" for stage in range(len(programs))):
        n_found = len(found)
        for stage in range(len(programs)):
            while stream(stage) in ("compute", "dp"):
                members = np.array(own[stage]) - job.ranks(stage).start if stream(stage) == "dp" else None
                take(stage, members=members)
            if stage and stream(stage - 1) == "up" and stream(stage) == "down":
                take(stage - 1, stage, members=pairs)
        if all(stream(stage) == "world" for stage in range(len(programs))):
            take(*range(len(programs)), members=np.arange(job.n_ranks)[None])
        assert len(found) > n_found, "stages meet in the order of their lists"
    return found
