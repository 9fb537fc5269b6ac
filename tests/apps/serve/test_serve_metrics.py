"""What `iqcar serve` answers to Prometheus: which metrics, in which format, with which sums."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from iqcar.apps.serve.metric_families import FAMILIES
from iqcar.version import __version__
from tests.apps.serve.test_grafana_dashboard import dashboard
from tests.apps.serve.test_serve_guard import TOKEN
from tests.live.test_window import queue
from tests.support.contended_log import contended_log
from tests.support.served import Served, large_log, served, until

pytestmark = pytest.mark.slow
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Sample = tuple[str, frozenset[tuple[str, str]]]


def scrape(server: Served, accept: str = OPENMETRICS) -> dict[Sample, float]:
    """Every sample by its name and labels, checked against the format."""
    answer = server.client.get("/metrics", headers={"Accept": accept})
    assert answer.status_code == 200
    parse = openmetrics if accept == OPENMETRICS else plain_text
    samples: dict[Sample, float] = {}
    for family in parse(answer.text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
    return samples


def of(samples: dict[Sample, float], name: str, **labels: str) -> float:
    """The sum of the samples of a name that have these labels."""
    return sum(
        value
        for (called, has), value in samples.items()
        if called == name and labels.items() <= has
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for number in (1, 2):
        contended_log(f"app-{number}", start=1000 * number).write(folder / f"app-{number}")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that has analysed both applications, one of them also together with the other."""
    with served(folder, cache=tmp_path_factory.mktemp("cache")) as server:
        keys = [one["key"] for one in server.read()]
        before = scrape(server)
        assert of(before, "iqcar_lost_seconds_total") == 0
        assert ("iqcar_lost_seconds_total", label(resource="io", kind="own")) in before
        for key in keys:
            assert server.analyse(key)["state"] == "done"
        assert server.analyse(*keys)["state"] == "done"
        yield server


def label(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


def test_lost_time_is_told_by_resource_source_and_victim(server: Served) -> None:
    samples = scrape(server)
    assert samples["iqcar_kept_lost_seconds", label(resource="io", kind="own")] == 0
    for prefix, suffix in (("iqcar_", "_total"), ("iqcar_kept_", "")):
        lost, source, victim = (
            f"{prefix}{what}lost_seconds{suffix}" for what in ("", "source_", "victim_")
        )
        assert of(samples, lost, resource="slots", kind="query") == pytest.approx(18)
        assert samples[source, label(kind="query", application="contended", source="etl")] == (
            pytest.approx(18)
        )
        assert samples[victim, label(application="contended", victim="report")] == pytest.approx(18)
        for name in (lost, source, victim):
            assert of(samples, name) == pytest.approx(18)
    assert of(samples, "iqcar_query_duration_seconds_total") == pytest.approx(40)
    assert samples["iqcar_queries_total", label()] == 4


def test_every_declared_metric_is_there_with_its_help_and_unit(server: Served) -> None:
    text = server.client.get("/metrics", headers={"Accept": OPENMETRICS}).text
    found = {family.name: family for family in openmetrics(text)}
    assert set(found) == {family.name for family in FAMILIES}
    for family in FAMILIES:
        assert (found[family.name].type, found[family.name].unit) == (family.kind, family.unit)
        assert found[family.name].documentation == family.help
    assert text.endswith("# EOF\n")


def test_the_server_tells_how_it_stands(server: Served) -> None:
    samples = scrape(server)
    assert samples["iqcar_build_info", label(version=__version__)] == 1
    assert samples["iqcar_applications", label(status="complete")] == 2
    assert samples["iqcar_ended_applications_total", label()] == 2
    assert samples["iqcar_kept_applications", label()] == 2
    assert samples["iqcar_analyses_ended_total", label(state="done")] == 3
    assert samples["iqcar_analyses_under_way", label(state="running")] == 0
    assert samples["iqcar_cache_results", label()] == 3
    kept = sum(file.stat().st_size for file in server.cache.rglob("*") if file.is_file())
    assert samples["iqcar_cache_bytes", label()] == kept


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/plain; version=0.0.4", "text/plain; version=0.0.4"),
        (OPENMETRICS, OPENMETRICS),
        (f"{OPENMETRICS};q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1", OPENMETRICS),
        ("application/openmetrics-text; version=none", "text/plain; version=0.0.4"),
        ("text/html", "text/plain; version=0.0.4"),
    ],
)
def test_the_client_chooses_the_format(server: Served, accept: str, content_type: str) -> None:
    answer = server.client.get("/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith(content_type)
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    is_openmetrics = content_type == OPENMETRICS
    assert answer.text.endswith("# EOF\n") == is_openmetrics
    # Counters tell since when they count where the format has a place for it.
    assert ("iqcar_queries_created" in answer.text) == is_openmetrics


def test_the_dashboard_is_served(server: Served) -> None:
    answer = server.client.get("/static/grafana.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == dashboard()


def test_plain_text_tells_the_same(server: Served) -> None:
    created = {key: value for key, value in scrape(server).items() if key[0].endswith("_created")}
    assert created
    same = {key: value for key, value in scrape(server).items() if key not in created}
    assert scrape(server, "text/plain; version=0.0.4") == same
    raw = httpx.get(f"{server.base}/metrics", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in raw.headers
    assert raw.text.startswith("# HELP")


def test_the_metrics_are_guarded_like_everything_else(folder: Path, tmp_path: Path) -> None:
    with served(folder, cache=tmp_path / "cache", options=("--token", TOKEN)) as server:
        assert server.client.get("/metrics").status_code == 401
        wrong = {"Authorization": f"Bearer {TOKEN[:-1]}"}
        assert server.client.get("/metrics", headers=wrong).status_code == 401
        elsewhere = {"Authorization": f"Bearer {TOKEN}", "Host": "elsewhere.example"}
        assert server.client.get("/metrics", headers=elsewhere).status_code == 421
        assert (
            server.client.post("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code
            == 405
        )
        server.client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert scrape(server)["iqcar_build_info", label(version=__version__)] == 1


def test_names_from_a_log_cannot_break_the_format(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    log = contended_log()
    evil = json.dumps('a"} 1\n# EOF\\\u2028\ud800 é' + "x" * 500).encode()
    log.lines = [
        line.replace(b'"etl"', evil).replace(b'"contended"', b'"password=hunter22 {}"')
        for line in log.lines
    ]
    log.write(folder / "app-1")
    with served(folder, cache=tmp_path / "cache") as server:
        (only,) = server.read()
        assert server.analyse(only["key"])["state"] == "done"
        for accept in (OPENMETRICS, "text/plain; version=0.0.4"):
            samples = scrape(server, accept)
            assert of(samples, "iqcar_source_lost_seconds_total") == pytest.approx(9)
            (source,) = (
                dict(has)["source"]
                for name, has in samples
                if name == "iqcar_kept_source_lost_seconds"
            )
            assert source.startswith('a"} 1 # EOF\\')
        assert "hunter22" not in server.client.get("/metrics").text


def test_the_last_minute_of_an_application_is_told_while_somebody_looks(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    queue().write(folder / "local-1.inprogress")
    with served(folder, cache=tmp_path / "cache") as server:
        address = f"{server.base}/api/live/{server.key('contended')}"
        with httpx.stream("GET", address, timeout=60) as looking:
            lines = (line for line in looking.iter_lines() if line.startswith("data: "))
            window = json.loads(next(lines).removeprefix("data: "))
            samples = scrape(server)
            assert samples["iqcar_live_followers", label()] == 1
            assert samples["iqcar_live_applications", label()] == 1
            told = of(samples, "iqcar_live_lost_seconds", application="contended")
            assert told == pytest.approx(window["lost_ms"] / 1e3) != 0
            assert samples["iqcar_live_tasks_waiting", label(application="contended")] == 2
            assert of(samples, "iqcar_live_lost_to_others_seconds") == pytest.approx(
                window["lost_to_others_ms"] / 1e3
            )
        until(lambda: scrape(server)["iqcar_live_followers", label()] == 0)
        assert of(scrape(server), "iqcar_live_lost_seconds") == 0


def test_what_ended_lately_is_analysed_without_being_asked(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    now = time.time() * 1e3
    contended_log("lately-1", start=now - 60_000).write(folder / "lately-1")
    contended_log("long-ago", start=now - 7_200_000).write(folder / "long-ago")
    running = contended_log("running", start=now - 60_000)
    running.lines = running.lines[:-1]
    running.write(folder / "running.inprogress")
    options = ("--analyse-new", "1")
    with served(
        folder,
        cache=tmp_path / "cache",
        options=options,
        rescan=0.2,
        housekeeping=0.2,
        abandoned=0.01,
    ) as server:
        until(lambda: scrape(server)["iqcar_ended_applications_total", label()] == 1)
        contended_log("lately-2", start=now - 30_000).write(folder / "lately-2")
        until(lambda: scrape(server)["iqcar_ended_applications_total", label()] == 2)
        found = {one["application_id"] for one in server.read() if one["found"]}
        assert found == {"lately-1", "lately-2"}
        assert scrape(server)["iqcar_analyses_ended_total", label(state="done")] == 2


def test_small_logs_are_analysed_without_being_asked(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    contended_log("small-1").write(folder / "small-1")
    contended_log("small-2").write(folder / "small-2")
    large_log(folder / "large", tasks=2_000)
    options = ("--analyse-small", "0.2")
    with served(folder, cache=tmp_path / "cache", options=options, rescan=0.2) as server:
        until(lambda: scrape(server)["iqcar_analyses_ended_total", label(state="done")] == 2)
        found = {Path(one["path"]).name for one in server.read() if one["found"]}
        assert found == {"small-1", "small-2"}


def test_without_the_options_nothing_is_analysed(folder: Path, tmp_path: Path) -> None:
    with served(folder, cache=tmp_path / "cache", rescan=0.1, housekeeping=0.1) as server:
        server.read()
        scrapes = [scrape(server) for _ in range(20)]
        assert all(of(one, "iqcar_analyses_under_way") == 0 for one in scrapes)
        assert of(scrapes[-1], "iqcar_analyses_ended_total") == 0


def test_an_application_is_not_counted_again_after_its_result_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    log = contended_log().write(folder / "app-1")
    with served(folder, cache=tmp_path / "cache", rescan=0.1) as server:
        key = server.key("contended")
        server.analyse(key)
        first = scrape(server)
        log.write_bytes(contended_log().bytes() + b"\n")  # another state of the log
        until(lambda: server.applications()[0]["found"]["grown"])
        server.analyse(key)
        again = scrape(server)
        assert of(again, "iqcar_analyses_ended_total") == 2
        assert of(again, "iqcar_lost_seconds_total") == of(first, "iqcar_lost_seconds_total") > 0
        log.unlink()
        until(lambda: not server.applications())
        gone = scrape(server)
        assert of(gone, "iqcar_kept_lost_seconds") == 0
        assert of(gone, "iqcar_lost_seconds_total") == of(first, "iqcar_lost_seconds_total")
