"""The page and the terminal's summary of a run, whichever kind of dumps it was read from."""

from __future__ import annotations

import duckdb

from longpole.report import flight_page, overview, page, summary, timeline_page


def told(con: duckdb.DuckDBPyConnection, run: str, *, tool_version: str) -> tuple[str, str]:
    """Return the page of a run as HTML, and its summary for a terminal.

    Raises:
        LongpoleError: The store has no run of that name.
    """
    timeline = timeline_page.build(con, run)
    if timeline is not None:
        return timeline_page.render(timeline, tool_version=tool_version), "\n".join(timeline.lines)
    hang = flight_page.build(con, run)
    if hang is not None and hang.is_alone:
        return flight_page.render(hang, tool_version=tool_version), "\n".join(hang.lines)
    data = overview.build(con, run)
    lines = [summary.text(data), *(hang.lines[1:] if hang is not None else ())]
    return page.render(data, tool_version=tool_version, hang=hang), "\n".join(lines)
