"""The shapes of operators' inputs are kept as one short text, the same whichever way a block is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from formats.reading import dump, event, names, read
from longpole.formats.decode import Parsed, finish, parse_whole
from longpole.formats.mixed import parse_mixed
from longpole.formats.salvage import parse_each

MM: dict[str, Any] = {
    "Concrete Inputs": ["", ""],
    "Input type": ["c10::Half", "c10::Half"],
    "Input Strides": [[4096, 1], [1, 4096]],
    "Input Dims": [[8192, 4096], [4096, 1536]],
}
MM_TEXT = "[[8192,4096],[4096,1536]]|c10::Half;c10::Half|"


def operator(name: str = "aten::mm", **args: Any) -> dict[str, Any]:
    return event(name, cat="cpu_op", args={"External id": 3} | args)


def kept(*events: str | dict[str, Any]) -> list[str | None]:
    return [row["inputs"] for row in read(dump(*events))[0]]


def test_shapes_and_types_of_an_operator_are_kept_without_blanks() -> None:
    assert kept(event("k"), operator(**MM), operator("aten::view")) == [None, MM_TEXT, None]


@pytest.mark.parametrize("key", ["Input Dims", "Input dims", "Input Shapes"])
def test_older_spellings_of_the_key_say_the_same(key: str) -> None:
    args = {("Input type" if k == "Input type" else key): MM[k] for k in ("Input type", "Input Dims")}
    assert kept(operator(**args)) == [MM_TEXT]


def test_a_list_of_tensors_is_a_list_of_shapes() -> None:
    args: dict[str, Any] = {"Input Dims": [[[4, 2048], [16]], [], [3]], "Input type": ["TensorList", "Scalar", "float"]}
    assert kept(operator("aten::cat", **args)) == ["[[[4,2048],[16]],[],[3]]|TensorList;Scalar;float|"]


def test_values_are_kept_for_convolutions_and_scaled_products_alone() -> None:
    args: dict[str, Any] = {
        "Input Dims": [[10, 3, 8, 8], [5, 3, 3, 3], [], [], []],
        "Input type": ["float", "float", "", "ScalarList", "ScalarList"],
        "Concrete Inputs": ["", "", "", "[2, 2]", "[1, 1]"],
    }
    shapes = "[[10,3,8,8],[5,3,3,3],[],[],[]]|float;float;;ScalarList;ScalarList|"
    assert kept(operator("aten::_convolution", **args), operator("aten::add", **args)) == [
        shapes + ";;;[2, 2];[1, 1]",
        shapes,
    ]


@pytest.mark.parametrize(
    "shapes",
    [
        [],
        [[], []],  # scalars alone: no size to tell
        None,
        "none",
        {"a": [1]},
        [["8", 4]],
        [[1.5]],
        [[None, 4]],
        [list(range(3_000))],  # longer than is kept
    ],
)
def test_shapes_that_are_missing_odd_or_endless_are_null_and_the_event_stays(shapes: object) -> None:
    rows, facts = read(dump(event("a"), operator(**(MM | {"Input Dims": shapes})), operator(**MM)))
    assert (names(rows), [row["inputs"] for row in rows]) == (["a", "aten::mm", "aten::mm"], [None, None, MM_TEXT])
    assert (facts.n_dropped, facts.n_stored) == (0, 3)


def test_types_beyond_the_limit_leave_no_text_at_all() -> None:
    endless: dict[str, Any] = {"Input Dims": [[2]], "Input type": ["x" * 5_000]}
    assert kept(operator(**endless), operator(**MM)) == [None, MM_TEXT]


def test_a_name_that_looks_like_shapes_is_read_as_it_stands() -> None:
    name = 'x", "Input Dims": [[1]], "y'
    rows, _ = read(dump(operator(name, **MM), operator('"Input Dims": [[2]]', **MM)))
    assert names(rows) == [name, '"Input Dims": [[2]]']
    assert [row["inputs"] for row in rows] == [MM_TEXT, MM_TEXT]


def test_shapes_over_several_lines_are_read() -> None:
    text = json.dumps({"traceEvents": [operator(**MM), event("k")]}, indent=1)
    rows, facts = read(text)
    assert [row["inputs"] for row in rows] == [MM_TEXT, None]
    assert facts.n_salvaged == 0


@pytest.mark.parametrize("parse", [parse_whole, parse_mixed, parse_each])
@pytest.mark.parametrize(
    ("args", "text"),
    [
        (MM, MM_TEXT),
        ({**MM, "Input type": ["c10::Half", None]}, "[[8192,4096],[4096,1536]]||"),
        ({"Input Dims": [[7]]}, "[[7]]||"),
        ({"Input Dims": [[7]], "Input type": ["int"]}, "[[7]]|int|"),
    ],
)
def test_every_rung_gives_the_same_text(parse: Callable[[memoryview], Parsed], args: dict[str, Any], text: str) -> None:
    block = memoryview(json.dumps([operator(**args), operator(**MM), event("k")]).encode()[1:-1])
    decoded = finish(parse(block), keep_python=False)
    assert decoded.table["inputs"].to_pylist() == [text, MM_TEXT, None]


def test_a_block_with_shapes_after_blocks_without_is_read_like_any() -> None:
    plain = [event(f"k{n}", ts=n) for n in range(40_000)]  # more than one block of 4 MiB
    rows, _ = read(dump(operator(**MM), *plain, operator(**MM), event("z")))
    assert [row["inputs"] for row in rows if row["category"] == "cpu_op"] == [MM_TEXT, MM_TEXT]
    assert {row["inputs"] for row in rows if row["category"] == "kernel"} == {None}
