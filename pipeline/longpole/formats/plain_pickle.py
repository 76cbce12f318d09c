"""Pickles as data: a machine for those opcodes that build plain values; any other is refused, so nothing can run.

    value = load(b"...")

A pickle is a program. Its opcodes for classes, calls and references outside it have no counterpart here.
"""

from __future__ import annotations

import pickletools
import struct
from typing import Any

from longpole.errors import DumpError

MOST_BYTES = 64 << 20
"""Bytes of a pickle: 20,000 records of a flight recorder with 30 frames each are 46 MB."""

MOST_VALUES = 4_000_000
"""Values it may make: 20,000 such records have 1.9 million, each at most some 250 bytes here."""

MOST_DEPTH = 100
"""Containers within each other; a flight recorder's dump has six."""

_MOST_DIGITS = 40  # of a number written as text
_LARGEST_KEY = 1 << 64  # as a dictionary's key: larger ones can be chosen so that all meet in one place
_CURE = "A flight recorder's dump holds plain values alone; copy it again, and do not load it by other means."

_FIXED = {b"K": struct.Struct("<B"), b"M": struct.Struct("<H"), b"J": struct.Struct("<i"), b"G": struct.Struct(">d")}
_TEXTS = {b"\x8c": struct.Struct("<B"), b"X": struct.Struct("<I"), b"\x8d": struct.Struct("<Q")}
_PUTS = {b"q": struct.Struct("<B"), b"r": struct.Struct("<I")}
_GETS = {b"h": struct.Struct("<B"), b"j": struct.Struct("<I")}
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False, b")": ()}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
_NAMES = {opcode.code: opcode.name for opcode in pickletools.opcodes}
_WRITTEN_BOOLS = {b"00": False, b"01": True}


def load(raw: bytes, path: str) -> Any:
    """Return the value that a pickle describes: dicts, lists, tuples, texts, numbers, booleans and None.

    Args:
        path: Of the file, for errors.

    Raises:
        DumpError: It would do anything else, is cut off or damaged, or is larger than any dump.
    """
    if len(raw) > MOST_BYTES:
        raise DumpError(f"{path} is a pickle of {len(raw):,} bytes, more than {MOST_BYTES:,}", _CURE)
    try:
        value = _Machine(raw).run()
        _refuse_depth(value)
    except _RefusedError as error:
        raise DumpError(f"{path} {error}", _CURE) from None
    except (IndexError, struct.error, EOFError):
        raise DumpError(f"{path} is a damaged pickle, or it is cut off", _CURE) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DumpError(f"{path} is a damaged pickle", _CURE) from None
    return value


class _RefusedError(Exception):
    """Why a pickle is not read, as the end of a sentence that begins with its name."""


class _Machine:
    """The stack of values, the stacks below each mark, and what was memorised."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.n_values = 0

    def run(self) -> Any:
        """Return the one value that is left at the end."""
        raw = self.raw
        while True:
            start = self.at
            code = raw[start : start + 1]
            self.at = start + 1
            if code in _PUTS:
                self._memorise(self._number(_PUTS[code]))
            elif code in _GETS:
                self.stack.append(self.memo[self._number(_GETS[code])])
            elif code in _TEXTS:
                self._push(self._take(self._number(_TEXTS[code])).decode("utf-8", "surrogatepass"))
            elif code in _FIXED:
                self._push(self._number(_FIXED[code]))
            elif code in _CONSTANTS:
                self._push(_CONSTANTS[code])
            elif code == b".":
                return self._last()
            elif not self._build(code) and not self._frame(code) and not self._written(code):
                if not code:
                    raise EOFError
                name = _NAMES.get(code.decode("latin-1"), f"{code[0]:#04x}")
                raise _RefusedError(f"is a pickle with the opcode {name} at byte {start}, which is not plain data")

    def _build(self, code: bytes) -> bool:
        """Make or fill a container; return whether the opcode is one that does."""
        if code == b"(":
            if len(self.below) >= MOST_DEPTH:
                raise _RefusedError(f"is a pickle of more than {MOST_DEPTH} levels")
            self.below.append(self.stack)
            self.stack = []
        elif code == b"}":
            self._push({})
        elif code == b"]":
            self._push([])
        elif code == b"a":
            item = self.stack.pop()
            _list(self.stack[-1]).append(item)
        elif code == b"e":
            items = self._marked()
            _list(self.stack[-1]).extend(items)
        elif code == b"s":
            item, key = self.stack.pop(), self.stack.pop()
            _dict(self.stack[-1])[_key(key)] = item
        elif code == b"u":
            items = self._marked()
            _fill(_dict(self.stack[-1]), items)
        elif code == b"t":
            self._push(tuple(self._marked()))
        elif code == b"l":
            self._push(self._marked())
        elif code == b"d":
            self._push(_fill({}, self._marked()))
        elif code in _TUPLES:
            n_items = _TUPLES[code]
            if len(self.stack) < n_items:
                raise IndexError
            items = self.stack[-n_items:]
            del self.stack[-n_items:]
            self._push(tuple(items))
        else:
            return False
        return True

    def _frame(self, code: bytes) -> bool:
        """Pass what only says how the pickle is written, or memorise; return whether the opcode is one of these."""
        if code == b"\x80":
            (protocol,) = self._take(1)
            if protocol > 5:
                raise _RefusedError(f"is a pickle of protocol {protocol}, which is not known")
        elif code == b"\x95":
            self._take(8)
        elif code == b"\x94":
            self._memorise(len(self.memo))
        elif code == b"\x8a":
            (n_bytes,) = self._take(1)
            self._push(int.from_bytes(self._take(n_bytes), "little", signed=True))
        else:
            return False
        return True

    def _written(self, code: bytes) -> bool:
        """Read what protocol 0 writes as a line of text; return whether the opcode is one of these."""
        if code == b"I":
            line = self._line()
            self._push(_WRITTEN_BOOLS[line] if line in _WRITTEN_BOOLS else int(line))
        elif code == b"L":
            self._push(int(self._line().removesuffix(b"L")))
        elif code == b"F":
            self._push(float(self._line()))
        elif code == b"V":
            self._push(self._line(MOST_BYTES).decode("raw-unicode-escape"))
        elif code == b"p":
            self._memorise(int(self._line()))
        elif code == b"g":
            self.stack.append(self.memo[int(self._line())])
        else:
            return False
        return True

    def _push(self, value: Any) -> None:
        self.n_values += 1
        if self.n_values > MOST_VALUES:
            raise _RefusedError(f"is a pickle of more than {MOST_VALUES:,} values")
        self.stack.append(value)

    def _memorise(self, place: int) -> None:
        if place < 0 or len(self.memo) > MOST_VALUES:
            raise ValueError(place)
        self.memo[place] = self.stack[-1]

    def _marked(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def _last(self) -> Any:
        if self.below or len(self.stack) != 1:
            raise ValueError
        return self.stack[0]

    def _number(self, kind: struct.Struct) -> Any:
        (number,) = kind.unpack_from(self.raw, self.at)
        self.at += kind.size
        return number

    def _take(self, n_bytes: int) -> bytes:
        taken = self.raw[self.at : self.at + n_bytes]
        if len(taken) < n_bytes:
            raise EOFError
        self.at += n_bytes
        return taken

    def _line(self, longest: int = _MOST_DIGITS) -> bytes:
        end = self.raw.find(b"\n", self.at)
        if end < 0:
            raise EOFError
        if end - self.at > longest:  # to read a number takes time that grows with the square of its digits
            raise ValueError
        line = self.raw[self.at : end]
        self.at = end + 1
        return line


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise TypeError
    return value


def _fill(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError
    for key, item in zip(items[::2], items[1::2], strict=True):
        target[_key(key)] = item
    return target


def _key(value: Any) -> Any:
    """Return a value that may be a key: hashing tuples within tuples would go as deep as they do."""
    if type(value) is int and abs(value) > _LARGEST_KEY:
        raise _RefusedError("is a pickle with an enormous number as a key")
    if value is not None and type(value) not in (str, int, float, bool):
        raise _RefusedError(f"is a pickle with a {type(value).__name__} as a key")
    return value


def _refuse_depth(value: Any) -> None:
    """Refuse what holds itself or is nested too deeply, so that whoever reads it may go down it."""
    depths: dict[int, int] = {}  # levels of each finished container; 0 while what it holds is looked at
    pending = [value]
    while pending:
        current = pending[-1]
        if type(current) not in (dict, list, tuple) or depths.get(id(current)):
            pending.pop()
            continue
        inside = [v for v in (current.values() if type(current) is dict else current) if type(v) in (dict, list, tuple)]
        todo = [v for v in inside if id(v) not in depths]
        if id(current) not in depths:
            depths[id(current)] = 0
            if any(depths.get(id(v)) == 0 for v in inside):
                raise _RefusedError("is a pickle with a value that holds itself")
            if todo:
                pending += todo
                continue
        depths[id(current)] = depth = 1 + max((depths[id(v)] for v in inside), default=0)
        if depth > MOST_DEPTH or any(depths[id(v)] == 0 for v in inside):
            raise _RefusedError(f"is a pickle of more than {MOST_DEPTH} levels, or with a value that holds itself")
        pending.pop()
