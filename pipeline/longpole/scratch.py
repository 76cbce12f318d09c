"""Folders for temporary files, gone when their work is; those of a process that was killed go with the next that comes.

A folder's name says whose it is: the machine since it started, the process, when that began. Nothing else is deleted.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from longpole import owner

_NAME = re.compile(r"longpole-([0-9a-f]{16})-([1-9][0-9]{0,9})-([0-9]{1,20})-.+")


def folder(inside: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """Return a new folder, a context that removes it: below TMPDIR, swept of left-overs first, or `inside` another."""
    base = inside if inside is not None else tempfile.gettempdir()
    if inside is None:
        _sweep_once(base, os.getpid())
    return tempfile.TemporaryDirectory(prefix=_prefix(), dir=base)


def sweep(base: str) -> list[str]:
    """Remove the folders below `base` that dead processes of this user and this machine left, and return their names.

    A link is no folder, and what cannot be judged stays: another machine's, another container's, another user's.
    """
    removed = []
    try:
        paths = sorted(Path(base).iterdir())
    except OSError:
        return []
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match is None or match[1] != _machine() or not owner.is_gone(int(match[2]), match[3]):
            continue
        try:
            told = path.lstat()
            if stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid():
                shutil.rmtree(path)  # looks again, by the opened folder, that it is no link
                removed.append(path.name)
        except OSError:  # another process removes it too
            continue
    return removed


@functools.cache
def _sweep_once(base: str, pid: int) -> None:
    """Sweep at a process's first folder there; a fork is a process of its own."""
    if _machine():
        sweep(base)


def _prefix() -> str:
    pid = os.getpid()
    began = owner.started(pid)
    return f"longpole-{_machine()}-{pid}-{began}-" if _machine() and began else "longpole-"


@functools.cache
def _machine() -> str:
    """Return a name of this machine since its start and of this space of process ids; empty where either has none."""
    boot, space = owner.boot(), owner.space()
    return hashlib.blake2b(f"{boot} {space}".encode(), digest_size=8).hexdigest() if boot and space else ""
