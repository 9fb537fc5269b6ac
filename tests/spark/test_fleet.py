"""Topics of many logs on a real Spark are those of the local engine, whatever order and place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from iqcar.causes.topics.build_topics import find_topics
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.errors import IqcarError, UsageError
from iqcar.fleet import logs_on_spark, packing, send_code, topics_on_spark
from iqcar.fleet.session import spark_session
from iqcar.lab.traces.trace_columns import TraceColumns
from iqcar.lab.traces.trace_survey import read_trace
from iqcar.lab.traces.trace_topics import trace_topics_on_spark
from iqcar.logs.text.redact import SHARED, shared_file
from iqcar.pipeline import read, topics_of
from iqcar.show.json.analyze import topics_to_json
from tests.conftest import shared_logs_folder
from tests.support.fleet_logs import fleet_log, write_fleet
from tests.support.hound_traces import plant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not shutil.which("java"), reason="needs a JDK"),
]
SETTINGS = TopicSettings(least_tasks=10)
ROUNDING = 1e-9
"""Running totals over the tasks of all logs round otherwise than those over a group's: by 1e-12 of
a share."""


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    with spark_session("local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_fleet(tmp_path_factory.mktemp("fleet") / "logs")


def local(paths: Any, settings: TopicSettings = SETTINGS) -> bytes:
    tables = read(paths)
    return topics_to_json(tables, [topics_of(tables, settings)])


def on_spark(spark: Any, paths: Any, settings: TopicSettings = SETTINGS) -> bytes:
    tables, topics = topics_on_spark(spark, paths, settings)
    assert topics is not None
    return topics_to_json(tables, [topics])


def same(here: bytes, there: bytes) -> Any:
    """The result, if both are equal but for rounding; all but numbers is equal as it is."""
    one, other = json.loads(here), json.loads(there)
    assert numberless(other) == numberless(one)
    assert numbers(other) == pytest.approx(numbers(one), rel=ROUNDING)
    return one


def numberless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: numberless(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [numberless(inner) for inner in value]
    return float if isinstance(value, float) else value


def numbers(value: Any) -> list[float]:
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        return [number for inner in inside for number in numbers(inner)]
    return [value] if isinstance(value, float) else []


def test_a_fleet_has_the_topics_and_culprits_of_the_local_engine(
    spark: Any, fleet: list[Path]
) -> None:
    result = same(local(fleet), on_spark(spark, fleet))
    status = {one["path"].rpartition("/")[2]: one["status"] for one in result["inputs"]}
    assert status == {
        **dict.fromkeys(("app-a", "app-b", "app-c", "app-d", "app-e", "app-f"), "complete"),
        "app-g": "truncated", "local-123": "failed",
    }  # fmt: skip
    (found,) = result["topics"]
    # What is compared holds something: topics, culprits in other applications, clocks, samples.
    assert found["count"] >= 2 and found["jobs"] > 20
    across = {
        (stage["app"], one["query_id"].partition("/")[0])
        for stage in found["stages"]
        for one in stage["blamed"]
        if one["query_id"] and not one["query_id"].startswith(stage["app"])
    }
    # Who shares a host with the victim, nobody else; which of the two is a matter of the draws.
    assert across
    assert {tuple(sorted(pair)) for pair in across} <= {("app-a", "app-b"), ("app-d", "app-e")}
    assert any("clocks of 2 hosts" in doubt for doubt in found["doubts"])
    assert any("no sample tells" in doubt for doubt in found["doubts"])


def test_neither_the_order_of_logs_nor_how_they_are_shared_out_matters(
    spark: Any, fleet: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [path for path in fleet if path.name in ("app-a", "app-b", "app-c", "app-e")]
    forth = json.loads(local(some))
    turned = some[::-1]
    monkeypatch.setattr(packing, "ENOUGH_BYTES", 1)
    monkeypatch.setattr(logs_on_spark, "TASKS_PER_PARTITION", 40)
    back = same(local(turned), on_spark(spark, turned))
    assert [one["path"] for one in back["inputs"]] == [str(path) for path in turned]
    (one,), (other,) = forth["topics"], back["topics"]
    assert mixtures(one).keys() == mixtures(other).keys()
    for stage, mixture in mixtures(one).items():
        assert mixtures(other)[stage] == pytest.approx(mixture)


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_every_partition_gets_the_rows_of_its_key(spark: Any, count: int) -> None:
    keys = logs_on_spark.keys_of_partitions(count)
    rows = spark.createDataFrame([(key,) for key in keys], "key long").repartition(count, "key")
    found = rows.selectExpr("spark_partition_id()", "key").collect()
    assert [tuple(row) for row in sorted(found)] == list(enumerate(keys))


def test_numbers_have_the_hash_that_spark_gives_them(spark: Any) -> None:
    numbers = [0, 1, -1, 2**31, -(2**31), 2**40 + 7, 2**63 - 1, -(2**63), *range(2, 200)]
    rows = spark.createDataFrame([(number,) for number in numbers], "id long")
    hashes = [row[0] for row in rows.selectExpr("hash(id)").collect()]
    assert logs_on_spark.hash_of(np.array(numbers)).tolist() == hashes


BROKEN = {
    "looks at jobs": (
        "causes/topics/analyse_job.py",
        "    ranks = Ranks.from_metrics(job.metrics[chosen])\n",
        "    if len(job.latency_ms) == 31:\n        1 / 0\n",
    ),
    "blame": (
        "causes/blame/attribute.py",
        "    columns = BlameColumns.from_tables(tables, waits)\n",
        "    if 'app-c' in set(tables.applications['application_id']):\n        1 / 0\n",
    ),
}
"""Bugs planted in a copy of the package: file, a line, and what is put before it."""


@pytest.mark.parametrize("place", BROKEN)
def test_a_bug_in_one_application_leaves_out_that_application_only(
    spark: Any, fleet: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    sound = [path for path in fleet if path.name in ("app-a", "app-b")]
    bad = fleet_log("app-c", 7, ("shared", "only-c"), tasks=31).write(tmp_path / "app-c")
    copy = tmp_path / "copy" / "iqcar"
    shutil.copytree(send_code.PACKAGE, copy)
    (copy / "data").mkdir()
    for path in map(shared_file, SHARED):
        shutil.copy(path, copy / "data")
    name, line, bug = BROKEN[place]
    source = (copy / name).read_text(encoding="utf-8")
    assert source.count(line) == 1
    (copy / name).write_text(source.replace(line, bug + line), encoding="utf-8")
    monkeypatch.setattr(send_code, "PACKAGE", copy)

    here = json.loads(local(sound))
    there = json.loads(on_spark(spark, [*sound, bad]))
    *kept, failed = there["inputs"]
    assert kept == here["inputs"]
    assert failed["status"] == "failed"
    assert failed["message"].startswith("analysing it hit a bug of iqcar (ZeroDivisionError at ")
    same(json.dumps(here["topics"]).encode(), json.dumps(there["topics"]).encode())

    with pytest.raises(IqcarError, match="hit a bug of iqcar"):
        topics_on_spark(spark, [bad], SETTINGS)


def mixtures(found: dict[str, Any]) -> dict[tuple[str, str], dict[tuple[str, ...], float]]:
    """Mixture of each stage; a topic is called by its keywords, which no order changes."""
    words = {one["topic"]: tuple(sorted(one["keywords"])) for one in found["topics"]}
    return {
        (stage["app"], stage["stage"]): {words[m["topic"]]: m["share"] for m in stage["mixture"]}
        for stage in found["stages"]
    }


@pytest.mark.skipif(not shared_logs_folder().is_dir(), reason="needs other people's event logs")
def test_real_logs_have_the_topics_of_the_local_engine(spark: Any, shared_logs: Path) -> None:
    settings = TopicSettings()
    here = same(local(shared_logs, settings), on_spark(spark, shared_logs, settings))
    (found,) = here["topics"]
    assert found["count"] and any(stage["blamed"] for stage in found["stages"])


def test_a_trace_in_parquet_has_the_topics_of_the_local_engine(spark: Any, tmp_path: Path) -> None:
    planted = plant(30, 5, tasks=(20, 60))
    names = [feature.name for feature in planted.features.features]
    table = planted.features.frame[["stage", "duration_ms", *names]]
    table = table.rename(columns={"stage": "job id", "duration_ms": "took.s"})
    table["job id"] = table["job id"].astype("Int64")
    table.loc[table.index[7], "job id"] = pd.NA
    table.loc[table.index[8], "took.s"] = np.inf
    table["none"], table["below"], table["words"] = np.nan, -1.0, "x"
    table["machine"] = np.arange(len(table)) % 3
    trace = tmp_path / "trace.parquet"
    table.sample(frac=1, random_state=1).to_parquet(trace, row_group_size=100)
    columns = TraceColumns.parse("job=job id,latency=took.s,unit=s,host=machine")
    here = find_topics(read_trace(trace, columns), SETTINGS)
    there = trace_topics_on_spark(spark, str(trace), columns, SETTINGS)
    same(topics_to_json(None, [here]), topics_to_json(None, [there]))
    assert list(there.labels.stages) == list(here.labels.stages)
    assert len(here.topics) and "2 of" in here.doubts[0] and "none, below, words" in here.doubts[1]
    with pytest.raises(IqcarError, match=r"nothing\.parquet: cannot be read: .*PATH_NOT_FOUND"):
        trace_topics_on_spark(spark, str(tmp_path / "nothing.parquet"))
    with pytest.raises(UsageError, match="no column tells how long a task took"):
        trace_topics_on_spark(spark, str(trace), TraceColumns.parse("job=job id"))


def test_logs_without_jobs_and_folders_without_logs_say_so(
    spark: Any, fleet: list[Path], tmp_path: Path
) -> None:
    (few,) = (path for path in fleet if path.name == "app-f")
    same(local(few), on_spark(spark, few))
    tables, topics = topics_on_spark(spark, tmp_path)
    assert topics is None and tables.inputs["status"].tolist() == ["failed"]
    tables, topics = topics_on_spark(spark, fleet[-1])
    assert topics is None
    assert tables.inputs["message"].tolist() == read(fleet[-1]).inputs["message"].tolist()


def test_no_secret_of_a_log_comes_back(spark: Any, tmp_path: Path) -> None:
    hidden = "hunter2-and-more"
    log = fleet_log(f"app password={hidden}", 1, ("h",), stages=2)
    path = log.write(tmp_path / "app-1")
    tables, topics = topics_on_spark(spark, path, SETTINGS)
    assert topics is not None and len(topics.jobs) == 2
    result = topics_to_json(tables, [topics])
    everything = result.decode() + "".join(frame.to_csv() for _, frame in tables)
    assert hidden not in everything and "fleet app" in everything


def test_a_session_keeps_its_settings(spark: Any, fleet: list[Path]) -> None:
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(key, "777")
    topics_on_spark(spark, fleet[2], SETTINGS)
    assert spark.conf.get(key) == "777"
    with spark_session() as active:
        assert active is spark
    with (
        pytest.raises(UsageError, match=r"a session on local\[2\] is active"),
        spark_session("yarn"),
    ):
        pass
    assert spark.range(3).count() == 3
