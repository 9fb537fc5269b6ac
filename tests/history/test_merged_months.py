"""Merging a store's files changes no answer, whatever is added, stopped or asked meanwhile."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.history import add, changes, store_views, stored_files, top, trend, who
from iqcar.history.store_views import ABANDONED_S, KEPT_S, merge_months, replaced_parts, view_of
from iqcar.history.stored_files import APPLICATIONS, QUERIES, STORED, Store, open_store
from iqcar.tables import TableSpec
from tests.support.nightly_logs import nightly_logs
from tests.support.stored_applications import keep, names

pytestmark = pytest.mark.slow

NIGHTS = 45


def files_of(store: Store) -> Counter[str]:
    return Counter(one.table for table in STORED for one in store.list(table))


@contextlib.contextmanager
def two_tables() -> Iterator[None]:
    """A store of two tables of its eight: what is done with a table is the same for each."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (stored_files, store_views):
            patch.setattr(module, "STORED", (APPLICATIONS, QUERIES))
        yield


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> None:
    """January 2026 is the current month: a file per day is written."""
    for module in (stored_files, store_views):
        monkeypatch.setattr(module, "this_month", lambda: "2026-01")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is added to the time that the merger reads."""
    ahead = [0.0]
    real = store_views.time.time
    monkeypatch.setattr("time.time", lambda: real() + ahead[0])
    return ahead


@pytest.mark.long
def test_answers_are_the_same_from_a_file_per_month(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = sorted(nightly_logs(tmp_path / "logs", NIGHTS).iterdir())
    url = str(tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr("iqcar.history.add_logs.merge_months", lambda _: 0)
        for first in range(0, NIGHTS, 9):
            add(url, logs[first : first + 9], processes=1)
    questions = {
        "top": lambda: [
            frame.round(6).to_csv()
            for frame in vars(top(view_of(url, since="2026-01-20", until="2026-02-03"))).values()
        ],
        "who": lambda: who(url, "spark.acme.team").round(6).to_csv(),
        "trend": lambda: trend(view_of(url, since="2026-01-31"), "report").to_csv(),
        "changes": lambda: changes(url),
    }
    before = {name: ask() for name, ask in questions.items()}
    store = open_store(url)
    opened = files_of(store)
    assert opened["queries"] == 6
    assert merge_months(store) == sum(opened.values())
    clock[0] = KEPT_S + 1
    assert merge_months(store) == 0
    assert files_of(store) == dict.fromkeys(opened, 2)
    assert {name: ask() for name, ask in questions.items()} == before
    added = add(url, logs, processes=1)
    assert (added.added, added.known, added.merged) == (0, NIGHTS, 0)


def test_what_is_added_during_a_merger_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path / "store"))
    keep(store, "app-1", "cut")
    keep(store, "app-2", "whole")
    write = Store.write

    def write_late(store: Store, table: TableSpec, *rest: object) -> int:
        if table is APPLICATIONS:
            monkeypatch.setattr(Store, "write", write)
            keep(store, "app-1", "grown")
            keep(store, "app-3", "new")
        return write(store, table, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "write", write_late)
    assert merge_months(store) == 2 * len(STORED)
    told = {"app-1": "grown", "app-2": "whole", "app-3": "new"}
    assert names(store) == told
    merge_months(store)
    assert names(store) == told


def test_a_question_asked_before_a_merger_is_answered_after_it(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    keep(store, "app-1", "a")
    keep(store, "app-2", "b")
    about = view_of(store)
    assert len(about.ask("SELECT * FROM applications")) == 2
    assert merge_months(store)
    assert merge_months(store) == 0
    assert sorted(about.ask("SELECT name FROM queries")["name"]) == ["a", "b"]


def test_what_was_replaced_goes_after_an_hour_and_what_was_abandoned_after_a_day(
    tmp_path: Path, clock: list[float]
) -> None:
    store = open_store(str(tmp_path / "store"))
    keep(store, "app-1")
    keep(store, "app-2")
    keep(store, "app-3")
    (*_, last) = store.list(APPLICATIONS)
    store.remove([last.path])  # an addition that was stopped before its last file
    merge_months(store)
    assert set(files_of(store).values()) == {3, 4}
    clock[0] = KEPT_S + 1
    merge_months(store)
    assert files_of(store) == {t.name: 1 if t is APPLICATIONS else 2 for t in STORED}
    clock[0] = ABANDONED_S + 1
    merge_months(store)
    assert files_of(store) == {table.name: 1 for table in STORED}
    assert set(names(store)) == {"app-1", "app-2"}


@pytest.mark.usefixtures("days")
def test_days_of_the_current_month_are_merged_when_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_views, "MOST_OF_THIS_MONTH", 3)
    store = open_store(str(tmp_path / "store"))
    for day in range(3):
        keep(store, f"app-{day}", day=day)
        assert merge_months(store) == 0
    assert {one.day for one in store.list(QUERIES)} == {"2026-01-01", "2026-01-02", "2026-01-03"}
    keep(store, "app-3", day=3)
    assert merge_months(store) == 4 * len(STORED)
    assert len(names(store)) == 4
    of_days = view_of(store, since="2026-01-02", until="2026-01-03").ask("SELECT * FROM queries")
    assert sorted(of_days["application_id"]) == ["app-1", "app-2"]


def test_large_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path / "store"))
    for n in range(5):
        keep(store, f"app-{n}")
    size = sum(one.size for table in STORED for one in store.list(table)) / 5
    monkeypatch.setattr(store_views, "ENOUGH_BYTES", 1.5 * size)
    merge_months(store)  # two, two and one
    counting = {one.part for one in store.list(QUERIES)} - replaced_parts(store).keys()
    assert len(counting) == 3
    assert len(names(store)) == 5


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 50)),
        st.tuples(st.sampled_from(["merge", "stop", "wait", "race"])),
    ),
    max_size=12,
)


@pytest.mark.long
@two_tables()
@given(STEPS)
def test_the_last_addition_counts_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    store = open_store(str(tmp_path_factory.mktemp("store")))
    store.make()
    expected: dict[str, str] = {}
    for number, (what, *which) in enumerate(steps):
        with pytest.MonkeyPatch.context() as patch:
            if what == "add":
                application, day = which
                keep(store, f"app-{application}", str(number), day=10 * application + day % 2)
                expected[f"app-{application}"] = str(number)
                continue
            if what == "wait":
                later = store_views.time.time() + ABANDONED_S + KEPT_S
                patch.setattr("time.time", lambda later=later: later)
            if what == "stop":
                _stop_before_applications(patch)
            if what == "race":
                _merge_twice(patch)
            with contextlib.suppress(KeyboardInterrupt):
                merge_months(store)
        assert names(store) == expected


def _stop_before_applications(patch: pytest.MonkeyPatch) -> None:
    write = Store.write

    def stopping(store: Store, table: TableSpec, *rest: object) -> int:
        if table is APPLICATIONS:
            raise KeyboardInterrupt
        return write(store, table, *rest)  # type: ignore[arg-type]

    patch.setattr(Store, "write", stopping)


def _merge_twice(patch: pytest.MonkeyPatch) -> None:
    """Let another merger do all its work just before the last file of the first one."""
    write = Store.write

    def after_another(store: Store, table: TableSpec, *rest: object) -> int:
        if table is APPLICATIONS:
            patch.setattr(Store, "write", write)
            merge_months(store)
        return write(store, table, *rest)  # type: ignore[arg-type]

    patch.setattr(Store, "write", after_another)
