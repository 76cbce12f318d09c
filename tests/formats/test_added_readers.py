"""The README's reader works as it stands there, once a package offers it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from longpole import formats
from longpole.errors import LongpoleError
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

README = Path(__file__).parents[2] / "README.md"


class Offered(EntryPoint):
    """An entry point whose class is there already."""

    def load(self) -> object:
        (code,) = re.findall(r"```python\n(import csv.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
        module = ModuleType("my_package")
        exec(code, module.__dict__)  # noqa: S102  the README's own example
        return module.MyReader


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget the readers before and after."""
    formats._installed.cache_clear()
    yield
    formats._installed.cache_clear()


def test_the_readers_example_turns_lines_into_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = Offered("mytracer", "my_package:MyReader", formats.ENTRY_POINTS)
    monkeypatch.setattr(formats, "entry_points", lambda group: [point] if group == "longpole.formats" else [])
    dump = tmp_path / "rank.trace"
    dump.write_text(
        "#mytracer rank=3\n"
        "annotation,ProfilerStep#8,,,1,1000,2000,\n"
        "runtime,cudaLaunchKernel,,,1,1100,1110,5\n"
        "kernel,gemm,0,7,,1200,1500,5\n"
        "kernel,gemm,0,7,,soon,1500,5\n"
        "half a line\n"
    )
    store = Store(str(tmp_path / "store"))
    make_run(store, "mine", [dump])

    with Session(store) as session:
        steps = session.con.execute("SELECT rank, step, duration_ns, compute_ns FROM rank_steps").fetchall()
        told = session.con.execute("SELECT format, n_events, n_stored, n_dropped FROM dumps").fetchall()

    assert steps == [(3, 8, 500, 300)]
    assert told == [("mytracer", 5, 3, 2)]


def test_a_reader_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no_such_package:Reader", formats.ENTRY_POINTS)
    monkeypatch.setattr(formats, "entry_points", lambda group: [point])

    with pytest.raises(LongpoleError) as error:
        formats.reader_for(b"anything", "a.json")

    assert error.value.fact == (
        "the reader broken (no_such_package:Reader) cannot be loaded: ModuleNotFoundError:"
        " No module named 'no_such_package'"
    )
