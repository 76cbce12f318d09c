"""What the profiler of one rank of a job with a straggler records of a step: its template."""

from __future__ import annotations

from longpole.synth.made import US, group_text
from longpole.synth.mesh_rows import Group
from longpole.synth.rows import COMPUTE_STREAM
from longpole.synth.straggler_program import KINDS, Job, Launch
from longpole.synth.straggler_simulation import Points
from longpole.synth.template import At, Row, Sheet

_STREAMS = {"compute": COMPUTE_STREAM, "world": 20, "dp": 24, "up": 28, "down": 32}
_DESCRIPTIONS = {"world": "default_pg", "dp": "mesh_dp", "up": "mesh_pp", "down": "mesh_pp"}
_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_OPTIMIZER = "Optimizer.step#AdamW.step"


def sheet(job: Job, rank: int, n_places: int) -> Sheet:
    """Return the rows of the rank's step, measured from `Points` of as many places."""
    return _Writer(job, rank, n_places).sheet


class _Writer:
    def __init__(self, job: Job, rank: int, n_places: int) -> None:
        self.sheet = Sheet(rank, rank % job.ranks_per_host)
        self._rank = rank
        self._launches = job.programs[rank // job.width]
        self._points = points = Points(n_places)
        self._groups = {group.description: group for group in job.groups if rank in group.members}
        self._seq = dict.fromkeys(self._groups, 0)
        self._is_awaited = {earlier for launch in self._launches for earlier in launch.after}
        self._recorded: dict[int, int] = {}  # by place, the call that recorded its end

        self.sheet.mark((points.marker, 0), (points.synchronised, 5 * US))
        self.sheet.host("annotation", _LOADER, (points.marker, 10 * US), (points.loaded, 0))
        for place, launch in enumerate(self._launches):
            if launch.kind:
                self._exchange(place, launch)
            else:
                self._work(place, launch)
        updates = [place for place, launch in enumerate(self._launches) if launch.is_update]
        self._optimizer(updates[0], updates[-1])

    def _work(self, place: int, launch: Launch) -> None:
        sheet, thread = self.sheet, self._thread(launch)
        is_last = launch.names[-1] == "aten::item"
        operator = 0
        for depth, name in enumerate(launch.names[1:]):
            # Autograd puts the number on the node and its evaluation, the forward pass on what made the node.
            is_numbered = launch.sequence is not None and (depth < 2 if launch.is_backward else depth == 1)
            end = (self._points.synchronised, 2 * US) if is_last else self._finishes(place, -depth * US)
            operator = sheet.host(
                "cpu_op",
                name,
                self._begins(place, depth * US),
                end,
                thread,
                sequence_id=1 + (launch.sequence or 0) if is_numbered else None,
                forward_thread=int(launch.is_backward) if is_numbered else None,
            )
        self._waits(place, launch, operator, thread)
        call = "cudaMemcpyAsync" if launch.category == "memcpy" else "cudaLaunchKernel"
        correlation = sheet.call(call, self._calls(place), self._calls(place, 5 * US), operator, thread)
        self._on_device(place, launch.category, launch.names[0], launch, correlation, operator, n_bytes=launch.n_bytes)
        self._record(place, operator, thread)
        if is_last:
            begins, ends = self._calls(place, 8 * US), (self._points.synchronised, 0)
            sheet.call("cudaStreamSynchronize", begins, ends, operator, thread)

    def _exchange(self, place: int, launch: Launch) -> None:
        assert launch.kind is not None
        sheet, thread, kind = self.sheet, self._thread(launch), KINDS[launch.kind]
        group = self._groups[_DESCRIPTIONS[launch.stream]]
        comm = self._comm(launch, group)
        name = kind.annotation.format(group.members.index(self._rank), self._place_of_peer(launch, group))
        outer, record = kind.operator, "record_param_comms"
        sheet.host("cpu_op", outer, self._begins(place), self._finishes(place), thread)
        operator = sheet.host(
            "cpu_op", record, self._begins(place, 2 * US), self._finishes(place, -2 * US), thread, **comm
        )
        begins, finishes = self._begins(place, 4 * US), self._finishes(place, -4 * US)
        annotation = sheet.host("annotation", name, begins, finishes, thread)
        self._waits(place, launch, operator, thread)
        correlation = sheet.call(
            "cudaLaunchKernelExC", self._calls(place), self._calls(place, 6 * US), operator, thread
        )
        kernel = f"ncclDevKernel_{kind.kernel}(ncclDevKernelArgsStorage<4096ul>)"
        self._on_device(place, "kernel", kernel, launch, correlation, operator, **comm)
        sheet.project(name, self._starts(place), self._ends(place), annotation, _STREAMS[launch.stream])
        self._record(place, operator, thread)

    def _waits(self, place: int, launch: Launch, operator: int, thread: int) -> None:
        """Make the launch's stream wait for the ends of what it comes after, before its call."""
        for number, earlier in enumerate(launch.after):
            self.sheet.wait(
                self._begins(place, (6 + 3 * number) * US),
                operator,
                thread,
                stream=_STREAMS[launch.stream],
                on_stream=_STREAMS[self._launches[earlier].stream],
                recorded_by=self._recorded[earlier],
            )

    def _record(self, place: int, operator: int, thread: int) -> None:
        if place in self._is_awaited:
            begins, ends = self._calls(place, 8 * US), self._calls(place, 10 * US)
            self._recorded[place] = self.sheet.call("cudaEventRecord", begins, ends, operator, thread)

    def _optimizer(self, first: int, last: int) -> None:
        begins, ends = self._begins(first, -US), self._finishes(last, US)
        annotation = self.sheet.host("annotation", _OPTIMIZER, begins, ends)
        self.sheet.project(_OPTIMIZER, self._starts(first), self._ends(last), annotation, COMPUTE_STREAM)

    def _on_device(
        self, place: int, category: str, name: str, launch: Launch, correlation: int, operator: int, **columns: object
    ) -> None:
        self.sheet.work(
            category,
            name,
            self._starts(place),
            self._ends(place),
            stream=_STREAMS[launch.stream],
            correlation=correlation,
            operator=operator,
            **columns,
        )

    def _comm(self, launch: Launch, group: Group) -> Row:
        assert launch.kind is not None
        kind = KINDS[launch.kind]
        self._seq[group.description] += 1
        peer = group.members[self._place_of_peer(launch, group)]
        return {
            "comm_op": kind.word,
            "comm_dtype": kind.dtype,
            "comm_in_elements": kind.n_in,
            "comm_out_elements": kind.n_out,
            "comm_group": group.name,
            "comm_group_description": group.description,
            "comm_group_ranks": group_text(group.members),
            "comm_group_size": len(group.members),
            "comm_seq": self._seq[group.description],
            "comm_source_rank": peer if launch.kind == "recv" else None,
            "comm_target_rank": peer if launch.kind == "send" else None,
        }

    def _place_of_peer(self, launch: Launch, group: Group) -> int:
        """Return the place in the group of the stage at the other end; of any other collective it is no one's."""
        own = group.members.index(self._rank)
        return own + {"up": 1, "down": -1}.get(launch.stream, 0)

    def _thread(self, launch: Launch) -> int:
        return self.sheet.backward if launch.is_backward else self.sheet.process

    def _begins(self, place: int, offset: int = 0) -> At:
        return self._points.begins + place, offset

    def _calls(self, place: int, offset: int = 0) -> At:
        return self._points.calls + place, offset

    def _finishes(self, place: int, offset: int = 0) -> At:
        return self._points.finishes + place, offset

    def _starts(self, place: int) -> At:
        return self._points.starts + place, 0

    def _ends(self, place: int) -> At:
        return self._points.ends + place, 0
