"""One writer at a time: a lock file that says who holds it, and is taken over when its holder is dead.

Only a holder on this machine can be judged; another machine's lock is left alone, and the error says what to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from fsspec.implementations.local import LocalFileSystem

from longpole import owner
from longpole.errors import StoreError

_SINCE = "%Y-%m-%d %H:%M:%S%z"


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock, as its file says; what an unreadable file does not say is empty."""

    host: str = "?"
    pid: int = 0
    since: str = "?"
    started: str = ""  # when the process began, in the kernel's own count: a process id is used again
    space: str = ""  # of process ids: a container's are not those of its machine
    token: str = ""  # tells this holding from any other


@contextlib.contextmanager
def hold(fs: Any, path: str, what: str) -> Iterator[None]:
    """Hold the lock file at `path` of an fsspec file system; its folder exists.

    Raises:
        StoreError: Another process holds `what`; says which, since when, and what to do if it is dead.
        OSError: The file system cannot be written.
    """
    pid = os.getpid()
    since = time.strftime(_SINCE)
    me = Holder(socket.gethostname(), pid, since, owner.started(pid), owner.space(), uuid.uuid4().hex)
    for _ in range(3):
        try:
            _create(fs, path, msgspec.json.encode(me))
            break
        except FileExistsError:
            holder = _holder(fs, path)
            if holder.token == me.token:  # a request that was sent twice, as its answer was lost
                break
            if not _is_dead(holder):
                raise _held(fs, path, what) from None
            _remove_dead(fs, path)
    else:
        raise _held(fs, path, what)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the store may be gone; what went wrong before must not be hidden
            if _holder(fs, path).token == me.token:
                fs.rm_file(path)


def _held(fs: Any, path: str, what: str) -> StoreError:
    holder = _holder(fs, path)
    return StoreError(
        f"{what} is being written by process {holder.pid or '?'} on {holder.host} since {holder.since}{_age(holder)}",
        f"Wait for it. If that process is dead, this removes its lock: {_removal(fs, path)}",
    )


def _age(holder: Holder) -> str:
    """Return how long ago a lock was taken, by this machine's clock; empty where that cannot be told."""
    try:
        seconds = int(time.time() - datetime.strptime(holder.since, _SINCE).timestamp())
    except ValueError:
        return ""
    size, unit = next((u for u in ((86_400, "d"), (3_600, "h"), (60, "min")) if seconds >= 2 * u[0]), (1, "s"))
    return f" ({max(0, seconds) // size} {unit} ago)"


def _removal(fs: Any, path: str) -> str:
    """Return the command that removes a lock: of a store by URL one that needs nothing but what longpole does."""
    if isinstance(fs, LocalFileSystem):
        return f"rm {shlex.quote(path)}"
    program = f"import fsspec; fs, path = fsspec.core.url_to_fs({fs.unstrip_protocol(path)!r}); fs.rm(path)"
    return f"python -c {shlex.quote(program)}"


def _create(fs: Any, path: str, text: bytes) -> None:
    """Create the file unless it exists; an object store makes both one condition of one request."""
    if not isinstance(fs, LocalFileSystem):
        fs.pipe_file(path, text, mode="create")
        return
    file = fs.open(path, "xb")
    try:
        file.write(text)
        file.close()
    except BaseException:  # a full disk would leave a lock that nobody holds
        with contextlib.suppress(OSError):
            fs.rm_file(path)
        raise


def _holder(fs: Any, path: str) -> Holder:
    try:
        return msgspec.json.decode(fs.cat_file(path), type=Holder)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return Holder()


def _is_dead(holder: Holder) -> bool:
    if holder.host != socket.gethostname() or holder.pid <= 0 or (holder.space and holder.space != owner.space()):
        return False
    return owner.is_gone(holder.pid, holder.started)


def _remove_dead(fs: Any, path: str) -> None:
    """Remove the lock if its holder is dead still; of several processes here that found it so, one does it at a time.

    Without that, the second would remove the lock that the first has taken meanwhile.
    """
    is_local = isinstance(fs, LocalFileSystem)
    guard = Path(path) if is_local else Path(tempfile.gettempdir(), f"longpole-{os.getuid()}-{path.replace('/', '-')}")
    with contextlib.suppress(OSError):  # gone already, or a file system without flock: then it is not removed here
        file = os.open(guard, os.O_RDWR | os.O_NOFOLLOW | (0 if is_local else os.O_CREAT), 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            is_same = not is_local or os.path.samestat(os.fstat(file), guard.stat())
            if is_same and _is_dead(_holder(fs, path)):
                fs.rm_file(path)
        finally:
            os.close(file)
