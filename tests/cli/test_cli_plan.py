"""`longpole plan` as a person uses it: each answer as it is typed and printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from longpole import cli
from longpole.cli.plan import plan

QUESTIONS = sorted(name for name in plan if not name.startswith("-"))

DURATION = "duration --params 7B --tokens 100B --devices 64 --peak-flops 300T --mfu 40%"
BUCKETS = "buckets --bytes 16GB --backward 400ms --ranks 64 --link 400Gbit/s --overhead 50us"


def but(option: str, value: str) -> str:
    """Return the question on duration with one option's value changed."""
    words = DURATION.split()
    words[words.index(option) + 1] = value
    return " ".join(words)


EXAMPLES = {
    "allreduce": "allreduce --bytes 141GB --ranks 8 --link nvlink=450GB/s --link 400Gbit/s",
    "bubble": "bubble --stages 16 --microbatches 16",
    "buckets": BUCKETS,
    "clocks": "clocks --model llama-3-70b --layer --tokens 8192 --device h100-sxm --ranks 8",
    "decode": "decode --model llama-3-70b --device h100-sxm --batch 32 --context 8192",
    "duration": DURATION,
    "matmul": "matmul --shape 8192x8192x28672 --device h100-sxm",
    "memory": "memory --model llama-3-70b --device h100-sxm",
    "tokens": "tokens --dp 4 --sequences 2 --accumulation 8 --seq-len 2048",
}


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cli.main(["plan", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def ask(capsys: pytest.CaptureFixture[str], line: str) -> dict[str, Any]:
    code, out, err = call(capsys, *line.split(), "--format", "json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def rows(capsys: pytest.CaptureFixture[str], line: str) -> dict[str, str]:
    """Return the values of the table by their names."""
    code, out, err = call(capsys, *line.split())
    assert (code, err) == (0, "")
    cells = [re.split(r"\s{2,}", text.strip()) for text in out.splitlines()]
    return {c[0]: c[1] for c in cells if len(c) > 1}


def test_every_question_has_an_example_here() -> None:
    assert sorted(EXAMPLES) == QUESTIONS


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_help_with_an_example(capsys: pytest.CaptureFixture[str], question: str) -> None:
    code, out, _ = call(capsys, question, "--help")

    assert code == 0
    assert f"Example: longpole plan {question} --" in " ".join(out.split())


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("tokens --dp 4 --sequences 2 --accumulation 8 --seq-len 2048", {"an update": "131,072 tokens"}),
        (
            DURATION,
            {
                "model work": "4.2e21 FLOP",
                "training": "6.33 days (546,875 s)",
                "at 20 % MFU": "12.66 days",
                "at 40 % MFU": "6.33 days",
                "at 50 % MFU": "5.06 days",
            },
        ),
        (
            "memory --params 3B",
            {
                "weights": "6 GB (6,000,000,000 B)",
                "gradients": "6 GB (6,000,000,000 B)",
                "optimizer moments": "24 GB (24,000,000,000 B)",
                "master weights": "12 GB (12,000,000,000 B)",
                "state in all": "48 GB (48,000,000,000 B)",
            },
        ),
        (
            "memory --params 70.5B --device-memory 80GB --seq-len 8192 --hidden 8192 --heads 64 --layers 80",
            {
                "state in all": "1.128 TB (1,128,000,000,000 B)",
                "least devices": "16",
                "activations, a layer": "2.282 GB (2,281,701,376 B)",
                "activations in all": "182.5 GB (182,536,110,080 B)",
                "more without flash": "21.47 GB (21,474,836,480 B)",
            },
        ),
        (
            "memory --model llama-3-70b --batch 32 --seq-len 8192",
            {
                "key-value cache, a token": "320.0 KiB",
                "of one sequence": "2.684 GB (2,684,354,560 B)",
                "of all sequences": "85.9 GB (85,899,345,920 B)",
            },
        ),
        (
            "allreduce --bytes 141GB --ranks 8 --link nvlink=450GB/s --link 400Gbit/s --link 800Gbit/s",
            {
                "a rank sends, ring of 8": "246.8 GB (246,750,000,000 B)",
                "in the limit of many ranks": "282 GB (282,000,000,000 B)",
                "nvlink": "548.3 ms; limit 626.7 ms",
                "400Gbit/s": "4.93 s; limit 5.64 s",
                "800Gbit/s": "2.47 s; limit 2.82 s",
            },
        ),
        ("bubble --stages 16 --microbatches 16", {"bubble, of the step": "48.4%"}),
        (
            "matmul --shape 8192x8192x28672 --device h100-sxm",
            {"compute": "3.89 ms", "memory": "320.5 µs", "intensity": "3,584 FLOP/B", "ridge": "295.2 FLOP/B"},
        ),
        (
            "clocks --params 856e6 --tokens 8192 --launches 90 --peak-flops 989T --hbm 3.35TB/s",
            {"compute": "42.54 ms", "launches": "540.0 µs"},
        ),
        (
            "clocks --params 856e6 --tokens 128 --launches 90 --device h100-sxm",
            {"compute": "664.7 µs", "memory": "1.53 ms", "launches": "540.0 µs"},
        ),
        ("clocks --params 70.5B --tokens 8192 --device h100-sxm", {"compute": "3.50 s"}),
        ("decode --params 856e6 --device h100-sxm", {"compute": "1.73 µs", "memory": "511.0 µs"}),
        (
            "decode --params 70.5B --device h100-sxm",
            {"memory": "42.09 ms", "compute overtakes the weights": "at 295 sequences"},
        ),
        ("decode --params 70.5B --device h100-sxm --devices 2", {"memory": "21.04 ms"}),
        ("decode --params 70.5B --device b200", {"memory": "17.62 ms", "tokens/s": "57"}),
        ("decode --params 61e6 --launches 30 --device h100-sxm", {"memory": "36.42 µs", "launches": "180.0 µs"}),
        (
            "decode --params 1235814400 --launches 480 --device h100-sxm",
            {"tokens/s": "276 to 347", "tokens/s of memory alone": "1,355"},
        ),
        (
            "buckets --ready 300ms,400ms,500ms,600ms --service 100ms,100ms,100ms,50ms",
            {"last exchange ends": "650.0 ms", "tail": "50.00 ms"},
        ),
        (
            "buckets --ready 400ms,500ms,600ms,600ms --service 100ms,100ms,100ms,50ms",
            {"last exchange ends": "750.0 ms", "tail": "150.0 ms"},
        ),
    ],
)
def test_the_table_has_the_answer(capsys: pytest.CaptureFixture[str], line: str, wanted: dict[str, str]) -> None:
    found = rows(capsys, line)
    assert {what: found.get(what) for what in wanted} == wanted


def test_losses_of_a_run_are_terms_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(
        capsys,
        f"{DURATION} --downtime 1h --evaluation 2min --evaluation-every 2h --checkpoint 30s --checkpoint-every 1h "
        "--restart 200s --failure-every 10000s",
    )

    assert {what: found[what] for what in ("evaluation", "checkpoints", "failures", "downtime", "in all")} == {
        "evaluation": "2.50 hours",  # 75 × 120 s
        "checkpoints": "75.50 min",  # 151 × 30 s
        "failures": "38.92 hours",  # 140,101 s
        "downtime": "60.00 min",
        "in all": "8.15 days",  # 704,106 s
    }


@pytest.mark.parametrize("question", QUESTIONS)
def test_json_has_what_was_given_the_answer_and_the_curve(capsys: pytest.CaptureFixture[str], question: str) -> None:
    found = ask(capsys, EXAMPLES[question])

    assert list(found) == ["question", "given", "answer", "curve"]
    assert found["question"] == question
    assert bool(found["curve"]) == (question != "tokens")


def test_json_is_in_si_units_that_its_keys_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(capsys, DURATION)

    assert found["given"]["peak_flops_per_s"] == 300e12
    assert found["answer"] == {
        "model_flops": 4_200_000_000_000_000_000_000,
        "useful_flops_per_s": 7.68e15,
        "training_s": 546_875.0,
        "evaluation_s": 0.0,
        "checkpoint_s": 0.0,
        "failure_s": 0.0,
        "downtime_s": 0.0,
        "wall_s": 546_875.0,
        "n_evaluations": 0,
        "n_checkpoints": 0,
        "n_failures": 0.0,
        "training_ratio": 1.0,
        "sensitivity": [
            {"mfu_ratio": 0.2, "wall_s": 1_093_750.0},
            {"mfu_ratio": 0.3, "wall_s": pytest.approx(729_166.667)},
            {"mfu_ratio": 0.4, "wall_s": 546_875.0},
            {"mfu_ratio": 0.5, "wall_s": 437_500.0},
            {"mfu_ratio": 0.6, "wall_s": pytest.approx(364_583.333)},
        ],
    }


def test_a_layer_of_a_known_model_has_its_parameters_and_launches(capsys: pytest.CaptureFixture[str]) -> None:
    given = ask(capsys, EXAMPLES["clocks"])["given"]
    assert (given["params"], given["launches"]) == (855_654_400, 90)
    assert given["link_bytes_per_s"] == 450e9


def test_of_a_mixture_of_experts_the_parameters_that_a_token_passes_count(capsys: pytest.CaptureFixture[str]) -> None:
    active = ask(capsys, "duration --model mixtral-8x7b-v0.1 --tokens 1T --devices 64 --device h100-sxm --mfu 0.3")
    state = ask(capsys, "memory --model mixtral-8x7b-v0.1")
    assert (active["given"]["params"], state["given"]["params"]) == (12_879_925_248, 46_702_792_704)


def test_weights_that_do_not_fit_are_said_to_with_how_many_devices_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, one, _ = call(capsys, *["decode", "--params", "70.5B", "--device", "h100-sxm"])
    _, two, _ = call(capsys, *["decode", "--params", "70.5B", "--device", "h100-sxm", "--devices", "2"])
    assert "141 GB do not fit in 1 × 80 GB: it takes --devices 2 or more." in one
    assert "do not fit" not in two


def test_all_experts_have_to_fit_where_one_token_reads_a_few(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, *["decode", "--model", "mixtral-8x7b-v0.1", "--device", "h100-sxm"])
    assert "weights 25.76 GB and cache 0 B" in out
    assert "Of 46,702,792,704 parameters these are the 12,879,925,248 that one token passes through" in out
    assert "93.41 GB do not fit in 1 × 80 GB: it takes --devices 2 or more." in out


def test_the_best_bucket_is_taken_where_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    best, small = ask(capsys, BUCKETS)["answer"], ask(capsys, f"{BUCKETS} --bucket 25MiB")["answer"]
    assert best["best"] == small["best"]
    assert best["queue"]["tail_ns"] == best["best"]["tail_ns"] < small["queue"]["tail_ns"]
    assert len(small["queue"]["buckets"]) == 611  # 16e9 / 26,214,400, rounded up


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (but("--devices", "0"), 1, "devices cannot be 0"),
        (but("--devices", "-5"), 1, "devices cannot be -5"),
        (but("--mfu", "1.52"), 1, "an MFU of 1.52 cannot be"),
        (but("--mfu", "563%"), 1, "wrong peak"),
        (but("--mfu", "much"), 2, "'much' is no number"),
        (but("--devices", "6.5"), 2, "'6.5' is no whole number"),
        (but("--tokens", "1e99"), 2, "is beyond 10^24"),
        (f"{DURATION} --downtime soon", 2, "'soon' is no duration"),
        (f"{DURATION} --checkpoint 30s", 1, "Give --checkpoint-every too."),
        ("duration --tokens 1B --devices 8 --mfu 0.4 --params 7B --device h101", 1, "device 'h101' is not known"),
        ("duration --tokens 1B --devices 8 --mfu 0.4 --params 7B --device v100-sxm2-16gb", 1, "Known are fp16, fp32"),
        ("duration --tokens 1B --devices 8 --mfu 0.4 --params 7B", 2, "--device h100-sxm, or --peak-flops"),
        ("duration --tokens 1B --devices 8 --mfu 0.4 --peak-flops 1T", 2, "Give --params 7B or --model"),
        ("memory --model llama-9", 1, "model 'llama-9' is not known"),
        ("memory --params 0", 1, "params cannot be 0"),
        ("memory --params 3B --device-memory 0GB", 1, "device memory cannot be 0"),
        ("allreduce --bytes 1GB --link 400Gb/s", 2, "'400Gb/s' is no bandwidth"),
        ("allreduce --bytes 1GB --link a=1GB/s --link a=2GB/s", 2, "--link a is there twice"),
        ("allreduce --bytes 1GB --link 1G --link 2G --link 3G --link 4G --link 5G", 1, "5 links are too many"),
        ("allreduce --ranks 8", 2, "--bytes 141GB"),
        ("matmul --shape 8x8 --device h100-sxm", 2, "'8x8' is no product"),
        ("matmul --shape 8x8x8 --peak-flops 1T", 2, "or --hbm 3.35TB/s"),
        ("clocks --tokens 1 --layer --params 1B --device h100-sxm", 2, "--layer is of a model that is not named"),
        ("decode --params 7B --device h100-sxm --context 10", 2, "Give --model."),
        ("buckets --ready 1ms", 2, "Give --ready and --service"),
        ("buckets --ready 1ms,2ms --service 1ms", 1, "2 buckets are ready and 1 have a service time"),
        (f"{BUCKETS} --bucket 1B", 1, "Give a size that makes 10,000 or less."),
        ("bubble --stages 16", 2, "--microbatches"),
        ("moon", 2, 'Unknown command "moon"'),
    ],
)
def test_what_cannot_be_is_refused_with_the_cure(
    capsys: pytest.CaptureFixture[str], line: str, code: int, says: str
) -> None:
    found, out, err = call(capsys, *line.split())

    assert (found, out) == (code, "")
    assert err.startswith("longpole: ")
    assert says in err
    assert "\n\n" in err


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_page_is_written_beside_the_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path, question: str) -> None:
    path = tmp_path / "page.html"

    code, out, err = call(capsys, *EXAMPLES[question].split(), "-o", str(path))

    assert code == 0
    assert out
    assert err == f"wrote {path}\n"
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_a_page_does_not_overwrite_what_is_no_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "notes.html"
    path.write_text("mine")

    code, _, err = call(capsys, *DURATION.split(), "-o", str(path))

    assert (code, path.read_text()) == (1, "mine")
    assert "--force" in err


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PLANNING = README.partition("\n## Planning\n")[2].partition("\n## ")[0]


def test_the_example_of_the_readme_prints_what_stands_there(capsys: pytest.CaptureFixture[str]) -> None:
    command, _, shown = PLANNING.partition("```console\n$ longpole plan ")[2].partition("\n```")[0].partition("\n")

    _, out, _ = call(capsys, *command.split())

    assert out == f"{shown}\n"


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_readme_names_every_key_of_an_answer(capsys: pytest.CaptureFixture[str], question: str) -> None:
    assert f"`{question}`" in PLANNING
    assert [key for key in ask(capsys, EXAMPLES[question])["answer"] if f"`{key}`" not in PLANNING] == []
