"""`longpole explain` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longpole import cli
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with the worked example with late input, and with a run of two hosts that nothing ties."""
    folder = tmp_path_factory.mktemp("cli-explain")
    url = str(folder / "store")
    make_run(Store(url), "late", [FIXTURES / "worked-late-input"])
    (folder / "apart").mkdir()
    for rank in (0, 1):
        told = {"schemaVersion": 1, "host_name": f"host{rank}", "distributedInfo": {"rank": rank, "world_size": 2}}
        step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 9, "tid": 9, "ts": 0, "dur": 99}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 5, "dur": 1,
                "args": {"correlation": 1}}  # fmt: skip
        gemm = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9, "dur": 50,
                "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
        (folder / "apart" / f"rank{rank}.json").write_text(json.dumps({**told, "traceEvents": [step, call, gemm]}))
    make_run(Store(url), "apart", [folder / "apart"])
    return url


def _call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


LATE = """\
late: step 12 (the slowest of 4, 10 to 13) took 830.0 ms and ended on rank 0, 0 ns after the next rank: a tie.
Its critical path is compute 84.3 %, input 9.6 %, comm 6.0 % and 2 smaller, all on rank 0.
By name most is sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32 48.2 %,\
 sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32 24.1 % and\
 at::native::(anonymous namespac…dOptimizerTensorListMetadata<4>> 12.0 %.

  at ms  length ms    share  where                kind         what
  0.000     79.900    9.6 %  rank 0 thread 21000  input        \
enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
 79.900      0.100  < 0.1 %  rank 0 thread 21000  host 80.0 %  … 4 shorter segments, most in (no event): 50.0 µs
 80.000    200.000   24.1 %  rank 0 stream 7      compute      \
sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32 × 4
280.000    400.000   48.2 %  rank 0 stream 7      compute      \
sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32 × 8
680.000     50.000    6.0 %  rank 0 stream 20     comm         \
ncclDevKernel_AllReduce_Sum_f32…cclDevKernelArgsStorage<4096ul>)
730.000    100.000   12.0 %  rank 0 stream 7      compute      \
at::native::(anonymous namespac…dOptimizerTensorListMetadata<4>> × 4

No other rank was waited for on it.
Host time without an event < 0.1 %, unexplained 0.0 %.
"""


def test_a_step_is_told_in_about_fifteen_lines(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _call(capsys, "explain", "late", "--step", "12", "--store", store) == (0, LATE, "")


def test_without_a_step_the_slowest_is_told(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _call(capsys, "explain", "late", "--store", store)

    assert (code, err) == (0, "")
    assert out.startswith("late: step 10 (the slowest of 4, 10 to 13) took 830.0 ms ")


def test_json_is_one_object_of_integers_of_nanoseconds(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _call(capsys, "explain", "late", "--step", "11", "--format", "json", "--store", store)
    told = json.loads(out)

    assert (code, err) == (0, "")
    assert out.isascii()
    assert (told["run"], told["step"], told["duration_ns"], told["path_ns"]) == ("late", 11, 830_000_000, 830_000_000)
    assert {(kind["kind"], kind["duration_ns"]) for kind in told["kinds"]} == {
        ("compute", 700_000_000), ("input", 79_900_000), ("comm", 50_000_000), ("host", 80_000), ("launch", 20_000),
    }  # fmt: skip
    assert [stretch["offset_ns"] for stretch in told["stretches"]] == [
        0, 79_900_000, 80_000_000, 280_000_000, 680_000_000, 730_000_000,
    ]  # fmt: skip


def test_the_same_step_is_told_in_the_same_bytes(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("table", "json"):
        argv = ("explain", "late", "--format", form, "--store", store)
        assert _call(capsys, *argv) == _call(capsys, *argv)


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["absent"], 1, "there is no run 'absent'"),
        (["late", "--step", "9"], 1, "has no step 9\n\nIt has steps 10 to 13 (4)."),
        (["apart"], 1, "has no step whose length is known: its ranks share no clock"),
        (["apart", "--step", "4"], 1, "the length of step 4 of run 'apart' is not known"),
        (["late", "--step", "-1"], 2, "is no step's number"),
        (["late", "--step", "9" * 30], 2, "is no step's number"),
        (["late", "--step", "x"], 2, "--help"),
        (["late", "--format", "csv"], 2, "--help"),
        (["late", "--memory", "much"], 2, "is no size"),
    ],
)
def test_a_wrong_request_says_so(
    store: str, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, says: str
) -> None:
    found, out, err = _call(capsys, "explain", *argv, "--store", store)

    assert (found, out) == (code, "")
    assert says in err
    assert "Traceback" not in err
