"""The I/O anomaly (BigRoots section IV-A.2): processes that write to a disk, and read it.

Each hog has one file without a name, so that nothing is left however it ends. The page cache is
bypassed (``O_DIRECT``), or else every block is flushed and dropped from it: what is loaded is the
device, not memory.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from iqcar.errors import UsageError
from iqcar.lab.inject.anomalies import Anomaly, Order, Settings, check_rate
from iqcar.lab.inject.host_limits import check_disk
from iqcar.lab.inject.pacing import Pace, Turn

BLOCK_BYTES = 1 << 20
"""One write or read: long enough that the device counts, short enough to stop at once."""
PAPER_PROCESSES = 8
"""As many as BigRoots launches."""
O_DIRECT: int = getattr(os, "O_DIRECT", 0)


@dataclass(frozen=True)
class IoSettings(Settings):
    """Writing (and reading) processes; by default eight, as in the paper.

    Parameters
    ----------
    folder : str
        Where the files lie; empty: the system's folder for temporary files.
    size_bytes : int
        Bytes on disk at most, over all hogs.
    read_share : float
        Share of blocks that are read instead of written, in [0, 1); the paper only writes.
    rate_bytes_per_s : float or None
        Bytes moved per second over all hogs at most; None: no limit.
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

    def hog(self, order: Order, turn: Turn) -> dict[str, float]:
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
            while not turn.over():
                if filled and random.random() < self.read_share:  # noqa: S311
                    place = random.randrange(filled) * BLOCK_BYTES  # noqa: S311
                    read += _read(descriptor, block, place, direct)
                else:
                    written += _write(descriptor, block, at * BLOCK_BYTES, direct)
                    filled = max(filled, at + 1)
                    at = (at + 1) % blocks
                pace.moved(BLOCK_BYTES, turn)
        after = device_bytes()
        grown = {name: after[name] - before[name] for name in after.keys() & before.keys()}
        return {"written_bytes": written, "read_bytes": read, "direct_hogs": int(direct), **grown}


def device_bytes() -> dict[str, int]:
    """Return what this process had written to and read from devices; empty where untold."""
    names = {
        "write_bytes": "device_written_bytes",
        "read_bytes": "device_read_bytes",
    }
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
