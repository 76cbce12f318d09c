"""Training in which one thing is slow, by a known share of the step, or nothing is; with who, why, when and how much.

Everything random comes from the seed, and what is put in does not change what is drawn: the run without it is the run
of the same job, seed and steps with `size` 0, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa

from longpole.errors import UsageError
from longpole.synth.clocks import REFERENCE_NS, Clock, aligned, host_clocks, shown
from longpole.synth.made import BASE_NS, MS, ORIGIN_NS, MadeRun, rank_facts
from longpole.synth.mesh_rows import group_config
from longpole.synth.straggler_program import STAGES, Job, data_parallel, paired, pipelined
from longpole.synth.straggler_rows import sheet
from longpole.synth.straggler_simulation import SEED, Injection, Simulation, Variant, Where
from longpole.synth.template import FIRST_STEP, Template

Case = Literal["healthy", "compute", "clock", "host", "input", "link", "gc", "stage", "sequence"]

DEFAULT_SIZE = 0.1
_CHOICE_BITS, _CLOCK_BITS = 1, 2
"""Which random numbers these are; those of the steps are the simulation's."""

_PAUSES_ONE_IN = 4
_CHUNK_ROWS = 65_536
_CHUNK_TIMES = 4_000_000
"""How much is held at once: rows of a rank, times of all."""

SM_CLOCK_MHZ = 1_980
"""The clock of an H100 that nothing holds down; one whose kernels take longer has it lower by as much."""

SAMPLE_NS = 10 * MS
_LONGEST_STEP_NS = 30 * MS  # with a straggler of the largest size

_JOBS = {"link": paired, "stage": pipelined}


@dataclass(frozen=True)
class Straggler:
    """One thing that is slow: the cause, what makes it so, and what else is known of it."""

    cause: str
    injection: Injection
    is_persistent: bool
    largest_ppm: int
    """By how much it makes a step longer at most, in millionths of one in which nothing is random."""
    known: dict[str, object] = field(default_factory=dict)


def make(
    case: Case, n_ranks: int, n_steps: int, *, seed: int = 0, size: float = DEFAULT_SIZE, slower_ppm: int = 0
) -> MadeRun:
    """Return the run; `size` is by how much a step gets longer, as a share of it, where its straggler is at work.

    Args:
        slower_ppm: How much longer all transfers take, in millionths: no rank is slow, the network is.

    Raises:
        UsageError: A job of the case cannot have so many ranks, or the size or the seed is out of bounds.
    """
    if not 0 <= size <= 1:
        raise UsageError(f"a straggler of size {size:g} is none", "Give a share of the step, from 0 to 1.")
    if seed < 0:
        raise UsageError(f"{seed} is no seed", "Give a whole number from 0 up.")
    job = _JOBS.get(case, data_parallel)(n_ranks)
    clocks = host_clocks(n_ranks, (SEED, seed, _CLOCK_BITS), job.ranks_per_host)
    size_ppm = round(size * 10**6)
    put_in = _stragglers(case, job, n_steps, seed, size_ppm) if size_ppm else ()
    stragglers = tuple(straggler for straggler in put_in if any(straggler.injection.amounts))
    everyone = tuple(range(job.n_ranks))
    network = [Injection("transfers", everyone, (slower_ppm,) * n_steps)] if slower_ppm else []
    return MadeRun(
        facts=tuple(
            replace(
                rank_facts(rank, n_ranks, ranks_per_host=job.ranks_per_host),
                process_groups=group_config(job.groups, rank),
            )
            for rank in range(n_ranks)
        ),
        chunks=lambda ranks: _chunks(job, ranks, [*(s.injection for s in stragglers), *network], seed, n_steps, clocks),
        known={
            "seed": seed,
            "size_ratio": size,
            **({"slower_ppm": slower_ppm} if slower_ppm else {}),
            "clock_reference_ns": BASE_NS + REFERENCE_NS,
        },
        lists={
            "clocks": lambda: (
                {"rank": rank, "host": clock.host, "offset_ns": clock.offset_ns, "drift_ppb": clock.drift_ppb}
                for rank, clock in enumerate(clocks)
            ),
            "groups": lambda: (
                {"group": group.name, "description": group.description, "ranks": list(group.members)}
                for group in job.groups
            ),
            "stragglers": lambda: _answers(job, stragglers, seed, n_steps),
        },
        telemetry=(lambda: _telemetry(job, stragglers, n_steps, clocks)) if case == "clock" else None,
        aligned=lambda rank_steps: aligned(rank_steps, clocks),
    )


def _chunks(
    job: Job, ranks: Sequence[int], injections: Variant, seed: int, n_steps: int, clocks: tuple[Clock, ...]
) -> Iterator[tuple[int, pa.Table]]:
    simulation = Simulation(job, [injections], seed)
    templates = {rank: Template(sheet(job, rank, simulation.n_places)) for rank in ranks}
    largest = max(template.n_rows for template in templates.values())
    per_chunk = max(1, min(_CHUNK_ROWS // largest, _CHUNK_TIMES // (5 * simulation.n_places * job.n_ranks)))
    for first in range(0, n_steps, per_chunk):
        held = []
        for step in range(first, min(first + per_chunk, n_steps)):
            simulation.run(step)
            held.append(simulation.times())
        times = np.stack(held)
        for rank, template in templates.items():
            yield rank, shown(template.rows(first, times[:, :, rank]), clocks[rank])


def _telemetry(job: Job, stragglers: tuple[Straggler, ...], n_steps: int, clocks: tuple[Clock, ...]) -> Iterator[str]:
    """Yield what nvidia-smi would log on every host, with its name: a slow device has a lower clock, for it is hot."""
    yield "timestamp, host, index, clocks.sm [MHz], power.draw [W], temperature.gpu, clocks_event_reasons.active"
    longer_ppm = {rank: s.injection.amounts[0] for s in stragglers for rank in s.injection.ranks}
    times = ORIGIN_NS + SAMPLE_NS * np.arange(-1, n_steps * _LONGEST_STEP_NS // SAMPLE_NS)
    for rank, clock in enumerate(clocks):
        mhz = round(SM_CLOCK_MHZ * 10**6 / (10**6 + longer_ppm.get(rank, 0)))
        state = "561.20, 88, 0x0000000000000040" if rank in longer_ppm else "688.75, 61, 0x0000000000000000"
        for shown_ns in clock.shows(times).tolist():
            second, ns = divmod(BASE_NS + shown_ns, 10**9)
            when = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            yield f"{when}.{ns:09d}Z, {clock.host}, {rank % job.ranks_per_host}, {mhz}, {state}"


def _answers(job: Job, stragglers: tuple[Straggler, ...], seed: int, n_steps: int) -> Iterator[dict[str, object]]:
    """Yield each straggler with the step time that is saved without it, by running all steps again without it."""
    everything = [straggler.injection for straggler in stragglers]
    at_once = max(1, _CHUNK_TIMES // (5 * len(job.programs[0]) * job.n_ranks))
    for first in range(0, len(stragglers), at_once):
        part = stragglers[first : first + at_once]
        without = [[other for other in everything if other is not straggler.injection] for straggler in part]
        durations = _durations(Simulation(job, [everything, *without], seed), n_steps)
        for straggler, changed in zip(part, durations[1:], strict=True):
            steps = [step for step, amount in enumerate(straggler.injection.amounts) if amount]
            saved = (durations[0] - changed)[steps]
            yield {
                "ranks": list(straggler.injection.ranks),
                "cause": straggler.cause,
                "is_persistent": straggler.is_persistent,
                "largest_ratio": straggler.largest_ppm / 10**6,
                **straggler.known,
                "steps": "all" if len(steps) == n_steps else [FIRST_STEP + step for step in steps],
                "ns_per_step": int(saved.sum()) // len(steps),
                "saved_ns": saved.tolist(),
            }


def _durations(simulation: Simulation, n_steps: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the step times of the run by variant and step."""
    ends = [simulation.marker.max(axis=1)]
    for step in range(n_steps):
        simulation.run(step)
        ends.append(simulation.completed.max(axis=1))
    return np.diff(np.array(ends), axis=0).T


def _stragglers(case: Case, job: Job, n_steps: int, seed: int, size_ppm: int) -> tuple[Straggler, ...]:
    """Return what is put in; the first number drawn says where, each step has three more of its own."""
    bits = np.random.PCG64(np.random.SeedSequence((SEED, seed, _CHOICE_BITS))).random_raw(1 + 3 * n_steps)
    # Python's whole numbers from here on: what is drawn is multiplied, and fixed-width ones would wrap.
    drawn = [int(word) >> 16 for word in bits]
    who, by_step = drawn[0], [drawn[1 + 3 * step : 4 + 3 * step] for step in range(n_steps)]
    rank = who % job.n_ranks

    def one(cause: str, where: Where, ranks: tuple[int, ...], like: tuple[int, ...], **known: object) -> Straggler:
        """Return what is the same in each step; `like` ranks cost as much in a run where nothing is random."""
        amount = _amount(job, where, like, size_ppm)
        return Straggler(cause, Injection(where, ranks, (amount,) * n_steps), True, size_ppm, known)

    if case in ("compute", "clock"):
        return (one(case, "kernels", (rank,), (0,)),)
    if case == "host":
        return (one("host", "host", (rank,), (0,)),)
    if case == "input":
        late = _amount(job, "batch", (0,), size_ppm)
        amounts = tuple(_varied(late, words[0]) for words in by_step)
        largest = _varied(size_ppm, max(words[0] % 513 for words in by_step))
        return (Straggler("input", Injection("batch", (rank,), amounts), True, largest),)
    if case == "link":
        pair = who % (job.n_ranks // job.ranks_per_host // 2)
        hosts = (2 * pair, 2 * pair + 1)
        ranks, like = ((*job.on_host(first), *job.on_host(first + 1)) for first in (hosts[0], 0))
        return (one("link", "transfers", ranks, like, hosts=[f"node{host}" for host in hosts]),)
    if case == "stage":
        ranks = tuple(job.ranks(STAGES - 1))
        return (one("stage", "head", ranks, ranks, stage=STAGES - 1),)
    if case == "gc":
        return _pauses(job, by_step, size_ppm)
    if case == "sequence":
        more = _amount(job, "attention", (0,), size_ppm)
        who_in = [words[0] % job.n_ranks for words in by_step]
        return tuple(
            Straggler(
                "sequence",
                Injection(
                    "attention",
                    (one_of,),
                    tuple(
                        _varied(more, words[1]) * (whose == one_of)
                        for whose, words in zip(who_in, by_step, strict=True)
                    ),
                ),
                is_persistent=False,
                largest_ppm=max(
                    _varied(size_ppm, words[1]) for whose, words in zip(who_in, by_step, strict=True) if whose == one_of
                ),
            )
            for one_of in sorted(set(who_in))
        )
    return ()


def _pauses(job: Job, by_step: list[list[int]], size_ppm: int) -> tuple[Straggler, ...]:
    """Return pauses of the host: in one step of _PAUSES_ONE_IN, and in one at least, on a rank, before a launch."""
    quiet = Simulation(job, [[]], None)
    quiet.run(0)
    step_ns = int((quiet.completed - quiet.marker).max())
    leads = (quiet.start - quiet.ready)[:, 0, 0]
    places = [place for place, launch in enumerate(job.programs[0]) if launch.is_work and not launch.is_update]
    first = min(range(len(by_step)), key=lambda step: by_step[step][0] % _PAUSES_ONE_IN)
    found: dict[int, dict[int, int]] = {}
    for step, (happens, whose, where) in enumerate(by_step):
        if happens % _PAUSES_ONE_IN == 0 or step == first:
            found.setdefault(whose % job.n_ranks, {})[step] = places[where % len(places)]
    return tuple(
        Straggler(
            "host",
            Injection(
                "pause",
                (rank,),
                # The device first runs through what was launched ahead.
                tuple(
                    int(leads[at[step]]) + step_ns * size_ppm // 10**6 if step in at else 0
                    for step in range(len(by_step))
                ),
                tuple(at.get(step, 0) for step in range(len(by_step))),
            ),
            is_persistent=False,
            largest_ppm=size_ppm,
        )
        for rank, at in sorted(found.items())
    )


def _varied(amount: int, word: int) -> int:
    """Return three to five quarters of the amount."""
    return amount * (768 + word % 513) // 1_024


@lru_cache(maxsize=64)
def _amount(job: Job, where: Where, ranks: tuple[int, ...], size_ppm: int) -> int:
    """Return how much makes a step of the job longer by `size_ppm` millionths of it where nothing is random."""
    low, high, target = 0, 1 << 26, -1
    while high - low > 1:
        amounts = sorted({low + (high - low) * part // 32 for part in range(33)})
        simulation = Simulation(job, [[Injection(where, ranks, (amount,))] for amount in amounts], None)
        steps = _durations(simulation, 1)[:, 0]
        if target < 0:
            target = int(steps[0]) * (10**6 + size_ppm) // 10**6
        below = int(np.searchsorted(steps, target, "right")) - 1
        low, high = amounts[below], amounts[min(below + 1, len(amounts) - 1)]
    return low
