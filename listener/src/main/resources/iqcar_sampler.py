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
DISK_COUNTERS = ("read_bytes", "write_bytes", "busy_time")
NET_COUNTERS = ("bytes_recv", "bytes_sent")
QUIET_CORES = 0.5
"""A host is quiet that keeps less than half a core busy or waiting for a disk: no task runs."""
QUIET_PERIODS = 10
"""Periods that one sample of a quiet host covers at most."""
LINE_BYTES = 150
"""What the event around a line adds to the log, where a batch holds one line."""


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
    """Computes the growth of counters since the reading that was kept last."""

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[float, ...]] = {}
        self._latest: dict[Any, tuple[float, ...]] = {}

    def since(self, key: Any, now: tuple[float, ...]) -> tuple[float, ...] | None:
        """Return the growth; None at the first reading; 0 for a counter that fell."""
        self._latest[key] = now
        before = self._kept.get(key)
        if before is None:
            self._kept[key] = now
            return None
        return tuple(max(0, new - old) for new, old in zip(now, before))

    def keep(self) -> None:
        """Count from the latest readings on."""
        self._kept.update(self._latest)

    def forget(self, key: Any) -> None:
        """Drop the readings of something that has ended."""
        self._kept.pop(key, None)
        self._latest.pop(key, None)


class Host:
    """Reads the parts of a sample that concern the whole host; the first reading is at once."""

    def __init__(self, proc: str = "/proc", sys_folder: str = "/sys") -> None:
        self._growth = Growth()
        self.keep = self._growth.keep
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
        return {**shares, "count": len(busy), "busiest": max(busy)}

    def _load(self) -> list[float]:
        return [round(os.getloadavg()[0], 2)]

    def _mem(self) -> dict[str, int]:
        memory = psutil.virtual_memory()
        return {name: getattr(memory, name) for name in ("total", "used", "available")}

    def _disks(self) -> list[float] | None:
        disks = psutil.disk_io_counters(perdisk=True)
        if disks is None:
            return None
        counted = {n: d for n, d in disks.items() if not self._is_counted_elsewhere(n)}
        grown = self._grown(counted, DISK_COUNTERS)
        read, write, busy = zip(*grown) if grown else ((0,), (0,), (0,))
        return [sum(read), sum(write), max(busy)]

    def _is_counted_elsewhere(self, disk: str) -> bool:
        """Whether a disk is part of another disk, lies on others, or is no device."""
        folder = os.path.join(self._sys, "block", disk.replace("/", "!"))
        if not os.path.isdir(os.path.dirname(folder)):
            return False
        if disk.startswith(("loop", "ram", "zram")) or not os.path.isdir(folder):
            return True
        slaves = os.path.join(folder, "slaves")
        return os.path.isdir(slaves) and bool(os.listdir(slaves))

    def _nets(self) -> list[float]:
        nets = psutil.net_io_counters(pernic=True)
        nets.pop("lo", None)
        # Bridges and the like repeat a device's bytes; in a container there is no device.
        folder = os.path.join(self._sys, "class", "net")
        devices = {n for n in nets if os.path.exists(os.path.join(folder, n, "device"))}
        counted = {n: net for n, net in nets.items() if n in (devices or nets)}
        return [sum(column) for column in zip((0, 0), *self._grown(counted, NET_COUNTERS))]

    def _grown(self, devices: dict[str, Any], counters: tuple[str, ...]) -> list[tuple[float, ...]]:
        """Return the growth of each device."""
        read = {n: tuple(getattr(d, c, 0) for c in counters) for n, d in devices.items()}
        grown = [self._growth.since((counters, name), now) for name, now in read.items()]
        return [growth for growth in grown if growth]

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

    def _cgroup(self) -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        for folder in self._cgroups:
            quota, _sep, period = read(folder, "cpu.max").strip().partition(" ")
            if quota.isdigit():
                cpus = round(int(quota) / float(period or 100_000), 3)
                found["cpus"] = min(found.get("cpus", cpus), cpus)
            most = read(folder, "memory.max").strip()
            if most.isdigit():
                found["mem_limit"] = min(found.get("mem_limit", int(most)), int(most))
        own = self._cgroups[0] if self._cgroups else ""
        # The whole system's group has no type; what waits in it is in the host's own pressure.
        if own and read(own, "cgroup.type"):
            found.update(self._of_group(own))
        if not found:
            return None
        used = read(self._cgroups[0], "memory.current").strip()
        if used.isdigit():
            found["mem_used"] = int(used)
        stat = dict(line.split() for line in read(self._cgroups[0], "cpu.stat").splitlines())
        grown = self._growth.since("cgroup", (int(stat.get("throttled_usec", 0)),))
        if grown and "throttled_usec" in stat:
            found["throttled_ms"] = grown[0] // 1000
        return found

    def _of_group(self, own: str) -> dict[str, Any]:
        """Return what waited in a group and moved from and to devices, where the kernel tells."""
        found: dict[str, Any] = {}
        for resource in ("io", "memory"):
            some = read(own, resource + ".pressure").partition("\n")[0].rpartition("total=")[2]
            if some.isdigit():
                grown = self._growth.since(("group", resource), (int(some),))
                found["stalled_" + resource + "_ms"] = round(grown[0] / 1000, 1) if grown else 0.0
        if os.path.exists(os.path.join(own, "io.stat")):
            pairs = [pair.partition("=") for pair in read(own, "io.stat").split()]
            moved = [
                sum(int(number) for name, _sep, number in pairs if name == counter)
                for counter in ("rbytes", "wbytes")
            ]
            grown = self._growth.since(("group", "bytes"), tuple(moved))
            found["io"] = list(grown) if grown else [0, 0]
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
    """Reads the CPU time and the memory of the processes that the input names, summed by kind."""

    def __init__(self) -> None:
        self._growth = Growth()
        self.keep = self._growth.keep
        self._processes: dict[int, tuple[Any, str]] = {}

    def add(self, pid: int, kind: str) -> None:
        """Watch a process from now on, unless it has ended."""
        if pid not in self._processes:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                self._look(process)
                self._processes[pid] = (process, kind)

    def _look(self, process: Any) -> tuple[float, int]:
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
        grown = self._growth.since(process.pid, (1000 * (times.user + times.system),))
        return grown[0] if grown else 0.0, memory.rss

    def sums(self) -> dict[str, list[int]]:
        """Return CPU ms and RSS in bytes by kind."""
        found: dict[str, list[int]] = {}
        for pid, (process, kind) in list(self._processes.items()):
            try:
                grown, rss = self._look(process)
            except psutil.Error:
                del self._processes[pid]
                self._growth.forget(pid)
                continue
            before = found.get(kind, [0, 0])
            found[kind] = [before[0] + round(grown), before[1] + rss]
        return found


class Sampler:
    """Takes samples of the watched processes and, if it leads, of the host."""

    def __init__(self, lock: Lock | None = None, proc: str = "/proc", name: str = "") -> None:
        self._lock = lock
        self._proc = proc
        self._name = {"host": name} if name else {}
        self._own_cpu = self._latest_own_cpu = time.process_time()
        self._kept = self._latest = time.monotonic()
        self._waiting: dict[str, Any] | None = None
        self._busy = Growth()
        self._rate = float("inf")
        self._not_before = 0.0
        self.watched = Watched()
        self._host = self._lead()
        self._is_quiet()

    def _lead(self) -> Host | None:
        return Host(self._proc) if self._lock is None or self._lock.take() else None

    def obey(self, line: str) -> None:
        """Follow ``watch PID KIND``, or ``rate BYTES``, a second, which bounds what is written."""
        words = line.split()
        with contextlib.suppress(ValueError, IndexError):  # the line is not an order
            if words[:1] == ["watch"]:
                self.watched.add(int(words[1]), words[2])
            elif words[:1] == ["rate"]:
                self._rate = max(1.0, float(words[1]))

    def elapsed(self) -> float:
        """Seconds since the last look."""
        return time.monotonic() - self._latest

    def _is_quiet(self) -> bool:
        """Whether little happened on the host since the last call."""
        times = psutil.cpu_times()
        now = (sum(getattr(times, mode, 0.0) for mode in CPU_MODES if mode != "idle"),)
        grown = self._busy.since("cpu", (*now, time.monotonic()))
        self._busy.keep()
        return grown is not None and grown[0] < QUIET_CORES * grown[1]

    def lines(self, period_s: float, last: bool = False) -> Iterator[str]:
        """Yield the samples that are due, as lines: of what is quiet one of several periods."""
        quiet = self._is_quiet()
        if not quiet and self._waiting is not None and self._may_write():
            yield self._line()  # what was quiet until now, alone
        self._waiting = self.look()
        enough = not quiet or self._latest - self._kept >= (QUIET_PERIODS - 0.5) * period_s
        if self._waiting is not None and (last or (enough and self._may_write())):
            yield self._line()

    def _may_write(self) -> bool:
        return time.monotonic() >= self._not_before

    def _line(self) -> str:
        """Return the sample that waits; the next counts from there."""
        line = json.dumps(self._waiting, separators=(",", ":")) + "\n"
        self._not_before = time.monotonic() + (len(line) + LINE_BYTES) / self._rate
        self.keep()
        return line

    def keep(self) -> None:
        """Let the next sample count from the last look on."""
        self._waiting = None
        self._kept, self._own_cpu = self._latest, self._latest_own_cpu
        for part in (self.watched, self._host):
            if part is not None:
                part.keep()

    def look(self) -> dict[str, Any] | None:
        """Return a sample of the time since the last that was kept, or None if it is empty."""
        self._latest = time.monotonic()
        self._latest_own_cpu = time.process_time()
        parts: dict[str, Any] = {}
        if self._host is None:
            self._host = self._lead()
            if self._host is not None:  # the first sample of a host covers no other time
                self.keep()
                return None
        else:
            parts = self._host.sample()
        processes = self.watched.sums()
        if processes:
            parts["procs"] = processes
        if not parts:
            return None
        parts["own_cpu_ms"] = round(1000 * (self._latest_own_cpu - self._own_cpu), 2)
        elapsed_ms = round(1000 * (self._latest - self._kept))
        return {
            "v": VERSION,
            "t": int(time.time() * 1000),
            "dt_ms": elapsed_ms,
            **self._name,
            **parts,
        }

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
                    sampler.obey(line.decode("ascii", "replace"))
                ending = ending or not got
        ending = ending or time.monotonic() >= start + for_s
        if ending and sampler.elapsed() < SHORTEST_S:
            break
        try:
            if not stdin or os.getppid() == parent:
                for line in sampler.lines(period_s if stdin else 0, last=ending):
                    write(line)
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
