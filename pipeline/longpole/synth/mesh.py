"""Data, tensor and pipeline parallel training on hosts whose clocks disagree, with every collective's answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from longpole.errors import UsageError
from longpole.synth.clocks import REFERENCE_NS, aligned, host_clocks, shown
from longpole.synth.made import BASE_NS, MadeRun, rank_facts
from longpole.synth.mesh_program import SEED, STAGES, TENSOR, Launch, Simulation
from longpole.synth.mesh_rows import FIRST_STEP, Group, Writer, group_config, kinds

DIMENSIONS = ("pp", "dp", "tp")
"""Of the mesh, the slowest to change from rank to rank first."""


def make(n_ranks: int, n_steps: int) -> MadeRun:
    """Return the run: `n_ranks` / 8 data-parallel ranks, each of two pipeline stages of four tensor-parallel ranks.

    Raises:
        UsageError: The ranks are no multiple of eight.
    """
    if n_ranks % (STAGES * TENSOR):
        raise UsageError(
            f"{n_ranks} ranks are no mesh of {STAGES} stages with {TENSOR} tensor-parallel ranks",
            f"Give a multiple of {STAGES * TENSOR}.",
        )
    groups = mesh_groups(n_ranks)
    clocks = host_clocks(n_ranks, SEED)

    def chunks(ranks: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        simulation = Simulation(n_ranks)
        writers = {rank: Writer(rank, _own(groups, rank), simulation) for rank in ranks}
        for step in range(n_steps):
            simulation.run(step)
            for rank, writer in writers.items():
                yield rank, shown(writer.step(step), clocks[rank])

    def instances() -> Iterator[dict[str, object]]:
        simulation = Simulation(n_ranks)
        for step in range(n_steps):
            simulation.run(step)
            yield from _instances(simulation, groups, FIRST_STEP + step)

    return MadeRun(
        facts=tuple(
            replace(rank_facts(rank, n_ranks), process_groups=group_config(groups, rank)) for rank in range(n_ranks)
        ),
        chunks=chunks,
        known={"clock_reference_ns": BASE_NS + REFERENCE_NS},
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
        aligned=lambda rank_steps: aligned(rank_steps, clocks),
    )


def mesh_groups(n_ranks: int) -> tuple[Group, ...]:
    """Return all groups of the job as `init_device_mesh` makes them: each has a number of its own for a name."""
    ranks = np.arange(n_ranks).reshape(STAGES, -1, TENSOR)
    found = [Group("0", "default_pg", tuple(range(n_ranks)))]
    for axis, dimension in enumerate(DIMENSIONS):
        for members in ranks.swapaxes(-1, axis).reshape(-1, ranks.shape[axis]).tolist():
            found.append(Group(str(len(found)), f"mesh_{dimension}", tuple(members)))
    return tuple(found)


def _own(groups: Sequence[Group], rank: int) -> dict[str, Group]:
    """Return the rank's groups by what a launch calls the dimension."""
    return {
        "world" if group.name == "0" else group.description.removeprefix("mesh_"): group
        for group in groups
        if rank in group.members
    }


def _instances(simulation: Simulation, groups: Sequence[Group], step: int) -> Iterator[dict[str, object]]:
    """Yield the answers of all collectives of the step that the simulation holds, group by group, in order."""
    for group in groups:
        stream = "world" if group.name == "0" else group.description.removeprefix("mesh_")
        stages = [member // simulation.width for member in group.members]
        # A stage has its own list, so what is one collective stands at another place in each.
        for places in zip(*(simulation.places(stage, stream) for stage in range(STAGES)), strict=True):
            where = [places[stage] for stage in stages]
            launch = simulation.programs[stages[0]][where[0]]
            yield {"step": step, "group": group.name} | _instance(simulation, group, where, launch)


def _instance(simulation: Simulation, group: Group, places: list[int], launch: Launch) -> dict[str, object]:
    start, end = simulation.start[places, list(group.members)], simulation.end[places, list(group.members)]
    assert launch.kind is not None
    kind = kinds(simulation.n_data)[launch.kind]
    last = int(start.max())
    return {
        "op": kind.answer,
        "n_ranks": len(group.members),
        "n_bytes": max(kind.n_in, kind.n_out) * kind.n_dtype_bytes,
        "last_arrival_ns": BASE_NS + last,
        "last_rank": group.members[int(start.argmax())],
        "margin_ns": last - int(np.sort(start)[-2]),
        "skew_ns": last - int(start.min()),
        "wait_ns": np.minimum(last - start, end - start).tolist(),
    }
