"""What work takes, measured one way by every benchmark: CPU and wall seconds, peak memory, growth, and the table.

CPU seconds are user and system time of a process and of all the children that it waited for. On a machine that others
use they are the figure to trust; wall seconds say how long one waited there.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_LOOK_S, _MOST_LOOK_S = 0.1, 1.0
"""How often processes are looked at: at first, and of those that live long, for every look reads all of /proc."""


class Clock:
    """CPU and wall seconds of this process within a `with`."""

    cpu_s = 0.0
    wall_s = 0.0

    def __enter__(self) -> Clock:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s, self.wall_s = time.process_time() - self._cpu, time.perf_counter() - self._wall


def peak_bytes() -> int:
    """Return the most resident bytes that this process has had."""
    return _resident(psutil.Process())


class Watch:
    """The largest resident sizes of processes within a `with`, and of a folder, looked at again and again."""

    def __init__(self, roots: Sequence[int], folder: Path | None = None) -> None:
        """Take the processes whose children, at any depth, are watched with them."""
        self.root_bytes = 0  # the largest of the roots
        self.child_bytes = 0  # the largest of their children
        self.folder_bytes = 0
        self._roots = [psutil.Process(pid) for pid in roots]
        self._folder = folder
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        began = time.perf_counter()
        while not self._done.wait(min(_MOST_LOOK_S, _LOOK_S + (time.perf_counter() - began) / 100)):
            roots = [_resident(root) for root in self._roots]
            children = [_resident(child) for root in self._roots for child in _children(root)]
            self.root_bytes = max(self.root_bytes, *roots)
            self.child_bytes = max([self.child_bytes, *children])
            if self._folder is not None:
                self.folder_bytes = max(self.folder_bytes, _size_of(self._folder))


def _resident(process: psutil.Process) -> int:
    """Return the resident bytes of a process, where the system tells it the most that they ever were.

    Not what `wait4` says: that counts from before a child's exec, when it still was its parent.
    """
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:  # it has ended, or this is no Linux
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.Error:
        return []
    return found


def _size_of(folder: Path) -> int:
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # gone since it was listed
                total += Path(at, name).lstat().st_size
    return total


@dataclass(frozen=True)
class Ran:
    """What a whole process took; `reason` says why it came to nothing."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0  # the largest process of it and its children
    driver_bytes: int = 0
    worker_bytes: int = 0
    temporary_bytes: int = 0  # the most that lay in its temporary folder at once
    code: int = 0
    out: str = ""
    err: str = ""
    reason: str = ""


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Ran:
    """Return what a command took, its temporary files in a folder of its own that is removed."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        told = {**os.environ, **(environment or {}), "TMPDIR": temporary}
        start = time.perf_counter()
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, env=told)
        with Watch([process.pid], Path(temporary)) as watch:
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        reason, said = "", err.read().decode(errors="replace")
        if process.returncode:
            last = (said.strip().splitlines() or ["no message"])[-1]
            reason = f"exit {process.returncode}: {last[:120]}"
        return Ran(
            wall_s=wall,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_bytes=max(watch.root_bytes, watch.child_bytes),
            driver_bytes=watch.root_bytes,
            worker_bytes=watch.child_bytes,
            temporary_bytes=watch.folder_bytes,
            code=process.returncode,
            out=out.read().decode(errors="replace"),
            err=said,
            reason=reason,
        )


def ratio(part: float, whole: float) -> str:
    """Return part / whole as "1/7.3" or "1.4"."""
    if part <= 0 or whole <= 0:
        return "n/a"
    return f"1/{whole / part:.1f}" if part < whole else f"{part / whole:.1f}"


def exponent(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """Return the slope of a straight line through log(amount) by log(size): 1 where one grows as the other does."""
    points = [(math.log(size), math.log(amount)) for size, amount in zip(sizes, amounts, strict=True)]
    x, y = (sum(p[axis] for p in points) / len(points) for axis in (0, 1))
    return sum((p[0] - x) * (p[1] - y) for p in points) / sum((p[0] - x) ** 2 for p in points)


def machine() -> str:
    """Return the machine's cores, memory, processor and how busy it is, in words."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {model}; load {os.getloadavg()[0]:.1f}"
