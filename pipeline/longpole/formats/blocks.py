"""Cuts the bytes of a dump into blocks of whole events without reading them, and keeps what stands around the events.

A cut is made where the text looks like the end of one event and the start of the next, at the last such place of a
few megabytes. It is a guess: a name may hold such text, an argument may be a list of objects. So what stands to the
left of the cut must read as one whole event; since a JSON object has only one end, that settles it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from longpole.formats.frame import read_object
from longpole.formats.repair import mended

BLOCK_BYTES = 4 << 20
"""Enough to keep the engine busy, and little enough for what it works on to stay in cache."""

LONGEST_EVENT = 32 << 20
"""Bytes after which something without an end is given up as one lost event."""

LONGEST_FRAME = 4 << 20
"""Bytes kept of what stands before the events, and of what stands behind them."""

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEY_BYTES = 4 << 10  # more than that key and any white space in it
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_BEFORE = re.compile(rb"\}\s*,\s*\Z")
_END = re.compile(rb"\}[\s,]*\]")
_EMPTY = re.compile(rb"[\s,]*\]")
_FILLER = b" \t\r\n,"

_WIDEST_GAP = 256  # bytes between two events
_CUTS_TRIED = 64
_STARTS_TRIED = 16  # an event may hold a few such texts itself
_BRACES_SEEN = 100_000
_PROOF_BYTES = 64 << 20
_PROOF_COST = 64  # of a proof of nothing, in bytes
_MENDED = 8  # mending is slow: few cuts are proved by it, and by short events alone
_MENDED_BYTES = 64 << 10


class NoEventsError(Exception):
    """The stream ends without the list of events having begun."""


class Cut(NamedTuple):
    """A place between two events."""

    left: int  # behind the closing brace of one
    right: int  # at the opening brace of the next


class EventBlocks:
    """The blocks of one dump, in order; the attributes are complete after the last."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._separator = b""  # how this file ended one event and began the next, when last seen
        self.header = b""  # what stands before the list of events, without its key
        self.trailer = b""  # what stands behind it
        self.is_list = False  # the dump is a bare list of events
        self.is_cut = False  # the list has no end
        self.n_cut = 0  # events of which only the beginning is there
        self.n_lost_bytes = 0  # which that beginning takes
        self.n_endless = 0  # events longer than LONGEST_EVENT, passed over
        self.n_unkept = 0  # bytes of header and trailer beyond LONGEST_FRAME

    def __iter__(self) -> Iterator[memoryview]:
        """Yield blocks of whole events, without the commas before the first and behind the last.

        Raises:
            NoEventsError: There is no list of events.
        """
        data = self._to_events()
        wanted = BLOCK_BYTES
        while True:
            data, is_all = self._filled(data, wanted)
            cut = None if is_all else self._cut(data)
            if cut is None:
                end = self._end(data, is_all)
                if end is not None:
                    if end.left:
                        yield memoryview(data)[: end.left]
                    self._read_trailer(data[end.right :])
                    return
                if is_all:
                    yield from self._cut_end(data)
                    return
                if wanted < LONGEST_EVENT:
                    wanted = min(2 * len(data), LONGEST_EVENT)
                    continue
                cut = next(_cuts(data), None)  # a wrong one costs two events; there is no better
            if cut is None:
                data = self._past_endless(data)
            else:
                yield memoryview(data)[: cut.left]
                data = data[cut.right :]
            wanted = BLOCK_BYTES

    def _to_events(self) -> bytes:
        """Read up to the list of events and return what is there of it."""
        data = b""
        for piece in self._pieces:
            searched = max(0, len(data) - _KEY_BYTES)
            data += piece
            if not self.n_unkept and (match := _LIST.match(data)):
                self.is_list = True
                return data[match.end() :]
            keys = list(_EVENTS_KEY.finditer(data, searched))
            if keys:
                key = next((key for key in keys if not self.n_unkept and _is_top(data[: key.start()])), keys[0])
                self.header = self.header or data[: key.start()]
                return data[key.end() :]
            if len(data) > LONGEST_FRAME:
                self.header = self.header or data
                self.n_unkept += len(data) - _KEY_BYTES
                data = data[-_KEY_BYTES:]
        self.header = self.header or data
        raise NoEventsError

    def _filled(self, data: bytes, wanted: int) -> tuple[bytes, bool]:
        """Return `data` with what follows it, at least `wanted` bytes, and whether the stream ended before."""
        parts, n = [data], len(data)
        while n < wanted:
            piece = next(self._pieces, None)
            if piece is None:
                return b"".join(parts), True
            parts.append(piece)
            n += len(piece)
        return b"".join(parts), False

    def _cut(self, data: bytes) -> Cut | None:
        """Return the last place between two events, as far as can be told."""
        if self._separator and (cut := _last_proved(data, _learnt_cuts(data, self._separator))):
            return cut
        cut = _last_proved(data, _cuts(data))
        if cut is not None:
            before = data[: cut.left - 1]
            self._separator = data[len(before.rstrip()) : cut.right + 1]
        return cut

    def _end(self, data: bytes, is_all: bool) -> Cut | None:
        """Return the end of the list: behind its last event, and behind its bracket."""
        if empty := _EMPTY.match(data):
            return Cut(0, empty.end())
        budget = _Budget()
        last: deque[Cut] = deque(maxlen=_CUTS_TRIED)
        for match in _END.finditer(data):
            end = Cut(match.start() + 1, match.end())
            if _is_proved(data, end, _cuts(data, end.left), budget):
                return end
            last.appendleft(end)
            if budget.is_spent:
                break
        # The last event itself may be damaged: then the end is where what follows makes sense.
        return next((end for end in last if self._is_trailer(data[end.right :])), None) if is_all else None

    def _is_trailer(self, text: bytes) -> bool:
        return not text.strip() if self.is_list else read_object(b'{"":0' + text) is not None

    def _cut_end(self, data: bytes) -> Iterator[memoryview]:
        """Yield what is whole of a list without an end."""
        self.is_cut = True
        cut = _last_proved(data, _cuts(data)) or next(_cuts(data), None) or Cut(0, 0)
        whole = _last_brace(data, cut.right) or cut.left
        lost = data[whole if whole > cut.right else cut.right :].strip(_FILLER)
        self.n_cut += bool(lost)
        self.n_lost_bytes = len(lost)
        if whole:
            yield memoryview(data)[:whole]

    def _past_endless(self, data: bytes) -> bytes:
        """Pass over an event without an end and return what follows it."""
        self.n_endless += 1
        for piece in self._pieces:
            data = data[-_KEY_BYTES:] + piece
            if match := _BETWEEN.search(data):
                return data[match.end() - 1 :]
        return b""

    def _read_trailer(self, rest: bytes) -> None:
        parts, n = [rest], len(rest)
        for piece in self._pieces:
            if n <= LONGEST_FRAME:
                parts.append(piece)
            else:
                self.n_unkept += len(piece)
            n += len(piece)
        self.trailer = b"".join(parts)


def _is_top(header: bytes) -> bool:
    """Return whether a key that follows `header` would belong to the outermost object."""
    return read_object(header + b'"":0}') is not None


class _Budget:
    """Bounds the work that text made to mislead can cause."""

    def __init__(self) -> None:
        self._left = _PROOF_BYTES

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def is_event(self, text: memoryview) -> bool:
        """Return whether a text is one whole event, in strict JSON; no once the budget is spent."""
        self._left -= len(text) + _PROOF_COST
        if self.is_spent:
            return False
        try:
            _probe.decode(text)
            return True
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False


class _Probe(msgspec.Struct):
    ph: str


_probe = msgspec.json.Decoder(_Probe)


def _cuts(data: bytes, end: int | None = None) -> Iterator[Cut]:
    """Yield what looks like a place between two events, in any style of writing, from the last before `end` on."""
    at = len(data) if end is None else end
    for _ in range(_BRACES_SEEN):
        at = data.rfind(b"{", 0, at)
        if at < 0:
            return
        if match := _BEFORE.search(data, max(0, at - _WIDEST_GAP), at):
            yield Cut(match.start() + 1, at)


def _learnt_cuts(data: bytes, separator: bytes) -> Iterator[Cut]:
    left, right = separator.index(b"}") + 1, len(separator) - 1
    at = data.rfind(separator)
    while at >= 0:
        yield Cut(at + left, at + right)
        at = data.rfind(separator, 0, at)


def _last_proved(data: bytes, cuts: Iterator[Cut]) -> Cut | None:
    """Return the first of `cuts` (which go backwards) to whose left a whole event stands."""
    budget = _Budget()
    seen = list(islice(cuts, 2))
    for n in range(_CUTS_TRIED):
        if n >= len(seen):
            break
        if _is_proved(data, seen[n], chain(seen[n + 1 :], _remember(cuts, seen)), budget):
            return seen[n]
    for cut, before in zip(seen[:_MENDED], [*seen[1:], Cut(0, 0)], strict=False):
        text = data[before.right : cut.left]
        if len(text) <= _MENDED_BYTES and "ph" in (mended(text.decode("utf-8", "replace")) or ()):
            return cut
    return None


def _is_proved(data: bytes, cut: Cut, before: Iterator[Cut], budget: _Budget) -> bool:
    """Return whether a whole event stands to the left of `cut`.

    Args:
        before: The cuts to the left of it, from the next on; an event may hold a few such texts itself.
        budget: What the proof may cost.
    """
    view = memoryview(data)
    for start in islice(chain((previous.right for previous in before), (0,)), _STARTS_TRIED):
        if budget.is_event(view[start : cut.left]):
            return True
    return False


def _remember(cuts: Iterator[Cut], seen: list[Cut]) -> Iterator[Cut]:
    for cut in cuts:
        seen.append(cut)
        yield cut


def _last_brace(data: bytes, start: int) -> int:
    """Return the end of the whole event that begins at `start`, 0 if none does."""
    budget = _Budget()
    view = memoryview(data)
    at = len(data)
    for _ in range(_CUTS_TRIED):
        at = data.rfind(b"}", start, at)
        if at < 0:
            return 0
        if budget.is_event(view[start : at + 1]):
            return at + 1
    return 0
