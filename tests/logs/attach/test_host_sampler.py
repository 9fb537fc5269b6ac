"""The host sampler alone, on this host: what it sees, and when it ends."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iqcar.logs.attach.host_sampler import load, script_path

TIMEOUT_S = 60
BURN = "while True: pass"
LINUX = sys.platform == "linux"
needs_linux = pytest.mark.skipif(not LINUX, reason="needs Linux")


class Running:
    """A sampler's process, fed by its standard input."""

    def __init__(self, *arguments: str, period: str = "0.2") -> None:
        words = [sys.executable, script_path(), "--stdin", "--period", period, *arguments]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.watchdog = threading.Timer(TIMEOUT_S, self.process.kill)
        self.watchdog.start()

    def tell(self, *lines: str) -> None:
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def next(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        assert line, "the sampler ended"
        return json.loads(line)

    def until(self, part: str) -> dict[str, Any]:
        """The next sample that has this part."""
        while True:
            sample = self.next()
            if part in sample:
                return sample

    def end(self) -> list[dict[str, Any]]:
        """Close the input; the samples that were still unread."""
        self.process.stdin.close()
        rest = [json.loads(line) for line in self.process.stdout]
        self.process.wait(TIMEOUT_S)
        self.watchdog.cancel()
        return rest


def test_a_repository_keeps_no_compiled_file_among_the_jar_s_sources() -> None:
    path = script_path()
    assert load().__name__ == "iqcar_sampler"
    assert not (path.parent / "__pycache__").exists()


@pytest.fixture
def sampler() -> Iterator[Running]:
    running = Running()
    yield running
    running.process.kill()
    running.end()


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", BURN])
    yield process
    process.kill()
    process.wait()


def test_cpu_modes_sum_to_the_whole_and_cores_are_listed(sampler: Running) -> None:
    sample = sampler.until("cpu")
    cores = sample["cpu"].pop("cores")
    assert sum(sample["cpu"].values()) == pytest.approx(100, abs=0.5)
    assert 1 <= len(cores) <= os.cpu_count()
    assert all(0 <= busy <= 100 for busy in cores)
    assert 0 < sample["mem"]["available"] <= sample["mem"]["total"]


@pytest.mark.slow
def test_a_process_that_burns_cpu_is_seen_on_the_host_and_by_itself(
    sampler: Running, burner: subprocess.Popen[bytes]
) -> None:
    sampler.tell(f"watch {burner.pid} 7 python")
    samples = [sampler.until("procs") for _ in range(5)]
    used = sum(row[3] for sample in samples for row in sample["procs"])
    elapsed = sum(sample["dt_ms"] for sample in samples)
    # Alone it gets a whole core; on a busy machine a part of one.
    assert used > 0.1 * elapsed
    assert {tuple(row[:3]) for s in samples for row in s["procs"]} == {(burner.pid, "7", "python")}
    busy = [sample["cpu"].get("user", 0) + sample["cpu"].get("nice", 0) for sample in samples]
    user = sum(b * sample["dt_ms"] for b, sample in zip(busy, samples, strict=True)) / 100
    assert user * os.cpu_count() > 0.5 * used


@needs_linux
def test_a_process_that_writes_is_seen_writing(sampler: Running, tmp_path: Path) -> None:
    sampler.tell(f"watch {os.getpid()} driver jvm")
    sampler.until("procs")
    (tmp_path / "much").write_bytes(b"x" * 5_000_000)
    written = 0
    while written < 5_000_000:
        written += sampler.until("procs")["procs"][0][8]


@pytest.mark.slow
@needs_linux
def test_a_thread_is_watched_from_its_task_s_start_to_its_end(
    sampler: Running, burner: subprocess.Popen[bytes]
) -> None:
    sampler.tell(f"task {burner.pid} {burner.pid} 42")
    samples = [sampler.until("tasks") for _ in range(4)]
    rows = [row for sample in samples for row in sample["tasks"]]
    assert {row[0] for row in rows} == {42}
    elapsed = sum(sample["dt_ms"] for sample in samples[1:])
    # It always wants to run: what it did not get, it waited for.
    assert sum(row[1] + row[2] for row in rows[1:]) == pytest.approx(elapsed, rel=0.5)
    sampler.tell(f"end {burner.pid}")
    last = [sampler.next() for _ in range(4)][-1]
    assert "tasks" not in last


def test_sleep_that_the_kernel_counts_as_a_wait_is_none(tmp_path: Path) -> None:
    """At most the time since the last sample; here the kernel claims a day."""
    thread = tmp_path / "7" / "task" / "8"
    thread.mkdir(parents=True)
    names = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")
    (thread / "io").write_text("".join(f"{name}: 0\n" for name in names))
    (thread / "schedstat").write_text("0 0 1\n")
    watched = load().Watched(str(tmp_path))
    watched.obey("task 8 7 42")
    (thread / "schedstat").write_text(f"3000000 {86_400 * 10**9} 2\n")
    ((task, cpu_ms, waited_ms, *disk),) = watched.tasks()
    assert (task, cpu_ms, disk) == (42, 3, [0, 0])
    assert waited_ms < 3_600_000


def test_a_watched_process_that_ends_is_forgotten(
    sampler: Running, burner: subprocess.Popen[bytes]
) -> None:
    sampler.tell(f"watch {burner.pid} 7 python")
    sampler.until("procs")
    burner.kill()
    burner.wait()
    while "procs" in sampler.next():
        pass


def test_nonsense_in_the_input_is_passed_over(sampler: Running) -> None:
    sampler.tell("watch", "watch x y z", "task 1", "end -1", "end x", "watch 999999999 1 jvm", "é")
    assert "cpu" in sampler.next()


def test_it_says_its_last_words_when_its_input_ends() -> None:
    running = Running(period="1000")
    running.tell(f"watch {os.getpid()} driver jvm")
    time.sleep(0.3)
    (last,) = running.end()
    assert last["dt_ms"] < 60_000
    assert {"cpu", "procs"} <= last.keys()
    assert running.process.returncode == 0


def test_it_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import pathlib, subprocess, sys, time\n"
            "words = [sys.executable, sys.argv[1], '--stdin', '--period', '0.2']\n"
            "child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            "child.stdout.readline()\n"
            "pathlib.Path(sys.argv[2]).write_text(str(child.pid) + ' ')\n"
            "time.sleep(1000)",
            *(str(script_path()), str(pid_file)),
        ]
    )
    try:
        wait_for(lambda: pid_file.exists() and pid_file.read_text().endswith(" "))
        child = int(pid_file.read_text())
        assert alive(child)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_for(lambda: not alive(child))


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_of_two_with_one_lock_one_samples_the_host_until_the_other_takes_over(
    tmp_path: Path,
) -> None:
    lock = str(tmp_path / "host.lock")
    first = Running("--lock", lock)
    first.until("cpu")
    second = Running("--lock", lock)
    second.tell(f"watch {os.getpid()} 2 jvm")
    followed = [second.until("procs") for _ in range(3)]
    assert not any("cpu" in sample for sample in followed)
    assert all("cpu" in sample for sample in first.end())
    led = second.until("cpu")
    assert led["dt_ms"] < 60_000
    second.end()
    assert not Path(lock).exists()


def test_a_killed_leader_is_followed_too(tmp_path: Path) -> None:
    lock = str(tmp_path / "host.lock")
    first = Running("--lock", lock)
    first.until("cpu")
    second = Running("--lock", lock)
    first.process.kill()
    first.end()
    second.until("cpu")
    second.end()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_writes_whole_lines_and_ends_well_on_a_signal(
    number: int, tmp_path: Path
) -> None:
    out = tmp_path / "samples.jsonl"
    words = [sys.executable, "-m", "iqcar", "sample", "--out", out, "--period", "100ms"]
    running = subprocess.Popen([*words, "--host", "node7"], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: out.exists() and out.read_text().count("\n") >= 3)
    running.send_signal(number)
    _, errors = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, errors
    samples = [json.loads(line) for line in out.read_text().splitlines()]
    assert f"Wrote {out} ({len(samples)} samples)" in errors
    assert {sample["host"] for sample in samples} == {"node7"}


@pytest.mark.slow
def test_the_command_ends_after_its_time_and_overwrites_only_when_told(tmp_path: Path) -> None:
    out = tmp_path / "samples.jsonl"
    words = [sys.executable, "-m", "iqcar", "sample", "--out", str(out), "--for", "300ms"]
    assert subprocess.run(words, timeout=TIMEOUT_S).returncode == 0
    assert json.loads(out.read_text())["dt_ms"] < 60_000
    again = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert again.returncode == 2
    assert "--force" in again.stderr


@pytest.mark.parametrize("period", ["0", "1ms", "soon", "-1s", ""])
def test_a_period_that_is_none_is_refused_in_one_line(period: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "iqcar", "sample", "--out", str(tmp_path / "x")]
    done = subprocess.run([*words, "--period", period], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_where_nothing_is_writable_it_samples_without_a_lock() -> None:
    """A container whose file system is read-only; here in a mount namespace of its own."""
    # What lies there stays to be seen: it may be this Python.
    shut = "mount --bind {0} {0} && mount -o remount,bind,ro {0}"
    hide = f"{shut.format('/tmp')} && {shut.format('/var/tmp')} && cd /proc"  # noqa: S108
    unshare = ["unshare", "--mount", "sh", "-c"]
    allowed = shutil.which("unshare") and subprocess.run([*unshare, hide], capture_output=True)
    if not allowed or allowed.returncode != 0:
        pytest.skip("needs the right to make a mount namespace")
    script = Path(script_path()).read_text(encoding="utf-8")
    words = [sys.executable, "-c", script, "--period", "0.1", "--stdin", "--lock", "iqcar-x.lock"]
    sampling = f"{hide}; {shlex.join(words)}"
    done = subprocess.run(
        [*unshare, f"sleep 1 | ({sampling})"],
        capture_output=True,
        text=True,
        env={name: v for name, v in os.environ.items() if name not in ("TMPDIR", "TEMP", "TMP")},
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert "cpu" in json.loads(done.stdout.splitlines()[-1])


def test_without_psutil_it_says_so_in_one_json_line(tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("raise ImportError('No module named psutil')")
    done = subprocess.run(
        [sys.executable, script_path(), "--stdin"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "psutil" in json.loads(done.stdout)["err"]
    assert done.stderr == ""


def test_a_container_s_limits_and_throttling_are_those_of_its_cgroup(tmp_path: Path) -> None:
    """The kernel's files as it writes them, for a group with limits on two levels."""
    proc, mount = tmp_path / "proc", tmp_path / "cgroup"
    own = mount / "pod" / "main"
    own.mkdir(parents=True)
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/pod/main\n")
    (proc / "self" / "mountinfo").write_text(
        f"30 25 0:26 / {mount} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    )
    (mount / "pod" / "cpu.max").write_text("150000 100000\n")
    (mount / "pod" / "memory.max").write_text("2147483648\n")
    (own / "cpu.max").write_text("200000 100000\n")
    (own / "memory.max").write_text("max\n")
    (own / "memory.current").write_text("1048576\n")
    stat = "usage_usec {0}\nuser_usec 1\nsystem_usec 1\nnr_periods {1}\nnr_throttled {2}\n"
    stat += "throttled_usec {3}\n"
    (own / "cpu.stat").write_text(stat.format(1_000_000, 10, 1, 5_000))
    host = load().Host(str(proc))
    (own / "cpu.stat").write_text(stat.format(1_700_000, 20, 9, 455_000))
    assert host.sample()["cgroup"] == {
        "cpus": 1.5,
        "mem_limit": 2147483648,
        "mem_used": 1048576,
        "cpu_ms": 700,
        "throttled_ms": 450,
        "periods": 10,
        "throttled_periods": 8,
    }


def test_a_part_that_fails_costs_only_itself_and_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some nonsense\n")
    host = load().Host(str(tmp_path))
    sample = host.sample()
    assert "psi" not in sample
    assert list(sample["errors"]) == ["psi"]
    assert "errors" not in host.sample()
    assert {"load", "mem"} <= sample.keys()
