"""The anomaly generator: what real processes do, how they end, and what the log says of them."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from iqcar.base.workers import usable_cores
from iqcar_lab.inject.anomalies import (
    BURST_S,
    FILE_SYSTEMS_IN_MEMORY,
    Anomaly,
    CpuSettings,
    IoSettings,
    MemorySettings,
    NetworkSettings,
    file_system,
)
from iqcar_lab.inject.plan import Injection
from iqcar_lab.inject.run_plan import InjectionRecord, Stop, read_log, run
from tests.support.command import iqcar_lab

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
MB = 1 << 20
LINUX = sys.platform == "linux"
needs_linux = pytest.mark.skipif(not LINUX, reason="needs Linux")
CORES = usable_cores()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder that lies on a disk."""
    if file_system(str(tmp_path)) in FILE_SYSTEMS_IN_MEMORY:
        pytest.skip("the folder for temporary files is in memory")
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


class Watched:
    """Runs one injection and looks at its hogs from outside meanwhile."""

    def __init__(self, settings: Any, for_ms: int = 1500) -> None:
        self.rss = self.device_bytes = 0
        self.affinity: set[int] = set()
        self.connections: set[tuple[str, str, str]] = set()
        self.looks = 0
        # Other tests of this process may have left a Spark or a browser running.
        self.strangers = {child.pid for child in psutil.Process().children()}
        plan = [Injection("127.0.0.9", 0, for_ms, settings)]
        (self.record,) = run(plan, progress=self.look)

    def look(self, seconds: float) -> None:
        for process in psutil.Process().children():
            if process.pid in self.strangers:
                continue
            try:
                self.rss = max(self.rss, process.memory_info().rss)
                if LINUX:
                    self.affinity |= set(process.cpu_affinity())
                    self.device_bytes = max(self.device_bytes, process.io_counters().write_bytes)
                for c in process.net_connections("inet"):
                    peer = c.raddr.ip if c.raddr else ""
                    self.connections.add((c.laddr.ip, peer, c.status))
                self.looks += 1
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue


@pytest.mark.long
def test_cpu_hogs_use_the_cpu_that_the_log_says() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    watched = Watched(CpuSettings(processes=2))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_ms = 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    record = watched.record
    wall_ms = record.end_ms - record.start_ms
    assert 0.1 * wall_ms <= record.achieved["cpu_ms"] <= spent_ms + 20
    assert record.achieved["cores"] == pytest.approx(record.achieved["cpu_ms"] / wall_ms, abs=1e-3)
    assert record.achieved["rounds"] > 0
    assert len(record.hogs) == 2
    assert record.error == record.stopped == ""


@pytest.mark.long
def test_a_share_bounds_the_cpu_of_a_hog() -> None:
    record = Watched(CpuSettings(processes=1, share=0.2)).record
    assert 0 < record.achieved["cores"] < 0.5


@pytest.mark.long
@needs_linux
def test_hogs_run_on_the_cores_they_were_given() -> None:
    core = CORES[-1]
    watched = Watched(CpuSettings(cores=(core,)))
    assert watched.looks
    assert watched.affinity == {core}
    assert len(watched.record.hogs) == 1, "one hog for each core it may use"
    assert usable_cores() == CORES, "the starter is not pinned"


@pytest.mark.long
@needs_linux
@pytest.mark.parametrize("read_share", [0.0, 0.5])
def test_io_hogs_write_to_the_device_and_leave_nothing(disk: Path, read_share: float) -> None:
    settings = IoSettings(processes=2, folder=str(disk), size_bytes=16 * MB, read_share=read_share)
    watched = Watched(settings)
    done = watched.record.achieved
    assert done["written_bytes"] > 0
    # The kernel counts reserving blocks too; a block may be under way when a hog ends.
    assert done["device_written_bytes"] >= 0.9 * done["written_bytes"]
    assert watched.device_bytes > 0, "seen from outside in /proc/<pid>/io"
    assert (done["read_bytes"] > 0) == (read_share > 0)
    assert done["device_read_bytes"] >= 0.9 * done["read_bytes"]
    assert list(disk.iterdir()) == []


@pytest.mark.long
@needs_linux
def test_an_io_hog_never_takes_more_disk_than_it_was_given(disk: Path) -> None:
    settings = IoSettings(processes=1, folder=str(disk), size_bytes=3 * MB)
    sizes = set()

    def look(seconds: float) -> None:
        for child in psutil.Process().children():
            for entry in Path(f"/proc/{child.pid}/fd").glob("*"):
                try:
                    if str(disk) in str(entry.readlink()):
                        sizes.add(entry.stat().st_size)
                except OSError:
                    continue

    (record,) = run([Injection("h", 0, 1000, settings)], progress=look)
    assert record.achieved["written_bytes"] > 3 * MB, "it went round"
    assert max(sizes) == 3 * MB


@pytest.mark.long
@needs_linux
def test_memory_hogs_hold_what_was_asked() -> None:
    watched = Watched(MemorySettings(size_bytes=64 * MB))
    assert watched.record.achieved["held_bytes"] == 64 * MB
    assert watched.record.achieved["walks"] >= 1
    assert watched.rss >= 64 * MB


@pytest.mark.long
@needs_linux
def test_network_hogs_move_bytes_over_loopback_only() -> None:
    rate = 4.0 * MB
    settings = NetworkSettings(listen="127.0.0.2", source="127.0.0.3", rate_bytes_per_s=rate)
    watched = Watched(settings)
    record = watched.record
    wall_s = (record.end_ms - record.start_ms) / 1000
    assert 0 < record.achieved["sent_bytes"] <= rate * (wall_s + BURST_S) + settings.message_bytes
    assert record.achieved["received_bytes"] <= record.achieved["sent_bytes"]
    ends = {(local, remote) for local, remote, status in watched.connections if remote}
    assert ends == {("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")}
    assert not [c for c in watched.connections if c[2] == psutil.CONN_LISTEN]


@pytest.mark.long
def test_network_hogs_without_a_rate_move_bytes() -> None:
    done = Watched(NetworkSettings(message_bytes=512)).record.achieved
    assert done["sent_bytes"] - 512 <= done["received_bytes"] <= done["sent_bytes"]
    assert done["received_bytes"] > 0


def test_a_lost_hog_is_an_error_and_ends_the_others() -> None:
    def kill_one(record: InjectionRecord) -> None:
        if record.event == "start":
            os.kill(record.hogs[0].pid, signal.SIGKILL)

    (record,) = run([Injection("h", 0, 60_000, CpuSettings(processes=2))], tell=kill_one)
    assert "was lost" in record.error
    assert record.end_ms < record.planned_end_ms


def test_what_had_not_begun_when_a_run_stops_is_not_told() -> None:
    stop = Stop()
    plan = [
        Injection("a", 0, 60_000, CpuSettings(processes=1)),
        Injection("b", 30_000, 1000, CpuSettings(processes=1)),
    ]
    (record,) = run(plan, tell=lambda r: setattr(stop, "signal", signal.SIGTERM), stop=stop)
    assert (record.host, record.stopped) == ("a", "SIGTERM")
    assert record.achieved["cpu_ms"] >= 0, "it ended by itself and could report"


@pytest.fixture
def running(disk: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A command that loads a disk for a long time, and its hogs."""
    log = tmp_path / "truth.jsonl"
    words = ["io", "--for", "10m", "--dir", disk, "--size", "16MB", "--processes", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "iqcar_lab", "inject", *map(str, words), "--log", log],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: log.exists() and log.read_bytes().endswith(b"\n"))
    hogs = [child.pid for child in psutil.Process(process.pid).children()]
    assert len(hogs) == 2
    yield process, hogs
    process.kill()
    process.wait()


def until(true: Any) -> None:
    """Wait until something is so, however slow the machine."""
    latest = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < latest, "it never came to that"
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_leaves_nothing(
    running: Any, number: signal.Signals, disk: Path, tmp_path: Path
) -> None:
    process, hogs = running
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == 128 + number
    assert not [pid for pid in hogs if psutil.pid_exists(pid)]
    assert list(disk.iterdir()) == []
    (record,) = read_log(str(tmp_path / "truth.jsonl"))
    assert (record.event, record.stopped, record.error) == ("end", number.name, "")
    assert record.start_ms <= record.end_ms < record.planned_end_ms


def test_the_hogs_of_a_killed_command_end_and_leave_nothing(
    running: Any, disk: Path, tmp_path: Path
) -> None:
    process, hogs = running
    process.kill()
    until(lambda: not [p for p in hogs if psutil.pid_exists(p) and alive(p)])
    assert list(disk.iterdir()) == []
    (record,) = read_log(str(tmp_path / "truth.jsonl"))
    assert (record.event, record.end_ms) == ("start", None)


def alive(pid: int) -> bool:
    """A zombie that nobody reaps (PID 1 of a container may not) is dead."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
@pytest.mark.alone
def test_the_log_of_a_plan_is_complete_and_equals_the_json(disk: Path, tmp_path: Path) -> None:
    strength = {"io": {"folder": str(disk), "size_bytes": 8 * MB}, "memory": {"size_bytes": 8 * MB}}
    injections = [
        {"host": host, "anomaly": a, "after_ms": at, "for_ms": 1500, "settings": settings}
        for at, (host, a) in enumerate((h, str(a)) for h in ("h1", "h2") for a in Anomaly)
        for settings in [{"processes": 1, **strength.get(a, {})}]
    ]
    plan, log = tmp_path / "plan.json", tmp_path / "truth.jsonl"
    plan.write_text(json.dumps({"injections": injections}))
    done = iqcar_lab("inject", "schedule", "--plan", plan, "--log", log, "--json", "-")
    assert done.returncode == 0, done.stderr + done.stdout
    assert f"Wrote {log} (8 injections)" in done.stderr
    records = read_log(str(log))
    assert [(r.host, r.anomaly) for r in records] == [(i["host"], i["anomaly"]) for i in injections]
    assert [r.injection for r in records] == list(range(8))
    assert len({r.run for r in records}) == 1
    for record, wish in zip(records, injections, strict=True):
        assert record.planned_start_ms - records[0].planned_start_ms == wish["after_ms"]
        assert record.planned_end_ms - record.planned_start_ms == wish["for_ms"]
        assert record.settings.items() >= wish["settings"].items()
        assert record.planned_start_ms <= record.start_ms <= record.end_ms
        assert len(record.hogs) == (2 if record.anomaly == "network" else 1)
        assert record.start_ms == min(h.start_ms for h in record.hogs)
        assert record.end_ms == max(h.end_ms for h in record.hogs)
        assert record.achieved["cpu_ms"] >= 0
        assert record.error == record.stopped == ""
    shown = json.loads(done.stdout)["injections"]
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [r for r in logged if r["event"] == "end"] == shown
    assert sorted(r["event"] for r in logged) == ["end"] * 8 + ["start"] * 8


@pytest.mark.long
def test_a_log_is_appended_to(tmp_path: Path) -> None:
    log = tmp_path / "truth.jsonl"
    for label in ("first", "second"):
        words = ["--for", "2s", "--share", "0.1", "--processes", 1, "--host", label, "--log", log]
        done = iqcar_lab("inject", "cpu", *words)
        assert done.returncode == 0, done.stderr
        assert f"cpu on {label}: " in done.stdout
    records = read_log(str(log))
    assert [r.host for r in records] == ["first", "second"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["cpu", "--for", "2h"], "--for: 7200 s are not"),
        (["cpu", "--for", "soon"], "is no time"),
        (["cpu", "--for", "1s", "--share", "nan"], "--share"),
        (["cpu", "--for", "1s", "--processes", "65"], "--processes: 65 is not 1 to 64"),
        (["cpu", "--for", "1s", "--host", "a\nb"], "is no host name"),
        (["cpu", "--for", "1s", "--log", "/no/such/folder/log"], "cannot be written"),
        (["io", "--for", "1s", "--dir", "/no/such/folder"], "is no folder"),
        (["io", "--for", "1s", "--dir", ".", "--size", "9999TB"], "are more than half of"),
        (["io", "--for", "1s", "--size", "1MB"], "less than 1 MB for each of 8"),
        (["network", "--for", "1s", "--listen", "0.0.0.0"], "is no loopback address"),  # noqa: S104
        (["network", "--for", "1s", "--source", "10.0.0.1"], "is no loopback address"),
        (["network", "--for", "1s", "--rate", "fast"], "is no size"),
        (["memory", "--for", "1s", "--size", "9999TB"], "are more than 80 %"),
        (["schedule", "--plan", __file__], "is no plan"),
    ],
)
def test_bad_input_ends_in_one_line(words: list[str], complaint: str) -> None:
    done = iqcar_lab("inject", *words)
    assert done.returncode == 2 or "cannot be written" in complaint
    assert done.returncode != 0
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


@needs_linux
def test_cores_that_do_not_exist_and_disks_in_memory_are_refused() -> None:
    assert (
        "cannot be used; this host offers"
        in iqcar_lab("inject", "cpu", "--for", "1s", "--cores", 9999).stderr
    )
    memory = Path("/dev/shm")  # noqa: S108
    if file_system(str(memory)) == "tmpfs":
        done = iqcar_lab("inject", "io", "--for", "1s", "--dir", memory)
        assert "is in memory (tmpfs)" in done.stderr
