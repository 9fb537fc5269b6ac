"""Applications that one planted cause makes slow, on a real Spark, and the same with it mended.

``record`` runs one and tells how long its user waited. ``finding_jobs.py`` is what runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import SUPPORT
from tests.support.listener_spark import JAR, App, environment, run_alone
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
SHARES = 16_384
"""Of the processor: a process of this machine has 1024."""
PERIOD_US = 50_000
LIMIT_CPUS = 0.5
LATE_S = 12.0
"""How much later than asked the hosts of ``late`` start executors."""
READY_S = 240
RATES_MS = 60
ROWS, CUSTOMERS, WIDE_FILES, WIDE_COLUMNS = 4_000_000, 100_000, 1_200, 300


class Cause(NamedTuple):
    """What is planted.

    wanted: kinds of findings, any of which names it.
    action: what is done against it.
    slots: of the application's one process; 0 if it runs on the cluster of two hosts.
    conf: settings; was, mended: those of one state alone.
    runs: of each state; the shortest counts.
    """

    wanted: tuple[str, ...]
    action: str
    slots: int = 2
    conf: Mapping[str, str] = {}
    was: Mapping[str, str] = {}
    mended: Mapping[str, str] = {}
    runs: int = 1


CAUSES = {
    "failed": Cause(("failed",), "handle the row whose text is no number", 4),
    "cold": Cause(("cold",), "run the query on the new executor before", 0, SCALING, runs=2),
    "locality": Cause(
        ("locality",), "spark.locality.wait=0", 0, SCALING,
        mended={"spark.locality.wait": "0s"}, runs=2,
    ),
    "throttled": Cause(("throttled",), "no CPU quota"),
    "lock": Cause(("lock",), "a connection for each thread", 4),
    "python-lock": Cause(("lock", "outside"), "a file for each task", 4, runs=2),
    "tiny-tasks": Cause(
        ("tiny-tasks", "partitions"), "8 shuffle partitions", 2,
        NO_ADAPTION, {"spark.sql.shuffle.partitions": "2000"}, {"spark.sql.shuffle.partitions": "8"}, 2,
    ),
    "schema": Cause(("schema",), "give the schema", runs=2),
    "outside": Cause(("outside",), "ask for 25 rows at once", 4),
    "spill": Cause(
        ("memory",), "the usual share of memory", 2,
        NO_ADAPTION | {"spark.sql.shuffle.partitions": "4"}, {"spark.memory.fraction": "0.03"},
        runs=2,
    ),
    "skew": Cause(
        ("skew",), "salt the key", 2,
        {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "8"},
        runs=2,
    ),
    "broadcast": Cause(
        ("broadcast",), "let small tables be broadcast", 2,
        NO_ADAPTION | {"spark.sql.shuffle.partitions": "8"},
        {"spark.sql.autoBroadcastJoinThreshold": "-1"}, runs=2,
    ),
    "partitions": Cause(("partitions",), "write several files", runs=2),
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
NO_TIME = ("failed", "idle")
"""Actions that do not shorten what its user waits for."""


class Recorded(NamedTuple):
    """One run of an application.

    began_ms, ended_ms: when its user began and ended to wait.
    executor_ms: how long its executors were held, summed over them.
    """

    log: Path
    began_ms: float
    ended_ms: float
    executor_ms: float

    @property
    def took_ms(self) -> float:
        return self.ended_ms - self.began_ms


def recorded(folder: Path) -> Recorded:
    """What a run has left in its folder."""
    took = json.loads((folder / "took.json").read_text("utf-8"))
    return Recorded(folder / "log", took["began_ms"], took["ended_ms"], took["executor_ms"])


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

    def record(self, kind: str, state: str, plugin: bool, folder: Path) -> Recorded:
        """Run an application in one state, with the plugin or without; its log is in the folder."""
        cause = CAUSES[kind]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        jars = ([str(JAR)] if plugin else []) + ([str(self.functions)] if kind == "lock" else [])
        conf = {
            **USER_OPTIONS, **cause.conf, **(cause.mended if state == "mended" else cause.was),
            **(PLUGIN if plugin else {}),
        }  # fmt: skip
        options = ["--jars", ",".join(jars)] if jars else []
        options += ["--driver-java-options", f"-Drates.url={self.service}"]
        words = [str(PROGRAM), kind, state, str(self.data), str(folder), self.service]
        master = f"local[{cause.slots}{',4' if kind == 'failed' else ''}]"
        master = master if cause.slots else self.cluster.master
        join = f'echo $$ > "{self.group}/cgroup.procs" && exec "$@"'
        prefix = ["env", "-u", "SPARK_SUBMIT_OPTS", "sh", "-c", join, "sh"]
        with self._limited(kind, state, folder):
            app = run_alone(
                self.home, folder, words, master=master, conf=conf, options=options, prefix=prefix
            )
        broken = kind == "failed" and state == "was"
        assert bool(app.exit_code) == broken and (folder / "took.json").exists(), app.errors[-5000:]
        took = json.loads((folder / "took.json").read_text("utf-8"))
        took["executor_ms"] = _held_ms(app)
        (folder / "took.json").write_text(json.dumps(took))
        return recorded(folder)

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
        while (path / "cgroup.procs").read_text():
            time.sleep(0.1)
        path.rmdir()


class _Slow(BaseHTTPRequestHandler):
    """Answers after as many milliseconds as it is asked for, a number for each id."""

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        time.sleep(float(asked.get("ms", [str(RATES_MS)])[0]) / 1e3)
        numbers = "\n".join("1.25" for _ in asked.get("ids", ["1"])[0].split(","))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(numbers.encode())

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
    guests = luck.random(ROWS) < 0.8
    of = np.where(guests, 0, luck.integers(0, CUSTOMERS, ROWS))
    at = sales.schema.get_field_index("customer_id")
    web = sales.set_column(at, "customer_id", pa.array(of)).slice(0, ROWS // 2)
    _write(web, folder / "web_sales", 8)
    regions = np.array(["north", "south", "east", "west"])
    customers = {"customer_id": np.arange(CUSTOMERS), "region": regions[np.arange(CUSTOMERS) % 4]}
    _write(pa.table(customers), folder / "customers", 2)
    paid = np.char.mod("%.2f", luck.exponential(40.0, ROWS // 2)).astype(object)
    paid[-1000] = "n/a"
    payments = {"customer_id": luck.integers(0, CUSTOMERS, ROWS // 2), "paid": paid}
    _write(pa.table(payments), folder / "payments", 8)
    days = {"day": np.arange(200), "month": np.arange(200) % 12}
    _write(pa.table(days), folder / "days", 8)
    wide = pa.table({f"c{n}": luck.random(50) for n in range(WIDE_COLUMNS)})
    _write(wide, folder / "measurements", 1)
    (first,) = (folder / "measurements").iterdir()
    for number in range(1, WIDE_FILES):
        shutil.copyfile(first, first.with_name(f"part-{number:05d}.parquet"))


def _write(table: pa.Table, folder: Path, files: int) -> None:
    folder.mkdir(parents=True)
    each = -(-table.num_rows // files)
    for number in range(files):
        part = table.slice(number * each, each)
        pq.write_table(part, folder / f"part-{number:05d}.parquet")
