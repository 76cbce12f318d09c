"""run.toml, typed: what a person says of a run that its dumps do not.

Every key is optional. A key that does not exist is an error that names the nearest one that does.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import math
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import duckdb
import msgspec

from longpole.errors import LongpoleError
from longpole.events import CATEGORIES, RAW_SCHEMA

_CURE = "README, section run.toml, shows every key and its type."

STEP_PATTERN = r"^ProfilerStep#(\d+)$"
"""torch.profiler's own marker (torch/profiler/profiler.py names the range of each step so)."""


Count = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Rate = Annotated[float, msgspec.Meta(gt=0)]

_DTYPES = {
    "bf16": ("bfloat16", "torch.bfloat16"),
    "fp16": ("float16", "half", "torch.float16"),
    "fp8": ("float8", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2"),
    "fp4": ("mxfp4", "nvfp4"),
    "tf32": (),
    "fp32": ("float32", "float", "torch.float32"),
}
"""Element types of matrix products as sql/data/devices.csv names them, and as people do."""


class _Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pass


class Model(_Table, frozen=True):
    """[model]: sizes that FLOPs follow from; a published model's `name` gives those that are left out."""

    name: str | None = None
    params: Count | None = None
    active_params: Count | None = None  # that one token passes through
    embedding_params: Count | None = None  # of the input table
    layers: Count | None = None
    hidden: Count | None = None
    heads: Count | None = None
    kv_heads: Count | None = None
    head_dim: Count | None = None
    d_qk: Count | None = None  # of one head's query and key, where it is not head_dim
    d_v: Count | None = None  # of one head's value, likewise
    ffn: Count | None = None
    vocab: Count | None = None
    seq_len: Count | None = None
    tied: bool | None = None  # the output layer is the embedding
    experts: Count | None = None  # of one mixture-of-experts layer
    experts_per_token: Count | None = None


class Batch(_Table, frozen=True):
    """[batch]: tokens of one update."""

    tokens_per_step: Count | None = None
    sequences_per_microbatch: Count | None = None
    accumulation: Count | None = None
    scored_targets_per_step: Count | None = None


class Hardware(_Table, frozen=True):
    """[hardware]: peaks of one device."""

    device: str | None = None
    peak_flops: Rate | None = None
    dtype: str | None = None
    hbm_bytes_per_s: Rate | None = None
    link_bytes_per_s: Rate | None = None
    nodes: Count | None = None


class Parallel(_Table, frozen=True):
    """[parallel]: sizes of the mesh."""

    dp: Count | None = None
    tp: Count | None = None
    pp: Count | None = None
    ep: Count | None = None
    cp: Count | None = None
    microbatches: Count | None = None
    virtual_stages: Count | None = None


class Steps(_Table, frozen=True):
    """[steps]: how a step is marked; the first group of `marker` is its number."""

    marker: str = STEP_PATTERN
    per_update: Count | None = None


class Topology(_Table, frozen=True):
    """[topology]: a CSV of rank, host, node, rack, rail."""

    file: str | None = None


class Telemetry(_Table, frozen=True):
    """[telemetry]: how far the times of CSV files that say no zone are ahead of UTC, as in +02:00."""

    utc_offset: str | None = None


class Run(_Table, frozen=True):
    """[run]: what may be compared with what."""

    job: str | None = None
    workload: str | None = None


class Comm(_Table, frozen=True):
    """[comm]: names of collective kernels beside the shipped ones."""

    kernels: list[str] = []


class Rule(_Table, frozen=True):
    """One of [chrome] events: what events are whose fields match all these patterns."""

    is_: str = msgspec.field(name="is")
    cat: str | None = None
    name: str | None = None
    pid: str | None = None
    tid: str | None = None

    def patterns(self) -> tuple[tuple[Literal["cat", "name", "pid", "tid"], str], ...]:
        """Return the fields that it looks at, with their patterns."""
        keys: tuple[Literal["cat", "name", "pid", "tid"], ...] = ("cat", "name", "pid", "tid")
        return tuple((key, pattern) for key in keys if (pattern := getattr(self, key)) is not None)


class Chrome(_Table, frozen=True):
    """[chrome]: how the run's JSON of trace events is read where PyTorch's profiler did not write it."""

    unit: str = "us"
    rank: str | None = None  # args.KEY, pid, or keys around the events: otherData.rank
    events: list[Rule] = []
    columns: dict[str, str | list[str]] = {}  # of events: args.KEY, or pid and tid on a device's rows


class Gates(_Table, frozen=True):
    """[gates]: what a run must keep; sql/data/gate_rules.csv says what each is held against."""

    step_time_ns: float | None = None
    mfu_ratio: float | None = None
    exposed_comm_ratio: float | None = None
    straggler_ratio: float | None = None
    coverage_ratio: float | None = None
    goodput_ratio: float | None = None
    memory_ratio: float | None = None
    step_time_worse_ratio: float | None = None
    mfu_worse_ratio: float | None = None
    exposed_comm_worse_ratio: float | None = None
    straggler_worse_ratio: float | None = None
    coverage_worse_ratio: float | None = None
    goodput_worse_ratio: float | None = None
    memory_worse_ratio: float | None = None


Figure = tuple[str, str, int | float | str | bool | None]
"""A key of run.toml as a column: SECTION_KEY, its SQL type, its value."""

_SQL_TYPES: dict[Any, str] = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR", bool: "BOOLEAN"}


class RunConfig(_Table, frozen=True):
    """A whole run.toml."""

    model: Model = Model()
    batch: Batch = Batch()
    hardware: Hardware = Hardware()
    parallel: Parallel = Parallel()
    steps: Steps = Steps()
    topology: Topology = Topology()
    telemetry: Telemetry = Telemetry()
    run: Run = Run()
    comm: Comm = Comm()
    phases: dict[str, str] = {}
    chrome: Chrome = Chrome()
    gates: Gates = Gates()

    def figures(self) -> tuple[Figure, ...]:
        """Return what is told of model, batch, hardware and parallelism, and how steps make updates, key by key."""
        rows: list[Figure] = []
        for section in ("model", "batch", "hardware", "parallel", "steps"):
            table = getattr(self, section)
            for key, hint in get_type_hints(type(table)).items():
                if (section, key) == ("steps", "marker"):
                    continue
                value = getattr(table, key)
                if (section, key) == ("hardware", "dtype"):
                    value = _dtype(value)
                rows.append((f"{section}_{key}", _SQL_TYPES[get_args(hint)[0]], value))
        return tuple(rows)

    def thresholds(self) -> dict[str, float]:
        """Return the gates that are told, by name."""
        told = {name: getattr(self.gates, name) for name in get_type_hints(Gates)}
        return {name: float(value) for name, value in told.items() if value is not None}

    def comparable(self) -> tuple[str | None, str | None]:
        """Return job and workload, which runs of one trend have in common; an untold job is its workload.

        Neither, where nothing is said: such a run is compared with none.
        """
        return self.run.job or self.workload(), self.workload()

    def ingest_key(self) -> str:
        """Return the text of all that changes how events are linked: dumps are read anew when it does."""
        told = (self.steps.marker, sorted(self.comm.kernels))
        return repr(told if self.layout() is None else (*told, self.chrome))

    def layout(self) -> Chrome | None:
        """Return how trace events are read, None where nothing is said of it."""
        return self.chrome if self.chrome != Chrome() else None

    def workload(self) -> str | None:
        """Return what the run works on: [run] workload, else a hash of what is said of model, batch, mesh and hardware.

        Runs with two such names are not recordings of one job; None, where nothing is said, says nothing.
        """
        work = (self.model, self.batch, self.parallel, self.hardware)
        if self.run.workload is not None or work == (Model(), Batch(), Parallel(), Hardware()):
            return self.run.workload
        return hashlib.sha256(msgspec.json.encode(work)).hexdigest()[:12]


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
    except (ValueError, RecursionError) as error:  # the first too of a number with more digits than Python reads
        raise LongpoleError(f"{path} is not TOML: {_cut(str(error))}", _CURE) from error
    _refuse_unknown(tables, path)
    try:
        config = msgspec.convert(tables, RunConfig)
    except msgspec.ValidationError as error:
        raise LongpoleError(f"{path}: {_in_words(error)}", _CURE) from error
    for name, threshold in config.thresholds().items():
        if not math.isfinite(threshold):
            raise LongpoleError(f"{path}: [gates] {name} = {threshold} is no threshold", "Write a number.")
    for rate in ("peak_flops", "hbm_bytes_per_s", "link_bytes_per_s"):
        if not math.isfinite(getattr(config.hardware, rate) or 0):
            raise LongpoleError(f"{path}: [hardware] {rate} must be finite", "Leave out what is not known.")
    _check_sizes(config, path)
    if not re.fullmatch(r"Z|UTC|[+-](0\d|1[0-4]):[0-5]\d", config.telemetry.utc_offset or "Z"):
        raise LongpoleError(
            f"{path}: [telemetry] utc_offset = {config.telemetry.utc_offset!r} is no time zone",
            'Write how far it is ahead of UTC, as in "+02:00".',
        )
    _check_pattern(path, "[steps] marker", config.steps.marker, has_number=True)
    for pattern in config.comm.kernels:
        _check_pattern(path, "[comm] kernels", pattern)
    for name, pattern in config.phases.items():
        _check_pattern(path, f"[phases] {name}", pattern)
    _check_chrome(config.chrome, path)
    return config


def _cut(text: str) -> str:
    """Return the text, or its beginning where it is longer than an error may be."""
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


_LONGEST_SHOWN = 120  # characters


UNITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
"""Units of the times of trace events, and how many digits each has more than a nanosecond."""

INPUTS = ("input_types", "input_shapes", "input_values")
"""Names in [chrome] columns for what the column `inputs` is made of."""

IDS = {"pid": ("device", "stream", "context"), "tid": ("stream", "context")}
"""The columns that a process or thread may give on a device's rows."""

_MOST_RULES = 64
_LONGEST_PATTERN = 1_000
_KEY = "args."


def _check_chrome(chrome: Chrome, path: str) -> None:
    if chrome.unit not in UNITS:
        raise LongpoleError(f"{path}: [chrome] unit = {chrome.unit!r} is none", _nearest(chrome.unit, UNITS, "{}"))
    if len(chrome.events) > _MOST_RULES:
        raise LongpoleError(f"{path}: [chrome] events has more than {_MOST_RULES} rules", "Join their patterns by |.")
    for number, rule in enumerate(chrome.events, 1):
        place = f"[chrome] events, rule {number}"
        if rule.is_ not in CATEGORIES:
            raise LongpoleError(f"{path}: {place}: is = {rule.is_!r}", _nearest(rule.is_, CATEGORIES, "{}"))
        if not rule.patterns():
            raise LongpoleError(f"{path}: {place} fits every event", "Give it a pattern for cat, name, pid or tid.")
        for key, pattern in rule.patterns():
            _check_pattern(path, f"{place}: {key}", pattern)
            if len(pattern) > _LONGEST_PATTERN:
                raise LongpoleError(
                    f"{path}: {place}: {key} has more than {_LONGEST_PATTERN:,} characters", "Write a shorter pattern."
                )
    _check_columns(chrome, path)


def _check_columns(chrome: Chrome, path: str) -> None:
    derived = ("category", "name", "start_ns", "duration_ns", "process", "thread", "label", "inputs")
    known = dict.fromkeys([name for name in RAW_SCHEMA.names if name not in derived] + list(INPUTS))
    taken = {chrome.rank: "rank"} if (chrome.rank or "").startswith(_KEY) else {}
    for column, told in chrome.columns.items():
        if column not in known:
            raise LongpoleError(f"{path}: [chrome.columns] has no {column!r}", _nearest(column, known, "{}"))
        sources = [told] if isinstance(told, str) else told
        if column in ("input_types", "input_values") and len(sources) != 1:
            raise LongpoleError(f"{path}: [chrome.columns] {column} is one key", 'Write "args.KEY".')
        for source in sources:
            is_id = source in IDS and column in IDS[source]
            if not is_id and (not source.startswith(_KEY) or source == _KEY):
                raise LongpoleError(
                    f"{path}: [chrome.columns] {column} = {source!r} is no place in an event",
                    'Write "args.KEY"; device, stream and context may also be "pid" or "tid".',
                )
            if not is_id and source in taken:
                raise LongpoleError(
                    f"{path}: [chrome.columns] {column} = {source!r}, which is {taken[source]} already",
                    "A key of args is one column.",
                )
            taken[source] = column
    if "input_shapes" in chrome.columns and not {"input_types", "input_values"} <= chrome.columns.keys():
        raise LongpoleError(
            f"{path}: [chrome.columns] has input_shapes alone", "Give input_types and input_values with them."
        )


def _dtype(name: str | None) -> str | None:
    """Return the element type as the table of devices names it; None for one that is none."""
    if name is None:
        return None
    spelt = name.strip().lower()
    return next((own for own, others in _DTYPES.items() if spelt == own or spelt in others), None)


def _check_sizes(config: RunConfig, path: str) -> None:
    """Refuse sizes of which no model, batch or device can have both."""
    model, batch, hardware = config.model, config.batch, config.hardware
    at_most = (
        ("[model] active_params", model.active_params, "params", model.params),
        ("[model] embedding_params", model.embedding_params, "params", model.params),
        ("[model] experts_per_token", model.experts_per_token, "experts", model.experts),
        ("[model] kv_heads", model.kv_heads, "heads", model.heads),
        ("[batch] scored_targets_per_step", batch.scored_targets_per_step, "tokens_per_step", batch.tokens_per_step),
    )
    for key, part, whole_key, whole in at_most:
        if part is not None and whole is not None and part > whole:
            raise LongpoleError(f"{path}: {key} = {part} is more than {whole_key} = {whole}", "One of them is wrong.")
    mesh = [getattr(config.parallel, axis) or 1 for axis in ("dp", "tp", "pp", "cp")]
    if math.prod(mesh) > _LARGEST_WORLD or (config.parallel.ep or 1) > _LARGEST_WORLD:
        raise LongpoleError(f"{path}: [parallel] makes more than {_LARGEST_WORLD:,} ranks", "No job has so many.")
    if hardware.dtype is not None and _dtype(hardware.dtype) is None:
        raise LongpoleError(
            f"{path}: [hardware] dtype = {_cut(hardware.dtype)!r} is no element type of matrix products",
            _nearest(hardware.dtype, dict.fromkeys(_DTYPES), "{}"),
        )
    if hardware.peak_flops is not None and hardware.peak_flops < _LEAST_PEAK:
        raise LongpoleError(
            f"{path}: [hardware] peak_flops = {hardware.peak_flops:g} is no device's", "Write FLOP/s, as in 989e12."
        )


_LARGEST_WORLD = 1 << 20  # as params.largest_world

_LEAST_PEAK = 1e9
"""A peak below this is in TFLOP/s: a device of 10^9 FLOP/s trains nothing."""


def _in_words(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the place as TOML spells it."""
    match = re.fullmatch(r"(.*) - at `\$\.(\w+)(?:\.(\w+))?.*`", str(error), re.DOTALL)
    if match is None:
        return str(error)
    place = f"[{match[2]}]" + (f" {match[3]}" if match[3] else "")
    return f"{place}: {match[1].replace(' | null', '')}"


def _refuse_unknown(tables: dict[str, Any], path: str) -> None:
    """Refuse a section or key that does not exist, naming the nearest that does."""
    sections = get_type_hints(RunConfig)
    for name, table in tables.items():
        if name not in sections:
            raise LongpoleError(f"{path}: there is no [{_cut(name)}]", _nearest(name, sections, "[{}]"))
        kind = sections[name]
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)) or not isinstance(table, dict):
            continue
        known = get_type_hints(kind)
        for key in table:
            if key not in known:
                raise LongpoleError(
                    f"{path}: [{name}] has no key {_cut(key)!r}", _nearest(key, known, f"[{name}] {{}}")
                )
        if kind is Chrome and isinstance(rules := table.get("events"), list):
            keys = dict.fromkeys(("is", "cat", "name", "pid", "tid"))
            for key in (key for rule in rules if isinstance(rule, dict) for key in rule if key not in keys):
                raise LongpoleError(
                    f"{path}: a rule of [chrome] events has no {_cut(key)!r}", _nearest(key, keys, "{}")
                )


def _nearest(word: str, known: dict[str, Any], form: str) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {form.format(close[0])}?"
    return f"It knows: {', '.join(form.format(k) for k in known)}."


@functools.cache
def _patterns_engine() -> duckdb.DuckDBPyConnection:
    """Return the one connection that patterns are tried on: they run in DuckDB, so DuckDB says whether they parse."""
    return duckdb.connect()


def _check_pattern(path: str, key: str, pattern: str, *, has_number: bool = False) -> None:
    cure = "Write an RE2 pattern."
    if has_number:
        cure = "Write an RE2 pattern whose first group is the step's number, as in '^Step (\\d+)$'."
    elif not pattern:
        raise LongpoleError(f"{path}: {_cut(key)} = '' matches every name", cure)
    groups = ", ['number']" if has_number else ""
    with _patterns_engine().cursor() as con:
        try:
            # Named groups are the one way in SQL to ask a pattern how many it has.
            con.execute(f"SELECT regexp_extract('x', $1{groups})", [pattern]).fetchall()
        except duckdb.Error as error:
            what = "is no regular expression"
            if "capturing group" in str(error):
                what = "has no group for the step's number"
            raise LongpoleError(f"{path}: {_cut(key)} = {_cut(pattern)!r} {what}", cure) from error
