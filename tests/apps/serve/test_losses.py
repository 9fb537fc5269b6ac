"""What the queries of applications lost, in short: for the list, and for metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

import iqcar
from iqcar.apps.serve.applications import Application, SortBy, Wanted, select
from iqcar.apps.serve.cache import (
    LABEL_CHARACTERS,
    OTHERS,
    Cache,
    Label,
    Summary,
    application_losses,
    bounded,
    losses_of,
    summarize,
    write_entry,
)
from iqcar.enums import BlameKind
from iqcar.model.queries.identify import identify
from iqcar.pipeline import diagnose
from iqcar.pipeline import read as read_logs
from tests.support.contended_log import contended_log
from tests.support.served import served
from tests.support.shared_cluster_logs import read, whole_cluster_held

LABELS = st.tuples(
    st.just("app"),
    st.integers(0, 30).map(str),
    st.sampled_from([BlameKind.QUERY.value, BlameKind.OWN.value]),
    st.sampled_from(["etl", "(itself)"]),
    st.sampled_from(["cpu", "io"]),
)
SUMS = st.dictionaries(LABELS, st.floats(0, 1e6, allow_subnormal=False), max_size=60)


def by_kind_and_resource(sums: dict[Label, float]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for (_, _, kind, _, resource), lost in sums.items():
        found[kind, resource] = found.get((kind, resource), 0.0) + lost
    return found


@given(SUMS, st.integers(0, 20))
def test_bounding_keeps_totals_and_the_largest(sums: dict[Label, float], most: int) -> None:
    kept = bounded(sums, most)
    assert by_kind_and_resource(kept) == pytest.approx(by_kind_and_resource(sums))
    named = {label for label in kept if label[1] != OTHERS}
    assert len(named) == min(len(sums), most)
    left_out = [lost for label, lost in sums.items() if label not in named]
    assert max(left_out, default=0.0) <= min((kept[label] for label in named), default=1e9)
    assert bounded(kept, most) == kept


def test_labels_are_families_of_names_and_short(tmp_path: Path) -> None:
    log = contended_log()
    for before, after in (
        (b'"contended"', b'"nightly 2024-05-17"'),
        (b'"report"', b'"report 2024-05-17"'),
        (b'"etl"', b'"' + b"e" * 5000 + b'"'),
    ):
        log.lines = [line.replace(before, after) for line in log.lines]
    diagnosis = iqcar.diagnose(iqcar.read(log.write(tmp_path / "app-1")))
    found = losses_of(diagnosis)
    assert sum(found.values()) == pytest.approx(diagnosis.lost_ms().sum())
    (application, victim, kind, source, _), *_ = found
    assert "2024" not in application + victim
    assert (kind, source[:3]) == ("query", "eee")
    assert len(source) <= LABEL_CHARACTERS


KEYS = ("a" * 24, "b" * 24)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    tables = identify(read(whole_cluster_held(), tmp_path_factory.mktemp("logs")))
    return summarize(diagnose(tables), KEYS, "{}", "")


def test_losses_to_executors_of_other_applications_are_an_applications(together: Summary) -> None:
    one, other = sorted(together.of_applications, key=lambda loss: loss.lost_ms)

    assert {one.key, other.key} == set(KEYS)
    assert one.lost_ms + other.lost_ms == pytest.approx(together.lost_ms)
    assert 0 < other.executors_ms <= other.lost_ms
    assert 0 < other.other_applications_ms <= other.lost_ms
    assert other.most_to_ms == pytest.approx(other.other_applications_ms)


def test_an_application_loses_to_its_own_queries_too(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "app-1")
    (loss,) = application_losses(diagnose(read_logs(tmp_path)), KEYS[:1])

    assert (loss.most_to, loss.together, loss.other_applications_ms) == ("etl", 1, 0.0)
    assert loss.most_to_ms == pytest.approx(9000, rel=0.01)


def test_the_result_about_most_applications_tells(tmp_path: Path, together: Summary) -> None:
    cache = Cache(tmp_path / "cache")

    def keep(summary: Summary, digest: str) -> None:
        folder = cache.begin()
        write_entry(folder, [b"{}"], b"", summary)
        cache.finish(folder, digest * 32)

    alone = with_fields(together.of_applications[0], together=1, lost_ms=1.0)
    keep(with_fields(together, keys=KEYS[:1], of_applications=(alone,)), "1")
    assert cache.loss(alone.key, "{}") == alone
    keep(together, "2")
    assert cache.loss(alone.key, "{}") == together.of_applications[0]
    keep(with_fields(together, keys=KEYS[:1], of_applications=(alone,)), "3")
    assert cache.loss(alone.key, "{}") == together.of_applications[0]
    assert Cache(tmp_path / "cache").loss(alone.key, "{}") == together.of_applications[0]
    assert cache.loss(alone.key, "other settings") is None


def test_the_list_ranks_by_what_was_lost_beside_others(together: Summary) -> None:
    rows = [
        replace(Application(loss.key, loss.key, None), loss=loss)
        for loss in together.of_applications
    ]
    most = max(rows, key=lambda one: one.lost_ms or 0)

    assert select(rows, Wanted(sort=SortBy.LOST)).applications[0] is most
    assert select(rows, Wanted(sort=SortBy.MOST_TO)).applications[0] is most
    assert most in select(rows, Wanted(q=most.loss.most_to)).applications


@pytest.mark.slow
def test_the_served_list_says_whom_an_application_lost_most_to(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "app-20240101000000-0001")
    with served(tmp_path, cache=tmp_path / "cache", options=("--by", "pool")) as server:
        (row,) = server.read()
        assert row["lost"] is None
        server.analyse(row["key"])
        (row,) = server.read()
        assert row["lost"]["most_to"] == "etl"
        page = server.client.get("/?sort=most_to_ms").text
        assert '<td class="most_to_ms"><bdi>etl</bdi>' in page
        report = server.client.get(f"/api/applications/{row['key']}").json()
        assert report["settings"]["by"] == "pool"
        assert report["lost_by_owner"]
