"""`longpole export` as a person uses it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from longpole import cli, export
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with the worked example, a run of 21 steps, and one of two hosts that nothing ties."""
    folder = tmp_path_factory.mktemp("cli-export")
    url = str(folder / "store")
    make_run(Store(url), "worked", [FIXTURES / "worked"])
    (folder / "long").mkdir()
    _dump(folder / "long" / "rank0.json", 21)
    make_run(Store(url), "long", [folder / "long"])
    (folder / "apart").mkdir()
    for rank in (0, 1):
        _dump(folder / "apart" / f"rank{rank}.json", 2, rank=rank, world=2, node=f"host{rank}")
    make_run(Store(url), "apart", [folder / "apart"])
    return url


def _dump(path: Path, n_steps: int, *, rank: int = 0, world: int = 1, node: str = "a") -> None:
    events: list[dict[str, Any]] = []
    for n in range(n_steps):
        host = {"ph": "X", "pid": 9, "tid": 9}
        call = {"correlation": n + 1}
        events += [
            {**host, "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 1000 * n, "dur": 999},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1000 * n + 5, "dur": 1, "args": call},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1000 * n + 9, "dur": 500,
             "args": {"device": 0, "stream": 7, **call}},
        ]  # fmt: skip
    told = {"schemaVersion": 1, "host_name": node, "distributedInfo": {"rank": rank, "world_size": world}}
    path.write_text(json.dumps({**told, "traceEvents": events}))


@pytest.fixture
def here(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder from which the store is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGPOLE_STORE", store)
    return tmp_path


def _call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_export_writes_a_compressed_trace_that_inspect_reads(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _call(capsys, "export", "worked")

    assert (code, out) == (0, "")
    assert "wrote worked.trace.json.gz: 1138 slices" in err
    packed = (here / "worked.trace.json.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # no time: equal rows, equal bytes
    trace = json.loads(gzip.decompress(packed))
    assert sum(e["ph"] == "X" for e in trace["traceEvents"]) == 1138
    code, out, _ = _call(capsys, "inspect", "worked.trace.json.gz")
    assert code == 0
    assert "steps     10-13 (4)" in out
    assert "1,138 stored" in out
    assert "0 dropped" in out


def test_the_same_run_gives_the_same_bytes_and_a_trace_of_ours_may_be_replaced(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.json.gz", "two.json.gz", "two.json.gz", "plain.json", "plain.json"):
        assert _call(capsys, "export", "worked", "-o", name)[0] == 0

    assert (here / "one.json.gz").read_bytes() == (here / "two.json.gz").read_bytes()
    assert gzip.decompress((here / "one.json.gz").read_bytes()) == (here / "plain.json").read_bytes()
    assert sorted(p.name for p in here.iterdir()) == ["one.json.gz", "plain.json", "two.json.gz"]


@pytest.mark.parametrize("content", [b"mine", gzip.compress(b"mine", mtime=0), b"\x1f\x8b broken", b""])
def test_another_file_is_not_overwritten_unless_forced(
    here: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (here / "trace.json.gz").write_bytes(content)

    code, _, err = _call(capsys, "export", "worked", "-o", "trace.json.gz")

    assert (code, (here / "trace.json.gz").read_bytes()) == (1, content)
    assert "is no trace of longpole's" in err
    assert "--force" in err
    assert _call(capsys, "export", "worked", "-o", "trace.json.gz", "--force")[0] == 0
    assert gzip.decompress((here / "trace.json.gz").read_bytes())[:1] == b"{"


@pytest.mark.parametrize(
    ("steps", "told"), [("3:5", "3-5"), ("3:", "3-20"), (":5", "0-5"), ("7", "7-7"), ("0:20", "0-20")]
)
def test_steps_are_taken_from_the_first_to_the_last(
    here: Path, capsys: pytest.CaptureFixture[str], steps: str, told: str
) -> None:
    assert _call(capsys, "export", "long", "--steps", steps, "-o", "trace.json")[0] == 0

    assert json.loads((here / "trace.json").read_text())["otherData"]["steps"] == told


def test_of_more_than_twenty_steps_some_must_be_chosen(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _call(capsys, "export", "long")

    assert code == 1
    assert err == (
        "longpole: run 'long' has 21 steps, 0 to 20: too many for one trace\n\nChoose some, as --steps 0:4.\n"
    )
    assert list(here.iterdir()) == []


def test_a_run_without_a_common_clock_is_exported_and_the_terminal_says_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = _call(capsys, "export", "apart", "-o", "trace.json")

    assert code == 0
    assert "clock not aligned: 2 hosts without a collective that ties them; each rank keeps its own clock" in err
    assert json.loads((here / "trace.json").read_text())["otherData"]["is_aligned"] is False


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["absent"], 1, "there is no run 'absent'"),
        (["worked", "--steps", "1:2"], 1, "It recorded steps 10 to 13"),
        (["worked", "--steps", "13:10"], 2, "is no range of steps"),
        (["worked", "--steps", ":"], 2, "is no range of steps"),
        (["worked", "--steps", "a:b"], 2, "is no range of steps"),
        (["worked", "--steps", "9" * 30], 2, "is no range of steps"),
        (["worked", "--ranks", "7"], 1, "Ranks that recorded them: 0-1"),
        (["worked", "--ranks", "1-0"], 2, "names no ranks"),
        (["worked", "--ranks", "0,,1"], 2, "names no ranks"),
        (["worked", "--ranks", ""], 2, "names no ranks"),
        (["worked", "--kind", "python"], 2, "--help"),
        (["worked", "-o", "no/such/trace.json"], 1, "does not exist"),
        (["worked", "-o", "."], 1, "is a folder"),
        (["worked", "--memory", "much"], 2, "is no size"),
    ],
)
def test_a_wrong_request_says_so_and_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, says: str
) -> None:
    found, out, err = _call(capsys, "export", *argv)

    assert (found, out) == (code, "")
    assert says in err
    assert "Traceback" not in err
    assert list(here.iterdir()) == []


def test_a_trace_that_breaks_off_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "trace.json")

    monkeypatch.setattr(export, "_write_rank", full)

    code, _, err = _call(capsys, "export", "worked", "-o", "trace.json")

    assert (code, err) == (1, "longpole: trace.json: No space left on device\n")
    assert list(here.iterdir()) == []
