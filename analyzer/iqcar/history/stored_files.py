"""Writes and finds the Parquet files of a store, in a folder or bucket.

``TABLE/cluster=NAME/day=YYYY-MM-DD/BATCH.parquet``, or ``day=YYYY-MM`` for a past month. A file is
never changed. The file of ``applications`` is written last: rows of other tables count only where
it names their addition. So an addition that is stopped leaves no trace in answers, and two writers
need no lock. Small files are merged (:mod:`iqcar.history.store_views`); then the file's name is
the merger, and its rows' ``batch`` is ``BATCH+MERGER``.

A store keeps no row numbers: a row names its application, query and host. ``batch`` is the addition
that wrote the row; of several additions of one application the last one counts.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import json
import os
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pandas as pd

from iqcar.base.units import printable
from iqcar.enums import Resource
from iqcar.errors import IqcarError, UsageError
from iqcar.logs.text import redact_text
from iqcar.tables.declarations import Column, TableSpec, declare

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


FORMAT = 1
"""Version of the store's layout. Columns can be added to a table under the same number: files
without them hold nulls there."""

_KEY: tuple[tuple[str, str, str, str], ...] = (
    ("batch", "str", "", "The addition that wrote the row; a later one sorts after it."),
    ("application_id", "str", "", "The application."),
    ("attempt_id", "str", "", "Its attempt; empty if it has only one."),
)


def _waits() -> tuple[Column, ...]:
    return tuple(
        column
        for name in (resource.value for resource in Resource)
        for column in declare(
            (f"{name}_wait_ms", "float64", "ms", f"Its tasks' waits for {name}; NaN if unknown."),
            (f"{name}_evidence", "str", "", "The weakest evidence among them."),
        )
    )


APPLICATIONS = TableSpec(
    "applications",
    "One row per addition of an application attempt; written last, it makes the others count.",
    declare(
        *_KEY,
        ("name", "str", "", "Application name."),
        ("user", "str", "", "User that ran it."),
        ("spark_version", "str", "", "Spark version; empty if not recorded."),
        ("master", "str", "", "spark.master; empty if not recorded."),
        ("path", "str", "", "Where its log was read."),
        ("log_bytes", "int64", "bytes", "Stored size of the log when it was read."),
        ("status", "str", "", "complete, in_progress or truncated."),
        ("message", "str", "", "What was lost or doubtful; empty if nothing."),
        ("start_ms", "float64", "ms", "When the application started."),
        ("end_ms", "float64", "ms", "When it ended; the last event's time if it did not end."),
        ("queries", "int64", "count", "Its queries."),
        ("tasks", "int64", "count", "Its task attempts that ended."),
        ("beside", "int64", "count", "Other applications that were diagnosed with it."),
        ("iqcar_version", "str", "", "Version that diagnosed it."),
    ),
)

QUERIES = TableSpec(
    "queries",
    "One row per query.",
    (
        *declare(
            *_KEY,
            ("query_id", "str", "", "Unique in its application attempt."),
            ("name", "str", "", "Description, job group, call site, or what its plan does."),
            ("kind", "str", "", "sql, connect, job-group, job or app."),
            ("fingerprint", "str", "", "Equal for every run of the same recurring query."),
            ("family", "str", "", "Its name without dates, ids and run numbers; may be empty."),
            ("pool", "str", "", "Scheduler pool of its first job; empty if not recorded."),
            ("user", "str", "", "User of its Connect or Thrift session, else of the application."),
            ("session", "str", "", "Its Connect or Thrift session; (no session) if none."),
            ("start_ms", "float64", "ms", "Start of the execution or of its first job."),
            ("duration_ms", "float64", "ms", "Its duration; NaN if unknown."),
            ("ended", "bool", "", "Whether the log holds its end."),
            ("failed", "bool", "", "Whether it, or a job of it, failed."),
            ("error", "str", "", "Why, in a line; empty or null if it did not fail."),
            ("stages", "int64", "count", "Stage attempts."),
            ("tasks", "int64", "count", "Task attempts that ended."),
            ("task_ms", "float64", "ms", "Σ of their durations."),
            ("cpu_ms", "float64", "ms", "Σ of their CPU times; NaN if not recorded."),
            ("read_bytes", "float64", "bytes", "Input and shuffle bytes its tasks read."),
            ("lost_ms", "float64", "ms", "Elapsed time lost to waits."),
            ("lost_to_others_ms", "float64", "ms", "The part lost to other queries."),
            ("wasted_ms", "float64", "ms", "How much later it ended because of wasted work."),
        ),
        *_waits(),
    ),
)

STAGES = TableSpec(
    "stages",
    "One row per query and label of stages; those below 1 % of its duration are summed.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query."),
        ("stage", "str", "", "What they do, else their call site; empty for what was summed."),
        ("attempts", "int64", "count", "Stage attempts of this label."),
        ("tasks", "int64", "count", "Their task attempts that ended."),
        ("elapsed_ms", "float64", "ms", "Part of the query's duration in which they held it up."),
        ("task_ms", "float64", "ms", "Σ of their tasks' durations."),
        ("cpu_ms", "float64", "ms", "Σ of their CPU times; NaN if not recorded."),
        ("read_bytes", "float64", "bytes", "Input and shuffle bytes their tasks read."),
    ),
)

BLAME = TableSpec(
    "blame",
    "One row per query that lost time, who was in its way, resource and host.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query that lost time."),
        ("kind", "str", "", "query, own, known, unattributed or rest (`BlameKind` in kinds.md)."),
        ("source_application_id", "str", "", "Application of the blamed query; else empty."),
        ("source_attempt_id", "str", "", "Its attempt."),
        ("source_query_id", "str", "", "The blamed query; empty for the other kinds."),
        ("resource", "str", "", "What was waited for."),
        ("host", "str", "", "Where; empty if not recorded, or summed over the smallest."),
        ("lost_ms", "float64", "ms", "Elapsed time lost."),
        ("idle_ms", "float64", "ms", "The part in which the source's executors had no tasks."),
    ),
)

CAUSES = TableSpec(
    "causes",
    "One row per query, host and cause of stragglers there.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query."),
        ("host", "str", "", "Where the stragglers ran; empty if not recorded."),
        ("cause", "str", "", "Why they were slow; empty where nothing explains it."),
        ("stragglers", "int64", "count", "Stragglers; one with two causes counts in both."),
        ("delay_ms", "float64", "ms", "Σ of what they took longer than their stage's median."),
    ),
)

HOSTS = TableSpec(
    "hosts",
    "One row per host that ran tasks of the application.",
    declare(
        *_KEY,
        ("host", "str", "", "Host name or address."),
        ("tasks", "int64", "count", "Task attempts that ended there."),
        ("task_ms", "float64", "ms", "Σ of their durations."),
        ("compared_ms", "float64", "ms", "Σ of those in stages that ran on other hosts, too."),
        ("expected_ms", "float64", "ms", "What these take by the medians of their stages."),
        ("stragglers", "int64", "count", "Stragglers there."),
        ("delay_ms", "float64", "ms", "Σ of what they took longer than their stage's median."),
    ),
)

PROPERTIES = TableSpec(
    "properties",
    "One row per Spark property of the application, or of a query's jobs or session.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query that it was set for; empty: for the application."),
        ("name", "str", "", "Name of the property."),
        ("value", "str", "", "Value; (redacted) in place of a secret."),
    ),
)

DEMANDS = TableSpec(
    "demands",
    "One row per own rate of a recurring query's stage, or capacity of a host, that tasks told.",
    declare(
        *_KEY,
        ("version", "int64", "", "Version of what the row means."),
        ("fingerprint", "str", "", "The recurring query; empty in rows of a host."),
        ("stage", "str", "", "What the stage does, else its call site."),
        ("position", "int64", "count", "Which of the query's stages of this label, from 0."),
        ("host", "str", "", "The host; empty in rows of a stage."),
        ("request", "str", "", "What is asked of the device."),
        ("log_value", "float64", "", "Logarithm of bytes per ms, or of cores."),
        ("variance", "float64", "", "Variance of that logarithm."),
        ("runs", "int64", "count", "Runs of the query that it comes from."),
    ),
)

STORED = (APPLICATIONS, QUERIES, STAGES, BLAME, CAUSES, HOSTS, PROPERTIES, DEMANDS)
"""Every table of a store; the first commits an addition."""


NO_DAY = "unknown"
"""Day of applications whose start is not known."""

BATCH = r"\d{14}-[0-9a-f]{8}"
"""How an addition or merger is named, as a regular expression."""

_FILE = re.compile(
    rf"cluster=([^/]*)/day=([12]\d{{3}}-(?:0[1-9]|1[0-2])(?:-\d\d)?|{NO_DAY})/({BATCH})\.parquet$"
)

_UNFINISHED = re.compile(
    rf"/\.(?:{BATCH}_by_)?(\d{{14}})-[0-9a-f]{{8}}(?:\.parquet)?\.[0-9a-f]{{8}}$"
)

CLOCKS_APART_MS = 86_400_000
"""How far ahead the clock of another writer may be (a day); a file of a later time is not ours."""

LATER = "its name is of a later day than today"

Part = tuple[str, str, str]
"""Cluster, month and name of the files with what one addition or merger wrote of that month."""


@dataclass(frozen=True)
class StoredFile:
    """One file of a table: where it is, what its path says, and its size in bytes."""

    path: str
    table: str
    cluster: str
    day: str
    batch: str
    size: int

    @property
    def part(self) -> Part:
        """Which rows it holds."""
        return part_of(self.cluster, self.day, self.batch)


def part_of(cluster: str, day: str, batch: str) -> Part:
    """Return which files hold a row: by its cluster, day (or month) and ``batch``."""
    return cluster, day[: len("2026-11")], batch.rpartition("+")[2]


def cluster_folder(cluster: str) -> str:
    """Return the name of the folder with the files of a cluster."""
    return f"cluster={quote(cluster, safe='')}"


def named_file(path: str, table: str, size: int) -> StoredFile | str:
    """Return what the path of a table's file says, or why iqcar cannot have named it so."""
    name = _FILE.search(path)
    if name is None:
        return "it is not named as iqcar names its files"
    if name[3] > f"{time.time_ns() // 1_000_000 + CLOCKS_APART_MS:014d}":
        return LATER
    return StoredFile(
        path=path, table=table, cluster=unquote(name[1]), day=name[2], batch=name[3], size=size
    )


def unfinished_since(path: str) -> float | None:
    """Return since when a file is being written, in s, that is renamed when it is whole.

    A writer that was killed leaves it. None for any other file.
    """
    name = _UNFINISHED.search(path)
    return int(name[1]) / 1e3 if name is not None else None


def in_range(day: str, since: str, until: str) -> bool:
    """Tell whether a day, or some day of a month, lies in a range that includes its ends."""
    return day == NO_DAY or (since or "0")[: len(day)] <= day <= ((until or "9")[: len(day)])


def folder_of(start_ms: pd.Series) -> pd.Series:
    """Return the day in UTC that each time lies in, as text; in a past month, only the month."""
    import pandas as pd

    days = pd.to_datetime(start_ms, unit="ms", utc=True).dt.strftime("%Y-%m-%d").fillna(NO_DAY)
    months = days.str[: len("2026-11")]
    return days.where(months == this_month(), months)


def this_month() -> str:
    """Return the current month in UTC."""
    return time.strftime("%Y-%m", time.gmtime())


def new_batch(after: str = "") -> str:
    """Return a name for an addition or merger; it sorts after earlier ones, and after a given one.

    Clocks of two writers may be apart, and two names may be made in one millisecond.
    """
    now = time.time_ns() // 1_000_000
    if after:
        now = max(now, int(after.partition("-")[0]) + 1)
    return f"{now:014d}-{uuid.uuid4().hex[:8]}"


UNKNOWN = "unknown"
LONGEST_FOLDER = 120
"""Bytes of a cluster's name in a path; most file systems allow 255."""
_ADDRESS = re.compile(r"(?:k8s://(?:https?://)?|[a-z]+://)([^/?#]*)")


def cluster_of(master: str) -> str:
    """Return the cluster that a master belongs to.

    master: ``local[4]``, ``yarn``, ``spark://host:7077``, ``k8s://https://host:443``; may be
        empty.

    Returns ``local``, ``yarn``, or the address without user and password.
    """
    if master.startswith("local"):
        return "local"
    address = _ADDRESS.match(master)
    if address:
        return address[1].rpartition("@")[2] or UNKNOWN
    return master or UNKNOWN


def bounded_cluster(name: str) -> str:
    """Return a cluster's name as it is kept: a long one is cut, and told apart by its hash."""
    whole = name.encode("utf-8", "replace").decode()
    if len(quote(whole, safe="")) <= LONGEST_FOLDER:
        return whole
    kept = whole
    while len(quote(kept, safe="")) > LONGEST_FOLDER - 13:
        kept = kept[: max(len(kept) - 8, 0)]
    return f"{kept}~{sha256(whole.encode()).hexdigest()[:12]}"


MARK = "iqcar-history.json"
"""The file that tells a store from any other folder."""
_NO_SYNC = {errno.EACCES, errno.EINVAL, errno.ENOTSUP}
"""Errors of a folder above the store that may not be read, and of file systems that sync none."""
_TYPES = {"str": "string", "float64": "float64", "int64": "int64", "bool": "bool_"}


@dataclass
class Store:
    """A store that exists or can be made.

    url: as the user gave it.
    root: its path in that file system.
    """

    url: str
    files: Any
    root: str
    set_aside: dict[str, str] = field(default_factory=dict, repr=False)
    """Why files were not read that do not hold what iqcar wrote, by path."""
    _made: bool = field(default=False, repr=False)
    _synced: set[str] = field(default_factory=set, repr=False)
    """Folders that are known to be on the disk."""

    def write(self, table: TableSpec, cluster: str, day: str, batch: str, rows: pa.Table) -> int:
        """Write the rows of one table, cluster and day; return the size of the file in bytes."""
        import pyarrow.parquet as pq

        rows = rows.select([c.name for c in table.columns]).cast(arrow_schema(table))
        rows = rows.replace_schema_metadata(None)
        held = io.BytesIO()
        # Most files hold few rows: what Parquet tells of a column would be larger than the column.
        pq.write_table(rows, held, compression="zstd", store_schema=False, write_statistics=False)
        folder = f"{self.root}/{table.name}/{cluster_folder(cluster)}/day={day}"
        self._put(folder, f"{batch}.parquet", held.getvalue())
        return held.tell()

    def set_aside_lines(self) -> builtins.list[str]:
        """Say which files were not read, why, and what to do."""
        removing = "remove that file, then add its logs with --again"
        said = []
        for _, why in sorted(self.set_aside.items()):
            first = "check this machine's clock; if it is right, " if why.endswith(LATER) else ""
            said.append(f"set aside {why}; {first}{removing}")
        return said

    def make(self) -> None:
        """Make the store where there is none; raises as :func:`open_store`."""
        if self._made:
            return
        if not self._marked():
            if not self._holds_files():
                self._put(self.root, MARK, json.dumps({"format": FORMAT}).encode())
            elif not self._marked():  # asked again: another writer may have made it meanwhile
                raise UsageError(
                    "it holds other files", self.url, "name a new folder, or one of a store"
                )
        self._made = True

    def must_exist(self) -> None:
        """Raise IqcarError if there is no store."""
        if not self._marked():
            raise IqcarError(
                "there is no store here", self.url, f"iqcar history add {self.url} LOG… makes one"
            )

    def list(self, table: TableSpec, since: str = "", until: str = "") -> list[StoredFile]:
        """List the files of a table whose days lie in a range, ends included, by addition."""
        folder = f"{self.root}/{table.name}"
        with self._told():
            if self._protocols & _OBJECTS:  # what was listed of other tables still holds
                paths = self.files.find(folder, detail=True, refresh=True)
            else:
                self.files.invalidate_cache()
                paths = self.files.find(folder, detail=True)
        found = []
        for path, details in paths.items():
            if unfinished_since(path) is not None:
                continue
            one = named_file(path, table.name, int(details.get("size") or 0))
            if isinstance(one, str):
                self.put_aside(path, one)
            elif in_range(one.day, since, until):
                found.append(one)
        return sorted(found, key=lambda one: (one.batch, one.path))

    def found(self, folder: str) -> Collection[str]:
        """List all files below a folder of the store, hidden ones too."""
        more = {"refresh": True} if self.has_whole_files else {}
        with self._told():
            paths: Collection[str] = self.files.find(f"{self.root}/{folder}", **more)
        return paths

    def note(self, folder: str, name: str) -> None:
        """Write an empty file whose name says something."""
        self._put(f"{self.root}/{folder}", name, b"")

    @property
    def has_whole_files(self) -> bool:
        """Whether a file appears only when it is whole, as in a bucket."""
        return bool(self._protocols & _OBJECTS)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; one that is gone already is no error."""
        paths = list(paths)
        with self._told():
            if paths and self._protocols & _OBJECTS:  # a bucket removes many at once
                with contextlib.suppress(FileNotFoundError):
                    self.files.rm(paths)
                    return
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self.files.rm_file(path)

    def connect(self) -> DuckDBPyConnection:
        """Open a connection that reads this store's files."""
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET enable_progress_bar = false; SET parquet_metadata_cache = true")
        if self._remote:
            # Google's would read ahead in tasks that nobody ends where DuckDB opened a file.
            self.files.open = partial(type(self.files).open, self.files, cache_type="readahead")
            connection.register_filesystem(self.files)
        return connection

    def opened(self, one: StoredFile) -> str:
        """Return how DuckDB names a file to open."""
        return self.files.unstrip_protocol(one.path) if self._remote else one.path

    def put_aside(self, path: str, why: str) -> None:
        """Note why a file is not read."""
        shown = path.removeprefix(self.root).lstrip("/")
        self.set_aside[path] = f"{redact_text(printable(shown), 200)}: {why}"

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what DuckDB raises because of a file into one line."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            damaged = isinstance(
                error,
                (duckdb.InvalidInputException, duckdb.ConversionException,
                 duckdb.OutOfRangeException),
            )  # fmt: skip
            # What a file system raises while DuckDB reads is of none of DuckDB's own kinds.
            if not (
                damaged or isinstance(error, duckdb.IOException) or type(error) is duckdb.Error
            ):
                raise
            said = first_line(error)
            advice = "remove that file, then add its logs with --again" if damaged else ""
            raise IqcarError(f"cannot be read: {said}", self.url, advice) from error

    @property
    def _remote(self) -> bool:
        return "file" not in self._protocols

    def _marked(self) -> bool:
        """Tell whether it is a store; raises IqcarError if it is one of a later version."""
        with self._told():
            try:
                held = self.files.cat_file(f"{self.root}/{MARK}")
            except FileNotFoundError:
                return False
        try:
            version = int(json.loads(held)["format"])
        except (ValueError, KeyError, TypeError):
            raise IqcarError(f"its {MARK} is damaged", self.url) from None
        if version > FORMAT:
            raise IqcarError(f"it has format {version}", self.url, "a newer iqcar can read it")
        return True

    def _holds_files(self) -> bool:
        """Tell whether there are files other than a mark that somebody writes or never finished."""
        with self._told():
            found = self.files.ls(self.root, detail=False) if self.files.exists(self.root) else []
        names = (path.rstrip("/").rpartition("/")[2] for path in found)
        return any(not name.startswith(f".{MARK}.") for name in names)

    def _put(self, folder: str, name: str, content: bytes) -> None:
        """Write a file that is seen whole or not at all, even after a crash of the machine."""
        with self._told():
            if self._protocols & _OBJECTS:
                self.files.pipe_file(f"{folder}/{name}", content)
                return
            self.files.makedirs(folder, exist_ok=True)
            beside = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}"
            try:
                self.files.pipe_file(beside, content)
                self._sync(beside)
                self.files.mv(beside, f"{folder}/{name}")
            except BaseException:
                with contextlib.suppress(Exception):
                    self.files.rm_file(beside)
                raise
            self._sync(folder)
            while folder not in self._synced and folder.startswith(self.root):
                self._synced.add(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120 - the path may be of any host
                self._sync(folder)

    def _sync(self, path: str) -> None:
        """Wait until a local file or folder is on the disk."""
        if self._remote or os.name == "nt":
            return
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    @property
    def _protocols(self) -> set[str]:
        names = self.files.protocol
        return {names} if isinstance(names, str) else set(names)

    @contextlib.contextmanager
    def _told(self) -> Any:
        """Turn what a file system raises into one line."""
        try:
            yield
        except IqcarError:
            raise
        except Exception as error:  # any backend's own error type
            said = redact_text(f"{type(error).__name__}: {error}".splitlines()[0], 300)
            raise IqcarError(f"the store cannot be used: {said}", self.url) from error


_OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"}
"""File systems where an object appears only when it is whole, and renaming would copy it."""


def open_store(url: str) -> Store:
    """Open a store; nothing is read or written yet.

    Raises IqcarError if a package for this kind of URL is not installed.

    url: a local folder, or a URL that fsspec knows: ``s3a://``, ``gs://``, ``abfs://``,
        ``hdfs://``.
    """
    import fsspec

    named = re.sub(r"^s3[an]://", "s3://", url)
    try:
        # DuckDB asks up to twenty times what a file is: what Store.list found answers, as no file
        # is ever changed.
        files, root = fsspec.core.url_to_fs(named, use_listings_cache=True)
    except ImportError as error:
        raise IqcarError(str(error), url, "pip install 'iqcar[remote]'") from error
    except ValueError as error:
        raise UsageError(str(error), url, "give a folder or a URL") from error
    return Store(url, files, root.rstrip("/"))


def first_line(error: Exception) -> str:
    """Return the first line of what DuckDB says, without secrets."""
    return redact_text(str(error).strip().partition("\n")[0], 300)


def arrow_schema(table: TableSpec) -> pa.Schema:
    """Return the Arrow schema of a stored table."""
    import pyarrow as pa

    return pa.schema([(c.name, getattr(pa, _TYPES[c.dtype])()) for c in table.columns])


def write_batch(store: Store, cluster: str, batch: str, rows: Mapping[str, pd.DataFrame]) -> int:
    """Write one addition, a file per table and day; return its size in bytes.

    rows: of every table in :data:`STORED`.
    """
    import pyarrow as pa

    store.make()
    key = ["application_id", "attempt_id"]
    days = rows[APPLICATIONS.name][[*key, "start_ms"]].assign(
        day=lambda f: folder_of(f["start_ms"])
    )
    days = days.drop_duplicates(key)[[*key, "day"]]
    written = 0
    for table in reversed(STORED):
        of_day = rows[table.name].merge(days, on=key, how="inner")
        for day, part in of_day.groupby("day"):
            held = pa.Table.from_pandas(part, schema=arrow_schema(table), preserve_index=False)
            written += store.write(table, cluster, str(day), batch, held)
    return written
