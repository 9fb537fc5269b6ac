"""Computes the free memory and disk of a host, and checks the part of them that may be used."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from iqcar.base.units import KIB, size
from iqcar.errors import IqcarError, UsageError

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
