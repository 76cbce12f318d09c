"""The critical path of a step as data and as text, on made rows whose answers can be worked out in the head."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

from longpole import catalog
from longpole.errors import LongpoleError
from longpole.report import story
from longpole.report.explain import Explanation, build, json_text

US = 1_000
MS = 1_000_000
START = 5 * MS

Row = dict[str, Any]


def _views(**rows: list[Row]) -> duckdb.DuckDBPyConnection:
    """Return a connection with the views that explain reads, these rows of run `r` in them."""
    con = duckdb.connect()
    catalog.load_macros(con)
    known = catalog.relations()
    for name in (
        "steps",
        "step_critical_path",
        "step_path_kinds",
        "path_pieces",
        "collectives",
        "rank_clocks",
        "events",
    ):
        columns = {"run": "VARCHAR", **({"rank": "INTEGER"} if name == "events" else {})}
        columns |= {c.name: c.type for c in known[name].columns}
        listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        con.execute(f"CREATE TABLE {name} ({listed})")
        for row in rows.get(name, []):
            named = {"run": "r", **row}
            places = ", ".join(f"${n + 1}" for n in range(len(named)))
            con.execute(f"INSERT INTO {name} ({', '.join(named)}) VALUES ({places})", list(named.values()))
    return con


def _step(number: int, duration: int | None, **more: Any) -> Row:
    start = None if duration is None else START
    return {
        "step": number, "start_ns": start, "end_ns": None if duration is None else START + duration,
        "duration_ns": duration, "end_rank": 0, "n_ranks": 1, "verdict": "ok", **more,
    }  # fmt: skip


def _path(*segments: tuple[int, str, str, str, int], step: int = 7) -> dict[str, list[Row]]:
    """Return the path of (rank, lane, kind, name, µs) one after the other, and its kinds."""
    found: list[Row] = []
    kinds: dict[tuple[str, int], list[int]] = {}
    at = START
    for seq, (rank, lane, kind, name, us) in enumerate(segments):
        verdict = "peer not recorded" if kind == "comm" and "alone" in name else "ok"
        found.append(
            {
                "step": step, "seq": seq, "rank": rank, "lane": lane, "kind": kind, "name": name, "start_ns": at,
                "end_ns": at + us * US, "duration_ns": us * US, "verdict": verdict,
            }
        )  # fmt: skip
        kinds.setdefault((kind, rank), []).append(us * US)
        at += us * US
    return {
        "step_critical_path": found,
        "step_path_kinds": [
            {"step": step, "kind": kind, "rank": rank, "duration_ns": sum(all_ns), "n_segments": len(all_ns)}
            for (kind, rank), all_ns in kinds.items()
        ],
    }


HOST = (0, "thread 1", "host")
GPU = (0, "stream 7", "compute")


def _explained(*segments: tuple[int, str, str, str, int], events: list[Row] | None = None, **step: Any) -> Explanation:
    total = sum(us for *_, us in segments) * US
    con = _views(
        steps=[_step(7, total, **step)],
        rank_clocks=[{"rank": rank, "offset_ns": 0, "drift_ppb": 0.0} for rank in (0, 1)],
        events=events or [],
        **_path(*segments),
    )
    return build(con, "r", 7)


def _told(explanation: Explanation) -> list[tuple[int, int, bool, int, str]]:
    """Return of each stretch: start and length in µs, whether it is a fold, segments, name."""
    return [(s.offset_ns // US, s.duration_ns // US, s.is_folded, s.n_segments, s.name) for s in explanation.stretches]


def test_neighbours_alike_are_one_stretch_and_short_ones_between_larger_are_folded() -> None:
    explanation = _explained(
        (*GPU, "gemm", 200), (*GPU, "gemm", 300), (0, "stream 7", "turnaround", "add", 2), (*GPU, "add", 5),
        (0, "stream 9", "comm", "reduce", 100), (*GPU, "adam", 393),
    )  # fmt: skip

    assert _told(explanation) == [
        (0, 500, False, 2, "gemm"),
        (500, 7, True, 2, "add"),
        (507, 100, False, 1, "reduce"),
        (607, 393, False, 1, "adam"),
    ]
    fold = explanation.stretches[1]
    assert (fold.kind, fold.kind_ns, fold.name_ns, fold.share_ratio) == ("compute", 5 * US, 7 * US, 0.007)
    assert sum(s.duration_ns for s in explanation.stretches) == explanation.head.duration_ns


def test_many_short_segments_on_one_lane_are_one_stretch_named_by_the_range_around_them() -> None:
    many = [(*HOST, f"op{n % 3}", 4) for n in range(100)]
    around = [
        {
            "rank": 0,
            "category": "annotation",
            "name": "forward",
            "start_ns": START,
            "duration_ns": 240 * US,
            "thread": 1,
        },
        {"rank": 0, "category": "annotation", "name": "all", "start_ns": START, "duration_ns": 999 * US, "thread": 1},
        {"rank": 0, "category": "annotation", "name": "other", "start_ns": START, "duration_ns": 99 * US, "thread": 2},
        {"rank": 0, "category": "step", "name": "step 7", "start_ns": START, "duration_ns": 300 * US, "thread": 1},
        {"rank": 0, "category": "annotation", "name": "step 7", "start_ns": START, "duration_ns": 9 * MS, "thread": 1},
        {"rank": 0, "category": "cpu_op", "name": "tiny", "start_ns": START, "duration_ns": 49 * US, "thread": 1},
    ]
    explanation = _explained(*many, (*GPU, "gemm", 600), events=around)

    assert _told(explanation) == [
        (0, 240, False, 60, "op2"),
        (240, 160, False, 40, "op0"),
        (400, 600, False, 1, "gemm"),
    ]
    assert [s.part_of for s in explanation.stretches] == ["forward", "all", None]


def test_no_more_lines_than_fit_and_the_largest_are_kept() -> None:
    # Each large one has a short one behind it, so four take nine lines and five would take eleven.
    segments = [row for n in range(11) for row in ((*GPU, f"k{n}", 80 + n), (*HOST, f"h{n}", 1))]
    explanation = _explained(*segments)

    assert len(explanation.stretches) == 9
    assert [s.name for s in explanation.stretches if not s.is_folded] == ["k7", "k8", "k9", "k10"]
    assert sum(s.duration_ns for s in explanation.stretches) == explanation.head.duration_ns
    assert sum(s.n_segments for s in explanation.stretches) == 22


def test_a_step_of_nothing_but_short_segments_of_many_lanes_is_one_fold() -> None:
    explanation = _explained(*[(n % 2, f"thread {n}", "host", f"op{n}", 1) for n in range(200)])

    (stretch,) = explanation.stretches
    assert (stretch.is_folded, stretch.n_segments, stretch.n_ranks, stretch.share_ratio) == (True, 200, 2, 1.0)


def test_without_stretches_no_rank_s_events_are_read_and_the_sentences_are_told() -> None:
    con = _views(steps=[_step(7, 1000 * US)], **_path((*HOST, "load", 600), (*GPU, "gemm", 400)))
    con.execute("DROP TABLE events")

    explanation = build(con, "r", 7, has_stretches=False)

    assert explanation.stretches == ()
    assert story.sentences(explanation) == [
        "Its critical path is host 60.0 % and compute 40.0 %, all on rank 0.",
        "By name most is load 60.0 % and gemm 40.0 %.",
    ]


def _two_ranks(**step: Any) -> Explanation:
    con = _views(
        steps=[_step(7, 1000 * US, n_ranks=2, end_margin_ns=4 * US, **step)],
        rank_clocks=[
            {"rank": rank, "offset_ns": 0, "drift_ppb": 0.0, "residual_ns": ns} for rank, ns in ((0, 2_000), (1, 1_000))
        ],
        path_pieces=[
            {"step": 7, "piece_no": no, "rank": rank, "is_comm": is_comm, "activity_no": activity,
             "start_ns": START + start * US, "end_ns": START + end * US}
            for no, rank, is_comm, activity, start, end in (
                (0, 0, False, None, 900, 1000), (1, 0, True, 30, 895, 900), (2, 1, False, 25, 0, 895),
            )
        ],
        collectives=[
            {"step": 7, "rank": rank, "activity_no": no, "group_id": "3", "seq": 12, "op": "all_reduce",
             "n_bytes": 4096, "wait_ns": wait}
            for rank, no, wait in ((0, 30, 600 * US), (1, 25, 0), (0, 29, 7))
        ],
        **_path((1, "thread 1", "host", "(no event)", 895), (0, "stream 9", "comm", "reduce", 5),
                (0, "stream 7", "compute", "adam", 100)),
    )  # fmt: skip
    return build(con, "r", None)


def test_a_hand_over_says_who_had_waited_for_whom_how_long_and_in_what() -> None:
    explanation = _two_ranks()

    (one,) = explanation.hand_overs
    assert (one.offset_ns, one.from_rank, one.to_rank) == (895 * US, 1, 0)
    assert (one.op, one.group_id, one.seq, one.n_bytes) == ("all_reduce", "3", 12, 4096)
    assert (one.wait_ns, one.comm_ns, one.is_comm_clear) == (600 * US, 5 * US, False)
    assert (one.n_hand_overs, one.all_wait_ns) == (1, 600 * US)


def test_the_story_of_two_ranks() -> None:
    assert story.text(_two_ranks()).splitlines() == [
        "r: step 7 (its one step) took 1.00 ms and ended on rank 0, 4.00 µs after the next rank: a tie, for clocks are"
        " known to 2.00 µs.",
        "Its critical path is host 89.5 % on rank 1, compute 10.0 % on rank 0 and comm 0.5 % on rank 0.",
        "By name most is (no event) 89.5 %, adam 10.0 % and reduce 0.5 %.",
        "",
        "at ms  length ms   share  where            kind     what",
        "0.000      0.895  89.5 %  rank 1 thread 1  host     (no event)",
        "0.895      0.005   0.5 %  rank 0 stream 9  comm     reduce",
        "0.900      0.100  10.0 %  rank 0 stream 7  compute  adam",
        "",
        "At 0.895 ms rank 0 had waited 600.0 µs for rank 1 in all_reduce of group 3; it took 5.00 µs more, for clocks"
        " are known to 2.00 µs.",
        "Host time without an event 89.5 %, unexplained 0.0 %.",
    ]


def test_what_gives_reason_to_doubt_is_said() -> None:
    text = story.text(
        _explained(
            (*GPU, "gemm", 300), (0, "stream 9", "comm", "reduce alone", 600), (0, "stream 7", "unknown", "gemm", 100),
            verdict="rank absent: 1",
        )
    )  # fmt: skip

    assert "rank 0 stream 9  comm     reduce alone [peer not recorded]" in text
    assert text.splitlines()[-3:] == [
        "Host time without an event 0.0 %, unexplained 10.0 %.",
        "Careful: rank absent: 1.",
        "Careful: 60.0 % of it is in 1 collective with a member that is not recorded: it may be that rank's time.",
    ]


def test_a_path_that_does_not_add_up_is_said() -> None:
    con = _views(steps=[_step(7, 500 * US)], **_path((*GPU, "gemm", 400)))

    assert story.text(build(con, "r", 7)).splitlines()[-1] == (
        "Careful: its path accounts for 400.0 µs of 500.0 µs: see longpole check r."
    )


def test_names_from_a_dump_are_cut_and_cannot_act_on_a_terminal() -> None:
    text = story.text(_explained((*GPU, "\x1b[31m" + "x" * 500 + "\u202e", 100)))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(len(line) for line in text.splitlines()) < 140


def test_without_a_step_it_is_the_slowest_the_first_of_equals() -> None:
    paths = [_path((*GPU, "gemm", 300), step=step) for step in (5, 6, 7)]
    rows = {name: [row for path in paths for row in path[name]] for name in paths[0]}
    con = _views(steps=[_step(5, 200 * US), _step(6, 300 * US), _step(7, 300 * US), _step(8, None)], **rows)

    found = build(con, "r", None)
    assert (found.head.step, found.head.is_slowest, found.head.n_steps, found.head.n_timed_steps) == (6, True, 4, 3)
    assert story.text(found).startswith("r: step 6 (the slowest of 4, 5 to 8) took 300.0 µs and ended on rank 0.\n")
    other = build(con, "r", 5)
    assert (other.head.step, other.head.is_slowest) == (5, False)
    assert story.text(other).startswith("r: step 5 (one of 4, 5 to 8) took 200.0 µs")


def test_a_step_of_no_length_has_no_path() -> None:
    assert story.text(build(_views(steps=[_step(7, 0)]), "r", 7)) == (
        "r: step 7 (its one step) took 0 ns and ended on rank 0."
    )


@pytest.mark.parametrize(
    ("steps", "asked", "says"),
    [
        ([], None, "run 'r' has no steps\n\nAnalyze it first: longpole analyze r"),
        ([_step(7, 9)], 8, "run 'r' has no step 8\n\nIt has step 7."),
        ([_step(3, 9), _step(7, 9)], 5, "run 'r' has no step 5\n\nIt has steps 3 to 7 (2)."),
        ([_step(7, None)], None, "run 'r' has no step whose length is known: its ranks share no clock\n\n"),
        (
            [_step(6, 9), _step(7, None)],
            7,
            "the length of step 7 of run 'r' is not known: its ranks share no clock\n\n",
        ),
        ([_step(7, 9)], 7, "the store has no critical path of step 7 of run 'r'\n\nAn earlier version analyzed it."),
    ],
)
def test_a_step_that_has_no_path_is_an_error_that_says_what_there_is(
    steps: list[Row], asked: int | None, says: str
) -> None:
    with pytest.raises(LongpoleError) as caught:
        build(_views(steps=steps), "r", asked)

    assert str(caught.value).startswith(says)


def test_json_has_the_documented_keys() -> None:
    told = json.loads(json_text(_two_ranks()))

    assert list(told) == [
        "run", "step", "is_slowest", "n_steps", "first_step", "last_step", "n_timed_steps", "start_ns", "end_ns",
        "duration_ns", "end_rank", "end_margin_ns", "is_margin_clear", "n_ranks", "n_path_ranks", "n_segments",
        "path_ns", "verdict", "residual_ns", "peer_ns", "peer_ratio", "n_peer_segments", "no_event_ns",
        "no_event_ratio", "unknown_ns", "unknown_ratio", "kinds", "names", "stretches", "hand_overs",
    ]  # fmt: skip
    assert told["run"] == "r"
    assert told["kinds"][0] == {
        "kind": "host", "rank": 1, "duration_ns": 895_000, "share_ratio": 0.895, "n_segments": 1,
    }  # fmt: skip
    assert told["names"][1] == {"name": "adam", "duration_ns": 100_000, "share_ratio": 0.1, "n_segments": 1}
    assert told["stretches"][2] == {
        "offset_ns": 900_000, "duration_ns": 100_000, "share_ratio": 0.1, "is_folded": False, "n_segments": 1,
        "n_ranks": 1, "rank": 0, "lane": "stream 7", "kind": "compute", "kind_ns": 100_000, "kind_ratio": 1.0,
        "part_of": None, "n_names": 1, "name": "adam", "name_ns": 100_000, "verdict": "ok",
    }  # fmt: skip
    assert list(told["hand_overs"][0]) == [
        "offset_ns", "from_rank", "to_rank", "op", "group_id", "seq", "n_bytes", "wait_ns", "comm_ns", "is_comm_clear",
        "n_hand_overs", "all_wait_ns",
    ]  # fmt: skip
