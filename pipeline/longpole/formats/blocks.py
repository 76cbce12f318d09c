"""Cuts the bytes of a dump into blocks of whole events without reading them, and keeps what stands around the events.

A cut is made where the text looks like the end of one event and the start of the next, at the last such place of a
few megabytes. It is a guess: a name may hold such text, an argument may be a list of objects. So what stands to the
left of the cut must read as one whole event; since a JSON object has only one end, that settles it. Where no guess
holds, the block is walked through event by event from its start, which is slow and always right.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple

import msgspec

from longpole.formats.frame import read_object
from longpole.formats.repair import mended
from longpole.formats.step import next_sure_event, skip, step

BLOCK_BYTES = 4 << 20
"""Enough to keep the engine busy, and little enough for what it works on to stay in cache."""

MOST_OBJECTS = 64_000
"""Objects in a block, at most: as columns, the smallest take a hundred times their bytes. A usual block has 30,000."""

LONGEST_EVENT = 32 << 20
"""Bytes after which something without an end is given up as one lost event."""

LONGEST_FRAME = 4 << 20
"""Bytes kept of what stands before the events, and of what stands behind them."""

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEY_BYTES = 4 << 10  # more than that key and any white space in it
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_END = re.compile(rb"\}[\s,]*\]")
_BEHIND_LIST = re.compile(r"\s*(?:[,}]|\Z)")
_EMPTY = re.compile(rb"[\s,]*\]")
_FILLER = b" \t\r\n,"

_CUTS_TRIED = 64  # an event may hold a few such texts itself
_STARTS_TRIED = 64
_ENDS_TRIED = 64
_MENDED = 4  # mending takes long, so that few cuts are proved by it, and by short events alone
_MENDED_BYTES = 16 << 10
_LEARNT_BYTES = 64 << 10
_PROOF_BYTES = 1 << 20  # of an event that proves a cut; a longer one is walked to


class NoEventsError(Exception):
    """The stream ends without the list of events having begun."""


class Cut(NamedTuple):
    """A place between two events, or behind the last."""

    left: int  # behind the closing brace of one
    right: int  # at the opening brace of the next, or behind the closing bracket of the list


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
        self.n_unkept_header = 0  # bytes beyond LONGEST_FRAME
        self.n_unkept_trailer = 0

    def __iter__(self) -> Iterator[memoryview]:
        """Yield blocks of whole events, without the commas before the first and behind the last.

        Raises:
            NoEventsError: There is no list of events.
        """
        data = self._to_events()
        wanted, n_objects = BLOCK_BYTES, MOST_OBJECTS
        while True:
            data, is_all = self._filled(data, wanted)
            part = _with_few_objects(data, n_objects)
            is_all = is_all and len(part) == len(data)
            cut, end = self._cut(part, is_all)
            if is_all and end is None:
                end = self._plausible_end(data, cut.right if cut else 0)
            if end is not None:
                if end.left:
                    yield memoryview(data)[: end.left]
                self._read_trailer(data[end.right :])
                return
            if is_all:
                yield from self._cut_end(data, cut or Cut(0, 0))
                return
            if cut is not None:
                yield memoryview(data)[: cut.left]
                data = data[cut.right :]
            elif len(part) < len(data):
                n_objects *= 2
                continue
            elif wanted < LONGEST_EVENT:
                wanted = min(2 * len(data), LONGEST_EVENT)
                continue
            else:
                data = self._past_endless(data)
            wanted, n_objects = BLOCK_BYTES, MOST_OBJECTS

    def _to_events(self) -> bytes:
        """Read up to the list of events and return what is there of it."""
        data = b""
        for piece in self._pieces:
            searched = max(0, len(data) - _KEY_BYTES)
            data += piece
            if not self.n_unkept_header and (match := _LIST.match(data)):
                self.is_list = True
                return data[match.end() :]
            keys = list(_EVENTS_KEY.finditer(data, searched))
            if keys:
                is_whole = not self.n_unkept_header
                key = next((key for key in keys if is_whole and _is_top(data[: key.start()])), keys[0])
                self.header = self.header or data[: key.start()]
                return data[key.end() :]
            if len(data) > LONGEST_FRAME:
                self.header = self.header or data
                self.n_unkept_header += len(data) - _KEY_BYTES
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

    def _cut(self, data: bytes, is_all: bool) -> tuple[Cut | None, Cut | None]:
        """Return one of the last places between two events, and the end of the list where it is in `data`."""
        if not self._separator:
            self._learn(data, _walk(data[:_LEARNT_BYTES])[0])
        if is_all:
            end = _proved_end(data, self._separator)
            if end is not None:
                return None, end
        elif self._separator and (cut := _proved_cut(data, self._separator)):
            return cut, None
        cut, end = _walk(data)
        self._learn(data, cut)
        return cut, end

    def _learn(self, data: bytes, cut: Cut | None) -> None:
        """Take the style of writing from a place between two events."""
        if cut is not None and data[cut.left - 1 : cut.left] + data[cut.right : cut.right + 1] == b"}{":
            before = data[: cut.left - 1]
            self._separator = data[len(before.rstrip()) : cut.right + 1]

    def _plausible_end(self, data: bytes, start: int) -> Cut | None:
        """Return the end of a list whose last event, from `start` on, is damaged: there, what follows makes sense."""
        try:
            _, length = _decoder.raw_decode(data[start:].decode("latin-1"))
            start += length - 1
            if not data[start + 1 :].strip():
                return None
        except (ValueError, RecursionError):
            if _is_open(data, start):
                return None
        last = deque(_END.finditer(data, start), _ENDS_TRIED)
        for match in reversed(last):
            if self._is_trailer(data[match.end() : match.end() + LONGEST_FRAME]):
                return Cut(match.start() + 1, match.end())
        return None

    def _is_trailer(self, text: bytes) -> bool:
        found = None if self.is_list else read_object(b'{"":0' + text)
        return not (found[2] if found else text.strip())

    def _cut_end(self, data: bytes, cut: Cut) -> Iterator[memoryview]:
        """Yield what is whole of a list without an end, of which `cut` is the last place between two events."""
        self.is_cut = True
        whole = _last_brace(data, cut.right)
        lost = data[whole or cut.right :].strip(_FILLER)
        self.n_cut += bool(lost)
        self.n_lost_bytes = len(lost)
        if whole or cut.left:
            yield memoryview(data)[: whole or cut.left]

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
                self.n_unkept_trailer += len(piece)
            n += len(piece)
        self.trailer = b"".join(parts)


def _with_few_objects(data: bytes, n_objects: int) -> bytes:
    """Return as much of `data` from its start on as holds no more objects than that."""
    while (n := data.count(b"{")) > n_objects:
        data = data[: len(data) * n_objects // n]
    return data


def _is_top(header: bytes) -> bool:
    """Return whether a key that follows `header` would belong to the outermost object."""
    return read_object(header + b'"":0}') is not None


def _proved_cut(data: bytes, separator: bytes) -> Cut | None:
    """Return one of the last places where `separator` stands, if a whole event to its left proves it."""
    left, right = separator.index(b"}") + 1, len(separator) - 1
    cuts: list[Cut] = []
    at = len(data)
    while len(cuts) < _CUTS_TRIED:
        at = data.rfind(separator, 0, at)
        start = at + right if at >= 0 else 0
        for cut in cuts:
            if _is_event(data, start, cut.left):
                return cut
        if at < 0:
            break
        cuts.append(Cut(at + left, at + right))
    for before, cut in pairwise(reversed(cuts[: _MENDED + 1])):
        if cut.left - before.right < _MENDED_BYTES and _is_plainly_event(data[before.right : cut.left]):
            return cut
    return None


def _proved_end(data: bytes, separator: bytes) -> Cut | None:
    """Return the end of the list, if a whole event to its left proves it."""
    if empty := _EMPTY.match(data):
        return Cut(0, empty.end())
    for match in islice(_END.finditer(data), _ENDS_TRIED):
        end = Cut(match.start() + 1, match.end())
        at = end.left
        for _ in range(_STARTS_TRIED):
            at = data.rfind(separator, 0, at) if separator else -1
            if _is_event(data, at + len(separator) - 1 if at >= 0 else 0, end.left):
                return end
            if at < 0:
                break
    return None


def _walk(data: bytes) -> tuple[Cut | None, Cut | None]:
    """Return the last place between two events, and the end of the list where it is in `data`."""
    text = data.decode("latin-1")  # a character for each byte; what the text says does not matter here
    cut = None
    at = skip(text, 0)
    while at < len(text):
        found = step(text, at, _decoder)
        if not found.is_read and _is_open(data, at):
            found = next_sure_event(text, at, _decoder) or found._replace(next=len(text))
        if found.next == len(text):
            break
        if found.is_read and text[found.next] == "]" and _BEHIND_LIST.match(text, found.next + 1):
            return cut, Cut(found.end, found.next + 1)
        cut = Cut(found.end, found.next)
        at = found.next
    return cut, None


_decoder = json.JSONDecoder(strict=False)


def _is_open(data: bytes, start: int) -> bool:
    """Return whether what begins at `start` is right as far as the data go, and goes on behind them."""
    try:
        _raw.decode(memoryview(data)[start:])
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except (UnicodeDecodeError, RecursionError):
        pass
    return False


_raw = msgspec.json.Decoder(msgspec.Raw)


def _last_brace(data: bytes, start: int) -> int:
    """Return the end of the whole event that begins at `start`, 0 if none does."""
    at = len(data)
    for _ in range(_ENDS_TRIED):
        at = data.rfind(b"}", start, at)
        if at < 0:
            break
        if _is_event(data, start, at + 1):
            return at + 1
    return 0


def _is_plainly_event(text: bytes) -> bool:
    """Return whether a text that is no strict JSON was meant to be one whole event."""
    return {"ph", "pid"} <= (mended(text.decode("utf-8", "replace")) or {}).keys()


class _Probe(msgspec.Struct):
    ph: str
    pid: Any  # an object inside an event may have a key "ph"; one that has both is as good as an event


_probe = msgspec.json.Decoder(_Probe)


def _is_event(data: bytes, start: int, end: int) -> bool:
    if end - start > _PROOF_BYTES:
        return False
    try:
        _probe.decode(memoryview(data)[start:end])
        return True
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
