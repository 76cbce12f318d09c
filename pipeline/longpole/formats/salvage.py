"""What the engine refuses goes down a ladder, so that one bad event costs that event only.

    whole block by the engine -> whole block with mixed types -> event by event -> an event's bytes mended -> lost

Every rung gives the same rows for the same event; a lower one is only slower.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from longpole.formats import fields
from longpole.formats.decode import Parsed, finish, parse_whole
from longpole.formats.fields import KINETO
from longpole.formats.layout import Layout
from longpole.formats.mixed import parse_mixed
from longpole.formats.repair import mended, without_surrogates
from longpole.formats.step import BETWEEN, skip, step
from longpole.formats.tally import Decoded

_ENDS_TRIED = 8  # an event with text inside that looks like its end is tried up to its eighth such place
_ENDS_GIVEN_UP = 50  # failures in a block after which only the first such place is tried
_CHARS_TRIED = 4 << 20  # characters in a block after whose mending that is so too: long events take as long each time
_GIVEN_UP = 2_000  # and after which nothing is mended any more: it is no dump then
_SAMPLES = 5
_SAMPLE_CHARS = 1_000
_DEEPEST = 16
_RETRIED = 32  # blocks after which the engine gets another chance


class Ladder:
    """Decodes the blocks of one file, from any number of threads."""

    def __init__(self, layout: Layout, keep_python: bool) -> None:
        self._layout = layout
        self._keep_python = keep_python
        self._n_refused = 0  # blocks in a row that the engine refused
        self._is_shaped = False  # the last block told the shapes of operators' inputs

    def decode(self, block: memoryview) -> Decoded:
        """Return the rows of a block and its counts; never fails."""
        # Two refusals in a row are a dump of another kind, which should not pay for the first rung at every block.
        # Skipping it, or expecting shapes where there are none, changes the time taken and nothing else, so threads may
        # race for what is remembered.
        is_other_kind = self._n_refused >= 2 and self._n_refused % _RETRIED
        rungs: tuple[Callable[[memoryview, Layout], Parsed], ...] = (self._parse_whole, parse_mixed)
        for rung in rungs[1:] if is_other_kind else rungs:
            try:
                decoded = finish(rung(block, self._layout), self._keep_python, self._layout)
            except (pa.ArrowException, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            self._n_refused = self._n_refused + 1 if rung is parse_mixed else 0
            return decoded
        self._n_refused += 1
        return finish(parse_each(block, self._layout), self._keep_python, self._layout)

    def _parse_whole(self, block: memoryview, layout: Layout) -> Parsed:
        parsed = parse_whole(block, layout, self._is_shaped)
        self._is_shaped = parsed.is_shaped
        return parsed


def parse_each(block: memoryview, layout: Layout = KINETO) -> Parsed:
    """Return the events of a block one by one, mended where that helps; the others are counted as lost."""
    whole: list[bytes] = []
    is_mended: list[bool] = []
    lost: list[str] = []
    n_lost = 0
    for text, event, is_changed in _events(str(block, "utf-8", "surrogateescape"), layout.arg_keys):
        if not event or "ph" not in event:
            n_lost += 1
            if len(lost) < _SAMPLES:
                lost.append(text[:_SAMPLE_CHARS])
            continue
        strict, is_cleaned = _rewritten(event)
        whole.append(strict)
        is_mended.append(is_changed or is_cleaned)
    parsed = parse_mixed(b",".join(whole), layout)
    parsed.is_salvaged = np.array(is_mended, np.bool_)
    parsed.n_lost, parsed.lost = n_lost, lost
    return parsed


def _events(text: str, arg_keys: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any] | None, bool]]:
    """Yield each event's text, what it says (None: nothing helped) and whether it had to be mended."""
    n_given_up = n_chars = 0
    at = skip(text, 0)
    while at < len(text):
        found = step(text, at, _decoder)
        if found.is_read:
            yield text[at : found.end], _checked(found.value, arg_keys), False
            at = found.next
            continue
        end, event = found.end, None
        if text[at] == "{" and n_given_up < _GIVEN_UP:
            is_hopeful = n_given_up < _ENDS_GIVEN_UP and n_chars < _CHARS_TRIED
            end, value, n_tried = _mended_at(text, at, end, _ENDS_TRIED if is_hopeful else 1)
            event = _checked(value, arg_keys)
            n_chars += n_tried
            n_given_up += event is None
        yield text[at:end], event, True
        at = skip(text, end)


_decoder = json.JSONDecoder(parse_float=str, parse_constant=lambda _: None)


def _mended_at(text: str, at: int, first_end: int, n_ends: int) -> tuple[int, dict[str, Any] | None, int]:
    """Return where the event that begins at `at` ends, what it says once mended (None: nothing helped), and how many
    characters were tried for that.

    An end is only what looks like one, and a name may hold such text: the first few are tried in turn.
    """
    end, n_chars = first_end, 0
    for _ in range(n_ends):
        n_chars += end - at
        if (value := mended(text[at:end])) is not None:
            return end, value, n_chars
        if end >= len(text):
            break
        following = BETWEEN.search(text, end)
        end = following.start() + 1 if following else len(text)
    return first_end, None, n_chars


def _checked(value: object, arg_keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what an object says of an event, of types that the next rung is sure to take; None if it is no object."""
    if not isinstance(value, dict):
        return None
    event = {key: _shallow(value[key]) for key in fields.EVENT_KEYS if key in value}
    if isinstance(args := value.get("args"), dict):
        event["args"] = {key: _shallow(args[key]) for key in arg_keys if key in args}
    return event


def _shallow(value: object, depth: int = _DEEPEST) -> object:
    """Return a value without what is nested in it beyond reason, where the next rung might give up."""
    if isinstance(value, list):
        return [_shallow(item, depth - 1) for item in value] if depth else None
    if isinstance(value, dict):
        return {key: _shallow(item, depth - 1) for key, item in value.items()} if depth else None
    return value


def _rewritten(event: dict[str, Any]) -> tuple[bytes, bool]:
    """Return an event as strict JSON, and whether a text had to change for that."""
    text = json.dumps(event, ensure_ascii=False)
    clean = without_surrogates(text)
    return clean.encode(), clean != text
