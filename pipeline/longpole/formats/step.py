"""One event after the other, by the standard library's JSON: slow, and right whatever an event holds."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import NamedTuple

BETWEEN = re.compile(r"\}\s*,\s*(?=\{)")
"""What stands between two events, and perhaps elsewhere too."""

_FILLER = re.compile(r"[\s,]*")
_LIKE_AN_EVENT = re.compile(r'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:')
_WINDOW = 16 << 10  # characters; most events are shorter, and an error costs as much as what it is shown
_ENDS_TRIED = 1_000


class Step(NamedTuple):
    """What was found at a place in the text."""

    value: object
    is_read: bool  # else it is no JSON, and `end` only looks like one
    end: int
    next: int  # where something follows, behind blanks and commas


def step(text: str, at: int, decoder: json.JSONDecoder) -> Step:
    """Return the value that begins at `at`; where there is none, what reaches from there to the next event."""
    found = _read(text, at, decoder)
    if found is not None:
        return found
    end = _next_event(text, at, decoder)
    return Step(None, False, end, skip(text, end))


def next_sure_event(text: str, at: int, decoder: json.JSONDecoder) -> Step | None:
    """Return what reaches from `at` to the next event that can be read, if there is one.

    For what seems to go on to the end of the text: with a bracket lost, whole events may look like its inside.
    """
    for match in islice(BETWEEN.finditer(text, at), _ENDS_TRIED):
        found = _read(text, match.end(), decoder)
        if found is not None and isinstance(found.value, dict) and found.value.keys() >= {"ph", "pid"}:
            return Step(None, False, match.start() + 1, match.end())
    return None


def skip(text: str, at: int) -> int:
    """Return where something stands that is neither blank nor comma."""
    match = _FILLER.match(text, at)
    return match.end() if match else at


def _read(text: str, at: int, decoder: json.JSONDecoder) -> Step | None:
    found = _read_within(text, at, at + _WINDOW, decoder)
    if found is None and at + _WINDOW < len(text):
        first = BETWEEN.search(text, at)
        end = first.end() if first else len(text)
        if end > at + _WINDOW:
            return _read_within(text, at, end, decoder)
    return found


def _read_within(text: str, at: int, to: int, decoder: json.JSONDecoder) -> Step | None:
    try:
        value, length = decoder.raw_decode(text[at:to])
    except (ValueError, RecursionError):
        return None
    end = at + length
    following = skip(text, end)
    if text[end:following].strip() or following == len(text) or text[following] == "]":
        return Step(value, True, end, following)
    return None


def _next_event(text: str, at: int, decoder: json.JSONDecoder) -> int:
    """Return the end of what cannot be read, where the next event follows, as far as can be told.

    An object inside the bad event may follow as another event would; it has no "ph". What cannot be read either is
    an event when it begins like one. Where many objects in a row are none, all of them are passed: to look at them
    again from each would take the square of their number.
    """
    ends = BETWEEN.finditer(text, at)
    last = None
    for match in islice(ends, _ENDS_TRIED):
        last = match
        found = _read(text, match.end(), decoder)
        is_event = _LIKE_AN_EVENT.match(text, match.end()) if found is None else _has_phase(found.value)
        if is_event:
            return match.start() + 1
    return last.start() + 1 if last and next(ends, None) else len(text)


def _has_phase(value: object) -> bool:
    return isinstance(value, dict) and "ph" in value
