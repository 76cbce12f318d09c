"""Small files that ask for much, read in a process of their own: in time, in little memory, and what is lost is said."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.reading import event
from formats.test_nsys_recipe import SCHEMA
from longpole.synth import write

MOST_MIB = 600
"""Peak of a child: Python and its libraries take 150 MiB, a reader is given 350."""

_CPU_S = 120
_CHILD = """
import resource, sys
from pathlib import Path
from hostile.consuming import consume
for name in sys.argv[1:]:
    outcome = consume(Path(name))
    told = outcome.error or f"{outcome.n_events} {outcome.n_stored} {outcome.n_dropped}"
    print(Path(name).name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, told.replace("\\n", " "), sep="\\t")
"""


def consumed(paths: Iterable[Path]) -> dict[str, str]:
    """Return what became of each file, all read by one child within the limits."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))

    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        preexec_fn=limit,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert all(int(peak) < MOST_MIB for _, peak, _ in rows), [(name, peak) for name, peak, _ in rows]
    return {name: told for name, _, told in rows}


def packed(*pieces: bytes) -> bytes:
    """Return gzip of many members: the same piece again is no work."""
    made: dict[bytes, bytes] = {}
    for piece in pieces:
        if piece not in made:
            made[piece] = gzip.compress(piece, 1, mtime=0)
    return b"".join(made[piece] for piece in pieces)


_GOOD = json.dumps(event("k")).encode()
_LIST = b'{"schemaVersion": 1, "traceEvents": ['


def bombs(folder: Path) -> dict[str, bytes]:
    """Return the files by name."""
    mib = 1 << 20
    many = {"profiling_name": "nccl:all_reduce", "record_id": 1, "frames": [], "input_sizes": [[1] * 30] * 1_000}
    groups = {str(n): {"name": str(n), "desc": "d" * 100, "ranks": "[0, 1]"} for n in range(50_000)}
    return {
        "blanks.json.gz": packed(_LIST, _GOOD, *[b" " * (8 * mib)] * 32, b"]}"),
        "name.json.gz": packed(
            _LIST, _GOOD, b',{"ph": "X", "pid": 0, "name": "', *[b"n" * (8 * mib)] * 32, b'"},', _GOOD, b"]}"
        ),
        "brackets.json.gz": packed(_LIST, _GOOD, b",", *[b"[" * mib] * 48),
        "small-events.json.gz": packed(_LIST, _GOOD, *[b",{}" * (mib // 4)] * 8, b"]}"),
        "header.json.gz": packed(b'{"a": "', *[b"h" * (8 * mib)] * 32, b'", "traceEvents": [', _GOOD, b"]}"),
        "zeros.sqlite.gz": packed(b"SQLite format 3\0" + bytes(4096), *[bytes(8 * mib)] * 16),
        "groups.json": b'{"distributedInfo": {"rank": 0, "pg_config": '
        + json.dumps(list(groups.values())).encode()
        + b'}, "traceEvents": ['
        + _GOOD
        + b"]}",
        "nccl_trace_rank_0": pickle.dumps({"pg_config": {}, "entries": [many] * 150_000}, 2),
        "nccl_trace_rank_1": pickle.dumps({"pg_config": groups, "entries": []}, 2),
        "nccl_trace_rank_2": packed(b"\x80\x02", *[b"N0" * (4 * mib)] * 64, b"."),
        "repeated.parquet": repeated(folder),
        "events.parquet": repeated_events(folder),
        "wide.parquet": wide(),
    }


def repeated(folder: Path) -> bytes:
    """Return a recipe's table of 2^27 rows that all are the same."""
    n_rows = 1 << 20
    columns = [
        pa.array(np.zeros(n_rows, f.type.to_pandas_dtype()))
        if f.name != "Name"
        else pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int32)), ["n"]).cast(pa.string())
        for f in SCHEMA
        if f.name not in ("Style", "RangeStack")
    ]
    table = pa.Table.from_arrays(columns, [f.name for f in SCHEMA if f.name not in ("Style", "RangeStack")])
    target = BytesIO()
    with pq.ParquetWriter(target, table.schema, compression="zstd") as writer:
        for _ in range(128):
            writer.write_table(table, row_group_size=n_rows)
    return target.getvalue()
