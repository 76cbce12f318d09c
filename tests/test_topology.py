"""A topology file gives hosts, nodes, racks and rails; a wrong one says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from longpole.errors import LongpoleError
from longpole.store import RankPlace
from longpole.topology import load


def test_places_are_read_beside_run_toml_in_order_of_rank(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text("host, rank ,rack\nb,1,r2\na,0,\n")

    assert load("hosts.csv", str(tmp_path / "run.toml")) == (
        RankPlace(0, host="a"),
        RankPlace(1, host="b", rack="r2"),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("host\na\n", "lacks its column rank"),
        ("rank,hots\n0,a\n", "has no column 'hots'"),
        ("rank\n0\n0\n", "rank '0'"),
        ("rank\n-1\n", "rank '-1'"),
        ("rank\nzero\n", "rank 'zero'"),
        ("rank\n" + "1" * 5_000 + "\n", "rank '1111"),
        ("", "lacks its column rank"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "hosts.csv").write_text(text)

    with pytest.raises(LongpoleError, match="columns: rank, host, node, rack, rail") as error:
        load("hosts.csv", str(tmp_path / "run.toml"))
    assert says in error.value.fact


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000])
def test_a_name_that_no_file_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(LongpoleError, match="cannot be read"):
        load(name, str(tmp_path / "run.toml"))


def test_an_absent_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(LongpoleError, match="cannot be read"):
        load("absent.csv", str(tmp_path / "run.toml"))
