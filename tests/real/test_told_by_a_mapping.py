"""PyTorch's own dumps, read as README's mapping tells, are what their own reader makes of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole.config import Chrome, parse
from longpole.formats import ReadOptions, reader_for
from longpole.formats.probe import head_of
from longpole.store import Manifest, Store
from pipeline_inline import make_run

README = Path(__file__).parents[2] / "README.md"


def mapping() -> str:
    (text,) = re.findall(r"```toml\n(\[chrome\].*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return str(text)


def rows(path: Path, chrome: Chrome | None) -> tuple[pa.Table, dict[str, Any]]:
    batches: list[pa.Table] = []
    with path.open("rb") as file:
        reader = reader_for(head_of(file), path.name, chrome)
        file.seek(0)
        facts = reader.read(file, path.name, batches.append, ReadOptions())
    told = {name: getattr(facts, name) for name in facts.__dataclass_fields__ if name not in ("format", "schema")}
    whole = pa.concat_tables(batches).unify_dictionaries()
    plain = [c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in whole.columns]
    return pa.Table.from_arrays(plain, whole.schema.names), told | {"format": reader.name}


@pytest.mark.parametrize(
    "dump",
    [
        *(f"megatron-tp8-a100/megatron_kineto_{rank}.json.gz" for rank in range(8)),
        "single/nccl_args_rank0_of_2.json.gz",
        "single/cuda_graphs_rank0_of_16.json.gz",
    ],
)
def test_every_row_and_column_is_the_same(traces: Path, dump: str) -> None:
    own, own_facts = rows(traces / dump, None)
    other, other_facts = rows(traces / dump, parse(mapping(), "run.toml").layout())

    assert other.num_rows > 5_000
    assert other.equals(own)
    assert (own_facts.pop("format"), other_facts.pop("format")) == ("kineto", "chrome")
    assert other_facts == own_facts


def digests(manifest: Manifest) -> dict[tuple[Any, ...], str]:
    found = {(f.table, f.rank, f.first_step, f.last_step): f.digest for f in manifest.files}
    assert len(found) == len(manifest.files)
    return found


def test_every_published_file_is_the_same(traces: Path, tmp_path: Path) -> None:
    dumps = [traces / "megatron-tp8-a100" / f"megatron_kineto_{rank}.json.gz" for rank in (0, 6)]
    store = Store(str(tmp_path / "store"))
    own = digests(make_run(store, "megatron", dumps))
    told = digests(make_run(Store(str(tmp_path / "other")), "megatron", dumps, config=mapping()))

    assert {"events", "rank_steps", "collectives", "step_critical_path", "kernels"} <= {table for table, *_ in own}
    assert told == own
