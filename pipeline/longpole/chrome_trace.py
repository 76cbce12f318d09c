"""The text of a trace that Perfetto and chrome://tracing open, written piece by piece.

Perfetto drops slices that overlap on a track without nesting, so a track has as many lanes as keep its slices apart.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from longpole import __version__

MARK = '{"otherData":{"writer":"longpole'
"""How every trace written here begins."""

MOST_LANES = 64
"""Lanes of one track; real ones need two or three."""

Sink = Callable[[str], object]
Args = dict[str, int | str | None]


@dataclass
class Written:
    """What went into a trace."""

    n_slices: int = 0
    n_left_out: int = 0  # beyond the most lanes of a track


@dataclass
class _Lane:
    tid: int
    ends: list[int] = field(default_factory=list)  # of the slices open on it, the innermost last


@dataclass
class Track:
    """Slices of one name, on as many lanes as keep them apart."""

    process: Process
    name: str
    nests: bool  # whether a slice inside another belongs there
    lanes: list[_Lane] = field(default_factory=list)

    def lane(self, start_ns: int, end_ns: int) -> int | None:
        """Return the thread id of the first lane with room, None where too many are taken; starts come in order."""
        for lane in self.lanes:
            ends = lane.ends
            while ends and ends[-1] <= start_ns:
                ends.pop()
            if not ends or (self.nests and end_ns <= ends[-1]):
                ends.append(end_ns)
                return lane.tid
        if len(self.lanes) >= MOST_LANES:
            return None
        self.lanes.append(_Lane(self.process.next_tid(), [end_ns]))
        return self.lanes[-1].tid


class Process:
    """The tracks of one rank, or of the run, and their thread ids."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.tracks: dict[tuple[int, int, int, str], Track] = {}
        self._tid = 0

    def track(self, order: int, name: str, *, number: int = 0, process: int = 0, nests: bool = False) -> Track:
        """Return the track of that name; tracks are drawn by order, process and number."""
        place = (order, process, number, name)
        track = self.tracks.get(place)
        if track is None:
            track = self.tracks[place] = Track(self, name, nests)
        return track

    def next_tid(self) -> int:
        """Return a thread id that no lane has yet."""
        self._tid += 1 + (self._tid + 1 == self.pid)  # a thread of its process's id is drawn as the main one
        return self._tid

    def names(self) -> Iterator[tuple[int, str]]:
        """Yield the thread id and the name of every lane, from the top down."""
        for place in sorted(self.tracks):
            track = self.tracks[place]
            for n, lane in enumerate(track.lanes):
                yield lane.tid, track.name if n == 0 else f"{track.name} ({n + 1})"


class Trace:
    """A trace in the writing; times are nanoseconds, and of the trace from `base_ns`."""

    def __init__(self, sink: Sink, base_ns: int) -> None:
        self._sink = sink
        self._base_ns = base_ns
        self._parts: list[str] = []
        self._before = "\n"
        self.written = Written()

    def open(self, told: dict[str, str | bool]) -> None:
        """Write what stands before the events; `told` is for a reader of the trace."""
        rest = json.dumps(told, separators=(",", ":")).removeprefix("{")
        self._sink(
            f'{MARK} {__version__}",{rest},"displayTimeUnit":"ns","baseTimeNanoseconds":{self._base_ns},"traceEvents":['
        )

    def close(self) -> None:
        """Write what stands behind the events."""
        self.flush()
        self._sink("\n]}\n")

    def flush(self) -> None:
        """Hand on what was written."""
        self._sink("".join(self._parts))
        self._parts.clear()

    def _event(self, text: str) -> None:
        self._parts.append(self._before)
        self._parts.append(text)
        self._before = ",\n"

    def slice(self, track: Track, category: str, name: str, start_ns: int, end_ns: int, args: Args) -> None:
        """Write a slice where its track has room for it."""
        tid = self.room(track, start_ns, end_ns)
        if tid is not None:
            self.slice_on(track.process, tid, category, name, start_ns, end_ns, args)

    def room(self, track: Track, start_ns: int, end_ns: int) -> int | None:
        """Return the thread id where a track has room; None where it has not, which is counted."""
        tid = track.lane(start_ns, end_ns)
        self.written.n_left_out += tid is None
        return tid

    def slice_on(
        self,
        process: Process,
        tid: int,
        category: str,
        name: str,
        start_ns: int,
        end_ns: int,
        args: Args,
    ) -> None:
        """Write a slice on the lane that was found for it."""
        told = ",".join(
            f'"{key}":{_text(value) if isinstance(value, str) else value}'
            for key, value in args.items()
            if value is not None
        )
        self._event(
            f'{{"ph":"X","cat":{_text(category)},"name":{_text(name)},"pid":{process.pid},"tid":{tid},'
            f'"ts":{self._time(start_ns)},"dur":{_microseconds(max(0, end_ns - start_ns))},"args":{{{told}}}}}'
        )
        self.written.n_slices += 1

    def arrow(self, process: Process, tid: int, number: int, at_ns: int, *, is_start: bool) -> None:
        """Write one end of the arrow from the last to arrive to those who waited; it binds to the slice around it."""
        phase = '"ph":"s"' if is_start else '"ph":"f","bp":"e"'
        self._event(
            f'{{{phase},"id":{number},"cat":"collective","name":"last to arrive","pid":{process.pid},"tid":{tid},'
            f'"ts":{self._time(at_ns)}}}'
        )

    def names(self, process: Process, title: str, place: int) -> None:
        """Write how the process and its tracks are called and in which order they are drawn."""
        self._name(process, 0, "process_name", "name", title)
        self._name(process, 0, "process_sort_index", "sort_index", place)
        for n, (tid, name) in enumerate(process.names()):
            self._name(process, tid, "thread_name", "name", name)
            self._name(process, tid, "thread_sort_index", "sort_index", n)

    def _name(self, process: Process, tid: int, what: str, key: str, value: str | int) -> None:
        text = value if isinstance(value, int) else _text(value)
        self._event(
            f'{{"ph":"M","name":"{what}","pid":{process.pid},"tid":{tid},"ts":0.000,"args":{{"{key}":{text}}}}}'
        )

    def _time(self, ns: int) -> str:
        return _microseconds(ns - self._base_ns)


@functools.lru_cache(65_536)
def _text(value: str) -> str:
    return json.dumps(value)


def _microseconds(ns: int) -> str:
    if ns < 0:
        return f"-{_microseconds(-ns)}"
    whole, rest = divmod(ns, 1000)
    return f"{whole}.{rest:03d}"
