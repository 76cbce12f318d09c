"""Telemetry of devices as CSV: what nvidia-smi, DCGM's exporters and scripts write beside a run, told by its header.

Columns are found by their names (sql/data/telemetry_columns.csv), units by what stands in brackets, behind an
underscore, or behind the value; without one a time is seconds, a clock MHz, power W.
"""

from __future__ import annotations

import calendar
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, BinaryIO

import pyarrow as pa

from longpole import catalog
from longpole.errors import DumpError
from longpole.formats.bytestream import ByteStream

FORMAT = "telemetry"

RAW_TELEMETRY = pa.schema(
    [
        ("host", pa.string()),
        ("file_name", pa.string()),
        ("gpu", pa.int32()),
        ("time_ns", pa.int64()),
        ("sm_clock_hz", pa.int64()),
        ("power_w", pa.float64()),
        ("temperature_c", pa.float64()),
        ("throttle_mask", pa.int64()),  # NVML's bits; NULL where the file has words
        ("throttle", pa.string()),  # the words
    ]
)
"""What the reader hands over; sql/rank/telemetry.sql says what the columns mean."""

_BATCH_ROWS = 65_536
_MOST_LINE = 16 << 10
_MOST_DEVICES = 1 << 16  # of one host
_FAR = 1 << 62
_UNITS = {"ns": 0, "us": 3, "µs": 3, "ms": 6, "s": 9, "sec": 9, "seconds": 9}
_SCALES = {"hz": 0, "khz": 3, "mhz": 6, "ghz": 9, "w": 0, "mw": -3, "kw": 3, "c": 0, "°c": 0}
_NAME = re.compile(r"(.*?)(?:\s*[\[(]\s*([^\])]*?)\s*[\])]|_(ns|us|ms|s|hz|khz|mhz|ghz|mw|kw|w|c))?", re.DOTALL)
_VALUE = re.compile(r"([-+]?\d[\d.]{0,30}(?:[eE][-+]?\d{1,2})?)\s*([a-zA-Zµ°]*)")
_TIME = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?\s*(Z|UTC|[+-]\d\d:?\d\d)?", re.IGNORECASE
)
_CURE = "Telemetry has a header with at least a time, a gpu and an SM clock, as nvidia-smi --format=csv writes it."


@dataclass(frozen=True)
class _Column:
    place: int
    unit: str  # lower case; empty where the header has none


@dataclass
class Tally:
    """What became of the lines of a file."""

    n_rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    first_ns: int | None = None
    last_ns: int | None = None
    damage: str = ""


def is_telemetry(head: bytes) -> bool:
    """Return whether a file begins with the header of telemetry: at least a time, a device and a clock."""
    line = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    return "," in line and _columns(_fields(line)).keys() >= {"time", "gpu", "sm_clock"}


def _fields(line: str) -> list[str]:
    """Return the fields of a line; none where it is no CSV."""
    try:
        return next(csv.reader([line.rstrip("\r\n")]), [])
    except csv.Error:
        return []


def _columns(header: Sequence[str]) -> dict[str, _Column]:
    """Return where each column is; the first of a name counts."""
    found: dict[str, _Column] = {}
    for place, text in enumerate(header[:256]):
        match = _NAME.fullmatch(text.strip().lower()[:128])
        assert match is not None
        names = ((match[1], match[2] or match[3] or ""), (text.strip().lower(), ""))
        for told in catalog.data("telemetry_columns"):
            for name, unit in names:
                if told["field"] not in found and re.search(told["pattern"], name):
                    found[told["field"]] = _Column(place, unit)
    return found


def read(file: BinaryIO, path: str, sink: Callable[[pa.Table], None], utc_offset_s: int | None) -> Tally:
    """Hand over the samples batch by batch as RAW_TELEMETRY, and return what became of the lines.

    Args:
        utc_offset_s: How far the clock of times without a zone is ahead of UTC; None where nobody says.

    Raises:
        DumpError: It is no telemetry, or its times have no zone and nobody says it.
    """
    stream = ByteStream(file)
    lines = _lines(stream)
    head = next(lines, "")
    columns = _columns(_fields(head))
    if not columns.keys() >= {"time", "gpu", "sm_clock"}:
        raise DumpError(f"{path} is a CSV without the columns of telemetry", _CURE)
    reading = _Reading(path, columns, utc_offset_s)
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        row = reading.row(line)
        if row is not None:
            rows.append(row)
        if len(rows) >= _BATCH_ROWS:
            sink(_table(rows))
            rows = []
    if rows:
        sink(_table(rows))
    reading.tally.damage = stream.problem
    return reading.tally


def _lines(stream: ByteStream) -> Iterator[str]:
    """Yield the lines; what is too long to be one comes cut, and so as none that is whole."""
    rest = b""
    for piece in stream:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line[:_MOST_LINE].decode("utf-8-sig", "replace") for line in whole if line.strip())
        rest = rest[:_MOST_LINE]
    if rest.strip():
        yield rest.decode("utf-8-sig", "replace")


@dataclass
class _Reading:
    path: str
    columns: dict[str, _Column]
    utc_offset_s: int | None
    tally: Tally = field(default_factory=Tally)

    def row(self, line: str) -> tuple[Any, ...] | None:
        """Return a sample's values in the order of RAW_TELEMETRY but for its file; None where it is none: counted."""
        values = _fields(line)
        if len(values) <= max(c.place for c in self.columns.values()):
            self.tally.dropped["a line without all columns"] += 1
            return None
        told = {name: values[column.place].strip() for name, column in self.columns.items()}
        time_ns = self._time(told["time"])
        if time_ns is None or abs(time_ns) > _FAR:
            self.tally.dropped["no time, or one beyond any"] += 1
            return None
        if not (told["gpu"].isascii() and told["gpu"].isdigit()) or int(told["gpu"][:9]) >= _MOST_DEVICES:
            self.tally.dropped["a device that is no number"] += 1
            return None
        clock = self._scaled("sm_clock", told, "mhz")
        power, temperature = self._scaled("power", told, "w"), self._scaled("temperature", told, "c")
        mask, words = _throttle(told.get("throttle", ""))
        tally = self.tally
        tally.n_rows += 1
        tally.first_ns = time_ns if tally.first_ns is None else min(tally.first_ns, time_ns)
        tally.last_ns = time_ns if tally.last_ns is None else max(tally.last_ns, time_ns)
        return (
            told.get("host") or None,
            self.path.replace("\\", "/").rpartition("/")[2],
            int(told["gpu"]),
            time_ns,
            None if clock is None or not 0 <= clock < _FAR else int(clock),
            None if power is None else float(power),
            None if temperature is None else float(temperature),
            mask,
            words,
        )

    def _time(self, text: str) -> int | None:
        """Return a time in nanoseconds of UTC; None where it is none."""
        match = _TIME.fullmatch(text)
        if match is None:
            number = _VALUE.fullmatch(text)
            unit = _UNITS.get(self.columns["time"].unit or "s")
            value = _decimal(number[1]) if number is not None and unit is not None else None
            if value is None or unit is None or value.adjusted() > 30:
                return None
            return int(value.scaleb(unit).to_integral_value(ROUND_HALF_UP))
        *parts, fraction, zone = match.groups()
        year, month, day, hour, minute, second = map(int, parts)
        if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
            return None
        ahead = self.utc_offset_s
        if zone is not None:
            ahead = offset_s(zone)
        if ahead is None:
            raise DumpError(
                f"{self.path} has times without a time zone ({text}), so its samples have no place in the run: run.toml"
                ' says it with [telemetry] utc_offset = "+00:00"',
                'Write [telemetry] utc_offset = "+02:00" in run.toml, or log times in UTC.',
            )
        seconds = calendar.timegm((year, month, day, hour, minute, second)) - ahead
        return seconds * 10**9 + int((fraction or "0").ljust(9, "0"))

    def _scaled(self, name: str, told: dict[str, str], usual: str) -> Decimal | None:
        """Return a value in Hz, W or °C; None where there is none."""
        match = _VALUE.fullmatch(told.get(name, ""))
        if match is None:
            return None
        scale = _SCALES.get((match[2] or self.columns[name].unit or usual).lower())
        value = _decimal(match[1])
        return None if scale is None or value is None else value.scaleb(scale)


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def offset_s(text: str) -> int | None:
    """Return how far a zone (Z, UTC, +02:00, -0530) is ahead of UTC in seconds; None where it is no zone."""
    if text.upper() in ("Z", "UTC"):
        return 0
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", text)
    if match is None or int(match[2]) > 14 or int(match[3]) > 59:
        return None
    return (1 if match[1] == "+" else -1) * (int(match[2]) * 3_600 + int(match[3]) * 60)


def _throttle(text: str) -> tuple[int | None, str | None]:
    """Return NVML's bits, or the words, that say why a clock is held down."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18}", text):
        return int(text, 0 if "x" in text.lower() else 10) & _FAR - 1, None
    return None, None if not text or text.strip("[]").lower() in ("n/a", "not supported") else text[:200]


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    arrays = [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), RAW_TELEMETRY, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RAW_TELEMETRY)
