"""run.toml, typed: what a person says of a run that its dumps do not.

Every key is optional. A key that does not exist is an error that names the nearest one that does.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import duckdb
import msgspec

from longpole.errors import LongpoleError

STEP_PATTERN = r"^ProfilerStep#(\d+)$"
"""torch.profiler's own marker (torch/profiler/profiler.py names the range of each step so)."""


class _Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pass


class Model(_Table, frozen=True):
    """[model]: sizes that FLOPs follow from."""

    name: str | None = None
    params: int | None = None
    active_params: int | None = None
    embedding_params: int | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    head_dim: int | None = None
    seq_len: int | None = None


class Batch(_Table, frozen=True):
    """[batch]: tokens of one update."""

    tokens_per_step: int | None = None
    sequences_per_microbatch: int | None = None
    accumulation: int | None = None
    scored_targets_per_step: int | None = None


class Hardware(_Table, frozen=True):
    """[hardware]: peaks of one device."""

    device: str | None = None
    peak_flops: float | None = None
    dtype: str | None = None
    hbm_bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None
    nodes: int | None = None


class Parallel(_Table, frozen=True):
    """[parallel]: sizes of the mesh."""

    dp: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    cp: int | None = None
    microbatches: int | None = None
    virtual_stages: int | None = None


class Steps(_Table, frozen=True):
    """[steps]: how a step is marked; the first group of `marker` is its number."""

    marker: str = STEP_PATTERN
    per_update: int | None = None


class Topology(_Table, frozen=True):
    """[topology]: a CSV of rank, host, node, rack, rail."""

    file: str | None = None


class Run(_Table, frozen=True):
    """[run]: what may be compared with what."""

    job: str | None = None
    workload: str | None = None


class Comm(_Table, frozen=True):
    """[comm]: names of collective kernels beside the shipped ones."""

    kernels: list[str] = []


class RunConfig(_Table, frozen=True):
    """A whole run.toml."""

    model: Model = Model()
    batch: Batch = Batch()
    hardware: Hardware = Hardware()
    parallel: Parallel = Parallel()
    steps: Steps = Steps()
    topology: Topology = Topology()
    run: Run = Run()
    comm: Comm = Comm()
    phases: dict[str, str] = {}
    gates: dict[str, float] = {}

    def ingest_key(self) -> str:
        """Return the text of all that changes how events are linked: dumps are read anew when it does."""
        return repr((self.steps.marker, sorted(self.comm.kernels)))


def load(path: str | None) -> tuple[RunConfig, str]:
    """Return the config and its text as written; both empty without a path.

    Raises:
        LongpoleError: No such file, not TOML, an unknown key, a wrong type or a pattern that does not parse.
    """
    if path is None:
        return RunConfig(), ""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise LongpoleError(f"{path} cannot be read: {reason}", "Give the path of a run.toml with --config.") from error
    return parse(text, path), text


def parse(text: str, path: str) -> RunConfig:
    """Return the config that `text` says; `path` is for messages.

    Raises:
        LongpoleError: As for load.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LongpoleError(f"{path} is not TOML: {error}", "README, section run.toml, shows every key.") from error
    _refuse_unknown(tables, path)
    try:
        config = msgspec.convert(tables, RunConfig)
    except msgspec.ValidationError as error:
        raise LongpoleError(f"{path}: {error}", "README, section run.toml, shows every key and its type.") from error
    for key, pattern in (
        ("[steps] marker", config.steps.marker),
        *(("[comm] kernels", p) for p in config.comm.kernels),
    ):
        _check_pattern(path, key, pattern)
    return config


def _refuse_unknown(tables: dict[str, Any], path: str) -> None:
    sections = get_type_hints(RunConfig)
    for name, table in tables.items():
        if name not in sections:
            raise LongpoleError(f"{path}: there is no [{name}]", _nearest(name, sections, "[{}]"))
        kind = sections[name]
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)) or not isinstance(table, dict):
            continue
        known = get_type_hints(kind)
        for key in table:
            if key not in known:
                raise LongpoleError(f"{path}: [{name}] has no key {key!r}", _nearest(key, known, f"[{name}] {{}}"))


def _nearest(word: str, known: dict[str, Any], form: str) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {form.format(close[0])}?"
    return f"It knows: {', '.join(form.format(k) for k in known)}."


def _check_pattern(path: str, key: str, pattern: str) -> None:
    group = 1 if key == "[steps] marker" else 0
    try:
        duckdb.execute("SELECT regexp_extract('x', $1, $2)", [pattern, group]).fetchall()
    except duckdb.Error as error:
        what = "has no group for the step's number" if "group" in str(error).lower() else "is no regular expression"
        raise LongpoleError(
            f"{path}: {key} = {pattern!r} {what}",
            "Write an RE2 pattern; the first group of [steps] marker is the step's number, as in '^Step (\\d+)$'.",
        ) from error
