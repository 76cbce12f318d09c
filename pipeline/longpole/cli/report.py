"""`longpole report`: a page of a run."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from longpole import __version__
from longpole.cli.compare import compared
from longpole.cli.options import RunArgument, StoreOption, check_step, parse_steps, stderr
from longpole.cli.output import page_path, write_page
from longpole.errors import UsageError
from longpole.report import compare_page, of_run, postmortem, postmortem_page
from longpole.session import DEFAULT_SESSION_MEMORY, Session
from longpole.store import refuse_pruned, store_at

OutputOption = Annotated[
    str | None,
    Parameter(name=["--output", "-o"], help="Path of the page. Default: RUN.html, of another kind RUN-KIND.html."),
]


def report(
    run: RunArgument,
    /,
    *,
    kind: Annotated[
        Literal["overview", "postmortem", "compare"],
        Parameter(
            help="Which page: the run as a whole, a few steps from close by and how the recording ended, or how the "
            "run differs from its --baseline."
        ),
    ] = "overview",
    step: Annotated[
        int | None, Parameter(help="Step of a post-mortem. Default: the longest step and one of median length.")
    ] = None,
    steps: Annotated[str | None, Parameter(help="Steps of a post-mortem, first and last, as 100:103.")] = None,
    baseline: Annotated[str | None, Parameter(help="Of a comparison, the run to compare with.")] = None,
    store: StoreOption = None,
    output: OutputOption = None,
    force: Annotated[bool, Parameter(help="Overwrite a file that is no page of longpole's.")] = False,
) -> None:
    """Write a page of a run that is analyzed: one self-contained HTML file.

    Example: longpole report nightly-2117 --kind postmortem --step 104 -o page.html
    """
    span = _span(kind, step, steps)
    if kind == "compare" and baseline is None:
        raise UsageError("a comparison needs the run to compare with", "Name it with --baseline.")
    if kind != "compare" and baseline is not None:
        raise UsageError(f"a page of kind {kind} has no baseline", "Leave out --baseline, or ask for --kind compare.")
    target = store_at(store)
    manifest = target.manifest(run)
    if kind == "postmortem":
        refuse_pruned(manifest, "a post-mortem")
    path = page_path(output, f"{run}.html" if kind == "overview" else f"{run}-{kind}.html", force=force)
    if baseline is not None:
        found = compared(target, baseline, run, memory=DEFAULT_SESSION_MEMORY)
        html = compare_page.render(found, tool_version=__version__)
    else:
        with Session(target, [run]) as session, session.explaining():
            if kind == "overview":
                html, _ = of_run.told(session.con, run, tool_version=__version__)
            else:
                html = postmortem_page.render(postmortem.build(session.con, run, span), tool_version=__version__)
    write_page(path, html)
    stderr().print(f"wrote {path}")


def _span(kind: str, step: int | None, steps: str | None) -> tuple[int | None, int | None] | None:
    """Return the first and the last step asked for.

    Raises:
        UsageError: Steps of a page that has none, or both a step and steps.
    """
    if kind != "postmortem" and (step is not None or steps is not None):
        raise UsageError(f"a page of kind {kind} is of all steps", "Give --kind postmortem with --step or --steps.")
    if step is not None and steps is not None:
        raise UsageError("--step and --steps say the same twice", "Give one of them.")
    check_step(step)
    return parse_steps(steps) if step is None else (step, step)
