"""The page and the terminal's summary of a run, whichever kind of dumps it was read from."""

from __future__ import annotations

import duckdb

from longpole.report import overview, page, summary, timeline_page


def told(con: duckdb.DuckDBPyConnection, run: str, *, tool_version: str) -> tuple[str, str]:
    """Return the page of a run as HTML, and its summary for a terminal.

    Raises:
        LongpoleError: The store has no run of that name.
    """
    timeline = timeline_page.build(con, run)
    if timeline is not None:
        return timeline_page.render(timeline, tool_version=tool_version), "\n".join(timeline.lines)
    data = overview.build(con, run)
    return page.render(data, tool_version=tool_version), summary.text(data)
