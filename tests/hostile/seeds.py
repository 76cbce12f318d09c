"""Small whole dumps of every format, and what may be done to each: a new format is one more line in SEEDS."""

from __future__ import annotations

import gzip
import json
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa

from flight_cases import lost_rank_5
from formats import nsys_files, test_nsys_recipe, test_rocprofv3, test_rpd
from hostile import mutations
from json_lines import json_lines
from longpole.synth import write
from timeline_cases import pipeline, write_job

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass(frozen=True)
class Seed:
    """A whole dump."""

    file: str  # its name, by which ranks are told
    data: bytes
    kind: str  # "trace", "json", "lines", "csv", "pickle", "sqlite", "parquet": what it is made of
    counted: tuple[str, ...] = ()  # columns whose values cost an event at most itself


def case(name: str, number: int) -> Random:
    """Return what a case of a format follows from."""
    return Random(f"{name} {number}")  # noqa: S311


def reshaped(seed: Seed, random: Random, folder: Path) -> bytes:
    """Return the seed's bytes with odd values, well formed as before."""
    return _RESHAPES[seed.kind](seed.data, random, folder)


def mutated(seed: Seed, random: Random, folder: Path) -> bytes:
    """Return the seed's bytes after damage of any kind."""
    choice = random.random()
    data = reshaped(seed, random, folder) if choice < 0.55 else seed.data
    if choice > 0.45:
        data = mutations.damaged(data, random)
    return mutations.wrapped(data, random) if random.random() < 0.15 else data


_RESHAPES: dict[str, Callable[[bytes, Random, Path], bytes]] = {
    "trace": lambda data, random, _: mutations.trace(data, random)[0],
    "json": lambda data, random, _: mutations.json_values(data, random),
    "lines": lambda data, random, _: b"\n".join(
        mutations.json_values(line, random) if line and random.random() < 0.2 else line for line in data.split(b"\n")
    ),
    "csv": lambda data, random, _: b",".join(
        random.choice((b"", b"NaN", b"1e999999", b'"', b"-1", b"9" * 99)) if random.random() < 0.1 else field
        for field in data.split(b",")
    ),
    "pickle": lambda data, random, _: mutations.pickled(data, random),
    "sqlite": mutations.database,
    "parquet": lambda data, random, _: mutations.parquet(data, random),
}


@cache
def seeds() -> dict[str, Seed]:
    """Return the seeds by the name of their format."""
    return {
        "kineto": Seed("rank0.json", _unzipped(FIXTURES / "worked" / "rank0.pt.trace.json.gz"), "trace"),
        "kineto-cpu": Seed("rank0.json", (FIXTURES / "cpu" / "rank0.pt.trace.json").read_bytes(), "trace"),
        "kineto-list": Seed("rank0.json", _bare_list(), "trace"),
        "flight-pickle": Seed("nccl_trace_rank_4", pickle.dumps(lost_rank_5()[4], 2), "pickle"),
        "flight-json": Seed("nccl_trace_rank_4.json", json.dumps(lost_rank_5()[4]).encode(), "json"),
        "nsys": Seed("rank0.sqlite", _database(_nsys), "sqlite", _NSYS_CELLS),
        "rpd": Seed("rank0.rpd", _database(_rpd), "sqlite", ("gpuId", "queueId", "start", "end", "pid", "tid")),
        "rocpd": Seed("rank0.db", _database(_rocpd), "sqlite", ("stream_id", "start", "end", "size")),
        "nsys-recipe": Seed("rank0.parquet", _recipe(), "parquet", ("NumGPUOps", "PID", "TID")),
        "events": Seed("rank0.parquet", _events(), "parquet"),
        "op-timeline": Seed("job.parquet", _timeline(), "parquet"),
        "timers": Seed("rank0.jsonl", _timers(), "lines"),
        "telemetry": Seed("gpu.csv", _telemetry(), "csv"),
    }


_NSYS_CELLS = ("start", "end", "deviceId", "streamId", "correlationId", "gridX", "blockX", "shortName", "demangledName")


def _unzipped(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def _bare_list() -> bytes:
    told = json.loads((FIXTURES / "idle-causes" / "rank0.pt.trace.json").read_bytes())
    return json.dumps(told["traceEvents"]).encode()


def _database(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.sqlite"
        write(path)
        return path.read_bytes()


def _nsys(path: Path) -> None:
    calls = [nsys_files.call(10 * n, 10 * n + 5, correlationId=n + 1) for n in range(40)]
    kernels = [
        nsys_files.kernel(10 * n + 6, 10 * n + 12, correlationId=n + 1, demangledName=1 + n % 2) for n in range(40)
    ]
    ranges = [nsys_files.marked(100 * n, 100 * n + 90, f"iteration {n}") for n in range(4)]
    nsys_files.write(
        path,
        {
            nsys_files.CUPTI + "KERNEL": kernels,
            nsys_files.CUPTI + "RUNTIME": calls,
            nsys_files.CUPTI + "MEMCPY": [
                {"start": 500 + n, "end": 501 + n, "deviceId": 0, "contextId": 1, "streamId": 7,
                 "correlationId": 50 + n,
                 "globalPid": nsys_files.pid(144), "bytes": 4_096, "copyKind": 1, "graphNodeId": None}
                for n in range(5)
            ],
            nsys_files.CUPTI + "SYNCHRONIZATION": [
                {"start": 600, "end": 610, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 60,
                 "globalPid": nsys_files.pid(144), "syncType": 2, "eventId": 5}
            ],
            "NVTX_EVENTS": ranges,
        },
    )  # fmt: skip


def _rpd(path: Path) -> None:
    ops = [test_rpd.operation(n, 100 * n + 10, 100 * n + 50, "KernelExecution", "gemm") for n in range(1, 30)]
    apis = [test_rpd.api(n, 100 * n, 100 * n + 5, "hipLaunchKernel") for n in range(1, 30)]
    test_rpd.write(path, ops, apis, [(n, n) for n in range(1, 30)])


def _rocpd(path: Path) -> None:
    test_rocprofv3.write(path, ("_0000ab_1f", 70, 4))


def _recipe() -> bytes:
    rows = [
        test_nsys_recipe._range(
            n, f"iteration {n}" if n % 5 == 0 else test_nsys_recipe.THUNK + f"fusion.{n}#", 1_000 * n, 900
        )
        for n in range(1, 40)
    ]
    return test_nsys_recipe._file(pa.Table.from_pylist(rows, schema=test_nsys_recipe.SCHEMA))


def _events() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write("worked", Path(folder), form="events")[0].read_bytes()


def _timers() -> bytes:
    names = ("step", "batch-generator", "forward-compute", "backward-compute", "grads-all-reduce", "optimizer")
    rows = [
        {"rank": n % 3, "step": n // 18, "name": names[n // 3 % 6], "start_ms": 100 * n, "duration_us": 90.5}
        for n in range(108)
    ]
    return json_lines(rows).encode()


def _telemetry() -> bytes:
    head = "time,host,gpu,clocks.sm [MHz],power.draw [W],temperature.gpu,throttle_reasons\n"
    return (head + "".join(f"{n}.5,node{n % 2},{n % 8},1980 MHz,688.5,61,0x4\n" for n in range(60))).encode()


def _timeline() -> bytes:
    ops = pipeline(2, 2, 4, lambda op: 1_000_000 + 1_000 * op.stage)
    with tempfile.TemporaryDirectory() as folder:
        return write_job(Path(folder) / "job" / "job.parquet", ops).read_bytes()
