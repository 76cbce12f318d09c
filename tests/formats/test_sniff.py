"""A file that is no dump is refused with what it is and what to do instead."""

from __future__ import annotations

import io
import json
import pickle

import pytest

from formats.reading import dump, event, read
from longpole.errors import DumpError
from longpole.formats import reader_for, sniff
from longpole.formats.kineto import KinetoReader

EXECUTION_TRACE = json.dumps(
    {"schema": "1.1.0-chakra.0.0.4", "pid": 7, "time": "2026-01-01", "start_ts": 1, "nodes": [{"id": 1, "name": "x"}]}
).encode()

FILES = [
    (b"", "empty"),
    (b"<!DOCTYPE html>\n<html><body>403 Forbidden</body></html>", "an HTML page"),
    (b"\n<HTML><head>", "an HTML page"),
    (b"SQLite format 3\0\x10\0", "an SQLite database"),
    (pickle.dumps({"version": "2.10", "entries": []}), "a Python pickle (such as PyTorch's flight recorder writes)"),
    (b"PAR1\x15\x04\x15", "a Parquet file"),
    (b"PK\x03\x04\x14\0", "a zip archive"),
    (b"\x28\xb5\x2f\xfd\x04", "a file compressed with zstd"),
    (b"\xfd7zXZ\0\0", "a file compressed with xz"),
    (b"BZh91AY", "a file compressed with bzip2"),
    (b"\x7fELF\x02\x01", "a program"),
    (bytes(100), "nothing but zero bytes"),
    (b"step 1 loss 2.3\nstep 2 loss 2.2\n", "plain text (it begins 'step 1 loss 2.3 step 2 loss 2.2')"),
    (b"\x01\xff\xfe\x80binary", "a binary file of an unknown kind"),
    (EXECUTION_TRACE, "a PyTorch execution trace (ET)"),
    (
        b'{"tori": 1, "rem": {"inner": 2}, "Ms": [{"deep": 1}]}',
        'JSON without "traceEvents" (its first keys: tori, rem, Ms)',
    ),
    (b'{"version": "2.10", "pg_config": {}, "entries": []}', "a flight recorder dump"),
    (b"{}", "an empty JSON object"),
    (b'{"sch', "JSON cut off before its first key"),
    (b"[]", "a JSON list without events"),
    (b"[1, 2]", "a JSON list without events"),
    (b'[{"loss": 1}]', "a JSON list without events"),
]


@pytest.mark.parametrize(("head", "phrase"), FILES)
def test_a_file_that_is_no_dump_is_named(head: bytes, phrase: str) -> None:
    assert sniff.describe(head, "some.file") == phrase
    with pytest.raises(DumpError) as error:
        read(head, path="some.file")
    assert error.value.fact == f"some.file is {phrase}, not a profiler dump"


@pytest.mark.parametrize("head", [b"", b"<html>", EXECUTION_TRACE, b"[1, 2]", b"plain text"])
def test_no_reader_takes_it(head: bytes) -> None:
    with pytest.raises(DumpError) as error:
        reader_for(head, "some.file")
    assert error.value.fact == f"some.file is {sniff.describe(head, 'some.file')}, not a profiler dump"


def test_an_nsight_report_is_refused_with_the_command_that_exports_it() -> None:
    with pytest.raises(DumpError) as error:
        reader_for(b"\x01\x02\x03binary", "run/{x}.nsys-rep")
    assert error.value.fact == "run/{x}.nsys-rep is an Nsight Systems report, not a profiler dump"
    assert error.value.cure == "Export it first: nsys export --type sqlite 'run/{x}.nsys-rep'"


def test_compression_that_is_not_read_comes_with_its_command() -> None:
    with pytest.raises(DumpError) as error:
        reader_for(b"\x28\xb5\x2f\xfd", "a.json.zst")
    assert error.value.cure == "Decompress it first: zstd -d a.json.zst"


def test_gzip_that_is_damaged_from_the_start_is_said_to_be() -> None:
    with pytest.raises(DumpError, match=r"d\.json\.gz cannot be decompressed: the gzip stream is damaged"):
        read(b"\x1f\x8b\x08\x00" + b"\x11" * 500, path="d.json.gz")


def test_json_that_never_comes_to_its_events_is_refused_after_all() -> None:
    text = '{"first": 1, "blob": "' + "x" * 100_000 + '"}'
    assert sniff.is_trace_events(text[: sniff.HEAD_BYTES].encode())
    with pytest.raises(DumpError) as error:
        read(text, path="d.json")
    assert error.value.fact == 'd.json is JSON without "traceEvents" (its first keys: first, blob), not a profiler dump'


@pytest.mark.parametrize(
    "text",
    [
        dump(event()),
        "\ufeff" + dump(event()),
        json.dumps({"traceEvents": [event()]}),
        json.dumps([event()]),
        json.dumps([event(args={"x": {"y": 1}})], indent=1),
        '[{"name": "a", "ph": "X"',
        '{"nodes": 3, "schema": 1, "traceEvents": []}',
        '{"traceEvents": [], "schema": "x", "nodes": []}',
    ],
)
def test_trace_events_are_recognised_in_any_container(text: str) -> None:
    assert isinstance(reader_for(text.encode(), "a.bin"), KinetoReader)


def test_a_header_of_any_length_may_stand_before_the_events() -> None:
    text = '{"metadata": "' + "x" * 200_000 + '", "traceEvents": [' + json.dumps(event("a")) + "]}"
    assert isinstance(reader_for(text.encode()[: sniff.HEAD_BYTES], "a.json"), KinetoReader)
    rows, _ = read(text)
    assert [row["name"] for row in rows] == ["a"]


def test_a_file_need_not_be_seekable() -> None:
    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def read(self, n: int = -1, /) -> bytes:
            return self._data.read(n)

    from longpole.formats import ReadOptions

    found: list[int] = []
    facts = KinetoReader().read(
        Pipe(dump(event(), event()).encode()),  # type: ignore[arg-type]
        "pipe",
        lambda table: found.append(table.num_rows),
        ReadOptions(),
    )
    assert (found, facts.n_stored) == ([2], 2)
