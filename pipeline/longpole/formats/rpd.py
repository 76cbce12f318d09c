"""ROCm's RPD (rocmProfileData) SQLite: operations of devices, and calls and markers of the host that launched them.

One file may hold several processes. An operation names its device and queue; the call that launched it, found through
`rocpd_api_ops`, says its process. A HIP graph is one call with all its operations. Times are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from longpole.errors import DumpError
from longpole.events import DumpFacts
from longpole.formats import Sink
from longpole.formats.rows import Rows, integers, texts, triples
from longpole.formats.sqlite_file import SqliteFile
from longpole.formats.tables import Kind, Lookup

NAME = "rpd"

_OPS, _API, _LINKS = "rocpd_op", "rocpd_api", "rocpd_api_ops"
_NEEDED = frozenset({_OPS, _API, "rocpd_string"})
_MOST_LINKS = 1 << 23  # held at once, 16 bytes each, and as much again while they are put in order
_MOST_PAIRS = 4_096  # of a device and a process that used it
_MARKER = "UserMarker"
_PROFILER = ("hcc_activity_callback", "rpdflush")
_RUNTIME = ("hip", "hsa", "roctx")

_Ids = npt.NDArray[np.int64]


def is_profile(file: SqliteFile) -> bool:
    """Return whether the database has the tables of RPD."""
    return file.tables >= _NEEDED


def read(file: SqliteFile, path: str, sink: Sink) -> DumpFacts:
    """Hand over all operations, calls and markers, and return what else the file says.

    Raises:
        DumpError: Its texts or calls cannot be looked up, or it has more processes than a machine.
    """
    reading = _Reading(file, path, Rows(sink))
    reading.operations()
    reading.calls()
    return reading.facts()


@dataclass
class _Reading:
    """One profile on its way to rows."""

    file: SqliteFile
    path: str
    rows: Rows
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._strings = self._lookup("rocpd_string", ("string", "text"))
        self._calls = self._lookup(_API, ("pid", "integer"))
        self._kernels = self.file.lookup("rocpd_kernelapi", _integers("gridX", "gridY", "gridZ", *_BLOCK))
        self._copies = self.file.lookup("rocpd_copyapi", _integers("size"))
        self._operators = self.file.lookup("ext_autogradapi", _integers("seq", "api_ptr_id"))
        self._op_ids, self._api_ids = self._launches()
        self._processes, self._of_device = self._device_processes()

    def _lookup(self, table: str, *columns: tuple[str, Kind]) -> Lookup:
        found = self.file.lookup(table, columns)
        if found is None:
            raise DumpError(f"{self.path} is an RPD profile whose table {table} has no key", "Record it again.")
        return found

    def _batches(self, table: str, *columns: str) -> Iterator[dict[str, list[Any]]]:
        for batch in self.file.batches(table, _integers(*columns)):
            yield dict(zip(columns, batch, strict=True))

    def _launches(self) -> tuple[_Ids, _Ids]:
        """Return operations in order, and the first call of each."""
        pairs: list[_Ids] = []
        n_links = 0
        for batch in self._batches(_LINKS, "op_id", "api_id"):
            known = [p for p in zip(batch["op_id"], batch["api_id"], strict=True) if None not in p]
            n_links += len(known)
            if n_links > _MOST_LINKS:
                self.notes.append(f"launches of operations beyond the first {_MOST_LINKS:,} are not looked for")
                break
            pairs.append(np.array(known, np.int64).reshape(-1, 2))
        links = np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)
        pairs.clear()
        links = links[np.lexsort((links[:, 1], links[:, 0]))]
        first = np.ones(len(links), bool)
        first[1:] = links[1:, 0] != links[:-1, 0]
        return links[first, 0], links[first, 1]

    def _calls_of(self, operations: list[int | None]) -> list[int | None]:
        """Return the call that launched each operation."""
        if not len(self._op_ids):
            return [None] * len(operations)
        ids = np.array([-1 if i is None else i for i in operations], np.int64)
        places = np.minimum(np.searchsorted(self._op_ids, ids), len(self._op_ids) - 1)
        found = self._op_ids[places] == ids
        return [int(call) if is_found else None for call, is_found in zip(self._api_ids[places], found, strict=True)]

    def _device_processes(self) -> tuple[set[int], dict[int | None, int]]:
        """Return the processes that launched kernels, or else anything, and the first of each device."""
        seen: set[tuple[int | None, int, bool]] = set()
        for batch in self._batches(_OPS, "id", "gpuId", "opType_id"):
            owners = self._calls.first(self._calls_of(batch["id"]))
            are_kernels = [_category(kind or "") == "kernel" for kind in self._strings.first(batch["opType_id"])]
            seen.update(row for row in zip(batch["gpuId"], owners, are_kernels, strict=True) if row[1] is not None)
            if len(seen) > _MOST_PAIRS:
                raise DumpError(
                    f"{self.path} has device work of more than {_MOST_PAIRS} pairs of device and process",
                    "Record one machine in one file.",
                )
        # One that only copies or fills is no rank beside those that compute.
        ranked = {row for row in seen if row[2]} or seen
        processes = {owner for _, owner, _ in ranked}
        of_device: dict[int | None, int] = {}
        for device, owner, _ in ranked:
            of_device[device] = min(owner, of_device.get(device, owner))
        return processes, of_device

    def operations(self) -> None:
        n_unlinked = 0
        columns = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
        for batch in self._batches(_OPS, *columns):
            launched_by = self._calls_of(batch["id"])
            n_unlinked += launched_by.count(None)
            owners = self._calls.first(launched_by)
            kinds = self._strings.first(batch["opType_id"])
            told = self._strings.first(batch["description_id"])
            categories = [_category(kind or "") for kind in kinds]
            process = integers(
                [self._of_device.get(d) if o is None else o for o, d in zip(owners, batch["gpuId"], strict=True)]
            )
            mine = self.rows.of_ranks(process, self._processes, "operations of processes without kernels")
            sizes = [self._size(c, call) for c, call in zip(categories, launched_by, strict=True)]
            shapes = [self._shape(c, call) for c, call in zip(categories, launched_by, strict=True)]
            self.rows.add(
                start=integers(batch["start"]),
                end=integers(batch["end"]),
                keep=mine,
                category=texts(categories),
                name=texts([t or k or "(unnamed operation)" for t, k in zip(told, kinds, strict=True)]),
                process=process,
                device=integers(batch["gpuId"]),
                stream=integers(batch["queueId"]),
                correlation_id=integers(launched_by),
                n_bytes=integers(sizes),
                grid=triples(*zip(*(s[:3] for s in shapes), strict=True)),
                block=triples(*zip(*(s[3:] for s in shapes), strict=True)),
            )
        if n_unlinked:
            self.notes.append(f"{n_unlinked:,} operations have no call that launched them")

    def _size(self, category: str, call: int | None) -> int | None:
        row = self._copies.row(call) if self._copies and category in {"memcpy", "memset"} else None
        return row[0] if row else None

    def _shape(self, category: str, call: int | None) -> tuple[int | None, ...]:
        row = self._kernels.row(call) if self._kernels and category == "kernel" else None
        return row or (None,) * 6

    def calls(self) -> None:
        columns = ("id", "pid", "tid", "start", "end", "apiName_id", "args_id")
        for batch in self._batches(_API, *columns):
            process = integers(batch["pid"])
            mine = self.rows.of_ranks(process, self._processes, "calls of processes without kernels")
            names = self._strings.first(batch["apiName_id"])
            told = self._strings.first(batch["args_id"])
            found = [self._call(*row) for row in zip(batch["id"], names, told, strict=True)]
            self.rows.add(
                start=integers(batch["start"]),
                end=integers(batch["end"]),
                keep=mine,
                category=texts([category for category, _, _ in found]),
                name=texts([name for _, name, _ in found]),
                process=process,
                thread=integers(batch["tid"]),
                correlation_id=pc.if_else(
                    pa.array([category == "runtime" for category, _, _ in found], pa.bool_()),
                    integers(batch["id"]),
                    None,
                ),
                sequence_id=integers([sequence for _, _, sequence in found]),
            )

    def _call(self, number: int | None, name: str | None, told: str | None) -> tuple[str, str, int | None]:
        """Return category, name and sequence number of a row: a marker's text stands in its arguments."""
        if name == _MARKER:
            operator = self._operators.row(number) if self._operators else None
            return (
                "annotation" if operator is None else "cpu_op",
                told or "(unnamed)",
                operator[0] if operator else None,
            )
        if name is None:
            return "annotation", "(unnamed)", None
        if name in _PROFILER or name.endswith("::writeRows"):
            return "overhead", name, None
        return "runtime" if name.startswith(_RUNTIME) else "annotation", name, None

    def facts(self) -> DumpFacts:
        """Return what the profile says besides its rows."""
        return DumpFacts(
            format=NAME,
            schema=f"RPD {self._version()}",
            processes=tuple(sorted(self._processes)),
            notes=tuple(self.notes),
            **self.rows.counted(self.file.damage),
        )

    def _version(self) -> str:
        columns: list[tuple[str, Kind]] = [("tag", "text"), ("value", "text")]
        for tags, values in self.file.batches("rocpd_metadata", columns):
            for tag, value in zip(tags, values, strict=True):
                if tag == "schema_version" and value is not None:
                    return f"schema {value[:20]}"
            break
        return "of an unknown version"


_BLOCK = ("workgroupX", "workgroupY", "workgroupZ")


def _integers(*names: str) -> list[tuple[str, Kind]]:
    return [(name, "integer") for name in names]


def _category(kind: str) -> str:
    """Return the category of a type of operation; a graph's kernels are of type Task."""
    if kind.startswith("Copy"):
        return "memcpy"
    if kind.startswith("Fill"):
        return "memset"
    return "sync" if "Barrier" in kind or "Marker" in kind else "kernel"
