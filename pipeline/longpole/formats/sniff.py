"""What a file is when it is no profiler dump: one phrase for a person, and what to do instead."""

from __future__ import annotations

import re
import shlex

from longpole.formats.repair import mended
from longpole.formats.tally import sample

_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    # first bytes, what such a file is, what to do
    (b"SQLite format 3\0", "an SQLite database", "Give the database that a profiler wrote."),
    (b"PAR1", "a Parquet file", "Give the profiler's own dump."),
    (b"PK\x03\x04", "a zip archive", "Unpack it and give the dumps inside."),
    (b"\x28\xb5\x2f\xfd", "a file compressed with zstd", "Decompress it first: zstd -d {path}"),
    (b"\xfd7zXZ\0", "a file compressed with xz", "Decompress it first: xz -d {path}"),
    (b"BZh", "a file compressed with bzip2", "Decompress it first: bzip2 -d {path}"),
    (b"\x04\x22\x4d\x18", "a file compressed with lz4", "Decompress it first: lz4 -d {path}"),
    (b"\x1f\x8b", "a gzip file that cannot be decompressed", "Copy it again: it is damaged from the start."),
    (b"\x89HDF\r\n", "an HDF5 file", ""),
    (b"\x7fELF", "a program", ""),
)
_CUT_HEADER = 'a profiler dump cut off in its header, before the first of its "traceEvents"'
_NSIGHT_REPORTS = (".nsys-rep", ".qdrep")
_DUMP = "Give the JSON that torch.profiler wrote: export_chrome_trace or tensorboard_trace_handler."
HEAD_BYTES = 64 << 10
"""As much as a caller shows of a file."""

_LIST_OF_EVENTS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{(?=.*?"ph"\s*:)', re.DOTALL)
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_KINETO_KEYS = {b"schemaVersion", b"deviceProperties", b"distributedInfo", b"baseTimeNanoseconds"}
_MARKUP = re.compile(rb"\s*<(?:!doctype|html|\?xml)", re.IGNORECASE)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


def is_trace_events(head: bytes) -> bool:
    """Return whether a file that begins with `head` may hold trace events: a list of them, or an object that has one.

    An object whose key "traceEvents" is further away than the head reaches may be one.
    """
    if _LIST_OF_EVENTS.match(head):
        return True
    if not _OBJECT.match(head) or _is_execution_trace(head):
        return False
    return b'"traceEvents"' in head or len(head) >= HEAD_BYTES


def describe(head: bytes, path: str) -> str:
    """Return what a file that begins with `head` is, as a phrase such as "an HTML page".

    Args:
        head: Its first bytes, decompressed where it is gzip.
        path: Its name, for formats without a magic of their own.
    """
    return _what(head, path)[0]


def refusal(head: bytes, path: str) -> tuple[str, str]:
    """Return fact and cure of the error for a file that begins with `head` and is no profiler dump."""
    what, cure = _what(head[:HEAD_BYTES], path)
    fact = f"{path} is {what}" if what == _CUT_HEADER else f"{path} is {what}, not a profiler dump"
    return fact, cure.replace("{path}", shlex.quote(path))


def _what(head: bytes, path: str) -> tuple[str, str]:
    if path.lower().endswith(_NSIGHT_REPORTS):
        return "an Nsight Systems report", "Export it first: nsys export --type sqlite {path}"
    if not head:
        return "empty", "The job may have died before it wrote anything; leave the file out."
    for magic, what, cure in _MAGIC:
        if head.startswith(magic):
            return what, cure
    if _MARKUP.match(head):
        return "an HTML page", "A download may have been answered with an error page; fetch the dump again."
    if _PICKLE.match(head):
        return "a Python pickle (such as PyTorch's flight recorder writes)", _DUMP
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _json(head)
    if not head.strip(b"\0"):
        return (
            "nothing but zero bytes",
            "The job or the machine may have died while it was written; leave the file out.",
        )
    try:
        head[:4096].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head[:4096]) - 4:
            return "a binary file of an unknown kind", _DUMP
    return f"plain text (it begins {sample(head.decode('utf-8', 'replace'))[:40]!r})", _DUMP


def _json(head: bytes) -> tuple[str, str]:
    if _is_execution_trace(head):
        return (
            "a PyTorch execution trace (ET)",
            "The profiler of the same job writes the dump: torch.profiler's export_chrome_trace.",
        )
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith("["):
        return "a JSON list without events", _DUMP
    keys = _first_keys(text)
    if not keys:
        return "an empty JSON object" if mended(text) == {} else "JSON cut off before its first key", _DUMP
    if _KINETO_KEYS & {key.encode() for key in keys}:
        return _CUT_HEADER, "The job may have died while it was written; leave the file out."
    if "entries" in keys and "pg_config" in keys:
        return "a flight recorder dump", _DUMP
    return f'JSON without "traceEvents" (its first keys: {", ".join(keys[:5])})', _DUMP


def _is_execution_trace(head: bytes) -> bool:
    """Return whether the head is that of an execution trace: "schema" and "nodes", and no "traceEvents" before them."""
    nodes = re.search(rb'"nodes"\s*:\s*\[', head)
    if not nodes or not _OBJECT.match(head):
        return False
    before = head[: nodes.start()]
    return b'"schema"' in before and b'"traceEvents"' not in before


def _first_keys(text: str) -> list[str]:
    """Return the keys of the outermost object as far as the text goes; those of inner objects do not count."""
    keys = []
    depth = 0
    for match in _TOKEN.finditer(text):
        found = match.group(0)
        if found in "{[":
            depth += 1
        elif found in "}]":
            depth -= 1
        elif depth == 1 and match.group(1) is not None:
            keys.append(sample(match.group(1))[:40])
    return keys


_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"(?=\s*:)|"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
