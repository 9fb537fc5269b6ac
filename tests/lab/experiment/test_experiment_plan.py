"""Plans: what is refused with one line, what is printed without --yes, and the order of cells."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from iqcar.errors import UsageError
from iqcar_lab.experiment.experiment_plan import (
    Cell,
    LoadedPlan,
    Pair,
    at_level,
    cells_of,
    experiment_schema,
    next_cell,
    read_experiment,
    streams,
)
from iqcar_lab.inject.anomalies import CpuSettings, IoSettings, MemorySettings
from tests.support.command import iqcar_lab

GOOD: dict[str, Any] = {
    "queries": [{"name": "q", "command": ["true"]}],
    "resources": {"cpu": {"processes": 2}},
    "hosts": ["localhost"],
    "budget": "1s",
}
SQL = [{"name": "q", "sql": "SELECT 1"}]
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no query": ({"queries": []}, "Expected `array` of length >= 1 - at `$.queries`"),
    "two ways": (
        {"queries": [{"name": "q", "sql": "SELECT 1", "command": ["true"]}]},
        "queries[0]: give one of sql, file and command",
    ),
    "no way": ({"queries": [{"name": "q"}]}, "give one of sql, file and command"),
    "two of a name": ({"queries": 2 * GOOD["queries"]}, "two queries are called 'q'"),
    "no file": ({"queries": [{"name": "q", "file": "no.sql"}]}, "queries[0].file: cannot be read"),
    "SQL without a master": ({"queries": SQL}, "master: is missing"),
    "a strange resource": ({"resources": {"gpu": {}}}, "resources.gpu: is none of cpu, disk"),
    "a strange setting": ({"resources": {"cpu": {"rate": 1}}}, "cpu has no setting 'rate'"),
    "a strong hog": ({"resources": {"cpu": {"processes": 999}}}, "999 is not 1 to 64"),
    "a level above 1": ({"levels": [0, 2]}, "Expected `float` <= 1.0"),
    "only level 0": ({"levels": [0]}, "levels: only 0"),
    "another host": ({"hosts": ["elsewhere.example"]}, "is not this host"),
    "a host with a blank": ({"hosts": ["a b"]}, "is no host name"),
    "no host": ({"hosts": []}, "Expected `array` of length >= 1 - at `$.hosts`"),
    "no time": ({"budget": "soon"}, "budget: is no time of 10 ms or more: 'soon'"),
    "a long run": ({"longest_run": "2h"}, "longest_run: is longer than 1h"),
    "a typing error": ({"budgte": "1s"}, "unknown field `budgte`"),
    "a number as text": ({"repeats": "3"}, "Expected `int`, got `str`"),
    "no repeats": ({"repeats": 0}, "Expected `int` >= 1 - at `$.repeats`"),
}


def written(folder: Path, **changes: Any) -> str:
    file = folder / "plan.json"
    file.write_text(json.dumps({**GOOD, **changes}), "utf-8")
    return str(file)


@pytest.fixture
def plan(tmp_path: Path) -> LoadedPlan:
    resources = {"cpu": {"processes": 2}, "memory": {"size_bytes": 64 << 20}}
    return read_experiment(written(tmp_path, resources=resources, repeats=4, levels=[0, 0.5, 1]))


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_plan_is_refused_in_a_sentence(wrong: str, tmp_path: Path) -> None:
    changes, said = WRONG[wrong]
    with pytest.raises(UsageError, match=re.escape(said)):
        read_experiment(written(tmp_path, **changes))


@pytest.mark.parametrize("content", ["", "[]", "nul\0", '{"queries": 1}', "\xff"])
def test_what_is_no_plan_ends_the_command_with_one_line(content: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content.encode("latin-1"))
    done = iqcar_lab("experiment", str(file), "--yes")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "is no plan" in done.stderr


def test_secrets_of_a_plan_are_not_in_its_results(tmp_path: Path) -> None:
    conf = {"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.executor.memory": "4g"}
    sql = "CREATE TABLE t OPTIONS (url 'jdbc:x://h/db', password 'hunter3')"
    plan = read_experiment(written(tmp_path, conf=conf, setup=[sql]))
    kept = json.dumps(plan.as_given)
    assert "hunter" not in kept and "4g" in kept
    assert (plan.conf, plan.setup) == (conf, (sql,))


def test_the_schema_takes_what_is_read_and_its_example(tmp_path: Path) -> None:
    schema = json.loads(experiment_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(GOOD, schema)
    for name in ("no query", "two ways", "a strange resource", "a level above 1", "a typing error"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**GOOD, **WRONG[name][0]}, schema)


def test_the_example_of_the_docs_is_a_plan() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "experiment.md").read_text("utf-8")
    lines = page.split("A plan (`iqcar-lab schema experiment`):", 1)[1].split("| Field", 1)[0]
    jsonschema.validate(json.loads(lines), json.loads(experiment_schema()))


def test_tasks_count_on_every_name_of_this_machine(tmp_path: Path) -> None:
    plan = read_experiment(written(tmp_path, hosts=["127.0.0.2"]))
    assert {"127.0.0.2", "127.0.0.1", "localhost"} <= plan.loaded_hosts


def test_without_yes_nothing_runs_and_it_says_how(tmp_path: Path) -> None:
    left = tmp_path / "left behind"
    queries = [{"name": "q", "command": ["touch", str(left)]}]
    file = written(tmp_path, queries=queries, longest_run="30s")
    done = iqcar_lab("experiment", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"iqcar-lab experiment {file} --yes" in " ".join(done.stdout.split())
    assert "localhost" in done.stdout and "at most" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json"]


def test_a_level_is_a_share_of_the_hogs() -> None:
    full = CpuSettings(processes=2)
    assert [streams(at_level(full, level), full) for level in (0.25, 0.5, 0.75, 1.0)] == (
        pytest.approx([0.5, 1.0, 1.5, 2.0])
    )
    disk = IoSettings(processes=8, rate_bytes_per_s=80.0)
    half = at_level(disk, 0.5)
    assert (half.processes, streams(half, disk)) == (4, 4.0)
    assert isinstance(half, IoSettings) and half.rate_bytes_per_s == 40.0
    memory = MemorySettings(size_bytes=64 << 20)
    assert streams(at_level(memory, 0.5), memory) == 0.5


def test_every_cell_comes_once_before_any_comes_again(plan: LoadedPlan) -> None:
    cells = cells_of(plan)
    pairs: list[Pair] = []
    while len(pairs) < len(cells):
        cell = next_cell(plan, pairs, {"q": 2.0})
        assert cell is not None
        pairs.append(Pair(cell, 1000.0, 1200.0))
    assert {pair.cell for pair in pairs} == set(cells)
    assert pairs[0].cell.level == 1


def test_the_least_certain_curve_is_measured_next(plan: LoadedPlan) -> None:
    slow = {"cpu": (1500.0, 1500.0), "memory": (1100.0, 2500.0)}
    pairs = [
        Pair(cell, 1000.0, slow[cell.resource][turn]) for turn in (0, 1) for cell in cells_of(plan)
    ]
    chosen = next_cell(plan, pairs, {"q": 1.0})
    assert chosen is not None and chosen.resource == "memory"


def test_all_cells_are_repeated_as_often_as_planned_and_failed_ones_are_not(
    plan: LoadedPlan,
) -> None:
    broken = Cell("q", "memory", 1.0)
    pairs: list[Pair] = []
    while (cell := next_cell(plan, pairs, {"q": 2.0})) is not None:
        pairs.append(Pair(cell, 1000.0, float("nan") if cell == broken else 1500.0))
    runs = Counter(pair.cell for pair in pairs)
    assert runs.pop(broken) == 1
    assert set(runs.values()) == {plan.repeats}
