"""Samples the use of a host's resources: one JSON object per period, each on a line of its own.

The script is one file, because the Spark plugin carries it in its jar and gives it to the Python
of the executors' hosts, where iqcar is not installed. It needs Python 3.7 or newer and psutil, and
does not run on Windows. docs/listener.md describes the fields and their units. A counter is written
as its growth since the line before; a part that a system lacks is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time

try:
    import fcntl

    import psutil

    MISSING = ""
except ImportError as error:
    MISSING = str(error)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

VERSION = 1
CANNOT_SAMPLE = 3
"""Exit code where psutil or a needed part of the system is missing."""
SHORTEST_S = 0.05
"""Shortest last sample worth taking: the kernel counts CPU in ticks of 10 ms."""
LOCK_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 (the same for every user and temp setting)
CPU_MODES = ("user", "nice", "system", "iowait", "irq", "softirq", "steal", "idle")
DISK_COUNTERS = (
    "read_bytes", "write_bytes", "read_count", "write_count", "read_time", "write_time", "busy_time"
)  # fmt: skip
NET_COUNTERS = ("bytes_recv", "bytes_sent", "packets_recv", "packets_sent")
PROCESS_BYTES = ("read_bytes", "write_bytes", "read_chars", "write_chars")
CGROUP_COUNTERS = ("usage_usec", "throttled_usec", "nr_periods", "nr_throttled")


class Lock:
    """Elects one sampler of a host by a file lock, which the kernel frees when the holder ends."""

    def __init__(self, name: str) -> None:
        usable = [f for f in LOCK_FOLDERS if os.access(f, os.W_OK | os.X_OK)]
        folder = usable[0] if usable else LOCK_FOLDERS[0]
        with contextlib.suppress(FileNotFoundError):  # no folder is writable: no lock
            folder = folder if usable else tempfile.gettempdir()
        self._path = name if os.sep in name else os.path.join(folder, name)
        self._fd = -1

    def take(self) -> bool:
        """Try to become the leader; True if this is the leader, or where no lock can exist."""
        try:
            if self._fd < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(self._path, flags, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._fd)):
                return True
        except FileNotFoundError:
            pass
        os.close(self._fd)  # the last leader has removed the file that was open here
        self._fd = -1
        return self.take()

    def release(self) -> None:
        """Let another sampler lead, and remove the file; called by the leader only."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # another process may have removed it
                os.unlink(self._path)
            os.close(self._fd)


class Growth:
    """Computes the growth of counters between two readings."""

    def __init__(self) -> None:
        self._before: dict[Any, tuple[float, ...]] = {}

    def since(self, key: Any, now: tuple[float, ...]) -> tuple[float, ...] | None:
        """Return the growth; None at the first reading; 0 for a counter that fell."""
        before = self._before.get(key)
        self._before[key] = now
        if before is None:
            return None
        return tuple(max(0, new - old) for new, old in zip(now, before))

    def forget(self, key: Any) -> None:
        """Drop the last reading of something that has ended."""
        self._before.pop(key, None)


class Host:
    """Reads the parts of a sample that concern the whole host; the first reading is at once."""

    def __init__(self, proc: str = "/proc", sys_folder: str = "/sys") -> None:
        self._growth = Growth()
        self._proc = proc
        self._sys = sys_folder
        self._cgroups = cgroup_folders(proc)
        self._failed: set[str] = set()
        self._errors: dict[str, str] = {}
        self._look()

    def sample(self) -> dict[str, Any]:
        """Return every part that this system has."""
        found = self._look()
        if self._errors:
            found["errors"] = self._errors
            self._errors = {}
        return found

    def _look(self) -> dict[str, Any]:
        found = {}
        for name in ("cpu", "load", "mem", "disks", "nets", "psi", "cgroup"):
            try:
                value = getattr(self, "_" + name)()
            except Exception as error:  # a part that fails must not cost the others
                if name not in self._failed:
                    self._errors[name] = f"{type(error).__name__}: {error}"[:200]
                    self._failed.add(name)
                continue
            if value is not None:
                found[name] = value
        return found

    def _cpu(self) -> dict[str, Any] | None:
        busy, whole = [], [0.0] * len(CPU_MODES)
        for number, core in enumerate(psutil.cpu_times(percpu=True)):
            now = tuple(getattr(core, mode, 0.0) for mode in CPU_MODES)
            grown = self._growth.since(("cpu", number), now) or ()
            if sum(grown) > 0:
                whole = [a + b for a, b in zip(whole, grown)]
                idle = grown[CPU_MODES.index("idle")] + grown[CPU_MODES.index("iowait")]
                busy.append(round(100 * (1 - idle / sum(grown)), 1))
        if not busy:
            return None
        shares = {m: round(100 * t / sum(whole), 2) for m, t in zip(CPU_MODES, whole) if t}
        return {**shares, "cores": busy}

    def _load(self) -> list[float]:
        return [round(load, 2) for load in os.getloadavg()]

    def _mem(self) -> dict[str, int]:
        memory = psutil.virtual_memory()
        return {name: getattr(memory, name) for name in ("total", "used", "available")}

    def _disks(self) -> dict[str, Any] | None:
        disks = psutil.disk_io_counters(perdisk=True)
        if disks is None:
            return None
        counted = {n: d for n, d in disks.items() if not self._is_counted_elsewhere(n)}
        return self._grown(counted, DISK_COUNTERS)

    def _is_counted_elsewhere(self, disk: str) -> bool:
        """Whether a disk is part of another disk, lies on others, or is no device."""
        folder = os.path.join(self._sys, "block", disk.replace("/", "!"))
        if not os.path.isdir(os.path.dirname(folder)):
            return False
        if disk.startswith(("loop", "ram", "zram")) or not os.path.isdir(folder):
            return True
        slaves = os.path.join(folder, "slaves")
        return os.path.isdir(slaves) and bool(os.listdir(slaves))

    def _nets(self) -> dict[str, Any]:
        nets = psutil.net_io_counters(pernic=True)
        nets.pop("lo", None)
        # Bridges and the like repeat a device's bytes; in a container there is no device.
        folder = os.path.join(self._sys, "class", "net")
        devices = {n for n in nets if os.path.exists(os.path.join(folder, n, "device"))}
        counted = {n: net for n, net in nets.items() if n in (devices or nets)}
        return self._grown(counted, NET_COUNTERS)

    def _grown(self, devices: dict[str, Any], counters: tuple[str, ...]) -> dict[str, Any]:
        """Return the growth of each device whose counters grew."""
        found = {}
        for name, device in devices.items():
            now = tuple(getattr(device, counter, 0) for counter in counters)
            grown = self._growth.since((counters, name), now)
            if grown and any(grown):
                found[name] = grown
        return found

    def _psi(self) -> dict[str, Any] | None:
        found = {}
        for resource in ("cpu", "io", "memory"):
            for line in read(self._proc, "pressure", resource).splitlines():
                kind, *pairs = line.split()
                if kind == "some":
                    fields = dict(pair.split("=", 1) for pair in pairs)
                    grown = self._growth.since(("psi", resource), (float(fields["total"]),))
                    stalled_ms = round(grown[0] / 1000, 1) if grown else 0.0
                    found[resource] = [float(fields["avg10"]), stalled_ms]
        return found or None

    def _cgroup(self) -> dict[str, float] | None:
        found: dict[str, float] = {}
        for folder in self._cgroups:
            quota, _sep, period = read(folder, "cpu.max").strip().partition(" ")
            if quota.isdigit():
                cpus = round(int(quota) / float(period or 100_000), 3)
                found["cpus"] = min(found.get("cpus", cpus), cpus)
            most = read(folder, "memory.max").strip()
            if most.isdigit():
                found["mem_limit"] = min(found.get("mem_limit", int(most)), int(most))
        if not found:
            return None
        used = read(self._cgroups[0], "memory.current").strip()
        if used.isdigit():
            found["mem_used"] = int(used)
        stat = dict(line.split() for line in read(self._cgroups[0], "cpu.stat").splitlines())
        now = tuple(int(stat.get(name, 0)) for name in CGROUP_COUNTERS)
        grown = self._growth.since("cgroup", now)
        if grown and "throttled_usec" in stat:
            found["cpu_ms"], found["throttled_ms"] = grown[0] // 1000, grown[1] // 1000
            found["periods"], found["throttled_periods"] = grown[2], grown[3]
        return found


def cgroup_folders(proc: str) -> list[str]:
    """Return the folders of this process's cgroup (version 2) and its ancestors, own first."""
    path = mount = ""
    for line in read(proc, "self", "cgroup").splitlines():
        if line.startswith("0::/"):
            path = line[4:].strip("/")
    for line in read(proc, "self", "mountinfo").splitlines():
        left, _sep, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            mount = left.split()[4]
    folders = [mount] if mount else []
    for name in path.split("/") if folders and path else ():
        folders.append(os.path.join(folders[-1], name))
    # In a container the path may be the host's, and only the container's own folder exists.
    return [folder for folder in reversed(folders) if os.path.isdir(folder)]


def read(*path: str) -> str:
    """Return a small file's text; empty where it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Watched:
    """Reads the counters of the processes and task threads that the input names."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._growth = Growth()
        self._processes: dict[int, tuple[Any, str, str]] = {}
        self._tasks: dict[int, tuple[int, list[int]]] = {}

    def obey(self, line: str) -> None:
        """Follow ``watch PID EXECUTOR KIND``, ``task TID PID TASK`` or ``end TID``."""
        words = line.split()
        try:
            if words[:1] == ["watch"] and int(words[1]) not in self._processes:
                process = psutil.Process(int(words[1]))
                self._look(process)
                self._processes[process.pid] = (process, words[2], words[3])
            elif words[:1] == ["task"]:
                self._start(int(words[1]), words[2], int(words[3]))
            elif words[:1] == ["end"]:
                self._end(int(words[1]))
        except (ValueError, IndexError, OSError, psutil.Error):
            return  # the process has ended, or the line is not an order

    def _look(self, process: Any) -> tuple[Any, int]:
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
            try:
                io = process.io_counters()
            except (psutil.AccessDenied, AttributeError, NotImplementedError):
                io = None
        counters = tuple(getattr(io, name, 0) for name in PROCESS_BYTES)
        now = (1000 * (times.user + times.system), *counters)
        return self._growth.since(process.pid, now), memory.rss

    def processes(self) -> Iterator[list[Any]]:
        """Yield pid, executor, kind, CPU ms, RSS, bytes from and to disk, read and written."""
        for pid, (process, executor, kind) in list(self._processes.items()):
            try:
                grown, rss = self._look(process)
            except psutil.Error:
                del self._processes[pid]
                self._growth.forget(pid)
                continue
            yield [pid, executor, kind, round(grown[0]), rss, *grown[1:]]

    def _start(self, tid: int, pid: str, task: int) -> None:
        self._end(tid)
        files: list[int] = []
        self._tasks[tid] = (task, files)
        for name in ("schedstat", "io"):
            path = os.path.join(self._proc, pid, "task", str(tid), name)
            files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._look_at_task(tid)

    def _end(self, tid: int) -> None:
        _task, files = self._tasks.pop(tid, (0, []))
        self._growth.forget(("task", tid))
        for file in files:
            os.close(file)

    def _look_at_task(self, tid: int) -> tuple[float, ...]:
        times = os.pread(self._tasks[tid][1][0], 96, 0).split()
        lines = os.pread(self._tasks[tid][1][1], 256, 0).splitlines()
        disk = [int(lines[row].split()[1]) for row in (4, 5)]
        now = (int(times[0]) / 1e6, int(times[1]) / 1e6, *disk, 1000 * time.monotonic())
        cpu, waited, *disk, passed = self._growth.since(("task", tid), now) or (0, 0, 0, 0, 0)
        # On a busy machine the kernel now and then counts a whole sleep as a wait when it ends.
        return (cpu, min(waited, passed), *disk)

    def tasks(self) -> Iterator[list[Any]]:
        """Yield task id, CPU ms, run-queue ms, bytes from and to disk."""
        for tid, (task, _files) in list(self._tasks.items()):
            try:
                grown = self._look_at_task(tid)
            except (OSError, IndexError, ValueError):
                self._end(tid)
                continue
            yield [task, round(grown[0]), round(grown[1]), *grown[2:]]


class Sampler:
    """Takes samples of the watched processes and tasks and, if it leads, of the host."""

    def __init__(self, lock: Lock | None = None, proc: str = "/proc", name: str = "") -> None:
        self._lock = lock
        self._proc = proc
        self._name = {"host": name} if name else {}
        self._own_cpu = time.process_time()
        self._before = time.monotonic()
        self.watched = Watched(proc)
        self._host = self._lead()

    def _lead(self) -> Host | None:
        return Host(self._proc) if self._lock is None or self._lock.take() else None

    def elapsed(self) -> float:
        """Seconds since the last sample."""
        return time.monotonic() - self._before

    def sample(self) -> dict[str, Any] | None:
        """Return a sample of the time since the last call, or None if it would be empty."""
        elapsed = self.elapsed()
        self._before += elapsed
        parts: dict[str, Any] = {}
        if self._host is None:
            self._host = self._lead()
        else:
            parts = self._host.sample()
        lists = {"procs": list(self.watched.processes()), "tasks": list(self.watched.tasks())}
        parts.update({name: rows for name, rows in lists.items() if rows})
        if not parts:
            return None
        own = time.process_time()
        parts["own_cpu_ms"] = round(1000 * (own - self._own_cpu), 2)
        self._own_cpu = own
        head = {"v": VERSION, "t": int(time.time() * 1000), "dt_ms": round(1000 * elapsed)}
        return {**head, **self._name, **parts}

    def close(self) -> None:
        """Let another sampler of this host take over."""
        if self._host is not None and self._lock is not None:
            self._lock.release()


def run(
    sampler: Sampler,
    write: Callable[[str], object],
    period_s: float,
    for_s: float = float("inf"),
    stdin: bool = False,
) -> None:
    """Sample until a signal, for ``for_s`` seconds, or until the input or the parent ends."""
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda *_: None)
    signal.set_wakeup_fd(waker)
    parent, rest = os.getppid(), b""
    start = time.monotonic()
    number, ending = 0, False
    while not ending:
        # On a fixed grid, so that delays do not add up; missed samples are left out.
        number = max(number, int((time.monotonic() - start) / period_s)) + 1
        due = start + min(number * period_s, for_s)
        while not ending:
            left = max(0.0, due - time.monotonic())
            ready = select.select([wake, 0] if stdin else [wake], [], [], left)[0]
            if not ready:
                break
            ending = wake in ready
            if 0 in ready:
                got = os.read(0, 65536)
                *lines, rest = (rest + got).split(b"\n")
                for line in lines:
                    sampler.watched.obey(line.decode("ascii", "replace"))
                ending = ending or not got
        ending = ending or time.monotonic() >= start + for_s
        if ending and sampler.elapsed() < SHORTEST_S:
            break
        found = None if stdin and os.getppid() != parent else sampler.sample()
        try:
            if found is not None:
                write(json.dumps(found, separators=(",", ":")) + "\n")
        except BrokenPipeError:
            break
        ending = ending or (stdin and os.getppid() != parent)
    sampler.close()


def to_stdout(line: str) -> None:
    """Write one whole line without a buffer."""
    rest = line.encode("ascii")
    while rest:
        rest = rest[os.write(1, rest) :]


def main() -> int:
    """Run as a script."""
    parser = argparse.ArgumentParser(description="Samples what this host does, a line a period.")
    parser.add_argument("--period", type=float, default=1.0, help="seconds between samples")
    parser.add_argument("--lock", default="", help="file, or name in /tmp, that makes one leader")
    parser.add_argument("--proc", default="/proc", help="where the kernel's process files are")
    parser.add_argument("--host", default=socket.gethostname(), help="host name in each line")
    parser.add_argument("--stdin", action="store_true", help="obey standard input, end with it")
    options = parser.parse_args()
    if MISSING:
        to_stdout(json.dumps({"v": VERSION, "err": f"{sys.executable}: {MISSING}"}) + "\n")
        return CANNOT_SAMPLE
    lock = Lock(options.lock) if options.lock else None
    sampler = Sampler(lock, options.proc, "" if options.stdin else options.host)
    run(sampler, to_stdout, options.period, stdin=options.stdin)
    return 0


if __name__ == "__main__":
    sys.exit(main())
