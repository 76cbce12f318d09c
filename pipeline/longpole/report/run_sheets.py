"""Sheets on a whole run: how long it takes, what an update consumes, what stays in memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from longpole.plan import memory
from longpole.plan.duration import Job, duration, update
from longpole.plan.memory import Optimizer, Precision
from longpole.report.sheets import Axis, Curve, Line, Sheet, bytes_words
from longpole.units import amount_text, bytes_text, span_text

SENSITIVITY = (0.2, 0.3, 0.4, 0.5, 0.6)
"""MFUs that a duration is told for beside its own: what is published lies between."""


def duration_sheet(job: Job) -> Sheet:
    """Return how long a job takes, and at other MFUs."""
    found = duration(job)
    mfus = sorted({*SENSITIVITY, job.mfu_ratio})
    others = [{"mfu_ratio": mfu, "wall_s": duration(replace(job, mfu_ratio=mfu)).wall_s} for mfu in mfus]
    lines = [
        Line("model work", amount_text(found.model_flops, "FLOP"), "6 × parameters × tokens"),
        Line("useful rate", amount_text(found.useful_flops_per_s, "FLOP/s"), "devices × peak × MFU"),
        Line("training", f"{span_text(found.training_s)} ({found.training_s:,.0f} s)", "work / rate"),
    ]
    terms = (
        ("evaluation", found.evaluation_s, f"{found.n_evaluations:,} of them"),
        ("checkpoints", found.checkpoint_s, f"{found.n_checkpoints:,} of them"),
        ("failures", found.failure_s, f"{found.n_failures:,.1f}, each a restart and half a checkpoint interval"),
        ("downtime", found.downtime_s, "as given"),
    )
    lines += [Line(what, span_text(seconds), how) for what, seconds, how in terms if seconds]
    if found.wall_s > found.training_s:
        lines.append(Line("in all", span_text(found.wall_s), f"of which {found.training_ratio:.1%} trains"))
    lines += [Line(f"at {100 * r['mfu_ratio']:.3g} % MFU", span_text(r["wall_s"])) for r in others]
    rows = [
        {"mfu_ratio": mfu, "wall_s": duration(replace(job, mfu_ratio=mfu)).wall_s, "series": "in all"}
        for mfu in sorted({n / 100 for n in range(5, 81)} | {job.mfu_ratio})
    ]
    summary = (
        f"{span_text(found.wall_s)} at an MFU of {100 * job.mfu_ratio:.3g} %: "
        f"{amount_text(found.model_flops, 'FLOP')} on {job.devices:,} devices."
    )
    curve = Curve(
        "duration-chart",
        "Duration by MFU",
        "Twice the MFU halves what training takes; downtime stays.",
        Axis("mfu_ratio", "MFU", ".0%"),
        Axis("wall_s", "duration (days)", None, 86_400),
        ("in all",),
        rows,
        job.mfu_ratio,
    )
    notes = ("A measured MFU may include evaluation, checkpoints and failures already: then leave them out here.",)
    return Sheet(
        "duration",
        "How long a run takes",
        summary,
        lines,
        asdict(job),
        asdict(found) | {"sensitivity": others},
        notes,
        curve,
    )


def tokens_sheet(*, data_parallel: int, sequences: int, accumulation: int, seq_len: int) -> Sheet:
    """Return the tokens of one update."""
    found = update(data_parallel=data_parallel, sequences=sequences, accumulation=accumulation, seq_len=seq_len)
    given = {
        "data_parallel": data_parallel,
        "sequences": sequences,
        "accumulation": accumulation,
        "seq_len": seq_len,
    }
    each = f"{data_parallel:,} × {sequences:,} × {accumulation:,} × {seq_len:,}"
    lines = [
        Line("an update", f"{found.tokens:,} tokens", f"ranks × sequences × accumulation × length = {each}"),
        Line("a microbatch of a rank", f"{found.microbatch_tokens:,} tokens", "sequences × length"),
    ]
    if accumulation > 1:
        lines.append(
            Line(
                "without accumulation",
                f"{found.tokens // accumulation:,} tokens",
                f"a rate that divides an update's tokens by one microbatch's time is {accumulation:,} times too high",
            )
        )
    return Sheet(
        "tokens",
        "Tokens of one update",
        f"One update takes {found.tokens:,} tokens, padding included.",
        lines,
        given,
        asdict(found),
    )


@dataclass(frozen=True)
class Shape:
    """Sizes that activations and caches follow from; what is None is not known."""

    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    seq_len: int | None = None
    batch: int = 1


def memory_sheet(
    params: int,
    optimizer: Optimizer,
    precision: Precision,
    shape: Shape,
    *,
    device_bytes: int | None,
    node_devices: int,
) -> Sheet:
    """Return what training keeps in memory, as far as the sizes given say, and how many devices hold its state."""
    found = memory.states(params, optimizer, precision)
    form = memory.FORMATS[precision]
    moments = memory.MOMENTS[optimizer]
    lines = [
        Line("weights", bytes_words(found.weights_bytes), f"{form.weight} B a parameter"),
        Line("gradients", bytes_words(found.gradients_bytes), f"{form.gradient} B a parameter"),
        Line("optimizer moments", bytes_words(found.moments_bytes), f"{moments} × {form.moment} B a parameter"),
        Line("master weights", bytes_words(found.master_bytes), f"{form.master} B a parameter"),
        Line("state in all", bytes_words(found.total_bytes), f"{found.param_bytes} B a parameter"),
    ]
    answer: dict[str, Any] = {"states": asdict(found), "devices": None, "activations": None, "kv_cache": None}
    summary = f"{amount_text(found.total_bytes, 'B')} of state, {found.param_bytes} B a parameter"
    if device_bytes is not None:
        least = memory.least_devices(found.total_bytes, device_bytes=device_bytes, node_devices=node_devices)
        answer["devices"] = asdict(least)
        lines.append(
            Line(
                "least devices",
                f"{least.n_in_nodes:,}",
                f"of {amount_text(device_bytes, 'B')}: {least.n_devices:,} by division, in whole nodes of "
                f"{node_devices}; activations come on top",
            )
        )
        summary += f": at least {least.n_in_nodes:,} devices of {amount_text(device_bytes, 'B')}"
    curve = _activations(shape, lines, answer)
    _cache(shape, lines, answer)
    given = {
        "params": params,
        "optimizer": optimizer,
        "precision": precision,
        **asdict(shape),
        "device_bytes": device_bytes,
        "node_devices": node_devices,
    }
    notes: tuple[str, ...] = ("Buffers of communication, temporary ones and what an allocator keeps free come on top.",)
    if curve:
        notes += ("34 bytes are those of a GPT block with dropout, in 2-byte elements; other blocks differ.",)
    return Sheet("memory", "What training keeps in memory", f"{summary}.", lines, given, answer, notes, curve)


def _activations(shape: Shape, lines: list[Line], answer: dict[str, Any]) -> Curve | None:
    if shape.seq_len is None or shape.hidden is None or shape.heads is None or shape.layers is None:
        lines.append(Line("activations", "n/a", "give --layers, --hidden, --heads and --seq-len, or --model"))
        return None
    hidden, heads, layers = shape.hidden, shape.heads, shape.layers

    def at(seq_len: int) -> memory.Activations:
        return memory.activations(batch=shape.batch, seq_len=seq_len, hidden=hidden, heads=heads, layers=layers)

    found = at(shape.seq_len)
    answer["activations"] = asdict(found)
    lines += [
        Line(
            "activations, a layer", bytes_words(found.layer_bytes), "34 × length × sequences × hidden, flash attention"
        ),
        Line("activations in all", bytes_words(found.total_bytes), f"{layers:,} layers, nothing recomputed"),
        Line(
            "more without flash", bytes_words(found.layer_attention_bytes), "a layer: 5 × heads × length² × sequences"
        ),
    ]
    rows: list[dict[str, Any]] = []
    for length in sorted({2**n for n in range(9, 18)} | {shape.seq_len}):
        one = at(length)
        rows += [
            {"seq_len": length, "total_bytes": one.total_bytes, "series": "flash attention"},
            {"seq_len": length, "total_bytes": one.total_without_flash_bytes, "series": "without"},
        ]
    return Curve(
        "activations-chart",
        "Activations by sequence length",
        "Activations grow with the sequence, and with its square where attention keeps its matrices.",
        Axis("seq_len", "sequence length (tokens)", "~s", is_log=True),
        Axis("total_bytes", "activations (GB)", "~s", 10**9, is_log=True),
        ("flash attention", "without"),
        rows,
        shape.seq_len,
    )


def _cache(shape: Shape, lines: list[Line], answer: dict[str, Any]) -> None:
    if shape.seq_len is None or shape.kv_heads is None or shape.head_dim is None or shape.layers is None:
        lines.append(Line("key-value cache", "n/a", "give --layers, --kv-heads, --head-dim and --seq-len, or --model"))
        return
    found = memory.kv_cache(
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        seq_len=shape.seq_len,
        sequences=shape.batch,
    )
    answer["kv_cache"] = asdict(found)
    lines += [
        Line(
            "key-value cache, a token", bytes_text(found.token_bytes), "2 × layers × heads with keys × head size × 2 B"
        ),
        Line("of one sequence", bytes_words(found.sequence_bytes), f"{shape.seq_len:,} tokens"),
        Line("of all sequences", bytes_words(found.total_bytes), f"{shape.batch:,}; when generating"),
    ]
