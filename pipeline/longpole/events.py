"""The canonical event: every reader produces RAW_SCHEMA, `sql/rank/events.sql` links it into the `events` relation.

Times are int64 nanoseconds. RAW times are as the dump has them, without `DumpFacts.base_ns`; the link adds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

SCHEMA_VERSION = 2
"""Of stored events, facts and marts together. A store of another version is refused with the command that cures it."""

TEXT = pa.dictionary(pa.int32(), pa.string())

CATEGORIES: dict[str, str] = {
    # canonical name: what one event of it is
    "kernel": "a kernel on a device stream",
    "memcpy": "a copy on a device stream",
    "memset": "a fill on a device stream",
    "sync": "a device-side record of a stream, event or device synchronisation; occupies no engine",
    "runtime": "a CUDA or HIP runtime call on a host thread",
    "driver": "a CUDA or HIP driver call on a host thread",
    "cpu_op": "a framework operator on a host thread",
    "annotation": "a user's range on a host thread (record_function, ProfilerStep#N, NVTX)",
    "gpu_annotation": "the projection of a range onto the device's timeline",
    "python": "a Python frame",
    "overhead": "the profiler's own work",
    "memory": "an allocation or a release",
    "trace": "the span the profiler recorded",
}
"""Categories that have a name of their own; any other is kept as the dump spells it, in lower case."""

RAW_SCHEMA = pa.schema(
    [
        ("category", TEXT),  # one of CATEGORIES, else the dump's own in lower case
        ("name", TEXT),
        ("start_ns", pa.int64()),  # without base_ns
        ("duration_ns", pa.int64()),  # NULL: did not finish
        ("device", pa.int32()),  # device index; NULL on the host
        ("stream", pa.int64()),
        ("process", pa.int64()),  # NULL where the dump gives text: see label
        ("thread", pa.int64()),
        ("label", TEXT),  # the pid or tid where it is no number ("Spans", "stream 7"); else NULL
        ("correlation_id", pa.int64()),  # joins a device activity to the call that launched it; 0 is NULL
        ("external_id", pa.int64()),  # joins a call or an activity to its operator
        ("sequence_id", pa.int64()),  # autograd sequence number: joins a backward operator to its forward one
        ("forward_thread", pa.int64()),
        ("context", pa.int64()),
        ("n_bytes", pa.int64()),  # of a copy, a fill or an allocation; of a release negative
        ("grid", pa.list_(pa.int32())),  # blocks by x, y, z
        ("block", pa.list_(pa.int32())),  # threads by x, y, z
        ("comm_op", TEXT),  # "Collective name"
        ("comm_dtype", TEXT),
        ("comm_in_elements", pa.int64()),
        ("comm_out_elements", pa.int64()),
        ("comm_group", TEXT),  # "Process Group Name"
        ("comm_group_description", TEXT),
        ("comm_group_ranks", TEXT),  # as the dump prints it; may end in "..."
        ("comm_group_size", pa.int32()),
        ("comm_seq", pa.int64()),
        ("wait_stream", pa.int64()),  # sync rows: the stream that recorded the event waited for
        ("wait_event_id", pa.int64()),
        ("wait_correlation_id", pa.int64()),  # sync rows: the cudaEventRecord call waited for
        ("graph_node_id", pa.int64()),  # CUDA graph node, where the dump has it
        ("comm_source_rank", pa.int32()),  # of a receive: the job's rank that sends
        ("comm_target_rank", pa.int32()),  # of a send: the job's rank that receives
        (
            "inputs",
            TEXT,
        ),  # an operator's inputs: formats/inputs.py has the notation; NULL where the dump lacks their shapes
        ("allocated_bytes", pa.int64()),  # memory rows: what is allocated on the device after it
        ("reserved_bytes", pa.int64()),  # memory rows: what the allocator holds of the device after it
    ]
)
"""What a reader emits. Later columns are added at the end."""


@dataclass(frozen=True)
class Device:
    """One device as the dump describes it."""

    index: int
    name: str
    memory_bytes: int | None = None


@dataclass(frozen=True)
class DumpFacts:
    """What a reader learnt of one dump besides its events; plain data, travels between processes.

    `n_events` counts every event found whole or in part, and
    n_events == n_stored + n_skipped + n_dropped always holds.
    """

    format: str  # "kineto"
    schema: str  # the generation, for a person: "kineto 2021", "kineto 1, base time"
    base_ns: int = 0  # to be added to every start_ns
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    host: str | None = None
    devices: tuple[Device, ...] = ()
    process_groups: str | None = None  # pg_config, JSON text
    trace_id: str | None = None
    n_events: int = 0
    n_stored: int = 0  # rows emitted
    n_skipped: int = 0  # known and left out on purpose: flows, metadata, Python frames
    n_dropped: int = 0  # malformed or cut off: lost
    n_salvaged: int = 0  # stored, but only after a repair of their bytes
    n_rounded: int = 0  # stored with digits below 1 ns rounded half up
    n_bad_times: int = 0  # stored with a negative time, a duration of -1 or one beyond a week: in no minimum or maximum
    skipped: tuple[tuple[str, int], ...] = ()  # what, how many
    samples: tuple[str, ...] = ()  # why events were dropped, a few examples cut to 200 characters
    is_truncated: bool = False
    n_lost_bytes: int = 0  # at the cut end; of the decompressed text
    processes: tuple[
        int, ...
    ] = ()  # where several worked on devices: each has its own ranks, and all its rows its number
    processes_are_ranks: bool = False  # those numbers are the ranks themselves
    notes: tuple[str, ...] = field(default=())  # oddities, one sentence each, for a person
