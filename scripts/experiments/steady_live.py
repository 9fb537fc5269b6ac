"""Look for contention that never varies, on a real Spark: from the first task to the last.

    sudo .venv/bin/python scripts/experiments/steady_live.py [--rounds 3]

Readers of a slow disk run beside a steady writer, beside a wider reader, and beside a query that
leaves the disk alone; in one application, and in two. What a query lost is what it takes longer
than alone. The disk is a loop device: one thread of the kernel serves its reads and writes in turn,
at the speed that the host's control group may have. It is mounted ``sync`` once its files are
there, so that tasks wait for what they write; its pages are forgotten before each step. Needs what
:mod:`loadable_hosts` needs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from arms import OUT, RESULTS, fresh, save
from bigroots import ONE_TASK_PER_FILE
from bigroots_jobs import forget
from cluster import Cluster, cluster, start_application, wait_until
from loadable_hosts import Size, check_machine
from steady_live_analysis import analysed, steady_live

EXPERIMENT = "steady_live"
HOST = "127.0.0.2"
SIZE = Size(cores=4.0, disk_bytes_per_s=16 << 20, as_served=True)
"""Processors are not short: Spark may use two."""
SLOTS = 6
"""Of one application; of two, the readers and the others have :data:`SLOTS_OF` each."""
IMAGE_MB = 1024
LOOP_SET_FD = 0x4C00
READ_AHEAD_KB = 64
"""More would keep the disk's queue full of one reader's requests."""
FILES = {"parquet": 16, "csv": 16, "narrow": 8, "wide": 40, "parquet-warm": 4, "csv-warm": 4}
WRITTEN = 16
HASHED = {"all": 6_500_000, "readers": 0, "others": 1_500_000}
"""By application: some run beside more compiled code."""
LEAD_S = 1.5
"""What others start earlier."""
POOLS = {"parquet": 1, "csv": 1, "narrow": 1, "wide": 5, "writer": 1, "computing": 1}


@dataclass(frozen=True)
class Beside:
    """What runs at once: queries that read, one thread each, and what others do from before.

    slots: of the readers' application and of the others', where these are two.
    """

    readers: Sequence[Sequence[str]]
    others: Sequence[str] = ()
    slots: tuple[int, int] = (2, 6)


STEPS = {
    "alone parquet": Beside([["parquet"]]),
    "alone csv": Beside([["csv"]]),
    "alone narrow": Beside([["narrow"]], slots=(1, 6)),
    "alone wide": Beside([], ["wide"], slots=(1, 6)),
    "writer": Beside([["parquet"], ["csv"]], ["writer"]),
    "wide": Beside([["narrow"]], ["wide"], slots=(1, 6)),
    "quiet": Beside([["parquet", "csv"]], ["computing"]),
}
MODES = {"one": ("all",), "two": ("readers", "others")}
"""Applications: of a step that runs in one, and in two."""
CONF = {
    **ONE_TASK_PER_FILE,
    "spark.eventLog.compress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.buffer.size": str(512 << 10),
    "spark.sql.parquet.compression.codec": "none",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}


@contextmanager
def slow_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk whose reads and writes take from one another."""
    image, disk = folder / "disk.img", folder / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        for _ in range(IMAGE_MB):
            file.write(bytes(1 << 20))
    _call("chattr", "+S", str(image))
    device = _call("losetup", "--find")
    with image.open("r+b") as file, Path(device).open("r+b") as loop:
        # Read what is asked for only: what lies behind it in the image belongs to other files.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        fcntl.ioctl(loop, LOOP_SET_FD, file.fileno())
    try:
        name = Path(device).name
        Path(f"/sys/block/{name}/queue/read_ahead_kb").write_text(str(READ_AHEAD_KB))
        _call("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=0", device)
        _call("mount", "-o", "nobarrier,noatime", device, str(disk))
        try:
            yield disk
        finally:
            _call("umount", "--lazy", str(disk))
    finally:
        _call("losetup", "--detach", device)


def _call(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def forget_all(folder: Path) -> None:
    """Make the kernel forget what the disk holds, and the file that holds the disk."""
    for name in FILES:
        if not name.endswith("warm"):
            forget(folder / "disk" / name)
    descriptor = os.open(folder / "disk.img", os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def steps_of(app: str, folder: Path, rounds: int) -> Iterator[dict[str, Any]]:
    """The steps that an application takes part in."""
    mode = next(mode for mode, apps in MODES.items() if app in apps)
    for number in range(rounds):
        for name, beside in STEPS.items():
            key = folder / _name(mode, name, number)
            readers = [(names, f"{key}.go") for names in beside.readers if app != "others"]
            others = [([name], f"{key}.others.go") for name in beside.others if app != "readers"]
            if not readers and not others:
                continue
            slots = str(beside.slots[app == "others"])
            conf = {"spark.executor.cores": slots, "spark.cores.max": slots}
            yield {
                "name": key.name, "turns": others + readers, "warm": mode == "two",
                "conf": {} if mode == "one" else conf, "result": f"{key}.{app}.json",
                **{word: f"{key}.{app}.{word}" for word in ("start", "ready")},
            }  # fmt: skip


def _name(mode: str, step: str, number: int) -> str:
    return f"{mode}-{step.replace(' ', '-')}-{number}"


def take(steps: Mapping[str, Mapping[str, Any]], folder: Path, running: Mapping[str, Any]) -> None:
    """Take one step, in the applications that take part in it."""

    def wait(word: str) -> Iterator[str]:
        for app, step in steps.items():
            file = Path(step[word])
            wait_until(file.exists, word, [running[app]])
            yield file.read_text("utf-8")

    for step in steps.values():
        Path(step["start"]).touch()
    list(wait("ready"))
    forget_all(folder)
    name = next(iter(steps.values()))["name"]
    (folder / f"{name}.others.go").touch()
    time.sleep(LEAD_S)
    (folder / f"{name}.go").touch()
    print(f"{EXPERIMENT}: {name}", *wait("result"), flush=True)


def run(folder: Path, rounds: int) -> None:
    """Take all steps, by rounds."""
    with slow_disk(folder) as disk, cluster((HOST,), folder, SIZE, worker_cores=16) as spark:
        apps = {app: list(steps_of(app, folder, rounds)) for each in MODES.values() for app in each}
        prepare = {"name": "prepare", "turns": [[list(POOLS), ""]], "warm": False, "conf": {}} | {
            word: str(folder / f"prepare.{word}") for word in ("start", "ready", "result")
        }
        apps["all"].insert(0, prepare)
        running = {app: start(app, steps, folder, disk, spark) for app, steps in apps.items()}
        try:
            take({"all": prepare}, folder, running)
            _call("mount", "-o", "remount,sync", str(disk))
            spark.limit()
            for number, mode, step in product(range(rounds), MODES, STEPS):
                name = _name(mode, step, number)
                take(
                    {a: one for a, steps in apps.items() for one in steps if one["name"] == name},
                    folder,
                    running,
                )
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.wait()


def start(
    app: str, steps: Sequence[Mapping[str, Any]], folder: Path, disk: Path, spark: Cluster
) -> subprocess.Popen[bytes]:
    """Start the process of an application."""
    pools = folder / "pools.xml"
    weights = (f'<pool name="{n}"><weight>{w}</weight></pool>' for n, w in POOLS.items())
    pools.write_text(f"<allocations>{''.join(weights)}</allocations>")
    plan = folder / f"{app}.plan.json"
    content = {"disk": str(disk), "files": FILES, "written": WRITTEN, "hashed": HASHED[app]}
    plan.write_text(json.dumps({**content, "steps": steps}))
    local = app == "all"
    words = [str(Path(__file__).with_name("steady_live_jobs.py")), str(plan)]
    conf = {**CONF, "spark.scheduler.allocation.file": pools.as_uri()}
    master = f"local[{SLOTS}]" if local else spark.master
    return start_application(words, master, folder, app, conf, spark.hosts[0] if local else None)


def main() -> None:
    """Run, analyse, save."""
    parser = argparse.ArgumentParser(description="Get in readers' way, always.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each step is taken")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--again", action="store_true", help="analyse the last run's logs anew")
    chosen = parser.parse_args()
    folder = OUT / EXPERIMENT
    if not chosen.again:
        check_machine()
        run(fresh(EXPERIMENT), chosen.rounds)
    save(EXPERIMENT, chosen.results, analysed(folder), steady_live)


if __name__ == "__main__":
    main()
