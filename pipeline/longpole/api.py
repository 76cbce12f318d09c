"""A store from Python in five functions: open it, see its runs, ask in SQL, take a view, have a step explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from longpole.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from longpole.session import Session
    from longpole.store import Store

__all__ = ["OpenStore", "open_store"]


def open_store(url: str | None = None) -> OpenStore:
    """Return the store at a folder or URL, by default $LONGPOLE_STORE, else ./longpole-store, to read and to close.

    Raises:
        StoreError: It cannot be read as a store.
    """
    from longpole.store import store_at

    return OpenStore(store_at(url))


class OpenStore:
    """What `open_store` returns; use it as a context manager, or close it. It sees a run as it was when first asked.

    `run` is a run's name, or several, or None for every run. Nothing is written, and no file but the store's is read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions: dict[tuple[str, ...] | None, Session] = {}

    def __enter__(self) -> OpenStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections; a relation that `view` gave can no longer be read."""
        while self._sessions:
            self._sessions.popitem()[1].close()

    def runs(self) -> pl.DataFrame:
        """Return the view `runs`: a row for each, by name; no rows where there are none."""
        if not self._store.runs():
            import polars as pl

            return pl.DataFrame({"run": []}, schema={"run": pl.String})
        return self.query("FROM runs ORDER BY run")

    def query(
        self, sql: str, run: str | Sequence[str] | None = None, parameters: Mapping[str, Any] | None = None
    ) -> pl.DataFrame:
        """Return the rows of one SELECT over the views; `parameters` are the values of its `$name`.

        Raises:
            LongpoleError: The query is not one SELECT, or failed.
        """
        session = self._session(run)
        with session.explaining():
            frame: pl.DataFrame = session.sql(sql, dict(parameters or {})).pl()
        return frame

    def view(self, name: str, run: str | Sequence[str] | None = None) -> duckdb.DuckDBPyRelation:
        """Return a view as a relation, not yet read: filter, aggregate and join it, then take `.pl()` or `.fetchall()`.

        Raises:
            UsageError: There is no such view.
        """
        from longpole.session import public_views

        if name not in public_views():
            raise UsageError(f"there is no view {name!r}", f"Views: {', '.join(public_views())}.")
        return self._session(run).con.view(name)

    def explain(self, run: str, step: int | None = None) -> str:
        """Return the critical path of a step, by default the run's slowest, told in about fifteen lines.

        Raises:
            LongpoleError: The run or the step is not there, or has no path.
        """
        from longpole.report import explain, story

        session = self._session(run)
        with session.explaining():
            return story.text(explain.build(session.con, run, step))

    def _session(self, run: str | Sequence[str] | None) -> Session:
        from longpole.session import Session

        key = run if run is None else (run,) if isinstance(run, str) else tuple(run)
        if key not in self._sessions:
            self._sessions[key] = Session(self._store, key)
        return self._sessions[key]
