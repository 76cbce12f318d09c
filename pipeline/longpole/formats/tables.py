"""Tables that a profiler exported, whatever holds them: what a mapping of tables to events asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

LONGEST_TEXT = 4_096
"""Characters kept of one text; names of kernels of two thousand are real."""

BATCH_ROWS = 16_384

Kind = Literal["integer", "real", "text", "bytes"]
"""What a column's values must be; one of another kind is None."""


@dataclass(frozen=True)
class Table:
    """A real table and its stored columns."""

    name: str
    columns: frozenset[str]
    key: str | None  # the column that is the row's number, so that a look-up reads a few pages


class Lookup(Protocol):
    """Rows of one table by their key."""

    def row(self, key: int | None) -> tuple[Any, ...] | None:
        """Return the columns of the row with that key, None where there is none."""
        ...

    def first(self, keys: Iterable[int | None]) -> list[Any]:
        """Return the first column of each key's row, None where there is none."""
        ...


class Tables(Protocol):
    """What was exported; `damage` says, after reading, where that ended early."""

    holder: str  # for a person: "SQLite"
    damage: list[str]

    @property
    def tables(self) -> frozenset[str]:
        """The names of its tables."""
        ...

    def table(self, name: str) -> Table | None:
        """Return the table of that name, None where there is none."""
        ...

    def batches(
        self, table: str, columns: Sequence[tuple[str, Kind]], only: tuple[str, int] | None = None
    ) -> Iterator[list[list[Any]]]:
        """Yield the rows of a table in its own order, column by column; a value of another kind is None.

        A table or column that is missing gives nothing, or None. Reading stops at the first damage.

        Args:
            table: Its name.
            columns: Name and kind of each column wanted.
            only: A column and the number that it must have; None: all rows.

        Raises:
            DumpError: There are more rows than can be.
        """
        ...

    def lookup(self, table: str, columns: Sequence[tuple[str, Kind]]) -> Lookup | None:
        """Return a way to rows by their key, None where the table is missing or has no such key."""
        ...
