"""Reads the columns of a trace in pieces: CSV, or Parquet where pyarrow is installed.

Traces are untrusted: their size, their header and what they unpack to are bounded.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pandas as pd

from iqcar.errors import IqcarError
from iqcar.lab.traces.trace_columns import TraceColumns

MAX_ROWS = 50_000_000
"""Tasks of one trace at most: some GB of memory."""
MAX_BYTES = 16 * 2**30
"""Bytes of one CSV at most, after decompression: a file of 10 MB can unpack to more than that."""
PIECE_ROWS = 65_536
"""Rows read at once: some 10 MB with 20 metrics."""
MAX_HEADER_BYTES = 2**20
"""A first line longer than this is no list of column names."""


class _Bounded(io.RawIOBase):
    """A stream that ends in an error instead of filling the memory."""

    def __init__(self, inner: IO[bytes], path: str) -> None:
        super().__init__()
        self._inner, self._path, self._left = inner, path, MAX_BYTES

    def close(self) -> None:
        self._inner.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        self._left -= len(data)
        if self._left < 0:
            raise IqcarError(f"is larger than {MAX_BYTES >> 30} GiB", self._path, "split it")
        return len(data)


def settled_columns(path: str | Path, columns: TraceColumns) -> TraceColumns:
    """Find by name which columns of a trace are what.

    Raises IqcarError if the file cannot be read as a table, or needs pyarrow and there is none;
    UsageError if a column is missing.
    """
    where = str(path)
    with _clear_errors(where):
        if not is_parquet(where):
            return columns.within(_csv_names(where), where)
        with parquet_file(where) as file:
            return columns.within([str(name) for name in file.schema_arrow.names], where)


def read_pieces(
    path: str | Path, names: Sequence[str], texts: Sequence[str]
) -> Iterator[pd.DataFrame]:
    """Read some columns of a trace piece by piece, in the order of the file.

    Raises IqcarError if the file cannot be read as a table, or is too large.

    path: ``.parquet``, or CSV with a line of names, plain or ``.gz``.
    names: the columns.
    texts: those of them that are names rather than numbers: of CSV they are taken as they stand.
    """
    where = str(path)
    seen = 0
    with _clear_errors(where):
        pieces = _parquet_pieces if is_parquet(where) else _csv_pieces
        for piece in pieces(where, names, texts):
            seen += len(piece)
            if seen > MAX_ROWS:
                raise IqcarError(f"has more than {MAX_ROWS:,} rows", where, "split it")
            yield piece


def is_parquet(where: str) -> bool:
    """Whether a file is taken for Parquet, by its name."""
    return Path(where).suffix.lower() in (".parquet", ".pq")


def parquet_file(where: str) -> Any:
    """Open a Parquet file.

    Raises IqcarError if pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise IqcarError(
            "is Parquet, which needs pyarrow", where, "pip install pyarrow, or give it as CSV"
        ) from None
    # What is buffered ahead is kept until the file is closed: at the end, all of it.
    return parquet.ParquetFile(where, pre_buffer=False)


@contextmanager
def _clear_errors(where: str) -> Iterator[None]:
    """Say in one line what is wrong with a file."""
    try:
        yield
    except IqcarError:
        raise
    except OSError as error:
        raise IqcarError(f"cannot be read: {error.strerror or error}", where) from error
    except (ValueError, EOFError, RuntimeError, OverflowError) as error:
        line = " ".join(str(error).split())[:200]
        raise IqcarError(f"is no table: {line}", where, "give a CSV or Parquet file") from error


def _csv_names(where: str) -> list[str]:
    with _open(where) as file:
        header = file.readline(MAX_HEADER_BYTES)
    if len(header) >= MAX_HEADER_BYTES or not header.strip():
        raise IqcarError("does not start with a line of column names", where)
    return [str(name) for name in pd.read_csv(io.BytesIO(header), nrows=0).columns]


def _csv_pieces(where: str, names: Sequence[str], texts: Sequence[str]) -> Iterator[pd.DataFrame]:
    with (
        _open(where) as file,
        pd.read_csv(
            # Without index_col, rows longer than the header would move every column by one.
            file, usecols=list(names), index_col=False, chunksize=PIECE_ROWS, low_memory=False,
            dtype=dict.fromkeys(texts, "str"),
        ) as pieces,
    ):  # fmt: skip
        yield from pieces


def _parquet_pieces(
    where: str, names: Sequence[str], texts: Sequence[str]
) -> Iterator[pd.DataFrame]:
    with parquet_file(where) as file:
        for batch in file.iter_batches(PIECE_ROWS, columns=list(names)):
            # Numbers of a job stay whole numbers where some are missing. What pandas notes of an
            # index of its own would take columns away.
            yield batch.to_pandas(integer_object_nulls=bool(texts), ignore_metadata=True)


def _open(where: str) -> io.BufferedReader:
    inner: Any = Path(where).open("rb")  # noqa: SIM115 (closed with the stream that wraps it)
    if where.endswith(".gz"):
        inner = gzip.GzipFile(fileobj=inner)
    return io.BufferedReader(_Bounded(inner, where), 2**20)
