"""Canonical events in a Parquet file: RAW_SCHEMA as it stands, and the dump's facts as JSON in the footer."""

from __future__ import annotations

import dataclasses
import json
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longpole.errors import DumpError
from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions, Sink
from longpole.formats.parquet_file import DAMAGES, first_line, open_parquet

FACTS_KEY = b"longpole.dump"
"""Footer key of a canonical file; its value is `facts_to_json`."""

_BATCH_ROWS = 131_072
_CURE = "Write such files with `longpole synth SCENARIO -o DIR --as events`, or give the profiler's own dump."
_TEXT_COLUMNS = [field.name for field in RAW_SCHEMA if pa.types.is_dictionary(field.type)]
_NUMBER_COLUMNS = [
    name + ".list.element" if pa.types.is_list(RAW_SCHEMA.field(name).type) else name
    for name in RAW_SCHEMA.names
    if name not in _TEXT_COLUMNS
]


def facts_to_json(facts: DumpFacts) -> str:
    """Return `facts` as JSON text, keys in the order of the dataclass."""
    return json.dumps(dataclasses.asdict(facts), separators=(",", ":"))


def open_writer(path: str) -> pq.ParquetWriter:
    """Return a writer of canonical rows: zstd-1, dictionaries for text, packed differences for numbers."""
    return pq.ParquetWriter(
        path,
        RAW_SCHEMA,
        compression="zstd",
        compression_level=1,
        write_statistics=False,
        use_dictionary=_TEXT_COLUMNS,
        column_encoding=dict.fromkeys(_NUMBER_COLUMNS, "DELTA_BINARY_PACKED"),
    )


class CanonicalReader:
    """Reads what `longpole synth --as events` writes."""

    name = "longpole-events"

    def recognises(self, head: bytes, path: str) -> bool:
        """Return whether the file is Parquet at all; `read` says whether it is ours."""
        return head.startswith(b"PAR1")

    def read(self, file: BinaryIO, path: str, sink: Sink, options: ReadOptions) -> DumpFacts:
        """Hand over the rows batch by batch; return the facts in the footer with the counts of this reading.

        Raises:
            DumpError: The footer is lost, or the file is some other Parquet.
        """
        try:
            parquet = open_parquet(file)
            schema = parquet.schema_arrow
        except DAMAGES as error:
            raise DumpError(
                f"{path} begins like Parquet but cannot be opened: {first_line(error)}",
                "A Parquet file that lost its end cannot be read in part; write or copy it again.",
            ) from None
        facts = _facts(parquet, path)
        _check_schema(schema, path)

        n_rows = parquet.metadata.num_rows
        n_stored = n_python = n_seen = 0
        lost = ""
        try:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
                # Untrusted: a dictionary index out of range or text that is not UTF-8 must not travel on.
                batch.validate(full=True)
                n_seen += batch.num_rows
                table = pa.Table.from_arrays(batch.columns, schema=RAW_SCHEMA)
                if not options.keep_python:
                    kept = _without_python(table)
                    n_python += table.num_rows - kept.num_rows
                    table = kept
                n_stored += table.num_rows
                if table.num_rows:
                    sink(table)
        except DAMAGES as error:
            lost = first_line(error)

        skipped = dict(facts.skipped)
        if n_python:
            skipped["python"] = skipped.get("python", 0) + n_python
        n_skipped = facts.n_skipped + n_python
        n_dropped = facts.n_dropped + n_rows - n_seen
        return dataclasses.replace(
            facts,
            n_events=n_stored + n_skipped + n_dropped,
            n_stored=n_stored,
            n_skipped=n_skipped,
            n_dropped=n_dropped,
            skipped=tuple(skipped.items()),
            samples=(*facts.samples, lost) if lost else facts.samples,
            is_truncated=facts.is_truncated or bool(lost),
        )


def _facts(parquet: pq.ParquetFile, path: str) -> DumpFacts:
    text = (parquet.metadata.metadata or {}).get(FACTS_KEY)
    if text is None:
        raise DumpError(
            f"{path} is a Parquet file without longpole's events: its footer has no {FACTS_KEY.decode()!r}",
            _CURE,
        )
    try:
        return msgspec.json.decode(text, type=DumpFacts)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DumpError(
            f"{path} has a {FACTS_KEY.decode()!r} that cannot be read: {first_line(error)}", _CURE
        ) from None


def _check_schema(schema: pa.Schema, path: str) -> None:
    for field in RAW_SCHEMA:
        index = schema.get_field_index(field.name)
        if index < 0:
            raise DumpError(f"{path} has no column {field.name!r}, which an event dump must have", _CURE)
        if schema.field(index).type != field.type:
            found = schema.field(index).type
            raise DumpError(f"{path} has {field.name!r} as {found}, where events have {field.type}", _CURE)
    if schema.names != RAW_SCHEMA.names:
        extra = [name for name in schema.names if RAW_SCHEMA.get_field_index(name) < 0]
        fact = f"columns that events do not have: {extra[:5]}" if extra else "its columns in another order"
        raise DumpError(f"{path} has {fact}", _CURE)


def _without_python(table: pa.Table) -> pa.Table:
    category = table["category"]
    if not any(pc.index(chunk.dictionary, "python").as_py() >= 0 for chunk in category.chunks):
        return table
    return table.filter(pc.fill_null(pc.not_equal(category.cast(pa.string()), "python"), True))
