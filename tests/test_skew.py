"""The helper that writes dumps with a wrong clock: exact, whole, and undone by the pipeline on a made run."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from skew import ClockError, first_start_ns, skewed_copies, skewed_copy

FIXTURES = Path(__file__).parents[1] / "fixtures"

DUMP = rb"""{"baseTimeNanoseconds": 1000, "traceEvents": [
{"ph": "X", "cat": "kernel", "name": "a \"ts\": 7, \"dur\": 7", "pid": 0, "tid": 7,
 "ts": 1000000.250, "dur": 10000},
{"ph": "s", "id": 1, "pid": 0, "tid": 7, "ts": 2000000, "name": "ac2g"}
]}"""


def _copied(tmp_path: Path, error: ClockError, dump: bytes = DUMP) -> bytes:
    (tmp_path / "rank0.json").write_bytes(dump)
    skewed_copy(tmp_path / "rank0.json", tmp_path / "copy.json.gz", error)
    return gzip.decompress((tmp_path / "copy.json.gz").read_bytes())


def test_every_time_moves_by_the_offset_and_by_the_drift_since_its_moment(tmp_path: Path) -> None:
    found = _copied(tmp_path, ClockError(offset_ns=-7, drift_ppb=50_000, since_ns=1_000_000_250))

    # 10 ms at 50 ppm are 500 ns; 1 s less 250 ns are 49,999.9875 ns, so 50,000.
    assert found == DUMP.replace(b'"ts": 1000000.250, "dur": 10000', b'"ts": 1000000.243, "dur": 10000.500').replace(
        b'"ts": 2000000,', b'"ts": 2000049.993,'
    )


def test_a_right_clock_changes_no_time(tmp_path: Path) -> None:
    found = _copied(tmp_path, ClockError(0, 0))

    assert found == DUMP.replace(b"10000}", b"10000.000}").replace(b"2000000,", b"2000000.000,")


@pytest.mark.parametrize(
    "event",
    [
        b'{"ts": 1.2345, "dur": 1}',
        b'{"ts": 1e3, "dur": 1}',
        b'{"ts": -1, "dur": 1}',
        b'{"dur": 1, "ts": 1}',
        b'{"ts": "1"}',
    ],
)
def test_a_time_written_in_another_way_is_refused(tmp_path: Path, event: bytes) -> None:
    with pytest.raises(ValueError, match=r"below 1 ns|stands alone"):
        _copied(tmp_path, ClockError(1, 0), b'{"traceEvents": [' + event + b"]}")


def test_a_time_before_0_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="below 0"):
        _copied(tmp_path, ClockError(-(10**10), 0))


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    _copied(tmp_path, ClockError(5, 5))
    before = (tmp_path / "copy.json.gz").read_bytes()
    _copied(tmp_path, ClockError(5, 5))

    assert (tmp_path / "copy.json.gz").read_bytes() == before


def test_two_ranks_of_the_worked_example_ten_seconds_and_40_ppm_apart_give_its_answer(tmp_path: Path) -> None:
    dumps = sorted((FIXTURES / "worked").glob("*.json.gz"))
    since = first_start_ns(dumps[0])
    skewed_copies(dumps, tmp_path / "dumps", [ClockError(0, 0), ClockError(9_999_999_999, 40_000, since)])
    store = Store(str(tmp_path / "store"))
    make_run(store, "worked", [tmp_path / "dumps"])

    with Session(store) as session:
        steps = session.con.execute("SELECT step, duration_ns, verdict FROM steps ORDER BY step").fetchall()
        clocks = session.con.execute(
            "SELECT rank, drift_ppb, residual_ns, basis FROM rank_clocks ORDER BY rank"
        ).fetchall()
        spread = session.con.execute("SELECT max(end_spread_ns), count(*) FROM collective_instances").fetchall()

    assert steps == [(step, 750_000_000, "ok") for step in (10, 11, 12, 13)]
    # The drift is told of the rank's own time: 40,000 / (1 + 0.00004).
    assert clocks == [(0, 0.0, 0, "collectives"), (1, 39_998.4, 0, "collectives")]
    assert spread == [(0, 16)]
