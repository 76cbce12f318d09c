"""Whatever is killed, at whatever moment, the next call finishes, with the bytes of a run that nobody disturbed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dask_processes import PATIENCE_S, Processes, dask_processes, until
from killing import ORDERS, Order
from longpole.cluster import ClusterOptions, connect
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from s3_server import BUCKET, S3, running_s3
from store_tree import tree

HERE = Path(__file__).parent
WORKED = HERE.parent / "fixtures" / "worked"

RUN = """
import sys
from longpole import cli
dumps, store, scheduler_file = sys.argv[1:]
where = ["--store", store, "--scheduler-file", scheduler_file]
sys.exit(cli.main(["ingest", dumps, "--name", "one", *where]) or cli.main(["analyze", "one", "--no-what-if", *where]))
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with running_s3() as s3:
        yield s3


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a run that nobody disturbed."""
    store = Store(str(tmp_path_factory.mktemp("undisturbed") / "store"))
    make_run(store, "one", [WORKED])
    return tree(store.url)


# ---------------------------------------------------------------- one process, at many moments

MOMENTS = (
    Order("move", "events/rank=00001/"),
    Order("put", "facts/rank_windows/"),
    Order("put", "marts/steps/", is_after=True),
    Order("publish", "runs", is_after=True),
)


def killed_and_done_again(orders: list[dict[str, Any]]) -> list[list[int]]:
    """Return how each run ended that was killed, and how the next call did."""
    command = [sys.executable, str(HERE / "killing.py"), json.dumps(orders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def order(store: str, moment: Order | None, config: str = "") -> dict[str, Any]:
    return {"store": store, "dumps": str(WORKED), "config": config, "order": moment and asdict(moment)}


@pytest.mark.slow
def test_a_killed_run_is_finished_by_the_next_call(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    stores = [str(tmp_path / f"store{n}") for n in range(len(MOMENTS))]
    ends = killed_and_done_again([order(store, moment) for store, moment in zip(stores, MOMENTS, strict=True)])
    assert ends == [[-signal.SIGKILL, 0]] * len(MOMENTS)
    for store, moment in zip(stores, MOMENTS, strict=True):
        assert tree(store) == undisturbed, moment


@pytest.mark.slow
def test_a_killed_run_on_s3_is_finished_by_the_next_call(s3: S3, undisturbed: dict[str, bytes]) -> None:
    moments = [Order("publish", "runs")]
    stores = [f"s3://{BUCKET}/killed{n}" for n in range(len(moments))]
    ends = killed_and_done_again([order(store, moment) for store, moment in zip(stores, moments, strict=True)])
    assert ends == [[-signal.SIGKILL, 0]] * len(moments)
    for store, moment in zip(stores, moments, strict=True):
        assert tree(store) == undisturbed, moment


@pytest.mark.slow
def test_a_run_whose_change_is_killed_stays_as_it_was(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    store, other = str(tmp_path / "store"), str(tmp_path / "other")
    config = '[comm]\nkernels = ["^no such kernel$"]\n'
    assert killed_and_done_again([order(store, None)]) == [[0, 0]]
    assert tree(store) == undisturbed
    killed = order(store, Order("publish", "events"), config)
    # The last of both is the next call itself: the killed one must leave every file of the manifest as it was.
    with Session(Store(store)) as before:
        expected = before.sql("FROM events ORDER BY ALL").fetchall()
    done = subprocess.run(
        [sys.executable, "-c", KILLED_CHANGE, str(HERE), json.dumps(killed)], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    after = tree(store)
    assert {path: after[path] for path in undisturbed} == undisturbed
    with Session(Store(store)) as session:
        assert session.sql("FROM events ORDER BY ALL").fetchall() == expected

    assert killed_and_done_again([order(store, None, config), order(other, None, config)]) == [[0, 0], [0, 0]]
    assert tree(store) == tree(other) != undisturbed


KILLED_CHANGE = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
import killing
from longpole.store import Store
from pipeline_inline import make_run
one = json.loads(sys.argv[2])
order = killing.Order(**one["order"])
def look(what, path, is_after):
    if order.obeyed(what, path, is_after=is_after):
        os.kill(os.getpid(), signal.SIGKILL)
killing.watch(look)
make_run(Store(one["store"]), "one", [one["dumps"]], config=one["config"])
"""


# ---------------------------------------------------------------- a cluster


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def environment(s3: S3, orders: Path) -> dict[str, str]:
    return {**s3.environment, ORDERS: str(orders)}


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with dask_processes(tmp_path_factory.mktemp("cluster"), environment, *WORKER) as cluster:
        yield cluster


WORKER = ("--preload", str(HERE / "killing.py"))


def start_run(store: str, cluster: Processes, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(WORKED), store, str(cluster.scheduler_file)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(run: subprocess.Popen[str]) -> tuple[int, str]:
    """Return how it ended and what it said."""
    _, told = run.communicate(timeout=PATIENCE_S)
    return run.returncode, told


def wait_for_lost_tasks(cluster: Processes) -> None:
    """Wait until no worker is in a task any more: one whose driver is dead still writes, and the next call sweeps."""
    with connect(ClusterOptions(scheduler_file=str(cluster.scheduler_file)), 1) as client:
        until(lambda: not any(client.run(lambda dask_worker: len(dask_worker.state.executing)).values()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "what", "part"),
    [
        ("s3://bucket/driver", "put", "events/staged/"),
        ("local", "put", "facts/rank_chains/"),
    ],
)
def test_a_driver_that_is_killed_is_followed_by_one_that_finishes(
    cluster: Processes,
    environment: dict[str, str],
    orders: Path,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    url: str,
    what: str,
    part: str,
) -> None:
    store = str(tmp_path / "store") if url == "local" else url
    driver = start_run(store, cluster, environment)
    Order(what, part, pid=driver.pid).give(orders)
    code, told = finish(driver)
    assert code == -signal.SIGKILL, told
    wait_for_lost_tasks(cluster)
    assert "lock" in {Path(p).name for p in tree(store)}

    code, told = finish(start_run(store, cluster, environment))
    assert code == 0, told
    assert tree(store) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize(("url", "part"), [("s3://bucket/worker", "marts/steps/")])
def test_a_worker_that_is_killed_is_replaced_by_another(
    cluster: Processes,
    environment: dict[str, str],
    orders: Path,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    url: str,
    part: str,
) -> None:
    store = str(tmp_path / "store") if url == "local" else url
    given = Order("put", part, is_after=True).give(orders)
    code, told = finish(start_run(store, cluster, environment))
    assert code == 0, told
    assert not given.exists(), "no worker was killed"
    assert tree(store) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("part", ["facts/rank_windows/"])
def test_a_scheduler_that_is_killed_is_an_error_and_the_next_one_finishes(
    cluster: Processes,
    environment: dict[str, str],
    orders: Path,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    part: str,
) -> None:
    store = f"s3://{BUCKET}/scheduler-{part.replace('/', '-')}"
    with dask_processes(tmp_path, environment, *WORKER) as other:
        Order("put", part, pid=other.scheduler.pid).give(orders)
        code, told = finish(start_run(store, other, environment))
        assert code == 1, told
        assert "the Dask scheduler was lost while it ran" in told
        assert "Give the same command again" in told
        assert "Traceback" not in told
    code, told = finish(start_run(store, cluster, environment))
    assert code == 0, told
    assert tree(store) == undisturbed
