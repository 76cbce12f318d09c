"""Temporary folders: a killed process's go with the next process that comes, and nothing else does."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from longpole import owner, scratch
from longpole.store import Store


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the empty folder that is this process's TMPDIR for a test, not swept yet."""
    if not owner.boot() or not owner.started(os.getpid()):
        pytest.skip("this system does not say which machine this is, or when a process began")
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    scratch._sweep_once.cache_clear()
    return folder


def left_over(temporary: Path) -> Path:
    """Return the folder that a process left which was killed in the midst of its work."""
    before = set(temporary.iterdir())
    child = os.fork()
    if child == 0:
        with scratch.folder() as folder:
            Path(folder, "half.parquet").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    (left,) = set(temporary.iterdir()) - before
    assert [p.name for p in left.iterdir()] == ["half.parquet"]
    return left


def test_the_folder_of_a_killed_process_goes_when_the_next_one_makes_its_first(temporary: Path) -> None:
    left = left_over(temporary)
    other = temporary / "longpole-of-a-person"
    other.mkdir()

    with Store("store").scratch() as mine:
        assert {p.name for p in temporary.iterdir()} == {mine.name, other.name}
        assert not left.exists()

    assert [p.name for p in temporary.iterdir()] == [other.name]


def test_the_folder_of_a_living_process_stays(temporary: Path) -> None:
    with Store("store").scratch() as mine:
        assert scratch.sweep(str(temporary)) == []
        assert mine.is_dir()


@pytest.mark.parametrize("part", ["machine", "process id"])
def test_a_folder_that_cannot_be_judged_stays(temporary: Path, part: str) -> None:
    _, machine, pid, began, end = left_over(temporary).name.split("-")
    (left,) = temporary.iterdir()
    name = f"longpole-{'0' * 16}-{pid}-{began}-{end}" if part == "machine" else f"longpole-{machine}-0-{began}-{end}"
    left.rename(temporary / name)

    assert scratch.sweep(str(temporary)) == []
    assert (temporary / name / "half.parquet").exists()


def test_a_process_id_that_is_used_again_keeps_no_folder(temporary: Path) -> None:
    _, machine, _, began, end = left_over(temporary).name.split("-")
    (left,) = temporary.iterdir()
    again = left.rename(temporary / f"longpole-{machine}-{os.getpid()}-{int(began) - 1}-{end}")

    assert scratch.sweep(str(temporary)) == [again.name]
    assert list(temporary.iterdir()) == []


def test_a_link_of_such_a_name_is_no_folder_and_a_link_within_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("a person's")
    left = left_over(temporary)
    (left / "link").symlink_to(kept)
    link = temporary / f"{left.name}x"
    link.symlink_to(kept)

    assert scratch.sweep(str(temporary)) == [left.name]

    assert link.is_symlink()
    assert (kept / "file").read_text() == "a person's"


def test_the_folder_of_another_user_is_never_touched(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_over(temporary)
    monkeypatch.setattr(os, "getuid", lambda: 4711)

    assert scratch.sweep(str(temporary)) == []
    assert (left / "half.parquet").exists()
