"""One event after the other, by the standard library's JSON: slow, and right whatever an event holds."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

BETWEEN = re.compile(r"\}\s*,\s*(?=\{)")
"""What stands between two events, and perhaps elsewhere too."""

_FILLER = re.compile(r"[\s,]*")
_WINDOW = 16 << 10  # characters; most events are shorter, and an error costs as much as what it is shown


class Step(NamedTuple):
    """What was found at a place in the text."""

    value: object
    is_read: bool  # else it is no JSON, and `end` only looks like one
    end: int
    next: int  # where something follows, behind blanks and commas


def step(text: str, at: int, decoder: json.JSONDecoder) -> Step:
    """Return the value that begins at `at`, where there is one."""
    first = BETWEEN.search(text, at)
    window = text[at : max(at + _WINDOW, first.end() if first else len(text))]
    try:
        value, length = decoder.raw_decode(window)
        following = skip(text, at + length)
        if text[at + length : following].strip() or following == len(text) or text[following] == "]":
            return Step(value, True, at + length, following)
    except (ValueError, RecursionError):
        pass
    end = first.start() + 1 if first else len(text)
    return Step(None, False, end, skip(text, end))


def skip(text: str, at: int) -> int:
    """Return where something stands that is neither blank nor comma."""
    match = _FILLER.match(text, at)
    return match.end() if match else at
