"""Damage to dumps: bytes of any file, and values inside JSON, SQLite, Parquet and pickles that stay well formed.

Equal arguments give equal bytes, so a case is its seed's name and a number.
"""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Json = Any

NUMBERS = (
    0, -1, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 0.0, -0.0, 0.5, 1e-300,
    1e15, 1e18, 9.2e18, 1e19, 1e308, -1e308, 1_700_000_000_000_000_000,
)  # fmt: skip
"""That JSON, SQLite and 64 bits hold."""

FAR_NUMBERS = (2**63, 2**64 - 1, 2**64, 10**20 - 1, -(10**20), 10**40)
"""That 64 bits do not hold."""

TEXTS = (
    "", " ", "0", "-1", "1e400", "0x7f", "nan", "NaN", "None", "null", "\x00", "a\x00b", "\x1b[2J\x1b]0;x\x07",
    "\u202egnp", "\u2028", "\ud800", "\udfff\ud800", "\ufffe", "é" * 300, "🦉", "../../../etc/passwd", "/dev/zero",
    "C:\\con", "%s%n", "'; DROP TABLE events; --", '"', "\\", "</script><script>x</script>", "=1+1", "{{7*7}}", "a\nb",
    "ProfilerStep#", "ProfilerStep#1", "ProfilerStep#-1", "ProfilerStep#99999999999999999999", "ProfilerStep#\u00b2",
    "ProfilerStep#" + "9" * 5_000, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "Memcpy HtoD (Pageable -> Device)",
    "cudaLaunchKernel", "cudaDeviceSynchronize", "Optimizer.step#SGD.step", "record_param_comms", "x" * 70_000,
    "[[1,2],[3]]", "1" * 5_000, "1e" + "9" * 50, "process_group 0", "default_pg",
)  # fmt: skip

KEYS = (
    "ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp", "stream", "device", "correlation",
    "External id", "Sequence number", "Fwd thread id", "Input Dims", "Input type", "Concrete Inputs", "grid", "block",
    "bytes", "Collective name", "Process Group Name", "Process Group Ranks", "Process Group Description", "Group size",
    "Seq", "dtype", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank", "wait_on_stream",
    "wait_on_cuda_event_id", "wait_on_cuda_event_record_corr_id", "graph node id", "context", "__proto__", "",
)  # fmt: skip

_RAW = "\ue000%d\ue001"  # a text that stands for a token which no JSON writer writes
_TOKENS = (
    b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"1e400", b"-1e400", b"1E+5", b"0x10", b"01", b"+1", b"1.",
    b".5",
    b"99999999999999999999", b"-99999999999999999999", b"9" * 5_000, b"0." + b"3" * 5_000, b"1e-99999",
    b"9223372036854775808", b"9223372036854775807.999", b"18446744073709551616", b"12345678901234567.8901",
    b"tru", b"nul", b"undefined", b"'a'", b"a", b"", b"{", b"}", b"]", b"[1,", b'"', b'"\\', b'"\\u12"', b'"\\x41"',
    b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"a\x00b"', b'"a\x01\x1fb"', b'"a\nb"', b'"\xff\xfe"', b'"\xc3"',
    b'"\xed\xa0\x80"', b'"\xf5\x80\x80\x80"', b'"a"b"', b'"},{"', b'"}\n  },\n  {"', b'"]}"', b"/* c */ 1", b"// c\n1",
    b"[" * 50 + b"]" * 50, b"[" * 3_000 + b"]" * 3_000, b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b"[" * 400_000,
    b'{"args":{"args":{"args":{}}}}', b"\xef\xbb\xbf1", b"\xa0", b"\x0c",
)  # fmt: skip


def value(random: Random) -> Json:
    """Return something that hardly ever belongs where it is put."""
    kind = random.randrange(10)
    if kind < 3:
        return random.choice(NUMBERS)
    if kind < 4:
        return random.choice(FAR_NUMBERS)
    if kind < 7:
        return random.choice(TEXTS)
    return copy.deepcopy(
        random.choice((None, True, False, [], {}, [1, "a", None], {"a": {"b": []}}, [[[]]], [-1, 2**40]))
    )


def damaged(data: bytes, random: Random) -> bytes:
    """Return the bytes with one to four damages of the kinds that disks, copies and killed writers make."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_DAMAGES)(data, random)
    return data


def truncated(data: bytes, random: Random) -> bytes:
    """Return the beginning, cut anywhere, or next to a mark that a parser turns on."""
    if random.random() < 0.5:
        marks = [m.start() for m in re.finditer(rb'[{}\[\],:"\\]', data[:200_000])]
        if marks:
            return data[: random.choice(marks) + random.randrange(2)]
    return data[: random.randrange(len(data) + 1)]


def _flipped(data: bytes, random: Random) -> bytes:
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8, 64)) if out else 0):
        out[random.randrange(len(out))] ^= 1 << random.randrange(8)
    return bytes(out)


def _place(data: bytes, random: Random) -> tuple[int, int]:
    at = random.choice((0, len(data), random.randrange(len(data) + 1)))
    return at, min(len(data), at + random.choice((1, 2, 16, 100, 4_096)))


def _overwritten(data: bytes, random: Random) -> bytes:
    at, end = _place(data, random)
    filler = random.choice((b"\0", b"\xff", b"A", b"{", b'"', b" ", b"\n"))
    return data[:at] + filler * (end - at) + data[end:]


def _inserted(data: bytes, random: Random) -> bytes:
    at, _ = _place(data, random)
    piece = random.choice((*_TOKENS, random.randbytes(random.choice((1, 4, 300))), b"\0" * 4_096))
    return data[:at] + piece + data[at:]


def _without(data: bytes, random: Random) -> bytes:
    at, end = _place(data, random)
    return data[:at] + data[end:]


def _doubled(data: bytes, random: Random) -> bytes:
    at, end = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
    return data[:end] + data[at:]


def _swapped(data: bytes, random: Random) -> bytes:
    a, b, c = sorted(random.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


_DAMAGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    truncated, truncated, _flipped, _flipped, _overwritten, _inserted, _inserted, _without, _doubled, _swapped,
)  # fmt: skip


def wrapped(data: bytes, random: Random) -> bytes:
    """Return the bytes as some gzip: of one member or several, cut, damaged, or with something behind its end."""
    kind = random.randrange(5)
    whole = gzip.compress(data, 1, mtime=0)
    if kind == 0:
        cut = random.randrange(len(data) + 1)
        return gzip.compress(data[:cut], 1, mtime=0) + gzip.compress(data[cut:], 1, mtime=0)
    if kind == 1:
        return truncated(whole, random)
    if kind == 2:
        return _flipped(whole, random)
    if kind == 3:
        return whole + random.choice((b"\0" * 600, b"rubbish", b"\x1f\x8b", b"\x1f\x8b\x08\x00", whole[:30]))
    return gzip.compress(whole, 1, mtime=0)


# ---------------------------------------------------------------- JSON


def trace(data: bytes, random: Random) -> tuple[bytes, int]:
    """Return a trace whose events have odd values, orders and numbers, and how many events it has.

    Every event is still an object with braces of its own, so that whatever one costs is its own.
    """
    told = json.loads(data)
    events: list[Json] = told["traceEvents"] if isinstance(told, dict) else told
    if len(events) > 400:
        at = random.randrange(len(events) - 400)
        events = events[at : at + 400]
    tokens: list[bytes] = []
    for _ in range(random.choice((1, 2, 3, 10, 60))):
        _change_events(events, random, tokens)
    frame: dict[str, Json] = told if isinstance(told, dict) else {}
    if random.random() < 0.3:
        for _ in range(random.randrange(1, 4)):
            key = random.choice((*(k for k in frame if k != "traceEvents"), *_FRAME_KEYS))
            frame[key] = value(random)
        if random.random() < 0.5:
            frame["distributedInfo"] = {random.choice(_FRAME_KEYS): value(random) for _ in range(4)}
    whole = {**frame, "traceEvents": events} if isinstance(told, dict) else events
    if isinstance(whole, dict) and random.random() < 0.3:  # what stands before the events may stand behind them
        whole = {"traceEvents": whole.pop("traceEvents"), **whole}
    return _written(whole, random, tokens), len(events)


_FRAME_KEYS = (
    "schemaVersion", "distributedInfo", "baseTimeNanoseconds", "deviceProperties", "displayTimeUnit", "trace_id",
    "host_name", "rank", "world_size", "backend", "pg_config", "pg_count", "cuda_version", "nccl_version",
)  # fmt: skip


def _change_events(events: list[Json], random: Random, tokens: list[bytes]) -> None:
    kind = random.randrange(12)
    if not events:
        return
    at = random.randrange(len(events))
    event = events[at]
    if kind == 0:
        events.insert(random.randrange(len(events) + 1), copy.deepcopy(event))
    elif kind == 1:
        random.shuffle(events)
    elif kind == 2:
        events[at:] = [copy.deepcopy(event) for _ in events[at:]][:50] + events[at + 50 :]
    elif kind == 3:
        events.reverse()
    elif kind == 4:
        # Without "ph" an object behind a malformed event is taken for a part of that: the two cost one.
        event.pop(random.choice([key for key in event if key != "ph"] or ["ph"]), None)
    elif kind == 5:
        event["name"] = random.choice(("n" * 1_000_000, "\u0000" * 100_000, "\\" * 65_537, "é" * 70_000))
    elif kind == 6:
        event["ts"], event["dur"] = value(random), value(random)
    elif kind == 7:
        event[random.choice(KEYS)] = _token(random, tokens)
    elif kind == 8 and isinstance(event.get("args"), dict):
        event["args"][random.choice(KEYS)] = _token(random, tokens)
    elif kind == 9 and isinstance(event.get("args"), dict):
        event["args"][random.choice(KEYS)] = value(random)
    else:
        event[random.choice(KEYS)] = value(random)


def _token(random: Random, tokens: list[bytes]) -> str:
    """Return a placeholder for a token that leaves the event's own braces alone."""
    tokens.append(random.choice(_TOKENS_WITHIN))
    return _RAW % (len(tokens) - 1)


_TOKENS_WITHIN = tuple(
    t for t in _TOKENS if t.count(b"{") == t.count(b"}") and t.count(b"[") == t.count(b"]") and t.count(b'"') % 2 == 0
    and b"},{" not in t and b"]}" not in t and t not in (b'"a"b"', b"}\n  },\n  {")
)  # fmt: skip


def _written(whole: Json, random: Random, tokens: list[bytes]) -> bytes:
    indent, separators = random.choice(
        ((2, None), (None, (",", ":")), (None, (", ", ": ")), (0, None), (1, (",", " : ")))
    )
    text = json.dumps(whole, indent=indent, separators=separators, ensure_ascii=random.random() < 0.5)
    data = text.encode("utf-8", "surrogatepass")
    for n, token in enumerate(tokens):
        placeholder = json.dumps(_RAW % n).encode()
        data = data.replace(placeholder, token).replace(('"' + _RAW % n + '"').encode(), token)
    if random.random() < 0.1:
        data = data.replace(b"\n", b"\r\n")
    return b"\xef\xbb\xbf" + data if random.random() < 0.05 else data


def json_values(data: bytes, random: Random) -> bytes:
    """Return any JSON with some of its values, anywhere, replaced, doubled or gone."""
    told = json.loads(data)
    tokens: list[bytes] = []
    for _ in range(random.choice((1, 2, 5, 20))):
        _change_somewhere(told, random, lambda: value(random) if random.random() < 0.7 else _token(random, tokens))
    return _written(told, random, tokens)


def _change_somewhere(told: Json, random: Random, odd: Callable[[], Json]) -> None:
    holder = told
    while True:
        keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = random.choice(keys)
        inside = holder[key]
        if isinstance(inside, dict | list) and inside and random.random() < 0.85:
            holder = inside
            continue
        break
    kind = random.randrange(4)
    if kind == 0:
        holder.pop(key)
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(inside))
    else:
        holder[key] = odd()


# ---------------------------------------------------------------- pickles


def pickled(data: bytes, random: Random) -> bytes:
    """Return a pickle, by any protocol, of values some of which were changed."""
    told = pickle.loads(data)  # noqa: S301  a seed of these tests' own
    for _ in range(random.choice((1, 2, 5, 20))):
        _change_plain(told, random)
    return pickle.dumps(told, random.randrange(6))


def _change_plain(told: Json, random: Random) -> None:
    odd: tuple[Json, ...] = ((), (1,), b"x", 10**400, float("nan"), float("inf"), 1j, {1: 2}, {None: 1}, {(1, 2): 3})
    _change_somewhere_plain(told, random, lambda: random.choice(odd) if random.random() < 0.3 else value(random))


def _change_somewhere_plain(told: Json, random: Random, odd: Callable[[], Json]) -> None:
    if isinstance(told, dict | list) and told:
        _change_somewhere(told, random, odd)


# ---------------------------------------------------------------- SQLite


def database(data: bytes, random: Random, folder: Path) -> bytes:
    """Return an SQLite file with cells, columns, tables or rows that no profiler would have written."""
    path = folder / "mutated.sqlite"
    path.write_bytes(data)
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        con.execute("PRAGMA journal_mode = OFF")
        for _ in range(random.choice((1, 1, 2, 5, 20))):
            try:
                _change_database(con, random)
            except (sqlite3.Error, OverflowError, UnicodeEncodeError):
                continue
    found = path.read_bytes()
    path.unlink()
    return found


def cells(data: bytes, random: Random, folder: Path, columns: Sequence[str]) -> bytes:
    """Return an SQLite file of as many rows in each table, in which only cells of these columns differ."""
    path = folder / "mutated.sqlite"
    path.write_bytes(data)
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        con.execute("PRAGMA journal_mode = OFF")
        tables = [t for (t,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for _ in range(random.choice((1, 2, 10, 40))):
            table = random.choice(tables)
            known = [c[1] for c in con.execute(f'PRAGMA table_info("{table}")') if c[1] in columns]
            if known:
                _update(con, table, random.choice(known), random)
    found = path.read_bytes()
    path.unlink()
    return found


def _update(con: sqlite3.Connection, table: str, column: str, random: Random) -> None:
    odd = _cell(random)
    ids = [i for (i,) in con.execute(f'SELECT rowid FROM "{table}" ORDER BY rowid LIMIT 5000')]
    if not ids:
        return
    chosen = ids if random.random() < 0.2 else random.sample(ids, min(len(ids), random.choice((1, 3, 30))))
    try:
        con.executemany(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', [(odd, i) for i in chosen])
    except (sqlite3.Error, OverflowError, UnicodeEncodeError):
        return


def _cell(random: Random) -> Any:
    odd = value(random)
    if isinstance(odd, list | dict):
        odd = random.choice((b"\xff\x00", b"", b"x" * 100_000, "n" * 1_000_000))
    return odd


def _change_database(con: sqlite3.Connection, random: Random) -> None:
    tables = [t for (t,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    if not tables:
        return
    table = random.choice(tables)
    columns = [c[1] for c in con.execute(f'PRAGMA table_info("{table}")')]
    if not columns:
        return
    column = random.choice(columns)
    kind = random.randrange(12)
    if kind < 5:
        _update(con, table, column, random)
    elif kind == 5:
        con.execute(f'DROP TABLE "{table}"')
    elif kind == 6:
        con.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif kind == 7:
        con.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{random.choice(("x", "select", "a b"))}"')
    elif kind == 8:
        con.execute(f'DELETE FROM "{table}" WHERE rowid % 2 = 1')
    elif kind == 9:
        con.execute(f'CREATE TABLE copied AS SELECT * FROM "{table}"')
        con.execute(f'DROP TABLE "{table}"')
        con.execute(f'ALTER TABLE copied RENAME TO "{table}"')  # without key or types
    elif kind == 10:
        con.execute(f'ALTER TABLE "{table}" RENAME TO hidden')
        con.execute(f'CREATE VIEW "{table}" AS SELECT * FROM hidden')
    else:
        con.execute("PRAGMA writable_schema = ON")
        con.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = ?",
            (random.choice(("", "CREATE", "CREATE TABLE x (a)", "x" * 9_999)), table),
        )


# ---------------------------------------------------------------- Parquet


def parquet(data: bytes, random: Random) -> bytes:
    """Return a Parquet file whose columns are of other types, gone, doubled, or hold odd values."""
    file = pq.ParquetFile(BytesIO(data))
    table = file.read().slice(0, 2_000)
    for _ in range(random.choice((1, 1, 2, 5))):
        table = _change_table(table, random)
    out = BytesIO()
    compression = random.choice(("snappy", "zstd", "none", "gzip"))
    pq.write_table(
        table,
        out,
        compression=compression,
        row_group_size=random.choice((1, 7, 1_000_000)) if len(table) < 300 else None,
    )
    return out.getvalue()


def parquet_values(data: bytes, random: Random, columns: Sequence[str]) -> bytes:
    """Return a Parquet file of the same columns and as many rows, in which some values of these are odd."""
    table = pq.ParquetFile(BytesIO(data)).read()
    for _ in range(random.choice((1, 2, 10))):
        table = _change_values(table, table.schema.get_field_index(random.choice(columns)), random)
    out = BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _change_values(table: pa.Table, at: int, random: Random) -> pa.Table:
    field = table.schema.field(at)
    values = table.column(at).to_pylist()
    for _ in range(random.choice((1, 1, 5, 50))):
        if values:
            values[random.randrange(len(values))] = _of_kind(field.type, random)
    try:
        return table.set_column(at, field, pa.array(values, field.type))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, ValueError):
        return table


def _of_kind(kind: pa.DataType, random: Random) -> Any:
    if random.random() < 0.2:
        return None
    if pa.types.is_floating(kind):
        return random.choice((float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 1e18, -1.0, 0.5))
    if pa.types.is_integer(kind):
        return random.choice([n for n in NUMBERS if isinstance(n, int) and -(2**63) <= n < 2**63])
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return random.choice(TEXTS)
    return value(random)


def _of_other_kind(n_rows: int, random: Random) -> pa.Array:
    kind = random.choice(
        (pa.string(), pa.large_string(), pa.float32(), pa.int8(), pa.uint64(), pa.bool_(), pa.timestamp("us"),
         pa.dictionary(pa.int32(), pa.string()), pa.decimal128(38, 3), pa.binary(), pa.null(), pa.list_(pa.int64()))
    )  # fmt: skip
    odd = [_of_kind(kind, random) for _ in range(min(n_rows, 3))]
    try:
        return pa.array((odd * n_rows)[:n_rows], kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, ValueError):
        return pa.nulls(n_rows, kind)


def _change_table(table: pa.Table, random: Random) -> pa.Table:
    if not table.num_columns:
        return table
    at = random.randrange(table.num_columns)
    name = table.column_names[at]
    kind = random.randrange(9)
    if kind == 0:
        return table.remove_column(at)
    if kind == 1:
        return table.rename_columns(
            [
                n if i != at else random.choice(("x", "", table.column_names[0]))
                for i, n in enumerate(table.column_names)
            ]
        )
    if kind == 2:
        return table.append_column(name, table.column(at))
    if kind == 3:
        return table.set_column(at, name, _of_other_kind(len(table), random))
    if kind == 4:
        return table.take(pa.array(random.sample(range(len(table)), len(table)), pa.int64()))
    if kind == 5:
        return table.slice(0, 0)
    if kind == 6:
        return pa.concat_tables([table, table])
    if kind == 7 and table.schema.metadata:
        key = random.choice(list(table.schema.metadata))
        return table.replace_schema_metadata(
            {**table.schema.metadata, key: damaged(table.schema.metadata[key], random)}
        )
    return _change_values(table, at, random)
