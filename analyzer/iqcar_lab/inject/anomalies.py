"""Declares what all anomalies share: names, limits, settings, and the pace and end of a hog.
Paper: BigRoots | §IV-A: anomalies | exact; memory is added | tests/lab/inject/test_inject.py
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import mmap
import os
import random
import shutil
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from iqcar.base.units import KIB, size
from iqcar.base.workers import usable_cores
from iqcar.enums import Kind
from iqcar.errors import IqcarError, UsageError

MOST_ORDER_BYTES = 1 << 20
STEP_S = 0.05
"""The longest that a hog sleeps without looking whether it shall stop."""
BURST_S = 0.2
"""How much of a pause a hog with a rate may catch up on."""


class Deadline:
    """The time of one hog, which ends by the clock or when it is told to stop.

    for_s: seconds from now.
    """

    def __init__(self, for_s: float) -> None:
        self.stopped = False
        self._end = time.monotonic() + for_s

    def over(self) -> bool:
        """Tell whether the hog shall end now."""
        return self.stopped or time.monotonic() >= self._end

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the end of the deadline."""
        wake = min(time.monotonic() + seconds, self._end)
        while not self.stopped and (left := wake - time.monotonic()) > 0:
            time.sleep(min(left, STEP_S))


def read_order_line(descriptor: int) -> bytes:
    """Read a line byte by byte: what follows belongs to the thread that waits for the end."""
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_ORDER_BYTES:
        more = os.read(descriptor, 1)
        if not more:
            break
        line += more
    return line


class Pace:
    """Keeps a hog at its rate: it sleeps after what it moved too fast.

    rate_bytes_per_s: None: as fast as it goes.
    """

    def __init__(self, rate_bytes_per_s: float | None) -> None:
        self._rate = rate_bytes_per_s
        self._due = time.monotonic()

    def moved(self, count: int, deadline: Deadline) -> None:
        """Count bytes, and sleep until they were allowed."""
        if self._rate is None:
            return
        now = time.monotonic()
        self._due = max(self._due, now - BURST_S) + count / self._rate
        deadline.sleep(self._due - now)


LONGEST_S = 3600.0
"""An injection lasts an hour at most: the longest in BigRoots is 10 s (table IV)."""
MOST_PROCESSES = 64
"""BigRoots launches eight for each anomaly; many more would exhaust process tables, not a core."""


class Anomaly(Kind):
    """What is injected (BigRoots section IV-A; memory is ours)."""

    CPU = "cpu", "Processes that compute and do nothing else."
    IO = "io", "Processes that write to a disk, and read it, past the page cache."
    NETWORK = "network", "Pairs of processes that send each other bytes over loopback."
    MEMORY = "memory", "Processes that hold memory and keep walking through it."


@dataclass(frozen=True)
class HogSpec:
    """What one hog of an injection needs beside the settings.

    index: its number among the injection's hogs, from 0.
    role: what it does where hogs of one injection differ.
    connection: an open socket that it inherits; the starter closes its own copy.
    """

    index: int
    role: str = ""
    connection: socket.socket | None = field(default=None, compare=False)


@dataclass(frozen=True)
class AnomalySettings(ABC):
    """How strong an anomaly is.

    Raises UsageError if a value is out of range.

    processes: how many hogs; 0 takes the anomaly's default.
    cores: cores that the hogs may run on; empty: any.
    """

    anomaly: ClassVar[Anomaly]

    processes: int = 0
    cores: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is out of range, and put the default number of processes in."""
        object.__setattr__(self, "cores", tuple(sorted(set(self.cores))))
        check_cores(self.cores)
        if not 0 <= self.processes <= MOST_PROCESSES:
            raise UsageError(f"{self.processes} is not 1 to {MOST_PROCESSES}", "--processes")
        if self.processes == 0:
            object.__setattr__(self, "processes", self.default_processes())

    @abstractmethod
    def default_processes(self) -> int:
        """How many hogs where nobody said."""

    @abstractmethod
    def hog(self, spec: HogSpec, deadline: Deadline) -> dict[str, float]:
        """Be one hog until the turn is over; returns what was achieved, counts by name."""

    def check_room(self) -> None:  # noqa: B027 (most anomalies need no room)
        """Refuse what this host cannot bear now; raises IqcarError."""

    def hog_specs(self) -> list[HogSpec]:
        """One for each hog; raises IqcarError."""
        return [HogSpec(index) for index in range(self.processes)]


def check_cores(cores: tuple[int, ...], option: str = "--cores") -> None:
    """Refuse cores that hogs cannot be pinned to; raises UsageError."""
    if not cores:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("this system cannot pin processes to cores", option, "leave it out")
    usable = usable_cores()
    wrong = [core for core in cores if core not in usable]
    if wrong:
        named = ", ".join(map(str, usable))
        raise UsageError(f"core {wrong[0]} cannot be used", option, f"this host offers {named}")


def check_rate(rate_bytes_per_s: float | None) -> None:
    """Refuse a rate that moves nothing; raises UsageError."""
    if rate_bytes_per_s is not None and not 1 <= rate_bytes_per_s < float("inf"):
        raise UsageError(f"{rate_bytes_per_s} is no rate", "--rate", "write 50MB for 50 MB/s")


SHARE_OF_MEMORY = 0.8
"""Of the available memory, at most this share is taken: beyond it the kernel kills or swaps."""
SHARE_OF_DISK = 0.5
"""Of the free space, at most this share is taken: Spark's shuffle files need the rest."""
TIGHT_BYTES = 256 << 20
"""With less memory available than this a hog stops growing, whatever it was asked for."""
FILE_SYSTEMS_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
MEMINFO = Path("/proc/meminfo")
MOUNTS = Path("/proc/self/mountinfo")
CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Limit and use of a container's memory, as cgroup v2 and v1 tell them."""


def check_memory(size_bytes: int) -> None:
    """Refuse to hold more than a share of the available memory; raises IqcarError."""
    available = available_memory_bytes()
    if size_bytes > SHARE_OF_MEMORY * available:
        what = f"{size(size_bytes, KIB)} are more than 80 % of {size(available, KIB)} available"
        raise UsageError(what, "--size", "ask for less")


def memory_is_tight() -> bool:
    """Tell whether next to nothing is left."""
    return available_memory_bytes() < TIGHT_BYTES


def available_memory_bytes() -> int:
    """Return what can be allocated without swapping, within a container's limit.

    Raises IqcarError if the system does not tell and psutil is missing.
    """
    rooms = [_available_on_host()]
    for limit, used in CGROUPS:
        try:
            rooms.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # v2 writes "max" where there is no limit
            continue
    return max(0, min(rooms))


def _available_on_host() -> int:
    try:
        lines = MEMINFO.read_text("ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvail"))
    except (OSError, StopIteration):
        pass
    try:
        import psutil
    except ImportError as error:
        advice = "pip install 'iqcar[spark]'"
        raise IqcarError("psutil is needed here to tell the free memory", "", advice) from error
    return int(psutil.virtual_memory().available)


def check_disk(folder: str, size_bytes: int) -> None:
    """Refuse a folder that is missing, in memory, or too full for it; raises UsageError."""
    if not Path(folder).is_dir():
        raise UsageError("is no folder", folder, "name one on the disk to load with --dir")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError("cannot be written to", folder, "name another with --dir")
    kind = file_system(folder)
    if kind in FILE_SYSTEMS_IN_MEMORY:
        raise UsageError(f"is in memory ({kind})", folder, "name a folder on a disk with --dir")
    free = shutil.disk_usage(folder).free
    if size_bytes > SHARE_OF_DISK * free:
        what = f"{size(size_bytes, KIB)} are more than half of {size(free, KIB)} free"
        raise UsageError(what, folder, "ask for less with --size, or name another --dir")


def file_system(folder: str) -> str:
    """Return the type of the file system that holds a folder; empty where untold."""
    device = Path(folder).stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = MOUNTS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split()[2:3] == [number] and after:
            return after.split()[0]
    return ""


NUMBERS = 2000
"""The paper's million numbers would fill the processor's caches too; these fit into them."""
PERIOD_S = 0.05
"""A hog with a share works and rests once in this time: shorter than any sample of a host."""
EXPONENT = 1.000_1


@dataclass(frozen=True)
class CpuSettings(AnomalySettings):
    """Computing processes; by default one for each core (the paper: eight).

    share: share of the time in which a hog wants a core, in (0, 1].
    """

    anomaly: ClassVar[Anomaly] = Anomaly.CPU

    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise UsageError(f"{self.share} is not above 0 and at most 1", "--share")

    def default_processes(self) -> int:
        """One for each core they may run on."""
        return len(self.cores or usable_cores())

    def hog(self, spec: HogSpec, deadline: Deadline) -> dict[str, float]:
        """Compute; ``rounds`` counts how often all numbers were raised."""
        numbers = [1 + random.random() for _ in range(NUMBERS)]  # noqa: S311
        rounds = 0
        while not deadline.over():
            began = time.monotonic()
            while time.monotonic() < began + self.share * PERIOD_S:
                for number in numbers:
                    number**EXPONENT
                rounds += 1
            if self.share < 1:
                deadline.sleep(began + PERIOD_S - time.monotonic())
        return {"rounds": rounds}


STEP_BYTES = 8 << 20
"""A hog looks at its clock after touching this much: a few milliseconds."""
PAGE_BYTES = mmap.PAGESIZE


@dataclass(frozen=True)
class MemorySettings(AnomalySettings):
    """Processes that hold memory and write to it again and again; by default one.

    Spark's own memory is fixed: what this takes from a host is the page cache, memory bandwidth,
    and room for everything outside the heap.

    size_bytes: bytes held at most, over all hogs.
    """

    anomaly: ClassVar[Anomaly] = Anomaly.MEMORY

    size_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        super().__post_init__()
        if self.size_bytes < self.processes * STEP_BYTES:
            what = f"{self.size_bytes} bytes are less than 8 MB for each of {self.processes} hogs"
            raise UsageError(what, "--size", "ask for more, or fewer --processes")

    def default_processes(self) -> int:
        """One."""
        return 1

    def check_room(self) -> None:
        """Refuse more than a share of what is available."""
        check_memory(self.size_bytes)

    def hog(self, spec: HogSpec, deadline: Deadline) -> dict[str, float]:
        """Touch every page again and again; stops growing where the host gets tight."""
        size = self.size_bytes // self.processes // STEP_BYTES * STEP_BYTES
        held = size
        walks = 0
        stamp = 0
        with mmap.mmap(-1, size) as memory:
            touched = 0
            while not deadline.over():
                at = 0
                while at < held and not deadline.over():
                    if at == touched and memory_is_tight():
                        held = at
                        break
                    stamp = (stamp + 1) % 256
                    pages = STEP_BYTES // PAGE_BYTES
                    memory[at : at + STEP_BYTES : PAGE_BYTES] = bytes([stamp]) * pages
                    at += STEP_BYTES
                    touched = max(touched, at)
                walks += at == held > 0
                if held == 0:
                    deadline.sleep(1)
        return {"held_bytes": touched, "walks": walks}


BLOCK_BYTES = 1 << 20
"""One write or read: long enough that the device counts, short enough to stop at once."""
PAPER_PROCESSES = 8
"""As many as BigRoots launches."""
O_DIRECT: int = getattr(os, "O_DIRECT", 0)


@dataclass(frozen=True)
class IoSettings(AnomalySettings):
    """Writing (and reading) processes; by default eight, as in the paper.

    Each has one file without a name, so that nothing is left however it ends. The page cache is
    bypassed (``O_DIRECT``), or every block is flushed and dropped from it: the device is loaded.

    folder: where the files lie; empty: the system's folder for temporary files.
    size_bytes: bytes on disk at most, over all hogs.
    read_share: share of blocks that are read instead of written, in [0, 1); the paper only writes.
    rate_bytes_per_s: bytes moved per second over all hogs at most; None: no limit.
    """

    anomaly: ClassVar[Anomaly] = Anomaly.IO

    folder: str = ""
    size_bytes: int = 256 << 20
    read_share: float = 0.0
    rate_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        super().__post_init__()
        object.__setattr__(self, "folder", str(Path(self.folder or tempfile.gettempdir())))
        if not 0 <= self.read_share < 1:
            raise UsageError(f"{self.read_share} is not at least 0 and below 1", "--read-share")
        if self.size_bytes < self.processes * BLOCK_BYTES:
            what = f"{self.size_bytes} bytes are less than 1 MB for each of {self.processes} hogs"
            raise UsageError(what, "--size", "ask for more, or fewer --processes")
        check_rate(self.rate_bytes_per_s)

    def default_processes(self) -> int:
        """As many as in the paper."""
        return PAPER_PROCESSES

    def check_room(self) -> None:
        """Refuse a folder that is missing, in memory, or too full."""
        check_disk(self.folder, self.size_bytes)

    def hog(self, spec: HogSpec, deadline: Deadline) -> dict[str, float]:
        """Write and read blocks; counts them, and what the kernel says reached the device."""
        blocks = self.size_bytes // self.processes // BLOCK_BYTES
        rate = self.rate_bytes_per_s
        pace = Pace(rate / self.processes if rate else None)
        before = device_bytes()
        written = read = at = filled = 0
        with (
            tempfile.TemporaryFile(dir=self.folder, buffering=0) as file,
            mmap.mmap(-1, BLOCK_BYTES) as block,
        ):
            block[:] = os.urandom(BLOCK_BYTES)  # nothing that a file system could compress
            descriptor = file.fileno()
            direct = _prepare(descriptor, blocks * BLOCK_BYTES, block)
            while not deadline.over():
                if filled and random.random() < self.read_share:  # noqa: S311
                    place = random.randrange(filled) * BLOCK_BYTES  # noqa: S311
                    read += _read(descriptor, block, place, direct)
                else:
                    written += _write(descriptor, block, at * BLOCK_BYTES, direct)
                    filled = max(filled, at + 1)
                    at = (at + 1) % blocks
                pace.moved(BLOCK_BYTES, deadline)
        after = device_bytes()
        grown = {name: after[name] - before[name] for name in after.keys() & before.keys()}
        return {"written_bytes": written, "read_bytes": read, "direct_hogs": int(direct), **grown}


def device_bytes() -> dict[str, int]:
    """Return what this process had written to and read from devices; empty where untold."""
    names = {"write_bytes": "device_written_bytes", "read_bytes": "device_read_bytes"}
    try:
        lines = Path("/proc/self/io").read_text("ascii").splitlines()
    except OSError:
        return {}
    pairs = (line.split(": ") for line in lines)
    return {names[name]: int(value) for name, value in pairs if name in names}


def _prepare(descriptor: int, size_bytes: int, block: mmap.mmap) -> bool:
    """Reserve the space, so that a full disk is met now, and bypass the page cache if possible."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size_bytes)
    if not O_DIRECT:
        return False
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | O_DIRECT)
        os.pwrite(descriptor, block, 0)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
        return False
    return True


def _write(descriptor: int, block: mmap.mmap, place: int, direct: bool) -> int:
    count = os.pwrite(descriptor, block, place)
    if not direct:
        os.fsync(descriptor)
    return count


def _read(descriptor: int, block: mmap.mmap, place: int, direct: bool) -> int:
    if not direct and hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, place, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
    return os.preadv(descriptor, [block], place)


MOST_MESSAGE_BYTES = 16 << 20
"""A message and its reply are held in memory by both ends."""
CLIENT, SERVER = "client", "server"


@dataclass(frozen=True)
class NetworkSettings(AnomalySettings):
    """Pairs of client and server; by default one pair.

    The paper has eight, and its server elsewhere in the LAN. Here both ends are on this host: the
    bytes cost the loopback device and processor time; a pair at full speed takes two cores already.

    listen, source: loopback addresses of the servers and of the clients.
    message_bytes: bytes of a message and of its reply (the paper: 512).
    rate_bytes_per_s: bytes per second that all clients send at most (as many come back); None: no
        limit.
    """

    anomaly: ClassVar[Anomaly] = Anomaly.NETWORK

    listen: str = "127.0.0.1"
    source: str = "127.0.0.1"
    message_bytes: int = 64 << 10
    rate_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        super().__post_init__()
        check_loopback(self.listen, "--listen")
        check_loopback(self.source, "--source")
        if not 1 <= self.message_bytes <= MOST_MESSAGE_BYTES:
            raise UsageError(f"{self.message_bytes} bytes are not 1 B to 16 MB", "--message")
        check_rate(self.rate_bytes_per_s)

    def default_processes(self) -> int:
        """One pair."""
        return 1

    def hog_specs(self) -> list[HogSpec]:
        """Two for each pair, with the ends of an open connection between them."""
        specs: list[HogSpec] = []
        try:
            for _ in range(self.processes):
                client, server = _connection(self.listen, self.source)
                specs.append(HogSpec(len(specs), CLIENT, client))
                specs.append(HogSpec(len(specs), SERVER, server))
        except OSError as error:
            for spec in specs:
                if spec.connection is not None:
                    spec.connection.close()
            what = f"cannot connect from {self.source}: {error.strerror}"
            raise IqcarError(what, self.listen, "take addresses this host has") from error
        return specs

    def hog(self, spec: HogSpec, deadline: Deadline) -> dict[str, float]:
        """Send and await replies, or reply; the client counts for both."""
        connection = spec.connection
        if connection is None:
            raise ValueError("a network hog needs a connection")
        connection.settimeout(STEP_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        message = memoryview(bytearray(self.message_bytes))
        reply = memoryview(bytearray(self.message_bytes))
        if spec.role == SERVER:
            while _move(connection.recv_into, reply, deadline) == len(reply):
                _move(connection.send, reply, deadline)
            return {}
        rate = self.rate_bytes_per_s
        pace = Pace(rate / self.processes if rate else None)
        sent = received = 0
        while True:
            sent += _move(connection.send, message, deadline)
            got = _move(connection.recv_into, reply, deadline)
            received += got
            if got < len(reply):
                return {"sent_bytes": sent, "received_bytes": received}
            pace.moved(got, deadline)


def check_loopback(address: str, option: str) -> None:
    """Refuse an address that could leave this host; raises UsageError."""
    try:
        loopback = ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(f"{address!r} is no loopback address", option, "take one of 127.0.0.0/8")


def _connection(listen: str, source: str) -> tuple[socket.socket, socket.socket]:
    """Connect two sockets; nobody can connect to either of them afterwards."""
    with socket.socket() as listener:
        listener.bind((listen, 0))
        listener.listen(1)
        client = socket.socket()
        try:
            client.bind((source, 0))
            client.connect(listener.getsockname())
            while True:  # some other process on this host may have been faster
                server, peer = listener.accept()
                if peer == client.getsockname():
                    return client, server
                server.close()
        except OSError:
            client.close()
            raise


def _move(step: Callable[[memoryview], int], whole: memoryview, deadline: Deadline) -> int:
    """Send or receive all of it; returns less when the turn is over or the other end has gone."""
    done = 0
    while done < len(whole) and not deadline.over():
        try:
            count = step(whole[done:])
        except TimeoutError:
            continue
        except ConnectionError:
            break
        if count == 0:
            break
        done += count
    return done
