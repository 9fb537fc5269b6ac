"""`iqcar serve` compares two sets of applications: the JSON of `iqcar compare`, and its page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import iqcar
from iqcar.show.json.compare import compare_to_json
from tests.support.compared_runs import SUITE, suite_with, write_runs
from tests.support.served import Served, large_log, served, until

Sets = dict[str, list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    write_runs(root / "before", SUITE, 3)
    write_runs(
        root / "after", suite_with(etl_load=SUITE["etl_load"].slower(1, 1.5)), 3, first_day=20
    )
    (root / "after" / "local-1700000000001").write_bytes(b"rubbish\n" * 20)
    return root


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    cache = tmp_path_factory.mktemp("cache")
    with served(folder / "before", folder / "after", cache=cache) as server:
        server.read()
        yield server


def sets(server: Served) -> Sets:
    """Keys of the readable logs by folder."""
    rows = [one for one in server.read() if one["status"] == "complete"]
    return {
        side: sorted(one["key"] for one in rows if Path(one["path"]).parent.name == side)
        for side in ("before", "after")
    }


def ended(server: Served, chosen: Sets) -> dict[str, object]:
    def state() -> dict[str, object] | None:
        now = server.client.get("/api/comparisons", params=chosen).json()
        return now if now["state"] in ("done", "failed", "cancelled") else None

    return until(state)


def test_a_result_is_what_iqcar_compare_writes(server: Served, folder: Path) -> None:
    chosen = sets(server)
    assert server.client.get("/api/comparisons", params=chosen).json()["state"] is None
    assert server.client.get("/api/comparisons/result", params=chosen).status_code == 409
    started = server.client.post("/api/comparisons", json=chosen)
    assert started.status_code in (200, 202), started.text
    assert ended(server, chosen)["state"] == "done"
    assert server.client.post("/api/comparisons", json=chosen).status_code == 200
    answer = server.client.get("/api/comparisons/result", params=chosen)
    logs = [path for path in (folder / "after").iterdir() if path.name.startswith("app-")]
    expected = compare_to_json(iqcar.compare(folder / "before", sorted(logs)))
    assert answer.json()["changes"] == json.loads(expected)["changes"] != []
    page = server.client.get(started.json()["address"])
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "etl_load" in page.text
    # It is about no application alone: the list shows nothing of it.
    assert all(one["found"] is None for one in server.read())
    swapped = {"before": chosen["after"], "after": chosen["before"]}
    assert server.client.get("/api/comparisons", params=swapped).json()["state"] is None


@pytest.mark.long
def test_a_log_that_grows_is_told_and_compared_again(tmp_path: Path) -> None:
    logs = write_runs(write_runs(tmp_path / "logs", SUITE, 1), SUITE, 1, first_day=20)
    growing = (logs / "app-20").rename(logs / "app-20.inprogress")
    lines = growing.read_bytes().splitlines(keepends=True)
    most = len(lines) * 2 // 3
    growing.write_bytes(b"".join(lines[:most]))
    with served(logs, cache=tmp_path / "cache", rescan=0.2) as server:
        by_start = sorted(server.read(), key=lambda one: one["start_ms"])
        chosen = {"before": [by_start[0]["key"]], "after": [by_start[1]["key"]]}
        assert server.client.post("/api/comparisons", json=chosen).json()["grown"] is False
        assert ended(server, chosen)["state"] == "done"
        with growing.open("ab") as file:
            file.write(b"".join(lines[most:]))

        def now() -> dict[str, object]:
            return server.client.get("/api/comparisons", params=chosen).json()

        until(lambda: now()["grown"])
        assert now()["state"] is None
        old = server.client.get("/api/comparisons/result", params=chosen)
        assert (old.status_code, old.headers["iqcar-log-grown"]) == (200, "true")
        page = server.client.get(str(now()["address"])).text
        assert "has grown since these were compared" in page
        assert "Compare again" in page
        swapped = {"before": chosen["after"], "after": chosen["before"]}
        assert not server.client.get("/api/comparisons", params=swapped).json()["grown"]
        server.client.post("/api/comparisons", json=chosen)
        done = ended(server, chosen)
        assert (done["state"], done["grown"]) == ("done", False)
        new = server.client.get("/api/comparisons/result", params=chosen)
        assert new.headers["iqcar-log-grown"] == "false"
        assert new.json()["doubts"] != old.json()["doubts"]


@pytest.mark.slow
def test_a_comparison_is_stopped_on_demand(tmp_path: Path) -> None:
    large_log(tmp_path / "app-20240101000000-0001")
    large_log(tmp_path / "app-20240101000000-0002", 10)
    with served(tmp_path, cache=tmp_path / "cache") as server:
        first, second = (one["key"] for one in server.read())
        for chosen, stop in (
            ({"before": [first], "after": [second]}, "/api/comparisons/cancel"),
            ({"before": [second], "after": [first]}, "/compare/stop"),
        ):
            server.client.post("/api/comparisons", json=chosen)
            (process,) = until(lambda: server.workers() or None)
            if stop.startswith("/api"):
                assert server.client.post(stop, json=chosen).status_code == 202
            else:
                data = {key: side for side in chosen for key in chosen[side]}
                assert server.client.post(stop, data=data).status_code == 303
            now = ended(server, chosen)
            assert now["state"] == "cancelled"
            assert process not in server.workers()
            page = server.client.get(str(now["address"])).text
            assert "The comparison was stopped." in page
            assert "Try again" in page
        assert not list(server.cache.glob("unfinished-*"))


def test_a_form_asks_which_are_before_and_leads_to_the_page(server: Served) -> None:
    chosen = sets(server)
    every = [*chosen["before"], *chosen["after"]]
    asked = server.client.get("/compare", params={"app": every}).text
    for side in ("before", "after"):
        for key in chosen[side]:
            assert f'name="{key}" value="{side}" checked' in asked
    data = {key: side for side in chosen for key in chosen[side]}
    origin = {"Origin": server.base}
    answer = server.client.post("/compare", data=data, headers=origin)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"].startswith("/compared?before=")
    assert server.client.get(answer.headers["location"]).status_code == 200


def test_sets_that_make_no_sense_are_refused(server: Served) -> None:
    chosen = sets(server)
    before, after = chosen["before"], chosen["after"]
    unreadable = next(one["key"] for one in server.read() if one["status"] == "failed")
    for status, body in (
        (400, {"before": before}),
        (400, {"before": before, "after": []}),
        (400, {"before": before, "after": before[:1]}),
        (400, {"before": before, "after": ["f" * 24] * 33}),
        (404, {"before": before, "after": ["f" * 24]}),
    ):
        assert server.client.post("/api/comparisons", json=body).status_code == status, body
    unread = {"before": after, "after": [unreadable]}
    answer = server.client.post("/api/comparisons", json=unread)
    if answer.status_code == 202:
        assert ended(server, unread)["state"] == "failed"
    else:
        assert answer.status_code == 400
