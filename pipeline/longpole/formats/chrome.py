"""Trace events of any writer, read as a run.toml tells: its table [chrome] becomes the layout of the one reader."""

from __future__ import annotations

from longpole.config import IDS, INPUTS, UNITS, Chrome
from longpole.formats import inputs
from longpole.formats.layout import RANK, Field, Layout, Rule, json_type

NAME = "chrome"

_KEY = "args."


def layout_of(chrome: Chrome) -> Layout:
    """Return the layout that a checked table tells."""
    columns = {column: [told] if isinstance(told, str) else told for column, told in chrome.columns.items()}
    places = [(column, source) for column, told in columns.items() if column not in INPUTS for source in told]
    rank = chrome.rank or ""
    args = [(column, source) for column, source in places if source not in IDS]
    if rank.startswith(_KEY):
        args.append((RANK, rank))
    shapes = [tuple(source.removeprefix(_KEY) for source in columns.get(name, ())) for name in INPUTS]
    ids: dict[str, Field] = {"pid": "pid", "tid": "tid"}
    return Layout(
        name=NAME,
        args=tuple((source.removeprefix(_KEY), column, json_type(column)) for column, source in args),
        category=str.lower,
        inputs=inputs.Keys(shapes[0][0], shapes[1], shapes[2][0]) if all(shapes) else None,
        rules=tuple(Rule(rule.is_, rule.patterns()) for rule in chrome.events),
        from_ids=tuple((column, ids[source]) for column, source in places if source in ids),
        rank_path=tuple(rank.split(".")) if rank and rank != "pid" and not rank.startswith(_KEY) else (),
        is_rank_pid=rank == "pid",
        has_halves=True,
        digits=UNITS[chrome.unit],
    )
