"""run.toml: every key that is promised is taken, and whatever else stands there is refused with a cure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longpole import catalog
from longpole.config import Gates, RunConfig, load, parse
from longpole.errors import LongpoleError

EVERY_KEY = r"""
[model]
name = "llama-3-8b"
params = 8030261248
active_params = 8030261248
embedding_params = 525336576
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
head_dim = 128
d_qk = 128
d_v = 128
ffn = 14336
vocab = 128256
seq_len = 8192
tied = false
experts = 64
experts_per_token = 6

[batch]
tokens_per_step = 131072
sequences_per_microbatch = 2
accumulation = 8
scored_targets_per_step = 131056

[hardware]
device = "NVIDIA H100 80GB HBM3"
peak_flops = 989e12
dtype = "bfloat16"
hbm_bytes_per_s = 3.35e12
link_bytes_per_s = 450_000_000_000
nodes = 1

[parallel]
dp = 4
tp = 2
pp = 1
ep = 1
cp = 1
microbatches = 8
virtual_stages = 1

[steps]
marker = '^Step (\d+)$'
per_update = 8

[topology]
file = "hosts.csv"

[telemetry]
utc_offset = "-05:30"

[run]
job = "nightly"
workload = "8b-pretrain"

[comm]
kernels = ['^my_all_reduce', 'sharp']

[phases]
forward = '^forward'
optimizer = 'Optimizer\.step'

[chrome]
unit = "ns"
rank = "otherData.rank"
events = [{is = "kernel", cat = '^gpu$', name = 'k', pid = '^0$', tid = '^7$'}]
columns = {stream = "tid", comm_group = ["args.group", "args.pg"]}

[gates]
step_time_ns = 750e6
mfu_ratio = 0.3
exposed_comm_ratio = 1
straggler_ratio = 0.1
coverage_ratio = 0.9
goodput_ratio = 0.95
memory_ratio = 0.9
step_time_worse_ratio = 0.05
mfu_worse_ratio = 0.02
exposed_comm_worse_ratio = 0.02
straggler_worse_ratio = 0.02
coverage_worse_ratio = 0
goodput_worse_ratio = 0.05
memory_worse_ratio = 0.05
"""


def refused(text: str) -> LongpoleError:
    with pytest.raises(LongpoleError) as caught:
        parse(text, "run.toml")
    assert caught.value.fact.startswith("run.toml")
    assert caught.value.cure
    return caught.value


def test_every_promised_key_is_taken() -> None:
    config = parse(EVERY_KEY, "run.toml")
    assert config.model.params == 8030261248
    assert (config.model.experts, config.model.experts_per_token) == (64, 6)
    assert config.batch.accumulation == 8
    assert config.hardware.peak_flops == 989e12
    assert config.hardware.link_bytes_per_s == 450e9
    assert config.parallel.virtual_stages == 1
    assert config.steps.marker == r"^Step (\d+)$"
    assert config.topology.file == "hosts.csv"
    assert config.telemetry.utc_offset == "-05:30"
    assert config.run.workload == "8b-pretrain"
    assert config.comm.kernels == ["^my_all_reduce", "sharp"]
    assert config.phases["forward"] == "^forward"
    assert (config.chrome.unit, config.chrome.rank) == ("ns", "otherData.rank")
    assert config.chrome.events[0].patterns() == (("cat", "^gpu$"), ("name", "k"), ("pid", "^0$"), ("tid", "^7$"))
    assert config.chrome.columns == {"stream": "tid", "comm_group": ["args.group", "args.pg"]}
    assert (config.gates.step_time_ns, config.gates.exposed_comm_ratio) == (750e6, 1.0)
    assert len(config.thresholds()) == 14


def test_every_key_there_is_stands_in_the_example() -> None:
    config = parse(EVERY_KEY, "run.toml")
    tables = {name: getattr(config, name) for name in config.__struct_fields__}
    missing = [
        f"[{name}] {key}"
        for name, table in tables.items()
        for key in getattr(table, "__struct_fields__", ())
        if getattr(table, key) in (None, [])
    ]
    assert missing == []


def test_every_key_is_optional() -> None:
    assert parse("", "run.toml") == RunConfig()
    assert parse("# nothing yet\n[model]\n[gates]\n", "run.toml") == RunConfig()
    assert RunConfig().steps.marker == r"^ProfilerStep#(\d+)$"


def test_no_path_is_no_config() -> None:
    assert load(None) == (RunConfig(), "")


def test_the_text_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("# of the team\n[run]\njob = 'x'\n", encoding="utf-8")
    config, text = load(str(path))
    assert config.run.job == "x"
    assert text == "# of the team\n[run]\njob = 'x'\n"


@pytest.mark.parametrize(
    ("text", "fact", "cure"),
    [
        ("[modle]\n", "there is no [modle]", "Did you mean [model]?"),
        ("gate = 1\n", "there is no [gate]", "Did you mean [gates]?"),
        ("[model]\nprams = 1\n", "[model] has no key 'prams'", "Did you mean [model] params?"),
        ("[steps]\nperupdate = 1\n", "[steps] has no key 'perupdate'", "Did you mean [steps] per_update?"),
        ("[hardware]\npeak = 1\n", "[hardware] has no key 'peak'", "Did you mean [hardware] peak_flops?"),
        ("[topology]\nzzz = 1\n", "[topology] has no key 'zzz'", "It knows: [topology] file."),
    ],
)
def test_an_unknown_key_names_the_nearest_one(text: str, fact: str, cure: str) -> None:
    error = refused(text)
    assert error.fact == f"run.toml: {fact}"
    assert error.cure == cure


def test_a_number_of_more_digits_than_are_read_is_an_error() -> None:
    with pytest.raises(LongpoleError, match=r"^run\.toml is not TOML: Exceeds the limit"):
        parse("[model]\nparams = " + "9" * 5_000, "run.toml")


@pytest.mark.parametrize(
    "text",
    [
        "k" * 100_000 + " = 1",
        "[model]\n" + "k" * 100_000 + " = 1",
        "[phases]\n" + "k" * 100_000 + " = '('",
        "[steps]\nmarker = '(" + "k" * 100_000 + "'",
        "[hardware]\ndtype = '" + "k" * 100_000 + "'",
    ],
)
def test_an_error_shows_the_beginning_of_what_is_long(text: str) -> None:
    with pytest.raises(LongpoleError, match="kkk") as error:
        parse(text, "run.toml")
    assert len(str(error.value)) < 600


def test_an_unknown_section_like_no_other_names_them_all() -> None:
    assert refused("[zzz]\n").cure == (
        "It knows: [model], [batch], [hardware], [parallel], [steps], [topology], [telemetry], [run], [comm],"
        " [phases], [chrome], [gates]."
    )


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ('[model]\nparams = "8B"', "[model] params: Expected `int`, got `str`"),
        ("[model]\nparams = 8.0", "[model] params: Expected `int`, got `float`"),
        ("[model]\nparams = true", "[model] params: Expected `int`, got `bool`"),
        ("[model]\nlayers = 0", "[model] layers: Expected `int` >= 1"),
        ("[parallel]\ndp = -4", "[parallel] dp: Expected `int` >= 1"),
        ("[model]\nparams = 9223372036854775808", "[model] params: Expected `int` <= 9223372036854775807"),
        ("[hardware]\npeak_flops = 0.0", "[hardware] peak_flops: Expected `float` > 0.0"),
        ("[hardware]\npeak_flops = nan", "[hardware] peak_flops: Expected `float` > 0.0"),
        ("[hardware]\npeak_flops = inf", "[hardware] peak_flops must be finite"),
        ("[steps]\nper_update = 2026-01-02", "[steps] per_update: Expected `int`"),
        ("[comm]\nkernels = 'x'", "[comm] kernels: Expected `array`, got `str`"),
        ("[comm]\nkernels = [1]", "[comm] kernels: Expected `str`, got `int`"),
        ("[phases]\nforward = 1", "[phases]: Expected `str`, got `int`"),
        ("[gates]\nmfu_ratio = '1'", "[gates] mfu_ratio: Expected `float`, got `str`"),
        ("[gates]\nmfu_ratio = true", "[gates] mfu_ratio: Expected `float`, got `bool`"),
        ("[gates]\nmfu_ratio = nan", "[gates] mfu_ratio = nan is no threshold"),
        ("[gates.mfu_ratio]\ntime = 1", "[gates] mfu_ratio: Expected `float`, got `object`"),
        ("model = 3", "[model]: Expected `object`, got `int`"),
        ("[[model]]\nparams = 1", "[model]: Expected `object`, got `array`"),
    ],
)
def test_a_wrong_type_is_said_with_its_place(text: str, fact: str) -> None:
    assert refused(text).fact.startswith(f"run.toml: {fact}")


@pytest.mark.parametrize(
    "text", ["a", "[model", "[model]\nparams = ", "[run]\njob = 'x", "a = 1\na = 2", "x = " + "[" * 5000]
)
def test_what_is_no_toml_is_an_error(text: str) -> None:
    assert refused(text).fact.startswith("run.toml is not TOML: ")


@pytest.mark.parametrize("marker", ["", "Step", r"Step \d+", r"Step (?:\d+)", r"Step \(\d+\)"])
def test_a_marker_without_a_group_is_refused(marker: str) -> None:
    error = refused(f"[steps]\nmarker = '{marker}'")
    assert error.fact == f"run.toml: [steps] marker = {marker!r} has no group for the step's number"
    assert r"'^Step (\d+)$'" in error.cure


@pytest.mark.parametrize("marker", [r"(\d+)", r"(?:it|step)[ _](\d+)$", r"((\d+))", r"(?P<n>\d+)", "#(.*)#"])
def test_a_marker_with_a_group_is_taken(marker: str) -> None:
    assert parse(f"[steps]\nmarker = '{marker}'", "run.toml").steps.marker == marker


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"(?=x)", r"(x)\1"])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[steps]\nmarker = '{}'", "[steps] marker"),
        ("[comm]\nkernels = ['ok', '{}']", "[comm] kernels"),
        ("[phases]\nforward = '{}'", "[phases] forward"),
    ],
)
def test_a_pattern_that_does_not_parse_is_refused(text: str, place: str, pattern: str) -> None:
    error = refused(text.format(pattern))
    assert error.fact == f"run.toml: {place} = {pattern!r} is no regular expression"
    assert error.cure.startswith("Write an RE2 pattern")


@pytest.mark.parametrize("text", ["[comm]\nkernels = ['']", "[phases]\nforward = ''"])
def test_a_pattern_that_matches_every_name_is_refused(text: str) -> None:
    assert "matches every name" in refused(text).fact


def test_a_file_that_cannot_be_read_is_an_error_with_a_cure(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe[\x00")
    for path, reason in (
        (tmp_path / "no-such.toml", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (binary, "not UTF-8 text"),
    ):
        with pytest.raises(LongpoleError, match=re.escape(f"{path} cannot be read: {reason}")) as caught:
            load(str(path))
        assert "--config" in caught.value.cure


def test_only_what_links_events_makes_dumps_be_read_again() -> None:
    key = RunConfig().ingest_key()
    assert parse("[model]\nparams = 1\n[gates]\nmfu_ratio = 1\n[phases]\nforward = 'x'", "run.toml").ingest_key() == key
    assert parse(r"[steps]" "\n" r"marker = '(\d+)'", "run.toml").ingest_key() != key
    one = parse("[comm]\nkernels = ['a', 'b']", "run.toml").ingest_key()
    assert one != key
    assert parse("[comm]\nkernels = ['b', 'a']", "run.toml").ingest_key() == one


@pytest.mark.parametrize(
    ("text", "fact", "cure"),
    [
        ("[model]\nparams = 7\nactive_params = 8", "[model] active_params = 8 is more than params = 7", "wrong"),
        ("[model]\nparams = 7\nembedding_params = 8", "[model] embedding_params = 8 is more than params = 7", "wrong"),
        ("[model]\nexperts = 2\nexperts_per_token = 4", "experts_per_token = 4 is more than experts = 2", "wrong"),
        ("[model]\nheads = 8\nkv_heads = 32", "[model] kv_heads = 32 is more than heads = 8", "wrong"),
        (
            "[batch]\ntokens_per_step = 6\nscored_targets_per_step = 8",
            "scored_targets_per_step = 8 is more than tokens_per_step = 6",
            "wrong",
        ),
        ("[telemetry]\nutc_offset = 'CEST'", "[telemetry] utc_offset = 'CEST' is no time zone", "as in"),
        ("[parallel]\ndp = 1048576\npp = 2", "[parallel] makes more than 1,048,576 ranks", "No job has so many."),
        ("[parallel]\nep = 1048577", "[parallel] makes more than 1,048,576 ranks", "No job has so many."),
        ("[hardware]\ndtype = 'bf61'", "[hardware] dtype = 'bf61' is no element type", "Did you mean bf16?"),
        ("[hardware]\npeak_flops = 989", "[hardware] peak_flops = 989 is no device's", "FLOP/s, as in 989e12"),
    ],
)
def test_sizes_that_no_model_or_device_has_are_refused(text: str, fact: str, cure: str) -> None:
    error = refused(text)
    assert fact in error.fact
    assert cure in error.cure


def test_a_gate_that_does_not_exist_is_an_error_that_names_the_nearest() -> None:
    error = refused("[gates]\nstep_time_wors_ratio = 0.05")
    assert error.fact == "run.toml: [gates] has no key 'step_time_wors_ratio'"
    assert error.cure == "Did you mean [gates] step_time_worse_ratio?"


def test_every_gate_has_its_rule_and_every_rule_its_gate() -> None:
    kinds = {row["measure"] for row in catalog.data("measure_kinds")}
    rules = catalog.data("gate_rules")
    assert [row["gate"] for row in rules] == list(Gates.__struct_fields__)
    assert {row["measure"] for row in rules} == kinds


@pytest.mark.parametrize(
    ("text", "is_told"),
    [("", (False, False)), ("[run]\njob = 'a'", (True, False)), ("[batch]\naccumulation = 2", (True, True))],
)
def test_what_a_run_may_be_compared_with_is_told_or_follows_from_its_sizes(
    text: str, is_told: tuple[bool, bool]
) -> None:
    job, workload = parse(text, "run.toml").comparable()
    assert (job is not None, workload is not None) == is_told
    other = parse(text + "\n[gates]\nmfu_ratio = 0.3", "run.toml").comparable()
    assert other == (job, workload)


def test_figures_are_the_keys_of_mfu_with_the_element_type_as_devices_name_it() -> None:
    figures = {name: (kind, value) for name, kind, value in parse(EVERY_KEY, "run.toml").figures()}
    assert figures["hardware_dtype"] == ("VARCHAR", "bf16")
    assert figures["hardware_peak_flops"] == ("DOUBLE", 989e12)
    assert figures["model_tied"] == ("BOOLEAN", False)
    assert figures["steps_per_update"] == ("BIGINT", 8)
    assert not {"steps_marker", "run_job"} & figures.keys()


@pytest.mark.parametrize(
    ("text", "fact", "cure"),
    [
        ('unit = "sec"', "run.toml: [chrome] unit = 'sec' is none", "Did you mean s?"),
        ('event = []', "run.toml: [chrome] has no key 'event'", "Did you mean [chrome] events?"),
        (
            'events = [{is = "kernel", category = "x"}]',
            "run.toml: a rule of [chrome] events has no 'category'",
            "Did you mean cat?",
        ),
        (
            'events = [{is = "kernels", cat = "x"}]',
            "run.toml: [chrome] events, rule 1: is = 'kernels'",
            "Did you mean kernel?",
        ),
        (
            'events = [{is = "kernel"}]',
            "run.toml: [chrome] events, rule 1 fits every event",
            "Give it a pattern for cat, name, pid or tid.",
        ),
        (
            "events = [{is = 'kernel', name = '(?=x)'}]",
            "run.toml: [chrome] events, rule 1: name = '(?=x)' is no regular expression",
            "Write an RE2 pattern.",
        ),
        (
            "events = [{is = 'kernel', name = '((a{100}){100}){100}'}]",
            "run.toml: [chrome] events, rule 1: name = '((a{100}){100}){100}' is no regular expression",
            "Write an RE2 pattern.",
        ),
        (
            "columns = {streams = 'args.s'}",
            "run.toml: [chrome.columns] has no 'streams'",
            "Did you mean stream?",
        ),
        (
            "columns = {n_bytes = 'tid'}",
            "run.toml: [chrome.columns] n_bytes = 'tid' is no place in an event",
            'Write "args.KEY"; device, stream and context may also be "pid" or "tid".',
        ),
        (
            "columns = {device = 'args.a', stream = 'args.a'}",
            "run.toml: [chrome.columns] stream = 'args.a', which is device already",
            "A key of args is one column.",
        ),
        (
            "columns = {input_types = ['args.a', 'args.b']}",
            "run.toml: [chrome.columns] input_types is one key",
            'Write "args.KEY".',
        ),
        (
            "columns = {input_shapes = 'args.a'}",
            "run.toml: [chrome.columns] has input_shapes alone",
            "Give input_types and input_values with them.",
        ),
    ],
)  # fmt: skip
def test_a_mapping_that_cannot_be_is_refused_with_its_place(text: str, fact: str, cure: str) -> None:
    error = refused(f"[chrome]\n{text}\n")

    assert (error.fact, error.cure) == (fact, cure)


def test_too_many_rules_are_refused() -> None:
    rule = '{is = "kernel", cat = "x"}'

    error = refused(f"[chrome]\nevents = [{', '.join([rule] * 65)}]\n")

    assert error.fact == "run.toml: [chrome] events has more than 64 rules"
