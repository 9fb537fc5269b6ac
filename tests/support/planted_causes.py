"""Applications that one planted cause makes slow, on a real Spark, and the same with it mended.

``record`` runs one and tells how long its user waited. ``finding_jobs.py`` is what runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import iqcar
from iqcar.say.findings import find_findings
from tests.support import SUPPORT
from tests.support.listener_spark import GONE_IN_S, JAR, App, environment, run_alone
from tests.support.standalone_cluster import Cluster, standalone_cluster

PROGRAM = SUPPORT / "finding_jobs.py"
USER_OPTIONS = {"spark.executor.defaultJavaOptions": "-Dfile.encoding=UTF-8"}
PLUGIN = {"spark.plugins": "org.iqcar.spark.IqcarPlugin"}
NO_ADAPTION = {"spark.sql.adaptive.enabled": "false"}
ONE_CORE_EACH = {"spark.executor.memory": "700m", "spark.executor.cores": "1"}
SCALING = ONE_CORE_EACH | {
    "spark.cores.max": "2",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "300s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "300s",
}
"""One executor, until another is asked for."""
RELEASED = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
}
CPU = Path("/sys/fs/cgroup/cpu")
SHARES = 262_144
"""Of the processor, as many as there can be: a process of this machine has 1024."""
PERIOD_US = 50_000
LIMIT_CPUS, LOOSE_CPUS = 0.5, 64.0
LATE_S = 12.0
"""How much later than asked the hosts of ``late`` start executors."""
READY_S = 240
RATES_MS = {"lock": 60, "outside": 300}
ROWS, CUSTOMERS = 4_000_000, 100_000
WIDE_DAYS, WIDE_FILES, WIDE_COLUMNS = 24, 50, 300


class Cause(NamedTuple):
    """What is planted.

    wanted: kinds of findings, any of which names it.
    action: what is done against it.
    slots: of the application's one process; 0 if it runs on the cluster of two hosts.
    conf: settings; was, mended: those of one state alone.
    plain: kinds that name it where there is only a plain log, if they are others.
    """

    wanted: tuple[str, ...]
    action: str
    slots: int = 2
    conf: Mapping[str, str] = {}
    was: Mapping[str, str] = {}
    mended: Mapping[str, str] = {}
    plain: tuple[str, ...] = ()


CAUSES = {
    "failed": Cause(("failed",), "handle the row whose text is no number", 4),
    "cold": Cause(
        ("cold",), "run the query on the new executor before", 0,
        SCALING | {"spark.sql.files.maxPartitionBytes": "10m"},
    ),
    "locality": Cause(
        ("locality",), "spark.locality.wait=0", 0, SCALING,
        mended={"spark.locality.wait": "0s"},
    ),
    "throttled": Cause(("throttled",), "no CPU quota"),
    "lock": Cause(("lock",), "a connection for each thread", 4, plain=("lock", "outside")),
    "python-lock": Cause(("lock", "outside"), "a file for each task", 4),
    "tiny-tasks": Cause(
        ("tiny-tasks", "partitions"), "8 shuffle partitions", 2,
        NO_ADAPTION, {"spark.sql.shuffle.partitions": "2000"},
        {"spark.sql.shuffle.partitions": "8"},
    ),
    "schema": Cause(("schema",), "give the schema"),
    "outside": Cause(("outside",), "ask once for all rows", 4),
    "spill": Cause(
        ("memory",), "the usual share of memory", 2,
        NO_ADAPTION | {"spark.sql.shuffle.partitions": "4"}, {"spark.memory.fraction": "0.02"},
    ),
    "skew": Cause(
        ("skew",), "salt the key", 2,
        {"spark.sql.shuffle.partitions": "8"},
    ),
    "broadcast": Cause(
        ("broadcast",), "let small tables be broadcast", 2,
        NO_ADAPTION | {"spark.sql.shuffle.partitions": "8"},
        {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    ),
    "partitions": Cause(("partitions",), "write several files"),
    "idle": Cause(
        ("idle",), "dynamic allocation", 0, {"spark.executor.cores": "2", "spark.cores.max": "4"},
        mended=RELEASED,
    ),
    "late": Cause(
        ("start-up", "not-granted"), "hosts that start executors at once", 0,
        ONE_CORE_EACH | {"spark.cores.max": "2"},
    ),
    "collect": Cause(("collect",), "let the executors add up"),
}  # fmt: skip
OF_JAVA = ("lock", "outside")
"""Kinds whose functions are in Java."""
VARIANTS = ("plugin", "plain")
RUNS = (("was", "plugin"), ("mended", "plain"), ("was", "plain"))
"""What one turn runs: what mending saves is measured without the plugin."""
DONE = "done.json"
MOST_TURNS = 10
LUCK_MS, LUCK_SHARE = 500.0, 0.05
"""Starting and ending jobs takes some time that differs, and runs differ by a twentieth."""
_FOLDERS = re.compile(r"/[^ ]*/(?=finding_)")
"""Where the application lies is nobody's business."""
FREED_LUCK = 0.15
"""Of the executors' time: starting and stopping them takes some."""


@dataclass(frozen=True)
class Run:
    """One run of an application, in a folder of the logs.

    state: as it ``was``, or ``mended``.
    variant: with the ``plugin``, or ``plain``.
    turn: runs of one state and variant are counted from 1.
    """

    logs: Path
    kind: str
    state: str
    variant: str
    turn: int = 1

    @property
    def folder(self) -> Path:
        again = f"-{self.turn}" if self.turn > 1 else ""
        return self.logs / f"{self.kind}-{self.state}-{self.variant}{again}"

    @property
    def ended(self) -> bool:
        """Whether it ran to its end."""
        return (self.folder / DONE).exists()

    @property
    def took(self) -> dict[str, float]:
        """When its user began and ended to wait, and how long executors were held, in ms."""
        found: dict[str, float] = json.loads((self.folder / DONE).read_text("utf-8"))
        return found

    @property
    def took_ms(self) -> float:
        took = self.took
        return took["ended_ms"] - took["began_ms"]


def judge(logs: Path, kind: str, variant: str) -> dict[str, Any] | None:
    """What is found in the shortest run of an application as it was, and what mending it saved."""
    was, mended = (
        [run for run in (Run(logs, kind, *of, turn) for turn in range(1, MOST_TURNS)) if run.ended]
        for of in (("was", variant), ("mended", "plain"))
    )
    if not was:
        return None
    before = min(was, key=lambda run: run.took_ms)
    after = min(mended, key=lambda run: run.took_ms, default=None)
    cause, took = CAUSES[kind], before.took
    wanted = cause.plain if variant == "plain" and cause.plain else cause.wanted
    tables = iqcar.read(before.folder / "log")
    starts = tables.queries["start_ms"].to_numpy(np.float64)
    ends = starts + np.nan_to_num(tables.queries["duration_ms"].to_numpy(np.float64))
    timed = set(np.flatnonzero((ends > took["began_ms"]) & (starts < took["ended_ms"])).tolist())
    findings = find_findings(iqcar.diagnose(tables))
    naming = [
        place
        for place, one in enumerate(findings)
        if one.kind.value in wanted and (not one.queries or timed & set(one.queries))
    ]
    row: dict[str, Any] = {
        "kind": kind, "variant": variant, "wanted": wanted, "action": cause.action,
        "first": findings[0].kind.value if findings else "nothing",
        "sentence": _FOLDERS.sub("", findings[0].sentence) if findings else "",
        "advice": findings[0].action if findings else "",
        "place": naming[0] + 1 if naming else None,
        "was_ms": round(before.took_ms), "mended_ms": after and round(after.took_ms),
        "low_ms": None, "high_ms": None, "saved_ms": None, "within": None,
    }  # fmt: skip
    if after is None or kind == "failed":
        return row
    named = findings[naming[0]] if naming else None
    if kind == "idle":
        row["freed"] = 1.0 - after.took["executor_ms"] / took["executor_ms"]
        row["frees"] = named and named.frees
        row["within"] = named is not None and 0 < row["freed"] <= named.frees + FREED_LUCK
        return row
    row["saved_ms"] = saved = round(before.took_ms - after.took_ms)
    if named is not None:
        row["low_ms"], row["high_ms"] = round(named.low_ms), round(named.high_ms)
        luck = max(LUCK_MS, LUCK_SHARE * before.took_ms)
        row["within"] = named.low_ms - luck <= saved <= named.high_ms + luck
    else:
        row["within"] = False
    return row


class Planted:
    """Runs applications of all causes; to be used as a context.

    home: a Spark.
    folder: for tables, and the cluster's files.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        self._stack = ExitStack()

    def __enter__(self) -> Planted:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.group = self._stack.enter_context(_control_group())
        self.service = self._stack.enter_context(_service())
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    @cached_property
    def cluster(self) -> Cluster:
        """A cluster of two hosts, started when it is first asked for."""
        folder = self.folder / "cluster"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        started = standalone_cluster(self.home, folder, environment(self.home))
        cluster = self._stack.enter_context(started)
        for daemon in cluster.daemons:
            (self.group / "cgroup.procs").write_text(str(daemon.pid))
        return cluster

    @cached_property
    def data(self) -> Path:
        """The tables that the applications read."""
        folder = self.folder / "data"
        if not folder.exists():
            making = self.folder / "data.making"
            shutil.rmtree(making, ignore_errors=True)
            _make_tables(making)
            making.rename(folder)
        return folder

    @cached_property
    def functions(self) -> Path:
        """The jar of the functions of Java."""
        classes = self.folder / "classes"
        classes.mkdir(exist_ok=True)
        source, jar = SUPPORT / "RateBook.java", self.folder / "rates.jar"
        spark = f"{self.home}/jars/*"
        subprocess.run(["javac", "-cp", spark, "-d", classes, source], check=True)
        subprocess.run(["jar", "--create", "--file", jar, "-C", classes, "."], check=True)
        return jar

    def record(self, run: Run) -> None:
        """Run an application; its log is in the run's folder."""
        kind, state, folder = run.kind, run.state, run.folder
        cause, plugin = CAUSES[kind], run.variant == "plugin"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        jars = ([str(JAR)] if plugin else []) + ([str(self.functions)] if kind in OF_JAVA else [])
        conf = {
            **USER_OPTIONS, **cause.conf, **(cause.mended if state == "mended" else cause.was),
            **(PLUGIN if plugin else {}),
        }  # fmt: skip
        options = ["--jars", ",".join(jars)] if jars else []
        rates = f"{self.service}/rate?ms={RATES_MS.get(kind)}&day="
        options += ["--driver-java-options", f"-Drates.url={rates}"]
        words = [str(PROGRAM), kind, state, str(self.data), str(folder), self.service]
        master = f"local[{cause.slots}{',4' if kind == 'failed' else ''}]"
        master = master if cause.slots else self.cluster.master
        join = f'echo $$ > "{self.group}/cgroup.procs" && exec "$@"'
        prefix = ["env", "-u", "SPARK_SUBMIT_OPTS", "sh", "-c", join, "sh"]
        with self._limited(kind, state, folder):
            app = run_alone(
                self.home, folder, words, master=master, conf=conf, options=options, prefix=prefix
            )
        took = folder / "took.json"
        fails = kind == "failed" and state == "was"
        assert bool(app.exit_code) == fails and took.exists(), (
            app.output[-2000:] + app.errors[-5000:]
        )
        told = {**json.loads(took.read_text("utf-8")), "executor_ms": _held_ms(app)}
        (folder / DONE).write_text(json.dumps(told), "utf-8")

    @contextmanager
    def _limited(self, kind: str, state: str, folder: Path) -> Iterator[None]:
        """Limit the processor while the timed part runs, or stop the hosts while one starts."""
        workers = self.cluster.daemons[1:] if kind == "late" and state == "was" else []
        for worker in workers:
            worker.send_signal(signal.SIGSTOP)

        def watch() -> None:
            deadline = time.monotonic() + READY_S
            while not (folder / "ready").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            if state == "was":
                self._set_limit(LIMIT_CPUS)
            (folder / "go").touch()

        if kind == "throttled":
            # The plugin looks for a quota when it starts.
            self._set_limit(LOOSE_CPUS)
            threading.Thread(target=watch, daemon=True).start()
        if workers:
            resume = threading.Timer(2 * LATE_S, lambda: _resume(workers))
            resume.start()
        try:
            yield
        finally:
            if kind == "throttled":
                self._set_limit(None)
            _resume(workers)

    def _set_limit(self, cpus: float | None) -> None:
        quota = -1 if cpus is None else round(PERIOD_US * cpus)
        (self.group / "cpu.cfs_quota_us").write_text(str(quota))


def _resume(workers: list[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.send_signal(signal.SIGCONT)


def _held_ms(app: App) -> float:
    """How long the executors were held."""
    held, added = 0.0, {}
    for event in app.events:
        if event["Event"] == "SparkListenerExecutorAdded":
            added[event["Executor ID"]] = event["Timestamp"]
        elif event["Event"] == "SparkListenerExecutorRemoved":
            held += event["Timestamp"] - added.pop(event["Executor ID"], event["Timestamp"])
        elif event["Event"] == "SparkListenerApplicationEnd":
            held += sum(event["Timestamp"] - began for began in added.values())
    return held


@contextmanager
def _control_group() -> Iterator[Path]:
    """A control group whose processes stand before others of this machine."""
    path = CPU / f"iqcar-planted-{os.getpid()}"
    path.mkdir()
    (path / "cpu.shares").write_text(str(SHARES))
    (path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    try:
        yield path
    finally:
        deadline = time.monotonic() + GONE_IN_S
        while (path / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        path.rmdir()


class _Slow(BaseHTTPRequestHandler):
    """Answers with a number after as many milliseconds as it is asked for."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        time.sleep(float(asked["ms"][0]) / 1e3)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"1.25")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _service() -> Iterator[str]:
    """A slow service on this machine; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _make_tables(folder: Path) -> None:
    """Write the tables as Parquet."""
    luck = np.random.default_rng(1)
    numbers = np.arange(ROWS)
    sales = pa.table(
        {
            "sale_id": numbers,
            "customer_id": luck.integers(0, CUSTOMERS, ROWS),
            "item_id": luck.integers(0, 20_000, ROWS),
            "day": luck.integers(0, 365, ROWS),
            "amount": luck.exponential(40.0, ROWS).round(2),
            "note": pa.array(np.char.mod("order-%d", luck.integers(0, 1_000_000, ROWS))),
        }
    )
    _write(sales, folder / "sales", 8)
    guests = luck.random(ROWS) < 0.95
    of = np.where(guests, 0, luck.integers(0, CUSTOMERS, ROWS))
    at = sales.schema.get_field_index("customer_id")
    web = sales.set_column(at, "customer_id", pa.array(of))
    _write(web, folder / "web_sales", 8)
    regions = np.array(["north", "south", "east", "west"])
    customers = {"customer_id": np.arange(CUSTOMERS), "region": regions[np.arange(CUSTOMERS) % 4]}
    _write(pa.table(customers), folder / "customers", 2)
    known = CUSTOMERS * 4
    letters = luck.integers(ord("a"), ord("z") + 1, (known, 48), np.uint8)
    # They are too large to be broadcast by default.
    accounts = {
        "customer_id": np.arange(known),
        "region": regions[np.arange(known) % 4],
        "address": pa.array(letters.view("S48").ravel()).cast(pa.string()),
    }
    _write(pa.table(accounts), folder / "accounts", 4)
    paid = np.char.mod("%.2f", luck.exponential(40.0, ROWS // 2)).astype(object)
    paid[-1000] = "n/a"
    payments = {"customer_id": luck.integers(0, CUSTOMERS, ROWS // 2), "paid": paid}
    _write(pa.table(payments), folder / "payments", 8)
    days = {"day": np.arange(200), "month": np.arange(200) % 12}
    _write(pa.table(days), folder / "days", 8)
    wide = pa.table({f"c{n}": luck.random(2 * WIDE_FILES) for n in range(WIDE_COLUMNS)})
    for day in range(WIDE_DAYS):
        _write(wide, folder / "measurements" / f"day={day}", WIDE_FILES)


def _write(table: pa.Table, folder: Path, files: int) -> None:
    folder.mkdir(parents=True)
    each = -(-table.num_rows // files)
    for number in range(files):
        part = table.slice(number * each, each)
        pq.write_table(part, folder / f"part-{number:05d}.parquet")
