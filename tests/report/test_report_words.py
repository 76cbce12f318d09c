"""Numbers and sentences as a reader sees them."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace

import pytest

from longpole.report import words
from longpole.report.charts import EXPOSED_COMM, IDLE
from longpole.report.overview import build
from report import scenes


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "n/a"),
        (0, "0 ns"),
        (812, "812 ns"),
        (83_250, "83.2 µs"),
        (1_500, "1.50 µs"),
        (412_345_678, "412.3 ms"),
        (1_940_000_000, "1.94 s"),
        (125_400_000_000, "2 min 5 s"),
    ],
)
def test_a_time_span_has_the_unit_that_fits(ns: int | None, text: str) -> None:
    assert words.duration(ns) == text


def test_a_table_shows_milliseconds_to_the_microsecond() -> None:
    assert (words.milliseconds(1_234_567_890), words.milliseconds(None)) == ("1,234.568", "n/a")


def test_a_share_that_is_not_zero_never_prints_as_zero() -> None:
    assert [words.percent(x) for x in (None, 0.0, 0.0001, 0.1234, 1.0)] == [
        "n/a",
        "0.0 %",
        "< 0.1 %",
        "12.3 %",
        "100.0 %",
    ]


def test_a_clock_that_does_not_count_from_1970_has_no_date() -> None:
    assert words.instant(123_456_789) == "n/a"
    assert words.instant(1_700_000_000_000_000_000) == "2023-11-14 22:13:20 UTC"


def test_text_from_a_dump_shows_what_cannot_be_seen_and_is_bounded() -> None:
    assert words.visible("a\u202eb\x1b[31m\n") == "a\\u202eb\\x1b[31m\\n"
    assert words.visible("x" * 2001) == "x" * 2000 + "… (2,001 characters)"
    assert words.visible(None) == "n/a"


def test_a_long_kernel_name_keeps_its_two_ends() -> None:
    assert words.cut_middle("gemm") == "gemm"
    assert words.cut_middle("void at::native::kernel<float, 4>(" + "int, " * 20 + "int)") == (
        "at::native::kernel<float, 4>(…)"
    )
    assert words.cut_middle("a" * 50 + "b" * 50) == "a" * 29 + "…" + "b" * 30


@pytest.mark.parametrize("name", ["run 1", "it's", "$(touch x)", "`id`", "a\nb", "x\x1b[31m\\'y", "\u202eabc", "-o"])
def test_a_shell_reads_the_query_line_as_it_was_meant(name: str) -> None:
    line = words.query_line('SELECT "a" FROM t', name)
    assert line.isprintable()
    script = f"longpole() {{ printf '%s\\0' \"$@\"; }}; {line}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert b"\0".join(done.stdout.split(b"\0")[2:-1]) in (b"--run\0" + name.encode(), b"--run=" + name.encode())


def test_an_ordinary_name_needs_no_quotes() -> None:
    assert shlex.split(words.query_line("SELECT 1", "run-1")) == ["longpole", "query", "SELECT 1", "--run", "run-1"]


def test_the_summary_says_how_long_where_the_time_went_and_what_idle_waited_for() -> None:
    assert words.summary(build(scenes.tiny(), "tiny").run) == (
        "The median step takes 110.0 ms (between 101.0 ms and 200.0 ms, 3 steps); the slowest, step 12, took 200.0 ms. "
        "Of the ranks' time 48.8 % is compute, 24.4 % exposed communication, 3.7 % exposed copies and 23.2 % idle, "
        "mostly waiting for input (15.9 %)."
    )


def test_percentiles_are_named_only_where_there_are_enough_steps() -> None:
    run = replace(build(scenes.tiny(), "tiny").run, n_timed_steps=20)
    assert "(p5–p95 101.0 ms to 200.0 ms, 20 steps)" in words.summary(run)


def test_a_run_without_steps_or_windows_says_so() -> None:
    assert words.summary(build(scenes.without_steps(), "tiny").run).startswith(
        "No step was found, so the numbers are over whole captures: 2 captures, median 410.0 ms."
    )
    assert words.summary(build(scenes.nothing(), "tiny").run) == "Nothing was timed in this run: no rank has a window."


def test_every_reason_for_care_is_listed() -> None:
    assert words.caveats(build(scenes.one_rank_of_sixteen(), "tiny").run) == [
        "one dump is truncated",
        "1 of 16 ranks recorded (rank 1)",
        "3 of 3 step times are the mean window of the ranks, because their clocks are not aligned",
        "2 of 3 windows have a verdict other than ok",
        "3 of 36 activities have no launch in the dump",
        "1 of 2 dumps have a verdict other than ok",
        "1 of 2 coverage checks have a verdict other than ok",
    ]


def test_a_run_in_which_all_is_well_has_no_caveat() -> None:
    assert words.caveats(build(scenes.many(2, 3), "many").run) == []


def test_how_steps_were_found_is_a_caveat_unless_all_are_marked() -> None:
    run = build(scenes.many(2, 3), "many").run
    assert words.caveats(replace(run, step_sources="marker")) == []
    assert words.caveats(replace(run, step_sources="inferred, window")) == [
        "steps are inferred from what repeats, for want of a marker and the whole recording stands in for a step, "
        "for want of a marker"
    ]


def test_a_chart_is_told_in_a_sentence() -> None:
    data = build(scenes.tiny(), "tiny")
    assert words.step_finding(data.run, data.step_bins) == (
        "3 steps from 101.0 ms to 200.0 ms, median 110.0 ms; the slowest is step 12."
    )
    assert words.heat_finding(data.extremes, EXPOSED_COMM) == (
        "Exposed comm takes from 17.1 % (rank 0) to 31.7 % (rank 1) of a rank's windows; the longest single window has "
        "110.0 ms, rank 1 in step 12."
    )
    assert words.heat_finding(data.extremes, IDLE).startswith("Idle takes from 11.0 % (rank 1) to 35.4 % (rank 0)")
    assert words.idle_finding(data.run) == (
        "Idle takes 23.2 % of the windows; its largest cause is input, 15.9 % (waiting for input)."
    )


def test_what_steps_waited_for_says_how_much_of_it_is_doubtful() -> None:
    data = build(scenes.tiny(), "tiny")
    path = replace(data.path, n_steps=1, n_ranks=1, kind="host", kind_ratio=0.9, peer_ratio=0.25)
    assert words.path_finding(path, data.run) == (
        "Of 3 steps 1 has a path. Most of all the step waited for the host (host): 90.0 % of the time on the path; "
        "rank 1 has all of it. Unexplained is 6.1 %, host time without an event 2.7 %, 25.0 % in collectives whose "
        "late rank may not be recorded."
    )
    assert words.path_finding(replace(path, n_steps=0), data.run) == "n/a: no step has a critical path"


def test_a_straggler_that_is_not_alone_is_told_with_its_link_or_stage() -> None:
    late = replace(build(scenes.tiny(), "tiny").late, n_place_steps=1, peak_place="stage 3")
    assert words.late_finding(late) == (
        "1 of 3 steps waited for one rank, link or stage beyond the noise; the longest wait of a step is for rank 0 "
        "(stage 3) in step 12: 100.0 ms, 50.0 % of the step."
    )


def test_why_nobody_is_named_is_said_and_nothing_where_somebody_is() -> None:
    named = build(scenes.tiny(), "tiny").late
    late = replace(named, n_stragglers=0, n_straggler_steps=0, peak_doubt="below the noise of a step")
    assert words.nobody_named(named) == ""
    assert [
        words.nobody_named(replace(late, **changed))
        for changed in (
            {"n_steps": 0},
            {"n_step_ranks": 1, "n_known": 0},
            {"n_known": 0},
            {"has_collectives": False, "peak_rank": None},
            {"n_tie_steps": 2, "tie_ranks": "0, 6"},
            {"peak_rank": None},
            {},
        )
    ] == [
        "n/a: no rank has events in a step, so who came late cannot be known.",
        "n/a: one rank is recorded, and who was late shows only beside others.",
        "n/a: the ranks' clocks are not aligned, so who came late cannot be known.",
        "n/a: no collective was found, so no rank waited for another where it would show.",
        "Nobody is named: ranks 0, 6 tie in 2 steps: each is late by more than half of what the latest is.",
        "Nobody is named: no rank came late to a collective.",
        "Nobody is named: no rank was late beyond the noise. The latest, rank 0, is below the noise of a step.",
    ]
    assert words.late_finding(late) == (
        "The longest wait of a step is for rank 0 in step 12: 100.0 ms, 50.0 % of the step."
    )
    assert words.late_finding(replace(late, peak_rank=None)) == ""


def test_gpu_hours_of_a_short_recording_do_not_print_as_zero() -> None:
    assert [words.hours(x) for x in (None, 0.0, 1e-7, 0.0000647, 0.5, 1234.56)] == [
        "n/a",
        "0.000000",
        "< 0.000001",
        "0.000065",
        "0.500",
        "1,234.6",
    ]


def test_a_command_on_a_run_is_one_word_each() -> None:
    assert words.command_line("explain", "a b") == "longpole explain 'a b'"
    assert words.command_line("whatif", "$(x)", "--opportunities") == "longpole whatif '$(x)' --opportunities"
