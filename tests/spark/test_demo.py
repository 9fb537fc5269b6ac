"""The demo on a real Spark: recorded, diagnosed, run again with the rules, compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from iqcar.apps.demo import workload
from iqcar.apps.demo.mix import HEAVY_HITTER, SCHEDULE
from iqcar.base.units import duration, one_unit
from iqcar.rules.compile_pools import load_rules_file
from tests.support.browsing import needs_chromium, open_browser
from tests.support.shown_page import show

PATIENCE_S = 900
SHOWN = [arrival for arrival in SCHEDULE if arrival.name not in ("q75", "q88")]
COMMAND = f"""
import sys
from iqcar.apps.demo import mix
mix.HEAVY_COPIES = 0.5
mix.SCHEDULE = [one for one in mix.SCHEDULE if one.name in {[one.name for one in SHOWN]}]
from iqcar.apps.cli.main import main
sys.argv[0] = "iqcar"
main()
"""
"""The command, with a heavy hitter that does a twentieth of its work: still the most of all; and
without the two queries whose plans take Spark longest to compile."""

pytestmark = pytest.mark.long("analyzer/iqcar/apps/demo", "listener/src")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command leaves; with little data, so that it takes a minute."""
    folder = tmp_path_factory.mktemp("demo") / "with a space"
    command = [sys.executable, "-c", COMMAND, "demo", "--scale", "0.02", "--out", str(folder)]
    result = folder.parent / "demo.json"
    done = subprocess.run(
        [*command, "--json", str(result)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    (folder / "said.txt").write_text(done.stdout, "utf-8")
    (folder / "warned.txt").write_text(done.stderr, "utf-8")
    return folder


@pytest.mark.spark
def test_both_runs_are_recorded_and_compared_query_by_query(out: Path) -> None:
    result = json.loads((out.parent / "demo.json").read_text("utf-8"))
    names = {arrival.name for arrival in SHOWN}
    assert {query["name"] for query in result["queries"]} == names
    assert all(query["before_s"] > 0 and query["after_s"] > 0 for query in result["queries"])
    assert {row["name"] for row in result["check"]["queries"]} == names
    assert Path(result["logs"]["before"]).is_file() and Path(result["logs"]["after"]).is_file()
    assert "What the rules changed" in (out / "said.txt").read_text("utf-8")


@pytest.mark.spark
def test_ends_with_a_what_if_beside_what_was_measured(out: Path) -> None:
    result = json.loads((out.parent / "demo.json").read_text("utf-8"))
    what_if = result["what_if"]
    assert {query["name"] for query in what_if["queries"]} == {one.name for one in SHOWN}
    title = "What if each query had run in the pool of its rule"
    said = (out / "said.txt").read_text("utf-8").split(title)[1]
    lines = {line.split()[0]: line for line in said.splitlines() if line}
    times = {query["name"]: query for query in result["queries"]}
    for query in what_if["queries"]:
        before, after = (times[query["name"]][f"{side}_s"] for side in ("before", "after"))
        assert 0.5 * before < query["recorded_s"] <= before * 1.01
        assert 0.5 * after < query["measured_s"] <= after * 1.01
        known = ("low_s", "predicted_s", "high_s") if query["predicted_s"] is not None else ()
        for column in ("recorded_s", "measured_s", *known):
            assert duration(1e3 * query[column]) in lines[query["name"]]
        if known:
            assert query["low_s"] <= query["predicted_s"] <= query["high_s"]
            assert query["holds"] is (query["low_s"] <= query["measured_s"] <= query["high_s"])


@pytest.mark.spark
def test_the_second_run_was_scheduled_by_the_rules(out: Path) -> None:
    plan = load_rules_file(str(out / "rules.json")).plan
    result = json.loads((out.parent / "demo.json").read_text("utf-8"))
    ruled = {assignment.rule_id for assignment in plan.assignments}
    assert ruled, "with every slot taken by one query there is something to rule"
    applied = {rule["id"]: rule["applied"] for rule in result["check"]["rules"]}
    assert {applied[rule] for rule in ruled} == {"yes"}


@needs_chromium
@pytest.mark.spark
def test_the_first_run_can_be_explored_in_a_browser(out: Path) -> None:
    diagnosis = json.loads((out / "diagnosis.json").read_text("utf-8"))
    queries = [query for query in diagnosis["queries"] if query["target"]]
    worst = max(queries, key=lambda query: query["lost_to_others_ms"])
    with open_browser() as browser:
        shown = show(browser, out / "report.html")
        assert "The demo, before the rules" in shown.page.title()
        shown.page.select_option("#target", worst["query_id"])
        facts = shown.page.locator("#target-facts").inner_text()
        lost, ran = duration(worst["lost_ms"]), duration(worst["duration_ms"])
        assert f"ran {ran} and lost {lost}" in facts
        assert f"CPU {duration(worst['waits']['cpu']['ms'])} (measured" in facts
        sources = {row[0]: row[1] for row in shown.rows("#sources-numbers")}
        written = one_unit(part["lost_ms"] for part in worst["blame"])
        for part in worst["blame"]:
            if part["kind"] == "query" and part["lost_ms"] > 0:
                assert sources[part["source_name"]] == written(part["lost_ms"])
        (host,) = shown.rows("#hosts-table")
        assert "not recorded" not in host, "the plugin sampled it"
        shown.screenshot("report-demo")
        shown.check_nothing_went_wrong()


@pytest.mark.spark
def test_the_heavy_hitter_is_found(out: Path) -> None:
    diagnosis = json.loads((out / "diagnosis.json").read_text("utf-8"))
    worst = diagnosis["aggressive_queries"][0]
    assert worst["name"] == HEAVY_HITTER


@pytest.mark.spark
def test_says_beforehand_what_it_does_and_ends_with_the_report(out: Path) -> None:
    first, second = (out / "said.txt").read_text("utf-8").splitlines()[:2]
    assert "runs them again with the rules" in first and "three minutes" in second
    last = (out / "warned.txt").read_text("utf-8").splitlines()[-1]
    assert last.startswith(f"Report: {(out / 'report.html').as_uri()}") and "--open" in last


@pytest.mark.parametrize(("each_s", "within_s", "runs"), [(20, 70, 3), (30, 70, 2), (80, 70, 1)])
def test_the_mix_runs_three_times_where_time_allows(
    each_s: float, within_s: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def run(*_: object) -> list[dict[str, object]]:
        now[0] += each_s
        return [{"name": "q", "duration_s": each_s}]

    monkeypatch.setattr(workload.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(workload, "_run_mix", run)
    assert len(workload._run_mixes(object(), {"runs": 3, "within_s": within_s})) == runs


def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from iqcar.apps.cli import command
    from iqcar.errors import IqcarError

    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "duckdb" else object())
    with pytest.raises(IqcarError, match=r"needs duckdb.*pip install 'iqcar\[demo\]'"):
        command.need(command.DEMO)
