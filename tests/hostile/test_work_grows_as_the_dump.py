"""Four times as much rubbish takes about four times the work: counted in characters, which no other load changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.reading import dump, event, read
from longpole.formats import salvage
from longpole.formats.repair import mended
from longpole.formats.step import skip, step

GOOD = json.dumps(event("k"))


class _Counting(json.JSONDecoder):
    """A decoder that counts how much it was given."""

    n_chars = 0

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        self.n_chars += len(s)
        return super().raw_decode(s, idx)


def looked_at(text: str) -> int:
    decoder = _Counting()
    at = skip(text, 0)
    while at < len(text):
        at = step(text, at, decoder).next
    return decoder.n_chars


@pytest.mark.parametrize("piece", ["1", '""', "{x:1}", "{x:1},{}", '{"ph":x}', "[", '{"ph":"X","args":['])
def test_a_list_of_anything_is_walked_in_one_pass(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longpole.formats.step._WINDOW", 256)
    few, many = (looked_at(",".join([GOOD, *[piece] * n, GOOD])) for n in (4_000, 16_000))
    assert many < 6 * few


def test_mending_long_events_again_and_again_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    n_chars = 0

    def counted(text: str) -> dict[str, Any] | None:
        nonlocal n_chars
        n_chars += len(text)
        return mended(text)

    monkeypatch.setattr(salvage, "mended", counted)
    monkeypatch.setattr(salvage, "_CHARS_TRIED", 10_000)
    bad = '{"ph": "X", "args": {"a": [' + '"",' * 1_000 + '""]},{"b":x}}'
    text = dump(GOOD, *[bad] * 40, GOOD)

    rows, facts = read(text)

    assert len(rows) == 2
    assert (facts.n_events, facts.n_dropped) == (42, 40)
    assert n_chars < 2 * len(text)
