"""What a night finds under its root: runs, files that are still written, what an earlier night has dealt with."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from longpole import night
from longpole.errors import LongpoleError
from longpole.store import Manifest

NOW = 1_800_000_000.0


def dump(path: Path, *, age: float = 3600, text: str = '{"traceEvents": []}') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (NOW - age, NOW - age))
    return path


def found(root: Path, pattern: str = "*") -> dict[str, list[str]]:
    return {f.run: [Path(c.name).name for c in f.files] for f in night.runs_below(str(root), pattern)[0]}


def test_a_folder_of_the_root_is_a_run_with_its_dumps_at_any_depth(tmp_path: Path) -> None:
    dump(tmp_path / "one" / "rank0.json")
    dump(tmp_path / "one" / "deep" / "rank1.json.gz")
    dump(tmp_path / "two" / "rank0.json")
    dump(tmp_path / ".hidden" / "rank0.json")
    dump(tmp_path / "stray.json")
    (tmp_path / "notes").mkdir()

    assert found(tmp_path) == {"one": ["rank1.json.gz", "rank0.json"], "two": ["rank0.json"]}
    assert night.runs_below(str(tmp_path), "*")[1] == [str(tmp_path / "notes")]


def test_a_pattern_says_which_folders_are_runs_and_their_path_is_their_name(tmp_path: Path) -> None:
    dump(tmp_path / "team a" / "r1" / "rank0.json")
    dump(tmp_path / "team a" / "r2" / "rank0.json")
    dump(tmp_path / "other" / "x" / "rank0.json")

    assert found(tmp_path, "team*/r*") == {"team-a.r1": ["rank0.json"], "team-a.r2": ["rank0.json"]}


def test_two_folders_of_one_name_are_an_error_of_the_second(tmp_path: Path) -> None:
    dump(tmp_path / "a b" / "rank0.json")
    dump(tmp_path / "a-b" / "rank0.json")

    runs, _ = night.runs_below(str(tmp_path), "*")

    assert [(r.run, bool(r.files), r.error) for r in runs] == [
        ("a-b", True, ""),
        ("a-b", False, f"{tmp_path / 'a b'} and {tmp_path / 'a-b'} are both named a-b"),
    ]


def test_a_folder_that_cannot_be_read_is_an_error_whatever_its_name(tmp_path: Path) -> None:
    dump(tmp_path / "a::b without dumps" / "rank0.json")

    runs, empty = night.runs_below(str(tmp_path), "*")

    (run,) = runs
    assert run.run == "a-b-without-dumps"
    assert "has '::' in its name" in run.error
    assert empty == []


@pytest.mark.parametrize(
    ("root", "pattern", "fact"),
    [
        ("no-such", "*", "is no folder"),
        ("", "*", "is no folder"),
        (".", "../*", "leaves"),
        (".", "/etc/*", "leaves"),
        (".", "run-*", "has no folder that matches 'run-*'"),
    ],
)
def test_a_root_or_a_pattern_that_means_no_run_is_an_error(
    root: str, pattern: str, fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LongpoleError, match=re.escape(fact)):
        night.runs_below(root, pattern)


def settle(tmp_path: Path, *, grows: bool) -> tuple[list[str], list[str], list[float]]:
    """Return names of a run's settled and growing files, and the pauses, where one of two was written a second ago."""
    dump(tmp_path / "one" / "rank0.json")
    young = dump(tmp_path / "one" / "rank1.json", age=1)
    runs, _ = night.runs_below(str(tmp_path), "*")
    pauses: list[float] = []
    clock = [NOW]

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds
        if grows:
            young.write_text(young.read_text() + " ")
            os.utime(young, (clock[0], clock[0]))

    (run,) = night.settled(runs, 30, lambda: clock[0], pause)
    return [Path(f.name).name for f in run.files], [Path(f.name).name for f in run.growing], pauses


def test_a_dump_that_grows_while_it_is_watched_waits(tmp_path: Path) -> None:
    assert settle(tmp_path, grows=True) == (["rank0.json"], ["rank1.json"], [29.0])


def test_a_dump_just_written_that_stays_as_it_is_does_not_wait(tmp_path: Path) -> None:
    assert settle(tmp_path, grows=False) == (["rank0.json", "rank1.json"], [], [29.0])


def test_old_files_are_looked_at_once(tmp_path: Path) -> None:
    dump(tmp_path / "one" / "rank0.json")
    runs, _ = night.runs_below(str(tmp_path), "*")

    def refuse(seconds: float) -> None:
        raise AssertionError(seconds)

    assert night.settled(runs, 30, lambda: NOW, refuse) == runs
    dump(tmp_path / "one" / "rank0.json", age=0)
    assert night.settled(night.runs_below(str(tmp_path), "*")[0], 0, lambda: NOW, refuse)[0].growing == ()


def test_a_file_that_is_as_it_was_seen_is_no_news_and_one_that_is_gone_neither(tmp_path: Path) -> None:
    path = dump(tmp_path / "one" / "rank0.json")
    dump(tmp_path / "one" / "rank1.json")
    (run,), _ = night.runs_below(str(tmp_path), "*")
    told = night.config_of(run, None)
    seen = Manifest("one", seen=night.seen_files(run))

    assert night.is_unchanged(seen, run, told)
    assert night.is_unchanged(seen, replace(run, files=run.files[1:]), told)
    assert not night.is_unchanged(Manifest("one"), run, told)
    path.write_text("longer than before")
    assert not night.is_unchanged(seen, night.look(run), told)


def test_a_changed_run_toml_is_news_and_a_lost_one_is_not(tmp_path: Path) -> None:
    dump(tmp_path / "one" / "rank0.json")
    (tmp_path / "one" / "run.toml").write_text('[run]\njob = "a"\n')
    (run,), _ = night.runs_below(str(tmp_path), "*")
    told = night.config_of(run, None)
    assert told.settings.run.job == "a"
    seen = Manifest("one", config=told.text, seen=night.seen_files(run))

    assert night.is_unchanged(seen, run, told)
    (tmp_path / "one" / "run.toml").write_text('[run]\njob = "b"\n')
    assert not night.is_unchanged(seen, run, night.config_of(run, None))
    (tmp_path / "one" / "run.toml").unlink()
    assert night.is_unchanged(seen, run, night.config_of(run, None))


def test_runs_without_a_run_toml_have_the_one_that_is_given(tmp_path: Path) -> None:
    dump(tmp_path / "one" / "rank0.json")
    (run,), _ = night.runs_below(str(tmp_path), "*")
    given = tmp_path / "all.toml"
    given.write_text('[run]\njob = "all"\n')

    assert night.config_of(run, str(given)).settings.run.job == "all"


@pytest.mark.parametrize("named", ["/etc/passwd", "../hosts.csv", "link.csv"])
def test_a_run_toml_beside_dumps_chooses_no_file_elsewhere(named: str, tmp_path: Path) -> None:
    dump(tmp_path / "one" / "rank0.json")
    (tmp_path / "hosts.csv").write_text("rank,host\n0,a\n")
    (tmp_path / "one" / "link.csv").symlink_to(tmp_path / "hosts.csv")
    (tmp_path / "one" / "run.toml").write_text(f'[topology]\nfile = "{named}"\n')
    (run,), _ = night.runs_below(str(tmp_path), "*")

    with pytest.raises(LongpoleError, match="is not in the run's folder"):
        night.config_of(run, None)


def test_a_topology_beside_it_is_taken(tmp_path: Path) -> None:
    dump(tmp_path / "one" / "rank0.json")
    (tmp_path / "one" / "hosts.csv").write_text("rank,host\n0,a\n")
    (tmp_path / "one" / "run.toml").write_text('[topology]\nfile = "hosts.csv"\n')
    (run,), _ = night.runs_below(str(tmp_path), "*")

    places = night.config_of(run, None).places
    assert places is not None and [(p.rank, p.host) for p in places] == [(0, "a")]


def test_a_run_toml_of_megabytes_is_none(tmp_path: Path) -> None:
    dump(tmp_path / "one" / "rank0.json")
    (tmp_path / "one" / "run.toml").write_text("#" * (1 << 20) + "\n")
    (run,), _ = night.runs_below(str(tmp_path), "*")

    with pytest.raises(LongpoleError, match="is larger than"):
        night.config_of(run, None)
