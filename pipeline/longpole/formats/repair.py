"""Puts right one event that is not JSON, where what was meant is plain; of a text in quotes, only what JSON forbids."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""
      "(?:[^"\\]++|\\.)*+"                       # a string, with whatever escapes
    | ,(?=\s*[}\]])                              # a comma too many
    | (?<=:)(?=\s*[,}\]])                        # a value too few
    | [-+]?(?<![A-Za-z0-9_])(?:nan|inf|infinity)(?![A-Za-z0-9_])
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_CONTROL = re.compile(r"[\x00-\x1f]")

_SURROGATE = re.compile("[\ud800-\udfff]")


def mended(text: str) -> dict[str, Any] | None:
    """Return the object that `text` was meant to be, numbers with a point as their text, or None.

    Backslashes that escape nothing become literal, control characters blanks, nan and inf null, as does a missing
    value; commas before a closing bracket go.
    """
    try:
        value = json.loads(_TOKEN.sub(_mend, text), parse_float=str, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def without_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for every half of a surrogate pair, which no UTF-8 can hold."""
    return _SURROGATE.sub("�", text)


def _mend(match: re.Match[str]) -> str:
    found = match.group()
    if not found.startswith('"'):
        return "" if found == "," else "null"
    if not found.isprintable():
        found = _CONTROL.sub(" ", found)
    return _ESCAPE.sub(_escape, found) if "\\" in found else found


def _escape(match: re.Match[str]) -> str:
    return match.group() if len(match.group()) > 1 else "\\\\"
