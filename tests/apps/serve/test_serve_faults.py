"""What can go wrong while `iqcar serve` runs: it lives on, and says what happened."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from iqcar.apps.serve.analyses import ABANDONED_S, Analyses, Analysis, State
from iqcar.apps.serve.cache import Cache
from iqcar.apps.serve.fork_server import ForkServer
from iqcar.apps.serve.worker import Task
from iqcar.diagnosis import Settings
from iqcar.logs.find.locate import locate
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.event_loop import run_apart
from tests.support.served import Served, large_log, served, until

MANY = 3000
"""Logs of a large History Server's folder."""


def running(server: Served, analysis: str) -> int:
    """Process id of an analysis, once it runs."""
    until(lambda: server.client.get(f"/api/analyses/{analysis}").json()["state"] == "running")
    return until(lambda: server.workers()[:1] or None)[0]


@pytest.mark.slow
def test_a_killed_process_costs_its_analysis_only(tmp_path: Path) -> None:
    large_log(tmp_path / "app-20240101000000-0001")
    contended_log("app-2").write(tmp_path / "app-20240101000000-0002")
    with served(tmp_path, cache=tmp_path / "cache") as server:
        first, second = (one["key"] for one in server.read())
        one = server.start(first)
        other = server.start(second)
        assert (other["state"], other["waiting_before"]) == ("queued", 0)
        os.kill(running(server, one["id"]), signal.SIGKILL)
        ended = server.ended(one["id"])
        assert ended["state"] == "failed"
        assert "ended from outside (SIGKILL)" in ended["message"]
        assert server.ended(other["id"])["state"] == "done"
        page = server.client.get(f"/applications/{first}").text
        assert "SIGKILL" in page
        assert "Try again" in page
        assert until(lambda: any("SIGKILL" in line for line in server.said))
        assert not list(server.cache.glob("unfinished-*"))


@pytest.mark.slow
def test_an_analysis_is_stopped_on_demand(tmp_path: Path) -> None:
    large_log(tmp_path / "app-20240101000000-0001")
    large_log(tmp_path / "app-20240101000000-0002", 10)
    with served(tmp_path, cache=tmp_path / "cache") as server:
        first, second = (one["key"] for one in server.read())
        one, other = server.start(first), server.start(second)
        assert server.start(first)["id"] == one["id"]
        server.client.post(f"/api/analyses/{other['id']}/cancel")
        assert server.ended(other["id"])["state"] == "cancelled"
        process = running(server, one["id"])
        assert server.client.post("/stop", content=f"app={first}").status_code == 303
        assert server.ended(one["id"])["state"] == "cancelled"
        assert process not in server.workers()
        again = server.start(second)
        assert server.ended(again["id"])["state"] == "done"


@pytest.mark.slow
def test_the_server_ends_with_its_processes_and_quietly(tmp_path: Path) -> None:
    large_log(tmp_path / "app-20240101000000-0001")
    for how in (signal.SIGINT, signal.SIGTERM):
        with served(tmp_path, cache=tmp_path / "cache", through=()) as server:
            (row,) = server.read()
            process = running(server, server.start(row["key"])["id"])
            assert server.stop(how) == 0
            until(lambda process=process: not Path(f"/proc/{process}").exists())
            assert not any("Traceback" in line for line in server.said)
            assert not list(server.cache.glob("unfinished-*"))


@pytest.mark.slow
def test_processes_end_when_the_server_is_killed(tmp_path: Path) -> None:
    large_log(tmp_path / "app-20240101000000-0001")
    with served(tmp_path, cache=tmp_path / "cache") as server:
        (row,) = server.read()
        process = running(server, server.start(row["key"])["id"])
        server.stop(signal.SIGKILL)
        until(lambda: not Path(f"/proc/{process}").exists())


@pytest.mark.long
def test_a_log_that_vanishes_is_gone_everywhere(tmp_path: Path) -> None:
    gone = contended_log().write(tmp_path / "app-20240101000000-0001")
    with served(tmp_path, cache=tmp_path / "cache", rescan=0.2) as server:
        (row,) = server.read()
        gone.unlink()
        ended = server.analyse(row["key"])
        assert ended["state"] == "failed"
        assert "does not exist" in ended["message"]
        until(lambda: not server.read())
        assert server.client.get(f"/applications/{row['key']}").status_code == 404
        assert server.client.get(f"/api/applications/{row['key']}").status_code == 404
        assert "no event log here yet" in server.client.get("/").text
        contended_log().write(gone)
        until(server.read)
        assert server.analyse(row["key"])["state"] == "done"


@pytest.mark.long
def test_a_log_deleted_while_it_is_analysed_harms_nothing(tmp_path: Path) -> None:
    log = large_log(tmp_path / "app-20240101000000-0001")
    with served(tmp_path, cache=tmp_path / "cache", rescan=0.2) as server:
        (row,) = server.read()
        started = server.start(row["key"])
        running(server, started["id"])
        log.unlink()
        # What was open is read to its end; the application is gone from the list meanwhile.
        until(lambda: not server.read())
        until(lambda: not server.workers())
        assert server.ended(started["id"])["state"] in ("done", "failed")
        assert server.client.get(f"/applications/{row['key']}").status_code == 404
        assert server.client.get("/api/applications").status_code == 200


READS_ALL = "-dac_override,-dac_read_search"
"""What lets root read files that nobody may."""


@pytest.mark.slow
@pytest.mark.skipif(
    os.getuid() == 0 and not shutil.which("setpriv"), reason="root cannot give up rights here"
)
def test_a_log_without_permission_says_so(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "app-20240101000000-0001").chmod(0)
    as_others = ("setpriv", f"--bounding-set={READS_ALL}", f"--inh-caps={READS_ALL}")
    through = as_others if os.getuid() == 0 else ()
    with served(tmp_path, cache=tmp_path / "cache", through=through) as server:
        (row,) = server.read()
        assert "permission denied" in row["message"]


@pytest.mark.slow
def test_broken_logs_of_all_kinds_are_listed_with_their_reason(tmp_path: Path) -> None:
    (tmp_path / "app-20240101000000-0001").write_bytes(b"")
    (tmp_path / "app-20240101000000-0002").write_bytes(os.urandom(200_000))
    (tmp_path / "app-20240101000000-0003").write_bytes(b"{" * 500_000)
    (tmp_path / "app-20240101000000-0004.zstd").write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 1000)
    (tmp_path / "app-20240101000000-0005").write_bytes(b'{"Event":' * 100_000)
    (tmp_path / "app-20240101000000-0006").write_bytes(b"x" * (6 << 20))
    (tmp_path / "eventlog_v2_app-20240101000000-0007").mkdir()
    (tmp_path / "app-20240101000000-0008.zip").write_bytes(b"PK\x03\x04" + b"x" * 1000)
    SyntheticLog().app("n", "then", User=7).end("soon").write(tmp_path / "app-20240101000000-0009")
    with served(tmp_path, cache=tmp_path / "cache", rescan=0.2) as server:
        rows = server.read()
        assert len(rows) == 9
        for row in rows:
            assert (row["status"] == "failed") == bool(row["message"]), row
        # Together with one that can be read they are analysed, and each is told of.
        contended_log().write(tmp_path / "app-20240101000000-0000")
        until(lambda: len(server.read()) == 10)
        logs = [row["key"] for row in server.read() if row["size_bytes"]]
        ended = server.analyse(*logs)
        assert ended["state"] == "done", ended
        result = server.client.get(f"/api/analyses/{ended['id']}/result").json()
        status = [each["status"] for each in result["inputs"]]
        assert status.count("complete") >= 1
        assert status.count("failed") >= 5
        assert all(each["message"] for each in result["inputs"] if each["status"] == "failed")
        assert server.client.get("/").status_code == 200


@pytest.mark.slow
def test_thousands_of_logs_are_listed_without_being_read_whole(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(MANY):
        start = 1000 * number + 1
        log = SyntheticLog(f"app-{number}").app(f"name {number % 7}", start).end(start + 5)
        log.write(logs / f"app-20240101000000-{number:04}")
    large_log(logs / "app-20250101000000-0001", 100_000)
    with served(logs, cache=tmp_path / "cache") as server:
        # It answers while it still reads.
        def listed() -> dict[str, Any] | None:
            page = server.client.get("/api/applications", params={"size": 10}).json()
            return page if page["total"] else None

        first = until(listed)
        assert first["total"] == MANY + 1
        assert len(first["applications"]) == 10
        until(lambda: server.client.get("/api/applications").json()["unread"] == 0)
        page = server.client.get("/api/applications", params={"q": "app-1234", "size": 500}).json()
        assert [one["name"] for one in page["applications"]] == [f"name {1234 % 7}"]
        page = server.client.get("/api/applications", params={"status": "complete"}).json()
        assert page["chosen"] == MANY + 1
        assert len(server.client.get("/").content) < 100_000
        status = Path(f"/proc/{server.process.pid}/io").read_text()
        read = int(next(line for line in status.splitlines() if "rchar" in line).split()[1])
        large = (logs / "app-20250101000000-0001").stat().st_size
        assert read < large, "the large log was read whole"


@pytest.mark.slow
def test_a_taken_port_and_bad_places_end_in_one_clear_line(tmp_path: Path) -> None:
    def fail(*arguments: object) -> subprocess.CompletedProcess[str]:
        return iqcar("serve", "--cache", tmp_path / "cache", *arguments)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = fail(tmp_path, "--port", taken.getsockname()[1])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "address already in use; give another --port" in done.stderr
    done = fail(tmp_path / "nothing")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "it does not exist" in done.stderr
    done = fail(tmp_path, "--host", "no.such.host.invalid")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    done = fail("s4://bucket/logs")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    (tmp_path / "file").write_text("")
    done = fail(tmp_path, "--cache", tmp_path / "file")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "give another folder with --cache" in done.stderr


def test_what_is_missing_is_named_with_how_to_install_it(tmp_path: Path) -> None:
    # A meta path finder that hides uvicorn, as on a machine that has only the core install.
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'uvicorn' else real(name, *a)\n"
        "sys.argv = ['iqcar', 'serve', sys.argv[1]]\n"
        "from iqcar.apps.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr == "iqcar: needs uvicorn; pip install 'iqcar[serve]'\n"


def analysed(tmp_path: Path, during: Callable[[Analyses, Analysis], None]) -> Analysis:
    """Analyse a large log by the queue itself, with something done to it meanwhile."""
    path = large_log(tmp_path / "app-1")
    (log,) = locate([path])

    async def run() -> Analysis:
        ended = asyncio.Event()
        forks = ForkServer()
        analyses = Analyses(Cache(tmp_path / "cache"), forks, 1, lambda _: ended.set())
        settings = asdict(Settings())
        analysis = analyses.start(
            "a" * 32, ("k",), lambda folder: Task(("k",), (log,), settings, str(folder))
        )
        await asyncio.sleep(0.2)
        during(analyses, analysis)
        await asyncio.wait_for(ended.wait(), 120)
        await analyses.close()
        await forks.close()
        return analysis

    return run_apart(run)


def test_an_analysis_nobody_asks_about_is_stopped(tmp_path: Path) -> None:
    def leave(analyses: Analyses, analysis: Analysis) -> None:
        analyses.cancel_abandoned()
        assert analysis.state is State.RUNNING
        analysis.asked_at -= ABANDONED_S + 1
        analyses.cancel_abandoned()

    assert analysed(tmp_path, leave).state is State.CANCELLED
    assert not list((tmp_path / "cache").iterdir())


def test_an_analysis_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iqcar.apps.serve.analyses.MAX_RUN_S", 0.1)
    ended = analysed(tmp_path, lambda analyses, analysis: None)
    assert ended.state is State.FAILED
    assert "took longer" in ended.message


@pytest.mark.long
def test_a_result_that_cannot_be_kept_is_a_failure_that_says_so(tmp_path: Path) -> None:
    def lose(analyses: Analyses, analysis: Analysis) -> None:
        shutil.rmtree(tmp_path / "cache")

    ended = analysed(tmp_path, lose)
    assert ended.state is State.FAILED
    assert ended.message
