"""JSON lines, as training loops log them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def json_lines(rows: Iterable[Any]) -> str:
    """Return the rows as JSON, one a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)
