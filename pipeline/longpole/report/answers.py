"""What the queries of sql/pages answer, as frames that charts take and as plain rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from longpole.catalog import page_query

if TYPE_CHECKING:
    import polars as pl


def frame(con: duckdb.DuckDBPyConnection, query: str, **parameters: Any) -> pl.DataFrame:
    """Return the answer of one query of sql/pages."""
    answer: pl.DataFrame = con.sql(page_query(query), params=parameters).pl()
    return answer


def rows(con: duckdb.DuckDBPyConnection, query: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return the rows of one query of sql/pages, without what a frame needs to be loaded."""
    answer = con.execute(page_query(query), parameters)
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
