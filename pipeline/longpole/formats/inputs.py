"""What an operator was called with, as one text: the shapes of its inputs, their types, and numbers it needs besides.

    [[8192,4096],[4096,1536]]|c10::Half;c10::Half|
    [[10,256,14,14],[512,256,3,3],[],[],[],[],[],[],[]]|c10::BFloat16;...|;;;[2, 2];[1, 1];[1, 1];False;[0, 0];1

One place an argument; a list of tensors is a list of shapes. The third part is there only for operators whose work does
not follow from shapes and types: convolutions and scaled products. Dumps nest shapes as deeply as it happens, which no
explicit schema takes, so in the bytes of a block they are put in quotes before the engine reads it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_LIST = rb"\"\s*:\s*(\[[\[\]0-9,\s-]*\])"


@dataclass(frozen=True)
class Keys:
    """The keys of "args" that tell an operator's inputs."""

    types: str
    shapes: tuple[str, ...]  # the first, and other spellings of it
    values: str

    @property
    def first(self) -> tuple[str, str, str]:
        """The keys of a block whose shapes are in quotes, in the order of ARG_TYPES."""
        return self.types, self.shapes[0], self.values

    @property
    def all(self) -> tuple[str, ...]:
        """All of them, other spellings last."""
        return (*self.first, *self.shapes[1:])

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """What finds the shapes in the bytes of a block."""
        spelt = b"|".join(re.escape(key.encode()) for key in self.shapes)
        return re.compile(rb'"(?:%b)' % spelt + _LIST)


LONGEST = 4_096
"""Characters of one such text; a longer one (an optimizer's list of a thousand tensors) is not kept: NULL."""

_TEXTS = pa.list_(pa.string())
ARG_TYPES = (_TEXTS, pa.string(), _TEXTS)
"""Type of each of `Keys.first` as the engine reads it from a block whose shapes are in quotes."""

_WRITTEN = r"^\[[\[\]0-9,-]*[0-9][\[\]0-9,-]*\]$"  # a text without any size tells nothing
_NEED_VALUES = r"conv|_scaled_"


def with_quoted_shapes(block: bytes, keys: Keys) -> bytes:
    """Return the block with every list of shapes as text, under the first spelling of its key.

    What is put in quotes holds digits and brackets alone, so no quote or escape can go wrong; text that only looks like
    the key, inside a name, has its quotes escaped and so does not match.
    """
    known = _Quoted(keys.shapes[0].encode())
    return keys.pattern.sub(lambda match: known[match[0]], block)


class _Quoted(dict[bytes, bytes]):
    """What stands for each text that was matched: a block has tens of thousands of them, and few distinct ones."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, written: bytes) -> bytes:
        colon = written.index(b":", written.index(b'"', 1))
        shapes = written[written.index(b"[", colon) :].translate(None, b" \t\r\n")
        self[written] = quoted = b'"%b":"%b"' % (self._key, shapes)
        return quoted


def texts(names: pa.Array, types: pa.Array, shapes: pa.Array, values: pa.Array) -> pa.Array:
    """Return the text of each event, NULL where its shapes are missing, odd or too long.

    Args:
        names: Names of the events.
        types: A list of texts for each event.
        shapes: As text.
        values: Likewise.
    """
    if shapes.null_count == len(shapes):
        return pa.nulls(len(shapes), pa.string())
    nothing = pa.scalar(None, pa.string())
    coded = shapes.dictionary_encode()
    words = coded.dictionary
    is_kept = pc.and_(pc.less_equal(pc.binary_length(words), LONGEST), pc.match_substring_regex(words, _WRITTEN))
    kept = pa.DictionaryArray.from_arrays(coded.indices, pc.if_else(is_kept, words, nothing)).cast(pa.string())
    needed = pc.match_substring_regex(pc.fill_null(names, ""), _NEED_VALUES)
    whole = pc.binary_join_element_wise(
        kept,
        pc.fill_null(pc.binary_join(types, ";"), ""),
        pc.if_else(needed, pc.fill_null(pc.binary_join(values, ";"), ""), ""),
        "|",
    )
    return pc.if_else(pc.less_equal(pc.binary_length(whole), LONGEST), whole, nothing)


def texts_of_values(
    names: pa.Array, types: list[Any], shapes: list[Any], values: list[Any], *older: list[Any]
) -> pa.Array:
    """Return the same texts from values of any JSON type, as `Keys.all` orders them."""
    for other in older:
        shapes = [b if a is None else a for a, b in zip(shapes, other, strict=True)]
    if all(value is None for value in shapes):
        return pa.nulls(len(shapes), pa.string())
    return texts(names, _lists(types), pa.array(map(_text, shapes), pa.string()), _lists(values))


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))
    return value if isinstance(value, str) else None


def _lists(values: list[Any]) -> pa.Array:
    return pa.array([v if isinstance(v, list) and set(map(type, v)) <= {str} else None for v in values], _TEXTS)
