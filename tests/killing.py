"""Processes that are killed where a test says: drivers and workers that end, or end another, as the store is written.

As a program, `python killing.py ORDERS` makes runs in processes of its own and says how each ended. As a preload of a
Dask worker it looks into the folder $KILL_ORDERS whenever the worker is about to write, or has written, a file.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from longpole.store import Store

ORDERS = "KILL_ORDERS"


@dataclass(frozen=True)
class Order:
    """Kill a process, itself or another, before or after the first writing of a path with `part` in it."""

    what: str  # put, move or publish
    part: str
    is_after: bool = False
    pid: int = 0

    def obeyed(self, what: str, path: str, *, is_after: bool) -> bool:
        """Whether this is the moment."""
        return self.what == what and self.part in path and self.is_after == is_after

    def give(self, folder: Path) -> Path:
        """Write it where workers look for it; it is gone once it has been obeyed."""
        folder.mkdir(exist_ok=True)
        whole = folder / "order.json"
        whole.with_suffix(".part").write_text(json.dumps(asdict(self)))
        return whole.with_suffix(".part").rename(whole)


def watch(look: Callable[[str, str, bool], None]) -> None:
    """Have each writing of the store looked at, before and after."""
    put, move, publish = Store.put, Store.move, Store.publish

    def watched_put(self: Store, local: Path, run: str, path: str) -> None:
        look("put", path, False)
        put(self, local, run, path)
        look("put", path, True)

    def watched_move(self: Store, run: str, source: str, target: str) -> None:
        look("move", target, False)
        move(self, run, source, target)
        look("move", target, True)

    def watched_publish(self: Store, manifest: Any) -> None:
        tables = " ".join(sorted({f.table for f in manifest.files}))
        look("publish", tables, False)
        publish(self, manifest)
        look("publish", tables, True)

    Store.put, Store.move, Store.publish = watched_put, watched_move, watched_publish  # type: ignore[method-assign]


def _follow_orders(what: str, path: str, is_after: bool) -> None:
    file = Path(os.environ[ORDERS]) / "order.json"
    try:
        order = Order(**json.loads(file.read_text()))
        if not order.obeyed(what, path, is_after=is_after):
            return
        file.unlink()  # of two workers one obeys
    except FileNotFoundError:
        return
    os.kill(order.pid or os.getpid(), signal.SIGKILL)


def _in_child(work: Callable[[], object]) -> int:
    """Return how a process ended that did the work: its exit code, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _main(orders: str) -> None:
    """For each order make a run that is killed, then make it again; print how both ended."""
    from pipeline_inline import make_run  # imported before any child: each would take a second

    def make(store: str, dumps: str, config: str, order: Order | None) -> None:
        def look(what: str, path: str, is_after: bool) -> None:
            if order is not None and order.obeyed(what, path, is_after=is_after):
                os.kill(os.getpid(), signal.SIGKILL)

        watch(look)
        make_run(Store(store), "one", [dumps], config=config)

    ends = []
    for one in json.loads(orders):
        order = Order(**one["order"]) if one["order"] else None
        given = (one["store"], one["dumps"], one["config"])
        first = _in_child(functools.partial(make, *given, order))
        ends.append([first, _in_child(functools.partial(make, *given, None)) if order else 0])
    print(json.dumps(ends))


if __name__ == "__main__":
    _main(sys.argv[1])
elif ORDERS in os.environ:
    watch(_follow_orders)
