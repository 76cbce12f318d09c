"""A first look at a file: enough of its text to tell its format, whatever its name says."""

from __future__ import annotations

import io
import zlib
from typing import BinaryIO

from longpole import remote
from longpole.errors import DumpError
from longpole.formats import reader_for
from longpole.formats.telemetry_csv import is_telemetry

HEAD_BYTES = 64 << 10


def head_of(file: BinaryIO) -> bytes:
    """Return up to 64 KiB from the file's beginning, decompressed where it is gzip."""
    head = file.read(HEAD_BYTES)
    if head[:2] != b"\x1f\x8b":
        return head
    try:
        return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return head


def head_at(url: str) -> bytes:
    """Return as `head_of` does; of a remote file no more is fetched.

    Raises:
        OSError: It cannot be read.
    """
    return head_of(io.BytesIO(remote.head_of(url, HEAD_BYTES)))


def refusal_of(url: str, name: str) -> DumpError | None:
    """Return why the file is no dump of a known format, and what to do; None where it is one."""
    try:
        head = head_at(url)
        if not is_telemetry(head):
            reader_for(head, name)
    except DumpError as error:
        return error
    except remote.failures() as error:
        return DumpError(f"{name} cannot be read: {remote.reason(error)}", "Make it readable.")
    return None
