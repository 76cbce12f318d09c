"""Sheets on exchange between devices: all-reduce, pipeline, and the queue of gradient buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from longpole.errors import LongpoleError
from longpole.plan import buckets, exchange, pipeline
from longpole.report.sheets import Axis, Curve, Line, Sheet, bytes_words
from longpole.units import amount_text, duration_text, span_text

MOST_LINKS = 4
"""Links that one question may name: as many as the theme has colours for."""

_MOST_LISTED = 12
"""Buckets that lines list; JSON has them all."""

_BUCKETS = "How much of the gradients' exchange sticks out"


def allreduce_sheet(n_bytes: int, *, ranks: int | None, links: Mapping[str, float]) -> Sheet:
    """Return what a ring all-reduce moves and takes on each link."""
    if len(links) > MOST_LINKS:
        raise LongpoleError(f"{len(links)} links are too many", f"Ask for up to {MOST_LINKS} at once.")
    found = exchange.all_reduce(n_bytes, ranks=ranks, links=links)
    lines = []
    if found.ring_bytes is not None:
        lines.append(Line(f"a rank sends, ring of {ranks:,}", bytes_words(found.ring_bytes), "2(n−1)/n of the bytes"))
    lines.append(Line("in the limit of many ranks", bytes_words(found.limit_bytes), "2 × the bytes"))
    for link in found.links:
        ring = "" if link.ring_s is None else f"{span_text(link.ring_s)}; limit "
        lines.append(Line(link.link, f"{ring}{span_text(link.limit_s)}", f"at {amount_text(link.bytes_per_s, 'B/s')}"))
    if not found.links:
        lines.append(Line("time", "n/a", "give --link 450GB/s, or --device"))
    curve = None
    if found.links:
        sizes = sorted({2**n for n in range(1, 12)} | ({ranks} if ranks else set()))
        rows: list[dict[str, Any]] = []
        for n in sizes:
            for link in exchange.all_reduce(n_bytes, ranks=n, links=links).links:
                rows.append({"ranks": n, "ring_s": link.ring_s, "series": link.link})
        curve = Curve(
            "allreduce-chart",
            "All-reduce by number of ranks",
            "A ring of a few dozen ranks takes what it takes in the limit.",
            Axis("ranks", "ranks", "d", is_log=True),
            Axis("ring_s", "time (s)", None),
            tuple(links),
            rows,
            ranks,
        )
    moved = found.limit_bytes if found.ring_bytes is None else found.ring_bytes
    times = [
        f"{span_text(link.limit_s if link.ring_s is None else link.ring_s)} on {link.link}" for link in found.links
    ]
    summary = f"Each rank sends and receives {amount_text(moved, 'B')}{': ' if times else ''}{', '.join(times)}."
    notes = ("A ring at full bandwidth: latency, contention, trees and in-network reduction are not in it.",)
    given = {"bytes": n_bytes, "ranks": ranks, "links": dict(links)}
    return Sheet("allreduce", "What an all-reduce takes", summary, lines, given, asdict(found), notes, curve)


def bubble_sheet(*, stages: int, microbatches: int, virtual_stages: int) -> Sheet:
    """Return how much of a step a pipeline waits."""
    found = pipeline.bubble(stages=stages, microbatches=microbatches, virtual_stages=virtual_stages)
    work = "m" if virtual_stages == 1 else f"{virtual_stages} × m"
    lines = [
        Line("bubble, of the step", f"{found.bubble_ratio:.1%}", f"(p − 1) / ({work} + p − 1)"),
        Line(
            "beside the work",
            f"{found.of_work_ratio:.1%}",
            f"(p − 1) / {work}" if virtual_stages == 1 else f"(p − 1) / ({work})",
        ),
    ]
    multiples = sorted({stages * n for n in (1, 2, 4, 8, 16)} - {microbatches})
    for m in multiples:
        other = pipeline.bubble(stages=stages, microbatches=m, virtual_stages=virtual_stages)
        lines.append(Line(f"with {m:,} microbatches", f"{other.bubble_ratio:.1%}"))
    versions = sorted({1, 2, 4, virtual_stages})
    rows: list[dict[str, Any]] = []
    for v in versions:
        for m in sorted({stages * n // 4 or 1 for n in range(1, 65)} | {microbatches}):
            ratio = pipeline.bubble(stages=stages, microbatches=m, virtual_stages=v).bubble_ratio
            rows.append({"microbatches": m, "bubble_ratio": ratio, "series": _parts(v)})
    curve = Curve(
        "bubble-chart",
        "Bubble by number of microbatches",
        "More microbatches, or more parts of the model on a device, shorten it.",
        Axis("microbatches", "microbatches", "~s"),
        Axis("bubble_ratio", "bubble, share of the step", ".0%"),
        tuple(_parts(v) for v in versions),
        rows,
        microbatches,
    )
    summary = (
        f"{stages:,} stages wait {found.bubble_ratio:.1%} of a step of {microbatches:,} microbatches, while the "
        "pipeline fills and drains."
    )
    notes = ("Every stage and microbatch takes the same time here, and sends take none.",)
    given = {"stages": stages, "microbatches": microbatches, "virtual_stages": virtual_stages}
    return Sheet("bubble", "How much of a step a pipeline waits", summary, lines, given, asdict(found), notes, curve)


def queue_sheet(ready_ns: Sequence[int], service_ns: Sequence[int]) -> Sheet:
    """Return how buckets with known times are served."""
    found = buckets.queue(ready_ns, service_ns)
    given = {"ready_ns": list(ready_ns), "service_ns": list(service_ns)}
    return Sheet("buckets", _BUCKETS, _tail_words(found), _queue_lines(found), given, {"queue": asdict(found)})


def buckets_sheet(work: buckets.Exchange, *, bucket_bytes: int | None) -> Sheet:
    """Return how buckets of a size, else of the best one, are served."""
    best = buckets.best_bucket(work)
    size = best.bucket_bytes if bucket_bytes is None else bucket_bytes
    found = buckets.gradient_queue(work, size)
    lines = [
        *_queue_lines(found),
        Line("best bucket", amount_text(best.bucket_bytes, "B"), f"{best.n_buckets:,} of them"),
        Line("its tail", duration_text(best.tail_ns)),
    ]
    counts = sorted({max(1, round(10 ** (n / 16))) for n in range(0, 65)} | {best.n_buckets})
    sizes = sorted({-(-work.n_bytes // n) for n in counts} | {size})
    rows = [
        {"bucket_bytes": b, "tail_ns": buckets.gradient_queue(work, b).tail_ns, "series": "tail"}
        for b in sizes
        if work.n_bytes <= b * buckets.MOST_BUCKETS
    ]
    curve = Curve(
        "buckets-chart",
        "Tail by bucket size",
        "Small buckets pay for calls, large ones begin late.",
        Axis("bucket_bytes", "bucket (bytes)", "~s", is_log=True),
        Axis("tail_ns", "tail after backward (ms)", None, 10**6, is_log=all(row["tail_ns"] for row in rows)),
        ("tail",),
        rows,
        size,
    )
    return Sheet(
        "buckets",
        _BUCKETS,
        f"{_tail_words(found)} Best are {best.n_buckets:,} buckets of {amount_text(best.bucket_bytes, 'B')}: "
        f"{duration_text(best.tail_ns)}.",
        lines,
        {**asdict(work), "bucket_bytes": bucket_bytes},
        {"queue": asdict(found), "best": asdict(best)},
        ("Exchange that overlaps may slow backward itself: a shorter tail counts only where the step is shorter.",),
        curve,
    )


def _parts(virtual_stages: int) -> str:
    return "1 part a device" if virtual_stages == 1 else f"{virtual_stages} parts a device"


def _queue_lines(found: buckets.Queue) -> list[Line]:
    lines = [
        Line("last exchange ends", duration_text(found.end_ns)),
        Line("tail", duration_text(found.tail_ns), f"after backward's end at {duration_text(found.backward_end_ns)}"),
        Line("buckets", f"{len(found.buckets):,}"),
    ]
    if len(found.buckets) <= _MOST_LISTED:
        for n, one in enumerate(found.buckets, 1):
            span = f"{duration_text(one.start_ns)} – {duration_text(one.end_ns)}"
            lines.append(Line(f"bucket {n}", span, f"ready at {duration_text(one.ready_ns)}"))
    return lines


def _tail_words(found: buckets.Queue) -> str:
    return f"The last exchange ends {duration_text(found.tail_ns)} after backward."
