"""`longpole shell`: DuckDB's own client on the views of a store, on a copy that it can only read."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from longpole import scratch
from longpole.cli.options import StoreOption, parse_steps, stderr
from longpole.errors import LongpoleError
from longpole.session import Session
from longpole.store import store_at
from longpole.units import bytes_text, parse_bytes

_GUARDS = ("-readonly", "-cmd", ".safe_mode")
"""No write, no other file, no program. (`-safe` says the same, but client 1.5 then refuses its own settings.)"""


def shell(
    *,
    run: Annotated[list[str] | None, Parameter(help="Only these runs; else every run of the store.")] = None,
    steps: Annotated[str | None, Parameter(help="Bring the events of these steps too, as 100:104.")] = None,
    store: StoreOption = None,
    memory: Annotated[str, Parameter(help="What copying may hold before it spills to disk.")] = "2GiB",
) -> int:
    """Open DuckDB's command-line client on every view, with its editor, history and completion.

    The views are copied first, and the copy goes when the client ends; of events only those of --steps.

    Example: longpole shell --run nightly-2117 --steps 100:101
    """
    chosen = parse_steps(steps)
    client = shutil.which("duckdb")
    if client is None:
        raise LongpoleError(
            "DuckDB's command-line client `duckdb` is not on the PATH",
            "Get it: pip install duckdb-cli, or https://duckdb.org/install. Meanwhile `longpole query` answers the same"
            " SQL, and `longpole recipes` what people ask most.",
        )
    with scratch.folder() as folder:
        copy = Path(folder) / "longpole.duckdb"
        with Session(store_at(store), run, memory=parse_bytes(memory)) as session:
            session.copy_to(copy, chosen)
        stderr().print(f"{bytes_text(copy.stat().st_size)} copied; `SHOW TABLES` lists the views, .quit ends")
        return _wait_for([client, *_GUARDS, str(copy)])


def _wait_for(command: list[str]) -> int:
    """Return 0 once the client has ended well, else 1; Ctrl-C is the client's, to stop a query."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # a handler, for the client would inherit that it is ignored
    try:
        done = subprocess.run(command, check=False)  # noqa: S603 - the user's own duckdb, on a path made here
    finally:
        signal.signal(signal.SIGINT, before)
    return 1 if done.returncode else 0
