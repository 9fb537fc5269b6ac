"""Many logs diagnosed on a real Spark are in the store as one process would put them there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from iqcar.apps.cli.main import app
from iqcar.errors import UsageError
from iqcar.fleet import grouped_on_spark, on_spark, spark_session
from iqcar.history import add
from iqcar.history.add_logs import diagnosed_rows
from iqcar.history.store_views import view_of
from iqcar.history.stored_files import STORED
from iqcar.logs.find.locate import EventLog, locate
from iqcar.logs.text import SHARED, shared_file
from tests.support import quick_spark
from tests.support.command import iqcar
from tests.support.fleet_logs import fleet_log
from tests.support.listener_spark import APP_TIMEOUT_S, spark_params
from tests.support.standalone_cluster import HOSTS, Cluster

pytestmark = [
    pytest.mark.long("analyzer/iqcar/fleet", "analyzer/iqcar/history", "listener/src"),
    pytest.mark.spark,
    pytest.mark.skipif(not shutil.which("java"), reason="needs a JDK"),
]
GROUPS = {("app-a", "app-b"), ("app-g",), ("app-z",), ("local-123",)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two applications that met, one that ran later on a host of theirs, one cut, and no log."""
    folder = tmp_path_factory.mktemp("fleet")
    hosts = ("shared", "only-a")
    fleet_log("app-a", 1, hosts).write(folder / "app-a")
    fleet_log("app-b", 2, ("shared",), 1_001_000).write(folder / "app-b")
    fleet_log("app-z", 8, hosts, start=90_000_000, stages=2, tasks=3).write(folder / "app-z")
    cut = fleet_log("app-g", 7, ("alone",), stages=2, tasks=3).write(folder / "app-g")
    cut.write_bytes(cut.read_bytes()[:-700])
    (folder / "local-123").write_text("this is no event log\n" * 3)
    return folder


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the real command with Spark's environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "iqcar", "analyze", *map(str, arguments), "--on-spark"],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
    )


@pytest.fixture(params=spark_params())
def real_spark(request: pytest.FixtureRequest) -> Any:
    """Skips where there is no Spark."""
    return request.param


def test_what_the_executors_python_lacks_is_named(
    real_spark: Any, fleet: Path, tmp_path: Path
) -> None:
    (tmp_path / "networkx.py").write_text("raise ImportError('No module named networkx')")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    done = command(
        fleet / "app-a", "--store", tmp_path / "store", "--master", "local[1]",
        PYSPARK_PYTHON=str(python),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()[-1]
    assert "the executors' Python lacks something: No module named networkx" in said
    assert "PYSPARK_PYTHON" in said and "Traceback" not in done.stderr


def test_a_master_that_is_none_is_one_line(real_spark: Any, fleet: Path, tmp_path: Path) -> None:
    done = command(fleet / "app-a", "--store", tmp_path, "--master", "nonsense://x")
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()[-1]
    assert said.startswith("iqcar: nonsense://x: Spark did not start: ")


def test_executors_on_two_hosts_run_the_code_that_was_shipped(
    cluster: Cluster, fleet: Path, tmp_path: Path
) -> None:
    quick = f"--conf 'spark.executor.defaultJavaOptions={quick_spark.options()}' pyspark-shell"
    done = command(
        fleet, "--store", tmp_path / "store", "--json", "-", "--master", cluster.master,
        PYSPARK_PYTHON=sys.executable, PYSPARK_SUBMIT_ARGS=quick,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr[-3000:]
    written = json.loads(done.stdout)
    assert (written["question"], written["added"], len(written["failed"])) == ("add", 4, 1)
    unpacked = cluster.folder.glob("*/app-*/*/iqcar-*.zip.unpacked/iqcar/fleet/on_spark.py")
    assert {path.relative_to(cluster.folder).parts[0] for path in unpacked} == set(HOSTS)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    with spark_session("local[2]") as session:
        yield session


def found_logs(*paths: Path) -> list[EventLog]:
    return [one for one in locate(paths) if isinstance(one, EventLog)]


def test_each_group_is_diagnosed_as_in_one_process(spark: Any, fleet: Path) -> None:
    answers, cuts = grouped_on_spark(spark, found_logs(fleet), "history.add_logs.attempt")
    assert cuts == 0
    assert {tuple(Path(log.path).name for log in logs) for logs, _ in answers} == GROUPS
    for logs, rows in answers:
        here = diagnosed_rows(logs, 1)
        assert rows.keys() == here.keys()
        for name, frame in here.items():
            pd.testing.assert_frame_equal(rows[name], frame)
    pair = next(rows for logs, rows in answers if logs[0].path.endswith("app-a"))
    apart, cuts = grouped_on_spark(
        spark, found_logs(fleet / "app-a", fleet / "app-b"), "history.add_logs.attempt",
        most_tasks=200,
    )  # fmt: skip
    # What is compared holds something: blame across applications, which a cut loses.
    assert blamed(pair) == {"app-a", "app-b"}
    assert cuts == 1 and [len(blamed(rows)) for _, rows in apart] == [1, 1]


def blamed(rows: dict[str, pd.DataFrame]) -> set[str]:
    return set(rows["blame"]["source_application_id"]) - {""}


def test_the_command_fills_a_store_and_ranks_what_was_lost(
    spark: Any, fleet: Path, tmp_path: Path
) -> None:
    store, out = tmp_path / "store", tmp_path / "added.json"
    words = ["analyze", str(fleet), "--on-spark", "--store", str(store)]
    done = CliRunner().invoke(app, [*words, "--json", str(out)])
    assert done.exit_code == 3, done.output
    written = json.loads(out.read_text())
    assert (written["added"], written["partial"], written["cut"]) == (4, 1, 0)
    assert [one["path"] for one in written["failed"]] == [str(fleet / "local-123")]
    assert f"{store}: 4 applications added" in done.output and "Hot resource" in done.output
    again = CliRunner().invoke(app, words)
    said = " ".join(again.output.split())
    assert "0 applications added" in said and "4 logs were known" in said
    here = str(tmp_path / "here")
    add(here, [fleet / "app-a", fleet / "app-b"], processes=1)
    for table in STORED:
        sql = (
            f"SELECT * EXCLUDE batch FROM {table.name} "  # noqa: S608
            "WHERE application_id IN ('app-a', 'app-b') ORDER BY ALL"
        )
        pd.testing.assert_frame_equal(view_of(str(store)).ask(sql), view_of(here).ask(sql))


def test_a_bug_in_one_application_leaves_out_that_application_only(
    spark: Any, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy" / "iqcar"
    shutil.copytree(on_spark.PACKAGE, copy)
    (copy / "data").mkdir()
    for path in map(shared_file, SHARED):
        shutil.copy(path, copy / "data")
    place = copy / "causes" / "blame" / "attribute.py"
    source = place.read_text(encoding="utf-8")
    line = "    columns = BlameColumns.from_tables(tables, waits)\n    tasks, pieces"
    assert source.count(line) == 1
    bug = "    if 'app-b' in set(tables.applications['application_id']):\n        1 / 0\n"
    place.write_text(source.replace(line, bug + line), encoding="utf-8")
    monkeypatch.setattr(on_spark, "PACKAGE", copy)
    logs = found_logs(fleet / "app-a", fleet / "app-b")
    ((_, rows),), _ = grouped_on_spark(spark, logs, "history.add_logs.attempt")
    assert rows["applications"]["application_id"].tolist() == ["app-a"]
    (failed,) = rows["failed"].itertuples()
    assert failed.path == str(fleet / "app-b") and "ZeroDivisionError at " in failed.message


def test_a_session_stays_as_it_was(spark: Any, fleet: Path) -> None:
    grouped_on_spark(spark, found_logs(fleet / "app-z"), "history.add_logs.attempt")
    with spark_session() as active:
        assert active is spark
    with (
        pytest.raises(UsageError, match=r"a session on local\[2\] is active"),
        spark_session("yarn"),
    ):
        pass
    assert spark.range(3).count() == 3


def test_without_pyspark_one_line_says_what_to_install(fleet: Path, tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['pyspark'] = None\n"
        f"sys.argv = ['iqcar', 'analyze', {str(fleet)!r}, '--on-spark', '--store', 's']\n"
        "from iqcar.apps.cli.main import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "iqcar: --on-spark: needs pyspark; pip install 'iqcar[spark]'\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--master", "local[1]"], "--master: goes with --on-spark only"),
        (["--on-spark"], "--on-spark: needs a place for what is found; give --store STORE"),
        (["--on-spark", "--store", "s", "--samples", "s.jsonl"], "--samples: does not go with"),
        (["--on-spark", "--store", "s", "--query-by", "job"], "--query-by: does not go with"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    fleet: Path, arguments: list[str], says: str
) -> None:
    done = iqcar("analyze", fleet, *arguments)
    assert done.returncode == 2 and says in done.stderr
