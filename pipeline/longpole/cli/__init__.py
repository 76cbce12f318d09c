"""The command line: dispatch, exit codes, and the only place that prints errors."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

from longpole import __version__, remote
from longpole.cli.options import log_line
from longpole.errors import LongpoleError
from longpole.text import printable

COMMANDS = (
    "run",
    "ingest",
    "analyze",
    "nightly",
    "report",
    "explain",
    "whatif",
    "compare",
    "plan",
    "export",
    "query",
    "recipes",
    "shell",
    "views",
    "inspect",
    "check",
    "runs",
    "prune",
    "synth",
)
"""Every command, as help lists them; NAME is the function, or the commands below it, NAME of longpole.cli.NAME."""


def make_app(wanted: str | None = None) -> App:
    """Return the application with every command, or with the wanted one alone: importing all takes a second."""
    app = App(
        name="longpole",
        version=__version__,
        help="What a many-GPU training run is waiting on: profiler dumps in, per-step answers in SQL and a page out.",
        help_format="plaintext",
    )
    for name in COMMANDS if wanted not in COMMANDS else (wanted,):
        command = getattr(importlib.import_module(f"longpole.cli.{name}"), name)
        if isinstance(command, App):
            command.sort_key = COMMANDS.index(name)
            app.command(command)
        else:
            app.command(command, name=name, sort_key=COMMANDS.index(name))
    if wanted not in COMMANDS:
        app.register_install_completion_command(help="Complete commands and options with the Tab key in this shell.")
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 the input or the user is wrong, 2 usage, 3 a gate failed."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    say = _say_json if _wants_json(tokens) else _say
    try:
        app = make_app(tokens[0] if tokens else None)
        result = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        command = [t for t in tokens[:1] if t in COMMANDS]
        say(f"longpole: {error}\n\nSee `{' '.join(['longpole', *command, '--help'])}`.")
        return 2
    except LongpoleError as error:
        say(f"longpole: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("longpole: interrupted; what was not published is not there")
        return 130
    except BrokenPipeError:  # the reader of a pipe has had enough: no error, and nothing more to say on it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except remote.failures() as error:
        say(f"longpole: {getattr(error, 'filename', None) or 'the system'}: {remote.reason(error)}")
        return 1
    return result if isinstance(result, int) else 0


def _wants_json(tokens: Sequence[str]) -> bool:
    return "--log-format=json" in tokens or ("--log-format", "json") in itertools.pairwise(tokens)


def _say_json(text: str) -> None:
    sys.stderr.write(log_line({"error": text.removeprefix("longpole: ")}) + "\n")


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False).print(printable(text))
