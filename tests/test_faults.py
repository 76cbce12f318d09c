"""A full disk, a store that may not be written or is of another version: the fact and a cure, and nothing is lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from longpole import cli
from longpole.cli import options
from longpole.errors import LongpoleError, StoreError
from longpole.events import SCHEMA_VERSION
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import inline, make_run
from store_tree import tree

FIXTURES = Path(__file__).parents[1] / "fixtures"
WORKED = FIXTURES / "worked"


class Disk:
    """An object store in memory with room for so many more writings."""

    n_left = 10**9

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("put_file", "pipe_file"):
            write = getattr(MemoryFileSystem, name)

            def spend(fs: object, *args: Any, write: Any = write, **options: Any) -> None:
                self.n_left -= 1
                if self.n_left < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                write(fs, *args, **options)

            monkeypatch.setattr(MemoryFileSystem, name, spend)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Give a disk under memory:// that fills up when the test says so."""
    yield Disk(monkeypatch)
    with contextlib.suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/full", recursive=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a run that went well."""
    store = Store(str(tmp_path_factory.mktemp("undisturbed") / "store"))
    make_run(store, "one", [WORKED])
    return tree(store.url)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder where tasks run in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options.Work, "runner", lambda self, what: inline)
    return tmp_path


# ---------------------------------------------------------------- a full disk


@pytest.mark.parametrize("n_writes", [1, 30])
def test_a_store_that_fills_up_keeps_the_run_it_had(disk: Disk, undisturbed: dict[str, bytes], n_writes: int) -> None:
    store = Store("memory://full")
    make_run(store, "one", [WORKED / "rank0.pt.trace.json.gz"])
    before = tree(store.url)
    with Session(store) as session:
        told = session.sql("FROM rank_steps ORDER BY ALL").fetchall()
    disk.n_left = n_writes
    with pytest.raises(StoreError, match="cannot be written: No space left on device") as caught:
        make_run(store, "one", [WORKED])
    assert "Free space on it" in caught.value.cure
    after = tree(store.url)
    assert {p: raw for p, raw in after.items() if p in before and p.endswith(".parquet")} == {
        p: raw for p, raw in before.items() if p.endswith(".parquet")
    }
    assert "runs/one/lock" not in after
    with Session(store) as session:
        assert session.sql("FROM rank_steps ORDER BY ALL").fetchall() == told

    disk.n_left = 10**9
    make_run(store, "one", [WORKED])
    assert tree(store.url) == undisturbed


@pytest.mark.parametrize("n_writes", [2, 20])
def test_a_local_disk_that_fills_up_leaves_nothing_half_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes], n_writes: int
) -> None:
    store = Store(str(tmp_path / "store"))
    left = n_writes

    def settle(file: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def copy(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", settle)
        patched.setattr(shutil, "copyfile", copy)
        with pytest.raises(StoreError, match="cannot be written: No space left on device"):
            make_run(store, "one", [WORKED])
    assert not [path for path in tree(store.url) if path.endswith((".tmp", "lock"))]
    make_run(store, "one", [WORKED])
    assert tree(store.url) == undisturbed


def test_a_full_temporary_folder_is_no_fault_of_the_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path / "store"))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("longpole.ingest._read_raw", full)
    with pytest.raises(LongpoleError, match="cannot be written: No space left on device") as caught:
        make_run(store, "one", [WORKED])
    assert "TMPDIR" in caught.value.cure
    assert store.runs() == []


# ---------------------------------------------------------------- no permission


def test_a_command_on_a_store_that_may_not_be_written_says_so_and_reading_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(Store("store"), "one", [WORKED])
    before = tree("store")

    read = LocalFileSystem.open

    def refuse(fs: LocalFileSystem, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read(fs, path, mode, **options)

    monkeypatch.setattr(LocalFileSystem, "open", refuse)
    assert cli.main(["analyze", "one", "--store", "store"]) == 1
    told = capsys.readouterr().err
    assert "store cannot be written: Permission denied" in told
    assert "name a store you may write with --store" in told
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert tree("store") == before
    assert cli.main(["query", "SELECT count(*) AS n FROM steps", "--store", "store", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 4}]


# ---------------------------------------------------------------- versions


def of_version(folder: Path, version: int) -> None:
    """Make a run's manifest that of another version, of which nothing else is known."""
    path = folder / "runs" / "one" / "run.json"
    path.write_text(json.dumps({"schema_version": version, "run": "one", "files": "of another shape"}))


def test_a_run_of_an_older_version_is_made_anew_by_the_command_that_the_error_says(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(Store("store"), "one", [WORKED])
    made = tree("store")
    of_version(here / "store", SCHEMA_VERSION - 1)
    for command in (["query", "FROM runs"], ["analyze", "one"], ["report", "one", "-o", "page.html"]):
        assert cli.main([*command, "--store", "store"]) == 1
        told = capsys.readouterr().err
        assert f"run 'one' has schema version {SCHEMA_VERSION - 1}, this longpole reads {SCHEMA_VERSION}" in told
        assert "longpole run DUMPS --name one" in told

    assert cli.main(["run", str(WORKED), "--name", "one", "--store", "store", "-o", "page.html", "--no-what-if"]) == 0
    assert tree("store") == made


def test_a_run_of_a_newer_version_is_never_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Store("store"), "one", [WORKED])
    of_version(here / "store", SCHEMA_VERSION + 1)
    before = tree("store")
    commands: tuple[list[str], ...] = (
        ["run", str(WORKED), "--name", "one"],
        ["ingest", str(WORKED), "--name", "one"],
        ["analyze", "one"],
        ["query", "FROM runs"],
    )
    for command in commands:
        assert cli.main([*command, "--store", "store"]) == 1
        told = capsys.readouterr().err
        assert f"run 'one' has schema version {SCHEMA_VERSION + 1}, this longpole reads {SCHEMA_VERSION}" in told
        assert "Use the version that wrote it" in told
    assert tree("store") == before
