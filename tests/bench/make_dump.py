"""A large dump with the proportions and the text of real ones, made in bounded memory: the benchmark's input.

Of 1,000 events about 360 are operators, 165 calls, 115 kernels and copies, 320 arrows, 36 Python frames, 7 carry
collective arguments: what dumps of language-model training hold. Host events come first, device work after them in
order of completion, the profiler's own spans (whose process is a text) last.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Literal, get_args

Style = Literal["newest", "released", "compact"]
"""One key a line; several keys a line; all on one line, as after a rewrite by a JSON library."""

_BASE_NS = 1_790_857_026_000_000_000
_FIRST_NS = 4_458_676_000_000_000
_UNIT_NS = 26_417
_LAG_NS = 2_000_000
_STEPS = 10
_MAIN, _BACKWARD, _PROCESS = 4100, 4171, 4100

_OPERATORS = (
    ("aten::linear", "aten::addmm", "aten::as_strided"),
    ("aten::layer_norm", "aten::native_layer_norm", "aten::empty", "aten::view"),
    ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0", "aten::mm"),
    ("## Call CompiledFxGraph f3wyxk6kq5q3dtz7uwnn7i6zvnf2tqbj2yo5a4c5yqk4zt2cs7ab ##", "aten::mul", "aten::add"),
)
_KERNELS = (
    "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x4_nt_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x4_nt_align8::Params)",
)
_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_SHAPES = (
    '"Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", '
    '"Scalar", "Scalar"], "Input Strides": [[1], [1024, 1], [1, 1024], [], []], '
    '"Input Dims": [[4096], [16384, 1024], [1024, 4096], [], []], '
)
_COLLECTIVE = (
    '"Collective name": "allreduce", "In msg nelems": 13107200, "Out msg nelems": 13107200, "Group size": 8, '
    '"dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", "Process Group Name": "0", '
    '"Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "Seq": {seq}'
)


def make_dump(path: Path, *, megabytes: float, style: Style = "newest") -> tuple[int, int]:
    """Write a dump of about `megabytes` (10^6 bytes of text), compressed where the name ends in .gz.

    Returns how many events and how many bytes of text it has.
    """
    writer = _Writer(style)
    n_units = max(_STEPS, int(megabytes * 1e6 / writer.bytes_per_unit()))
    n_events = n_bytes = 0
    with _open(path) as file:
        for text, count in writer.parts(n_units):
            data = text.encode()
            file.write(data)
            n_events += count
            n_bytes += len(data)
    return n_events, n_bytes


def _open(path: Path) -> BufferedIOBase:
    if path.suffix == ".gz":
        return gzip.GzipFile(path, "wb", compresslevel=6, mtime=0)
    return path.open("wb")


class _Writer:
    """Writes a launch at a time: what the host does for it, then, in a second pass, the call and its kernel."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self._texts: list[str] = []
        self._separator = ", " if style == "compact" else ",\n  "

    def bytes_per_unit(self) -> float:
        """Return the mean length of a launch's text."""
        for unit in range(210):
            self._host(unit)
            self._device(unit)
        return len(self._take()[0]) / 210

    def parts(self, n_units: int) -> Iterator[tuple[str, int]]:
        """Yield pieces of the text and how many events each has."""
        yield self._header(), 0
        per_step = -(-n_units // _STEPS)
        for step in range(_STEPS):
            start = _time(step * per_step)
            args = '"External id": 1,"Record function id": 0, "Ev Idx": 0'
            name = f"ProfilerStep#{100 + step}"
            self._event("user_annotation", name, _MAIN, start - 900, per_step * _UNIT_NS, args)
            yield from self._passes(range(step * per_step, min(n_units, (step + 1) * per_step)), self._host)
        yield from self._passes(range(n_units), self._device)
        yield self._trailer(n_units)

    def _passes(self, units: range, write: Callable[[int], None]) -> Iterator[tuple[str, int]]:
        for unit in units:
            write(unit)
            if len(self._texts) > 8_000:
                text, count = self._take()
                yield text + self._separator, count
        if self._texts:
            text, count = self._take()
            yield text + self._separator, count

    def _take(self) -> tuple[str, int]:
        texts, self._texts = self._texts, []
        return self._separator.join(texts), len(texts)

    def _host(self, unit: int) -> None:
        start = _time(unit)
        thread = _BACKWARD if unit % 3 == 2 else _MAIN
        external = 5 * unit + 10
        if unit % 3 == 0:
            args = f'"Python parent id": {unit // 3}, "Python id": {unit // 3 + 1}, "Ev Idx": {unit}'
            name = f"transformers/models/llama/modeling_llama.py({200 + unit % 90}): forward"
            self._event("python_function", name, thread, start - 400, 25_000 + unit % 377, args)
        if unit % 35 == 34:
            text = f'"External id": {external},"Record function id": 0, {_SHAPES}"Rank": 3, '
            args = f'{text}{_COLLECTIVE.format(seq=unit // 35)}, "Ev Idx": {unit}'
            self._event("cpu_op", "record_param_comms", thread, start, 21_000 + unit % 977, args)
        names = _OPERATORS[unit % len(_OPERATORS)]
        for depth, name in enumerate(names):
            at, lasts = start + 700 * depth + unit % 89, 19_000 - 1_900 * depth + unit % 613
            text = f'"External id": {external + depth},"Record function id": 0, '
            if depth == 1:
                text += f'"Sequence number": {unit}, "Fwd thread id": {int(thread == _BACKWARD)}, '
            self._event("cpu_op", name, thread, at, lasts, f'{text}{_SHAPES}"Ev Idx": {4 * unit + depth}')
            if depth == 1 and unit % 5 < 4:
                self._arrow("f" if thread == _BACKWARD else "s", unit % 90_000, _PROCESS, thread, at, "fwdbwd")

    def _device(self, unit: int) -> None:
        # Buffers of calls and of kernels are handed over by turns: a kernel stands before its call as often as after.
        if unit % 2:
            self._call(unit)
            self._kernel(unit)
        else:
            self._kernel(unit)
            self._call(unit)

    def _call(self, unit: int) -> None:
        at = _time(unit) + 6_000 + unit % 311
        thread = _BACKWARD if unit % 3 == 2 else _MAIN
        correlation = 7 * unit + 20_001
        if unit % 7 < 3:
            args = f'"External id": {5 * unit + 10},      "cbid": 317, "correlation": {correlation + 1}'
            self._event("cuda_runtime", "cudaStreamIsCapturing", thread, at - 900, 411 + unit % 50, args)
        name, number = ("cudaMemcpyAsync", 41) if unit % 40 == 7 else ("cudaLaunchKernel", 211)
        args = f'"External id": {5 * unit + 10},      "cbid": {number}, "correlation": {correlation}'
        self._event("cuda_runtime", name, thread, at, 4_100 + unit % 1_709, args)
        self._arrow("s", correlation, _PROCESS, thread, at, "ac2g")

    def _kernel(self, unit: int) -> None:
        at = _time(unit) + _LAG_NS + unit % 1_013
        correlation = 7 * unit + 20_001
        is_comm = unit % 35 == 34
        stream = 20 if is_comm else 7
        where = f'"device": 3, "context": 1,      "stream": {stream}, "correlation": {correlation}'
        external = f'"External id": {5 * unit + 10}'
        if unit % 40 == 7:
            text = f'{external},      {where},      "bytes": {4_096 + unit}, "memory bandwidth (GB/s)": 22.016'
            name = "Memcpy HtoD (Pinned -> Device)"
            self._event("gpu_memcpy", name, stream, at, 1_400 + unit % 3_001, text, process=3)
        else:
            text = (
                f'{external},      "queued": 0, {where},      "registers per thread": 168,      '
                f'"shared memory": 213244,      "blocks per SM": 0.727273,      "warps per SM": 8.727273,      '
                f'"grid": [{8 + unit % 500}, 12, 1],      "block": [384, 1, 1],      '
                f'"est. achieved occupancy %": {unit % 100}'
            )
            if is_comm:
                text += f", {_COLLECTIVE.format(seq=unit // 35)}"
            name = _REDUCE if is_comm else _KERNELS[unit % len(_KERNELS)]
            self._event("kernel", name, stream, at, 19_000 + unit % 5_003, text, process=3)
        self._arrow("f", correlation, 3, stream, at, "ac2g")

    def _event(
        self, category: str, name: str, thread: int, start: int, lasts: int, args: str, process: int = _PROCESS
    ) -> None:
        ts, dur = f"{start // 1000}.{start % 1000:03d}", f"{lasts // 1000}.{lasts % 1000:03d}"
        if self.style == "newest":
            text = (
                f'{{\n    "ph": "X",\n    "cat": "{category}",\n    "name": "{name}",\n    "pid": {process},\n'
                f'    "tid": {thread},\n    "ts": {ts},\n    "dur": {dur}\n    ,\n'
                f'    "args": {{\n      {args}\n    }}\n  }}'
            )
        elif self.style == "released":
            text = (
                f'{{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {process}, "tid": {thread},\n'
                f'    "ts": {ts}, "dur": {dur},\n    "args": {{\n      {args}\n    }}\n  }}'
            )
        else:
            text = (
                f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {process}, "tid": {thread}, '
                f'"ts": {ts}, "dur": {dur}, "args": {{{args}}}}}'
            )
        self._texts.append(text)

    def _arrow(self, phase: str, number: int, process: int, thread: int, start: int, category: str) -> None:
        ts = f"{start // 1000}.{start % 1000:03d}"
        binding = ', "bp": "e"' if phase == "f" else ""
        if self.style == "newest":
            text = (
                f'{{\n    "ph": "{phase}",\n    "id": {number},\n    "pid": {process},\n    "tid": {thread},\n'
                f'    "ts": {ts},\n    "cat": "{category}",\n    "name": "{category}"\n    {binding}\n  }}'
            )
        elif self.style == "released":
            text = (
                f'{{\n    "ph": "{phase}", "id": {number}, "pid": {process}, "tid": {thread}, "ts": {ts},\n'
                f'    "cat": "{category}", "name": "{category}"{binding}\n  }}'
            )
        else:
            text = (
                f'{{"ph": "{phase}", "id": {number}, "pid": {process}, "tid": {thread}, "ts": {ts}, '
                f'"cat": "{category}", "name": "{category}"{binding}}}'
            )
        self._texts.append(text)

    def _header(self) -> str:
        devices = ", ".join(
            f'{{"id": {device}, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480}}' for device in range(8)
        )
        text = (
            f'{{"schemaVersion": 1,\n"deviceProperties": [{devices}],\n"distributedInfo": {{"backend": "nccl", '
            f'"rank": 3, "world_size": 8, "pg_count": 1, "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg", '
            f'"backend_config": "cuda:nccl", "pg_size": 8, "ranks": [0, 1, 2, 3, 4, 5, 6, 7]}}]}},\n'
            f'"displayTimeUnit": "ms",\n"baseTimeNanoseconds": {_BASE_NS},\n"traceEvents": [\n  '
        )
        return text.replace("\n", " ") if self.style == "compact" else text

    def _trailer(self, n_units: int) -> tuple[str, int]:
        """Return the last events, whose processes are texts, and what follows the events."""
        ts, dur = f"{_FIRST_NS // 1000}.{_FIRST_NS % 1000:03d}", f"{n_units * _UNIT_NS // 1000}.001"
        events = [
            f'{{"ph": "X", "cat": "Trace", "ts": {ts}, "dur": {dur}, "pid": "Spans", "tid": "PyTorch Profiler", '
            '"name": "PyTorch Profiler (0)", "args": {"Op count": 0}}',
            f'{{"name": "process_sort_index", "ph": "M", "ts": {ts}, "pid": "Spans", "tid": 0, '
            '"args": {"sort_index": 536870912}}',
            '{"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", '
            f'"tid": "Trace PyTorch Profiler", "ts": {ts}}}',
            f'{{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": {ts}}}',
        ]
        return self._separator.join(events) + '], "traceName": "rank3.pt.trace.json"}', len(events)


def _time(unit: int) -> int:
    return _FIRST_NS + unit * _UNIT_NS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=float, default=340)
    parser.add_argument("--style", choices=get_args(Style), default="newest")
    options = parser.parse_args()
    print(make_dump(options.path, megabytes=options.megabytes, style=options.style))
