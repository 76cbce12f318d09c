"""A pickle of plain data is read as pickle itself would; one that would do anything is refused and does nothing."""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longpole.errors import DumpError
from longpole.formats import plain_pickle

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | st.text(max_size=20)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner) | st.dictionaries(SCALARS, inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None)
@given(value=PLAIN, protocol=st.integers(0, 5))
def test_plain_data_is_what_pickle_makes_of_it(value: Any, protocol: int) -> None:
    raw = pickle.dumps(value, protocol)
    found = plain_pickle.load(raw, "dump")
    assert repr(found) == repr(pickle.loads(raw))  # noqa: S301  of this test's own making


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error_with_a_cure(raw: bytes) -> None:
    try:
        plain_pickle.load(raw, "dump")
    except DumpError as error:
        assert error.fact.startswith("dump is ")
        assert error.cure


class Attack:
    """What runs a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def attacks(target: Path) -> dict[str, tuple[bytes, str]]:
    """Return pickles that would make a file, by the route that they take, and the first opcode that is refused."""
    command = f"touch {target}".encode()
    text = b"X" + struct.pack("<I", len(command)) + command
    system = Attack(__import__("os").system, command.decode())
    return {
        "reduce, protocol 0": (pickle.dumps(system, 0), "GLOBAL"),
        "reduce, protocol 2": (pickle.dumps(system, 2), "GLOBAL"),
        "reduce, protocol 4": (pickle.dumps(system, 4), "STACK_GLOBAL"),
        "within a dump": (pickle.dumps({"version": "2.10", "entries": [system]}, 2), "GLOBAL"),
        "as a key": (pickle.dumps({"entries": {(1, system): 1}}, 2), "GLOBAL"),
        "inst": (b"(S'" + command + b"'\nios\nsystem\n.", "STRING"),
        "inst without a text": (b"(" + text + b"ios\nsystem\n.", "INST"),
        "obj": (b"(cos\nsystem\n" + text + b"o.", "GLOBAL"),
        "obj alone": (b"(" + text + b"o.", "OBJ"),
        "newobj": (b"\x80\x02" + text + b")\x81.", "NEWOBJ"),
        "newobj_ex": (b"\x80\x04" + text + b")}\x92.", "NEWOBJ_EX"),
        "build": (b"\x80\x02}" + text + b"b.", "BUILD"),
        "reduce alone": (b"\x80\x02" + text + text + b"\x85R.", "REDUCE"),
        "extension 1": (b"\x80\x02\x82\x01.", "EXT1"),
        "extension 2": (b"\x80\x02\x83\x01\x00.", "EXT2"),
        "extension 4": (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4"),
        "persistent id": (b"P1\n.", "PERSID"),
        "persistent id on the stack": (b"\x80\x02K\x01Q.", "BINPERSID"),
        "a buffer from outside": (b"\x80\x05\x97.", "NEXT_BUFFER"),
        "a set": (pickle.dumps({1, 2}, 4), "EMPTY_SET"),
        "bytes": (pickle.dumps(b"abc", 4), "SHORT_BINBYTES"),
        "an ordered dict": (pickle.dumps(OrderedDict(a=1), 4), "STACK_GLOBAL"),
        "no opcode": (b"\xff", "0xff"),
    }


@pytest.mark.parametrize("route", sorted(attacks(Path("target"))))
def test_a_pickle_that_would_do_something_is_refused_and_does_nothing(tmp_path: Path, route: str) -> None:
    target = tmp_path / "owned"
    raw, opcode = attacks(target)[route]
    with pytest.raises(DumpError) as refused:
        plain_pickle.load(raw, "dump")
    assert f"the opcode {opcode} at byte" in refused.value.fact
    assert not target.exists()


def test_the_attack_of_these_tests_would_work(tmp_path: Path) -> None:
    target = tmp_path / "owned"
    pickle.loads(attacks(target)["reduce, protocol 2"][0])  # noqa: S301  the point of it
    assert target.exists()


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "cut off"),
        (pickle.dumps({"entries": [1, 2, 3]}, 2)[:-3], "cut off"),
        (b"\x80\x02]q\x00h\x00a.", "holds itself"),
        (b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".", "levels"),
        (b"\x80\x02" + b"(" * 5000, "levels"),
        (b"\x80\x02})K\x01s.", "tuple as a key"),
        (b"\x80\x02}" + b"\x8a\x20" + b"\x01" * 32 + b"K\x01s.", "enormous number"),
        (b"\x80\x09N.", "protocol 9"),
        (b"\x80\x02K\x01K\x02.", "damaged"),
        (b"\x80\x02K\x01K\x02a.", "damaged"),
        (b"\x80\x02h\x07.", "damaged"),
        (b"X\xff\xff\xff\xff.", "cut off"),
        (b"\x8b\xff\xff\xff\x7f.", "LONG4"),
    ],
)
def test_what_is_damaged_or_made_to_exhaust_is_refused(raw: bytes, told: str) -> None:
    with pytest.raises(DumpError, match=told):
        plain_pickle.load(raw, "dump")


def test_more_values_or_bytes_than_any_dump_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_VALUES", 3)
    with pytest.raises(DumpError, match="more than 3 values"):
        plain_pickle.load(pickle.dumps([1, 2, 3], 2), "dump")
    monkeypatch.setattr(plain_pickle, "MOST_BYTES", 3)
    with pytest.raises(DumpError, match="more than 3"):
        plain_pickle.load(pickle.dumps([1], 2), "dump")


def test_a_text_named_often_is_one_text() -> None:
    once = "a name of a frame"
    found = plain_pickle.load(pickle.dumps([once, once, [once]], 2), "dump")
    assert found[0] is found[1] is found[2][0]
