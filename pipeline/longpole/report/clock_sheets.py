"""Sheets on the four clocks: of a pass, of one product, of generating a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from longpole.plan import clocks
from longpole.plan.clocks import Clocks, Machine
from longpole.plan.memory import ELEMENT_BYTES, least_devices
from longpole.report.sheets import Axis, Curve, Line, Sheet
from longpole.units import amount_text, span_text

CLOCKS = ("compute", "comm", "memory", "launches")
"""The clocks as curves name them, in the order of the theme's category range."""

_PACE = {
    "compute": "Arithmetic sets the pace",
    "memory": "Memory sets the pace",
    "comm": "The link sets the pace",
    "overhead": "Launches set the pace",
}


def clocks_sheet(machine: Machine, *, params: int, tokens: int, ranks: int, launches: int) -> Sheet:
    """Return the four clocks of parameters in one forward and backward pass."""

    def at(n: int) -> Clocks:
        return clocks.training(machine, params=params, tokens=n, ranks=ranks, launches=launches)

    found = at(tokens)
    hows = {
        "compute": f"6 × parameters × tokens = {amount_text(found.flops, 'FLOP')}",
        "memory": f"weights read twice, their gradient written: {amount_text(found.hbm_bytes, 'B')}",
        "comm": _comm_words(found, f"gradients in a ring of {ranks:,}: {amount_text(found.comm_bytes, 'B')}"),
        "launches": _launch_words(machine, launches),
    }
    curve = Curve(
        "clocks-chart",
        "The four clocks by tokens",
        "The highest line sets the pace: few tokens wait for weights or launches, many for arithmetic.",
        Axis("tokens", "tokens of a device's batch", "~s", is_log=True),
        Axis("seconds", "time (ms)", "~g", 1e-3, is_log=True),
        CLOCKS,
        [row for n in sorted({2**k for k in range(4, 18)} | {tokens}) for row in _clock_rows("tokens", n, at(n))],
        tokens,
    )
    given = {**asdict(machine), "params": params, "tokens": tokens, "ranks": ranks, "launches": launches}
    return Sheet(
        "clocks",
        "What sets the pace of a pass",
        f"{_PACE[found.clock]} for {tokens:,} tokens: forward and backward take {_between(found)}.",
        _clock_lines(machine, found, hows),
        given,
        asdict(found) | {"ridge_flops_per_byte": clocks.ridge(machine)},
        ("Reading and writing activations, and attention over the sequence, come on top.",),
        curve,
    )


def matmul_sheet(machine: Machine, *, rows: int, inner: int, columns: int) -> Sheet:
    """Return the clocks of one product of matrices."""

    def at(n: int) -> Clocks:
        return clocks.matmul(machine, rows=n, inner=inner, columns=columns)

    found = at(rows)
    hows = {
        "compute": f"2 × {rows:,} × {inner:,} × {columns:,} = {amount_text(found.flops, 'FLOP')}",
        "memory": f"both operands and the result, 2 B each: {amount_text(found.hbm_bytes, 'B')}",
    }
    curve = Curve(
        "matmul-chart",
        "Compute and memory by rows",
        "Where the lines cross, the product turns from reading its matrix to arithmetic.",
        Axis("rows", "rows (tokens)", "~s", is_log=True),
        Axis("seconds", "time (ms)", "~g", 1e-3, is_log=True),
        CLOCKS,
        [row for n in sorted({2**k for k in range(0, 18)} | {rows}) for row in _clock_rows("rows", n, at(n))],
        rows,
    )
    given = {**asdict(machine), "rows": rows, "inner": inner, "columns": columns}
    return Sheet(
        "matmul",
        "What sets the pace of a product",
        f"{_PACE[found.clock]}: the product takes {span_text(found.overlapped_s)} at peak.",
        _clock_lines(machine, found, hows),
        given,
        asdict(found) | {"ridge_flops_per_byte": clocks.ridge(machine)},
        (),
        curve,
    )


def decode_sheet(
    machine: Machine,
    *,
    params: int,
    batch: int,
    context: int,
    kv_token_bytes: int,
    devices: int,
    launches: int,
    all_params: int,
    device_bytes: int | None,
) -> Sheet:
    """Return the floor of generating one token of each sequence, and whether weights and caches fit at all."""

    def at(n: int) -> Clocks:
        return clocks.decode(
            machine,
            params=params,
            batch=n,
            context=context,
            kv_token_bytes=kv_token_bytes,
            devices=devices,
            launches=launches,
        )

    found = at(batch)
    split = "" if devices == 1 else f", over {devices:,} devices"
    cache = batch * context * kv_token_bytes
    hows = {
        "compute": f"2 × parameters × sequences = {amount_text(found.flops, 'FLOP')}{split}",
        "memory": f"weights {amount_text(ELEMENT_BYTES * params, 'B')} and cache {amount_text(cache, 'B')}{split}",
        "launches": _launch_words(machine, launches),
    }
    slow, fast = batch / found.serial_s, batch / found.overlapped_s
    crossover = clocks.ridge(machine)
    lines = _clock_lines(machine, found, hows)
    rate = f"{fast:,.0f}" if f"{fast:,.0f}" == f"{slow:,.0f}" else f"{slow:,.0f} to {fast:,.0f}"
    lines += [
        Line("tokens/s", rate, "sequences / time, over the whole batch"),
        Line("tokens/s of memory alone", f"{batch / found.memory_s:,.0f}"),
        Line("compute overtakes the weights", f"at {crossover:,.0f} sequences", "peak / bandwidth"),
    ]
    curve = Curve(
        "decode-chart",
        "Time of one token by batch",
        "Weights are read once for the whole batch, so more sequences cost little until arithmetic or caches overtake.",
        Axis("batch", "sequences", "~s", is_log=True),
        Axis("seconds", "time (ms)", "~g", 1e-3, is_log=True),
        CLOCKS,
        [row for n in sorted({2**k for k in range(0, 12)} | {batch}) for row in _clock_rows("batch", n, at(n))],
        batch,
    )
    given = {
        **asdict(machine),
        "params": params,
        "batch": batch,
        "context": context,
        "kv_token_bytes": kv_token_bytes,
        "devices": devices,
        "launches": launches,
        "all_params": all_params,
        "device_bytes": device_bytes,
    }
    notes: tuple[str, ...] = ("Attention's arithmetic over the cache and the exchange between devices come on top.",)
    if all_params > params:
        notes += (
            f"Of {all_params:,} parameters these are the {params:,} that one token passes through; "
            "a batch reads other experts too.",
        )
    held = ELEMENT_BYTES * all_params + cache
    if device_bytes is not None and held > devices * device_bytes:
        least = least_devices(held, device_bytes=device_bytes).n_devices
        notes += (
            f"{amount_text(held, 'B')} do not fit in {devices:,} × {amount_text(device_bytes, 'B')}: "
            f"it takes --devices {least:,} or more.",
        )
    return Sheet(
        "decode",
        "The floor of generating a token",
        f"{_PACE[found.clock]}: a token takes {_between(found)}, {rate} tokens/s.",
        lines,
        given,
        asdict(found)
        | {
            "tokens_per_s": fast,
            "tokens_per_s_serial": slow,
            "crossover_batch": crossover,
            "kv_cache_bytes": cache,
        },
        notes,
        curve,
    )


def _clock_lines(machine: Machine, found: Clocks, hows: Mapping[str, str]) -> list[Line]:
    times = {
        "compute": found.compute_s,
        "memory": found.memory_s,
        "comm": found.comm_s,
        "launches": found.overhead_s,
    }
    lines = [
        Line(name, "n/a" if (seconds := times[name]) is None else span_text(seconds) if seconds else "none", how)
        for name, how in hows.items()
    ]
    if found.serial_s > found.overlapped_s:
        lines.append(Line("if all overlap", span_text(found.overlapped_s), "the slowest clock"))
        lines.append(Line("if nothing overlaps", span_text(found.serial_s), "the sum"))
    lines += [
        Line("intensity", f"{found.flops_per_byte:,.4g} FLOP/B"),
        Line("ridge", f"{clocks.ridge(machine):,.4g} FLOP/B", "peak / bandwidth: above it, arithmetic is slower"),
    ]
    return lines


def _clock_rows(column: str, value: int, found: Clocks) -> list[dict[str, Any]]:
    times = zip(CLOCKS, (found.compute_s, found.comm_s, found.memory_s, found.overhead_s), strict=True)
    return [{column: value, "seconds": seconds, "series": name} for name, seconds in times if seconds]


def _comm_words(found: Clocks, words: str) -> str:
    if found.comm_bytes == 0:
        return "one rank: give --ranks"
    return words if found.comm_s is not None else f"{words}; give --link"


def _launch_words(machine: Machine, launches: int) -> str:
    return f"{launches:,} × {span_text(machine.launch_s)}" if launches else "none counted: give --launches"


def _between(found: Clocks) -> str:
    fast, slow = span_text(found.overlapped_s), span_text(found.serial_s)
    return fast if fast == slow else f"{fast} to {slow}"
