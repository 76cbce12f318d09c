"""What flight recorders say of a hang: a few lines for a terminal, and a page of tables with the first cause on top."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import polars as pl

from longpole.catalog import page_query
from longpole.report import answers, document, words
from longpole.report.document import Section
from longpole.report.overview import MAX_DUMP_ROWS

MAX_HANGS = 200
"""Rows of the table of calls that hang: in a large job one lost rank stops thousands, and all but a few follow."""

MAX_MEMBERS = 1_024
"""Rows of the table of members of the first cause, those that it waits for first."""

MAX_CALLS = 200
"""Rows of the table of what was recorded, a group's operation each: a job of many dimensions has dozens."""

_LINES = 3  # causes beside the first that a terminal gets

SECTIONS = (
    Section(
        "hangs",
        "What hangs, the first cause first",
        ("hangs",),
        "SELECT place, role, kind, verdict, frame, n_waiting, n_ranks FROM hangs ORDER BY place",
        "Of each process group and pair of ranks the first call at which members differ, or that did not end. It is a "
        "consequence where every rank that it waits for waits in another. Times are of the ranks' own clocks.",
    ),
    Section(
        "members",
        "What each member of the first did",
        ("hang_ranks",),
        "SELECT rank, situation, op, elements, dtypes, last_seq, frame FROM hang_ranks JOIN hangs USING (run, lane) "
        "WHERE place = 1 ORDER BY rank",
        "Of a rank that did not enqueue the call, the line is that of the last call that it enqueued at all.",
    ),
    Section(
        "calls",
        "What flight recorders have",
        ("collective_records", "flight_records"),
        "SELECT group_id, op, count(*) AS n_records, count(*) FILTER (NOT is_complete) AS n_open, count(match_by) "
        "AS n_matched FROM collective_records GROUP BY group_id, op ORDER BY n_open DESC, group_id, op",
        "Each member records a call when it enqueues it. Where a profiler recorded the rank too, a record stands "
        "beside the kernel of the same group and number: collective_records has the times of both.",
    ),
    Section(
        "coverage",
        "Coverage: what this stands on",
        ("dumps",),
        "SELECT path, rank, n_events, notes, verdict, error FROM dumps ORDER BY rank",
        "A recorder keeps a rank's last calls: what was overwritten is neither an absence nor a presence.",
    ),
)


@dataclass(frozen=True)
class Hang:
    """Everything the page shows: the terminal's lines, and the answers of the queries flight_<field>."""

    run: str
    lines: tuple[str, ...]
    is_alone: bool  # the run has no profiler's dumps
    hangs: pl.DataFrame
    members: pl.DataFrame
    calls: pl.DataFrame
    dumps: pl.DataFrame


def build(con: duckdb.DuckDBPyConnection, run: str) -> Hang | None:
    """Return the page's rows; None for a run without flight recorders' dumps."""
    counted = con.execute(page_query("flight_summary"), {"run": run}).fetchall()
    if not counted:
        return None

    ((n_ranks, n_records, n_hangs, n_follow, n_unread, n_profiles),) = counted
    hangs = answers.frame(con, "flight_hangs", run=run, max_hangs=MAX_HANGS)
    head = f"{words.visible(run)}: flight recorders of {words.count(n_ranks)} ranks, {words.count(n_records)} records"
    return Hang(
        run=run,
        lines=(head, *_told(hangs, n_hangs, n_follow), *_doubts(n_unread)),
        is_alone=n_profiles == 0,
        hangs=hangs,
        members=answers.frame(con, "flight_members", run=run, max_ranks=MAX_MEMBERS),
        calls=answers.frame(con, "flight_calls", run=run, max_calls=MAX_CALLS),
        dumps=answers.frame(con, "overview_dumps", run=run, max_dumps=MAX_DUMP_ROWS),
    )


def render(data: Hang, *, tool_version: str) -> str:
    """Return the page as HTML that needs no other file and makes no request."""
    return document.render(
        "flight.html.j2",
        [],
        {},
        context={
            "data": data,
            "summary": data.lines[0],
            "findings": data.lines[1:],
            "sections": shown(data),
            "tool_version": tool_version,
        },
    )


def shown(data: Hang) -> dict[str, Section]:
    """Return the sections that have rows, by id; those of hangs and of coverage always."""
    empty = {name for name in ("members", "calls") if not getattr(data, name).height}
    return {s.id: s for s in SECTIONS if s.id not in empty}


def _told(hangs: pl.DataFrame, n_hangs: int, n_follow: int) -> list[str]:
    if not hangs.height:
        return ["Nothing hangs: whatever was recorded ended on every rank that recorded it."]
    first, *others = hangs.iter_rows(named=True)
    lines = [f"First cause: {words.visible(first['verdict'])}."]
    if first["frame"] is not None:
        where = "Its last call was at" if first["kind"] in ("missing", "order") else "It was called at"
        lines.append(f"{where} {words.visible(first['frame'])}.")
    besides = [row for row in others if row["role"] == "cause"][:_LINES]
    lines += [f"Besides: {words.visible(row['verdict'])}." for row in besides]
    n_more = n_hangs - 1 - n_follow - len(besides)
    if n_more > 0:
        lines.append(f"And {words.count(n_more)} more that no other explains.")
    if n_follow:
        lines.append(
            f"{words.count(n_follow)} more {'call waits' if n_follow == 1 else 'calls wait'} because of these."
        )
    return lines


def _doubts(n_unread: int) -> list[str]:
    return [f"Careful: {words.count(n_unread)} of the dumps could not be read."] if n_unread else []
