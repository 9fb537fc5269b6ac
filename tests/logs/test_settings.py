"""The table of settings: versions, Spark properties, what sessions changed; without secrets."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from iqcar.logs.events.lenient import BadNumbers
from iqcar.logs.events.settings import MOST_SETTINGS, settings_of
from iqcar.pipeline import read
from iqcar.tables import Tables
from iqcar_lab.clusters.event_log import SyntheticLog, node

PARTITIONS = "spark.sql.shuffle.partitions"


def rows(tables: Tables) -> list[tuple[int, int, str, str]]:
    return [tuple(row) for row in tables.conf.itertuples(index=False)]


def log(app_id: str, partitions: str = "200") -> SyntheticLog:
    return (
        SyntheticLog(app_id)
        .event(
            "SparkListenerEnvironmentUpdate",
            {
                "JVM Information": {"Java Version": "17.0.9 (Ubuntu)", "Scala Version": "2.13.16"},
                "Spark Properties": {PARTITIONS: partitions, "spark.task.cpus": 2},
                "System Properties": {"user.name": "ann"},
            },
        )
        .app()
        .sql(0, node("Range"), modifiedConfigs={PARTITIONS: "8", "spark.x": "1"})
        .sql(1, node("Range"), modifiedConfigs={PARTITIONS: "200"})
        .sql(2, node("Range"))
        .job(0, [0], properties={"spark.sql.execution.id": "0"})
        .end()
    )


def test_versions_properties_and_what_a_session_changed_are_rows(tmp_path: Path) -> None:
    tables = read(log("app-1").write(tmp_path / "app-1"))
    assert rows(tables) == [
        (0, -1, "spark.version", "4.0.0"),
        (0, -1, "java.version", "17.0.9 (Ubuntu)"),
        (0, -1, "scala.version", "2.13.16"),
        (0, -1, PARTITIONS, "200"),
        (0, -1, "spark.task.cpus", "2"),
        (0, 0, PARTITIONS, "8"),
        (0, 0, "spark.x", "1"),
    ]
    assert tables.applications["task_cpus"].tolist() == [2.0]


def test_settings_of_several_logs_keep_their_application_and_execution(tmp_path: Path) -> None:
    for app in ("app-1", "app-2"):
        log(app, "100" if app == "app-2" else "200").write(tmp_path / app)
    tables = read(tmp_path)
    changed = tables.conf[tables.conf["sql_execution"] >= 0]
    owner = tables.sql_executions["app"].to_numpy()[changed["sql_execution"].to_numpy()]
    assert owner.tolist() == changed["app"].tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.ssl.keyPassword", "two hunter22 words"),
        ("spark.hadoop.fs.s3a.secret.key", "hunter22"),
        ("spark.hadoop.fs.azure.sas.box.account.blob.core.windows.net", "sv=2022&hunter22"),
        ("spark.hadoop.fs.azure.account.key.me", "hunter22"),
        ("spark.eventhubs.connectionString", "Endpoint=sb://x;hunter22"),
        ("spark.executorEnv.AWS_SECRET_ACCESS_KEY", "hunter22"),
        ("spark.executor.extraJavaOptions", "-Xmx1g -Ddb.password=hunter22 -Dx=1"),
        ("spark.jars", "https://ann:hunter22@host/a.jar"),
        ("spark.note", "Authorization: Bearer hunter22hunter22"),
        ("spark.sql.warehouse.dir", "x" * 2_000 + " password=hunter22"),
        ("spark.of.ghp_" + "hunter22" * 5, "1"),
    ],
)
def test_no_secret_reaches_the_table(key: str, value: str, tmp_path: Path) -> None:
    properties = {"Spark Properties": {key: value, "spark.z": "1"}}
    made = SyntheticLog("app-1").event("SparkListenerEnvironmentUpdate", properties).app()
    made.sql(0, node("Range"), modifiedConfigs={key: value, "spark.y": "1"})
    tables = read(made.job(0, [0]).end().write(tmp_path / "app-1"))
    assert len(tables.conf) > 2
    assert "hunter22" not in tables.conf.to_string(max_colwidth=None)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"null", b'{"a":', b'{"a":{},"b":null}', b"1"])
def test_damaged_settings_are_none(raw: bytes) -> None:
    assert settings_of(msgspec.Raw(raw), BadNumbers()) == {}


def test_settings_are_bounded_and_printable() -> None:
    many = msgspec.json.encode({f"k{n}": "v" for n in range(MOST_SETTINGS + 5)})
    assert len(settings_of(msgspec.Raw(many), BadNumbers())) == MOST_SETTINGS
    odd, long = b'{"a":"x\\ud800","b":true}', msgspec.json.encode({"a": "x" * 10**6})
    assert settings_of(msgspec.Raw(odd), BadNumbers()) == {"a": "x?", "b": "True"}
    assert len(settings_of(msgspec.Raw(long), BadNumbers())["a"]) == 1000
