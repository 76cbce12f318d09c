"""Numbers as a person reads them: one place for every conversion out of nanoseconds and bytes."""

from __future__ import annotations

import re

from longpole.errors import UsageError

_BYTES = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def duration_text(ns: int | None) -> str:
    """Return a duration with three to four digits and its unit, as "36.08 ms"; "n/a" for None."""
    if ns is None:
        return "n/a"
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if abs(ns) >= size:
            value = ns / size
            return f"{value:,.{2 if abs(value) < 100 else 1}f} {unit}"
    return f"{ns} ns"


def bytes_text(n: int) -> str:
    """Return a size in binary units, as "4.2 MiB"."""
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def parse_bytes(text: str) -> int:
    """Return the bytes that "2GiB", "500 MB" or "1048576" means.

    Raises:
        UsageError: The text is no size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = match[2].lower() if match else ""
    if not match or (unit and unit not in _BYTES):
        raise UsageError(f"{text!r} is no size", "Write a number and a unit: 500MB, 2GiB.")
    return int(float(match[1]) * _BYTES[unit or "b"])
