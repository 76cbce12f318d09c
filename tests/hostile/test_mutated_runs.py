"""Whatever is done to a dump that can still be read, its run is analyzed, every view answers and its pages are drawn.

LONGPOLE_FUZZ_CASES sets how many cases each property takes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from formats.test_nsys_recipe import SCHEMA, _file, _range
from hostile import mutations
from hostile.consuming import within
from hostile.seeds import Seed, case, reshaped, seeds
from hostile.test_mutated_dumps import N_CASES, for_each
from longpole.errors import LongpoleError
from longpole.report import of_run, postmortem, postmortem_page
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run


@pytest.mark.parametrize("name", ["kineto", "nsys", "nsys-recipe", "op-timeline", "flight-pickle"])
def test_a_run_of_odd_values_is_analyzed_and_drawn(tmp_path: Path, name: str) -> None:
    seed = seeds()[name]

    def check(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            with within(120):
                whole_way(folder, seed, case(name, number))
        finally:
            shutil.rmtree(folder)

    for_each(check, max(1, N_CASES // 8))


def whole_way(folder: Path, seed: Seed, random: Random) -> None:
    """Make a run of the seed with odd values, and ask everything of it."""
    (folder / seed.file).write_bytes(reshaped(seed, random, folder))
    store = Store(str(folder / "store"))
    try:
        make_run(store, "r", [folder / seed.file], config=odd_config(random))
    except LongpoleError as error:
        assert error.fact.strip()
        assert len(str(error)) < 10_000
        return
    with Session(store) as session:
        for view in session.views():
            session.con.execute(f"FROM {view}").fetchall()
        html, lines = of_run.told(session.con, "r", tool_version="1")
        assert html.rstrip().endswith("</html>")
        assert lines
        for path, n_events, n_stored, n_skipped, n_dropped, n_rows in session.con.execute(_COUNTS).fetchall():
            assert n_events == n_stored + n_skipped + n_dropped, path
            assert n_rows is None or n_rows <= n_stored, path
        if session.con.execute("SELECT count(*) FROM steps WHERE duration_ns > 0").fetchall() != [(0,)]:
            postmortem_page.render(postmortem.build(session.con, "r", None), tool_version="1")


def test_times_that_no_clock_has_cost_their_events_and_not_the_run(tmp_path: Path) -> None:
    told = json.loads(seeds()["kineto"].data)
    far = [
        (9_223_372_036_854_774.0, 1),
        (-9_223_372_036_854_774.0, 1),
        (-9_223_372_036_854_774.0, 9_223_372_036_854_774.0),
        (4_611_686_018_427_387.0, 0.904),
    ]
    kernels = [e for e in told["traceEvents"] if e.get("cat") == "kernel"]
    for event, (ts, dur) in zip(kernels[20:], far, strict=False):
        event["ts"], event["dur"] = ts, dur
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(told))

    (entry,) = make_run(Store(str(tmp_path / "store")), "r", [path]).dumps

    assert (entry.n_events, entry.n_dropped, entry.n_steps) == (794, 4, 4)


def test_a_recipe_of_times_that_no_clock_has_is_analyzed(tmp_path: Path) -> None:
    rows = [_range(n, f"iteration {n}", 1_000 * n, 900) for n in range(1, 9)]
    rows[3]["Projected Start"] = 2**63 - 1
    path = tmp_path / "rank0.parquet"
    path.write_bytes(_file(pa.Table.from_pylist(rows, schema=SCHEMA)))

    (entry,) = make_run(Store(str(tmp_path / "store")), "r", [path]).dumps

    assert (entry.n_events, entry.n_stored, entry.n_dropped) == (16, 15, 1)


_COUNTS = """
SELECT path, n_events, n_stored, n_skipped, n_dropped, n_rows
FROM dumps
LEFT JOIN (SELECT run, rank, count(*) AS n_rows FROM events WHERE category <> 'step' GROUP BY ALL) USING (run, rank)
WHERE error IS NULL
"""


def odd_config(random: Random) -> str:
    """Return a run.toml that parses and of which some values are odd; mostly an empty one."""
    lines: list[str] = []
    if random.random() < 0.5:
        return ""
    if random.random() < 0.3:
        lines += ["[run]", f"job = {_quoted(random)}", f"workload = {_quoted(random)}"]
    if random.random() < 0.3:
        lines += ["[model]", f"name = {_quoted(random)}", f"params = {random.choice((1, 2**63 - 1, 10**12))}"]
        lines += [
            f"layers = {random.choice((1, 2**62))}",
            "hidden = 4096",
            f"seq_len = {random.choice((1, 2**63 - 1))}",
        ]
    if random.random() < 0.3:
        lines += ["[batch]", f"tokens_per_step = {random.choice((1, 2**63 - 1))}"]
    if random.random() < 0.3:
        lines += ["[parallel]", f"dp = {random.choice((1, 2, 2**19, 2**63 - 1))}", f"pp = {random.choice((1, 2))}"]
    if random.random() < 0.3:
        lines += ["[steps]", f"marker = {random.choice(_MARKERS)}", f"per_update = {random.choice((1, 3, 2**63 - 1))}"]
    if random.random() < 0.2:
        lines += [
            "[hardware]",
            f"peak_flops = {random.choice(('1e9', '1e308', '989e12'))}",
            f"device = {_quoted(random)}",
        ]
    if random.random() < 0.2:
        lines += ["[gates]", f"step_time_ns = {random.choice(('0', '-1.0', '1e308'))}", "mfu_worse_ratio = 1e-300"]
    if random.random() < 0.2:
        lines += ["[phases]", f"{_quoted(random)} = '.'", "[comm]", f"kernels = [{random.choice(_MARKERS)}]"]
    return "\n".join(lines)


_MARKERS = (r"'(\d+)'", r"'^ProfilerStep#(\d)'", "'(.*)'", "'()'", r"'iteration (\d+)$'", "'(?i)(x*)'")


def _quoted(random: Random) -> str:
    text = random.choice(mutations.TEXTS)
    return json.dumps("".join(c for c in text if not "\ud800" <= c <= "\udfff" and c != "\x7f") or "x")
