"""A reader of the store never sees half of anything, two writers never hold one run, and every refusal says a cure."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pytest

from longpole import lock as locks
from longpole.errors import LongpoleError, StoreError
from longpole.events import SCHEMA_VERSION
from longpole.store import DumpEntry, Manifest, PublishedFile, Store, check_run_name, file_digest, key_of

OTHER_HOST = "another-host.invalid"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def memory() -> Iterator[Store]:
    fs = fsspec.filesystem("memory")
    yield Store("memory://a-store")
    with contextlib.suppress(FileNotFoundError):
        fs.rm("/a-store", recursive=True)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """Act as a user whom permissions hold back: the superuser is not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def published(path: str = "events/rank=00000/d.parquet", table: str = "events", **more: Any) -> PublishedFile:
    return PublishedFile(table, path, "inputs", "digest", 3, 1, **more)


def local_file(tmp_path: Path, text: str = "abc") -> Path:
    path = tmp_path / "made.parquet"
    path.write_text(text)
    return path


def run_json(store: Store, run: str) -> Path:
    return Path(store.path("runs", run, "run.json"))


def leave_lock(store: Store, run: str, **owner: Any) -> Path:
    path = Path(store.path("runs", run, "lock"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(owner))
    return path


def dead_pid() -> int:
    """Return the id of a process that has just ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# ---------------------------------------------------------------- manifests


def test_a_manifest_comes_back_as_it_was_published(store: Store) -> None:
    dump = DumpEntry("abc", "dumps/r\u00e4nk0 \u2028.json", 12, rank=0, notes=("one", "two"), verdict="truncated")
    given = Manifest("one", config="[run]\njob = 'x'\n", dumps=(dump,), files=(published(rank=0, first_step=3),))
    store.publish(given)
    assert store.manifest("one") == given
    assert store.runs() == ["one"]
    assert Path(store.path("runs", "one", "config.toml")).read_text() == "[run]\njob = 'x'\n"


def test_the_order_in_which_files_and_dumps_came_leaves_the_bytes_alone(store: Store) -> None:
    dumps = tuple(DumpEntry(str(n), f"{n}.json", 1, rank=n) for n in (2, 0, 1))
    files = tuple(published(f"events/rank={n:05d}/d.parquet", rank=n) for n in (2, 0, 1))
    store.publish(Manifest("one", dumps=dumps, files=files))
    first = run_json(store, "one").read_bytes()
    store.publish(Manifest("one", dumps=dumps[::-1], files=files[::-1]))
    assert run_json(store, "one").read_bytes() == first
    assert [f.rank for f in store.manifest("one").of("events")] == [0, 1, 2]


def test_a_reader_in_a_loop_never_sees_half_a_manifest(store: Store) -> None:
    small = Manifest("one", files=(published(),))
    large = Manifest(
        "one", files=tuple(published(f"facts/kernels/rank={n:05d}.parquet", "kernels") for n in range(500))
    )
    store.publish(small)
    done = threading.Event()
    failures: list[BaseException] = []
    sizes: set[int] = set()

    def read() -> None:
        try:
            while not done.is_set():
                sizes.add(len(Store(store.url).manifest("one").files))
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(100):
        store.publish(large if n % 2 else small)
    done.set()
    reader.join()
    assert not failures
    assert sizes <= {1, 500}


def test_a_publish_that_fails_leaves_what_was_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.publish(Manifest("one", files=(published(),)))
    before = run_json(store, "one").read_bytes()

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        store.publish(Manifest("one"))
    assert run_json(store, "one").read_bytes() == before
    assert [p.name for p in run_json(store, "one").parent.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", ["", "{", '{"run": "one"', "[]", "null", '"x"', "\ufffd{}", '{"schema_version": 2}'])
def test_a_damaged_manifest_is_an_error_with_a_cure(store: Store, text: str) -> None:
    store.publish(Manifest("one"))
    run_json(store, "one").write_text(text)
    with pytest.raises(StoreError) as caught:
        store.manifest("one")
    assert str(run_json(store, "one")) in caught.value.fact
    assert "damaged" in caught.value.fact
    assert "ingest its dumps again" in caught.value.cure


def test_a_manifest_of_bytes_that_are_no_text_is_damaged(store: Store) -> None:
    store.publish(Manifest("one"))
    run_json(store, "one").write_bytes(b'{"schema_version": 2, "run": "\xff\xfe"}')
    with pytest.raises(StoreError, match="damaged"):
        store.manifest("one")


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0, None, "1"])
def test_a_manifest_of_another_version_is_refused_with_both_versions(store: Store, version: object) -> None:
    store.publish(Manifest("one"))
    raw = json.loads(run_json(store, "one").read_text()) | {"schema_version": version, "files": "of another shape"}
    run_json(store, "one").write_text(json.dumps(raw))
    with pytest.raises(StoreError) as caught:
        store.manifest("one")
    assert caught.value.fact == f"run 'one' has schema version {version}, this longpole reads {SCHEMA_VERSION}"
    is_older = version == 0
    assert ("longpole run DUMPS --name one" in caught.value.cure) == is_older
    assert ("Use the version that wrote it" in caught.value.cure) != is_older


def test_what_a_later_version_adds_to_a_manifest_is_passed_over(store: Store) -> None:
    store.publish(Manifest("one", files=(published(),)))
    raw = json.loads(run_json(store, "one").read_text())
    run_json(store, "one").write_text(json.dumps(raw | {"a_later_field": 1}))
    assert store.manifest("one").files == (published(),)


def test_a_missing_run_is_an_error_that_names_those_there_are(store: Store) -> None:
    store.publish(Manifest("two"))
    store.publish(Manifest("one"))
    with pytest.raises(StoreError) as caught:
        store.manifest("three")
    assert caught.value.fact == f"there is no run 'three' in {store.url}"
    assert "Runs here: one, two." in caught.value.cure


def test_a_store_that_does_not_exist_has_no_runs(store: Store) -> None:
    assert store.runs() == []
    with pytest.raises(StoreError, match="there is no run 'one'"):
        store.manifest("one")


def test_a_folder_without_a_manifest_is_no_run(store: Store, tmp_path: Path) -> None:
    store.put(local_file(tmp_path), "half", "events/rank=00000/d.parquet")
    store.publish(Manifest("whole"))
    Path(store.path("runs", "a file")).write_text("")
    Path(store.path("runs", ".hidden")).mkdir()
    assert store.runs() == ["whole"]


def test_a_renamed_folder_is_a_run_of_its_new_name(store: Store) -> None:
    store.publish(Manifest("old", files=(published(),)))
    Path(store.path("runs", "old")).rename(store.path("runs", "new"))
    assert store.runs() == ["new"]
    assert store.manifest("new").run == "new"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc",
        "a\\b",
        "é",
        "a b",
        "-rf",
        ".hidden",
        "a\n",
        "a\0b",
        "x" * 129,
        "x" * 200,
        "~",
    ],
)
def test_a_name_that_could_leave_the_store_names_no_run(store: Store, name: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: check_run_name(name),
        lambda: store.manifest(name),
        lambda: store.lock(name).__enter__(),
    ]
    for use in uses:
        with pytest.raises(LongpoleError, match="cannot name a run") as caught:
            use()
        assert "--name" in caught.value.cure
    assert not Path(store.root).exists()


@pytest.mark.parametrize("name", ["a", "0", "nightly-2117", "A.b_c+d=e@f", "x" * 128, "a..b"])
def test_a_plain_name_names_a_run(name: str) -> None:
    assert check_run_name(name) == name


# ---------------------------------------------------------------- files


def test_a_file_is_moved_to_its_place(store: Store, tmp_path: Path) -> None:
    made = local_file(tmp_path)
    store.put(made, "one", "events/rank=00003/d.parquet")
    assert not made.exists()
    assert Path(store.path("runs", "one", "events", "rank=00003", "d.parquet")).read_text() == "abc"


def test_a_file_from_another_file_system_appears_whole_or_not_at_all(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = local_file(tmp_path, "abcdef")
    target = Path(store.path("runs", "one", "events", "d.parquet"))
    rename = Path.replace
    seen: list[bool] = []

    def across(self: Path, to: str | Path) -> Path:
        if self == made:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        assert self.parent == target.parent
        assert self.read_text() == "abcdef"
        seen.append(target.exists())
        return rename(self, to)

    monkeypatch.setattr(Path, "replace", across)
    store.put(made, "one", "events/d.parquet")
    assert seen == [False]
    assert target.read_text() == "abcdef"
    assert [p.name for p in target.parent.iterdir()] == ["d.parquet"]
    assert not made.exists()


def test_a_copy_that_fails_leaves_nothing_behind(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, to: str | Path) -> Path:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StoreError, match="cannot be written"):
        store.put(local_file(tmp_path), "one", "events/d.parquet")
    assert list(Path(store.path("runs", "one", "events")).iterdir()) == []


def test_a_published_file_is_read_where_it_lies(store: Store, tmp_path: Path) -> None:
    store.put(local_file(tmp_path), "one", "events/d.parquet")
    (path,) = store.fetch("one", ["events/d.parquet"], tmp_path / "unused")
    assert path == Path(store.path("runs", "one", "events", "d.parquet"))


def test_a_published_file_that_is_gone_is_an_error_with_a_cure(store: Store, memory: Store, tmp_path: Path) -> None:
    for here in (store, memory):
        with pytest.raises(StoreError) as caught:
            here.fetch("one", ["events/d.parquet"], tmp_path)
        assert caught.value.fact.endswith("events/d.parquet is gone, though the manifest of run 'one' names it")
        assert "longpole analyze one" in caught.value.cure


def test_a_sweep_deletes_what_the_manifest_does_not_name_and_nothing_else(store: Store, tmp_path: Path) -> None:
    for run in ("one", "two"):
        for path in ("events/named.parquet", "events/unnamed.parquet", "events/staged/x.parquet", "facts/a/b.parquet"):
            store.put(local_file(tmp_path), run, path)
        store.publish(Manifest(run, config="# c\n", files=(published("events/named.parquet"),)))
    with store.lock("one"):
        Path(store.path("runs", "one", "run.json.1234.tmp")).write_text("half")
        store.sweep(store.manifest("one"))
        found = sorted(p.relative_to(store.root).as_posix() for p in Path(store.root).rglob("*") if p.is_file())
    rest = [p for p in found if p.startswith("runs/one/")]
    assert rest == ["runs/one/config.toml", "runs/one/events/named.parquet", "runs/one/lock", "runs/one/run.json"]
    assert len([p for p in found if p.startswith("runs/two/")]) == 6


def test_a_sweep_takes_a_config_that_the_run_no_longer_has(store: Store) -> None:
    store.publish(Manifest("one", config="# old\n"))
    store.publish(Manifest("one"))
    store.sweep(store.manifest("one"))
    assert [p.name for p in Path(store.path("runs", "one")).iterdir()] == ["run.json"]


def test_a_digest_and_a_key_are_of_the_bytes_alone(tmp_path: Path) -> None:
    assert file_digest(local_file(tmp_path)) == "cf4ab791c62b8d2b2109c90275287816"
    assert key_of("a", 1, None) == key_of("a", 1, None)
    assert key_of("a", "b") != key_of("ab", "")
    assert len(key_of("name with \udcff byte")) == 16


# ---------------------------------------------------------------- places


def test_a_relative_store_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(Store("here"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    arrived = pickle.loads(sent)  # noqa: S301  made one line above
    assert arrived.root == str(tmp_path / "here")
    assert Store(arrived.url).root == str(tmp_path / "here")


@pytest.mark.parametrize("url", ["nosuchprotocol://x", ""])
def test_a_url_that_means_nothing_is_an_error_with_a_cure(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        Store(url)
    assert "fsspec" in caught.value.cure


def test_the_root_of_a_file_system_is_a_place_too() -> None:
    assert Store("/").path("runs") == "/runs"


def test_a_store_need_not_be_a_local_folder(memory: Store, tmp_path: Path) -> None:
    assert memory.runs() == []
    with memory.lock("one"):
        memory.put(local_file(tmp_path), "one", "events/staged/d.parquet")
        memory.move("one", "events/staged/d.parquet", "events/rank=00000/d.parquet")
        memory.put(local_file(tmp_path), "one", "events/left.parquet")
        memory.publish(Manifest("one", config="# c\n", files=(published(),)))
        memory.sweep(memory.manifest("one"))
        with pytest.raises(StoreError, match="is being written by process"), memory.lock("one"):
            pytest.fail("two hold one lock")
    assert memory.runs() == ["one"]
    assert memory.manifest("one").files == (published(),)
    (copy,) = memory.fetch("one", ["events/rank=00000/d.parquet"], tmp_path)
    assert copy.read_text() == "abc"
    found = [p.removeprefix("/a-store/") for p in memory.fs.find("/a-store")]
    assert found == ["runs/one/config.toml", "runs/one/events/rank=00000/d.parquet", "runs/one/run.json"]


def test_a_store_at_the_root_of_a_url_is_swept_of_the_same(tmp_path: Path) -> None:
    store = Store("memory://")
    try:
        store.put(local_file(tmp_path), "one", "events/d.parquet")
        store.put(local_file(tmp_path), "one", "events/left.parquet")
        store.publish(Manifest("one", files=(published("events/d.parquet"),)))
        store.sweep(store.manifest("one"))
        assert store.fs.find("/runs/one") == ["/runs/one/events/d.parquet", "/runs/one/run.json"]
    finally:
        store.fs.rm("/runs", recursive=True)


def test_a_dead_lock_on_a_store_that_is_not_local_is_taken_over(memory: Store) -> None:
    owner = {"host": socket.gethostname(), "pid": dead_pid(), "since": "yesterday"}
    memory.fs.makedirs(memory.path("runs", "one"), exist_ok=True)
    memory.fs.pipe_file(memory.path("runs", "one", "lock"), json.dumps(owner).encode())
    with memory.lock("one"):
        assert memory.fs.exists(memory.path("runs", "one", "lock"))
    assert not memory.fs.exists(memory.path("runs", "one", "lock"))


def test_a_store_that_cannot_be_written_is_an_error_with_a_cure(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    made = local_file(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    store = Store(str(locked / "store"))
    with nobody():
        attempts: list[Callable[[], object]] = [
            lambda: store.lock("one").__enter__(),
            lambda: store.publish(Manifest("one")),
            lambda: store.put(made, "one", "events/d.parquet"),
            lambda: store.move("one", "a", "b"),
        ]
        for attempt in attempts:
            with pytest.raises(StoreError, match="cannot be written: Permission denied") as caught:
                attempt()
            assert "--store" in caught.value.cure


def test_a_store_that_is_a_file_is_an_error_with_a_cure(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    store = Store(str(path))
    assert store.runs() == []
    with pytest.raises(StoreError, match="cannot be written: Not a directory"), store.lock("one"):
        pytest.fail("a file is no folder")


def test_a_store_whose_runs_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can act as another user here")
    for folder in (p for p in (tmp_path, *tmp_path.parents) if "pytest-of-" in str(p)):
        folder.chmod(0o755)
    store = Store(str(tmp_path / "store"))
    store.publish(Manifest("one"))
    Path(store.path("runs")).chmod(0o700)
    with nobody(), pytest.raises(StoreError, match="runs cannot be read: Permission denied"):
        store.runs()


# ---------------------------------------------------------------- locks


def test_a_second_writer_is_refused_with_the_first_ones_name_and_time(store: Store) -> None:
    with store.lock("one"):
        with pytest.raises(StoreError) as caught, Store(store.url).lock("one"):
            pytest.fail("two hold one lock")
        with store.lock("two"):
            assert Path(store.path("runs", "two", "lock")).exists()
    year = time.strftime("%Y")
    assert caught.value.fact.startswith(
        f"run 'one' is being written by process {os.getpid()} on {socket.gethostname()} since {year}-"
    )
    assert caught.value.fact.endswith(" s ago)")
    path = store.path("runs", "one", "lock")
    assert caught.value.cure == f"Wait for it. If that process is dead, this removes its lock: rm {path}"
    with store.lock("one"):
        pass


def test_a_lock_is_given_back_whatever_happens(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt), store.lock("one"):
        raise KeyboardInterrupt
    assert not Path(store.path("runs", "one", "lock")).exists()


def test_the_lock_of_a_dead_process_of_this_host_is_taken_over(store: Store) -> None:
    path = leave_lock(store, "one", host=socket.gethostname(), pid=dead_pid(), since="2026-01-02 03:04:05")
    with store.lock("one"):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists()


@pytest.mark.parametrize(
    "owner",
    [
        {"host": OTHER_HOST, "pid": 2**22, "since": "2026-01-02 03:04:05"},
        {"host": OTHER_HOST, "pid": os.getpid(), "since": "2026-01-02 03:04:05"},
        {"host": socket.gethostname(), "pid": os.getpid(), "since": "2026-01-02 03:04:05"},
        {"host": socket.gethostname(), "pid": 1, "since": "2026-01-02 03:04:05"},
        {"host": socket.gethostname(), "pid": 2**22, "since": "2026-01-02 03:04:05", "space": "pid:[1]"},
    ],
)
def test_a_lock_whose_holder_may_live_is_left_alone(store: Store, owner: dict[str, Any]) -> None:
    path = leave_lock(store, "one", **owner)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="since 2026-01-02 03:04:05") as caught, store.lock("one"):
        pytest.fail("the lock of another was taken")
    assert str(owner["host"]) in caught.value.fact
    assert str(path) in caught.value.cure
    assert path.read_bytes() == before


def test_a_process_id_that_is_used_again_does_not_keep_a_lock(store: Store) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not say when a process began")
    leave_lock(store, "one", host=socket.gethostname(), pid=os.getpid(), since="?", started="1")
    with store.lock("one"):
        pass


def held_by_another_host(store: Store, age_s: float) -> StoreError:
    """Return the error that the lock of another host's process gives, left so long ago."""
    since = time.strftime("%Y-%m-%d %H:%M:%S%z", time.localtime(time.time() - age_s))
    lock = {"host": OTHER_HOST, "pid": 4711, "since": since}
    path = store.path("runs", "one", "lock")
    store.fs.makedirs(str(Path(path).parent), exist_ok=True)
    store.fs.pipe_file(path, json.dumps(lock).encode())
    with pytest.raises(StoreError) as caught, store.lock("one"):
        pytest.fail("the lock of another was taken")
    return caught.value


@pytest.mark.parametrize(
    ("age_s", "told"), [(150, "2 min"), (190 * 60, "3 h"), (40.5 * 86_400, "40 d"), (-3600, "0 s")]
)
def test_the_lock_of_another_host_says_who_holds_it_and_how_long(store: Store, age_s: float, told: str) -> None:
    fact = held_by_another_host(store, age_s).fact

    assert f"process 4711 on {OTHER_HOST} since " in fact
    assert fact.endswith(f"({told} ago)")


def test_the_command_that_the_error_gives_removes_the_lock_and_no_more(tmp_path: Path) -> None:
    for name in ("a store's", "$(touch made)"):
        store = Store(f"file://{tmp_path}/{name}")
        command = held_by_another_host(store, 60).cure.partition("its lock: ")[2]
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)  # noqa: S602
        assert list(Path(tmp_path, name, "runs", "one").iterdir()) == []
        with store.lock("one"):
            pass
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"host": 1}'])
def test_a_lock_that_says_nothing_is_left_alone(store: Store, text: str) -> None:
    path = leave_lock(store, "one")
    path.write_text(text)
    with pytest.raises(StoreError, match=r"process \? on \? since \?"), store.lock("one"):
        pytest.fail("the lock of another was taken")
    assert path.read_text() == text


def test_a_lock_taken_over_by_hand_is_not_removed_by_the_one_who_lost_it(store: Store) -> None:
    path = Path(store.path("runs", "one", "lock"))
    with store.lock("one"):
        leave_lock(store, "one", host=OTHER_HOST, pid=7, since="now")
    assert json.loads(path.read_text())["host"] == OTHER_HOST


def test_of_many_that_find_a_dead_lock_one_takes_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 8
    dead = dead_pid()
    judged = threading.local()
    judge = locks._is_dead

    def together(holder: locks.Holder) -> bool:
        answer = judge(holder)
        if not getattr(judged, "once", False):
            judged.once = True
            barrier.wait()  # all have found it dead before any acts on it
        return answer

    def take(everyone: threading.Barrier, holders: list[str], refused: list[str]) -> None:
        judged.once = False
        try:
            with Store(store.url).lock("one"):
                holders.append("held")
                everyone.wait()
        except StoreError as error:
            refused.append(error.fact)
            everyone.wait()

    monkeypatch.setattr(locks, "_is_dead", together)
    for _ in range(20):
        leave_lock(store, "one", host=socket.gethostname(), pid=dead, since="?")
        barrier, everyone = threading.Barrier(n), threading.Barrier(n)
        holders: list[str] = []
        refused: list[str] = []

        threads = [threading.Thread(target=take, args=(everyone, holders, refused)) for _ in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(holders) == 1
        assert len(refused) == n - 1
        assert not Path(store.path("runs", "one", "lock")).exists()


def test_a_disk_that_fills_while_a_lock_is_written_leaves_no_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = store.fs.open

    def open_full(path: str, mode: str = "rb", **options: Any) -> Any:
        file = opened(path, mode, **options)
        if mode == "xb":

            def write(data: bytes) -> int:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            monkeypatch.setattr(file, "write", write, raising=False)
        return file

    monkeypatch.setattr(store.fs, "open", open_full)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"), store.lock("one"):
        pytest.fail("the lock was not written")
    assert not Path(store.path("runs", "one", "lock")).exists()


WRITER = """
import sys, time
from pathlib import Path
from longpole.store import Store
store = Store(sys.argv[1])
with store.lock("one"):
    made = Path(sys.argv[2])
    made.write_text("half of a run")
    store.put(made, "one", "events/rank=00000/new.parquet")
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_nothing_a_reader_sees_and_the_next_one_succeeds(store: Store, tmp_path: Path) -> None:
    store.put(local_file(tmp_path), "one", "events/rank=00000/d.parquet")
    store.publish(Manifest("one", files=(published(),)))
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, store.url, str(tmp_path / "made")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        with pytest.raises(StoreError, match=f"process {writer.pid} "), store.lock("one"):
            pytest.fail("two hold one lock")
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert store.manifest("one") == Manifest("one", files=(published(),))
    with store.lock("one"):
        store.publish(Manifest("one", files=(published(),)))
        store.sweep(store.manifest("one"))
    assert [p.name for p in Path(store.path("runs", "one", "events", "rank=00000")).iterdir()] == ["d.parquet"]


def test_an_error_of_a_task_travels_with_its_cure() -> None:
    error = pickle.loads(pickle.dumps(StoreError("fact", "cure")))  # noqa: S301  made here
    assert (error.fact, error.cure, str(error)) == ("fact", "cure", "fact\n\ncure")
    assert type(error) is StoreError


def test_the_manifest_is_json_that_a_person_can_read(store: Store) -> None:
    store.publish(Manifest("one", files=(published(),)))
    raw = run_json(store, "one").read_bytes()
    assert msgspec.json.decode(raw)["schema_version"] == SCHEMA_VERSION
    assert raw.startswith(b'{\n "run": "one",\n')
