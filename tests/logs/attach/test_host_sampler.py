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

from iqcar.logs.attach.spark_conf import load, script_path

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
    count, busiest = sample["cpu"].pop("count"), sample["cpu"].pop("busiest")
    assert sum(sample["cpu"].values()) == pytest.approx(100, abs=0.5)
    assert 1 <= count <= os.cpu_count()
    assert 0 <= busiest <= 100
    assert 0 < sample["mem"]["available"] <= sample["mem"]["total"]


@pytest.mark.slow
def test_a_process_that_burns_cpu_is_seen_on_the_host_and_by_itself(
    sampler: Running, burner: subprocess.Popen[bytes]
) -> None:
    sampler.tell(f"watch {burner.pid} python")
    samples = [sampler.until("procs") for _ in range(5)]
    used = sum(sample["procs"]["python"][0] for sample in samples)
    elapsed = sum(sample["dt_ms"] for sample in samples)
    # Alone it gets a whole core; on a busy machine a part of one.
    assert used > 0.1 * elapsed
    assert all(list(sample["procs"]) == ["python"] for sample in samples)
    busy = [sample["cpu"].get("user", 0) + sample["cpu"].get("nice", 0) for sample in samples]
    user = sum(b * sample["dt_ms"] for b, sample in zip(busy, samples, strict=True)) / 100
    assert user * os.cpu_count() > 0.5 * used


def test_a_rate_bounds_the_bytes_of_all_lines_whatever_the_period(
    burner: subprocess.Popen[bytes],
) -> None:
    running = Running(period="0.05")
    running.tell("rate 500")
    time.sleep(4)
    samples = running.end()[1:]
    written = sum(len(json.dumps(sample, separators=(",", ":"))) for sample in samples)
    told_s = sum(sample["dt_ms"] for sample in samples) / 1000
    assert len(samples) >= 2
    assert told_s > 2  # what was not written at once is in the next line
    assert written <= 500 * told_s + 1000


def test_a_quiet_host_is_sampled_seldom_and_what_was_quiet_apart_from_what_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampler = load().Sampler()
    quiet = iter([True] * 12 + [False] * 2)
    monkeypatch.setattr(sampler, "_is_quiet", lambda: next(quiet))
    written = []
    for _ in range(14):
        time.sleep(0.1)
        written.append([json.loads(line)["dt_ms"] for line in sampler.lines(0.1)])
    assert [len(lines) for lines in written].count(0) >= 8
    told_ms = [sum(lines) for lines in written]
    quiet_ms, busy_ms = written[12]
    assert sum(told_ms[:12]) + quiet_ms >= 1190
    assert busy_ms < 1000
    assert len(written[13]) == 1
    assert sum(told_ms) >= 1390


def test_a_watched_process_that_ends_is_forgotten(
    sampler: Running, burner: subprocess.Popen[bytes]
) -> None:
    sampler.tell(f"watch {burner.pid} python")
    sampler.until("procs")
    burner.kill()
    burner.wait()
    while "procs" in sampler.next():
        pass


def test_nonsense_in_the_input_is_passed_over(sampler: Running) -> None:
    sampler.tell("watch", "watch x y", "watch 1", "rate", "rate x", "watch 999999999 jvm", "é")
    assert "cpu" in sampler.next()


def test_it_says_its_last_words_when_its_input_ends() -> None:
    running = Running(period="1000")
    running.tell(f"watch {os.getpid()} jvm")
    fds = Path(f"/proc/{running.process.pid}/fd")
    wait_for(lambda: not LINUX or len(list(fds.iterdir())) >= 5)  # it waits for orders
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
    second.tell(f"watch {os.getpid()} jvm")
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
        "throttled_ms": 450,
    }


def test_a_container_s_own_pressure_and_bytes_are_told_without_limits(tmp_path: Path) -> None:
    proc, own = tmp_path / "proc", tmp_path / "cgroup"
    own.mkdir()
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/\n")
    (proc / "self" / "mountinfo").write_text(f"30 25 0:26 / {own} rw - cgroup2 cgroup2 rw\n")
    some = "some avg10=1.00 avg60=0.00 avg300=0.00 total={0}\nfull avg10=0 total=1\n"
    moved = "254:0 rbytes={0} wbytes={1} rios=1 wios=1 dbytes=0 dios=0\n"
    (own / "io.pressure").write_text(some.format(1_000))
    (own / "io.stat").write_text(moved.format(100, 200))
    whole = load().Host(str(proc))
    assert "cgroup" not in whole.sample()  # the group of the whole system has no type
    (own / "cgroup.type").write_text("domain\n")
    host = load().Host(str(proc))
    (own / "io.pressure").write_text(some.format(251_000))
    (own / "io.stat").write_text(moved.format(150, 200) + "254:16 rbytes=7 wbytes=1\n8:0\n")
    assert host.sample()["cgroup"] == {"stalled_io_ms": 250.0, "io": [57, 1]}


def test_the_pressure_of_a_real_group_grows_while_it_reads_a_disk(tmp_path: Path) -> None:
    """A group of version 2 in which nothing but the sampler and a reader of a cold file run."""
    group = Path("/sys/fs/cgroup/unified") / f"iqcar-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as why:
        pytest.skip(f"no control group can be made here: {why}")
    try:
        if not (group / "io.pressure").exists():
            pytest.skip("this kernel counts no pressure of groups")
        file = tmp_path / "cold"
        file.write_bytes(os.urandom(32 << 20))
        job = (
            "import json,os,runpy,sys\n"
            f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
            f"host = runpy.run_path({str(script_path())!r})['Host']('/proc')\n"
            f"fd = os.open({str(file)!r}, os.O_RDONLY)\n"
            "os.fsync(fd)\n"
            "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n"
            "while os.read(fd, 1 << 16):\n"
            "    pass\n"
            "print(json.dumps(host.sample()['cgroup']))\n"
        )
        done = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["stalled_io_ms"] > 0
    finally:
        group.rmdir()


def test_a_part_that_fails_costs_only_itself_and_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some nonsense\n")
    host = load().Host(str(tmp_path))
    sample = host.sample()
    assert "psi" not in sample
    assert list(sample["errors"]) == ["psi"]
    assert "errors" not in host.sample()
    assert {"load", "mem"} <= sample.keys()
