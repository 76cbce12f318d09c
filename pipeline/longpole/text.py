"""Text from dumps, made safe for a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def one_line(text: str) -> str:
    """Return the text as `printable` does, with a blank for every tab and line break: it cannot look like two lines."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def printable(text: str) -> str:
    """Return the text with every control, direction and surrogate character replaced; tabs and line breaks stay."""
    return _CONTROL.sub("\ufffd", text)
