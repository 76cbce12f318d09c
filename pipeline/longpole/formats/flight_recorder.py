"""A flight recorder's dump, the last collectives of one rank: a pickle or JSON of PyTorch's to rows of RAW_FLIGHT."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from longpole.errors import DumpError
from longpole.formats import plain_pickle

_TEXT = pa.dictionary(pa.int32(), pa.string())  # a text that many records name costs its length once

RAW_FLIGHT = pa.schema(
    [
        ("record_id", pa.int64()),
        ("group_id", _TEXT),
        ("group_description", _TEXT),
        ("group_ranks", _TEXT),
        ("collective_seq", pa.int64()),
        ("p2p_seq", pa.int64()),
        ("op_id", pa.int64()),
        ("name", _TEXT),
        ("is_p2p", pa.bool_()),
        ("input_sizes", _TEXT),
        ("input_dtypes", _TEXT),
        ("output_sizes", _TEXT),
        ("output_dtypes", _TEXT),
        ("state", _TEXT),
        ("is_retired", pa.bool_()),
        ("created_ns", pa.int64()),
        ("started_ns", pa.int64()),
        ("completed_ns", pa.int64()),
        ("duration_ms", pa.float64()),
        ("timeout_ms", pa.int64()),
        ("frame", _TEXT),
    ]
)
"""Records as the dump has them, one spelling for all versions; NULL where it does not say, or says no such thing."""

MOST_JSON_VALUES = 8_000_000
"""Values of a JSON dump, counted by the commas and brackets before it is read: each takes up to 250 bytes then."""

_MOST_ENTRIES = 200_000  # of a buffer; people set 2,000 to 20,000
_MOST_RANKS = 1 << 20  # of a group, as params.largest_world
_LONGEST = 1_024  # characters of a text that is kept
_LONGEST_RANKS = 64 << 10  # characters of a group's ranks: 10,000 of no pattern
_MOST_TENSORS = 1_024  # of one record whose sizes are kept
_MOST_DIMS = 32
_LONGEST_MS = 1e12
_CURE = "PyTorch writes such dumps where TORCH_FR_BUFFER_SIZE or TORCH_NCCL_TRACE_BUFFER_SIZE is set; copy it again."

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_ENTRIES = re.compile(rb'"entries"\s*:\s*\[\s*[{\]]')
_RANK_LAST = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle))?(?:\.gz)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Flight:
    """One rank's dump: its records, in the order of the file, and what else it says."""

    records: pa.Table
    version: str
    form: str  # pickle or JSON
    world_size: int | None  # ranks of the default group
    n_entries: int

    @property
    def schema(self) -> str:
        """Return the generation of the format, as a phrase."""
        return f"{self.form}, version {self.version}"


def is_flight(head: bytes) -> bool:
    """Return whether a file that begins with `head`, decompressed, is a pickle, or JSON of such records."""
    if _PICKLE.match(head):
        return True
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") or b'"traceEvents"' in head:
        return False
    return _ENTRIES.search(head) is not None and (b'"profiling_name"' in head or b'"pg_config"' in head)


def rank_at_end(name: str) -> int | None:
    """Return the number at the end of a file's name: the writer puts the rank behind what it is told to."""
    match = _RANK_LAST.search(PurePosixPath(name).name)
    return int(match[1]) if match else None


def read_flight(raw: bytes, path: str) -> Flight:
    """Return the dump that these bytes are; nothing in it is executed.

    Raises:
        DumpError: It is damaged, larger than any dump, or no flight recorder's.
    """
    raw = _decompressed(raw, path)
    if _PICKLE.match(raw):
        form, loaded = "pickle", plain_pickle.load(raw, path)
    else:
        form, loaded = "JSON", _of_json(raw, path)
    told = {"entries": loaded} if isinstance(loaded, list) else loaded  # the first versions had records alone
    entries = told.get("entries") if isinstance(told, dict) else None
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise DumpError(f"{path} is {form} without the records of a flight recorder", _CURE)
    if len(entries) > _MOST_ENTRIES:
        raise DumpError(f"{path} has {len(entries):,} records, more than {_MOST_ENTRIES:,}", _CURE)
    once = _Once()
    groups = _groups(told.get("pg_config"), once)
    rows = [_row(e, groups, once) for e in entries if "profiling_name" in e or "record_id" in e]
    if entries and not rows:
        raise DumpError(f"{path} is {form} without the records of a flight recorder", _CURE)
    world = next((g for g in groups.values() if g[0] == "default_pg"), groups.get("0", (None, None)))[1]
    return Flight(
        pa.Table.from_pylist(rows, schema=RAW_FLIGHT),
        _text(told.get("version")) or "unknown",
        form,
        len(world) if world else None,
        len(entries),
    )


class _Once:
    """What a value says, worked out once: a pickle of a few bytes a record may name one long list in each of them."""

    def __init__(self) -> None:
        self._known: dict[tuple[Callable[[Any], Any], int], Any] = {}  # by identity: all values live until the end

    def __call__(self, read: Callable[[Any], _Said], value: object) -> _Said:
        key = (read, id(value))
        if key not in self._known:
            self._known[key] = read(value)
        said: _Said = self._known[key]
        return said


_Said = TypeVar("_Said")
_Group = tuple[str | None, list[int] | None]


def _ranks_text(ranks: list[int] | None) -> str | None:
    """Return ascending ranks as runs, FIRST-LAST or FIRST-LAST:STRIDE: groups of a mesh are one run however large."""
    runs: list[list[int]] = []  # first, last, stride
    for rank in ranks or ():
        run = runs[-1] if runs else None
        if run is not None and (run[0] == run[1] or rank - run[1] == run[2]):
            run[1:] = [rank, rank - run[1]]
        else:
            runs.append([rank, rank, 0])
    texts = []
    for first, last, stride in runs:
        if first == last:
            texts.append(str(first))
        elif last - first == stride > 1:
            texts.append(f"{first},{last}")
        else:
            texts.append(f"{first}-{last}" + (f":{stride}" if stride > 1 else ""))
    text = ",".join(texts)
    return text if 0 < len(text) <= _LONGEST_RANKS else None


def _groups(told: object, once: _Once) -> dict[str, _Group]:
    """Return description and ranks of each process group by its name; ranks are None where none are listed."""
    groups: dict[str, _Group] = {}
    for key, value in told.items() if isinstance(told, dict) else ():
        if not isinstance(value, dict):
            continue
        name = _text(value.get("name")) or _text(key) or ""
        groups[name] = (_text(value.get("desc")), once(_ranks, value.get("ranks")))
    return groups


def _ranks(listed: object) -> list[int] | None:
    numbers: Iterable[Any] = listed if isinstance(listed, list) else ()
    if isinstance(listed, str):
        numbers = (int(n) for n in re.findall(r"(?<!\d)\d{1,7}(?!\d)", listed))
    return sorted({n for n in numbers if type(n) is int and 0 <= n < _MOST_RANKS}) or None


def _row(entry: dict[Any, Any], groups: dict[str, _Group], once: _Once) -> dict[str, Any]:
    pair = entry.get("process_group")
    told = list(pair[:2]) if isinstance(pair, tuple | list) else [entry.get("pg_name"), entry.get("pg_desc")]
    name, description = [_text(t) for t in [*told, None, None][:2]]
    if name is None:
        name = _text(entry.get("pg_id")) or ""
    known, ranks = groups.get(name, (None, None))
    is_p2p = entry.get("is_p2p")
    return {
        "record_id": _integer(entry.get("record_id")),
        "group_id": name,
        "group_description": description or known,
        "group_ranks": once(_ranks_text, ranks),
        "collective_seq": _integer(entry.get("collective_seq_id", entry.get("seq_id"))),
        "p2p_seq": _integer(entry.get("p2p_seq_id")),
        "op_id": _integer(entry.get("op_id")),
        "name": _text(entry.get("profiling_name")),
        "is_p2p": is_p2p if isinstance(is_p2p, bool) else None,
        "input_sizes": once(_sizes, entry.get("input_sizes")),
        "input_dtypes": once(_dtypes, entry.get("input_dtypes")),
        "output_sizes": once(_sizes, entry.get("output_sizes")),
        "output_dtypes": once(_dtypes, entry.get("output_dtypes")),
        "state": _text(entry.get("state")),
        "is_retired": entry.get("retired") if isinstance(entry.get("retired"), bool) else None,
        "created_ns": _integer(entry.get("time_created_ns")),
        "started_ns": _integer(entry.get("time_discovered_started_ns")),
        "completed_ns": _integer(entry.get("time_discovered_completed_ns")),
        "duration_ms": _number(entry.get("duration_ms")),
        "timeout_ms": _integer(entry.get("timeout_ms")),
        "frame": once(_frame, entry.get("frames")),
    }


def _integer(value: object) -> int | None:
    """Return a whole number that 64 bits hold; some writers put numbers in quotes."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _number(value: object) -> float | None:
    """Return a number that is one; JSON may have it as a text."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}(\.\d{1,15})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _LONGEST_MS else None


def _text(value: object) -> str | None:
    if type(value) is int:
        return str(value) if abs(value) < 1 << 63 else None
    return value[:_LONGEST].encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _sizes(value: object) -> str | None:
    """Return sizes as text, [[1000],[4,25]]; None for what are none, or too many."""
    if not isinstance(value, list | tuple) or len(value) > _MOST_TENSORS:
        return None
    texts = []
    for dims in value:
        if not isinstance(dims, list | tuple) or len(dims) > _MOST_DIMS:
            return None
        numbers = [_integer(d) for d in dims]
        if None in numbers:
            return None
        texts.append(f"[{','.join(map(str, numbers))}]")
    text = f"[{','.join(texts)}]"
    return text if len(text) <= _LONGEST else None


def _dtypes(value: object) -> str | None:
    """Return types of tensors as one text; one that all have stands once."""
    if not isinstance(value, list | tuple) or len(value) > _MOST_TENSORS:
        return None
    names = [_text(v) or "?" for v in value]
    text = ";".join(names[:1] if len(set(names)) == 1 else names)
    return text if len(text) <= _LONGEST else None


def _frame(value: object) -> str | None:
    """Return where the call stands, as FILE:LINE FUNCTION: the innermost frame that is not PyTorch's own."""
    frames = [f for f in value[:256] if isinstance(f, dict)] if isinstance(value, list | tuple) else []
    own = [f for f in frames if "/torch/" not in (_text(f.get("filename")) or "")]
    for frame in (own or frames)[:1]:
        file = PurePosixPath(_text(frame.get("filename")) or "?").name
        line = _integer(frame.get("line"))
        return f"{file}:{'?' if line is None else line} {_text(frame.get('name')) or '?'}"[:_LONGEST]
    return None


def _decompressed(raw: bytes, path: str) -> bytes:
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = zlib.decompressobj(31).decompress(raw, plain_pickle.MOST_BYTES + 1)
        except zlib.error:
            raise DumpError(f"{path} is a gzip file that cannot be decompressed", _CURE) from None
    if len(raw) > plain_pickle.MOST_BYTES:
        raise DumpError(f"{path} has more than {plain_pickle.MOST_BYTES:,} bytes, as no flight recorder's dump", _CURE)
    return raw


def _of_json(raw: bytes, path: str) -> Any:
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MOST_JSON_VALUES:
        raise DumpError(f"{path} is JSON of more than {MOST_JSON_VALUES:,} values", _CURE)
    try:
        return msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise DumpError(f"{path} is JSON that is damaged or cut off: {str(error)[:200]}", _CURE) from None
