"""The applications of a History Server in the list: told by it, downloaded when analysed."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.apps.serve.applications import identity_of
from iqcar.apps.serve.listing import Listing, Places
from iqcar.apps.serve.worker import Task
from iqcar.errors import IqcarError
from tests.support.hosted_apps import TWO, HostedApps, attempt, listed
from tests.support.log_places import APP, logs
from tests.support.web_server import send, web_server


def test_the_list_is_the_servers_and_no_log_is_asked_for() -> None:
    server = HostedApps(*TWO.apps)
    with web_server(server) as url:
        listing = Listing(Places([url]), lambda key, identity: None)
        listing.scan()
        found = listing.applications()
        assert [one.application_id for one in found[:2]] == [APP, APP]
        assert all(one.peek is not None for one in found)
        assert [one.end_ms is None for one in found] == [False, True, False]
        assert len({one.key for one in found}) == 3
    assert not [path for path in server.asked if path.endswith("/logs")]


def test_a_log_that_grew_on_the_server_is_another_state_of_the_same_application() -> None:
    states = []
    for updated in (1_000, 1_000, 2_000):
        apps = HostedApps(listed(APP, attempt(done=False, lastUpdatedEpoch=updated)))
        with web_server(apps) as url:
            (log,) = logs([url])
            states.append([state[2:] for state in identity_of(log)])
    assert states[0] == states[1] != states[2]


def test_a_hosted_log_reaches_the_process_that_analyses_it(tmp_path: Path) -> None:
    with web_server(TWO) as url:
        found = tuple(logs([url]))
    task = Task(("k",), found, {"top": 5}, str(tmp_path))
    again = Task.from_line(task.to_line()).logs
    assert [one.parts for one in again] == [one.parts for one in found]
    assert repr(again) == repr(found)  # a NaN equals nothing


def test_a_server_that_refuses_ends_the_start_with_a_sentence() -> None:
    with web_server(lambda to: send(to, status=401)) as url:
        listing = Listing(Places([f"{url}/history/{APP}"]), lambda key, identity: None)
        with pytest.raises(IqcarError, match="answers 401: it wants to know who asks"):
            listing.check()
