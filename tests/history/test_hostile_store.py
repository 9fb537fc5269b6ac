"""Files that iqcar did not write, or not so, harm nothing: they are set aside, and none is lost."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iqcar.history import add, top, trend, who
from iqcar.history.store_views import ABANDONED_S, merge_months
from iqcar.history.stored_files import (
    APPLICATIONS,
    LONGEST_FOLDER,
    STORED,
    bounded_cluster,
    open_store,
)
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.nightly_logs import DAY_MS, FIRST_MS, nightly_log, nightly_logs

NIGHTS = 3
_TIME = time.time


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs of some nights, and a store to which each was added by itself."""
    folder = tmp_path_factory.mktemp("kept")
    for night in nightly_logs(folder / "logs", NIGHTS).iterdir():
        add(str(folder / "store"), [night], processes=1)
    return folder


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> str:
    """A copy of that store, beside a copy of its logs."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "store")


def an_application_file(store: str) -> Path:
    return sorted(Path(store, APPLICATIONS.name).rglob("*.parquet"))[-1]


def parquets(store: str) -> set[Path]:
    return set(Path(store).rglob("*.parquet"))


def beside(file: Path) -> Path:
    """A name that iqcar could have given to a file written a moment later."""
    return file.with_name(f"{int(file.name[:14]) + 1:014d}-{random.randrange(1 << 32):08x}.parquet")


def rewritten(file: Path, **columns: Any) -> None:
    """Write a file beside one, with its rows and other values in some columns."""
    rows = pq.read_table(file, partitioning=None)
    for name, value in columns.items():
        if value is ...:
            rows = rows.drop_columns([name])
            continue
        values = value if isinstance(value, pa.Array) else pa.array([value] * len(rows))
        place = rows.column_names.index(name) if name in rows.column_names else len(rows.columns)
        if name in rows.column_names:
            rows = rows.remove_column(place)
        rows = rows.add_column(place, name, values)
    pq.write_table(rows, beside(file))


def one_batch(file: Path) -> None:
    rewritten(file, batch="1")
    (other,) = (f for f in file.parent.glob("*.parquet") if f != file and f.name > file.name)
    other.rename(file.with_name("1.parquet"))


HOSTILE = {
    "not parquet": lambda file: beside(file).write_bytes(b"x"),
    "cut off": lambda file: beside(file).write_bytes(file.read_bytes()[:-9]),
    "empty": lambda file: beside(file).touch(),
    "a column cluster": lambda file: rewritten(file, cluster="x"),
    "a start that is infinite": lambda file: rewritten(file, start_ms=float("inf")),
    "a start of no calendar": lambda file: rewritten(file, start_ms=1e300),
    "a start on another day": lambda file: rewritten(file, start_ms=FIRST_MS + 400 * DAY_MS),
    "a text for a number": lambda file: rewritten(file, start_ms="soon"),
    "a list for a text": lambda file: rewritten(file, name=["a", "b"]),
    "no batch": lambda file: rewritten(file, batch=...),
    "another batch": lambda file: rewritten(file, batch="1"),
    "batch and name 1": one_batch,
    "of the future": lambda file: (
        rewritten(file, batch="99999999999999-00000000"),
        max(file.parent.iterdir()).rename(file.with_name("99999999999999-00000000.parquet")),
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_set_aside_and_all_others_answer(
    what: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = trend(store, "report").to_csv(), who(store).to_csv()
    HOSTILE[what](an_application_file(store))
    files = parquets(store)
    kept = open_store(store)
    assert (trend(kept, "report").to_csv(), who(kept).to_csv()) == before
    (line,) = kept.set_aside_lines()
    assert "applications/" in line and "\n" not in line
    nightly_log(NIGHTS).write(tmp_path / "new")
    added = add(store, [tmp_path / "logs", tmp_path / "new"], processes=1)
    assert (added.added, added.known, len(added.failed)) == (1, NIGHTS, 0)
    monkeypatch.setattr("time.time", lambda: _TIME() + ABANDONED_S + 1)
    merge_months(kept)
    merge_months(kept)
    names = {path for path in files if APPLICATIONS.name in path.parts}
    hostile = [path for path in names if path.exists()]
    assert len(hostile) == 1  # what is not ours stays; ours were merged
    assert len(trend(store, "report")) == NIGHTS + 1
    done = iqcar("history", "trend", store, "report", "--json", "-")
    assert done.returncode == 0 and "set aside" in done.stderr
    assert json.loads(done.stdout)["set_aside"]


def test_a_part_of_which_a_file_was_set_aside_is_not_merged(store: str) -> None:
    file = sorted(Path(store, "queries").rglob("*.parquet"))[0]
    content = file.read_bytes()
    file.write_bytes(b"damaged")
    merge_months(open_store(store))
    file.write_bytes(content)
    assert len(trend(store, "report")) == NIGHTS


def test_what_killed_writers_left_is_removed_in_time(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = an_application_file(store)
    orphan = file.with_name(f".{file.name}.0123abcd")
    orphan.write_bytes(b"half")
    other = file.with_name(".notes.parquet.0123abcd")
    other.write_bytes(b"mine")
    merge_months(open_store(store))
    assert orphan.exists()
    monkeypatch.setattr("time.time", lambda: _TIME() + ABANDONED_S + 1)
    merge_months(open_store(store))
    assert not orphan.exists()
    assert other.exists()


def test_a_long_cluster_name_stops_no_other_log(tmp_path: Path) -> None:
    masters = ["spark://" + "a" * 300 + f"{n}:7077" for n in range(2)] + ["ü" * 200, "yarn", "../x"]
    for night, master in enumerate(masters):
        nightly_log(night, master=master).write(tmp_path / f"app-{night}")
    url = str(tmp_path / "store")
    for _ in range(2):
        added = add(url, sorted(tmp_path.glob("app-*")), processes=1)
        assert added.added + added.known == len(masters) and not added.failed
    found = who(url, "cluster")
    assert len(set(found["victim"])) == len(masters)
    named = bounded_cluster("a" * 300 + "0:7077")
    assert len(named) <= LONGEST_FOLDER
    assert len(trend(open_store(url), "report")) == len(masters)


def test_sources_outside_what_is_asked_are_named_by_their_application(tmp_path: Path) -> None:
    """The culprit is on a cluster of another name, or began before the first day asked about."""
    hog, victim = contended_log("app-hog", FIRST_MS), contended_log("app-victim", FIRST_MS + 500)
    master = b'"Spark Properties":{"spark.master":"yarn",'
    text = victim.bytes().replace(b'"Spark Properties":{', master)
    hog.write(tmp_path / "hog")
    (tmp_path / "victim").write_bytes(text)
    url = str(tmp_path / "store")
    assert add(url, [tmp_path / "hog", tmp_path / "victim"], processes=1).added == 2
    _blame_each_other(url)
    everything = who(url)
    assert not any("not asked about" in source for source in everything["source"])
    assert {"etl", "report"} >= set(everything["source"]) - {"(others)"}
    done = iqcar("history", "who", url, "--cluster", "yarn")
    assert done.returncode == 0, done.stderr
    assert "(app-hog, not asked about)" in done.stdout


def _blame_each_other(store: str) -> None:
    """Let the victim's loss be to a query of the other application."""
    for file in Path(store, "blame").rglob("*.parquet"):
        rows = pq.read_table(file, partitioning=None)
        ids = rows.column("application_id").to_pylist()
        if set(ids) != {"app-victim"}:
            continue
        for column in ("source_application_id", "source_query_id"):
            place = rows.column_names.index(column)
            values = [
                one.replace("app-victim", "app-hog") for one in rows.column(place).to_pylist()
            ]
            rows = rows.set_column(place, column, pa.array(values))
        pq.write_table(rows, file)


def test_every_stored_table_is_checked_before_it_is_read(store: str) -> None:
    for table in STORED:
        for file in sorted(Path(store, table.name).rglob("*.parquet"))[:1]:
            beside(file).write_bytes(b"no parquet")
    kept = open_store(store)
    assert len(trend(kept, "report")) == NIGHTS
    assert top(kept).queries is not None
    assert kept.set_aside


@pytest.mark.parametrize("day", ["rubbish", "2026-99-99", "2026-02-30", "١١١١-01-01", "2026-1-1"])
def test_what_is_no_day_is_refused_in_one_line(day: str, kept: Path) -> None:
    for option in ("--since", "--until"):
        done = iqcar("history", "top", str(kept / "store"), option, day)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1 and "is no day" in done.stderr
