"""Numbers as a reader wants them and the sentences that say what the page found; nothing here computes a metric."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

import polars as pl

from longpole.report.charts import CAUSES, EXPOSED_COMM, Measure
from longpole.report.overview import Key, Late, Overview, Path, Run
from longpole.units import amount_text, bytes_text

MAX_TEXT = 2_000
"""Characters kept of a text that a dump supplied; a longer one says how long it was."""

MIN_PERCENTILE_STEPS = 20
"""Below this many steps a 5th percentile is the minimum, so the page says minimum and maximum instead."""

CAUSE_PHRASES = {
    "input": "waiting for input",
    "sync": "after synchronising calls",
    "host": "waiting for the host to launch",
    "launch": "between launch and start",
    "turnaround": "in short gaps between activities",
    "other": "without a recorded cause",
}
"""What the device did while it was idle, by cause, as the end of a sentence."""

KIND_PHRASES = {
    "compute": "compute",
    "comm": "collectives",
    "copy": "copies",
    "host": "the host",
    "launch": "work launched and not begun",
    "turnaround": "the device's own pace",
    "sync": "synchronising calls",
    "input": "the data loader",
    "unknown": "what nothing in the dump says",
}
"""What a step waited for, by the kind of its critical path, as the end of a sentence."""

STEP_SOURCES = {
    "marker": "steps are marked on some ranks",
    "inferred": "steps are inferred from what repeats, for want of a marker",
    "window": "the whole recording stands in for a step, for want of a marker",
}
"""How the steps of a run were found, as a caveat; a run whose ranks all carry markers needs none."""

_EPOCH_NS = 10**18
"""A clock beyond this (2001 and later) counts from 1970; one below counts from the machine's start."""


def duration(ns: int | None) -> str:
    """Return a time span for prose, three or four digits with the unit that fits; 'n/a' for NULL."""
    if ns is None:
        return "n/a"
    for limit, unit, size in ((1_000, "ns", 1), (10**6, "µs", 10**3), (10**9, "ms", 10**6), (120 * 10**9, "s", 10**9)):
        if abs(ns) < limit:
            value = ns / size
            digits = 0 if unit == "ns" else 2 if abs(value) < 10 else 1
            return f"{value:,.{digits}f} {unit}"
    minutes, seconds = divmod(round(ns / 10**9), 60)
    return f"{minutes:,} min {seconds} s"


def milliseconds(ns: int | None) -> str:
    """Return a time span in ms with its microseconds, for a table; 'n/a' for NULL."""
    return "n/a" if ns is None else f"{ns / 1e6:,.3f}"


def signed_milliseconds(ns: int | None) -> str:
    """Return a change in ms with its microseconds and its sign, for a table; 'n/a' for NULL."""
    return "n/a" if ns is None else f"{'+' if ns > 0 else '−' if ns < 0 else ''}{milliseconds(abs(ns))}"


def microseconds(ns: int | None) -> str:
    """Return a time span in µs, for a table; empty for NULL: there is no such time."""
    return "" if ns is None else f"{ns / 1e3:,.2f}"


def calls(number: float | None) -> str:
    """Return how often something happens in a step; 'n/a' for NULL."""
    return "n/a" if number is None else f"{number:,.0f}" if number == round(number) else f"{number:,.2f}"


def percent(ratio: float | None) -> str:
    """Return a share in % with one decimal; a share that would print as zero and is not says so; 'n/a' for NULL."""
    if ratio is None:
        return "n/a"
    return "< 0.1 %" if 0 < ratio < 0.0005 else f"{100 * ratio:.1f} %"


def signed(ns: int | None) -> str:
    """Return a change with its sign; 'n/a' for NULL."""
    return "n/a" if ns is None else f"{'+' if ns > 0 else '−' if ns < 0 else ''}{duration(abs(ns))}"


def signed_percent(ratio: float | None) -> str:
    """Return a share with its sign; 'n/a' for NULL."""
    if ratio is None:
        return "n/a"
    share = percent(abs(ratio))
    return share if share.startswith("<") else f"{'+' if ratio > 0 else '−' if ratio < 0 else ''}{share}"


def count(number: int | None) -> str:
    """Return a whole number with its thousands set apart; 'n/a' for NULL."""
    return "n/a" if number is None else f"{number:,}"


def instant(ns: int | None) -> str:
    """Return a moment in UTC, or 'n/a' where the clock does not count from 1970."""
    if ns is None or not _EPOCH_NS < ns < 4 * _EPOCH_NS:
        return "n/a"
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def visible(text: str | None) -> str:
    """Return text from a dump with every unprintable character spelt out and its length bounded."""
    if text is None:
        return "n/a"
    kept = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in kept)


def cut_middle(text: str, width: int = 60) -> str:
    """Return text no longer than `width`: without a C++ argument list, then without its middle.

    Kernel names differ at their ends: the family stands at the head, tile and layout just before the arguments.
    """
    if len(text) <= width:
        return text
    short = text.removeprefix("void ")
    if short.endswith(")") and (at := short.find(">(")) > 0:
        short = f"{short[: at + 1]}(…)"
    if len(short) <= width:
        return short
    head = (width - 1) // 2
    return f"{short[:head]}…{short[len(short) - (width - 1 - head) :]}"


def shell_word(text: str) -> str:
    """Return text as one word of a POSIX shell; control characters as escapes, so pasting cannot act on them."""
    if text.isprintable():
        # Within double quotes a text with single ones stays readable, where a shell acts on nothing else in it.
        return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    spelt = "".join(c if c.isprintable() else "".join(f"\\x{b:02x}" for b in c.encode()) for c in escaped)
    return f"$'{spelt}'"


def query_line(sql: str, *runs: str) -> str:
    """Return the command that prints a section's rows, of these runs alone."""
    options = [f"--run{'=' if run.startswith('-') else ' '}{shell_word(run)}" for run in runs]
    return " ".join(["longpole query", shell_word(sql), *options])


def command_line(command: str, run: str, *options: str) -> str:
    """Return a command of longpole on a run, as a shell reads it; no run's name begins with a dash."""
    return " ".join(["longpole", command, shell_word(run), *options])


def ranks_seen(run: Run) -> str:
    """Return how many of the job's ranks are recorded, and which where some are not."""
    if run.world_size is None:
        return f"{count(run.n_ranks)} ranks recorded, world size n/a: no dump says"
    missing = run.n_ranks is not None and run.n_ranks < run.world_size
    which = f" ({run.recorded_ranks})" if missing and run.recorded_ranks else ""
    return f"{count(run.n_ranks)} of {run.world_size:,} ranks recorded{which}"


def summary(run: Run) -> str:
    """Return what the run's steps and windows are made of, in one or two sentences."""
    if run.n_windows == 0 and run.n_timed_steps == 0:
        return "Nothing was timed in this run: no rank has a window."
    return f"{_step_sentence(run)} {_share_sentence(run)}".strip()


def caveats(run: Run) -> list[str]:
    """Return every reason to read the numbers with care; empty where there is none."""
    found = [visible(reason) for reason in run.reasons] if run.verdict != "ok" else []
    if run.verdict != "ok" and not found:
        found.append(visible(run.verdict or "the run has no verdict"))
    if run.world_size is not None and run.n_ranks is not None and run.n_ranks < run.world_size:
        which = f" (rank {run.recorded_ranks})" if run.recorded_ranks else ""
        found.append(f"{run.n_ranks:,} of {run.world_size:,} ranks recorded{which}")
    if run.n_mean_window_steps:
        found.append(
            f"{run.n_mean_window_steps:,} of {run.n_timed_steps:,} step times are the mean window of the ranks, "
            "because their clocks are not aligned"
        )
    if run.step_sources and run.step_sources != "marker":
        sources = run.step_sources.split(", ")
        found.append(listing([STEP_SOURCES.get(source, visible(source)) for source in sources]))
    for number, total, what in (
        (run.n_bad_windows, run.n_all_windows, "windows have a verdict other than ok"),
        (run.n_unlinked, run.n_activities, "activities have no launch in the dump"),
        (run.n_bad_dumps, run.n_dumps, "dumps have a verdict other than ok"),
        (run.n_bad_checks, run.n_checks, "coverage checks have a verdict other than ok"),
    ):
        if number:
            found.append(f"{number:,} of {total:,} {what}")
    return found


def main_cause(run: Run) -> tuple[str, float] | None:
    """Return the cause of most idle time with its share of the windows; None without idle time."""
    ratios = (
        run.idle_input_ratio,
        run.idle_sync_ratio,
        run.idle_host_ratio,
        run.idle_launch_ratio,
        run.idle_turnaround_ratio,
        run.idle_other_ratio,
    )
    known = [(ratio, cause) for ratio, cause in zip(ratios, CAUSES, strict=True) if ratio]
    if not known:
        return None
    largest = max(known, key=lambda pair: pair[0])
    return largest[1], largest[0]


def step_finding(run: Run, step_bins: pl.DataFrame) -> str:
    """Return what the step chart shows, for those who do not see it."""
    if run.n_timed_steps == 1:
        return f"Step {run.slowest_step} takes {duration(run.step_median_ns)}."
    binned = max(step_bins["n_steps"].to_list(), default=1)
    how = f" Each column is {binned} steps: its bar is their mean, its line their median." if binned != 1 else ""
    return (
        f"{run.n_timed_steps:,} steps from {duration(run.step_min_ns)} to {duration(run.step_max_ns)}, median "
        f"{duration(run.step_median_ns)}; the slowest is step {run.slowest_step}.{how}"
    )


def idle_finding(run: Run) -> str:
    """Return what the chart of idle causes shows."""
    cause = main_cause(run)
    if cause is None:
        return "No rank was idle."
    share = f"Idle takes {percent(run.idle_ratio)} of the windows"
    return f"{share}; its largest cause is {cause[0]}, {percent(cause[1])} ({CAUSE_PHRASES[cause[0]]})."


def heat_finding(extremes: pl.DataFrame, measure: Measure) -> str:
    """Return what a heat map shows: its two ends and its highest cell; empty without rows."""
    name = "exposed_comm" if measure is EXPOSED_COMM else "idle"
    rows = extremes.filter(pl.col("measure") == name).to_dicts()
    if not rows:
        return ""
    row = rows[0]
    if not row["peak_ns"]:
        return f"No rank has any {measure.name}."
    peak = (
        f"the longest single window has {duration(row['peak_ns'])}, rank {row['peak_rank']} in step {row['peak_step']}."
    )
    if row["n_ranks"] == 1:
        share = (
            f"{measure.name.capitalize()} takes {percent(row['max_ratio'])} of the windows of rank {row['max_rank']}"
        )
        return f"{share}; {peak}"
    if percent(row["min_ratio"]) == percent(row["max_ratio"]):
        return f"{measure.name.capitalize()} takes {percent(row['max_ratio'])} of every rank's windows; {peak}"
    return (
        f"{measure.name.capitalize()} takes from {percent(row['min_ratio'])} (rank {row['min_rank']}) to "
        f"{percent(row['max_ratio'])} (rank {row['max_rank']}) of a rank's windows; {peak}"
    )


def bands_finding(rows: pl.DataFrame, measure: Measure) -> str:
    """Return what the bands under a heat map show."""
    groups = {"stage": " by pipeline stage", "host": " by host"}.get(rows["grouped_by"][0], "")
    names = rows.select("place", "name").unique().drop_nulls().sort("place").rows()
    told = f" Hosts: {', '.join(f'{place} is {cut_middle(visible(name))}' for place, name in names)}." if names else ""
    return (
        f"The other {count(rows['n_others'][0])} ranks{groups}: {measure.name} of nine tenths of them lies in the "
        f"band, the line is their median.{told}"
    )


def path_finding(path: Path, run: Run) -> str:
    """Return what the critical paths were made of, and how much of them is not explained."""
    if path.n_steps == 0 or path.kind is None:
        return "n/a: no step has a critical path"
    phrase = KIND_PHRASES.get(path.kind, visible(path.kind))
    most = phrase if path.kind in ("compute", "unknown") else f"{phrase} ({visible(path.kind)})"
    have = "has" if path.n_steps == 1 else "have"
    is_some = path.n_steps < run.n_timed_steps
    which = f"Of {run.n_timed_steps:,} steps {path.n_steps:,} {have} a path. " if is_some else ""
    steps = "the step" if path.n_steps == 1 else "the steps"
    share = f"has the largest share, {percent(path.rank_ratio)}" if path.n_ranks > 1 else "has all of it"
    peer = f", {percent(path.peer_ratio)} in collectives whose late rank may not be recorded" if path.peer_ratio else ""
    return (
        f"{which}Most of all {steps} waited for {most}: {percent(path.kind_ratio)} of the time on the path; rank "
        f"{path.rank} {share}. Unexplained is {percent(path.unknown_ratio)}, host time without an event "
        f"{percent(path.no_event_ratio)}{peer}."
    )


def late_finding(late: Late) -> str:
    """Return who came latest, for those who do not see the heat map; empty where nobody was waited for."""
    if late.peak_rank is None:
        return ""
    place = "" if late.peak_place is None else f" ({cut_middle(visible(late.peak_place))})"
    latest = (
        f"the longest wait of a step is for rank {late.peak_rank}{place} in step {late.peak_step}: "
        f"{duration(late.peak_ns)}, {percent(late.peak_ratio)} of the step."
    )
    if late.n_straggler_steps == 0:
        return f"T{latest[1:]}"
    known = "the 1 step" if late.n_known == 1 else f"{late.n_known:,} steps"
    whom = "one rank, link or stage" if late.n_place_steps else "one rank"
    return f"{late.n_straggler_steps:,} of {known} waited for {whom} beyond the noise; {latest}"


def grid_finding(cells: pl.DataFrame) -> str:
    """Return which worker was late longest, for those who do not see its grid."""
    dp, stage, late_ns, share = cells.filter("is_latest").select("dp", "stage", "late_mean_ns", "share_ratio").row(0)
    return (
        f"The longest wait is for dp rank {dp} in stage {stage}: {duration(late_ns)} in the mean step, "
        f"{percent(share)} of it."
    )


def nobody_named(late: Late) -> str:
    """Return why no rank is named as the one waited for; empty where one is."""
    if late.n_stragglers:
        return ""
    if late.n_steps == 0:
        return "n/a: no rank has events in a step, so who came late cannot be known."
    if late.n_step_ranks is not None and late.n_step_ranks <= 1:
        return "n/a: one rank is recorded, and who was late shows only beside others."
    if late.n_known == 0:
        return "n/a: the ranks' clocks are not aligned, so who came late cannot be known."
    if not late.has_collectives:
        return "n/a: no collective was found, so no rank waited for another where it would show."
    if late.n_tie_steps:
        times = "1 step" if late.n_tie_steps == 1 else f"{late.n_tie_steps:,} steps"
        return (
            f"Nobody is named: ranks {late.tie_ranks} tie in {times}: each is late by more than half of what the "
            "latest is."
        )
    if late.peak_rank is None:
        return "Nobody is named: no rank came late to a collective."
    return (
        f"Nobody is named: no rank was late beyond the noise. The latest, rank {late.peak_rank}, is {late.peak_doubt}."
    )


def answers(data: Overview) -> list[tuple[str, str, str]]:
    """Return what a reader asks first, each a question, its answer, and the section that has more."""
    run = data.run
    return [
        ("How long is a step?", _length_answer(run, data.key), "steps"),
        ("What decides it?", _path_answer(data.path), "path"),
        ("Who is late?", _late_answer(data), "stragglers"),
        ("What to fix first?", _fix_answer(data), "fix"),
        ("How well are devices used?", _use_answer(data.key), "ledger"),
        ("Can it be trusted?", _trust_answer(run), "coverage"),
    ]


def _length_answer(run: Run, key: Key) -> str:
    if run.n_timed_steps == 0:
        return "n/a: no step has a time"
    length = f"{duration(run.step_median_ns)}{' in the median' if run.n_timed_steps > 1 else ''}"
    if key.trend is None:
        return f"{length}; no trend: nine steps are needed to see one"
    if key.trend == "steady":
        return f"{length}, steady from the first third of the steps to the last"
    return f"{length}; the last third of the steps is {percent(key.trend_ratio)} {key.trend} than the first"


def _path_answer(path: Path) -> str:
    if path.n_steps == 0 or path.kind is None:
        return "n/a: no step has a critical path"
    where = f", {percent(path.rank_ratio)} of it on rank {path.rank}" if path.n_ranks > 1 else ""
    kind = KIND_PHRASES.get(path.kind, visible(path.kind))
    return f"{kind}: {percent(path.kind_ratio)} of the critical path{where}"


def _late_answer(data: Overview) -> str:
    if not data.stragglers.height:
        return nobody_named(data.late).rstrip(".")
    row = data.stragglers.row(0, named=True)
    ratio = row["slowdown_ratio"]
    cost = f"; with it at the ranks' median the run would be {speedup(ratio)} as fast" if ratio is not None else ""
    n_others = data.late.n_stragglers - 1
    others = f"; {n_others:,} more {'rank' if n_others == 1 else 'ranks'} below" if n_others else ""
    where = f"rank {row['rank']} in {row['n_straggler']:,} of {row['n_steps']:,} steps"
    return f"{where}, cause {visible(row['cause'])}{cost}{others}"


def _fix_answer(data: Overview) -> str:
    if not data.key.has_what_ifs:
        return "n/a: no what-if was made"
    if not data.opportunities:
        return "no single change asked about would save a thousandth"
    best = data.opportunities[0]
    return f"{cut_middle(visible(best.words))}: {speedup(best.speedup_ratio)}, {duration(best.saved_ns)} a step"


def _use_answer(key: Key) -> str:
    return f"{_mfu_answer(key)}{_memory_answer(key)}"


def _memory_answer(key: Key) -> str:
    if key.memory_bytes is None:
        return ""
    whole = f" of {bytes_text(key.device_bytes)}" if key.device_bytes is not None else ""
    return f"; peak memory of a rank {bytes_text(key.memory_bytes)}{whole}, rank {key.memory_rank}"


def _mfu_answer(key: Key) -> str:
    if key.mfu_ratio is None:
        return f"MFU n/a: {visible(key.mfu_reason or 'no step has a time')}"
    hfu = f", HFU {percent(key.hfu_ratio)}" if key.hfu_ratio is not None else ""
    rate = f", {key.tokens_per_s:,.0f} tokens/s" if key.tokens_per_s is not None else ""
    return f"MFU {percent(key.mfu_ratio)}{hfu}{rate}"


def _trust_answer(run: Run) -> str:
    if not caveats(run):
        return "every check is ok"
    if run.n_bad_checks:
        return f"{run.n_bad_checks} of {run.n_checks} checks of coverage have doubts"
    return "with care: see below"


def speedup(ratio: float | None) -> str:
    """Return a speedup as '1.015x'; 'n/a' for NULL."""
    return "n/a" if ratio is None else f"{ratio:.3f}x"


def gigabytes(rate: float | None) -> str:
    """Return bytes a second in GB/s; 'n/a' for NULL."""
    return "n/a" if rate is None else f"{rate / 1e9:,.1f}"


def size(n_bytes: int | None) -> str:
    """Return bytes with a unit of 1,000; 'n/a' for NULL."""
    return "n/a" if n_bytes is None else amount_text(n_bytes, "B")


def ledger_finding(data: Overview) -> str:
    """Return what the ledger's chart shows."""
    if not data.ledger.height:
        return "n/a: no step has a time"
    rows = {row["size_place"]: row for row in data.ledger.iter_rows(named=True) if row["part"] != "model"}
    largest = [
        f"{PART_WORDS[row['part']]} {percent(row['share_ratio'])}" for place in (1, 2, 3) if (row := rows.get(place))
    ]
    model = data.key.mfu_ratio
    start = "MFU is n/a, so compute is one part" if model is None else f"MFU is {percent(model)}"
    return f"{start}. Most of the devices' time goes to {listing(largest)}."


PART_WORDS = {
    "model": "model FLOPs at peak",
    "recompute": "recomputation at peak",
    "kernel_inefficiency": "kernels below peak",
    "compute": "compute",
    "bubble": "pipeline bubble",
    "wait": "waiting for ranks",
    "transfer": "exposed transfer",
    "unsplit_comm": "exposed comm, not split",
    "copies": "exposed copies",
    "idle_input": "idle: input",
    "idle_sync": "idle: sync",
    "idle_host": "idle: host",
    "idle_launch": "idle: launch",
    "idle_turnaround": "idle: turnaround",
    "unknown": "idle: unknown",
    "skew": "skew of windows",
}
"""Parts of the ledger as a page says them."""


def hours(number: float | None) -> str:
    """Return GPU hours to as many digits as count: a recording of seconds loses millionths; 'n/a' for NULL."""
    if number is None:
        return "n/a"
    if 0 < number < 1e-6:
        return "< 0.000001"
    return f"{number:,.1f}" if number >= 10 else f"{number:.3f}" if number >= 0.1 else f"{number:.6f}"


def listing(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: 'a, b and c'."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _step_sentence(run: Run) -> str:
    if run.n_timed_steps == 0:
        windows = "1 capture" if run.n_windows == 1 else f"{run.n_windows:,} captures"
        return (
            f"No step was found, so the numbers are over whole captures: {windows}, "
            f"median {duration(run.window_median_ns)}."
        )
    if run.n_timed_steps == 1:
        return f"The one step, {run.slowest_step}, takes {duration(run.step_median_ns)}."
    if run.step_min_ns == run.step_max_ns:
        return f"Each of the {run.n_timed_steps:,} steps takes {duration(run.step_median_ns)}."
    if run.n_timed_steps < MIN_PERCENTILE_STEPS:
        spread = f"between {duration(run.step_min_ns)} and {duration(run.step_max_ns)}"
    else:
        spread = f"p5–p95 {duration(run.step_p05_ns)} to {duration(run.step_p95_ns)}"
    return (
        f"The median step takes {duration(run.step_median_ns)} ({spread}, {run.n_timed_steps:,} steps); "
        f"the slowest, step {run.slowest_step}, took {duration(run.step_max_ns)}."
    )


def _share_sentence(run: Run) -> str:
    if run.compute_ratio is None:
        return ""
    cause = main_cause(run)
    mostly = f", mostly {CAUSE_PHRASES[cause[0]]} ({percent(cause[1])})" if cause else ""
    return (
        f"Of the ranks' time {percent(run.compute_ratio)} is compute, {percent(run.exposed_comm_ratio)} exposed "
        f"communication, {percent(run.exposed_copy_ratio)} exposed copies and {percent(run.idle_ratio)} idle{mostly}."
    )
