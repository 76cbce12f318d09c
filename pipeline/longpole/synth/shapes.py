"""What operators were called with, by their names: as the profiler writes it, and as the events have it."""

from __future__ import annotations

import json

_LINEAR = (
    '"Concrete Inputs": ["", "", ""], "Input type": ["float", "float", "float"], '
    '"Input Strides": [[4096, 1], [4096, 1], [1]], "Input Dims": [[8192, 4096], [16384, 4096], [16384]]'
)
ARGUMENTS = {
    "aten::linear": _LINEAR,
    "aten::addmm": (
        '"Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["float", "float", "float", "Scalar", '
        '"Scalar"], "Input Strides": [[1], [4096, 1], [1, 4096], [], []], '
        '"Input Dims": [[16384], [8192, 4096], [4096, 16384], [], []]'
    ),
    "aten::mm": (
        '"Concrete Inputs": ["", ""], "Input type": ["float", "float"], '
        '"Input Strides": [[1, 16384], [4096, 1]], "Input Dims": [[16384, 8192], [8192, 4096]]'
    ),
    "c10d::allreduce_": (
        '"Concrete Inputs": ["", "", "", "", "True", "-1"], '
        '"Input type": ["TensorList", "", "", "", "Scalar", "Scalar"], '
        '"Input Strides": [[[1]], [], [], [], [], []], "Input Dims": [[[6553600]], [], [], [], [], []]'
    ),
    "gloo:all_reduce": (
        '"Concrete Inputs": [""], "Input type": ["float"], "Input Strides": [[1]], "Input Dims": [[6553600]]'
    ),
}
"""Arguments as the profiler writes them, without the braces; an operator of another name has none."""


def _inputs(arguments: str) -> str:
    said = json.loads(f"{{{arguments}}}")
    shapes = json.dumps(said["Input Dims"], separators=(",", ":"))
    return f"{shapes}|{';'.join(said['Input type'])}|"


INPUTS = {name: _inputs(arguments) for name, arguments in ARGUMENTS.items()}
"""The same as the column `inputs` of an event."""
