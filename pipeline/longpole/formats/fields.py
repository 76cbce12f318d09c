"""Which key of a Kineto event becomes which column, and what the categories and phases are called here."""

from __future__ import annotations

import pyarrow as pa

from longpole.formats import inputs
from longpole.formats.layout import Layout, json_type

EVENT_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
"""The keys of an event that are read, beside "args"."""

ARGS: dict[str, str] = {
    # key of "args": column of RAW_SCHEMA
    "device": "device",
    "stream": "stream",
    "correlation": "correlation_id",
    "External id": "external_id",
    "Sequence number": "sequence_id",
    "Fwd thread id": "forward_thread",
    "context": "context",
    "bytes": "n_bytes",
    "grid": "grid",
    "block": "block",
    "Collective name": "comm_op",
    "dtype": "comm_dtype",
    "In msg nelems": "comm_in_elements",
    "Out msg nelems": "comm_out_elements",
    "Process Group Name": "comm_group",
    "Process Group Description": "comm_group_description",
    "Process Group Ranks": "comm_group_ranks",
    "Group size": "comm_group_size",
    "Seq": "comm_seq",
    "wait_on_stream": "wait_stream",
    "wait_on_cuda_event_id": "wait_event_id",
    "wait_on_cuda_event_record_corr_id": "wait_correlation_id",
    "graph node id": "graph_node_id",
    "Src Rank": "comm_source_rank",
    "Dst Rank": "comm_target_rank",
}
"""The keys every generation since 2022 writes; what else `args` holds is left unread."""

OTHER_SPELLINGS: dict[str, tuple[str, pa.DataType]] = {
    # key of "args": the column it stands in for where that has nothing, its JSON type
    "external id": ("external_id", pa.int64()),  # 2021
    "Process Group ID": ("comm_group", pa.int64()),  # early 2024, before groups had names
}


_CANONICAL = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_sync": "sync",
    "cuda_runtime": "runtime",
    "hip_runtime": "runtime",
    "hip": "runtime",
    "xpu_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "runtime": "runtime",
    "cuda_driver": "driver",
    "hip_driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
    "driver": "driver",
    "cpu_op": "cpu_op",
    "operator": "cpu_op",
    "user_annotation": "annotation",
    "gpu_user_annotation": "gpu_annotation",
    "python_function": "python",
    "overhead": "overhead",
    "trace": "trace",
}

CATEGORIES_OF_2021 = frozenset({"Operator", "Kernel", "Runtime", "Memcpy", "Memset"})
"""Capitalised by the profilers of 2021 alone."""


def category(spelling: str) -> str:
    """Return the canonical name of a category as a dump spells it, else its own in lower case."""
    lower = spelling.lower()
    return _CANONICAL.get(lower, lower)


MEMORY_NAME = "[memory]"
"""Name of the instants that record an allocation or a release."""

HOST_TYPE = 0
"""The "Device Type" of the host's own memory (c10::DeviceType::CPU)."""

KINETO = Layout(
    name="kineto",
    args=(
        *((key, column, json_type(column)) for key, column in ARGS.items()),
        *((key, column, kind) for key, (column, kind) in OTHER_SPELLINGS.items()),
    ),
    category=category,
    inputs=inputs.Keys("Input type", ("Input Dims", "Input dims", "Input Shapes"), "Concrete Inputs"),
    memory=(
        ("Bytes", pa.int64()),
        ("Device Type", pa.int64()),
        ("Device Id", pa.int32()),
        ("Total Allocated", pa.int64()),  # this and the next since 2022
        ("Total Reserved", pa.int64()),
    ),
)
"""The layout of PyTorch's profiler."""

_PHASES = {
    # what the trace event format says by "ph", for the letters that are no complete event
    "M": "metadata",
    "s": "flow",
    "t": "flow",
    "f": "flow",
    "C": "counter",
    "i": "instant",
    "I": "instant",
    "R": "instant",
    "B": "begin or end",
    "E": "begin or end",
    "b": "async",
    "n": "async",
    "e": "async",
    "S": "async",
    "T": "async",
    "p": "async",
    "F": "async",
}

COMPLETE = "X"
HALVES = ("B", "E")
INSTANTS = ("i", "I", "R")


def phase_kind(phase: str) -> str:
    """Return what events of a phase are called among the skipped ones."""
    return _PHASES.get(phase, "other")
