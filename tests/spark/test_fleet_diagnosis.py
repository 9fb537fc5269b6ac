"""Many logs diagnosed on a real Spark give the sums and lists of one process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from typer.testing import CliRunner

from iqcar.apps.cli.main import app
from iqcar.diagnosis import Diagnosis
from iqcar.errors import UsageError
from iqcar.fleet import diagnose_on_spark
from iqcar.fleet.fleet_summary import FleetSummary, summarise, summary_on_spark
from iqcar.fleet.session import spark_session
from iqcar.history import add
from iqcar.history.add_logs import diagnosed_rows
from iqcar.history.store_views import view_of
from iqcar.history.stored_files import new_batch, open_store, write_batch
from iqcar.history.stored_tables import STORED
from iqcar.logs.find.locate import EventLog, locate
from iqcar.pipeline import diagnose, read
from iqcar.show.json.fleet import fleet_schema
from tests.conftest import shared_logs_folder
from tests.support.fleet_logs import fleet_log, write_fleet

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not shutil.which("java"), reason="needs a JDK"),
]
ROUNDING = 1e-6
"""Clocks of slots add up the time of all tasks in milliseconds since 1970: sums over a group's
tasks round otherwise than those over all, by 1e-8 of a loss."""


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    with spark_session("local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven applications in five groups, one that ran later on a host of theirs, and no log."""
    folder = tmp_path_factory.mktemp("fleet") / "logs"
    write_fleet(folder)
    fleet_log("app-z", 8, ("shared", "only-a"), start=90_000_000).write(folder / "app-z")
    return folder


def same(here: FleetSummary, there: FleetSummary) -> None:
    """Compare all but doubts, which are said of each group."""
    assert there.totals == pytest.approx(here.totals, rel=ROUNDING)
    for field in fields(FleetSummary):
        one, other = getattr(here, field.name), getattr(there, field.name)
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(other, one, rtol=ROUNDING, atol=1e-3, check_dtype=False)


@pytest.fixture
def divided_by_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """No query is replayed alone: on Spark each application is analysed apart from the others."""
    monkeypatch.setattr("iqcar.replay.alone.MOST_TASKS", 0)


@pytest.mark.usefixtures("divided_by_load")
def test_a_fleet_lost_on_spark_what_it_lost_in_one_process(spark: Any, fleet: Path) -> None:
    found = summary_on_spark(spark, fleet)
    paths = [Path(path).name for path in found.tables.inputs["path"]]
    groups = [{paths[log] for log in logs} for logs in found.groups]
    assert groups == [
        {"app-a", "app-b"}, {"app-c"}, {"app-d", "app-e"}, {"app-f"}, {"app-g"}, {"app-z"},
    ]  # fmt: skip
    assert found.tables.inputs["status"].tolist()[-2:] == ["complete", "failed"]
    here = summarise(diagnose(read(fleet)))
    assert found.summary is not None
    same(here, found.summary)
    # What is compared holds something: blame across applications, causes, hosts.
    assert {("app-e", "app-d"), ("app-a", "app-b")} <= set(
        here.pairs[["source", "target"]].itertuples(index=False, name=None)
    )
    assert len(here.causes) > 3 and len(here.hosts) == 7


@pytest.mark.usefixtures("divided_by_load")
@pytest.mark.skipif(not shared_logs_folder().is_dir(), reason="needs other people's event logs")
def test_real_logs_lost_on_spark_what_they_lost_in_one_process(
    spark: Any, shared_logs: Path
) -> None:
    found = summary_on_spark(spark, shared_logs)
    here = diagnose(read(shared_logs), rules=False)
    assert found.summary is not None
    same(summarise(here), found.summary)
    assert found.tables.inputs["path"].tolist() == here.tables.inputs["path"].tolist()


def losses(diagnosis: Diagnosis, words: str) -> dict[str, Any]:
    """Stands for what somebody else wants to know of each application of a group."""
    tables = diagnosis.tables
    if "app-f" in set(tables.applications["application_id"]):
        raise ZeroDivisionError
    lost = pd.Series(diagnosis.lost_ms()).groupby(tables.queries["app"].to_numpy()).sum()
    ids = tables.applications["application_id"].tolist()
    return {f"{words} {ids[row]}": ms for row, ms in lost.items()}


def test_a_function_by_name_is_asked_of_every_group_and_a_bug_leaves_out_its_application(
    spark: Any, fleet: Path
) -> None:
    logs = [fleet / name for name in ("app-f", "app-b", "app-a")]
    found = diagnose_on_spark(spark, logs, f"{__name__}:losses", "of", rules=False)
    one, two = found.answers
    assert (one.logs, one.value) == ((0,), None)
    assert "ZeroDivisionError" in found.tables.inputs["message"].tolist()[0]
    assert two.logs == (1, 2)
    expected = losses(diagnose(read(logs[1:]), rules=False), "of")
    # Devices are estimated from all logs that were read, the faulty one among them.
    assert two.value == pytest.approx(expected, rel=1e-3)
    with pytest.raises(UsageError, match="no function is called so"):
        diagnose_on_spark(spark, logs, "iqcar.fleet:nothing")


def test_a_group_that_is_cut_is_told(spark: Any, fleet: Path) -> None:
    logs = [fleet / "app-a", fleet / "app-b"]
    found = summary_on_spark(spark, logs, most_tasks=200)
    (cut,) = found.cuts
    assert (cut.applications, cut.parts, cut.apart) == (2, 2, 2)
    assert found.summary is not None and len(found.summary.pairs) == 0


def test_the_command_prints_and_writes_a_summary(spark: Any, fleet: Path, tmp_path: Path) -> None:
    out = tmp_path / "fleet.json"
    done = CliRunner().invoke(app, ["analyze", str(fleet), "--on-spark", "--json", str(out)])
    assert done.exit_code == 3, done.output
    written = json.loads(out.read_text())
    jsonschema.validate(written, json.loads(fleet_schema()))
    assert written["groups"].pop("diagnoses") in range(2, 7)
    assert written["groups"] == {"count": 6, "alone": 4, "largest": 2, "cut": []}
    assert written["inputs"]["by_status"] == {"complete": 7, "truncated": 1, "failed": 1}
    assert written["totals"]["applications"] == 8
    for title in ("Hot resources", "Who lost most to others", "Aggressive queries", "Stragglers"):
        assert f"\n{title}\n" in done.output
    assert "4 ran alone on their hosts; 4 shared hosts at the same time, in 2 groups" in done.output


@pytest.mark.usefixtures("divided_by_load")
def test_a_store_filled_on_spark_holds_what_one_process_stores(
    spark: Any, fleet: Path, tmp_path: Path
) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    logs = [one for one in locate([fleet]) if isinstance(one, EventLog)]
    rows = diagnosed_rows(logs, 1)  # all at once: devices are estimated from all logs on Spark
    failed = rows.pop("failed")
    batch = new_batch()
    write_batch(
        open_store(here), "unknown", batch, {k: v.assign(batch=batch) for k, v in rows.items()}
    )
    added = add(there, [fleet], spark=spark)
    assert (added.added, len(added.failed)) == (len(logs) - len(failed), 1)
    assert add(there, [fleet], spark=spark).known == added.added
    for table in STORED:
        left_out = "batch, beside" if table.name == "applications" else "batch"
        sql = f"SELECT * EXCLUDE ({left_out}) FROM {table.name} ORDER BY ALL"  # noqa: S608
        pd.testing.assert_frame_equal(
            view_of(there).ask(sql), view_of(here).ask(sql), rtol=ROUNDING, atol=1e-3
        )
