"""One rank's events set down by hand, a call at a time, so that a scenario reads as its timeline."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from longpole.events import RAW_SCHEMA
from longpole.synth.made import RANKS_PER_HOST, US, group_text
from longpole.synth.shapes import INPUTS

COMPUTE_STREAM = 7
COMM_STREAM = 20
CALL_NS = 10 * US
"""How long a launching call takes in every hand-made scenario."""


@dataclass(frozen=True)
class Collective:
    """What a collective record says of itself; as many elements out as in and the group of all ranks unless told."""

    op: str
    seq: int
    n_elements: int
    n_ranks: int
    dtype: str = "Float"
    n_out: int | None = None
    group: str = "0"
    description: str = "default_pg"
    members: tuple[int, ...] | None = None
    source: int | None = None
    target: int | None = None


class RankRows:
    """The rows of one rank between two calls of `take`."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.device = rank % RANKS_PER_HOST
        self.process = 21_000 + 100 * rank
        self.main = self.process
        self.backward = self.process + 56
        self.worker = self.process + 14
        self._rows: list[dict[str, object]] = []
        self._n_external = 0
        self._n_calls = 0

    def annotate(self, name: str, start_ns: int, end_ns: int, thread: int | None = None) -> int:
        """Add a range on a host thread (the main one) and return its external id."""
        return self._host("annotation", name, start_ns, end_ns, thread or self.main)

    def operate(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        thread: int | None = None,
        *,
        sequence: int | None = None,
        comm: Collective | None = None,
    ) -> int:
        """Add an operator and return its external id; a sequence off the main thread marks a backward one."""
        thread = thread or self.main
        is_backward = sequence is not None and thread != self.main
        return self._host(
            "cpu_op",
            name,
            start_ns,
            end_ns,
            thread,
            sequence_id=sequence,
            forward_thread=None if sequence is None else int(is_backward),
            **_comm_columns(comm),
        )

    def call(self, name: str, start_ns: int, end_ns: int, external_id: int | None, thread: int | None = None) -> int:
        """Add a runtime call and return its correlation id."""
        self._n_calls += 1
        self._add(
            "runtime",
            name,
            start_ns,
            end_ns,
            process=self.process,
            thread=thread or self.main,
            correlation_id=self._n_calls,
            external_id=external_id,
        )
        return self._n_calls

    def launch(
        self,
        kernel: str,
        start_ns: int,
        end_ns: int,
        *,
        called_ns: int,
        external_id: int,
        thread: int | None = None,
        stream: int = COMPUTE_STREAM,
        comm: Collective | None = None,
    ) -> None:
        """Add a kernel and the call of CALL_NS that launches it at `called_ns`."""
        name = "cudaLaunchKernelExC" if comm else "cudaLaunchKernel"
        correlation = self.call(name, called_ns, called_ns + CALL_NS, external_id, thread)
        self.kernel(
            kernel,
            start_ns,
            end_ns,
            stream=stream,
            correlation_id=correlation,
            external_id=external_id,
            comm=comm,
        )

    def kernel(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        stream: int = COMPUTE_STREAM,
        correlation_id: int,
        external_id: int | None = None,
        comm: Collective | None = None,
    ) -> None:
        """Add a kernel alone; without a call of its correlation id in the dump its launch is not recorded."""
        self._device(
            "kernel",
            name,
            start_ns,
            end_ns,
            stream,
            correlation_id=correlation_id,
            external_id=external_id,
            grid=[24, 1, 1] if comm else [1024, 8, 1],
            block=[544, 1, 1] if comm else [256, 1, 1],
            **_comm_columns(comm),
        )

    def copy_in(self, start_ns: int, end_ns: int, *, called_ns: int, external_id: int, n_bytes: int) -> None:
        """Add a copy of host memory to the device on the compute stream and the call that queues it."""
        correlation = self.call("cudaMemcpyAsync", called_ns, called_ns + 8 * US, external_id)
        self._device(
            "memcpy",
            "Memcpy HtoD (Pinned -> Device)",
            start_ns,
            end_ns,
            COMPUTE_STREAM,
            correlation_id=correlation,
            external_id=external_id,
            n_bytes=n_bytes,
        )

    def record_event(self, at_ns: int, external_id: int, thread: int) -> int:
        """Add the call that records an event on a stream and return its correlation id."""
        return self.call("cudaEventRecord", at_ns, at_ns + 2 * US, external_id, thread)

    def wait_event(
        self, at_ns: int, external_id: int, thread: int, *, stream: int, on_stream: int, recorded_by: int
    ) -> None:
        """Add the call that makes `stream` wait for the event `recorded_by` recorded on `on_stream`."""
        correlation = self.call("cudaStreamWaitEvent", at_ns, at_ns + 2 * US, external_id, thread)
        self._device(
            "sync",
            "Stream Wait Event",
            at_ns + US,
            at_ns + 2 * US,
            stream,
            correlation_id=correlation,
            external_id=external_id,
            wait_stream=on_stream,
            wait_event_id=1 + recorded_by % 64,
            wait_correlation_id=recorded_by,
        )

    def project(self, name: str, start_ns: int, end_ns: int, external_id: int, stream: int) -> None:
        """Add the projection of a range onto a stream: profilers begin it 1 ns early and end it 1 ns late."""
        self._add(
            "gpu_annotation",
            name,
            start_ns - 1,
            end_ns + 1,
            process=self.device,
            thread=stream,
            external_id=external_id,
        )

    def take(self) -> pa.Table:
        """Return the rows since the last call, ordered by start, outermost first."""
        rows = sorted(self._rows, key=_order)
        self._rows = []
        return pa.Table.from_pylist(rows, schema=RAW_SCHEMA)

    def _host(self, category: str, name: str, start_ns: int, end_ns: int, thread: int, **columns: object) -> int:
        self._n_external += 1
        self._add(
            category,
            name,
            start_ns,
            end_ns,
            process=self.process,
            thread=thread,
            external_id=self._n_external,
            inputs=INPUTS.get(name),
            **columns,
        )
        return self._n_external

    def _device(self, category: str, name: str, start_ns: int, end_ns: int, stream: int, **columns: object) -> None:
        self._add(
            category,
            name,
            start_ns,
            end_ns,
            device=self.device,
            stream=stream,
            process=self.device,
            thread=stream,
            context=1,
            **columns,
        )

    def _add(self, category: str, name: str, start_ns: int, end_ns: int, **columns: object) -> None:
        self._rows.append(
            {"category": category, "name": name, "start_ns": start_ns, "duration_ns": end_ns - start_ns} | columns
        )


def _order(row: dict[str, object]) -> tuple[int, int]:
    start, duration = row["start_ns"], row["duration_ns"]
    assert isinstance(start, int) and isinstance(duration, int)
    return start, -duration


def _comm_columns(comm: Collective | None) -> dict[str, object]:
    if comm is None:
        return {}
    return {
        "comm_op": comm.op,
        "comm_dtype": comm.dtype,
        "comm_in_elements": comm.n_elements,
        "comm_out_elements": comm.n_elements if comm.n_out is None else comm.n_out,
        "comm_group": comm.group,
        "comm_group_description": comm.description,
        "comm_group_ranks": group_text(comm.members or range(comm.n_ranks)),
        "comm_group_size": comm.n_ranks,
        "comm_seq": comm.seq,
        "comm_source_rank": comm.source,
        "comm_target_rank": comm.target,
    }
