"""What `iqcar serve` answers to Prometheus, and what it analyses without being asked."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from iqcar.apps.serve.metrics import GAUGES
from iqcar.version import __version__
from tests.apps.serve.test_serve_guard import TOKEN
from tests.conftest import REPO
from tests.support.contended_log import contended_log
from tests.support.prometheus import prometheus
from tests.support.served import Served, large_log, served, until

pytestmark = pytest.mark.slow
Sample = tuple[str, frozenset[tuple[str, str]]]
PAGE = (REPO / "docs" / "metrics.md").read_text(encoding="utf-8")


def scrape(server: Served) -> dict[Sample, float]:
    """Every sample by its name and labels, checked against the format."""
    answer = server.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples: dict[Sample, float] = {}
    for family in parse(answer.text):
        assert family.type == "gauge"
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


def label(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for number in (1, 2):
        contended_log(f"app-{number}", start=1000 * number).write(folder / f"app-{number}")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that has analysed both applications, one of them also together with the other."""
    cache = tmp_path_factory.mktemp("cache")
    with served(folder, cache=cache, options=("--token", TOKEN)) as server:
        server.client.headers["Authorization"] = f"Bearer {TOKEN}"
        keys = [one["key"] for one in server.read()]
        assert of(scrape(server), "iqcar_lost_seconds") == 0
        for key in keys:
            assert server.analyse(key)["state"] == "done"
        assert server.analyse(*keys)["state"] == "done"
        yield server


def test_who_lost_how_much_to_whom_and_for_what(server: Served) -> None:
    samples = scrape(server)
    lost = label(
        application="contended", victim="report", kind="query", source="etl", resource="slots"
    )
    assert samples["iqcar_lost_seconds", lost] == pytest.approx(18)
    assert of(samples, "iqcar_lost_seconds") == pytest.approx(18)
    assert samples["iqcar_query_duration_seconds", label()] == pytest.approx(40)


def test_the_server_tells_how_it_stands(server: Served) -> None:
    samples = scrape(server)
    assert samples["iqcar_build_info", label(version=__version__)] == 1
    assert samples["iqcar_applications", label(status="complete")] == 2
    assert samples["iqcar_analysed_applications", label()] == 2
    assert samples["iqcar_analyses_under_way", label(state="running")] == 0
    kept = sum(file.stat().st_size for file in server.cache.rglob("*") if file.is_file())
    assert samples["iqcar_cache_bytes", label()] == kept


def test_the_page_of_metrics_lists_what_there_is(server: Served) -> None:
    listed = re.findall(r"^\| `(iqcar_\w+)` \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    declared = [(one.name, ", ".join(f"`{n}`" for n in one.labels), one.help) for one in GAUGES]
    assert listed == declared
    assert {name for name, _ in scrape(server)} == {one.name for one in GAUGES}


def test_the_metrics_are_guarded_like_everything_else(server: Served) -> None:
    for wrong, status in (
        ({"Authorization": "", "Host": ""}, 421),
        ({"Authorization": ""}, 401),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"Host": "elsewhere.example"}, 421),
    ):
        assert server.client.get("/metrics", headers=wrong).status_code == status
    assert server.client.post("/metrics").status_code == 405


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
        samples = scrape(server)
        assert of(samples, "iqcar_lost_seconds") == pytest.approx(9)
        (has,) = (dict(has) for name, has in samples if name == "iqcar_lost_seconds")
        assert has["source"].startswith('a"} 1 # EOF\\')
        assert "hunter22" not in server.client.get("/metrics").text


@pytest.mark.long
def test_a_result_that_is_gone_counts_no_more(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "logs" / "app-1")
    with served(tmp_path / "logs", cache=tmp_path / "cache", rescan=0.1) as server:
        server.analyse(server.key("contended"))
        assert of(scrape(server), "iqcar_lost_seconds") > 0
        log.unlink()
        until(lambda: not server.applications())
        assert of(scrape(server), "iqcar_lost_seconds") == 0


def test_a_real_prometheus_scrapes_it_and_answers_every_query(
    server: Served, tmp_path: Path
) -> None:
    page = (REPO / "docs" / "serve.md").read_text(encoding="utf-8")
    written = re.search(r"    (scrape_configs:\n(?:    .*\n)+)", page)
    assert written
    (tmp_path / "token").write_text(TOKEN)
    config = re.sub(r"^    ", "", written[1], flags=re.MULTILINE)
    config = config.replace("/etc/prometheus/iqcar-token", str(tmp_path / "token"))
    config = config.replace("localhost:18480", server.base.removeprefix("http://"))
    with prometheus(tmp_path, config) as ask:
        until(lambda: ask("iqcar_analysed_applications == 2"))
        queries = re.findall(r"^\| .* \| `(.+)` \|$", PAGE, re.MULTILINE)
        answers = {query: ask(query) for query in queries if "iqcar_spark" not in query}
        assert len(answers) == 5 and all(answers.values())
        (share,) = answers[queries[0]]
        assert float(share["value"][1]) == pytest.approx(18 / 40)


@pytest.mark.long
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
        until(lambda: scrape(server)["iqcar_analysed_applications", label()] == 1)
        contended_log("lately-2", start=now - 30_000).write(folder / "lately-2")
        until(lambda: scrape(server)["iqcar_analysed_applications", label()] == 2)
        found = {one["application_id"] for one in server.read() if one["found"]}
        assert found == {"lately-1", "lately-2"}


@pytest.mark.long
def test_small_logs_are_analysed_without_being_asked(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    contended_log("small-1").write(folder / "small-1")
    contended_log("small-2").write(folder / "small-2")
    large_log(folder / "large", tasks=2_000)
    options = ("--analyse-small", "0.2")
    with served(folder, cache=tmp_path / "cache", options=options, rescan=0.2) as server:
        until(lambda: scrape(server)["iqcar_analysed_applications", label()] == 2)
        found = {Path(one["path"]).name for one in server.read() if one["found"]}
        assert found == {"small-1", "small-2"}


def test_without_the_options_nothing_is_analysed(folder: Path, tmp_path: Path) -> None:
    with served(folder, cache=tmp_path / "cache", rescan=0.1, housekeeping=0.1) as server:
        server.read()
        scrapes = [scrape(server) for _ in range(20)]
        assert all(of(one, "iqcar_analyses_under_way") == 0 for one in scrapes)
        assert of(scrapes[-1], "iqcar_analysed_applications") == 0
