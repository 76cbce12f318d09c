"""A timers log of three ranks and six steps, worked by hand: a step of 110 ms, and rank 1 slow in its forward pass.

Milliseconds of a step: data 0-10, forward 10-40 (rank 1: 10-60), backward 30 behind it, the exchange until 100, which
takes 10 from when rank 1 comes at 90, and the optimizer until 110.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from json_lines import json_lines
from longpole import catalog
from longpole.report import overview
from longpole.report.summary import text
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

MS = 1_000_000
START = 1_700_000_000_000_000_000

CONFIG = """
[model]
name = "llama3-8b"
[batch]
tokens_per_step = 240
[hardware]
device = "H100 SXM"
dtype = "bf16"
[steps]
per_update = 1
"""


def lines(rank: int, first_ns: int = START) -> Iterator[dict[str, Any]]:
    slow = 20 if rank == 1 else 0
    for step in range(6):
        start = first_ns + 110 * step * MS
        yield {"rank": rank, "step": step, "name": "step", "start_ns": start, "duration_ms": 110}
        for name, first, last in (
            ("data_loading", 0, 10),
            ("forward", 10, 40 + slow),
            ("backward", 40 + slow, 70 + slow),
            ("grads-all-reduce", 70 + slow, 100),
            ("optimizer", 100, 110),
        ):
            yield {
                "rank": rank,
                "step": step,
                "name": name,
                "start_ns": start + first * MS,
                "duration_ms": last - first,
            }


def in_one_file(folder: Path) -> list[Path]:
    rows = [line for step in zip(*(lines(rank) for rank in range(3)), strict=True) for line in step]
    (folder / "timers.jsonl").write_text(json_lines(rows))
    return [folder / "timers.jsonl"]


def in_a_file_each(folder: Path) -> list[Path]:
    """Each rank on a clock of its own; rank 2 logs no start at all."""
    for rank in range(3):
        rows = list(lines(rank, first_ns=400 * rank * MS))
        for line in rows if rank == 2 else []:
            del line["start_ns"]
        with gzip.open(folder / f"rank{rank}.jsonl.gz", "wt") as file:
            file.write(json_lines(rows))
    return [folder]


@pytest.fixture(scope="module", params=[in_one_file, in_a_file_each], ids=lambda f: f.__name__)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    write: Callable[[Path], list[Path]] = request.param
    folder = tmp_path_factory.mktemp("timers")
    (folder / "dumps").mkdir()
    store = Store(str(folder / "store"))
    config = CONFIG + "marker = '^iteration (\\d+)$'"  # of other dumps: a line says its step itself
    make_run(store, "t", write(folder / "dumps"), config=config)
    with Session(store) as opened:
        yield opened


def test_what_a_step_was_who_was_late_and_how_well_devices_are_used(session: Session) -> None:
    def rows(sql: str) -> list[tuple[Any, ...]]:
        return session.sql(sql).fetchall()

    assert rows(
        "SELECT step, duration_ns / 1e6, n_ranks, straggler_rank, straggler_ns / 1e6 FROM steps ORDER BY step"
    ) == [(step, 110, 3, 1, 20) for step in range(6)]
    assert rows(
        "SELECT DISTINCT rank, compute_ns / 1e6, exposed_comm_ns / 1e6, idle_input_ns / 1e6, idle_ns / 1e6,"
        " wait_ns / 1e6, verdict FROM rank_steps ORDER BY rank"
    ) == [
        (0, 70, 30, 10, 10, 20, "timers log: no kernels, compute is time within its timers"),
        (1, 90, 10, 10, 10, 0, "timers log: no kernels, compute is time within its timers"),
        (2, 70, 30, 10, 10, 20, "timers log: no kernels, compute is time within its timers"),
    ]
    assert rows("SELECT step, rank, late_ns / 1e6, cause, cause_ns / 1e6 FROM step_stragglers ORDER BY step") == [
        (step, 1, 20, "compute", 20) for step in range(6)
    ]
    assert rows("SELECT DISTINCT phase, gpu_ns / 1e6 FROM phases WHERE rank = 1 ORDER BY phase") == [
        ("backward", 30),
        ("forward", 50),
        ("optimizer", 10),
        ("sync", 10),
    ]
    assert rows("SELECT kind, rank, sum(duration_ns) / 6e6 FROM step_path_kinds GROUP BY ALL ORDER BY kind, rank") == [
        ("comm", 0, 10),
        ("compute", 0, 10),
        ("compute", 1, 80),
        ("input", 1, 10),
    ]
    in_phases = session.sql(catalog.recipes()["straggler_phases"].sql, {"rows": 5}).fetchall()
    assert in_phases == [("t", 1, "compute", "forward", 6, 120 * MS, 1.0)]
    # 240 x 57,914,449,920 FLOPs on 3 devices of 989e12 in 0.11 s
    assert rows("SELECT DISTINCT mfu_ratio, tokens, reason FROM step_mfu") == [
        (pytest.approx(0.0425881, abs=1e-7), 240, None)
    ]
    assert rows("SELECT DISTINCT rank, format, n_dropped FROM dumps ORDER BY rank") == [
        (rank, "timers", 0) for rank in range(3)
    ]


def test_ranges_and_steps_that_overlap_by_what_times_are_rounded_to_lie_behind_each_other(tmp_path: Path) -> None:
    longer = ({**line, "duration_ms": line["duration_ms"] + 0.001} for rank in range(2) for line in lines(rank))
    (tmp_path / "timers.jsonl").write_text(json_lines(longer))
    store = Store(str(tmp_path / "store"))
    make_run(store, "t", [tmp_path / "timers.jsonl"])

    with Session(store) as opened:
        found = opened.sql(
            "SELECT step, rank, compute_ns, idle_input_ns, duration_ns FROM rank_steps WHERE step < 5"
            " ORDER BY step, rank"
        ).fetchall()

    # Forward and backward together last a microsecond more, and so does the optimizer of the step before.
    assert found == [
        (step, rank, (70 + 20 * rank) * MS + 1_000 + before, 10 * MS - before, 110 * MS)
        for step, before in enumerate((0, 1_000, 1_000, 1_000, 1_000))
        for rank in range(2)
    ]


def test_the_summary_says_what_such_a_log_cannot_tell(session: Session) -> None:
    told = text(overview.build(session.con, "t"))
    assert "Who is late? Rank 1 in 6 of 6 steps, cause compute" in told
    assert "Careful: timers log: no kernels, compute is time within its timers: 18 of 18 rank-steps." in told
