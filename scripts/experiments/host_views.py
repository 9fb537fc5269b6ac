"""Give each host its own view of /proc/stat and /proc/diskstats, as on a machine of its size."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

TICKS_PER_S = 100
SECTOR_BYTES = 512


@dataclass
class Use:
    """What a host's groups used so far, as its view of /proc tells it."""

    user: float = 0.0
    system: float = 0.0
    idle: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    busy_ms: float = 0.0
    queued_s: float = 0.0
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    ended: list[tuple[float, int, int]] = field(default_factory=list)
    cpu: tuple[int, int] = (0, 0)


def stat_text(use: Use) -> str:
    """The host's /proc/stat: one processor whose ticks are the quota's."""
    user, system, idle = (round(TICKS_PER_S * t) for t in (use.user, use.system, use.idle))
    times = f"{user:018d} 0 {system:018d} {idle:018d} 0 0 0 0 0 0"
    boot = re.search(r"^btime \d+$", Path("/proc/stat").read_text(), re.M)
    lines = [f"cpu  {times}", f"cpu0 {times}", "intr 0", "ctxt 0", boot.group() if boot else ""]
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
