"""Numbers as a person reads them: one place for every conversion out of nanoseconds and bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal

from longpole.errors import UsageError

_BYTES = {
    **{"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4},
    **{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40},
}

_MOST_BYTES = 1 << 60


def duration_text(ns: int | None) -> str:
    """Return a duration with three to four digits and its unit, as "36.08 ms"; "n/a" for None."""
    if ns is None:
        return "n/a"
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if abs(ns) >= size * 0.99995:  # what would round to 1,000.0 of the unit below
            value = ns / size
            return f"{value:,.{2 if abs(value) < 99.995 else 1}f} {unit}"
    return f"{ns} ns"


def bytes_text(n: int) -> str:
    """Return a size in binary units, as "4.2 MiB"."""
    if n < 1024:
        return f"{n} B"
    size = float(n)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1023.95:  # what would round to 1,024.0
            return f"{size:.1f} {unit}"
    return f"{size / 1024:,.1f} TiB"


def parse_bytes(text: str) -> int:
    """Return the bytes that "2GiB", "500 MB" or "1048576" means.

    Raises:
        UsageError: The text is no size.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    unit = match[2].lower() if match else ""
    size = int(Decimal(match[1]) * _BYTES[unit or "b"]) if match and (unit or "b") in _BYTES else 0
    if not 0 < size <= _MOST_BYTES:
        raise UsageError(f"{text!r} is no size", "Write a number and a unit: 500MB, 2GiB.")
    return size


def parse_duration(text: str, *, least_ns: int = 1) -> int:
    """Return the nanoseconds that "25ms", "1.5 s", "800us" or "2h" means.

    Raises:
        UsageError: The text is no duration.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s|min|h|d)\s*", text)
    ns = int(Decimal(match[1]) * _NANOSECONDS[match[2]]) if match else -1
    if not least_ns <= ns <= _LONGEST_NS:
        raise UsageError(f"{text!r} is no duration", "Write a number and a unit: 25ms, 1.5s, 800us.")
    return ns


_NANOSECONDS = {
    **{"ns": 1, "us": 1000, "µs": 1000, "ms": 1000**2, "s": 1000**3},
    **{"min": 60 * 1000**3, "h": 3600 * 1000**3, "d": 86400 * 1000**3},
}

_LONGEST_NS = 1 << 60


def span_text(seconds: float) -> str:
    """Return a span of any length with the unit that fits, as "42.09 ms", "3.50 hours" or "6.33 days"."""
    if seconds < 120:
        return duration_text(round(seconds * 10**9))
    size, unit = next((s, u) for s, u in ((86_400, "days"), (3_600, "hours"), (60, "min")) if seconds >= 2 * s)
    value = seconds / size
    return f"{value:,.{2 if value < 100 else 1 if value < 1_000 else 0}f} {unit}"


def amount_text(amount: float, unit: str) -> str:
    """Return an amount to four digits with a decimal prefix, as "3.848 TFLOP"; as powers of ten from 10^18 on."""
    if amount >= 10**18:
        mantissa, _, exponent = f"{amount:.3e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)} {unit}"
    size, prefix = next(((s, p) for s, p in _PREFIXES if amount >= 0.99995 * s), (1, ""))
    return f"{float(f'{amount / size:.4g}'):,g} {prefix}{unit}"


_PREFIXES = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def parse_amount(text: str, unit: Literal["", "B", "B/s", "FLOP/s"]) -> Decimal:
    """Return what "7e9", "7B", "141GB", "3.35TB/s", "400Gbit/s" or "989T" means, in the unit; 7B alone is billions.

    Raises:
        UsageError: The text is no amount of the unit, or one beyond 10^24.
    """
    match = re.fullmatch(r"\s*(-?[0-9][0-9_,]{0,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)\s*(\S*)\s*", text)
    factor = _factor(match[2], unit) if match else None
    if match is None or factor is None:
        what, example = _AMOUNTS[unit]
        raise UsageError(f"{text!r} is no {what}", f"Write it as {example}.")
    amount = Decimal(match[1].replace(",", "").replace("_", "")) * factor
    if abs(amount) > 10**24:
        raise UsageError(f"{text!r} is beyond 10^24", "Check its unit.")
    return amount


def _factor(suffix: str, unit: str) -> Decimal | None:
    if unit == "B/s" and suffix.endswith("bit/s"):
        bits = _DECIMAL.get(suffix.removesuffix("bit/s"))
        return None if bits is None else Decimal(bits) / 8
    if not unit and suffix in ("B", "b"):
        return Decimal(10**9)
    prefix = suffix.removesuffix(unit) if unit else suffix
    known = {**_DECIMAL, **_BINARY} if unit.startswith("B") else _DECIMAL
    return Decimal(known[prefix]) if prefix in known else None


_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_AMOUNTS = {
    "": ("number", "7e9, 7B or 7000000000"),
    "B": ("size", "141GB, 25MiB or 141e9"),
    "B/s": ("bandwidth", "450GB/s, 400Gbit/s or 450e9"),
    "FLOP/s": ("rate", "989T or 989e12"),
}
