"""A standalone Spark cluster whose workers run on hosts that can be loaded alone.

A host is a control group (version 1) with a processor quota and a throttled disk. Spark's daemons
and executors may use half of the quota, as an executor with one core of two would; anomalies run in
the other group of the same host and take from the same quota and disk. All hosts have one kernel,
whose /proc/stat and /proc/diskstats tell of the machine: each host sees a view of its own instead
(in a mount namespace of its own), written here from what its groups used.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iqcar.apps.demo.run_mix import ENVIRONMENT_OF_ANOTHER_SPARK
from iqcar.logs.attach.spark_conf import SparkConf, listener_jar

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "blkio")
PREFIX = "iqcar-hosts-"
PERIOD_US = 50_000
"""Short against tasks of half a second and more, long against the kernel's slices of 5 ms."""
ABOVE_OTHERS = 8192
"""Processor shares of all hosts together: what else runs on this machine has 1024 a process."""
SHARES_PER_HOG = 1024
"""As many as Spark has: each hog counts like Spark's one task."""
VIEW_S = 0.1
NOTICED_S = 0.5
GONE_S = 10.0
TICKS_PER_S = 100
SECTOR_BYTES = 512


@dataclass(frozen=True)
class Size:
    """What each host has.

    cores: processor quota of a host; Spark may use half of it.
    disk_bytes_per_s: most that a host reads, and most that it writes, per second.
    hogs: processes of an anomaly that are given the weight of one each.
    """

    cores: float = 0.36
    disk_bytes_per_s: int = 8 << 20
    hogs: int = 4


def check_machine() -> None:
    """Refuse a machine on which hosts cannot be made, in one line."""
    if os.geteuid() != 0:
        raise SystemExit("loadable hosts: need root, to make control groups and mounts")
    missing = [c for c in CONTROLLERS if not (CGROUPS / c / "cgroup.procs").exists()]
    if missing:
        wanted = ", ".join(missing)
        raise SystemExit(f"loadable hosts: need control groups of version 1 ({wanted} is missing)")
    for tool in ("unshare", "mount"):
        if not shutil.which(tool):
            raise SystemExit(f"loadable hosts: need {tool}")


def disk_of(folder: Path) -> str:
    """The device (major:minor) of the whole disk that a folder lies on."""
    device = folder.stat().st_dev
    major, minor = os.major(device), os.minor(device)
    path = Path(f"/sys/dev/block/{major}:{minor}").resolve()
    if (path / "partition").exists():
        return (path.parent / "dev").read_text().strip()
    if not path.exists():
        raise SystemExit(f"loadable hosts: {folder} lies on no disk that can be throttled")
    return f"{major}:{minor}"


def own_group(controller: str) -> str:
    """The control group that this process is in, relative to the controller's root."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.strip("/")
    return ""


class Host:
    """One host; :func:`hosts` makes and removes them."""

    def __init__(self, root: str, name: str, folder: Path, size: Size, disk: str) -> None:
        self.name = name
        self.folder = folder
        self._size = size
        self._disk = disk
        self._groups = {c: CGROUPS / c / root / name for c in CONTROLLERS}
        self.spark = [self._groups["cpu"] / "spark", self._groups["cpuacct"], self._groups["blkio"]]
        self.hogs = [self._groups["cpu"] / "hogs", self._groups["cpuacct"], self._groups["blkio"]]
        self._use = Use()
        folder.mkdir(parents=True)
        for path in {*self.spark, *self.hogs}:
            path.mkdir(parents=True, exist_ok=True)
        _write(self.spark[0] / "cpu.shares", 1024)
        _write(self.hogs[0] / "cpu.shares", SHARES_PER_HOG * size.hogs)
        self.look()

    def limit(self) -> None:
        """Give it its share of processor and disk; before, it starts at the machine's speed."""
        for group, share in ((self._groups["cpu"], 1.0), (self.spark[0], 0.5)):
            _write(group / "cpu.cfs_period_us", PERIOD_US)
            _write(group / "cpu.cfs_quota_us", round(PERIOD_US * self._size.cores * share))
        for way in ("read", "write"):
            value = f"{self._disk} {self._size.disk_bytes_per_s}"
            _write(self._groups["blkio"] / f"blkio.throttle.{way}_bps_device", value)

    def look(self, since_s: float = 0.0) -> None:
        """Write the host's view of its processor and disk."""
        use, capacity = self._use, self._size.cores
        cpuacct = self._groups["cpuacct"]
        now = tuple(int((cpuacct / f"cpuacct.usage_{m}").read_text()) for m in ("user", "sys"))
        user, system = ((new - old) / 1e9 / capacity for new, old in zip(now, use.cpu, strict=True))
        scale = min(1.0, since_s / (user + system)) if user + system > 0 else 0.0
        use.user += user * scale
        use.system += system * scale
        use.idle += since_s - (user + system) * scale
        use.cpu = now[0], now[1]
        read, written = self._moved()
        # Bytes are counted when they are asked for, in bursts; the disk serves them at its speed.
        use.queued = use.queued[0] + read, use.queued[1] + written
        queued_s = sum(use.queued) / self._size.disk_bytes_per_s
        served = min(since_s / queued_s, 1.0) if queued_s > 0 else 0.0
        read, written = (round(served * waiting) for waiting in use.queued)
        use.queued = use.queued[0] - read, use.queued[1] - written
        use.read_bytes += read
        use.written_bytes += written
        use.busy_ms += 1000 * served * queued_s
        rewrite(self.folder / "stat", stat_text(use, max(1, int(capacity))))
        rewrite(self.folder / "diskstats", diskstats_text(use, self._disk))

    def _moved(self) -> tuple[int, int]:
        """Bytes its processes read from and wrote to disks since the last call.

        The kernel adds what a process moved to its parent's counts when that takes notice of its
        end: what ended within :data:`NOTICED_S` is taken off again.
        """
        read = written = 0
        seen = {}
        for pid in _pids(self._groups["blkio"]):
            try:
                text = Path(f"/proc/{pid}/io").read_text()
            except OSError:
                continue
            found = {k: int(v) for k, v in re.findall(r"^(read|write)_bytes: (\d+)", text, re.M)}
            before = self._use.seen.get(pid, (0, 0))
            seen[pid] = found["read"], found["write"]
            read += max(0, seen[pid][0] - before[0])
            written += max(0, seen[pid][1] - before[1])
        now = time.monotonic()
        gone = [(now, *moved) for pid, moved in self._use.seen.items() if pid not in seen]
        kept = []
        for when, r, w in [*self._use.ended, *gone]:
            again_r, again_w = min(r, read), min(w, written)
            read, written = read - again_r, written - again_w
            if now - when < NOTICED_S and (r > again_r or w > again_w):
                kept.append((when, r - again_r, w - again_w))
        self._use.seen, self._use.ended = seen, kept
        return read, written

    def start(
        self, words: Sequence[str], groups: Sequence[Path], env: dict[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a process on this host, in its groups and with its view of /proc."""
        mounts = " && ".join(
            f'mount --bind "{self.folder / name}" /proc/{name}' for name in ("stat", "diskstats")
        )
        joins = " && ".join(f'echo $$ > "{group}/cgroup.procs"' for group in groups)
        script = f'{joins} && {mounts} && exec "$@"'
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "host"]
        with log.open("ab") as out:
            return subprocess.Popen(
                [*unshare, *words], env=env, stdout=out, stderr=out, cwd=self.folder
            )


@contextmanager
def hosts(names: Sequence[str], folder: Path, size: Size) -> Iterator[list[Host]]:
    """Make hosts, keep their views up to date, and remove them whatever happens."""
    check_machine()
    remove_leftovers()
    # Whoever ends this process politely ends what it started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    root = f"{PREFIX}{os.getpid()}"
    own = own_group("cpu")
    disk = disk_of(folder)
    stop = threading.Event()
    made: list[Host] = []
    try:
        made += [Host(root, name, folder / name, size, disk) for name in names]
        _write(CGROUPS / "cpu" / root / "cpu.shares", ABOVE_OTHERS)
        # What this process starts beside the hosts, the driver above all, shall not stand behind
        # what else runs here; and it is ended with the hosts.
        _write(CGROUPS / "cpu" / root / "cgroup.procs", os.getpid())
        looking = threading.Thread(target=_look, args=(made, stop), daemon=True)
        looking.start()
        yield made
    finally:
        stop.set()
        _write(CGROUPS / "cpu" / own / "cgroup.procs", os.getpid())
        _remove_root(root)


def remove_leftovers() -> None:
    """Remove the hosts of a process that was killed."""
    roots = {path.name for c in CONTROLLERS for path in (CGROUPS / c).glob(f"{PREFIX}*")}
    for root in roots:
        if not Path(f"/proc/{root.removeprefix(PREFIX)}").exists():
            _remove_root(root)


def _remove_root(root: str) -> None:
    for controller in CONTROLLERS:
        top = CGROUPS / controller / root
        groups = [path for path, _, _ in os.walk(top, topdown=False)]
        for group in map(Path, groups):
            _empty(group)
            group.rmdir()


def _empty(group: Path) -> None:
    """End all processes of a group: first asked to, then killed."""
    deadline = time.monotonic() + GONE_S
    while pids := _pids(group):
        late = time.monotonic() > deadline - GONE_S / 2
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise SystemExit(f"loadable hosts: {len(pids)} processes in {group} do not end")
        time.sleep(VIEW_S)


def _look(made: Sequence[Host], stop: threading.Event) -> None:
    before = time.monotonic()
    while not stop.wait(VIEW_S):
        now = time.monotonic()
        for host in made:
            try:
                host.look(now - before)
            except OSError:
                return  # the groups are being removed
        before = now


def _pids(group: Path) -> list[int]:
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _write(path: Path, value: object) -> None:
    path.write_text(f"{value}\n")


@dataclass
class Use:
    """What a host's groups used so far, as its view of /proc tells it."""

    user: float = 0.0
    system: float = 0.0
    idle: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    busy_ms: float = 0.0
    queued: tuple[int, int] = (0, 0)
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    ended: list[tuple[float, int, int]] = field(default_factory=list)
    cpu: tuple[int, int] = (0, 0)


def stat_text(use: Use, processors: int = 1) -> str:
    """The host's /proc/stat: so many processors, whose ticks are the quota's."""
    each = [round(TICKS_PER_S * t) for t in (use.user, use.system, use.idle)]
    of_all, times = (
        f"{n * each[0]:018d} 0 {n * each[1]:018d} {n * each[2]:018d} 0 0 0 0 0 0"
        for n in (processors, 1)
    )
    boot = re.search(r"^btime \d+$", Path("/proc/stat").read_text(), re.M)
    lines = [f"cpu  {of_all}", *(f"cpu{n} {times}" for n in range(processors))]
    lines += ["intr 0", "ctxt 0", boot.group() if boot else ""]
    return "\n".join([*lines, "processes 0", "procs_running 1", "procs_blocked 0"]) + "\n"


def diskstats_text(use: Use, disk: str) -> str:
    """The host's /proc/diskstats: one disk, as busy as its limit was used."""
    name = Path(f"/sys/dev/block/{disk}").resolve().name
    major, minor = disk.split(":")
    read, written = use.read_bytes // SECTOR_BYTES, use.written_bytes // SECTOR_BYTES
    busy = round(use.busy_ms)
    return (
        f"{major:>4} {minor:>7} {name} 0 0 {read:018d} 0 0 0 {written:018d} 0 0 {busy:018d} "
        f"{busy:018d} 0 0 0 0 0 0\n"
    )


def rewrite(path: Path, text: str) -> None:
    """Replace a file's text in place with one write: its length never changes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, text.encode(), 0)
    finally:
        os.close(descriptor)


MASTER = "127.0.0.1"
START_S = 180.0
"""A worker starts in about 5 s alone; five at once on a busy machine take much longer."""
EXECUTOR_MEMORY = "512m"
DAEMON_MEMORY = "128m"
QUIET_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Compiling for minutes in the background would take from a host with a fraction of a core."""
CONF = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUIET_JVM,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    master: str
    hosts: list[Host]

    def limit(self) -> None:
        """Give every host its share of processor and disk, once all is warm."""
        for host in self.hosts:
            host.limit()


def spark_home() -> Path:
    """The installed pyspark's folder."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("cluster: pyspark is not installed (pip install pyspark)")
    return Path(spec.origin).parent


def environment(address: str) -> dict[str, str]:
    """Environment variables of Spark's processes on a host."""
    kept = {k: v for k, v in os.environ.items() if k not in ENVIRONMENT_OF_ANOTHER_SPARK}
    ours = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": address,
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": QUIET_JVM,
        "PYSPARK_PYTHON": sys.executable,
    }
    return {**kept, **ours}


@contextmanager
def daemons(
    names: Sequence[str], folder: Path, worker_cores: int, made: Sequence[Host] = ()
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a master and a worker for each name; stop exactly these at the end.

    Yields the master's address and the workers' processes.

    worker_cores: tasks that a worker may run at once.
    made: the hosts of these names, where they can be loaded; by default workers run beside others.
    """
    deploy, start = "org.apache.spark.deploy", str(spark_home() / "bin" / "spark-class")
    port = free_port()
    url, log = f"spark://{MASTER}:{port}", folder / "daemons.log"
    running: list[subprocess.Popen[bytes]] = []
    try:
        words = [f"{deploy}.master.Master", "--host", MASTER, "--port", str(port)]
        words += ["--webui-port", "0"]
        running.append(start_beside([start, *words], environment(MASTER), log, folder))
        for number, name in enumerate(names):
            place = made[number].folder if made else folder / name
            words = [f"{deploy}.worker.Worker", "--host", name, "--cores", str(worker_cores)]
            words += ["--memory", "1g", "--webui-port", "0", "--work-dir", str(place / "work"), url]
            local = {**environment(name), "SPARK_LOCAL_DIRS": str(place / "local")}
            if made:
                worker = made[number].start([start, *words], made[number].spark, local, log)
            else:
                (place / "local").mkdir(parents=True, exist_ok=True)
                worker = start_beside([start, *words], local, log, folder)
            running.append(worker)
        wait_until(
            lambda: log.read_text("utf-8", "replace").count("Registering worker") >= len(names),
            "workers",
            running,
        )
        yield url, running[1:]
    finally:
        for daemon in reversed(running):
            daemon.terminate()
        for daemon in running:
            daemon.wait()


def start_beside(
    words: Sequence[str], env: Mapping[str, str], log: Path, folder: Path
) -> subprocess.Popen[bytes]:
    """Start a process beside the hosts, whose messages are appended to a log."""
    with log.open("ab") as out:
        return subprocess.Popen(words, env=env, stdout=out, stderr=out, cwd=folder)


@contextmanager
def cluster(names: Sequence[str], folder: Path, size: Size) -> Iterator[Cluster]:
    """Start a master and one worker with one slot per host; stop exactly these at the end.

    names: loopback addresses, such as 127.0.0.2.
    folder: for work folders and messages; on a disk that can be throttled.
    size: what each host has once :meth:`Cluster.limit` is called.
    """
    with hosts(names, folder, size) as made, daemons(names, folder, 1, made) as (url, _):
        yield Cluster(url, made)


@contextmanager
def ended_after(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a process after the block, whatever happens."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def log_of(folder: Path) -> Path:
    """The event log of the application that a folder holds."""
    (found,) = (folder / "eventlogs").glob("[al]*")
    return found


def start_application(
    words: Sequence[str],
    master: str,
    folder: Path,
    name: str,
    conf: Mapping[str, str],
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a PySpark program with the plugin attached.

    words: the program's file and its arguments.
    folder: gets ``eventlogs/`` and the program's messages, ``NAME.log``.
    conf: Spark settings beyond :data:`CONF`.
    variables: further ones of the environment.
    """
    logs = folder / "eventlogs"
    logs.mkdir(exist_ok=True)
    settings = {
        **SparkConf(jar=str(listener_jar()), log_dir=str(logs)).settings(),
        **CONF,
        "spark.driver.memory": "1g",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "true",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        **conf,
    }
    given = ["--master", master]
    for key, value in settings.items():
        given += ["--conf", f"{key}={value}"]
    env = {**environment(MASTER), "SPARK_LOCAL_HOSTNAME": MASTER, **(variables or {})}
    env["PYSPARK_SUBMIT_ARGS"] = " ".join(map(shlex.quote, [*given, "pyspark-shell"]))
    return start_beside([sys.executable, *words], env, folder / f"{name}.log", folder)


def inject(host: Host, plan: Mapping[str, Any], file: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the injections of a plan (a file of which is written) on a host, and log them."""
    file.write_text(json.dumps(plan), "utf-8")
    words = [sys.executable, "-m", "iqcar_lab", "inject", "schedule"]
    words += ["--plan", str(file), "--log", str(log)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "analyzer")}
    return host.start(words, host.hogs, env, log.with_name("inject.log"))


def wait_until(
    condition: Callable[[], bool], what: str, running: Sequence[subprocess.Popen[bytes]] = ()
) -> None:
    """Wait for a condition while processes run; end with a line if it does not come true."""
    deadline = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"cluster: no {what} within {START_S:.0f} s")
        for process in running:
            if process.poll() is not None:
                raise SystemExit(f"cluster: a process ended while waiting for {what}")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((MASTER, 0))
        return int(probe.getsockname()[1])
