"""rocprofv3's JSON: kernels, copies and host regions of one process, in lists that stream by.

What they refer to, agents, symbols and texts, stands before them in the file. The kinds are those of rocpd.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa

from longpole.errors import DumpError
from longpole.events import Device, DumpFacts
from longpole.formats import ReadOptions, Sink
from longpole.formats.bytestream import ByteStream
from longpole.formats.json_stream import JsonError, JsonStream
from longpole.formats.repair import without_surrogates
from longpole.formats.rocprofv3 import call_category, is_marker, n_blocks
from longpole.formats.rows import Rows, integers, nonzero, texts, triples
from longpole.formats.tables import BATCH_ROWS, LONGEST_TEXT

_TOOL = "rocprofiler-sdk-tool"
_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"' + _TOOL.encode() + rb'"\s*:')
_GPU = 2  # rocprofiler_agent_type_t
_AXES = ("x", "y", "z")
_MOST_AGENTS = 4_096
_MOST_SYMBOLS = 1 << 18
_MOST_MESSAGES = 1 << 20
_MOST_KINDS = 256
_MOST_OPERATIONS = 1_024  # of one kind; HIP's runtime has five hundred
_LONGEST_NAME = 256  # characters of an operation
_MOST_CHARACTERS = 1 << 27  # of symbols and markers together, which are held

_TOO_LONG = f"names of kernels and markers beyond {_MOST_CHARACTERS >> 20} MiB are not known"

Record = dict[str, Any]


class RocprofJsonReader:
    """Reads what `rocprofv3 --output-format json` writes."""

    name = "rocprofv3-json"

    def recognises(self, head: bytes, path: str) -> bool:
        """Return whether a file that begins with `head` (decompressed, up to 64 KiB) is such a file."""
        return _HEAD.match(head) is not None

    def read(self, file: BinaryIO, path: str, sink: Sink, options: ReadOptions) -> DumpFacts:
        """Hand over all kernels, copies and regions, and return what else the file says.

        Raises:
            DumpError: Nothing in it can be read, or it is of several processes.
        """
        stream = ByteStream(file)
        reading = _Reading(JsonStream(stream), path, Rows(sink))
        damage = []
        try:
            reading.document()
        except JsonError as error:
            why = stream.problem or str(error)
            if not reading.rows.n_stored:
                raise DumpError(
                    f"{path} begins like rocprofv3's JSON, but {why}", "Record again, or copy it again."
                ) from None
            damage.append(f"after {reading.rows.n_stored:,} events, {why}")
        return DumpFacts(
            format=self.name,
            schema="rocprofv3 JSON",
            host=reading.host,
            devices=tuple(reading.devices),
            processes=(reading.process,) if reading.process is not None else (),
            notes=tuple(reading.notes),
            **reading.rows.counted(damage),
        )


@dataclass
class _Reading:
    """One file on its way to rows."""

    stream: JsonStream
    path: str
    rows: Rows
    process: int | None = None
    host: str | None = None
    devices: list[Device] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _gpus: dict[int, int | None] = field(default_factory=dict)  # index by handle
    _kinds: list[tuple[str, list[str]]] = field(default_factory=list)  # and the names of their operations
    _symbols: dict[int, str] = field(default_factory=dict)
    _messages: dict[int, str] = field(default_factory=dict)
    _n_characters: int = 0

    def document(self) -> None:
        n_recordings = 0
        for key in self.stream.members():
            if key != _TOOL:
                self.stream.skip()
            elif self.stream.first() == "[":
                for _ in self.stream.items():
                    n_recordings += 1
                    if n_recordings > 1:
                        raise DumpError(
                            f"{self.path} holds the recordings of several processes",
                            "Give the files as rocprofv3 wrote them, one a process.",
                        )
                    self._recording()
            else:
                self._recording()

    def _recording(self) -> None:
        takers: dict[str, Callable[[], None]] = {
            "metadata": self._metadata,
            "agents": self._agents,
            "strings": self._strings,
            "kernel_symbols": self._kernel_symbols,
            "buffer_records": self._buffer_records,
        }
        for key in self.stream.members():
            takers.get(key, self.stream.skip)()

    def _metadata(self) -> None:
        told = _object(self.stream.value())
        self.process = _integer(told.get("pid"))
        self.host = _text(_object(told.get("node")).get("hostname")) or None

    def _agents(self) -> None:
        for agent in self._objects(_MOST_AGENTS, "agents"):
            handle = _integer(_object(agent.get("id")).get("handle"))
            if handle is None or agent.get("type") != _GPU:
                continue
            index = _integer(agent.get("logical_node_type_id"))
            self._gpus[handle] = index
            if index is not None and 0 <= index < 2**31:
                self.devices.append(Device(index, _text(agent.get("product_name")) or _text(agent.get("name"))))

    def _strings(self) -> None:
        for key in self.stream.members():
            if key == "buffer_records":
                self._kinds = []
                for kind in self._objects(_MOST_KINDS, "kinds of records"):
                    operations = kind.get("operations")
                    listed = operations[:_MOST_OPERATIONS] if isinstance(operations, list) else []
                    self._kinds.append((_text(kind.get("kind")), [_text(name)[:_LONGEST_NAME] for name in listed]))
            elif key == "marker_api":
                known: dict[str, str] = {}
                for message in self._objects(_MOST_MESSAGES, "markers"):
                    number, text = _integer(message.get("key")), _text(message.get("value"))
                    if number is not None and text and (text in known or self._has_room(text)):
                        self._messages[number] = known.setdefault(text, text)
            else:
                self.stream.skip()

    def _kernel_symbols(self) -> None:
        for symbol in self._objects(_MOST_SYMBOLS, "kernels' names"):
            number = _integer(symbol.get("kernel_id"))
            names = (_text(symbol.get(key)) for key in ("formatted_kernel_name", "kernel_name"))
            name = next((name for name in names if name), "")
            if number is not None and name and self._has_room(name):
                self._symbols[number] = name

    def _has_room(self, text: str) -> bool:
        self._n_characters += len(text)
        if self._n_characters <= _MOST_CHARACTERS:
            return True
        if _TOO_LONG not in self.notes:
            self.notes.append(_TOO_LONG)
        return False

    def _buffer_records(self) -> None:
        for key in self.stream.members():
            if key == "kernel_dispatch":
                self._each_batch(self._kernels)
            elif key == "memory_copy":
                self._each_batch(self._copies)
            elif key.endswith("_api"):
                self._each_batch(self._regions)
            else:
                self.stream.skip()

    def _objects(self, most: int, what: str) -> Iterator[Record]:
        """Yield the objects of a list, `most` of them, an empty one for an item that is none."""
        n_items = 0
        for _ in self.stream.items():
            n_items += 1
            if n_items > most:
                self.stream.skip()
            else:
                yield _object(self.stream.value())
        if n_items > most:
            self.notes.append(f"of {n_items:,} {what} only the first {most:,} are known")

    def _each_batch(self, take: Callable[[list[Record]], None]) -> None:
        records: list[Record] = []
        try:
            for _ in self.stream.items():
                record = self.stream.value()
                if not isinstance(record, dict):
                    self.rows.dropped["a record that is no object"] += 1
                    continue
                records.append(record)
                if len(records) == BATCH_ROWS:
                    take(records)
                    records = []
        finally:  # what is whole of a list without an end
            if records:
                take(records)

    def _shared(self, records: list[Record]) -> dict[str, Any]:
        correlations = [_integer(_object(r.get("correlation_id")).get("internal")) for r in records]
        return {
            "start": _integers(records, "start_timestamp"),
            "end": _integers(records, "end_timestamp"),
            "process": integers([self.process] * len(records)),
            "correlation_id": nonzero(integers(correlations)),
        }

    def _kernels(self, records: list[Record]) -> None:
        told = [_object(r.get("dispatch_info")) for r in records]
        items, groups = ([[_integer(_object(t.get(key)).get(axis)) for t in told] for axis in _AXES]
                         for key in ("grid_size", "workgroup_size"))  # fmt: skip
        streams = [_handle(r.get("stream_id")) for r in records]
        queues = [_handle(t.get("queue_id")) for t in told]
        names = [self._symbols.get(_integer(t.get("kernel_id")) or 0, "(unnamed kernel)") for t in told]
        self.rows.add(
            **self._shared(records),
            category=texts(["kernel"] * len(records)),
            name=texts(names),
            device=integers([self._gpus.get(_handle(t.get("agent_id")) or 0) for t in told]),
            stream=integers([s if s is not None else q for s, q in zip(streams, queues, strict=True)]),
            grid=triples(*(n_blocks(*pair) for pair in zip(items, groups, strict=True))),
            block=triples(*groups),
            graph_node_id=nonzero(_integers(records, "graph_node_id")),
        )

    def _copies(self, records: list[Record]) -> None:
        devices = []
        for record in records:
            agents = [_handle(record.get(key)) for key in ("dst_agent_id", "src_agent_id")]
            devices.append(next((self._gpus[a] for a in agents if a in self._gpus), None))
        self.rows.add(
            **self._shared(records),
            category=texts(["memcpy"] * len(records)),
            name=texts([self._operation(r)[1] or "(unnamed copy)" for r in records]),
            device=integers(devices),
            stream=integers([_handle(r.get("stream_id")) for r in records]),
            n_bytes=_integers(records, "bytes"),
        )

    def _regions(self, records: list[Record]) -> None:
        shared = self._shared(records)
        found = [
            self._region(r, number) for r, number in zip(records, shared["correlation_id"].to_pylist(), strict=True)
        ]
        is_call = pa.array([category == "runtime" for category, _ in found], pa.bool_())
        shared["correlation_id"] = pa.compute.if_else(is_call, shared["correlation_id"], None)
        self.rows.add(
            **shared,
            category=texts([category for category, _ in found]),
            name=texts([name for _, name in found]),
            thread=_integers(records, "thread_id"),
        )

    def _region(self, record: Record, number: int | None) -> tuple[str, str]:
        """Return category and name of a host's region."""
        kind, name = self._operation(record)
        if is_marker(kind):
            return "annotation", self._messages.get(number or 0) or name or "(unnamed)"
        return call_category(kind, name), name or "(unnamed)"

    def _operation(self, record: Record) -> tuple[str, str]:
        """Return kind and operation of a record by name, empty where the file does not tell it."""
        number, place = _integer(record.get("kind")), _integer(record.get("operation"))
        if number is None or not 0 <= number < len(self._kinds):
            return "", ""
        kind, operations = self._kinds[number]
        return kind, operations[place] if place is not None and 0 <= place < len(operations) else ""


def _object(value: Any) -> Record:
    return value if isinstance(value, dict) else {}


def _handle(value: Any) -> int | None:
    return _integer(_object(value).get("handle"))


def _integer(value: Any) -> int | None:
    """Return a whole number that fits int64."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
    return value if is_one else None


def _integers(records: list[Record], key: str) -> pa.Array:
    return integers([_integer(record.get(key)) for record in records])


def _text(value: Any) -> str:
    return without_surrogates(value[:LONGEST_TEXT]) if isinstance(value, str) else ""
