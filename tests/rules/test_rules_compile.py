"""``iqcar rules compile``: what it writes, what it says, and how it refuses."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given

from iqcar.rules.compile_pools import allocation_xml, compile_rules, dump_rules
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import Pool, PoolPlan, how_to
from iqcar.rules.vocabulary import rule_schema
from tests.rules.test_pool_plan import OWN_POOLS, agg, rule_lists, victim
from tests.support.command import iqcar
from tests.support.contended_log import contended_log

RULES = [agg(1 / 3), victim(2.0)]
WRITTEN = {"fairscheduler.xml", "pools.json", "HOW_TO.md"}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.json"
    path.write_bytes(dump_rules(RULES, None, Recorded(8, 3)))
    return path


def compiled(*arguments: object) -> subprocess.CompletedProcess[str]:
    return iqcar("rules", "compile", *arguments)


def read_xml(content: bytes) -> list[Pool]:
    """Pools of an allocation file, as Spark reads them."""
    return [
        Pool(
            pool.attrib["name"],
            int(pool.findtext("weight")),
            int(pool.findtext("minShare")),
            pool.findtext("schedulingMode"),
        )
        for pool in ElementTree.fromstring(content).iter("pool")  # noqa: S314
    ]


def test_the_three_files_hold_one_plan(rules: Path, tmp_path: Path) -> None:
    out = tmp_path / "pools"
    done = compiled(rules, "--out", out)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} == WRITTEN
    for name in WRITTEN:
        assert f"Wrote {out / name}" in done.stderr
    plan = compile_rules(RULES, 8, 3)
    assert tuple(read_xml((out / "fairscheduler.xml").read_bytes())) == plan.pools
    pools = json.loads((out / "pools.json").read_text())
    assert [Pool(**pool) for pool in pools["pools"]] == list(plan.pools)
    for note in plan.notes:
        assert " ".join(note.split()[:6]) in done.stdout
    page = (out / "HOW_TO.md").read_text()
    assert f"spark.iqcar.rules={out}/pools.json" in page
    assert f"spark.scheduler.allocation.file={(out / 'fairscheduler.xml').as_uri()}" in page


@pytest.mark.slow
def test_the_rules_that_analyze_wrote_compile_to_the_pools_it_wrote(tmp_path: Path) -> None:
    log, rules, out = (tmp_path / name for name in ("app-1", "rules.json", "rules-pools"))
    assert iqcar("analyze", contended_log().write(log), "--rules", rules).returncode == 0
    written = json.loads(rules.read_text())
    jsonschema.validate(written, json.loads(rule_schema()))
    assert written["recorded"] == {"slots": 2, "running": 2, "pools": []}
    assert [p["name"] for p in written["pools"]] == ["iqcar-etl", "iqcar-report", "default"]
    assert [p["min_share"] for p in written["pools"]] == [0, 1, 0]
    done = compiled(rules)
    assert done.returncode == 0, done.stderr
    pools = json.loads((out / "pools.json").read_text())
    assert pools == {k: v for k, v in written.items() if k not in ("rules", "recorded")}


def test_edited_rules_and_other_slots_count(rules: Path, tmp_path: Path) -> None:
    content = json.loads(rules.read_text())
    content["rules"] = content["rules"][1:]
    rules.write_text(json.dumps(content))
    done = compiled(rules, "--slots", 20, "--running", 5, "--json", "-")
    plan = json.loads(done.stdout)
    assert plan["pools"] == [
        {"name": "iqcar-report", "weight": 1, "min_share": 10, "mode": "FIFO"},
        {"name": "default", "weight": 2, "min_share": 0, "mode": "FIFO"},
    ]


@pytest.mark.slow
def test_files_are_not_overwritten_unless_told(rules: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "HOW_TO.md").write_text("mine")
    done = compiled(rules, "--out", out)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert {path.name for path in out.iterdir()} == {"HOW_TO.md"}
    assert compiled(rules, "--out", out, "--force").returncode == 0
    assert (out / "HOW_TO.md").read_text() != "mine"


def test_rules_that_no_pool_helps_say_what_does(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(dump_rules([agg(0.5, resource="io", helps_pools=False, advice="Read less.")]))
    done = compiled(path)
    assert done.returncode == 0
    assert "nothing to apply" in done.stdout
    assert "Read less." in " ".join(done.stdout.split())
    assert read_xml((tmp_path / "rules-pools" / "fairscheduler.xml").read_bytes()) == []


RUBBISH = {
    "empty": b"",
    "no JSON": b"\x00\xff\x1b[31m",
    "deep": b"[" * 100_000,
    "other JSON": b'{"a": 1}',
    "a list": b"[1, 2]",
    "pools without rules": b'{"schema_version": "1", "iqcar_version": "1", "pools": []}',
    "half": dump_rules(RULES)[:400],
    "evil name": dump_rules(RULES).replace(b'"etl"', b'{"\\u001b[31m": 1}'),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_ends_in_one_line_and_writes_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(RUBBISH[name])
    done = compiled(path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"iqcar: {path}: is not")
    assert "\x1b" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["rules.json"]


@pytest.mark.parametrize("out", ["rules.json", "no/such/parent"])
def test_a_folder_that_cannot_be_is_refused(out: str, rules: Path) -> None:
    done = compiled(rules, "--out", rules.parent / out)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("path", ["", ".", "none.json"])
def test_a_file_that_is_not_there_is_one_line(path: str) -> None:
    done = compiled(path)
    assert done.returncode == 1
    assert "cannot be read" in done.stderr
    assert done.stderr.count("\n") == 1


@given(rule_lists(), OWN_POOLS)
def test_an_allocation_file_holds_every_pool_whatever_its_name(rules, own) -> None:
    plan = compile_rules(rules, 8, 4, own)
    assert tuple(read_xml(allocation_xml(plan.pools))) == plan.pools


HOSTILE = 'x"); evil() # `rm -rf` $(id) \x1b[31m\n| <b> $pool ${source}'


def test_names_of_others_cannot_break_out_of_the_lines_to_copy() -> None:
    rules = [agg(0.5, name=HOSTILE)]
    page = how_to(compile_rules(rules, 8, 2), rules, "a`b.json", "/x y/p.json", "file:///f'.xml")
    assert "\x1b" not in page
    (line,) = (part.strip() for part in page.splitlines() if part.startswith("    query = iqcar"))
    call = ast.parse(line).body[0].value
    (name,) = map(ast.literal_eval, call.args)
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert name == 'x"); evil() # `rm -rf` $(id) [31m | <b> $pool ${source}'
    assert named == {"pool": "iqcar-x-evil-rm-rf-id-31m-b-pool-source"}
    assert "--conf spark.iqcar.rules='/x y/p.json'" in page
    assert "'file:///f'\"'\"'.xml'" in page


def test_the_page_of_an_empty_plan_says_that_there_is_nothing_to_apply() -> None:
    assert "nothing to apply" in how_to(PoolPlan(), [], "r.json", "p.json", "file:///f.xml")


def test_every_way_that_people_run_queries_is_on_the_page() -> None:
    page = how_to(compile_rules(RULES, 8, 3), RULES, "r.json", "p.json", "file:///f.xml")
    for way in (
        "spark-submit $(iqcar conf) --conf spark.iqcar.rules=p.json job.py",
        'with iqcar.query("etl", pool="iqcar-etl"):',
        'sc.setLocalProperty("spark.scheduler.pool", "iqcar-etl")',
        "SET spark.scheduler.pool=iqcar-etl;",
        "SET spark.sql.thriftserver.scheduler.pool=iqcar-etl;",
        'spark.conf.set("spark.scheduler.pool", "iqcar-etl")',
        "Databricks",
        "Jupyter",
    ):
        assert way in page
