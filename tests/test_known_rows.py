"""Every relation has the rows for made runs that it is known to have: what a change of SQL moves is named.

Where a change is meant, `python tests/known_rows.py` writes tests/known anew, and its difference says what changed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from known_rows import difference, rows_of
from known_runs import RUNS
from longpole import catalog


@pytest.mark.parametrize("name", RUNS)
def test_every_relation_has_the_rows_that_are_known(name: str) -> None:
    assert difference(name, rows_of(name)) == ""


def test_a_change_of_sql_is_named_with_all_that_follows_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalog.relations()
    ideals = known["timeline_ideals"]
    monkeypatch.setitem(known, ideals.name, replace(ideals, sql=f"SELECT * FROM (\n{ideals.sql}\n) LIMIT 1"))
    monkeypatch.setattr(catalog, "fingerprint", lambda *scopes: "changed")

    moved = [line.partition(":")[0] for line in difference("op-timeline", rows_of("op-timeline")).splitlines()]

    assert moved[0] == "timeline_ideals"
    assert "run_whatif" in moved
    assert "timeline_ops" not in moved
