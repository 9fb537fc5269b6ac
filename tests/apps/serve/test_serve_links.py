"""Links and other odd files laid into what `iqcar serve` reads: never opened, whenever laid."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.contended_log import contended_log
from tests.support.served import Served, large_log, served, until
from tests.support.small_log import small_log

pytestmark = pytest.mark.slow

OF_OTHERS = "a-log-of-others"
ROLLING = "eventlog_v2_app-20240101000000-0002"


def secret_log(path: Path) -> Path:
    """A log outside the served folder, told from all others by its name."""
    log = contended_log()
    log.lines = [line.replace(b'"contended"', f'"{OF_OTHERS}"'.encode()) for line in log.lines]
    return log.write(path)


def single(logs: Path) -> None:
    small_log().write(logs / "app-20240101000000-0002")


def rolling(logs: Path) -> None:
    small_log().write(logs / ROLLING / "events_1_app-20240101000000-0002")


def nested(logs: Path) -> None:
    small_log().write(logs / "a" / "b" / "app-20240101000000-0002")


def link_file(logs: Path, outside: Path) -> None:
    secret = secret_log(outside / "app-20240101000000-0002")
    (logs / "app-20240101000000-0002").unlink()
    (logs / "app-20240101000000-0002").symlink_to(secret)


def link_part(logs: Path, outside: Path) -> None:
    secret = secret_log(outside / "part")
    part = logs / ROLLING / "events_1_app-20240101000000-0002"
    part.unlink()
    part.symlink_to(secret)


def link_folder(logs: Path, outside: Path) -> None:
    secret_log(outside / "events_1_app-20240101000000-0002")
    shutil.rmtree(logs / ROLLING)
    (logs / ROLLING).symlink_to(outside)


def link_between(logs: Path, outside: Path) -> None:
    secret_log(outside / "b" / "app-20240101000000-0002")
    shutil.rmtree(logs / "a")
    (logs / "a").symlink_to(outside)


@contextmanager
def queued(
    tmp_path: Path, lay: Callable[[Path], None]
) -> Iterator[tuple[Served, Path, dict[str, str], str]]:
    """A server whose only process is busy, and an analysis that waits behind it."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "outside").mkdir()
    large_log(logs / "app-20240101000000-0001")
    lay(logs)
    with served(logs, cache=tmp_path / "cache") as server:
        busy = server.start(server.key("contended"))["id"]
        until(lambda: server.client.get(f"/api/analyses/{busy}").json()["state"] == "running")
        analysis = server.start(server.key("app"))
        assert analysis["state"] == "queued"
        yield server, logs, analysis, busy


@pytest.mark.long
@pytest.mark.parametrize(
    ("lay", "swap"),
    [(single, link_file), (rolling, link_part), (rolling, link_folder), (nested, link_between)],
)
def test_a_log_that_becomes_a_link_while_it_waits_is_not_read(
    tmp_path: Path, lay: Callable[[Path], None], swap: Callable[[Path, Path], None]
) -> None:
    with queued(tmp_path, lay) as (server, logs, analysis, busy):
        swap(logs, tmp_path / "outside")
        server.client.post(f"/api/analyses/{busy}/cancel")
        ended = server.ended(analysis["id"])
        assert ended["state"] == "failed"
        assert "leads out of" in ended["message"]
        assert OF_OTHERS not in server.client.get("/api/applications").text
    assert not [one for one in (tmp_path / "cache").iterdir() if (one / "summary.json").exists()]


def test_a_log_that_becomes_a_pipe_while_it_waits_holds_up_nothing(tmp_path: Path) -> None:
    with queued(tmp_path, single) as (server, logs, analysis, busy):
        (logs / "app-20240101000000-0002").unlink()
        os.mkfifo(logs / "app-20240101000000-0002")
        server.client.post(f"/api/analyses/{busy}/cancel")
        ended = server.ended(analysis["id"])
        assert ended["state"] == "failed"
        assert "no regular file" in ended["message"]


@pytest.mark.long
def test_a_log_that_is_put_back_as_a_link_inside_is_read(tmp_path: Path) -> None:
    with queued(tmp_path, single) as (server, logs, analysis, busy):
        log = logs / "app-20240101000000-0002"
        log.rename(logs / "elsewhere")
        log.symlink_to("elsewhere")
        server.client.post(f"/api/analyses/{busy}/cancel")
        assert server.ended(analysis["id"])["state"] == "done"


def test_links_that_come_and_go_are_never_peeked_through(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    small_log().write(logs / "app-20240101000000-0001")
    secret = secret_log(tmp_path / "outside" / "secret")
    stop = threading.Event()

    def swap() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            new, log = logs / ".new", logs / "app-20240101000000-0001"
            new.symlink_to(secret) if number % 2 else small_log().write(new)
            new.replace(log)

    from iqcar.apps.serve.listing import Listing, Places
    from iqcar.logs.find.locate import locate

    listing = Listing(Places([str(logs)]), lambda key, identity: None)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(400):
            listing.scan()
            assert OF_OTHERS not in [one.name for one in listing.applications()]
    finally:
        stop.set()
        thread.join()
    assert locate([logs])


def test_files_outside_are_not_even_looked_into(tmp_path: Path) -> None:
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    logs.mkdir()
    outside.mkdir()
    secret_log(outside / "events.txt")
    (logs / "some.txt").symlink_to(outside / "events.txt")
    (logs / "folder").symlink_to(outside)
    small_log().write(logs / "app-20240101000000-0001")
    with served(logs, cache=tmp_path / "cache") as server:
        rows = server.read()
    assert sorted(Path(one["path"]).name for one in rows if "leads out of" in one["message"]) == [
        "folder",
        "some.txt",
    ]


@pytest.mark.long
def test_pipes_sockets_and_folders_among_logs_are_passed_over(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    small_log().write(logs / "app-20240101000000-0001")
    os.mkfifo(logs / "app-20240101000000-0002")
    (logs / "app-20240101000000-0003").mkdir()
    small_log().write(logs / ROLLING / "events_1_app-20240101000000-0002")
    os.mkfifo(logs / ROLLING / "events_2_app-20240101000000-0002")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(logs / "app-20240101000000-0004"))
        with served(logs, cache=tmp_path / "cache") as server:
            rows = server.read()
            assert len(rows) == 2
            assert all(server.analyse(one["key"])["state"] == "done" for one in rows)


def test_a_cache_with_odd_entries_neither_blocks_nor_breaks_the_start(tmp_path: Path) -> None:
    logs, cache = tmp_path / "logs", tmp_path / "cache"
    SyntheticLog().app("one").end().write(logs / "app-20240101000000-0001")
    cache.mkdir(mode=0o700)
    os.mkfifo(cache / ("1" * 32))
    os.mkfifo(cache / "unfinished-1")
    (cache / ("2" * 32)).mkdir()
    os.mkfifo(cache / ("2" * 32) / "summary.json")
    (cache / ("3" * 32)).mkdir()
    (cache / ("3" * 32) / "summary.json").mkdir()
    (cache / ("4" * 32)).symlink_to(cache / "nowhere")
    (cache / "unfinished-2").symlink_to(cache / "nowhere")
    (cache / ("5" * 32)).symlink_to("5" * 32)
    (cache / ("6" * 32)).mkdir(mode=0o000)
    (cache / ("7" * 32)).symlink_to("/dev")
    with served(logs, cache=cache) as server:
        assert server.read()[0]["name"] == "one"
