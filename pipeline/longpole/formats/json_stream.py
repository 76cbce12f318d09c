"""JSON of any size, member by member and item by item: of what is larger than one value only a window is held."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

LONGEST_VALUE = 16 << 20
"""Bytes of one value that is taken whole; what is longer is refused."""

_WINDOW = 1 << 20
_DEEPEST = 64
_SPACE = re.compile(r"[ \t\r\n]*")


class JsonError(Exception):
    """The text is no JSON, ends early, or holds a value beyond reason; its argument says which, as a clause."""


class JsonStream:
    """The text of one document. Whoever asks for members or items takes or skips each before the next."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""  # the beginning of a character that the next piece ends
        self._text = ""
        self._at = 0
        self._is_all = False
        self._decoder = json.JSONDecoder(strict=False)

    def first(self) -> str:
        """Return the first character of the value that stands here.

        Raises:
            JsonError: Nothing does.
        """
        return self._next()

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that stands here; anything else has none and is skipped.

        Raises:
            JsonError: It is no JSON.
        """
        if self._next() != "{":
            self.skip()
            return
        self._at += 1
        if self._next() == "}":
            self._at += 1
            return
        while True:
            key = self.value() if self._next() == '"' else None
            if not isinstance(key, str) or self._next() != ":":
                raise JsonError("it is no JSON")
            self._at += 1
            yield key
            if self._is_last("}"):
                return

    def items(self) -> Iterator[None]:
        """Stand before each item of the list that stands here; anything else has none and is skipped.

        Raises:
            JsonError: It is no JSON.
        """
        if self._next() != "[":
            self.skip()
            return
        self._at += 1
        if self._next() == "]":
            self._at += 1
            return
        while True:
            yield None
            if self._is_last("]"):
                return

    def value(self) -> Any:
        """Return the value that stands here.

        Raises:
            JsonError: It is no JSON, or too long.
        """
        self._next()
        wanted = _WINDOW
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise JsonError("it is nested too deeply") from None
            except ValueError:
                value, end = None, len(self._text)
                if self._is_all:
                    raise JsonError("it ends early, or is no JSON") from None
            if end < len(self._text) or self._is_all:  # else a number may go on
                self._at = end
                return value
            if len(self._text) - self._at > LONGEST_VALUE:
                raise JsonError(f"it has a value that does not end within {LONGEST_VALUE >> 20} MiB")
            self._fill(wanted)
            wanted *= 2

    def skip(self, depth: int = 0) -> None:
        """Pass over the value that stands here, however long it is.

        Raises:
            JsonError: It is no JSON.
        """
        first = self._next()
        if depth > _DEEPEST:
            raise JsonError("it is nested too deeply")
        if first == "{":
            for _ in self.members():
                self.skip(depth + 1)
        elif first == "[":
            for _ in self.items():
                self.skip(depth + 1)
        else:
            self.value()

    def _is_last(self, close: str) -> bool:
        found = self._next()
        if found not in (",", close):
            raise JsonError("it is no JSON")
        self._at += 1
        return found == close

    def _next(self) -> str:
        """Return the next character that is no blank, and stand before it."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_all:
                raise JsonError("it ends early")
            self._fill(_WINDOW)

    def _fill(self, n_bytes: int) -> None:
        """Read on, and forget what was passed."""
        parts = [self._rest]
        n = 0
        while n < n_bytes:
            piece = next(self._pieces, None)
            if piece is None:
                self._is_all = True
                break
            parts.append(piece)
            n += len(piece)
        data = b"".join(parts)
        end = len(data) if self._is_all else _whole_end(data)
        self._rest = data[end:]
        self._text = self._text[self._at :] + data[:end].decode("utf-8", "replace")
        self._at = 0


def _whole_end(data: bytes) -> int:
    """Return the end of the last whole character of UTF-8."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return len(data) - back + 1
        if byte >= 0xC0:  # begins a character of two, three or four bytes
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if back >= length else len(data) - back
    return len(data)
