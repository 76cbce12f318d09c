"""A topology file: which rank ran on which host, node, rack and rail, as a person's CSV says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from longpole.errors import LongpoleError
from longpole.store import RankPlace

_COLUMNS = ("rank", "host", "node", "rack", "rail")
_CURE = f"It is a CSV with a header; columns: {', '.join(_COLUMNS)}; only rank must be there."


def load(path: str, beside: str) -> tuple[RankPlace, ...]:
    """Return the places of a topology file, by rank; a relative path counts from the folder of `beside`, a run.toml.

    Raises:
        LongpoleError: The file cannot be read, lacks its rank column, has an unknown one, or a rank is wrong or twice.
    """
    file = Path(beside).parent / path
    try:
        if file.exists() and not file.is_file():
            raise LongpoleError(f"the topology file {file} is no regular file", _CURE)
        with file.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            names = [n.strip() for n in reader.fieldnames or []]
            unknown = [n for n in names if n not in _COLUMNS]
            if "rank" not in names or unknown:
                named = [n for n in unknown if n.isidentifier() and len(n) < 32]
                wrong = f"has no column {named[0]!r}" if named and "rank" in names else "lacks its column rank"
                raise LongpoleError(f"the topology file {file} {wrong}", _CURE)
            reader.fieldnames = names
            places: dict[int, RankPlace] = {}
            for row in reader:
                text = (row["rank"] or "").strip()
                if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) in places or int(text) >= 2**31:
                    raise LongpoleError(f"the topology file {file}, line {reader.line_num}: rank {text!r}", _CURE)
                told = {n: (row.get(n) or "").strip() or None for n in _COLUMNS[1:]}
                places[int(text)] = RankPlace(int(text), **told)
    except (OSError, ValueError, csv.Error) as error:  # the second of text that is not UTF-8, or a name with a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise LongpoleError(f"the topology file {file} cannot be read: {reason}", _CURE) from error
    return tuple(places[rank] for rank in sorted(places))
