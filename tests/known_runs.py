"""Made runs of every kind of dump, some of them harmed, whose rows are kept in tests/known."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from event_soup import hung_job, hung_sender, write_records, write_samples, write_soup, write_timers
from flight_cases import START_NS, write_dumps
from json_lines import json_lines
from longpole import catalog, synth
from longpole.session import Session
from longpole.store import Store
from longpole.whatif import Change, ask
from pipeline_inline import inline, make_run
from skew import ClockError, skewed_copy
from timeline_cases import pipeline, write_job
from timeline_reference import Op

FIXTURES = Path(__file__).parents[1] / "fixtures"

STAGES = "[batch]\naccumulation = 4\n[parallel]\npp = 4\ndp = 2\n"

Make = Callable[[Store, Path], None]

CONFIG = """
[model]
name = "llama3-8b"
[batch]
tokens_per_step = 8192
scored_targets_per_step = 100
[hardware]
device = "H100 SXM"
dtype = "bf16"
[steps]
per_update = 1
[phases]
forward = "(?i)forward"
backward = "(?i)backward"
[gates]
mfu_ratio = 0.3
"""


def shipped(name: str, config: str = "") -> Make:
    def make(store: Store, folder: Path) -> None:
        make_run(store, name, [FIXTURES / name], config=config, has_what_ifs=True)

    return make


def made(scenario: str, *, config: str = "", **told: Any) -> Make:
    def make(store: Store, folder: Path) -> None:
        synth.write(scenario, folder / "dumps", **told)
        make_run(store, "made", [folder / "dumps"], config=config, has_what_ifs=True)

    return make


def skewed(store: Store, folder: Path) -> None:
    """Four ranks on clocks that are seconds apart and drift."""
    synth.write("training", folder / "dumps", ranks=4, steps=6)
    (folder / "skewed").mkdir()
    for rank, dump in enumerate(sorted((folder / "dumps").glob("*.json"))):
        skewed_copy(dump, folder / "skewed" / dump.name, ClockError(10**9 * rank, 20_000 * rank))
    make_run(store, "made", [folder / "skewed"], config=CONFIG)


def harmed(seed: int, scenario: str, share: float, **told: Any) -> Make:
    """Return what makes a run of which each dump lacks a share of its events, drawn by chance, and one its end."""

    def make(store: Store, folder: Path) -> None:
        chance = random.Random(seed)  # noqa: S311 - the same events again, not secrets
        synth.write(scenario, folder / "dumps", **told)
        for dump in sorted((folder / "dumps").glob("*.pt.trace.json")):
            trace = json.loads(dump.read_text())
            trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("ph") == "M" or chance.random() > share]
            text = json.dumps(trace)
            dump.write_text(text[: len(text) * 3 // 4] if "rank1" in dump.name else text)
        make_run(store, "made", [folder / "dumps"], config=CONFIG, has_what_ifs=True)

    return make


def timers(store: Store, folder: Path) -> None:
    """Three ranks' timers in a log each: the second later by 20 ms in what it computes, the third without starts."""
    (folder / "dumps").mkdir()
    for rank in range(3):
        late_ms = 20 * (rank == 1)
        lines = []
        for step in range(6):
            at_ms = 110 * step
            parts = {
                "data_loading": 10,
                "forward": 30 + late_ms,
                "backward": 30 + step,
                "grads-all-reduce": 30 - late_ms,
            }
            for name, length_ms in {"step": 110, **parts, "optimizer": 9}.items():
                line = {"rank": rank, "step": step, "name": name, "duration_ms": length_ms}
                lines.append(line if rank == 2 else {**line, "start_ns": START_NS + 10**6 * (400 * rank + at_ms)})
                at_ms += 0 if name == "step" else length_ms
        (folder / "dumps" / f"rank{rank}.jsonl").write_text(json_lines(lines))
    make_run(store, "made", [folder / "dumps"], config=CONFIG)


def op_timeline(store: Store, folder: Path) -> None:
    """Three steps of a pipeline of 3 x 3 workers, one of them and the last stage slower, in which ops start late."""
    ops: list[Op] = []
    for step in range(3):

        def takes(op: Op, step: int = step) -> int:
            return 100_000 + 30_000 * op.stage + 70_000 * (op.dp_rank == 1) + 11_000 * step

        ops += pipeline(3, 3, 4, takes, step=step)
    late = [replace(op, start=op.start + 5_000_000 * op.step + 10_000 * (op.seq_id % 3)) for op in ops]
    job = write_job(folder / "dumps" / "job.parquet", late)
    _append_wrong_rows(job)
    make_run(store, "made", [job])
    fewer = [op for n, op in enumerate(ops) if n % 17 != 5]
    make_run(store, "fewer", [write_job(folder / "fewer" / "job.parquet", fewer)])
    one = pipeline(1, 1, 2, lambda op: 100_000)
    make_run(store, "one", [write_job(folder / "one" / "job.parquet", one)])


def _append_wrong_rows(path: Path) -> None:
    """Write a file's first row again behind its rows, once for each number that is out of bounds."""
    rows = pq.read_table(path)
    wrong = [rows]
    for place, column in enumerate(rows.schema):
        if column.name == "optype":
            continue
        for value in (-1, 2**40, 1e300, float("nan")) if pa.types.is_floating(column.type) else (-1, 2**40):
            wrong.append(rows.slice(0, 1).set_column(place, column.name, pa.array([value], column.type)))
    pq.write_table(pa.concat_tables(wrong), path)


def changes(store: Store, folder: Path) -> None:
    """A run of which is asked what its steps would take after changes of every kind."""
    synth.write("mesh", folder / "dumps", ranks=8, steps=2)
    make_run(store, "made", [folder / "dumps"], config=CONFIG)
    kinds = ("compute", "comm", "copy", "host", "input", "sync", "launch", "turnaround", "unknown")
    asked = [
        *((Change("scale", kind=kind, factor=0.5),) for kind in kinds),
        *((Change("scale", kind=kind, rank=1, factor=0.0),) for kind in ("compute", "host", "launch")),
        (Change("scale", rank=2, factor=0.5),),
        (Change("scale", pattern="flash|elementwise", factor=0.3), Change("scale", pattern="xmma", rank=0, factor=2.0)),
        (Change("scale", phase="forward", factor=0.5),),
        (Change("scale", kind="compute", phase="backward", rank=3, factor=0.5), Change("waits")),
        (Change("scale", group="0", factor=0.5),),
        (Change("scale", kind="comm", group="1", factor=0.0),),
        (Change("fix", rank=1),),
        (Change("fix"),),
        (Change("fix", kind="compute"), Change("fix", rank=0, kind="host")),
        (Change("exposed"),),
        (Change("exposed", amount_ns=1_000_000),),
        (Change("waits"),),
    ]
    ask(store, "made", asked, run_tasks=inline)


def soup(seed: int, **told: Any) -> Make:
    def make(store: Store, folder: Path) -> None:
        write_soup(folder / "dumps", seed, **told)
        write_samples(folder / "dumps", seed)
        write_records(folder / "dumps", seed)
        make_run(store, "made", [folder / "dumps"], config=CONFIG, has_what_ifs=True)

    return make


def late_timers(store: Store, folder: Path) -> None:
    """Two logs of timers, in which everyone is late at times."""
    for seed in range(2):
        write_timers(folder / f"dumps{seed}", seed)
        make_run(store, f"made{seed}", [folder / f"dumps{seed}"], config=CONFIG)


def hangs(store: Store, folder: Path) -> None:
    """Twelve jobs that hung, each in another way."""
    for seed in range(12):
        make_run(store, f"job{seed}", [write_dumps(folder / f"dumps{seed}", hung_job(seed))])


def models(store: Store, folder: Path) -> None:
    """Runs of which run.toml says another thing each time: all that MFU is worked out from, right and wrong."""
    model, batch, hardware = (
        '[model]\nname = "llama3-8b"\n',
        "[batch]\ntokens_per_step = 8192\n",
        '[hardware]\ndtype = "bf16"\n',
    )
    whole = model + batch + hardware
    sizes = "[model]\nparams = 900\nembedding_params = 40\nlayers = 2\nheads = 2\nhead_dim = 3\nseq_len = 512\n"
    parts = "[batch]\nsequences_per_microbatch = 2\naccumulation = 4\nscored_targets_per_step = 9\n"
    of_updates = whole, whole + "[steps]\nper_update = 1\n", whole + "[steps]\nper_update = 2\n"
    of_models = (
        "",
        model + batch,
        model + hardware,
        batch + hardware,
        whole + "[parallel]\ndp = 2\ntp = 4\n",
        whole + "[parallel]\ndp = 2\ntp = 2\n",
        model + "[batch]\ntokens_per_step = 81920000\n" + hardware,
        model + batch + "[hardware]\npeak_flops = 1e12\nhbm_bytes_per_s = 1e12\n",
        model + batch + '[hardware]\ndevice = "A100 SXM 80GB"\ndtype = "fp8"\n',
        sizes + parts + hardware,
        sizes + "tied = true\nd_qk = 4\nd_v = 1\n" + parts + "[parallel]\ndp = 4\n" + hardware,
        sizes + "active_params = 500\n" + "[batch]\nsequences_per_microbatch = 2\n" + hardware,
        sizes + parts + "tokens_per_step = 4096\n[parallel]\ndp = 4\n" + hardware,
        sizes + 'name = "llama3-70b"\n' + batch + hardware,
    )
    for every_n, configs in ((None, of_updates), (2, of_updates), (1, (*of_updates, *of_models))):
        write_soup(folder / f"dumps{every_n}", 5, n_captures=1, n_steps=4, update_every=every_n)
        for config in configs:
            make_run(store, f"made{every_n}", [folder / f"dumps{every_n}"], config=config)


def hung_senders(store: Store, folder: Path) -> None:
    """Ten jobs that hung in sending."""
    for seed in range(10):
        make_run(store, f"job{seed}", [write_dumps(folder / f"dumps{seed}", hung_sender(seed))])


def nights(store: Store, folder: Path) -> None:
    """Runs of two jobs, alike and not, that pass and fail their gates, of several workloads."""
    gates = "[gates]\nstep_time_worse_ratio = {}\nstep_time_ns = {}\nexposed_comm_ratio = 0.3\n"
    for n in range(12):
        length_ms = 100 + (n * 7) % 5 + 30 * (n in (4, 8, 9, 10))
        told = f'[run]\njob = "j{n % 5 == 3}"\nworkload = "w{n % 4 == 3}"\n' if n != 6 else ""
        (folder / f"n{n}").mkdir()
        lines = []
        for rank in range(2):
            for step in range(4 if n != 5 else 2):
                at_ms = (length_ms + 10) * step
                for name, ms in {
                    "step": length_ms,
                    "forward": length_ms - 40,
                    "grads-all-reduce": 20 + rank + n,
                }.items():
                    start = START_NS + 10**6 * at_ms + 10**12 * n
                    lines.append({"rank": rank, "step": step, "name": name, "duration_ms": ms, "start_ns": start})
                    at_ms += 0 if name == "step" else ms
        (folder / f"n{n}" / "t.jsonl").write_text(json_lines(lines))
        config = told + gates.format(0.05 if n % 2 else 0.2, 10**9 if n != 2 else 1)
        make_run(store, f"n{n}", [folder / f"n{n}"], config=config)
    make_run(store, "worked", [FIXTURES / "worked"])
    make_run(store, "contended", [FIXTURES / "worked-contended"])


def broken(store: Store, folder: Path) -> None:
    """A run whose every number was changed in some rows after it was made, so that its parts do not add up."""
    make_run(store, "made", [FIXTURES / "worked"], config=CONFIG)
    with Session(store) as session:
        read = {name for rule in catalog.ordered(["check"]) for name in rule.reads}
        views = {name: session.con.sql(f"FROM {name}").to_arrow_table() for name in sorted(read)}
        # Not where this checkout is.
        views["dumps"] = session.con.sql("SELECT * REPLACE (file_name AS path) FROM dumps").to_arrow_table()
    for name, rows in views.items():
        numbers = [c.name for c in rows.schema if pa.types.is_integer(c.type) or pa.types.is_floating(c.type)]
        for place, column in enumerate(numbers):
            for amount in (1, -1, 10**9, -(10**9)):
                _break(views, name, column, place, amount)


def _break(views: dict[str, pa.Table], name: str, column: str, place: int, amount: int) -> None:
    """Ask every rule of rows in which one column of one table is off by an amount in every third."""
    con = duckdb.connect()
    for other, rows in views.items():
        con.register(f"rows_of_{other}", rows)
        con.execute(f"CREATE TABLE {other} AS FROM rows_of_{other}")
    con.execute(f'UPDATE {name} SET "{column}" = "{column}" + {amount} WHERE rowid % 3 = {place % 3}')
    for rule in catalog.ordered(["check"]):
        if name in rule.reads:
            con.execute(rule.sql).fetchall()
    con.close()


RUNS: dict[str, Make] = {
    "soup": soup(1),
    "soup-once": soup(2, n_captures=1),
    "soup-without-device": soup(3, n_captures=1, has_device=False),
    "worked": shipped("worked", CONFIG),
    "idle-causes": shipped("idle-causes"),
    "cpu": shipped("cpu"),
    "straggler-clock": made("straggler-clock", ranks=4, steps=6, seed=1),
    "straggler-stage": made("straggler-stage", ranks=8, steps=4, seed=1, config=STAGES),
    "straggler-link": made("straggler-link", ranks=8, steps=4, seed=1),
    "skewed": skewed,
    "harmed": harmed(1, "training", 0.05, ranks=3, steps=6),
    "harmed-mesh": harmed(2, "mesh", 0.1, ranks=8, steps=2),
    "timers": timers,
    "late-timers": late_timers,
    "op-timeline": op_timeline,
    "changes": changes,
    "hangs": hangs,
    "hung-senders": hung_senders,
    "soup-of-one-host": soup(8, n_captures=1, is_one_host=True, recomputes=True),
    "models": models,
    "broken": broken,
    "nights": nights,
}
"""What makes the runs of a store, by its name."""

ASKED_ONLY = frozenset({"nights"})
"""Stores of which only what is asked for counts, not what is evaluated as they are made."""
