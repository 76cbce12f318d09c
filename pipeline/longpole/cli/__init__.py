"""The command line: dispatch, exit codes, and the only place that prints errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

from longpole import __version__
from longpole.errors import LongpoleError

COMMANDS: dict[str, str] = {
    "run": "Read dumps, analyze them, write the overview page and print a summary.",
    "ingest": "Read dumps into a run's events.",
    "analyze": "Compute a run's facts and marts from its events.",
    "report": "Write a page of a run that is analyzed.",
    "query": "Answer a question in SQL over the views.",
    "views": "List the views, or the columns of one.",
    "inspect": "Say what each file is. No store is touched.",
    "check": "Test a run against every rule; exit 3 where one is broken.",
    "runs": "List the runs of a store.",
    "synth": "Write dumps with a known answer.",
}
"""Every command and what it does; NAME is the function NAME of longpole.cli.NAME, imported when it is called."""


def make_app() -> App:
    """Return the application; errors of usage come back as exceptions."""
    app = App(
        name="longpole",
        version=__version__,
        help="What a many-GPU training run is waiting on: profiler dumps in, per-step answers in SQL and a page out.",
        help_format="plaintext",
    )
    for name, what in COMMANDS.items():
        app.command(f"longpole.cli.{name}:{name}", name=name, help=what)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 the input or the user is wrong, 2 usage, 3 a gate failed."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    app = make_app()
    try:
        result = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        _say(
            f"longpole: {error}\n\nSee `longpole {tokens[0] + ' ' if tokens[:1] and tokens[0] in COMMANDS else ''}--help`."
        )
        return 2
    except LongpoleError as error:
        _say(f"longpole: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("longpole: interrupted; what was not published is not there")
        return 130
    except BrokenPipeError:  # the reader of a pipe has had enough: no error, and nothing more to say on it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _say(f"longpole: {error.filename or 'the system'}: {error.strerror or error}")
        return 1
    return result if isinstance(result, int) else 0


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False).print(text)
