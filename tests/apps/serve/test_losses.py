"""Sums of lost time for metrics: bounded in labels, complete in total, and some that only grow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

import iqcar
from iqcar.apps.serve.applications import Application
from iqcar.apps.serve.cache import Cache, write_entry
from iqcar.apps.serve.losses import (
    KEPT_S,
    LABEL_CHARACTERS,
    MOST_NAMED,
    SOURCES_APART,
    VICTIMS_APART,
    Grown,
    Losses,
    LossTotals,
    bounded,
    losses_of,
    sum_losses,
)
from iqcar.apps.serve.result_summary import Summary, application_losses, summarize
from iqcar.apps.serve.selection import SortBy, Wanted, select
from iqcar.enums import BlameKind
from iqcar.model.queries.identify import identify
from iqcar.pipeline import diagnose
from iqcar.pipeline import read as read_logs
from tests.support.contended_log import contended_log
from tests.support.served import served
from tests.support.shared_cluster_logs import read, whole_cluster_held

VICTIMS = st.lists(
    st.tuples(
        st.tuples(st.just("app"), st.integers(0, 3 * MOST_NAMED).map(str)),
        st.floats(0, 1e6, allow_subnormal=False),
    ),
    max_size=4 * MOST_NAMED,
)


def lost(ended: bool = True, **by_victim: float) -> Losses:
    parts = tuple((("app", name), ms) for name, ms in by_victim.items())
    whole = sum(by_victim.values())
    return Losses(ended, 1, 2000.0, ((("cpu", "own"), whole),), ((SOURCES_APART[0], whole),), parts)


@given(VICTIMS)
def test_bounding_keeps_the_total_and_the_largest(
    parts: list[tuple[tuple[str, ...], float]],
) -> None:
    sums = dict(parts)
    kept = bounded(sums, VICTIMS_APART)
    assert sum(kept.values()) == pytest.approx(sum(sums.values()))
    named = {label for label in kept if label not in VICTIMS_APART}
    assert len(named) == min(len(sums), MOST_NAMED)
    left_out = [ms for label, ms in sums.items() if label not in named]
    assert max(left_out, default=0.0) <= min((kept[label] for label in named), default=0.0)


@given(VICTIMS)
def test_sums_that_grow_never_shrink_and_are_complete(
    parts: list[tuple[tuple[str, ...], float]],
) -> None:
    grown = Grown(VICTIMS_APART)
    before: dict[tuple[str, ...], float] = {}
    for label, seconds in parts:
        grown.add(label, seconds)
        assert all(grown.seconds[one] >= was for one, was in before.items())
        before = dict(grown.seconds)
    assert sum(grown.seconds.values()) == pytest.approx(sum(seconds for _, seconds in parts))
    assert len(grown.seconds) <= MOST_NAMED + len(VICTIMS_APART)
    assert grown.since.keys() == grown.seconds.keys()


def test_time_that_was_lost_to_no_query_is_never_among_the_others() -> None:
    itself = (BlameKind.OWN.value, "", "(itself)")
    many = {("query", "app", str(n)): 10.0 + n for n in range(3 * MOST_NAMED)}
    kept = bounded(many | {itself: 1.0}, SOURCES_APART)
    assert kept[itself] == 1.0
    grown = Grown(SOURCES_APART)
    for label, seconds in (many | {itself: 1.0}).items():
        grown.add(label, seconds)
    assert grown.seconds[itself] == 1.0


def test_an_application_is_added_once_and_after_its_end() -> None:
    totals = LossTotals()
    totals.add("a", lost(ended=False, q=9000.0))
    assert totals.applications == 0
    totals.add("a", lost(q=5000.0))
    totals.add("a", lost(q=7000.0))
    totals.add("b", lost(q=1000.0))
    assert (totals.applications, totals.queries, totals.query_seconds) == (2, 2, 4.0)
    assert totals.by_victim.seconds["app", "q"] == 6.0
    assert totals.by_resource.seconds["cpu", "own"] == 6.0


def test_results_are_summed_by_label() -> None:
    both = sum_losses([lost(q=1000.0, r=1.0), lost(q=500.0)])
    assert dict(both.by_victim) == {("app", "q"): 1500.0, ("app", "r"): 1.0}
    assert (both.queries, both.query_ms) == (2, 4000.0)


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
    assert found.ended
    (((application, victim), victim_ms),) = found.by_victim
    assert "2024" not in application + victim
    assert victim_ms == pytest.approx(diagnosis.lost_ms().sum())
    ((kind, _, source), _), *_ = found.by_source
    assert (kind, source[:3]) == ("query", "eee")
    assert len(source) <= LABEL_CHARACTERS


def test_an_application_that_runs_has_not_ended(tmp_path: Path) -> None:
    log = contended_log()
    log.lines = log.lines[:-1]
    assert not losses_of(iqcar.diagnose(iqcar.read(log.write(tmp_path / "app-1")))).ended


def test_each_of_the_three_sums_is_what_all_queries_lost(tmp_path: Path) -> None:
    paths = [
        contended_log(f"app-{n}", start=1000 + 3000 * n).write(tmp_path / f"app-{n}")
        for n in range(3)
    ]
    diagnosis = iqcar.diagnose(iqcar.read(paths))
    found = losses_of(diagnosis)
    for parts in (found.by_resource, found.by_source, found.by_victim):
        assert sum(ms for _, ms in parts) == pytest.approx(diagnosis.lost_ms().sum())


def test_new_names_take_the_places_of_small_and_of_quiet_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each sum only grows while it is there, and so does that of all together."""
    now = [0.0]
    monkeypatch.setattr("iqcar.apps.serve.losses.time.monotonic", lambda: now[0])
    totals = Grown(SOURCES_APART)
    others = SOURCES_APART[-1]
    labels = [("query", "", f"query {n}") for n in range(MOST_NAMED + 3)]
    for n, label in enumerate(labels[:MOST_NAMED]):
        totals.add(label, 10.0 + n)
    small, quiet, new = labels[MOST_NAMED:]
    totals.add(small, 1.0)  # smaller than all
    assert small not in totals.seconds and totals.seconds[others] == 1.0
    totals.add(new, 20.0)
    assert totals.seconds[new] == 20.0
    assert labels[0] not in totals.seconds and totals.seconds[others] == 11.0
    now[0] = KEPT_S + 1
    for label in labels[2:MOST_NAMED]:
        totals.add(label, 0.5)
    totals.add(quiet, 0.25)  # however small, where another one has been quiet for long
    assert totals.seconds[quiet] == 0.25 and len(totals.seconds) == len(SOURCES_APART) + MOST_NAMED
    assert sum(totals.seconds.values()) == pytest.approx(
        sum(10.0 + n for n in range(MOST_NAMED)) + 21.25 + 0.5 * (MOST_NAMED - 2)
    )
    assert totals.since.keys() == totals.seconds.keys()


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
