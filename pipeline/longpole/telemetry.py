"""A run that has telemetry beside its dumps: samples into the store, and beside each rank's windows.

A file holds samples of devices of one host or of several. Each rank's windows are laid beside its device's samples by
one task (sql/rank/rank_telemetry.sql).
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from longpole import __version__, catalog, remote
from longpole.engine import connection, quoted, write_ordered
from longpole.errors import DumpError
from longpole.events import SCHEMA_VERSION
from longpole.formats import telemetry_csv
from longpole.formats.probe import head_at
from longpole.store import DumpEntry, PublishedFile, Store, StoredDump, file_digest, key_of

TABLE = "telemetry"
"""The table of a run that holds samples, as `events` holds a profiler's events."""

FORMAT = telemetry_csv.FORMAT


def is_telemetry(url: str) -> bool:
    """Return whether the file begins with the header of telemetry."""
    return telemetry_csv.is_telemetry(head_at(url))


def inputs_of(content: str, utc_offset: str | None) -> str:
    """Return the hash of all that a file's samples follow from."""
    return key_of(content, utc_offset, SCHEMA_VERSION, catalog.fingerprint("telemetry"), __version__)


def read_telemetry(
    store: Store, run: str, url: str, told: DumpEntry, folder: Path, memory: int, utc_offset: str | None
) -> StoredDump:
    """Read a file of samples into the store.

    Args:
        told: What is known of the file: its content, name and size.
        utc_offset: The zone of times that have none; None where run.toml does not say it.

    Raises:
        DumpError: It holds no sample, or its times have no zone and nobody says it.
    """
    raw, local, inputs = folder / "raw.parquet", folder / "telemetry.parquet", inputs_of(told.dump, utc_offset)
    ahead = None if utc_offset is None else telemetry_csv.offset_s(utc_offset)
    with (
        remote.open_file(url) as file,
        pq.ParquetWriter(raw, telemetry_csv.RAW_TELEMETRY, compression="zstd", compression_level=1) as writer,
    ):
        tally = telemetry_csv.read(file, told.path, writer.write_table, ahead)
    if not tally.n_rows:
        raise DumpError(f"{told.path} holds no sample that could be read")
    relation = catalog.relations()[TABLE]
    with connection(folder, memory) as con:
        con.execute(f"CREATE VIEW raw_telemetry AS FROM read_parquet({quoted(raw)})")
        catalog.load_data_of(con, [relation])
        n_rows = write_ordered(con, relation.sql, relation.order, local)
    file_path = f"facts/{TABLE}/samples.{told.dump}.{inputs}.parquet"
    made = PublishedFile(TABLE, file_path, inputs, file_digest(local), local.stat().st_size, n_rows)
    store.put(local, run, file_path)
    n_dropped = tally.dropped.total()
    doubts = [*([tally.damage] if tally.damage else []), *([f"{n_dropped} lines dropped"] if n_dropped else [])]
    entry = msgspec.structs.replace(
        told,
        format=FORMAT,
        schema="telemetry, CSV",
        first_ns=tally.first_ns,
        last_ns=tally.last_ns,
        n_events=n_rows + n_dropped,
        n_stored=n_rows,
        n_dropped=n_dropped,
        is_truncated=bool(tally.damage),
        notes=tuple(f"{why}: {n:,}" for why, n in sorted(tally.dropped.items())),
        verdict="; ".join(doubts) or "ok",
    )
    return StoredDump((made,), (entry,))


def described(url: str, name: str) -> list[str]:
    """Return what a file is, a line each; no store is touched.

    Raises:
        DumpError: It is damaged, or no telemetry.
    """
    devices: set[tuple[str | None, int]] = set()
    with remote.open_file(url) as file:
        tally = telemetry_csv.read(
            file,
            name,
            lambda rows: devices.update(zip(rows["host"].to_pylist(), rows["gpu"].to_pylist(), strict=True)),
            0,
        )
    return [
        f"format    {FORMAT}: CSV",
        f"devices   {len(devices):,} of {len({host for host, _ in devices}):,} hosts",
        f"samples   {tally.n_rows:,}, {tally.dropped.total():,} lines dropped",
    ]
