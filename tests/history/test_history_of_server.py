"""A store takes the applications of a History Server, each once, those that run again."""

from __future__ import annotations

from pathlib import Path

from iqcar.history import add
from tests.support.contended_log import contended_log
from tests.support.hosted_apps import HostedApps, attempt, listed, zip_of
from tests.support.web_server import web_server

ENDED, RUNS = "app-20260101000000-0001", "app-20260101000000-0002"


def test_applications_are_added_once_and_those_that_run_again(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "log").read_text()
    (old,) = {part.partition('"')[0] for part in log.split('"App ID":"')[1:]}
    zips = {
        f"/{app}/logs": zip_of(**{app: log.replace(f'"{old}"', f'"{app}"').encode()})
        for app in (ENDED, RUNS)
    }
    server = HostedApps(listed(ENDED, attempt()), listed(RUNS, attempt(done=False)), zips=zips)
    store = str(tmp_path / "store")
    with web_server(server) as url:
        first = add(store, [url], processes=1)
        assert (first.added, first.known, first.failed) == (2, 0, [])
        server.asked.clear()
        again = add(store, [url], processes=1)
        assert again.known >= 1
        assert f"/api/v1/applications/{ENDED}/logs" not in server.asked
        one = add(store, [f"{url}/history/{ENDED}"], processes=1)
        assert (one.added, one.known) == (0, 1)
