"""The command line: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import jsonschema
import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from iqcar import Diagnosis
from iqcar.apps.cli.main import app
from iqcar.pipeline import diagnose, read
from iqcar.rules.vocabulary import rule_schema
from iqcar.show.json.analyze import result_schema, to_dict
from iqcar.show.terminal.analyze import print_diagnosis, print_queries
from iqcar.version import __version__
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.command import iqcar
from tests.support.contended_log import contended_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return contended_log().write(tmp_path / "app-1")


def test_the_culprit_is_blamed_for_the_slots_it_held(log: Path) -> None:
    done = iqcar("analyze", log, "--full")
    assert done.returncode == 0, done.stderr
    report = done.stdout[done.stdout.index("1. report") :]
    assert "lost 9.0 s (90 %)" in report
    blamed = next(line for line in report.splitlines() if "etl sql-0" in line)
    assert "slots 9.0 s" in blamed
    assert "host-a" in blamed
    assert " 90 %" in blamed
    assert "AGG   etl" in report
    assert "DYNP  report" in report


def test_the_json_holds_what_was_printed_and_keeps_its_schema(log: Path, tmp_path: Path) -> None:
    out, rules = tmp_path / "result.json", tmp_path / "rules.json"
    done = iqcar("analyze", log, "--json", out, "--rules", rules)
    assert done.returncode == 0, done.stderr
    assert f"Wrote {out}" in done.stderr
    result = json.loads(out.read_text())
    jsonschema.validate(result, json.loads(result_schema()))
    jsonschema.validate(json.loads(rules.read_text()), json.loads(rule_schema()))
    assert result["rules"] == json.loads(rules.read_text())["rules"]
    report = next(q for q in result["queries"] if q["name"] == "report")
    assert report["waits"]["slots"] == {"ms": 18_000, "evidence": "reported", "missing_share": 0}
    assert report["waits"]["memory"]["ms"] is None
    assert report["lost_ms"] == pytest.approx(9000, rel=0.01)
    etl = next(b for b in report["blame"] if b["kind"] == "query")
    assert etl["source_query_id"] == "app-1/sql-0"
    assert etl["by_host"].keys() == {"host-a"}
    assert sum(b["share"] for b in report["blame"]) == pytest.approx(1)
    assert result["aggressive_queries"][0]["query_id"] == "app-1/sql-0"


def test_a_target_can_be_named_in_four_ways(log: Path) -> None:
    tables = read([str(log)])
    for target in ("report", "sql-1", "app-1/sql-1", "name:report"):
        result = to_dict(diagnose(tables, targets=[target]))
        assert [q["name"] for q in result["queries"] if q["target"]] == ["report"]
        assert {n["id"] for n in result["graph"]["nodes"] if n["level"] == 0} == {"tq:app-1/sql-1"}


def test_blame_explains_one_query_level_by_level(log: Path) -> None:
    done = iqcar("blame", log, "--target", "report")
    assert done.returncode == 0, done.stderr
    levels = [line.strip() for line in done.stdout.splitlines() if "Level" in line]
    assert [line[:8] for line in levels] == [f"Level {n}." for n in range(1, 7)]
    assert "waiting for a free slot on host-a" in done.stdout


@pytest.mark.slow
def test_queries_lists_what_ran(log: Path) -> None:
    done = iqcar("queries", log, "--json", "-")
    assert [q["name"] for q in json.loads(done.stdout)["queries"]] == ["etl", "report"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--query-by=job", "--critical-path"), ("--query-by=app",)])
def test_every_option_gives_a_whole_result(log: Path, options: tuple[str, ...]) -> None:
    result = json.loads(iqcar("analyze", log, *options, "--json", "-").stdout)
    assert result["iqcar_version"] == __version__
    jsonschema.validate(result, json.loads(result_schema()))
    for query in result["queries"]:
        assert sum(b["share"] for b in query["blame"]) == pytest.approx(1)


def test_two_applications_are_told_apart(tmp_path: Path) -> None:
    contended_log("app-1").write(tmp_path / "app-1")
    contended_log("app-2", start=50_000).write(tmp_path / "app-2")
    result = json.loads(iqcar("analyze", tmp_path, "--json", "-").stdout)
    assert [i["application_id"] for i in result["inputs"]] == ["app-1", "app-2"]
    assert [q["query_id"] for q in result["queries"] if q["name"] == "report"] == [
        "app-1/sql-1",
        "app-2/sql-1",
    ]


def test_an_unknown_target_is_a_usage_error_that_names_the_nearest(log: Path) -> None:
    done = iqcar("analyze", log, "--target", "repotr")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "did you mean report" in done.stderr


@pytest.mark.slow
def test_a_file_is_not_overwritten_unless_told(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    out.write_text("mine")
    done = iqcar("analyze", log, "--json", out)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert out.read_text() == "mine"
    assert iqcar("analyze", log, "--json", out, "--force").returncode == 0
    assert json.loads(out.read_text())


@pytest.mark.slow
def test_rules_take_the_place_of_rules_and_of_nothing_else(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "rules.json"
    for _ in range(2):
        assert iqcar("analyze", log, "--rules", out).returncode == 0
    assert iqcar("analyze", log, "--json", out).returncode == 2
    out.write_text('{"schema_version": "1"}')
    assert iqcar("analyze", log, "--rules", out).returncode == 2


@pytest.mark.slow
def test_schemas_are_printed() -> None:
    assert json.loads(iqcar("schema").stdout) == json.loads(result_schema())
    assert json.loads(iqcar("schema", "rules").stdout) == json.loads(rule_schema())
    assert iqcar("schema", "nonsense").returncode == 2


def test_help_and_version_need_no_log() -> None:
    runner = CliRunner()
    assert "event logs" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["--version"]).output == f"iqcar {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, iqcar.apps.cli.main; "
        "print([m for m in ('pandas', 'numpy', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_analysis_of_a_small_log_imports_nothing_that_it_does_not_need(log: Path) -> None:
    code = (
        "import sys; from iqcar.apps.cli.main import app; "
        f"app(['analyze', {str(log)!r}], standalone_mode=False); "
        "print([m for m in ('plotly', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(log: Path) -> None:
    command = f"{sys.executable} -m iqcar analyze {log} --json - | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.slow
def test_names_in_a_log_cannot_drive_the_terminal(tmp_path: Path) -> None:
    hostile = "q\x1b[31m\x07\u202e[bold]x"
    log = contended_log()
    log.lines = [line.replace(b'"report"', json.dumps(hostile).encode()) for line in log.lines]
    for command in (["analyze"], ["queries"], ["blame", "--target", "sql-1"]):
        done = iqcar(*command, log.write(tmp_path / "app-1"))
        assert done.returncode == 0, done.stderr
        assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)
        assert "[bold]x" in done.stdout


def test_the_report_says_plainly_where_pools_will_not_help(log: Path) -> None:
    import iqcar as package

    diagnosis = package.diagnose(package.read(log))
    rule, *others = diagnosis.rules
    assert "will not help" not in printed(diagnosis)
    advice = "Run fewer tasks at once per host."
    hopeless = msgspec.structs.replace(rule, resource="cpu", helps_pools=False, advice=advice)
    lines = printed(replace(diagnosis, rules=(hopeless, *others)))
    assert (
        f"Scheduler pools will not help: they share out slots, not CPU. What would: {advice}"
        in (" ".join(lines.split()))
    )


def printed(diagnosis: Diagnosis) -> str:
    console = Console(width=1000, file=StringIO())
    print_diagnosis(diagnosis, console)
    return console.file.getvalue()


def test_a_result_repr_is_for_people(log: Path) -> None:
    import iqcar as package

    diagnosis = package.diagnose(package.read(log))
    assert repr(diagnosis) == "<Diagnosis of 2 queries: report lost 9.0 s of 10.0 s>"
    assert "etl" in diagnosis._repr_html_()
    empty = package.diagnose(package.read(SyntheticLog().app().end().write(log.parent / "empty")))
    assert "no time was lost" in repr(empty)


def test_without_a_path_the_logs_are_where_spark_writes_them(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text(f"spark.eventLog.dir {log.as_uri()}\n", "utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    missing = iqcar("queries")
    assert missing.returncode == 2
    assert "no PATH given, and" in missing.stderr and missing.stderr.count("\n") == 1
    logs = tmp_path / "logs"
    logs.mkdir()
    log.rename(logs / "app-1")
    file.write_text(f"spark.eventLog.dir {logs.as_uri()}\n", "utf-8")
    for command in (["queries"], ["analyze"], ["blame", "--target", "report"]):
        done = iqcar(*command)
        assert done.returncode == 0, done.stderr
        told = f"iqcar: reading {logs.as_uri()} (spark.eventLog.dir of {file})"
        assert done.stderr.splitlines() == [told]


def test_queries_say_what_is_worst_and_show_what_lost_most_first(log: Path) -> None:
    lines = iqcar("queries", log).stdout.splitlines()
    assert "report" in lines[1] and "lost" in lines[1]
    table = lines[lines.index("", 2) + 1 :]
    assert [line.split()[1] for line in table[1:3]] == ["report", "etl"]
    assert "memory" not in table[0]  # unknown for all
    shown = StringIO()
    print_queries(diagnose(read([str(log)])), Console(file=shown, width=80))
    assert max(map(len, shown.getvalue().splitlines())) <= 80
    assert "slots" not in shown.getvalue().split("tasks", 1)[0]


def test_the_report_prints_its_headline_and_its_address(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "a b.html"
    done = iqcar("report", log, "--out", page)
    headline, address = done.stdout.splitlines()
    assert headline.startswith("report lost 90 %") or "report" in headline
    assert address == page.as_uri()
    assert iqcar("report", log, "--out", "-").stdout.startswith("<!doctype html>")


def test_many_options_are_shown_in_groups() -> None:
    told = iqcar("analyze", "--help").stdout
    titles = [line for line in told.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Arguments:", "Options:", "Output:", "Method:"]
    assert told.index("--target") < told.index("--json") < told.index("--query-by")
    assert "Output:" not in iqcar("queries", "--help").stdout


def test_every_command_that_a_text_proposes_names_the_logs_that_were_given(tmp_path: Path) -> None:
    folder = tmp_path / "of monday"
    contended_log().write(folder / "app-1")
    deep = Path(*["of a long name"] * 8)
    contended_log().write(tmp_path / deep)
    assert f"iqcar report '{deep}' --open" in iqcar("analyze", str(deep), cwd=tmp_path).stdout
    for how in (("analyze",), ("analyze", "--full"), ("queries",)):
        done = iqcar(how[0], "of monday", *how[1:], cwd=tmp_path)
        assert "PATH" not in done.stdout
        proposed = re.findall(r"iqcar (?!plugin)\w+ (.+?) --", " ".join(done.stdout.split()))
        assert set(proposed) <= {"'of monday'"}
        assert proposed or "--full" in how  # all of it leads nowhere else
    many = iqcar("queries", *["of monday/app-1"] * 40, cwd=tmp_path)
    assert "iqcar blame PATH --target" in " ".join(many.stdout.split()), "no line holds them all"
