"""The Grafana dashboard loads, and its queries name what `/metrics` and a real Prometheus have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from iqcar.apps.serve import metric_families
from tests.apps.serve.test_serve_guard import TOKEN
from tests.conftest import REPO
from tests.support.contended_log import contended_log
from tests.support.prometheus import prometheus
from tests.support.served import Served, served, until


def plugin_families() -> dict[str, metric_families.Family]:
    """Metrics of the plugin on a driver that docs/metrics.md lists, as Prometheus names them."""
    page = (REPO / "docs" / "metrics.md").read_text(encoding="utf-8")
    found = {}
    for name in re.findall(r"`((?:application|driver)\.[\w.]+)`", page):
        plain = "iqcar_spark_" + re.sub(r"\.(CLASS|PLACE)$", "", name).replace(".", "_")
        labels = {"CLASS": ("wait",), "PLACE": ("place",)}.get(name.rpartition(".")[2], ())
        found[plain] = metric_families.Family(
            metric_families.GAUGE, plain, "", ("application", *labels)
        )
    return found


FILE = REPO / "analyzer" / "iqcar" / "apps" / "serve" / "static" / "grafana.json"
OWN = {family.sample: family for family in metric_families.FAMILIES}
FAMILIES = {**OWN, **plugin_families()}
FROM_PROMETHEUS = {"instance"}
"""Labels that Prometheus adds to every sample."""


def dashboard() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def queries() -> list[str]:
    """The query of every target, its variable set as Grafana sets it to All."""
    return [
        target["expr"].replace("$instance", ".*")
        for panel in dashboard()["panels"]
        for target in panel["targets"]
    ]


def selectors(expression: object) -> Iterator[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(node: object) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        return True

    promql_parser.walk(expression, visit)
    yield from found


def missing(given: object, loaded: object, path: str = "") -> Iterator[str]:
    """Paths of what Grafana's own types do not take from a file, or take as something else."""
    if isinstance(given, dict):
        for name, value in given.items():
            if not isinstance(loaded, dict) or name not in loaded:
                yield f"{path}/{name}"
            else:
                yield from missing(value, loaded[name], f"{path}/{name}")
    elif isinstance(given, list) and isinstance(loaded, list) and len(given) == len(loaded):
        for number, (one, other) in enumerate(zip(given, loaded, strict=True)):
            yield from missing(one, other, f"{path}/{number}")
    elif given != loaded:
        yield path


def load(given: dict[str, Any]) -> dict[str, Any]:
    """Load a dashboard into Grafana's types, and write it again."""
    plugins.register_default_plugins()
    return json.loads(encoder.JSONEncoder().encode(Dashboard.from_json(given)))


def test_grafana_takes_every_field_of_the_dashboard() -> None:
    assert list(missing(dashboard(), load(dashboard()))) == []


def test_a_field_that_grafana_does_not_know_is_found() -> None:
    wrong = dashboard()
    wrong["panels"][0]["options"]["colourMode"] = "value"
    wrong["panels"][6]["fieldConfig"]["defaults"]["units"] = "s"
    assert list(missing(wrong, load(wrong))) == [
        "/panels/0/options/colourMode",
        "/panels/6/fieldConfig/defaults/units",
    ]


def test_panels_fill_rows_without_overlap() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard()["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


@pytest.mark.parametrize("query", queries())
def test_a_query_is_promql_about_metrics_and_labels_there_are(query: str) -> None:
    expression = promql_parser.parse(query)
    used = list(selectors(expression))
    assert used
    for one in used:
        known = {*FAMILIES[one.name].labels, *FROM_PROMETHEUS}
        assert {matcher.name for matcher in one.matchers.matchers} <= known
    grouped = {name for names in re.findall(r"by \(([^)]*)\)", query) for name in names.split(", ")}
    assert grouped <= {
        *FROM_PROMETHEUS,
        *(label for one in used for label in FAMILIES[one.name].labels),
    }


def test_names_in_legends_and_variables_are_there() -> None:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            used = [FAMILIES[one.name] for one in selectors(promql_parser.parse(target["expr"]))]
            labels = {label for family in used for label in family.labels}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
    (variable,) = (one for one in dashboard()["templating"]["list"] if one["type"] == "query")
    asked = re.fullmatch(r"label_values\((\w+), instance\)", variable["query"]["query"])
    assert asked
    assert asked[1] in FAMILIES


def scrape_config(server: Served, folder: Path) -> str:
    """The configuration of docs/serve.md for a server."""
    page = (REPO / "docs" / "serve.md").read_text(encoding="utf-8")
    written = re.search(r"    (scrape_configs:\n(?:    .*\n)+)", page)
    assert written
    (folder / "token").write_text(TOKEN)
    config = re.sub(r"^    ", "", written[1], flags=re.MULTILINE)
    config = config.replace("/etc/prometheus/iqcar-token", str(folder / "token"))
    return config.replace("localhost:18480", server.base.removeprefix("http://"))


@pytest.mark.slow
def test_a_real_prometheus_scrapes_it_and_answers_every_query(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    contended_log().write(logs / "app-1")
    with served(logs, cache=tmp_path / "cache", options=("--token", TOKEN)) as server:
        server.client.headers["Authorization"] = f"Bearer {TOKEN}"
        server.analyse(server.key("contended"))
        with prometheus(tmp_path, scrape_config(server, tmp_path)) as ask:
            until(lambda: ask("up == 1"))
            (slots,) = until(lambda: ask('iqcar_lost_seconds_total{resource="slots",kind="query"}'))
            assert float(slots["value"][1]) == pytest.approx(9)
            names = {one["metric"]["__name__"] for one in ask('{__name__=~"iqcar_.*"}')}
            absent = {
                family.sample for family in metric_families.FAMILIES if "_live_" in family.name
            }
            absent -= {metric_families.FOLLOWERS.sample, metric_families.FOLLOWED.sample}
            # Nobody looks at a running application; Prometheus keeps since when counters count.
            assert {name for name in names if not name.endswith("_created")} == (set(OWN) - absent)
            for query in queries():
                ask(query)
            told = ask.client.get("/api/v1/metadata").json()["data"]
            assert told["iqcar_lost_seconds"] == [
                {"type": "counter", "help": metric_families.LOST.help, "unit": "seconds"}
            ]
            share = ask(next(query for query in queries() if 'kind="query"' in query))
            assert float(share[0]["value"][1]) == pytest.approx(9 / 20)
