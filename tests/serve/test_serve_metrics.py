"""What `iqcar serve` answers to Prometheus: which metrics, in which format, with which sums."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from iqcar.serve.metric_families import FAMILIES
from iqcar.version import __version__
from tests.support.contended_log import contended_log
from tests.support.served import Served, served

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


def test_plain_text_tells_the_same(server: Served) -> None:
    created = {key: value for key, value in scrape(server).items() if key[0].endswith("_created")}
    assert created
    same = {key: value for key, value in scrape(server).items() if key not in created}
    assert scrape(server, "text/plain; version=0.0.4") == same
    raw = httpx.get(f"{server.base}/metrics", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in raw.headers
    assert raw.text.startswith("# HELP")
