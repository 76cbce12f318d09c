"""Numbers as a person reads them: one place for every conversion out of nanoseconds and bytes."""

from __future__ import annotations

import re
from decimal import Decimal

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


def parse_duration(text: str) -> int:
    """Return the nanoseconds that "25ms", "1.5 s" or "800us" means.

    Raises:
        UsageError: The text is no duration.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s)\s*", text)
    ns = int(Decimal(match[1]) * _NANOSECONDS[match[2]]) if match else 0
    if not 0 < ns <= _LONGEST_NS:
        raise UsageError(f"{text!r} is no duration", "Write a number and a unit: 25ms, 1.5s, 800us.")
    return ns


_NANOSECONDS = {"ns": 1, "us": 1000, "µs": 1000, "ms": 1000**2, "s": 1000**3}

_LONGEST_NS = 1 << 60
