"""Other people's runs as traces: all that happened in their steps is there, and nothing that Perfetto would drop."""

from __future__ import annotations

import json

import pytest

from longpole import export
from longpole.session import Session
from trace_reading import overlaps


@pytest.mark.parametrize(
    "run",
    [
        "megatron-tp8-a100", "nanogpt-8x-h100", "torchrec-4x-v100", "dlrm-8x-v100", "gloo-4x-cpu", "kineto_2021_schema",
        "cuda_graphs_rank0_of_16",
    ],
)  # fmt: skip
def test_a_real_run_becomes_a_trace_without_overlaps_that_holds_its_steps(real: Session, run: str) -> None:
    pieces: list[str] = []
    written = export.write(real.con, export.choose(real.con, run, None, None), "all", pieces.append)
    events = [e for e in json.loads("".join(pieces))["traceEvents"] if e["ph"] == "X"]

    assert overlaps({"traceEvents": events}) == []
    assert (len(events), written.n_left_out) == (written.n_slices, 0)
    shown = sum(e["cat"] not in ("longpole", "critical_path", "wait", "transfer", "collective") for e in events)
    # What belongs to no step, as work launched before the recording, is shown where it lies within.
    ((of_steps, of_all),) = real.con.execute(
        "SELECT count(*) FILTER (step IS NOT NULL), count(*) FROM events WHERE run = $1 AND row_id IS NOT NULL"
        " AND duration_ns IS NOT NULL AND category NOT IN ('python', 'memory', 'trace', 'overhead')",
        [run],
    ).fetchall()
    assert 0 < of_steps <= shown <= of_all
