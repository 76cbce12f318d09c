"""Work runs on a cluster that only this machine can reach, and its failures come back in words."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import dask
import pytest

from longpole import __version__, cluster
from longpole.cluster import ClusterOptions, connect, run_all
from longpole.errors import DumpError, LongpoleError, UsageError

LISTEN = """
import json, sys
import psutil
from longpole.cluster import ClusterOptions, connect, run_all

if __name__ == "__main__":
    with connect(ClusterOptions(), int(sys.argv[1])) as client:
        assert run_all(client, abs, [-1, -2]) == [1, 2]
        this = psutil.Process()
        processes = [this, *this.children(recursive=True)]
        found = [c.laddr for p in processes for c in p.net_connections() if c.status == psutil.CONN_LISTEN]
        print(json.dumps({"processes": len(processes), "sockets": [list(a) for a in found]}))
"""


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Give a client of two worker processes; a task that kills its worker is not tried again."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), connect(ClusterOptions(), 2) as client:
        yield client


def test_results_come_in_the_order_of_the_arguments(client: Any) -> None:
    def slow_first(n: int) -> int:
        time.sleep(0 if n else 0.3)
        return n

    done: list[int] = []
    assert run_all(client, slow_first, [0, 1, 2, 3], lambda: done.append(1)) == [0, 1, 2, 3]
    assert len(done) == 4
    assert run_all(client, abs, []) == []
    assert run_all(client, abs, [-3, -3]) == [3, 3]


def test_an_error_with_a_cure_comes_through_as_itself(client: Any) -> None:
    def refuse(n: int) -> int:
        if n == 1:
            raise DumpError("rank1.json is a shopping list", "Name profiler dumps.")
        return n

    with pytest.raises(DumpError) as caught:
        run_all(client, refuse, [0, 1, 2])
    assert caught.value.fact == "rank1.json is a shopping list"
    assert caught.value.cure == "Name profiler dumps."


def test_any_other_error_comes_through_as_itself_too(client: Any) -> None:
    def fail(n: int) -> int:
        raise ZeroDivisionError(f"task {n}")

    with pytest.raises(ZeroDivisionError, match="task 5"):
        run_all(client, fail, [5])
    assert run_all(client, abs, [-2]) == [2]


def test_a_worker_that_dies_is_an_error_with_a_cure(client: Any) -> None:
    def die(n: int) -> None:
        os._exit(n)

    with pytest.raises(LongpoleError, match="a worker died while it ran die") as caught:
        run_all(client, die, [7])
    assert "Lower --memory" in caught.value.cure
    assert run_all(client, abs, [-4]) == [4]


@dataclass(frozen=True)
class Asking:
    """What a task may be given: an argument that says how much memory it may take."""

    memory: int


def test_a_task_takes_no_more_than_the_smallest_worker_leaves() -> None:
    workers: dict[str, dict[str, int]] = {"a": {"memory_limit": 1 << 30, "nthreads": 1}}
    client: Any = SimpleNamespace(scheduler_info=lambda n_workers: {"workers": workers})
    asked = [Asking(1 << 30), Asking(1 << 20), "no memory is asked for"]
    assert cluster._fitted(client, asked) == [Asking(590_558_003), Asking(1 << 20), "no memory is asked for"]
    workers["b"] = {"memory_limit": 1 << 32, "nthreads": 8}
    assert cluster._fitted(client, asked)[0] == Asking(395_942_297)
    workers["c"] = {"memory_limit": 0, "nthreads": 64}  # none
    assert cluster._fitted(client, asked)[0] == Asking(395_942_297)
    workers["d"] = {"memory_limit": 1 << 28, "nthreads": 1}
    assert cluster._fitted(client, asked)[0] == Asking(64 << 20)
    workers.clear()
    assert cluster._fitted(client, asked) == asked


def test_there_are_as_many_slots_as_workers_have_threads(client: Any) -> None:
    deadline = time.monotonic() + 30
    while (
        len(client.scheduler_info(n_workers=-1)["workers"]) < min(2, os.cpu_count() or 1)
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)  # a worker may just be starting again
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == min(2, os.cpu_count() or 1)


@pytest.mark.parametrize("n_tasks", [1, 2])
def test_a_cluster_of_this_machine_cannot_be_reached_from_another(tmp_path: Path, n_tasks: int) -> None:
    script = tmp_path / "listen.py"
    script.write_text(LISTEN)
    answer = subprocess.run(
        [sys.executable, str(script), str(n_tasks)], capture_output=True, text=True, check=False, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["processes"] >= n_tasks
    assert found["sockets"]
    assert {address for address, _ in found["sockets"]} == {"127.0.0.1"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:1", "Timed out trying to connect"),
        ("127.0.0.1:1", "Timed out trying to connect"),
        ("somewhere", "missing port number"),
        ("http://127.0.0.1:1", "unknown address scheme"),
    ],
)
def test_a_scheduler_that_does_not_answer_is_an_error_with_a_cure(address: str, reason: str) -> None:
    with pytest.raises(LongpoleError, match=reason) as caught, connect(ClusterOptions(scheduler=address), 1):
        pytest.fail("nothing listens there")
    assert caught.value.fact.startswith(f"the Dask scheduler {address} does not answer")
    assert caught.value.cure == "Check the address and that it runs."


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("", "it is no scheduler file"),
        ("{", "it is no scheduler file"),
        ("{}", "it is no scheduler file"),
        ("[]", "it is no scheduler file"),
        ('{"address": "tcp://127.0.0.1:1"}', "Timed out trying to connect"),
    ],
)
def test_a_scheduler_file_without_a_scheduler_is_an_error(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "scheduler.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LongpoleError, match=reason) as caught, connect(ClusterOptions(scheduler_file=str(path)), 1):
        pytest.fail("there is no scheduler")
    assert str(path) in caught.value.fact


class Answering(contextlib.nullcontext[None]):
    """A client whose scheduler answers, and whose workers say which longpole they have."""

    addresses: ClassVar[list[str]] = []
    workers: ClassVar[dict[str, str]] = {}

    def __init__(self, address: str, timeout: float) -> None:
        super().__init__()
        self.addresses.append(address)

    def run(self, function: Callable[[str], str], package: str) -> dict[str, str]:
        function(package if self.workers else "no-such-package-anywhere")
        return self.workers


def test_a_scheduler_file_may_come_a_little_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scheduler.json"
    monkeypatch.setattr("distributed.Client", Answering)
    monkeypatch.setattr(Answering, "addresses", [])
    monkeypatch.setattr(Answering, "workers", {"tcp://10.0.0.2:1": __version__})
    writer = threading.Timer(0.3, path.write_text, ['{"address": "tcp://10.0.0.1:8786"}'])
    writer.start()
    with connect(ClusterOptions(scheduler_file=str(path)), 1):
        assert Answering.addresses == ["tcp://10.0.0.1:8786"]
    writer.join()


@pytest.mark.parametrize(
    ("workers", "fact"),
    [
        ({}, "the workers of tcp://10.0.0.1:8786 have no longpole"),
        (
            {"a": __version__, "b": "0.0.1"},
            f"the workers of tcp://10.0.0.1:8786 have longpole 0.0.1, {__version__}, this is {__version__}",
        ),
    ],
)
def test_workers_with_another_longpole_or_none_are_refused(
    monkeypatch: pytest.MonkeyPatch, workers: dict[str, str], fact: str
) -> None:
    monkeypatch.setattr("distributed.Client", Answering)
    monkeypatch.setattr(Answering, "workers", workers)
    with pytest.raises(LongpoleError) as caught, connect(ClusterOptions(scheduler="tcp://10.0.0.1:8786"), 1):
        pytest.fail("they would never answer")
    assert caught.value.fact == fact
    assert caught.value.cure == f"Install longpole {__version__} where they run."


@pytest.mark.usefixtures("impatient")
def test_the_address_of_dasks_own_configuration_is_used() -> None:
    with (
        dask.config.set({"scheduler-address": "tcp://127.0.0.1:2"}),
        pytest.raises(LongpoleError, match=r"tcp://127\.0\.0\.1:2 does not answer"),
        connect(ClusterOptions(), 1),
    ):
        pytest.fail("nothing listens there")


def test_the_client_that_a_program_has_is_used_and_left_open(client: Any) -> None:
    assert not cluster.is_this_machine(ClusterOptions())
    with connect(ClusterOptions(), 8) as used:
        assert used is client
    assert run_all(client, abs, [-1]) == [1]


def test_two_places_for_one_scheduler_are_one_too_many() -> None:
    with (
        pytest.raises(UsageError, match="cannot both be given"),
        connect(ClusterOptions(scheduler="tcp://127.0.0.1:1", scheduler_file="x.json"), 1),
    ):
        pytest.fail("which one?")
