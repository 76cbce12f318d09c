"""Small files that ask for much, read in a process of their own: in time and in little memory, losses counted."""

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

from formats.reading import event
from formats.test_nsys_recipe import SCHEMA

MOST_MIB = 600
"""Peak of a child: Python and its libraries take 150 MiB, a reader is given 350."""

_CPU_S = 120
_CHILD = """
import re, sys
from pathlib import Path
from hostile.consuming import consume
for name in sys.argv[1:]:
    outcome = consume(Path(name))
    told = outcome.error or f"{outcome.n_events} {outcome.n_stored} {outcome.n_dropped}"
    peak_kib = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]
    print(Path(name).name, int(peak_kib) >> 10, told.replace("\\n", " "), sep="\\t")
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
_HEAD = b'{"schemaVersion": 1, "traceEvents": ['


def bombs() -> dict[str, tuple[bytes, str]]:
    """Return files by name, each with what becomes of it: why it is refused, or events, stored and dropped."""
    mib = 1 << 20
    record = {"profiling_name": "nccl:all_reduce", "record_id": 1, "input_sizes": [[1] * 30] * 1_000}
    groups = {str(n): {"name": str(n), "desc": "d" * 100, "ranks": "[0, 1]"} for n in range(20_000)}
    config = json.dumps(list(groups.values())).encode()
    return {
        "blanks.json.gz": (packed(_HEAD, _GOOD, *[b" " * (4 * mib)] * 10, b"]}"), "1 0 1"),
        "name.json.gz": (
            packed(_HEAD, _GOOD, b',{"ph": "X", "pid": 0, "name": "', *[b"n" * (4 * mib)] * 10, b'"},', _GOOD, b"]}"),
            "3 2 1",
        ),
        "brackets.json.gz": (packed(_HEAD, _GOOD, b",", *[b"[" * mib] * 40), "2 1 1"),
        "small.json.gz": (packed(_HEAD, _GOOD, *[b",{}" * (mib // 4)] * 2, b"]}"), "524289 1 524288"),
        "header.json.gz": (
            packed(b'{"a": "', *[b"h" * (4 * mib)] * 10, b'", "traceEvents": [', _GOOD, b"]}"),
            'JSON without "traceEvents"',
        ),
        "groups.json": (
            b'{"distributedInfo": {"pg_config": ' + config + b'}, "traceEvents": [' + _GOOD + b"]}", "1 1 0",
        ),
        "zeros.sqlite.gz": (packed(b"SQLite format 3\0" + bytes(4_096), *[bytes(4 * mib)] * 10), "cannot be read"),
        "nccl_trace_rank_0": (pickle.dumps({"pg_config": {}, "entries": [record] * 50_000}, 2), "50000 50000 0"),
        "nccl_trace_rank_1": (pickle.dumps({"pg_config": groups, "entries": []}, 2), "0 0 0"),
        "nccl_trace_rank_2": (packed(b"\x80\x02" + b"N0" * (34 * mib)), "has more than 67,108,864 bytes"),
        "repeated.parquet": (_repeated(), "more than fit into its"),
    }  # fmt: skip


def _repeated() -> bytes:
    """Return an Nsight recipe's table whose four million rows are all the same."""
    n_rows = 1 << 22
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int32)), ["n"])
    numbers = pa.array(np.zeros(n_rows, np.int64))
    table = pa.table({field.name: names if field.type == pa.string() else numbers for field in SCHEMA})
    target = BytesIO()
    pq.write_table(table, target, compression="zstd", row_group_size=n_rows)
    return target.getvalue()


def test_a_small_file_that_asks_for_much_costs_little(tmp_path: Path) -> None:
    files = bombs()
    for name, (data, _) in files.items():
        assert len(data) < 8 << 20, name
        (tmp_path / name).write_bytes(data)

    found = consumed([tmp_path / name for name in files])

    wrong = {name: told for name, (_, wanted) in files.items() if wanted not in (told := found[name])}
    assert wrong == {}
