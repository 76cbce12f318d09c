"""Parquet files from elsewhere: opened only where what they say of themselves can be true.

One value repeated takes no room, so that a few kilobytes may say they are any number of rows; and a column of a row
group is held whole while its pages are read.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

DAMAGES = (pa.ArrowException, OSError, KeyError, UnicodeDecodeError)
"""What pyarrow raises on a damaged Parquet file; the last two from names in its footer."""

_MOST_ROWS_OF_A_BYTE = 16  # half a bit a row; times that differ take more than a bit
_FEW_ROWS = 10_000  # which any file may have
_MOST_COLUMN_BYTES = 256 << 20  # of one row group; longpole's own are below 4 MiB


def open_parquet(file: BinaryIO | Path, coded: Sequence[str] = ()) -> pq.ParquetFile:
    """Return the opened file.

    Args:
        coded: Columns to read as codes of a dictionary: a long text that a million rows repeat stays one.

    Raises:
        pa.ArrowException, OSError, UnicodeDecodeError: It is damaged, or says that it holds more than its bytes can.
    """
    parquet = pq.ParquetFile(file, read_dictionary=list(coded), buffer_size=1 << 20, pre_buffer=False)
    told = parquet.metadata
    n_bytes = file.stat().st_size if isinstance(file, Path) else file.seek(0, io.SEEK_END)
    if told.num_rows > max(_FEW_ROWS, _MOST_ROWS_OF_A_BYTE * n_bytes):
        raise pa.ArrowInvalid(f"it says that it has {told.num_rows:,} rows, more than fit into its {n_bytes:,} bytes")
    for group in map(told.row_group, range(told.num_row_groups)):
        largest = max((group.column(n).total_uncompressed_size for n in range(group.num_columns)), default=0)
        if largest > _MOST_COLUMN_BYTES:
            raise pa.ArrowInvalid(f"a column of a row group has {largest:,} bytes, which no dump's has")
    return parquet


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, at most 200 characters."""
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
