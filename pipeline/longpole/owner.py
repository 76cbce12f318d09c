"""Whether the process that left something behind is gone: a process id alone is used again, and is one machine's."""

from __future__ import annotations

import os
from pathlib import Path


def started(pid: int) -> str:
    """Return when a process began, in clock ticks since the machine did; empty where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def space() -> str:
    """Return the name of this process's space of process ids, a container's are not those of its machine.

    Empty where the system has none.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def boot() -> str:
    """Return the name of this machine since it last started, which no other has; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_gone(pid: int, began: str) -> bool:
    """Return whether no process of this space has this id, or another, that did not begin then, has it now.

    Args:
        began: As `started` has it; empty: not known.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return bool(began) and began != started(pid)
