"""What an NVTX range carries beside its text: its domain's name and its payload, as a marker of steps may need them.

A payload is a number, JSON, or bytes that a schema describes. It is no part of a range's name, or each call of a
library that attaches sizes would have a name of its own; only what the run's marker asks for is.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longpole.formats.tables import Kind, Tables

COLUMNS: tuple[tuple[str, Kind], ...] = (
    ("domainId", "integer"),
    ("int64Value", "integer"),
    ("uint64Value", "integer"),
    ("int32Value", "integer"),
    ("uint32Value", "integer"),
    ("doubleValue", "real"),
    ("floatValue", "real"),
    ("jsonText", "text"),
    ("jsonTextId", "integer"),
    ("binaryData", "bytes"),
)
"""The columns of a range that are asked for beside its text."""

_RANGES, _ENTRIES = "NVTX_EVENTS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"
_DOMAIN = 75  # ENUM_NSYS_EVENT_TYPE: a domain is made, its text is its name
_NUMBERS = tuple(name for name, kind in COLUMNS if kind in ("integer", "real") and name.endswith("Value"))
_HEADER = struct.Struct("<QQQQ")  # domain, schema, bytes of the payload, and where it begins or ends; then itself
_FORMATS = {
    **dict.fromkeys((1, 11), "<b"),
    **dict.fromkeys((2, 12), "<B"),
    **dict.fromkeys((3, 13), "<h"),
    **dict.fromkeys((4, 14), "<H"),
    **dict.fromkeys((5, 15), "<i"),
    **dict.fromkeys((6, 16), "<I"),
    **dict.fromkeys((7, 9, 17), "<q"),
    **dict.fromkeys((8, 10, 18, 22), "<Q"),
    19: "<f",
    20: "<d",
}
"""NVTX_PAYLOAD_ENTRY_TYPE (nvToolsExtPayload.h) as Linux on 64 bits lays them out: 22 is a size."""

_MOST_DOMAINS = 4_096
_MOST_ENTRIES = 65_536
_MOST_OF_SCHEMA = 64  # each range's payload is read by all of them


class Payloads:
    """Domains and payload schemas of one export."""

    def __init__(self, file: Tables, marker: str) -> None:
        self._marker = marker
        self._domains = dict(_domains(file))
        self._entries = _entries(file)

    def names(self, said: Sequence[str | None], batch: dict[str, list[Any]], json_texts: Sequence[Any]) -> list[Any]:
        """Return the names of ranges: what the marker matches of text, payload and domain, else the text alone.

        Args:
            said: Their texts.
            batch: Their columns, those of COLUMNS among them, and globalTid.
            json_texts: The texts of jsonTextId.
        """
        payloads = self._payloads(batch, json_texts)
        domains = [
            self._domains.get((tid >> 24 if tid is not None else None, domain))
            for tid, domain in zip(batch["globalTid"], batch["domainId"], strict=True)
        ]
        names = list(said)
        is_open = [text is not None and (p is not None or d is not None)
                   for text, p, d in zip(said, payloads, domains, strict=True)]  # fmt: skip
        is_open = [o and not m for o, m in zip(is_open, self._matches(names), strict=True)]
        for has_domain, has_payload in ((False, True), (True, False), (True, True)):
            if not any(is_open):
                break
            spelt = [
                _spelt(text, domain if has_domain else None, payload if has_payload else None) if o else None
                for o, text, domain, payload in zip(is_open, said, domains, payloads, strict=True)
            ]
            for place, fits in enumerate(self._matches(spelt)):
                if fits:
                    names[place], is_open[place] = spelt[place], False
        return names

    def _matches(self, texts: list[Any]) -> list[bool]:
        found = pc.match_substring_regex(pa.array(texts, pa.string()), self._marker)
        return [bool(fits) for fits in found.to_pylist()]

    def _payloads(self, batch: dict[str, list[Any]], json_texts: Sequence[Any]) -> list[str | None]:
        numbers = zip(*(batch[name] for name in _NUMBERS), strict=True)
        return [
            _number(values) if text is None and data is None else text if text is not None else self._decoded(data)
            for values, text, data in zip(
                numbers,
                [a if a is not None else b for a, b in zip(batch["jsonText"], json_texts, strict=True)],
                batch["binaryData"],
                strict=True,
            )
        ]

    def _decoded(self, data: bytes) -> str | None:
        """Return the numbers in a payload by the names that its schema gives them, as JSON."""
        if len(data) < _HEADER.size:
            return None
        domain, schema, n_bytes, _ = _HEADER.unpack_from(data)
        body = data[_HEADER.size : _HEADER.size + n_bytes]
        found = {}
        for name, layout, offset in self._entries.get((domain, schema), ()):
            if offset + struct.calcsize(layout) <= len(body):
                (found[name],) = struct.unpack_from(layout, body, offset)
        return json.dumps(found, separators=(",", ":")) if found else None


def _domains(file: Tables) -> Iterator[tuple[tuple[int | None, int | None], str]]:
    """Yield process and number of each domain that has a name."""
    names = file.lookup("StringIds", [("value", "text")])
    n_domains = 0
    columns: list[tuple[str, Kind]] = [
        ("globalTid", "integer"), ("domainId", "integer"), ("text", "text"), ("textId", "integer"),
    ]  # fmt: skip
    for tids, numbers, texts, ids in file.batches(_RANGES, columns, ("eventType", _DOMAIN)):
        registered = names.first(ids) if names is not None else [None] * len(ids)
        for tid, number, text, other in zip(tids, numbers, texts, registered, strict=True):
            name = text if text is not None else other
            if name and tid is not None:
                n_domains += 1
                yield (tid >> 24, number), name
        if n_domains > _MOST_DOMAINS:
            return


def _entries(file: Tables) -> dict[tuple[int, int], list[tuple[str, str, int]]]:
    """Return name, layout and offset of the numbers of each schema, by domain and number."""
    found: dict[tuple[int, int], dict[str, tuple[str, str, int]]] = {}
    n_rows = 0
    columns: list[tuple[str, Kind]] = [
        ("domainId", "integer"), ("schemaId", "integer"), ("type", "integer"), ("name", "text"), ("offset", "integer"),
    ]  # fmt: skip
    for batch in file.batches(_ENTRIES, columns):
        for domain, schema, kind, name, offset in zip(*batch, strict=True):
            if kind in _FORMATS and name and domain is not None and schema is not None and (offset or 0) >= 0:
                entries = found.setdefault((domain, schema), {})
                if len(entries) < _MOST_OF_SCHEMA:
                    entries[name] = (name, _FORMATS[kind], offset or 0)
        n_rows += len(batch[0])
        if n_rows > _MOST_ENTRIES:
            break
    return {key: list(entries.values()) for key, entries in found.items()}


def _number(values: Sequence[Any]) -> str | None:
    """Return the one that was set: older exporters write 0 for the others."""
    told = [(name, value) for name, value in zip(_NUMBERS, values, strict=True) if value is not None]
    if not told:
        return None
    name, value = next(((n, v) for n, v in told if v), told[0])
    if name == "uint64Value" and value < 0:  # a column of databases has a sign
        value += 1 << 64
    return re.sub(r"\.0$", "", repr(value))


def _spelt(text: str | None, domain: str | None, payload: str | None) -> str:
    head = f"{domain}:{text}" if domain is not None else f"{text}"
    return f"{head}, payload = {payload}" if payload is not None else head
