"""Files that commands write: over nothing but an earlier one of longpole's, and whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from longpole.errors import LongpoleError

_HEAD_BYTES = 4096
"""Of a file, as many tell whether it is longpole's."""

_PAGE_MARK = b'<meta name="generator" content="longpole'


def output_path(output: str | None, default: str, what: str, is_ours: Callable[[bytes], bool], *, force: bool) -> Path:
    """Return where a file goes.

    Args:
        what: What it is, in a word.
        is_ours: Whether a file with these first bytes is such a one of longpole's.

    Raises:
        LongpoleError: Something else lies there, or its folder does not exist.
    """
    path = Path(output or default)
    if path.is_dir():
        raise LongpoleError(f"{path} is a folder", "Name a file with -o.")
    if not path.parent.is_dir():
        raise LongpoleError(f"the folder {path.parent} does not exist", "Make it, or name another file with -o.")
    if path.exists() and not force:
        with path.open("rb") as file:
            if not is_ours(file.read(_HEAD_BYTES)):
                raise LongpoleError(f"{path} exists and is no {what} of longpole's", "Use --force to overwrite it.")
    return path


def page_path(output: str | None, default: str, *, force: bool) -> Path:
    """Return where a page goes.

    Raises:
        LongpoleError: As `output_path`.
    """
    return output_path(output, default, "page", lambda head: _PAGE_MARK in head, force=force)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file that is at `path` when all went well, and nowhere when not."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
        os.replace(beside, path)  # noqa: PTH105  atomic on every platform
    finally:
        beside.unlink(missing_ok=True)


def write_page(path: Path, html: str) -> None:
    """Write the page whole or not at all."""
    with whole_file(path) as file:
        file.write(html.encode("utf-8", "replace"))
