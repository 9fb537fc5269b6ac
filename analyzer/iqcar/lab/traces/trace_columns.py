"""Reads the columns of a trace, chosen by name, as numbers and codes of texts.

Traces are untrusted: their size, their header and what they unpack to are bounded.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import named_values
from iqcar.errors import IqcarError, UsageError
from iqcar.tables.arrays import Floats, Ints

MAX_METRICS = 500
"""Metric columns read at most; the traces we know have under a hundred."""
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
"""Units that times of a trace may have, in ms."""

_NAMES = {
    "job": ("job", "jobid", "jobname", "stage", "stageid", "collectionid", "application"),
    "task": (
        "task",
        "taskid",
        "taskindex",
        "instance",
        "instanceindex",
        "instancename",
        "taskname",
    ),
    "latency": (
        "latency",
        "latencyms",
        "duration",
        "durationms",
        "runtime",
        "elapsed",
        "elapsedms",
    ),
    "host": ("host", "hostname", "machine", "machineid", "node", "nodeid", "worker"),
    "start": ("start", "starttime", "startms", "launch", "launchms", "launchtime"),
    "end": ("end", "endtime", "endms", "finish", "finishms", "finishtime"),
}
"""Names by which a column is found, without case and punctuation; the first that is there."""
_LISTS = ("job", "metrics", "times")
_KEYS = (*_NAMES, "metrics", "times", "unit")


@dataclass(frozen=True)
class TraceColumns:
    """What the columns of a trace are.

    job: columns that together name what tasks are compared within.
    task, latency, host, start, end: columns; empty if there is none. Without a latency it is the
        end less the start.
    metrics, times: amounts, and times spent that are part of the latency; empty means every other
        number.
    unit: unit of latency, start, end and times.
    """

    job: tuple[str, ...] = ()
    task: str = ""
    latency: str = ""
    host: str = ""
    start: str = ""
    end: str = ""
    metrics: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    unit: str = "ms"

    @classmethod
    def parse(cls, text: str) -> TraceColumns:
        """Read ``job=job_name+task_name,latency=runtime,unit=s``.

        Raises UsageError if a key is unknown or the unit is none of us, ms, s.
        """
        found: dict[str, object] = {}
        for part, key, value in named_values(text):
            if key not in _KEYS or not value:
                raise UsageError(
                    f"{part!r} names no column",
                    "--columns",
                    f"use KEY=COLUMN of {', '.join(_KEYS)}",
                )
            found[key] = tuple(value.split("+")) if key in _LISTS else value
        if found.get("unit", "ms") not in UNITS_MS:
            raise UsageError(
                f"{found['unit']!r} is no unit of time", "--columns", f"use {', '.join(UNITS_MS)}"
            )
        return cls(**found)  # type: ignore[arg-type]

    def within(self, names: Sequence[str], where: str) -> TraceColumns:
        """Fill in by name what was not given, and check what was.

        Raises UsageError if a column does not exist, or job or latency cannot be found.
        """
        given = [*self.job, self.task, self.latency, self.host, self.start, self.end]
        for name in (*filter(None, given), *self.metrics, *self.times):
            if name not in names:
                raise UsageError(f"there is no column {name!r}", where, f"it has {_some(names)}")
        plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
        taken = {*filter(None, given), *self.metrics, *self.times}

        def find(role: str) -> str:
            hits = (plain[name] for name in _NAMES[role] if name in plain)
            found = next((name for name in hits if name not in taken), "")
            taken.add(found)
            return found

        job = self.job or tuple(filter(None, [find("job")]))
        task = self.task or find("task")
        latency = self.latency or find("latency")
        start, end = self.start or find("start"), self.end or find("end")
        host = self.host or find("host")
        if not job:
            raise _lacking("job", "what tasks are compared within", names, where)
        if not latency and not (start and end):
            raise _lacking("latency", "how long a task took", names, where)
        rest = tuple(name for name in names if name not in taken)
        metrics = self.metrics or (() if self.times else rest)
        if len(metrics) + len(self.times) > MAX_METRICS:
            raise UsageError(
                f"has {len(metrics)} metric columns, more than {MAX_METRICS}", where,
                "name some by --columns metrics=A+B",
            )  # fmt: skip
        return TraceColumns(
            job=job, task=task, latency=latency, host=host, start=start, end=end, metrics=metrics,
            times=self.times, unit=self.unit,
        )  # fmt: skip

    def wanted(self) -> list[str]:
        """All columns to read."""
        single = (self.task, self.latency, self.host, self.start, self.end)
        return list(dict.fromkeys([*self.job, *filter(None, single), *self.metrics, *self.times]))


BY_NAME = TraceColumns()
"""Every column is found by its name."""


def _lacking(key: str, what: str, names: Sequence[str], where: str) -> UsageError:
    return UsageError(
        f"no column tells {what}", where, f"name it by --columns {key}=COLUMN of {_some(names)}"
    )


def _some(names: Sequence[str], shown: int = 12) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(str(name)[:40] for name in names[:shown]) + more


MAX_NAME = 200
"""Characters kept of a name in a trace."""
LARGEST = 1e300
"""A number beyond it is damage."""


def number_of(table: pd.DataFrame, name: str) -> Floats:
    """A column as numbers; NaN for what is none, is infinite or damaged, or is not there."""
    if not name:
        return np.full(len(table), np.nan)
    numbers = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore"):
        plausible: Floats = np.where(np.abs(numbers) < LARGEST, numbers, np.nan)
    return plausible


def codes_of(table: pd.DataFrame, names: tuple[str, ...]) -> tuple[Ints, list[str]]:
    """Number the texts of a column, or of several together; −1 for what is missing in any.

    Returns ndarray of shape (n_rows,): position of each row's text in the list. Returns: The texts
    in alphabetical order.
    """
    if not names:
        return np.full(len(table), -1, np.int64), []
    codes, texts = _codes_of_column(table[names[0]])
    for name in names[1:]:
        more, others = _codes_of_column(table[name])
        both = np.where((codes < 0) | (more < 0), -1, codes * max(len(others), 1) + more)
        pairs, codes = np.unique(both, return_inverse=True)
        missing = int((pairs < 0).sum())  # at most one, the first
        codes = codes - missing
        left, right = np.divmod(pairs[missing:], max(len(others), 1))
        texts = [
            f"{texts[a]}/{others[b]}" for a, b in zip(left.tolist(), right.tolist(), strict=True)
        ]
    # Texts can be equal that were not before they were cut.
    of_text, found = pd.factorize(pd.Series(texts, dtype="string"), sort=True)
    numbers = np.append(of_text, -1)[codes]
    return numbers.astype(np.int64), [str(text) for text in found]


def _codes_of_column(column: pd.Series) -> tuple[Ints, list[Any]]:
    codes, found = pd.factorize(column)
    return codes.astype(np.int64), pd.Series(found).astype("string").str.slice(0, MAX_NAME).tolist()


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
