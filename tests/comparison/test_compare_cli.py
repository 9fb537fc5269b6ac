"""``iqcar compare`` on the command line: what it prints, writes, and how it ends."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from iqcar.show.json.compare import compare_schema
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.command import iqcar
from tests.support.compared_runs import (
    FIRST_DAY_MS,
    SUITE,
    QueryWork,
    StageWork,
    run_log,
    suite_with,
    write_runs,
)

SLOWER = suite_with(etl_load=SUITE["etl_load"].slower(1, 1.5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs before, four quiet ones, and four with a slower join."""
    root = tmp_path_factory.mktemp("compared")
    write_runs(root / "before", SUITE)
    write_runs(root / "quiet", SUITE, first_day=10)
    write_runs(root / "slower", SLOWER, first_day=20, spark_executor_memory="4g")
    return root


def test_a_slower_stage_is_found_and_its_part_named(folder: Path) -> None:
    done = iqcar("compare", folder / "before", folder / "slower")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1 query changed. Most: etl_load +2.3 s a run (+25 %)")
    assert lines[1].startswith("4 runs before, 4 after · 3 queries in both · total 18.3 s → 20.6 s")
    assert "spark.executor.memory not set → 4g" in lines[2]
    first = next(line for line in lines if "1. etl_load" in line)
    assert "9.2 s" in first
    assert "11.5 s" in first
    assert "4/4" in first
    assert "rate  " in first
    assert "compute +2.0 s" in first
    assert not any(line.lstrip().startswith("2. ") for line in lines)
    assert "Unchanged within ±5 %: 2 queries." in lines


def test_equal_sets_are_quiet(folder: Path) -> None:
    done = iqcar("compare", folder / "before", folder / "quiet", "--fail-on", "1%")
    assert done.returncode == 0
    assert "Nothing changed." in done.stdout


def test_json_keeps_its_schema_and_parts_sum(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "compared.json"
    done = iqcar(
        "compare", folder / "before", folder / "slower", "--json", out, "--fail-on", "etl_load=10%"
    )
    assert done.returncode == 4, done.stderr
    result = json.loads(out.read_text())
    schema = json.loads(compare_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(result, schema)
    query, stage = result["changes"]
    assert query["query"]["name_after"] == "etl_load"
    assert query["stage"] is None
    assert stage["parent"] == 0
    assert stage["stage"]["after"] == {"application_id": "app-20", "stage_id": 1}
    for change in result["changes"]:
        assert sum(change["parts_ms"].values()) == pytest.approx(change["contribution_ms"])
        low, high = change["interval_ms"]
        assert low < change["contribution_ms"] < high
        assert [len(runs) for runs in change["runs_ms"]] == change["runs"] == [4, 4]
    assert result["gate"]["passed"] is False
    assert {one["query"]["name_after"] for one in result["same"]} == {"sessions", "dashboard"}


def test_the_gate_fails_with_its_reason_as_the_last_line(folder: Path) -> None:
    done = iqcar("compare", folder / "before", folder / "slower", "--fail-on", "10%")
    assert done.returncode == 4
    last = done.stdout.splitlines()[-1]
    assert last == "failed: etl_load: 9.2 s → 11.5 s, slower than allowed (10 %)"


@pytest.mark.long
@pytest.mark.parametrize("limit", ["60%", "5s", "sessions=1%", "dashboard=1ms"])
def test_the_gate_passes_what_is_not_slower_than_its_limit(folder: Path, limit: str) -> None:
    done = iqcar("compare", folder / "before", folder / "slower", "--fail-on", limit)
    assert done.returncode == 0, done.stdout


def test_a_baseline_stands_in_for_the_logs_before(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "baseline.json"
    assert iqcar("compare", folder / "before", "--save-baseline", kept).returncode == 0
    assert kept.stat().st_size < 30_000
    from_logs = iqcar("compare", folder / "before", folder / "slower", "--json", "-")
    from_file = iqcar("compare", kept, folder / "slower", "--json", "-")
    one, other = json.loads(from_logs.stdout), json.loads(from_file.stdout)
    for change in one["changes"]:
        if change["stage"]:
            change["stage"]["before"] = None  # a baseline keeps no stage ids
    assert one == other


def test_a_damaged_baseline_is_refused(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "baseline.json"
    kept.write_text('{"iqcar_baseline":1,"facts":[]}')
    done = iqcar("compare", kept, folder / "slower")
    assert done.returncode == 1
    assert "is a damaged baseline" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_one_set_is_cut_in_time(folder: Path, tmp_path: Path) -> None:
    for source in ("before", "slower"):
        for log in (folder / source).iterdir():
            (tmp_path / log.name).write_bytes(log.read_bytes())
    moment = FIRST_DAY_MS / 1000 + 15 * 24 * 3600
    from datetime import datetime, timezone

    time = datetime.fromtimestamp(moment, timezone.utc).isoformat()
    cut = iqcar("compare", tmp_path, "--split", time, "--json", "-")
    whole = iqcar("compare", folder / "before", folder / "slower", "--json", "-")
    changes = [json.loads(done.stdout)["changes"] for done in (cut, whole)]
    assert changes[0] == changes[1]


def test_loose_logs_are_added_to_their_side(folder: Path) -> None:
    before, after = (sorted((folder / name).iterdir()) for name in ("before", "slower"))
    more = [word for log in before[1:] for word in ("--before", log)]
    more += [word for log in after[1:] for word in ("--after", log)]
    done = iqcar("compare", before[0], after[0], *more)
    assert done.stdout.split("\n")[1].startswith("4 runs before, 4 after")


@pytest.mark.slow
def test_renamed_queries_are_one_by_plan_or_by_a_pair(folder: Path, tmp_path: Path) -> None:
    renamed = {f"v2 {name}": work for name, work in SUITE.items()}
    write_runs(tmp_path / "after", renamed, first_day=30)
    done = iqcar("compare", folder / "before", tmp_path / "after", "--match", "name")
    assert done.returncode == 1
    assert "no query is on both sides" in done.stderr
    assert "--pair OLD=NEW" in done.stderr
    done = iqcar("compare", folder / "before", tmp_path / "after")
    assert "3 queries in both" in done.stdout
    assert "Nothing changed." in done.stdout
    pair = "sessions=v2 sessions"
    words = ("--match", "name", "--pair", pair)
    done = iqcar("compare", folder / "before", tmp_path / "after", *words)
    assert "1 query in both, 2 only before, 2 only after" in done.stdout


def test_another_stage_graph_is_structure_and_can_fail_the_gate(
    folder: Path, tmp_path: Path
) -> None:
    stages = SUITE["sessions"].stages
    broadcast = QueryWork((stages[0], StageWork("broadcast", 1, 300.0), stages[1]))
    write_runs(tmp_path / "after", suite_with(sessions=broadcast), first_day=30)
    words = ("--structure-only", "--json", "-", "--fail-on-new-plan")
    done = iqcar("compare", folder / "before", tmp_path / "after", *words)
    assert done.returncode == 4
    result = json.loads(done.stdout)
    assert [change["kind"] for change in result["changes"]] == ["structure", "added"]
    assert result["changes"][1]["contribution_ms"] == pytest.approx(300, rel=0.2)
    assert result["gate"]["failures"] == ["sessions: its stages are others than before"]


def test_new_and_gone_queries_are_listed_and_pass_the_gate(folder: Path, tmp_path: Path) -> None:
    other = {"sessions": SUITE["sessions"], "fresh": QueryWork((StageWork("generate", 4, 900.0),))}
    write_runs(tmp_path / "after", other, first_day=30)
    done = iqcar(
        "compare", folder / "before", tmp_path / "after", "--json", "-", "--fail-on", "10%"
    )
    assert done.returncode == 0
    kinds = {
        change["query"]["name_after"] or change["query"]["name_before"]: change["kind"]
        for change in json.loads(done.stdout)["changes"]
    }
    assert kinds == {"etl_load": "removed", "dashboard": "removed", "fresh": "added"}


@pytest.mark.slow
def test_one_query_can_be_shown_alone(folder: Path) -> None:
    done = iqcar("compare", folder / "before", folder / "slower", "--query", "sessions")
    assert "etl_load" not in done.stdout
    assert "Unchanged within ±5 %: 1 query." in done.stdout
    done = iqcar("compare", folder / "before", folder / "slower", "--query", "session")
    assert done.returncode == 2
    assert "did you mean sessions" in done.stderr


@pytest.mark.slow
def test_a_change_is_explained_and_asked_again_without_a_parameter(folder: Path) -> None:
    words = ("compare", folder / "before", folder / "slower", "--explain")
    done = iqcar(*words, "1.1")
    first, answer, others = done.stdout.splitlines()
    assert first == "join of etl_load: 5.0 s → 7.4 s"
    assert "spark.executor.memory is 4g in 4 of 4 runs after and 0 of 4 before" in answer
    assert "compute_ms" in others
    again = iqcar(*words, "1.1", "--without", "spark.executor.memory").stdout.splitlines()
    assert "compute_ms is above 5.0 s in 4 of 4 runs after and 0 of 4 before" in again[1]
    for wrong, message in (("7", "there is no change 7"), ("etl", "did you mean etl_load")):
        done = iqcar(*words, wrong)
        assert done.returncode == 2
        assert message in done.stderr
    done = iqcar(*words, "1", "--without", "compute")
    assert done.returncode == 2
    assert "did you mean compute_ms" in done.stderr


def test_more_data_is_told_from_slower_code(folder: Path, tmp_path: Path) -> None:
    scan, window = SUITE["sessions"].stages
    grown = replace(window, task_ms=window.task_ms * 2, task_bytes=window.task_bytes * 2)
    write_runs(tmp_path / "after", suite_with(sessions=QueryWork((scan, grown))), first_day=30)
    result = json.loads(
        iqcar("compare", folder / "before", tmp_path / "after", "--json", "-").stdout
    )
    assert {change["kind"] for change in result["changes"]} == {"data"}
    assert "bytes" in result["changes"][1]["evidence"]


def test_one_run_a_side_says_what_it_rests_on(folder: Path) -> None:
    logs = [sorted((folder / name).iterdir())[0] for name in ("before", "slower")]
    done = iqcar("compare", *logs)
    assert done.returncode == 0
    assert "There is one run on either side" in done.stdout
    assert "1. etl_load" in done.stdout


def test_the_same_logs_on_both_sides_are_a_doubt(folder: Path) -> None:
    done = iqcar("compare", folder / "before", folder / "before")
    assert "Nothing changed." in done.stdout
    assert "Both sides are the same applications" in done.stdout


def test_runs_of_different_lengths_are_a_doubt(folder: Path, tmp_path: Path) -> None:
    write_runs(tmp_path / "after", SUITE, 3, first_day=30)
    short = run_log("app-40", {"sessions": SUITE["sessions"]}, 40)
    short.write(tmp_path / "after" / "app-40")
    done = iqcar("compare", folder / "before", tmp_path / "after")
    assert "1 of 8 runs hold less than half of the queries" in done.stdout
    assert "Nothing changed." in done.stdout


def test_other_machines_are_a_doubt(folder: Path, tmp_path: Path) -> None:
    write_runs(tmp_path / "after", SUITE, first_day=30, host="other")
    done = iqcar("compare", folder / "before", tmp_path / "after")
    assert "hosts 1 × 4 cores → 1 × 4 cores, none on both sides" in " ".join(done.stdout.split())
    assert "No host is on both sides" in done.stdout


def test_cannot_tell_says_how_many_runs_would(tmp_path: Path) -> None:
    write_runs(tmp_path / "before", SUITE, 2, noise=0.3)
    write_runs(tmp_path / "after", SUITE, 2, noise=0.3, first_day=10)
    words = ("compare", tmp_path / "before", tmp_path / "after", "--fail-on", "10%")
    done = iqcar(*words)
    assert done.returncode == 0
    assert "Cannot tell: " in done.stdout
    assert " runs a side" in done.stdout
    strict = iqcar(
        "compare", tmp_path / "before", tmp_path / "after", "--fail-on", "10%", "--strict"
    )
    assert strict.returncode == 4
    assert "cannot tell whether it changed" in strict.stdout.splitlines()[-1]


def test_a_damaged_log_is_compared_as_far_as_it_goes_with_code_3(
    folder: Path, tmp_path: Path
) -> None:
    write_runs(tmp_path / "after", SUITE, first_day=30)
    log = tmp_path / "after" / "app-31"
    whole = gzip.compress(log.read_bytes())
    log.with_suffix(".gz").write_bytes(whole[: len(whole) // 2])
    log.unlink()
    done = iqcar("compare", folder / "before", tmp_path / "after")
    assert done.returncode == 3
    assert done.stdout.split("\n")[1].startswith("4 runs before, 3 after")
    assert "1 of 10 runs of queries had not ended when the log was read" in done.stdout


def test_a_log_still_being_written_has_nothing_that_ended(folder: Path, tmp_path: Path) -> None:
    log = run_log("app-9", {"etl_load": SUITE["etl_load"]}, 9)
    running = SyntheticLog("app-9", None)
    running.lines = log.lines[:8]
    running.write(tmp_path / "app-9.inprogress")
    done = iqcar("compare", folder / "before", tmp_path)
    assert done.returncode == 1
    assert "nothing to compare after: no query ended well" in done.stderr
    assert "had not ended when the log was read" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("before",), "no logs of the runs after"),
        ((), "no logs of the runs before"),
        (("before", "slower", "--margin", "much"), "--margin: is no share: 'much'"),
        (("before", "slower", "--margin", "0"), "--margin: is out of range: 0"),
        (("before", "slower", "--alpha", "0.7"), "--alpha: is out of range: 0.7"),
        (("before", "slower", "--pair", "one"), "--pair: is no pair: 'one'"),
        (("before", "slower", "--pair", "one=two"), "--pair: no query is called 'one'"),
        (("before", "slower", "--fail-on", "fast"), "--fail-on: is no limit: 'fast'"),
        (("before", "slower", "--fail-on", "x=10%"), "no query is called 'x'"),
        (("before", "slower", "--without", "cpu_ms"), "--without: leaves parameters out of"),
        (("before", "--split", "today"), "--split: is no time: 'today'"),
        (("before", "slower", "--split", "2026-10-01"), "--split: cuts one set of logs"),
    ],
)
def test_wrong_usage_is_one_sentence_with_code_2(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    done = iqcar("compare", *words, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_side_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    done = iqcar("compare", folder / "before", tmp_path)
    assert done.returncode == 1
    assert "no event log here" in done.stderr
    assert len(done.stderr.splitlines()) == 1
