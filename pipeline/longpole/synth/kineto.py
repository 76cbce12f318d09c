"""Rows as the text the newest PyTorch profiler writes: one key a line, host events before device events.

A real dump says more than RAW_SCHEMA keeps: flows, strides, registers, metadata rows. What is said here beyond
the rows follows from them or is constant, so a reader must give the rows back unchanged.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from longpole.events import DumpFacts
from longpole.synth.made import US
from longpole.synth.shapes import ARGUMENTS

Row = dict[str, Any]

_DEVICE_CATEGORIES = pa.array(["kernel", "memcpy", "memset", "sync", "gpu_annotation"])
_SPELLING = {
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "sync": "cuda_sync",
    "runtime": "cuda_runtime",
    "cpu_op": "cpu_op",
    "annotation": "user_annotation",
    "gpu_annotation": "gpu_user_annotation",
}
_CALLBACK_IDS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaGraphLaunch": 311,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
    "cudaMalloc": 20,
}
"""CUPTI's numbers of runtime calls, from cupti_runtime_cbid.h."""

_FLOW_CALLS = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaGraphLaunch",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cudaStreamWaitEvent",
    }
)


class KinetoDump:
    """One dump in the writing: all host rows, then all device rows, then `close`."""

    def __init__(self, path: Path, facts: DumpFacts, *, compress: bool) -> None:
        self.path = path
        self._facts = facts
        raw = path.open("wb")
        # No name and no time in the gzip header: equal rows, equal bytes.
        self._file: BufferedIOBase = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if compress else raw
        self._raw = raw
        self._n_host = 0
        self._flows: dict[int, int] = {}
        self._threads: dict[tuple[int, int], None] = {}
        self._first = self._last = -1
        self._say(_header(facts))

    def add(self, table: pa.Table, *, device: bool) -> None:
        """Write the device rows of `table`, or the host ones."""
        is_device = pc.is_in(table["category"].cast(pa.string()), _DEVICE_CATEGORIES)
        chosen = table.filter(is_device if device else pc.invert(is_device))
        # Polars makes rows twice as fast as Arrow does.
        rows: list[Row] = pl.DataFrame(chosen).to_dicts()
        # Host threads are written one after the other, device work as it completes: neither by start.
        rows.sort(key=_completion if device else lambda row: row["thread"])
        texts: list[str] = []
        for row in rows:
            self._threads.setdefault((row["process"], row["thread"]))
            end = row["start_ns"] + row["duration_ns"]
            self._first = row["start_ns"] if self._first < 0 else min(self._first, row["start_ns"])
            self._last = max(self._last, end)
            texts.append(_event(row, _ARGS[row["category"]](row, self._n_host)))
            self._n_host += not device
            texts += self._flow(row)
        self._say("".join(texts))

    def close(self) -> None:
        """Write the names of processes and threads, the span, the trailer."""
        self._say("".join(_metadata(self._first, list(self._threads), len(self._facts.devices))))
        self._say(_end(self._first, self._last, self._facts.rank or 0))
        self._file.close()
        self._raw.close()

    def _flow(self, row: Row) -> list[str]:
        """Return the arrows that begin or end at the event: launch to device, forward to backward."""
        if row["category"] == "runtime" and row["name"] in _FLOW_CALLS:
            return [_arrow("s", row["correlation_id"], row, "ac2g")]
        if row["category"] in ("kernel", "memcpy", "memset", "sync"):
            return [_arrow("f", row["correlation_id"], row, "ac2g")]
        sequence = row["sequence_id"]
        if row["category"] == "cpu_op" and sequence is not None:
            if not row["forward_thread"] and sequence not in self._flows:
                self._flows[sequence] = len(self._flows) + 1
                return [_arrow("s", self._flows[sequence], row, "fwdbwd")]
            if row["forward_thread"] and sequence in self._flows:
                return [_arrow("f", self._flows.pop(sequence), row, "fwdbwd")]
        return []

    def _say(self, text: str) -> None:
        self._file.write(text.encode())


def _completion(row: Row) -> int:
    end: int = row["start_ns"] + row["duration_ns"]
    return end


def _time(ns: int) -> str:
    return f"{ns // US}.{ns % US:03d}"


def _event(row: Row, args: str) -> str:
    return (
        f'\n  {{\n    "ph": "X",\n    "cat": "{_SPELLING[row["category"]]}",\n'
        f'    "name": {json.dumps(row["name"])},\n    "pid": {row["process"]},\n    "tid": {row["thread"]},\n'
        f'    "ts": {_time(row["start_ns"])},\n    "dur": {_time(row["duration_ns"])}\n    ,\n'
        f'    "args": {{\n      {args}\n    }}\n  }},'
    )


def _arrow(phase: str, number: int, row: Row, category: str) -> str:
    at = _time(row["start_ns"])
    binding = ', "bp": "e"' if phase == "f" else ""
    return (
        f'\n  {{\n    "ph": "{phase}",\n    "id": {number},\n    "pid": {row["process"]},\n'
        f'    "tid": {row["thread"]},\n    "ts": {at},\n    "cat": "{category}",\n    "name": "{category}"\n'
        f"    {binding}\n  }},"
    )


def _external(row: Row) -> str:
    return "" if row["external_id"] is None else f'"External id": {row["external_id"]},'


def _collective(row: Row) -> str:
    if row["comm_op"] is None:
        return ""
    peers = (("Dst Rank", row["comm_target_rank"]), ("Src Rank", row["comm_source_rank"]))
    peer = "".join(f'"{key}": {rank}, ' for key, rank in peers if rank is not None)
    return (
        f', "Collective name": "{row["comm_op"]}", "In msg nelems": {row["comm_in_elements"]}, '
        f'"Out msg nelems": {row["comm_out_elements"]}, "Group size": {row["comm_group_size"]}, '
        f'"dtype": "{row["comm_dtype"]}", "In split size": "[]", "Out split size": "[]", '
        f'"Process Group Name": "{row["comm_group"]}", '
        f'"Process Group Description": "{row["comm_group_description"]}", '
        f'"Process Group Ranks": "{row["comm_group_ranks"]}", {peer}"Seq": {row["comm_seq"]}'
    )


def _host_args(row: Row, place: int) -> str:
    sequence = ""
    if row["sequence_id"] is not None:
        sequence = f'"Sequence number": {row["sequence_id"]}, "Fwd thread id": {row["forward_thread"]}, '
    shapes = f"{ARGUMENTS[row['name']]}, " if row["name"] in ARGUMENTS else ""
    return f'{_external(row)}"Record function id": 0, {sequence}{shapes}"Ev Idx": {place}{_collective(row)}'


def _runtime_args(row: Row, place: int) -> str:
    number = _CALLBACK_IDS[row["name"]]
    return f'{_external(row)}      "cbid": {number}, "correlation": {row["correlation_id"]}'


def _place(row: Row) -> str:
    return (
        f'"device": {row["device"]}, "context": {row["context"]},      '
        f'"stream": {row["stream"]}, "correlation": {row["correlation_id"]}'
    )


def _kernel_args(row: Row, place: int) -> str:
    blocks = row["grid"][0] * row["grid"][1] * row["grid"][2]
    node = "" if row["graph_node_id"] is None else f'"graph node id": {row["graph_node_id"]},      '
    return (
        f'{_external(row)}      "queued": 0, {_place(row)},      "registers per thread": 96,      '
        f'"shared memory": 103808,      "blocks per SM": {blocks / 132:.6f},      '
        f'"warps per SM": {blocks * row["block"][0] / 32 / 132:.6f},      "grid": {row["grid"]},      '
        f'"block": {row["block"]},      {node}"est. achieved occupancy %": 0{_collective(row)}'
    )


def _copy_args(row: Row, place: int) -> str:
    rate = row["n_bytes"] / row["duration_ns"]
    return f'{_external(row)}      {_place(row)},      "bytes": {row["n_bytes"]}, "memory bandwidth (GB/s)": {rate:.6f}'


def _sync_args(row: Row, place: int) -> str:
    waits = ""
    if row["wait_stream"] is not None:
        waits = (
            f'"wait_on_stream": {row["wait_stream"]},      '
            f'"wait_on_cuda_event_record_corr_id": {row["wait_correlation_id"]},      '
            f'"wait_on_cuda_event_id": {row["wait_event_id"]},      '
        )
    return (
        f'{_external(row)}      "cuda_sync_kind": "{row["name"]}",      {waits}'
        f'"stream": {row["stream"]}, "correlation": {row["correlation_id"]},      '
        f'"device": {row["device"]}, "context": {row["context"]}'
    )


def _external_args(row: Row, place: int) -> str:
    return _external(row).rstrip(",")


_ARGS: dict[str, Callable[[Row, int], str]] = {
    "cpu_op": _host_args,
    "annotation": _host_args,
    "runtime": _runtime_args,
    "kernel": _kernel_args,
    "memcpy": _copy_args,
    "memset": _copy_args,
    "sync": _sync_args,
    "gpu_annotation": _external_args,
}


def _header(facts: DumpFacts) -> str:
    devices = ",".join(
        f'\n    {{\n      "id": {device.index}, "name": {json.dumps(device.name)}, '
        f'"totalGlobalMem": {device.memory_bytes},\n      "computeMajor": 9, "computeMinor": 0,\n'
        '      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,\n'
        '      "regsPerBlock": 65536, "warpSize": 32,\n      "sharedMemPerBlock": 49152, "numSms": 132\n'
        '    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, '
        '"sharedMemPerMultiprocessor": 233472\n    }'
        for device in facts.devices
    )
    versions = library = ""
    if facts.devices:
        devices += "\n    "
        versions = (
            '\n      "cupti_version": 26,\n      "cuda_runtime_version": 12080,\n      "cuda_driver_version": 12080,'
        )
        library = ', "nccl_version": "2.27.5"'
    n_groups = len(json.loads(facts.process_groups or "[]"))
    return (
        f'\n  {{\n    "schemaVersion": 1,\n    "deviceProperties": [{devices}],\n    '
        f'{versions}\n      "trace_id": "{facts.trace_id}",\n      "record_shapes": 1,\n'
        f'      "distributedInfo": {{"backend": "{facts.backend}", "rank": {facts.rank}, '
        f'"world_size": {facts.world_size}, "pg_count": {n_groups}, "pg_config": {facts.process_groups}{library}}},\n'
        f'      "host_name": "{facts.host}",\n    "displayTimeUnit": "ms",\n'
        f'    "baseTimeNanoseconds": {facts.base_ns},\n    "traceEvents": [\n    '
    )


def _metadata(at_ns: int, threads: list[tuple[int, int]], n_devices: int) -> list[str]:
    """Return the rows that name processes, devices and threads."""

    def say(name: str, process: int, thread: int, key: str, value: str | int) -> str:
        return (
            f'\n  {{\n    "ph": "M",\n    "name": "{name}",\n    "ts": {_time(at_ns)},\n'
            f'    "pid": {process},\n    "tid": {thread},\n'
            f'    "args": {{\n      "{key}": {json.dumps(value)}\n    }}\n  }},'
        )

    texts = []
    hosts = dict.fromkeys(process for process, _ in threads if process >= n_devices)
    for process in (*hosts, *range(n_devices)):
        is_host = process in hosts
        texts.append(say("process_name", process, 0, "name", "python3"))
        texts.append(say("process_labels", process, 0, "labels", "CPU" if is_host else f"GPU {process}"))
        order = process if is_host else 5_000_000 + process
        texts.append(say("process_sort_index", process, 0, "sort_index", order))
    for process, thread in sorted(threads):
        label = f"thread {thread} (python3)" if process in hosts else f"stream {thread} "
        texts.append(say("thread_name", process, thread, "name", label))
        texts.append(say("thread_sort_index", process, thread, "sort_index", thread))
    return texts


def _end(first_ns: int, last_ns: int, rank: int) -> str:
    """Return the profiler's own span and marks, and what follows the events."""
    begins = first_ns - 100 * US
    return (
        '\n  {\n    "ph": "X",\n    "cat": "Trace",\n    "name": "PyTorch Profiler (0)",\n'
        f'    "pid": "Spans",\n    "tid": "PyTorch Profiler",\n    "ts": {_time(begins)},\n'
        f'    "dur": {_time(last_ns - begins)}\n    ,\n'
        '    "args": {\n      "Op count": 0\n    }\n  },'
        f'\n  {{\n    "ph": "M",\n    "name": "process_sort_index",\n    "ts": {_time(begins)},\n'
        '    "pid": "Spans",\n    "tid": 0,\n    "args": {\n      "sort_index": 536870912\n    }\n  },'
        '\n  {\n    "ph": "i",\n    \n    "s": "g",\n    "name": "Iteration Start: PyTorch Profiler",\n'
        f'    "pid": "Traces",\n    "tid": "Trace PyTorch Profiler",\n    "ts": {_time(begins)}\n    \n  }},'
        '\n  {\n    "ph": "i",\n    \n    "s": "g",\n    "name": "Record Window End",\n'
        f'    "pid": "",\n    "tid": "",\n    "ts": {_time(last_ns + 100 * US)}\n    \n  }}\n'
        f'  ],"traceName": "rank{rank}.pt.trace.json" }}'
    )
