"""Dumps and stores at a URL: S3 holds the bytes of a local store, and of its files no more is fetched than asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import fsspec
import pytest

from flight_cases import lost_rank_5, write_dumps
from longpole import catalog, cli
from longpole.discover import find
from longpole.errors import LongpoleError, StoreError
from longpole.remote import StepRange
from longpole.retention import old_runs, prune_run
from longpole.session import Session
from longpole.store import Manifest, PublishedFile, Store
from pipeline_inline import inline_commands, make_run
from s3_server import BUCKET, S3, running_s3
from store_tree import tree
from timeline_cases import pipeline, write_job

WORKED = Path(__file__).parents[1] / "fixtures" / "worked"

GROUPS = 20
ROWS = 2048  # of a group; every seventh event of a step is in none


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with running_s3() as s3:
        yield s3


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of events of twenty steps, each in a row group of its own."""
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    given = {
        "category": "'kernel'",
        "name": "'kernel ' || hash(n) % 5000",
        "step": f"CASE WHEN n % 7 > 0 THEN 100 + n // {ROWS} END",
        "start_ns": "1000 * n",
        "duration_ns": "hash(n) % 1000",
        "stream": "n % 3",
        "correlation_id": "n",
        "row_id": "hash(n) % 1000000",
    }
    columns = ", ".join(
        f"({given.get(c.name, 'NULL')})::{c.type} AS {c.name}" for c in catalog.relations()["events"].columns
    )
    write(path, f"SELECT {columns} FROM range({GROUPS * ROWS}) AS made (n) ORDER BY n")
    return path


def write(path: Path, select: str) -> None:
    duckdb.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS})")


def publish(store: Store, run: str, events: Path) -> PublishedFile:
    """Publish the file as events of rank 0, and return its entry."""
    file = PublishedFile("events", "events/rank=00000/d.parquet", "i", "d", events.stat().st_size, GROUPS * ROWS, 0)
    copy = events.with_name("copy.parquet")
    copy.write_bytes(events.read_bytes())
    store.put(copy, run, file.path)
    store.publish(Manifest(run, files=(file,)))
    return file


# ---------------------------------------------------------------- whole runs


def test_a_store_on_s3_holds_the_bytes_of_a_local_one(s3: S3, tmp_path: Path) -> None:
    local, remote = Store(str(tmp_path / "store")), Store(f"s3://{BUCKET}/same")
    make_run(local, "worked", [WORKED])
    make_run(remote, "worked", [WORKED])
    assert tree(remote.url) == tree(local.url)
    with Session(local) as one, Session(remote) as other:
        for view in one.views():
            assert other.sql(f"FROM {view} ORDER BY ALL").fetchall() == one.sql(f"FROM {view} ORDER BY ALL").fetchall()

    before = tree(remote.url)
    s3.fetched.clear()
    make_run(remote, "worked", [WORKED])
    assert tree(remote.url) == before
    assert s3.n_fetched(".parquet") == sum(len(b) for p, b in before.items() if p.endswith(".parquet"))  # of tree()


def test_dumps_on_s3_are_fetched_once_and_give_the_same_events(s3: S3, tmp_path: Path) -> None:
    local, remote = Store(str(tmp_path / "store")), Store(f"s3://{BUCKET}/events")
    make_run(local, "worked", [WORKED])
    sizes = {}
    for dump in WORKED.glob("*.gz"):
        fsspec.filesystem("s3").put_file(str(dump), f"{BUCKET}/dumps/{dump.name}")
        sizes[f"dumps/{dump.name}"] = dump.stat().st_size
    s3.fetched.clear()
    make_run(remote, "worked", [f"s3://{BUCKET}/dumps"])

    assert [f.digest for f in remote.manifest("worked").of("events")] == [
        f.digest for f in local.manifest("worked").of("events")
    ]
    assert {key: n for key, n in s3.fetched.items() if key in sizes} == {key: [size] for key, size in sizes.items()}


def test_op_timelines_and_flight_recorders_dumps_on_s3_are_fetched_once(s3: S3, tmp_path: Path) -> None:
    store = Store(f"s3://{BUCKET}/others")
    timeline = write_job(tmp_path / "trace-job.parquet", pipeline(2, 2, 3, lambda op: 1000, step=1))
    for run, dumps in {
        "job": [timeline],
        "hang": sorted(write_dumps(tmp_path / "hang", lost_rank_5()).iterdir()),
    }.items():
        for dump in dumps:
            fsspec.filesystem("s3").put_file(str(dump), f"{BUCKET}/{run}/{dump.name}")
        s3.fetched.clear()
        made = make_run(store, run, [f"s3://{BUCKET}/{run}"])
        assert all(d.error is None for d in made.dumps)
        fetched = {key: n for key, n in s3.fetched.items() if key.startswith(f"{run}/")}
        assert fetched == {f"{run}/{dump.name}": [dump.stat().st_size] for dump in dumps}


def test_the_command_takes_urls_for_dumps_and_store(
    s3: S3, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fsspec.filesystem("s3").put_file(str(WORKED / "rank0.pt.trace.json.gz"), f"{BUCKET}/night/rank0.pt.trace.json.gz")
    store = ["--store", f"s3://{BUCKET}/cli"]
    assert cli.main(["ingest", f"s3://{BUCKET}/night", *store]) == 0
    assert capsys.readouterr().out == "night\n"
    assert cli.main(["query", "SELECT run, rank, n_steps FROM rank_captures", "--format", "json", *store]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert cli.main(["runs", *store]) == 0
    assert "night" in capsys.readouterr().out


def test_events_on_s3_are_old_by_when_they_were_put_there(s3: S3, events: Path) -> None:
    store = Store(f"s3://{BUCKET}/old")
    before = time.time()
    publish(store, "r", events)
    month_ns = 30 * 86_400 * 10**9

    assert old_runs(store, [store.manifest("r")], age_ns=month_ns, keep=None, now=before + 29 * 86_400) == []
    assert old_runs(store, [store.manifest("r")], age_ns=month_ns, keep=None, now=before + 31 * 86_400) == ["r"]
    prune_run(store, "r")
    assert list(store.listing("r")) == ["run.json"]


def test_a_night_over_s3_is_judged_and_the_next_one_fetches_no_dump(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = inline_commands(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for dump in WORKED.glob("*.gz"):
        fsspec.filesystem("s3").put_file(str(dump), f"{BUCKET}/wrote/first/{dump.name}")
    config = b'[run]\njob = "j"\n[gates]\nstep_time_ns = 700000000\n'
    fsspec.filesystem("s3").pipe_file(f"{BUCKET}/wrote/first/run.toml", config)
    command = ["nightly", f"s3://{BUCKET}/wrote", "--store", f"s3://{BUCKET}/nights", "-o", "out"]

    assert cli.main(command) == 3
    assert "first: step_time_ns is 750.0 ms, at most 700.0 ms is allowed" in capsys.readouterr().err
    (told,) = json.loads(Path("out", "verdict.json").read_text())["runs"]
    assert (told["run"], told["status"], told["job"], told["page"]) == ("first", "changed", "j", "runs/first.html")
    assert [gate["verdict"] for gate in told["gates"]] == ["failed"]
    assert '<failure message="run first: step_time_ns' in Path("out", "junit.xml").read_text()
    assert 'href="runs/first.html"' in Path("out", "index.html").read_text()
    assert Path("out", "runs", "first.html").stat().st_size > 100_000
    assert sum(task == "read_dump" for task, *_ in ran) == 2

    ran.clear()
    store = tree(f"s3://{BUCKET}/nights")
    s3.fetched.clear()
    assert cli.main(command) == 0
    (told,) = json.loads(Path("out", "verdict.json").read_text())["runs"]
    assert (told["status"], ran) == ("unchanged", [])
    assert {key for key in s3.fetched if key.startswith("wrote/")} == {"wrote/first/run.toml"}
    assert tree(f"s3://{BUCKET}/nights") == store


# ---------------------------------------------------------------- how much is fetched


def test_a_query_for_a_step_fetches_its_row_groups_and_columns_alone(s3: S3, events: Path) -> None:
    store = Store(f"s3://{BUCKET}/steps")
    file = publish(store, "one", events)
    with Session(store) as session:
        s3.fetched.clear()
        session.sql("SELECT count(*) FROM events WHERE step = 107").fetchall()  # the footer comes with the first
        s3.fetched.clear()
        ((n, start),) = session.sql("SELECT count(*), min(start_ns) FROM events WHERE step = 107").fetchall()
        assert (n, start) == (1755, 14_337_000)
        assert s3.n_fetched("events/") < 0.02 * file.n_bytes
        s3.fetched.clear()
        assert len(session.sql("FROM events WHERE step BETWEEN 107 AND 108").fetchall()) == 3510
        assert 0.05 * file.n_bytes < s3.n_fetched("events/") < 0.15 * file.n_bytes
        s3.fetched.clear()
        assert session.sql("SELECT count(*) FROM events WHERE step > 200").fetchall() == [(0,)]
        assert s3.n_fetched("events/") == 0
        s3.fetched.clear()
        assert len(session.sql("FROM events").fetchall()) == GROUPS * ROWS
        assert s3.n_fetched("events/") > 0.9 * file.n_bytes - 65_536


@pytest.mark.parametrize(
    ("condition", "n"),
    [
        ("step = 107", 1755),
        ("step IS NULL", 5852),
        ("step IS NULL OR step = 107", 5852 + 1755),
        ("step IS NOT NULL AND step < 101", 1755),
        ("step <> 107", 40_960 - 5852 - 1755),
        ("step IN (100, 119)", 1755 + 1755),
        ("step = 107 OR start_ns = 0", 1756),
        ("coalesce(step, 107) = 107", 5852 + 1755),
    ],
)
def test_row_groups_that_are_left_out_hold_no_row_of_the_answer(
    tmp_path: Path, events: Path, condition: str, n: int
) -> None:
    store = Store(str(tmp_path / "store"))
    publish(store, "one", events)
    with Session(store) as session:
        assert session.sql(f"SELECT count(*) FROM events WHERE {condition}").fetchall() == [(n,)]


def test_a_task_fetches_the_row_groups_of_its_steps_alone(s3: S3, tmp_path: Path, events: Path) -> None:
    store = Store(f"s3://{BUCKET}/tasks")
    file = publish(store, "one", events)
    s3.fetched.clear()
    (copy,) = store.fetch("one", [file.path], tmp_path, StepRange("step", 107, 108))
    assert s3.n_fetched("events/") < 0.15 * file.n_bytes + 65_536
    asked = "SELECT * FROM read_parquet('{}') WHERE step BETWEEN 107 AND 108"
    assert duckdb.execute(asked.format(copy)).fetchall() == duckdb.execute(asked.format(events)).fetchall()
    (copy,) = store.fetch("one", [file.path], tmp_path, StepRange("step", 0, 1000))
    assert copy.read_bytes() == events.read_bytes()
    (copy,) = store.fetch("one", [file.path], tmp_path)
    assert copy.read_bytes() == events.read_bytes()


def test_a_footer_beyond_the_usual_length_is_read_too(tmp_path: Path) -> None:
    store = Store("memory://long-footer")
    path = tmp_path / "many.parquet"
    columns = ", ".join(f"n AS c{c}" for c in range(100))
    write(path, f"SELECT n // {ROWS} AS step, {columns} FROM range({GROUPS * ROWS}) AS t (n)")
    raw = path.read_bytes()
    assert int.from_bytes(raw[-8:-4], "little") > 65_536
    store.fs.pipe_file(store.path("runs", "one", "many.parquet"), raw)
    (copy,) = store.fetch("one", ["many.parquet"], tmp_path, StepRange("step", 5, 5))
    asked = "SELECT sum(c99), count(*) FROM read_parquet('{}') WHERE step BETWEEN 5 AND 5"
    assert duckdb.execute(asked.format(copy)).fetchall() == [(sum(range(10240, 12288)), 2048)]


# ---------------------------------------------------------------- writers


COUNTER = """
import sys, time
from longpole.errors import StoreError
from longpole.store import Store
store, n_refused = Store(sys.argv[1]), 0
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < 15:
    try:
        with store.lock("one"):
            path = store.path("count")
            n = int(store.fs.cat_file(path))
            store.fs.pipe_file(path, str(n + 1).encode())
            done += 1
    except StoreError as error:
        assert "is being written by process" in error.fact, error.fact
        n_refused += 1
"""


def test_two_processes_on_one_s3_store_never_hold_one_run_together(s3: S3) -> None:
    store = Store(f"s3://{BUCKET}/two")
    store.fs.pipe_file(store.path("count"), b"0")
    command = [sys.executable, "-c", COUNTER, store.url]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=120)[1] for process in both]
    assert [p.returncode for p in both] == [0, 0], answers
    assert store.fs.cat_file(store.path("count")) == b"30"
    assert not store.fs.exists(store.path("runs", "one", "lock"))


def test_who_is_refused_leaves_the_lock_of_the_other(s3: S3) -> None:
    store = Store(f"s3://{BUCKET}/refused")
    with store.lock("one"):
        for _ in range(3):
            with pytest.raises(StoreError, match="is being written by process"), Store(store.url).lock("one"):
                pytest.fail("two hold one lock")
        assert store.fs.exists(store.path("runs", "one", "lock"))
    assert not store.fs.exists(store.path("runs", "one", "lock"))


def test_the_command_that_the_error_gives_removes_a_lock_of_another_host(s3: S3) -> None:
    store = Store(f"s3://{BUCKET}/a store's")
    path = store.path("runs", "one", "lock")
    store.fs.pipe_file(path, b'{"host": "node-7", "pid": 4711, "since": "2026-01-02 03:04:05+0000"}')
    with pytest.raises(StoreError, match=r"process 4711 on node-7 since .* \(\d+ d ago\)") as caught, store.lock("one"):
        pytest.fail("the lock of another was taken")

    command = caught.value.cure.partition("its lock: ")[2].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True, timeout=120)  # noqa: S602

    store.fs.invalidate_cache()
    assert not store.fs.exists(path)
    with store.lock("one"):
        pass


def test_a_request_for_the_lock_that_was_sent_twice_is_one_holding(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"s3://{BUCKET}/twice")
    create = store.fs.pipe_file

    def lose_the_answer(path: str, value: bytes, **options: str) -> None:
        create(path, value, **options)
        create(path, value, **options)

    monkeypatch.setattr(store.fs, "pipe_file", lose_the_answer)
    with store.lock("one"):
        assert json.loads(store.fs.cat_file(store.path("runs", "one", "lock")))["pid"] == os.getpid()


# ---------------------------------------------------------------- what is missing


def test_a_bucket_that_is_not_there_is_an_error_and_is_not_made(s3: S3, tmp_path: Path) -> None:
    store = Store("s3://no-such-bucket/store")
    made = tmp_path / "made"
    made.write_text("abc")
    assert store.runs() == []
    with pytest.raises(StoreError, match="cannot be written: The specified bucket does not exist"):
        store.put(made, "one", "events/d.parquet")
    with pytest.raises(StoreError, match="cannot be written"), store.lock("one"):
        pytest.fail("there is no bucket")
    assert fsspec.filesystem("s3").ls("") == [BUCKET]
    with pytest.raises(LongpoleError, match="s3://no-such-bucket/dumps does not exist"):
        find(["s3://no-such-bucket/dumps"])


@pytest.mark.usefixtures("s3")
def test_without_credentials_the_command_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3 = fsspec.get_filesystem_class("s3")
    s3.clear_instance_cache()
    try:
        assert cli.main(["runs", "--store", f"s3://{BUCKET}/store"]) == 1
        assert cli.main(["ingest", f"s3://{BUCKET}/dumps", "--store", str(tmp_path / "store")]) == 1
    finally:
        s3.clear_instance_cache()
    told = capsys.readouterr().err
    assert told.count("Unable to locate credentials") == 2
    assert "Traceback" not in told


def test_without_s3fs_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str, **_: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    for attempt in (lambda: Store("s3://bucket/store"), lambda: find(["s3://bucket/dumps"])):
        with pytest.raises(LongpoleError, match="cannot be opened: Install s3fs to access S3") as caught:
            attempt()
        assert caught.value.cure == "pip install 'longpole[s3]', here and where workers run."
