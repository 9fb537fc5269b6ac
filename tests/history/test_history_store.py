"""A store of nightly applications: what is kept, what a second addition changes, what is asked."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

import iqcar as package
from iqcar.base import workers
from iqcar.causes.stragglers.straggler_result import by_cause
from iqcar.errors import IqcarError, UsageError
from iqcar.history import add, top, trend, who
from iqcar.history.add_logs import diagnosed_rows
from iqcar.history.ask_store import OWNERS
from iqcar.history.store_views import view_of
from iqcar.history.stored_files import APPLICATIONS, BLAME, MARK, QUERIES, STORED, open_store
from iqcar.show.json.history import history_schema
from iqcar.tables import TableSpec
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.hosted_apps import HostedApps, attempt, listed, zip_of
from tests.support.nightly_logs import (
    CHANGED,
    nightly_log,
    nightly_logs,
    slow_node_log,
    uneven_hosts_log,
)
from tests.support.web_server import web_server

NIGHTS = 26


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nightly_logs(tmp_path_factory.mktemp("nights") / "logs", NIGHTS)


@pytest.fixture(scope="module")
def store(logs: Path) -> str:
    url = str(logs.parent / "store")
    added = add(url, [logs], processes=1)
    assert (added.added, added.known, added.partial, added.failed) == (NIGHTS, 0, 0, [])
    return url


def content(store: str) -> dict[str, list[str]]:
    """Every row that counts, without the name of its addition."""
    about = view_of(store)
    return {
        table.name: about.ask(f"SELECT * EXCLUDE (batch) FROM {table.name} ORDER BY ALL")  # noqa: S608
        .to_json(orient="records", lines=True, double_precision=9)
        .splitlines()
        for table in STORED
    }


@pytest.mark.long
def test_the_same_logs_again_change_nothing(store: str, logs: Path) -> None:
    files = sorted(Path(store).rglob("*"))
    added = add(store, [logs], processes=1)
    assert (added.added, added.known) == (0, NIGHTS)
    assert sorted(Path(store).rglob("*")) == files


def test_an_application_takes_kilobytes(store: str) -> None:
    size = sum(file.stat().st_size for file in Path(store).rglob("*.parquet"))
    assert size < 40_000 * NIGHTS


def test_a_log_elsewhere_is_known_by_its_application(store: str, tmp_path: Path) -> None:
    added = add(store, [nightly_log(3).write(tmp_path / "copy")], processes=1)
    assert (added.added, added.known) == (0, 1)


def test_rows_hold_what_the_diagnosis_finds(store: str, logs: Path) -> None:
    (night,) = (
        run for run in trend(store, "report").itertuples() if run.application_id == "app-0007"
    )
    found = package.diagnose(package.read([logs / "app-0007"]))
    (row,) = np.flatnonzero(found.tables.queries["name"] == "report")
    assert night.duration_ms == found.tables.queries["duration_ms"].iloc[row]
    assert night.lost_to_others_ms == pytest.approx(found.lost_to_others_ms()[row])
    assert night.slots_wait_ms == pytest.approx(found.queries["slots_wait_ms"].iloc[row])
    assert np.isnan(night.memory_wait_ms)
    assert night.source == "etl"
    assert night.source_lost_ms == pytest.approx(found.lost_to_others_ms()[row])


def test_blame_of_a_query_sums_to_its_loss(logs: Path) -> None:
    rows = diagnosed_rows(package.logs.find.locate.locate([logs / "app-0003"]), 1)
    blamed = rows[BLAME.name].groupby("query_id")["lost_ms"].sum()
    lost = rows[QUERIES.name].set_index("query_id")["lost_ms"]
    assert blamed.reindex(lost.index, fill_value=0.0).to_numpy() == pytest.approx(lost.to_numpy())


def test_a_log_that_grew_replaces_what_was_read_of_it(tmp_path: Path) -> None:
    whole = contended_log().bytes()
    log = tmp_path / "logs" / "app-1.inprogress"
    log.parent.mkdir()
    log.write_bytes(whole[: whole.rindex(b'{"Event":"SparkListenerApplicationEnd')])
    store = str(tmp_path / "store")
    assert add(store, [log.parent], processes=1).partial == 1
    log.rename(log.with_suffix("")).write_bytes(whole)
    assert add(store, [log.parent], processes=1).added == 1
    about = view_of(store)
    assert about.ask("SELECT status FROM applications")["status"].tolist() == ["complete"]
    assert len(about.ask("SELECT * FROM queries")) == 2
    assert add(store, [log.parent], processes=1).known == 1


def test_an_addition_without_its_last_file_does_not_count(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iqcar.history.stored_files.this_month", lambda: "2026-01")
    monkeypatch.setattr("iqcar.history.store_views.this_month", lambda: "2026-01")
    store = str(tmp_path / "store")
    add(store, [logs / "app-0001"], processes=1)
    before = content(store)
    add(store, [logs / "app-0002"], processes=1)
    (last,) = (
        f for f in Path(store, APPLICATIONS.name).rglob("*.parquet") if "day=2026-01-03" in str(f)
    )
    last.unlink()
    assert content(store) == before


def _add_apart(store: str, logs: list[str]) -> None:
    add(store, logs, processes=1)


@pytest.mark.long
def test_two_writers_at_once_leave_each_application_once(tmp_path: Path, logs: Path) -> None:
    store = str(tmp_path / "store")
    chosen = [str(logs / f"app-{night:04d}") for night in range(6)]
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_apart, args=(store, chosen)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    alone = str(tmp_path / "alone")
    add(alone, chosen, processes=1)
    assert content(store) == content(alone)


@pytest.mark.long
def test_several_processes_write_what_one_writes(tmp_path: Path, logs: Path, store: str) -> None:
    several = str(tmp_path / "store")
    add(several, [logs], processes=2)
    assert content(several) == content(store)


def test_a_process_that_dies_costs_only_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RUN", "import os; os._exit(7)")
    logs = nightly_logs(tmp_path / "logs", 2)
    added = add(str(tmp_path / "store"), [logs], processes=2)
    assert added.added == 0
    assert [why for _, why in added.failed] == [
        "the process that analysed it died; it may need more memory"
    ] * 2


def test_a_file_of_an_older_iqcar_may_lack_a_column(tmp_path: Path, logs: Path) -> None:
    store = str(tmp_path / "store")
    add(store, [logs / "app-0001"], processes=1)
    for file in Path(store, QUERIES.name).rglob("*.parquet"):
        pd.read_parquet(file).drop(columns=["wasted_ms", "pool"]).to_parquet(file)
    found = view_of(store).ask("SELECT name, pool, wasted_ms FROM queries ORDER BY name")
    assert found["name"].tolist() == ["etl", "report"]
    assert found[["pool", "wasted_ms"]].isna().all(axis=None)
    assert who(store, "pool")["victim"].tolist() == ["(no pool)"]


@pytest.mark.slow
def test_clusters_and_days_are_kept_apart(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    nightly_log(1, master="spark://ann:secret@a:7077").write(tmp_path / "a")
    nightly_log(2, master="k8s://https://b:443").write(tmp_path / "b")
    add(store, [tmp_path / "a", tmp_path / "b"], processes=1)
    folders = {file.parent.name for file in Path(store).rglob("day=*")}
    assert folders == {"cluster=a%3A7077", "cluster=b%3A443"}
    assert set(top(view_of(store, cluster="a:7077"), "all").queries["cluster"]) == {"a:7077"}
    assert top(view_of(store, since="2026-01-03"), "day").queries["period"].tolist() == [
        "2026-01-03"
    ]
    assert top(view_of(store, until="2026-01-02"), "day").queries["cluster"].tolist() == ["a:7077"]


@pytest.mark.slow
def test_who_lost_to_whom_sums_to_what_was_lost(store: str) -> None:
    lost = trend(store, "report")["lost_to_others_ms"].sum()
    for by in (*OWNERS, "spark.acme.team", "spark.nope.x", "tag:Team", "notebook"):
        losses = who(store, by)
        assert losses["lost_ms"].sum() == pytest.approx(lost)
        assert losses["share"].sum() == pytest.approx(1.0)
    assert who(store, "pool")[["victim", "source"]].to_numpy().tolist() == [["bi", "etl"]]
    assert set(who(store, "spark.acme.team")["victim"]) == {"sales", "risk"}
    assert set(who(store, "spark.nope.x")["victim"]) == {"(no spark.nope.x)"}


def test_a_job_s_own_property_comes_before_the_application_s(tmp_path: Path) -> None:
    described = b'"spark.job.description":"report"'
    log = nightly_log(0).bytes().replace(described, described + b',"spark.acme.team":"bi"')
    (tmp_path / "app-1").write_bytes(log)
    add(str(tmp_path / "store"), [tmp_path / "app-1"], processes=1)
    (row,) = who(str(tmp_path / "store"), "spark.acme.team").itertuples()
    assert (row.victim, row.source) == ("bi", "sales")


def test_secrets_do_not_reach_the_store(store: str) -> None:
    assert set(who(store, "spark.acme.password")["victim"]) == {"*(redacted)"}
    assert not any(b"hunter2" in file.read_bytes() for file in Path(store).rglob("*.parquet"))


def test_rankings_by_month(store: str) -> None:
    found = top(store, "month")
    (etl,) = found.queries.itertuples()
    assert (etl.period, etl.name, etl.runs, etl.victims) == ("2026-01-01", "etl", NIGHTS, NIGHTS)
    assert found.resources["resource"].tolist() == ["slots"]
    assert found.resources["lost_ms"].tolist() == pytest.approx([etl.lost_ms])


def test_a_slow_node_is_found(tmp_path: Path) -> None:
    slow_node_log("app-1").write(tmp_path / "app-1")
    add(str(tmp_path / "store"), [tmp_path / "app-1"], processes=1)
    found = top(str(tmp_path / "store"), "all")
    worst = found.hosts.iloc[0]
    assert (worst["host"], worst["slowdown"], worst["excess_ms"]) == ("slow", 3.0, 24_000.0)
    diagnosis = package.diagnose(package.read([tmp_path / "app-1"]))
    counted = by_cause(diagnosis.stragglers).set_index("cause")
    ranked = found.causes.set_index("cause")
    assert ranked["stragglers"].to_dict() == counted["stragglers"].to_dict()
    assert ranked["delay_ms"].to_dict() == pytest.approx(counted["delay_ms"].to_dict())
    assert len(ranked) > 0
    assert set(ranked["applications"]) == {1}
    assert set(ranked["hosts"]) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("slower", [1.0, 1.5])
def test_uneven_tasks_alone_make_no_slow_node(tmp_path: Path, slower: float) -> None:
    uneven_hosts_log("app-1", slower).write(tmp_path / "app-1")
    add(str(tmp_path / "store"), [tmp_path / "app-1"], processes=1)
    hosts = top(str(tmp_path / "store"), "all").hosts
    assert hosts["host"].tolist() == (["host-3"] if slower > 1 else [])
    # the mean of 400 tasks is off by 5 %, that of the others by 2 %
    assert hosts["slowdown"].tolist() == pytest.approx([slower] * len(hosts), rel=0.15)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda store: trend(store, "nope"), "there is no such query in the store; there are"),
        (lambda store: who(store, "colour"), "nothing can be grouped by 'colour'"),
        (lambda store: top(store, "year"), "there is no period 'year'"),
        (lambda store: top(view_of(store, since="yesterday")), "yesterday: is no day"),
    ],
)
def test_a_wrong_question_gets_a_sentence(store: str, ask: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ask(store)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, logs: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="it holds other files"):
        add(str(tmp_path), [logs])
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(IqcarError, match="there is no store here"):
        top(str(tmp_path))


def test_a_store_that_another_writer_makes_meanwhile_is_used(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "store")
    files = open_store(store).files
    exists = files.exists

    def exists_late(path: str) -> bool:
        """Look for the store once another writer has made it and written to it."""
        monkeypatch.setattr(files, "exists", exists)
        add(store, [logs / "app-0001"], processes=1)
        return bool(exists(path))

    monkeypatch.setattr(files, "exists", exists_late)
    assert add(store, [logs / "app-0001", logs / "app-0002"], processes=1).added == 1
    assert files.exists is exists
    assert len(content(store)[APPLICATIONS.name]) == 2


def test_a_store_whose_making_was_stopped_is_made(tmp_path: Path, logs: Path) -> None:
    """So is one whose mark another writer is writing."""
    (tmp_path / f".{MARK}.0123abcd").write_bytes(b"{")
    assert add(str(tmp_path), [logs / "app-0001"], processes=1).added == 1
    assert len(content(str(tmp_path))[APPLICATIONS.name]) == 1


def test_a_store_of_a_newer_iqcar_is_refused(tmp_path: Path, logs: Path) -> None:
    (tmp_path / MARK).write_text('{"format": 99}')
    with pytest.raises(IqcarError, match="it has format 99; a newer iqcar can read it"):
        add(str(tmp_path), [logs])
    (tmp_path / MARK).write_text("[]")
    with pytest.raises(IqcarError, match="is damaged"):
        top(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("table", [APPLICATIONS, QUERIES])
def test_a_damaged_file_is_named_and_its_logs_can_be_added_again(
    tmp_path: Path, logs: Path, table: TableSpec
) -> None:
    store = str(tmp_path / "store")
    add(store, [logs / "app-0001"], processes=1)
    whole = trend(store, "report")
    (file,) = Path(store, table.name).rglob("*.parquet")
    file.write_bytes(b"no parquet")
    with pytest.raises(IqcarError, match="no such query"):
        trend(store, "report")
    about = open_store(store)
    assert add(about, [logs / "app-0001"], processes=1, again=True).added == 1
    pd.testing.assert_frame_equal(trend(about, "report"), whole)
    (line,) = about.set_aside_lines()
    assert file.name in line and "remove that file" in line and "--again" in line
    assert file.exists()  # it is the user's


def test_a_log_that_cannot_be_read_fails_alone(tmp_path: Path, logs: Path) -> None:
    (tmp_path / "bad").write_text("rubbish")
    added = add(str(tmp_path / "store"), [tmp_path / "bad", logs / "app-0001"], processes=1)
    assert added.added == 1
    ((path, _),) = added.failed
    assert path == str(tmp_path / "bad")


def test_a_store_in_a_bucket_holds_the_same(logs: Path) -> None:
    chosen = [logs / f"app-{night:04d}" for night in range(2)]
    store = open_store("memory://bucket/store")
    add(store, chosen, processes=1)
    assert len(trend(store, "report")) == 2
    assert add(store, chosen, processes=1).known == 2


@pytest.mark.slow
def test_every_command_writes_what_its_schema_says(store: str, logs: Path) -> None:
    checker = jsonschema.Draft202012Validator(json.loads(history_schema()))
    for words in (
        ("add", store, logs),
        ("top", store, "--period", "all"),
        ("who", store, "--by", "pool"),
        ("trend", store, "report"),
        ("changes", store),
    ):
        done = iqcar("history", *words, "--json", "-")
        assert done.returncode == 0, done.stderr
        checker.validate(json.loads(done.stdout))
        shown = iqcar("history", *words)
        assert shown.returncode == 0, shown.stderr


@pytest.mark.slow
def test_the_terminal_says_when_and_why_a_query_changed(store: str) -> None:
    said = " ".join(iqcar("history", "changes", store, "--compare").stdout.split())
    assert f"2026-01-{CHANGED + 1:02d} 00:00" in said
    assert "more to other queries, most to etl" in said
    assert "spark.sql.shuffle.partitions was 200 and is 20" in said
    assert "compute +" in said


@pytest.mark.long
def test_a_cluster_started_anew_each_night_keeps_its_recurring_queries(tmp_path: Path) -> None:
    runs = []
    for anew in (False, True):
        folder, store = tmp_path / f"logs-{anew}", str(tmp_path / f"store-{anew}")
        add(store, [nightly_logs(folder, 6, anew=anew)], processes=1)
        found = trend(store, "report")[["application_id", "fingerprint", "duration_ms"]]
        hurt = who(store)[["victim", "source", "resource", "runs"]]
        runs.append((found, hurt, top(store, "all").queries[["name", "runs", "victims"]]))
    for one, other in zip(*runs, strict=True):
        pd.testing.assert_frame_equal(one, other)
        assert len(one)


ENDED, RUNS = "app-20260101000000-0001", "app-20260101000000-0002"


def test_applications_are_added_once_and_those_that_run_again(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "log").read_text()
    (old,) = {part.partition('"')[0] for part in log.split('"App ID":"')[1:]}
    zips = {
        f"/{app}/logs": zip_of(**{app: log.replace(f'"{old}"', f'"{app}"').encode()})
        for app in (ENDED, RUNS)
    }
    server = HostedApps(listed(ENDED, attempt()), listed(RUNS, attempt(done=False)), zips=zips)
    store = str(tmp_path / "store")
    with web_server(server) as url:
        first = add(store, [url], processes=1)
        assert (first.added, first.known, first.failed) == (2, 0, [])
        server.asked.clear()
        again = add(store, [url], processes=1)
        assert again.known >= 1
        assert f"/api/v1/applications/{ENDED}/logs" not in server.asked
        one = add(store, [f"{url}/history/{ENDED}"], processes=1)
        assert (one.added, one.known) == (0, 1)
