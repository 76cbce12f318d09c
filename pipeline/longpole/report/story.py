"""A critical path told in about fifteen lines for a terminal; nothing here computes a number."""

from __future__ import annotations

from collections.abc import Sequence

from longpole.report import words
from longpole.report.explain import Explanation, HandOver, Head, Stretch

NAME_WIDTH = 64
"""Characters of a name: kernel names run to thousands."""

MAX_KINDS = 6
"""Kinds that are named with their share."""

LEAST_RATIO = 0.0005
"""What would print as less than 0.1 % is only counted."""


def text(explanation: Explanation) -> str:
    """Return the story, lines of text; what a dump supplied is made safe for a terminal."""
    head = explanation.head
    lines = [_opening(explanation)]
    if explanation.stretches:
        lines += [_kinds(explanation), _names(explanation), "", *_table(explanation.stretches), ""]
        lines += _hand_overs(head, explanation.hand_overs)
        lines.append(
            f"Host time without an event {words.percent(head.no_event_ratio)}, "
            f"unexplained {words.percent(head.unknown_ratio)}."
        )
    return "\n".join([*lines, *_doubts(explanation)])


def sentences(explanation: Explanation) -> list[str]:
    """Return the story without opening and table, an entry a sentence or two: what the step waited for, and doubts."""
    told = [_kinds(explanation), _names(explanation)] if explanation.kinds else []
    overs = _hand_overs(explanation.head, explanation.hand_overs) if explanation.kinds else []
    return [*told, *overs, *_doubts(explanation)]


def _opening(explanation: Explanation) -> str:
    head = explanation.head
    if head.n_steps == 1:
        which = "its one step"
    else:
        which = (
            f"{'the slowest' if head.is_slowest else 'one'} of {head.n_steps:,}, {head.first_step} to {head.last_step}"
        )
    ending = f"ended on rank {head.end_rank}"
    if head.end_margin_ns is not None:
        ending += f", {words.duration(head.end_margin_ns)} after the next rank"
        if not head.is_margin_clear:
            ending += f": a tie{_clocks(head)}"
    run = words.visible(explanation.run)
    return f"{run}: step {head.step} ({which}) took {words.duration(head.duration_ns)} and {ending}."


def _clocks(head: Head) -> str:
    """Return how well the clocks are known, behind a number that is smaller than three residuals of them."""
    return f", for clocks are known to {words.duration(head.residual_ns)}" if head.residual_ns else ""


def _kinds(explanation: Explanation) -> str:
    kinds = explanation.kinds
    is_one_rank = explanation.head.n_path_ranks == 1
    large = [kind for kind in kinds[:MAX_KINDS] if kind.share_ratio >= LEAST_RATIO] or kinds[:1]
    told = [
        f"{kind.kind} {words.percent(kind.share_ratio)}" + ("" if is_one_rank else f" on rank {kind.rank}")
        for kind in large
    ]
    if len(kinds) > len(large):
        told.append(f"{len(kinds) - len(large)} smaller")
    ending = f", all on rank {kinds[0].rank}" if is_one_rank else ""
    return f"Its critical path is {words.listing(told)}{ending}."


def _names(explanation: Explanation) -> str:
    told = [f"{_name(name.name)} {words.percent(name.share_ratio)}" for name in explanation.names]
    return f"By name most is {words.listing(told)}."


def _table(stretches: Sequence[Stretch]) -> list[str]:
    rows = [("at ms", "length ms", "share", "where", "kind", "what")]
    rows += [
        (
            words.milliseconds(stretch.offset_ns),
            words.milliseconds(stretch.duration_ns),
            words.percent(stretch.share_ratio),
            _where(stretch),
            _kind(stretch),
            _what(stretch),
        )
        for stretch in stretches
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [
        "  ".join(
            [
                *(row[column].rjust(widths[column]) for column in range(3)),
                *(row[column].ljust(widths[column]) for column in range(3, 5)),
                row[5],
            ]
        ).rstrip()
        for row in rows
    ]


def _where(stretch: Stretch) -> str:
    more = f" +{stretch.n_ranks - 1}" if stretch.n_ranks > 1 else ""
    return f"rank {stretch.rank}{more} {words.visible(stretch.lane)}"


def _kind(stretch: Stretch) -> str:
    share = words.percent(stretch.kind_ratio)
    return stretch.kind if share == "100.0 %" else f"{stretch.kind} {share}"


def _what(stretch: Stretch) -> str:
    name = _name(stretch.name)
    if stretch.n_segments == 1 or (stretch.n_names == 1 and not stretch.is_folded and stretch.part_of is None):
        what = name if stretch.n_segments == 1 else f"{name} × {stretch.n_segments:,}"
    elif stretch.is_folded:
        what = f"… {stretch.n_segments:,} shorter segments, most in {name}: {words.duration(stretch.name_ns)}"
    elif stretch.part_of is None:
        what = f"{stretch.n_segments:,} segments, most in {name}: {words.duration(stretch.name_ns)}"
    elif stretch.part_of == stretch.name:
        what = f"{name}: {stretch.n_segments:,} segments, itself {words.duration(stretch.name_ns)}"
    else:
        within = _name(stretch.part_of)
        what = f"{within}: {stretch.n_segments:,} segments, most in {name}: {words.duration(stretch.name_ns)}"
    return what if stretch.verdict == "ok" else f"{what} [{words.visible(stretch.verdict)}]"


def _name(name: str) -> str:
    return words.cut_middle(words.visible(name), NAME_WIDTH)


def _hand_overs(head: Head, hand_overs: Sequence[HandOver]) -> list[str]:
    if not hand_overs:
        return [] if head.n_ranks == 1 else ["No other rank was waited for on it."]
    lines = []
    for one in hand_overs:
        op = words.visible(one.op) if one.op else "a collective"
        where = f" of group {_name(one.group_id)}" if one.group_id is not None else ""
        waited = "had waited" if one.wait_ns is None else f"had waited {words.duration(one.wait_ns)}"
        after = f"it took {words.duration(one.comm_ns)} more"
        if not one.is_comm_clear:
            after += _clocks(head)
        when = f"At {words.milliseconds(one.offset_ns)} ms"
        lines.append(f"{when} rank {one.to_rank} {waited} for rank {one.from_rank} in {op}{where}; {after}.")
    n_more = hand_overs[0].n_hand_overs - len(hand_overs)
    if n_more:
        lines.append(f"{n_more:,} more hand-overs; all waits together {words.duration(hand_overs[0].all_wait_ns)}.")
    return lines


def _doubts(explanation: Explanation) -> list[str]:
    head = explanation.head
    doubts = [] if head.verdict == "ok" else [words.visible(head.verdict)]
    if head.n_peer_segments:
        what = "1 collective" if head.n_peer_segments == 1 else f"{head.n_peer_segments:,} collectives"
        doubts.append(
            f"{words.percent(head.peer_ratio)} of it is in {what} with a member that is not recorded: "
            "it may be that rank's time"
        )
    if head.path_ns != head.duration_ns:
        told = f"{words.duration(head.path_ns)} of {words.duration(head.duration_ns)}"
        doubts.append(f"its path accounts for {told}: see longpole check {words.shell_word(explanation.run)}")
    return [f"Careful: {doubt}." for doubt in doubts]
