"""`longpole run`: dumps to a page, the everyday command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from longpole import __version__
from longpole.analyze import analyze_run
from longpole.cli.ingest import ConfigOption, DumpsArgument, NameOption, RankOption, read_into
from longpole.cli.options import ClusterFlags, StoreOption, WhatIfOption, Work
from longpole.cli.output import page_path, write_page
from longpole.cli.report import OutputOption
from longpole.discover import run_name
from longpole.report import of_run
from longpole.session import Session
from longpole.store import check_run_name, store_at


def run(
    dumps: DumpsArgument,
    /,
    *,
    store: StoreOption = None,
    name: NameOption = None,
    config: ConfigOption = None,
    rank_from: RankOption = None,
    output: OutputOption = None,
    force: Annotated[bool, Parameter(help="Overwrite a file that is no page of longpole's.")] = False,
    what_if: WhatIfOption = None,
    cluster: ClusterFlags = ClusterFlags(),  # noqa: B008  frozen
) -> None:
    """Read dumps, analyze them, write the overview page and print a summary.

    Example: longpole run dumps/ -o page.html
    """
    console = cluster.log()
    target = store_at(store)
    chosen = check_run_name(name or run_name(dumps))
    path = page_path(output, f"{chosen}.html", force=force)
    with Work(cluster.options(), console) as work, target.lock(chosen):
        read_into(target, chosen, dumps, config, rank_from, work, console)
        analyze_run(target, chosen, run_tasks=work.runner("analyze"), memory=work.task_memory, has_what_ifs=what_if)
    with Session(target, [chosen]) as session, session.explaining():
        html, told = of_run.told(session.con, chosen, tool_version=__version__)
    write_page(path, html)
    print(told)
    console.print(f"wrote {Path(path)}")
