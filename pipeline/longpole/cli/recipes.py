"""`longpole recipes`: questions people ask, saved with the SQL that answers them."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import duckdb
from cyclopts import Parameter

from longpole import catalog
from longpole.cli.options import StoreOption, stderr
from longpole.cli.query import Format, print_answer
from longpole.errors import UsageError
from longpole.session import Session
from longpole.store import store_at
from longpole.text import printable
from longpole.units import parse_bytes


def recipes(
    name: Annotated[str | None, Parameter(help="A question, as the list names it.")] = None,
    /,
    *,
    run: Annotated[list[str] | None, Parameter(help="Only these runs; else every run of the store.")] = None,
    set: Annotated[list[str] | None, Parameter(help="NAME=VALUE: another value of a parameter.")] = None,
    sql: Annotated[bool, Parameter(help="Print the recipe itself, to read or to change.", negative="")] = False,
    format: Annotated[Format, Parameter(help="How rows are printed.")] = "table",
    store: StoreOption = None,
    memory: Annotated[str, Parameter(help="What the query may hold before it spills to disk.")] = "2GiB",
) -> None:
    """List saved questions, or answer one.

    Example: longpole recipes slow_step_ranks --run nightly-2117 --set step=12
    """
    known = catalog.recipes()
    if name is None:
        width = max(len(n) for n in known)
        for recipe in known.values():
            print(f"{recipe.name:<{width}}  {recipe.question}")
        return
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        cure = f"Nearest: {', '.join(near)}." if near else "`longpole recipes` lists them."
        raise UsageError(f"there is no recipe {name!r}", cure)
    recipe = known[name]
    if sql:
        print(recipe.text, end="")
        return
    values = _values(recipe, set or [])
    with Session(store_at(store), run, memory=parse_bytes(memory)) as session:
        n_rows = print_answer(session, session.sql(recipe.sql, values), format, limit=values["rows"])
    if n_rows == 0 and recipe.when_empty:
        stderr().print(f"No rows. There are none {recipe.when_empty}")
    elif n_rows == values["rows"]:
        stderr().print(f"({n_rows} rows; --set rows=N shows more)")


def _values(recipe: catalog.Recipe, given: list[str]) -> dict[str, Any]:
    """Return the value of every parameter: the default, or what is given, as its type.

    Raises:
        UsageError: What is given is no parameter of the recipe, or no value of its type.
    """
    texts = {p.name: p.default for p in recipe.parameters}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in texts:
            names = ", ".join(f"{p.name} ({p.meaning.rstrip('.')})" for p in recipe.parameters)
            raise UsageError(f"--set {printable(text)} sets nothing of {recipe.name}", f"Give NAME=VALUE of: {names}.")
        texts[name] = value
    values: dict[str, Any] = {}
    for parameter in recipe.parameters:
        told = texts[parameter.name]
        try:
            row = duckdb.execute(f"SELECT $1::{parameter.type}", [told]).fetchall()
        except duckdb.Error as error:
            raise UsageError(
                f"--set {parameter.name}={printable(str(told))} is no {parameter.type}", parameter.meaning
            ) from error
        values[parameter.name] = row[0][0]
    if values["rows"] < 1:
        raise UsageError(f"--set rows={values['rows']} shows nothing", "Give a number of rows from 1.")
    return values
