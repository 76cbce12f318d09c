"""`longpole views`: what can be asked."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from longpole import catalog
from longpole.errors import UsageError
from longpole.session import describe, public_views
from longpole.store import DUMP_GRAIN, DUMP_TABLE


def views(name: Annotated[str | None, Parameter(help="A view.")] = None, /) -> None:
    """List the views, or the columns of one and a question it answers.

    Example: longpole views rank_steps
    """
    known = public_views()
    if name is None:
        width = max(len(v) for v in known)
        for view in known:
            print(f"{view:<{width}}  {_grain(view)}")
        return
    if name not in known:
        raise UsageError(f"there is no view {name!r}", f"Views: {', '.join(known)}.")
    print(_grain(name))
    print()
    columns = _columns(name)
    width = max(len(c[0]) for c in columns)
    for column, kind, meaning in columns:
        print(f"{column:<{width}}  {kind:<9}  {meaning}".rstrip())
    relation = describe(name)
    if relation is not None and relation.how:
        print(f"\n{relation.how}")
    print(f"\n{_example(name)}")


def _example(name: str) -> str:
    """Return a question that the view answers, alone where one is, and the SQL that asks it."""
    asked = [r for r in catalog.recipes().values() if name in r.reads]
    if not asked:
        return f'Example: longpole query "FROM {name} LIMIT 10"'
    recipe = min(asked, key=lambda r: (len(r.reads), r.sql.count("\n"), r.name))
    values = {p.name: "NULL" if p.default is None else p.default for p in recipe.parameters}
    sql = re.sub(r"\$(\w+)", lambda m: values[m[1]], recipe.sql)
    others = [r.name for r in asked if r is not recipe]
    more = f"\n\nOther recipes that read it: {', '.join(others)}" if others else ""
    return f"Example: longpole recipes {recipe.name}   # {recipe.question}\n\n{sql}{more}"


def _grain(name: str) -> str:
    relation = describe(name)
    return relation.grain if relation else DUMP_GRAIN


def _columns(name: str) -> list[tuple[str, str, str]]:
    relation = describe(name)
    first = [("run", "VARCHAR", "Run.")]
    if relation is None:
        return [*first, *((f.name, _DUCKDB[str(f.type)], f.metadata[b"meaning"].decode()) for f in DUMP_TABLE)]
    if relation.scope == "dump":
        first.append(("rank", "INTEGER", "Rank."))
    if relation.scope == "fleet":
        first = []
    return [*first, *((c.name, c.type, c.meaning) for c in relation.columns)]


_DUCKDB = {
    "string": "VARCHAR",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "list<item: string>": "VARCHAR[]",
    "list<element: string>": "VARCHAR[]",
}
