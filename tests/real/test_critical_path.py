"""Critical paths of other people's runs: where they lie, and that each nanosecond of a step is there once.

The expected shares are those of an independent reference from the same definitions; traces/README.md lists them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longpole import catalog
from longpole.report import story
from longpole.report.explain import build
from longpole.session import Session

SETS = ("nanogpt-8x-h100", "torchrec-4x-v100", "megatron-tp8-a100", "dlrm-8x-v100", "gloo-4x-cpu")


def _rows(session: Session, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    return session.con.execute(sql, list(parameters)).fetchall()


def _shares(session: Session, run: str, by: str) -> dict[int, dict[Any, float]]:
    """Return by step the share of each rank, kind or other column of its path."""
    found: dict[int, dict[Any, float]] = {}
    for step, key, ratio in _rows(
        session,
        f"SELECT p.step, p.{by}, sum(p.duration_ns) / any_value(s.duration_ns) FROM step_critical_path AS p"
        f" JOIN steps AS s USING (run, step) WHERE run = $1 GROUP BY p.step, p.{by}",
        run,
    ):
        found.setdefault(step, {})[key] = ratio
    return found


def test_every_step_of_every_run_has_a_path(real: Session, traces: Path) -> None:
    singles = {dump.name.split(".")[0] for dump in (traces / "single").glob("*.json.gz")}
    found = dict(
        _rows(real, "SELECT run, count(*) FILTER (duration_ns > 0) FROM steps GROUP BY run HAVING count(*) > 0")
    )
    paths = dict(_rows(real, "SELECT run, count(DISTINCT step) FROM step_critical_path GROUP BY run"))

    assert set(SETS) | singles == found.keys()
    assert paths == found
    assert sum(paths.values()) > 40


def test_the_segments_of_every_path_follow_each_other_from_the_steps_start_to_its_end(real: Session) -> None:
    found = _rows(
        real,
        "SELECT p.run, p.step FROM (SELECT *, lag(end_ns) OVER (PARTITION BY run, step ORDER BY seq) AS before,"
        " lead(start_ns) OVER (PARTITION BY run, step ORDER BY seq) AS behind FROM step_critical_path) AS p"
        " JOIN steps AS s USING (run, step)"
        " WHERE p.start_ns <> coalesce(before, s.start_ns) OR p.end_ns <> coalesce(behind, s.end_ns)"
        " OR p.end_ns <= p.start_ns OR p.duration_ns <> p.end_ns - p.start_ns",
    )
    sums = _rows(
        real,
        "SELECT run, step FROM steps JOIN (SELECT run, step, sum(duration_ns) AS path_ns FROM step_critical_path"
        " GROUP BY run, step) USING (run, step) WHERE path_ns <> duration_ns",
    )

    assert found == []
    assert sums == []
    assert _rows(real, catalog.relations()["paths_add_up"].sql) == []


def test_torchrec_is_the_host_of_rank_2_in_its_sparse_arch(real: Session) -> None:
    ranks, kinds, names = (_shares(real, "torchrec-4x-v100", by) for by in ("rank", "kind", "name"))

    for step in (4, 5, 6):
        assert ranks[step][2] >= 0.99
        assert 0.96 <= kinds[step]["host"] <= 0.98
        assert max(names[step], key=lambda name: names[step][name]) == "# running sparse arch"
        assert names[step]["# running sparse arch"] >= 0.86


def test_nanogpt_is_the_host_of_rank_0_in_step_10_and_of_rank_1_after_it(real: Session) -> None:
    found = _rows(
        real,
        "SELECT step, arg_max(rank, p.duration_ns), max(p.duration_ns) / any_value(s.duration_ns)"
        " FROM step_path_kinds AS p JOIN steps AS s USING (run, step)"
        " WHERE run = 'nanogpt-8x-h100' AND kind = 'host' GROUP BY step ORDER BY step",
    )

    assert [(step, rank) for step, rank, _ in found] == [(10, 0), (11, 1), (12, 1), (13, 1)]
    assert min(ratio for *_, ratio in found) >= 0.99


def test_megatron_is_the_host_of_rank_0_and_nothing_else(real: Session) -> None:
    assert set(_shares(real, "megatron-tp8-a100", "rank")[3]) == {0}
    assert _shares(real, "megatron-tp8-a100", "kind")[3]["host"] >= 0.999


def test_dlrm_is_host_and_input_on_the_late_rank_and_then_on_the_last(real: Session) -> None:
    kinds = _shares(real, "dlrm-8x-v100", "kind")[10]
    ranks = _shares(real, "dlrm-8x-v100", "rank")[10]

    assert kinds["host"] + kinds["input"] == pytest.approx(0.98, abs=0.01)
    assert set(ranks) == {4, 7}


def test_one_rank_of_eight_says_that_its_peers_are_not_recorded(real: Session) -> None:
    found = _rows(
        real,
        "SELECT DISTINCT rank, kind = 'comm', verdict FROM step_critical_path WHERE run = 'rccl_mi300_rank0_of_8'"
        " ORDER BY ALL",
    )

    assert found == [(0, False, "ok"), (0, True, "peer not recorded")]
    assert all(kinds["comm"] > 0.8 for kinds in _shares(real, "rccl_mi300_rank0_of_8", "kind").values())


def test_the_sleep_of_gloo_rank_2_is_on_the_path_of_every_step_as_far_as_it_lies_in_it(real: Session) -> None:
    found = _rows(
        real,
        "WITH sleeps AS (SELECT step, arg_max(start_ns, duration_ns) AS start_ns,"
        " arg_max(end_ns, duration_ns) AS end_ns"
        " FROM step_critical_path WHERE run = 'gloo-4x-cpu' AND rank = 2 AND kind = 'host' AND name = '(no event)'"
        " GROUP BY step), markers AS (SELECT step, min(start_ns) AS marker_ns FROM events WHERE run = 'gloo-4x-cpu'"
        " AND rank = 2 AND category = 'step' GROUP BY step)"
        " SELECT s.step, (sleeps.start_ns - marker_ns) / 1e6, (sleeps.end_ns - marker_ns) / 1e6,"
        " (s.start_ns - marker_ns) / 1e6 FROM sleeps JOIN markers USING (step) JOIN steps AS s USING (step)"
        " WHERE run = 'gloo-4x-cpu' ORDER BY s.step",
    )

    # It sleeps 30 ms, from 0.3 ms after its own step's start; by then the step before may not have ended on all ranks.
    assert [step for step, *_ in found] == [3, 4, 5, 6, 10, 11, 12, 13]
    for _, start_ms, end_ms, step_start_ms in found:
        assert start_ms == pytest.approx(max(step_start_ms, 0.36), abs=0.06)
        assert end_ms == pytest.approx(30.6, abs=0.1)


def test_every_path_is_told_in_about_fifteen_lines(real: Session) -> None:
    steps = _rows(real, "SELECT run, min(step), max(step) FROM steps GROUP BY run ORDER BY run")

    for run, first, last in steps:
        for step in {first, last}:
            explanation = build(real.con, run, step)
            lines = story.text(explanation).splitlines()
            assert 6 < len(lines) <= 22
            assert sum(stretch.duration_ns for stretch in explanation.stretches) == explanation.head.duration_ns
            assert sum(kind.duration_ns for kind in explanation.kinds) == explanation.head.duration_ns


def test_the_story_of_torchrec_names_the_sparse_arch_and_who_was_waited_for(real: Session) -> None:
    explanation = build(real.con, "torchrec-4x-v100", None)

    longest = max(explanation.stretches, key=lambda stretch: stretch.duration_ns)
    assert (explanation.head.step, longest.rank, longest.name) == (5, 2, "# running sparse arch")
    assert round(longest.duration_ns / 1e6, 1) == 1_001.3
    assert [(one.from_rank, one.to_rank, one.op) for one in explanation.hand_overs] == [(2, 0, "all_to_all")]
    assert explanation.head.is_margin_clear is False
