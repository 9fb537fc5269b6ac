"""ADVICE rules: what they say, when there are none, and that no scheduler ever acts on them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar as package
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.causes.stragglers.straggler_result import (
    STRAGGLER_CAUSES,
    STRAGGLER_SOURCES,
    STRAGGLERS,
    Stragglers,
    StragglerSettings,
)
from iqcar.comparison.check_rules import check_rules
from iqcar.errors import IqcarError
from iqcar.pipeline import diagnose, stragglers_of
from iqcar.replay.rule_effect.effect import predict
from iqcar.rules.advice_rules import LEAST_DELAY_MS, advise
from iqcar.rules.compile_pools import (
    RulesFile,
    compile_rules,
    dump_compiled,
    dump_rules,
    load_rules_file,
    parse_rules_file,
)
from iqcar.rules.recorded_setup import Recorded, recorded_scheduler
from iqcar.rules.rule import ADVICE_FIELDS, RuleType, scheduler_rules
from iqcar.rules.straggler_delays import FOLLOWS, cause_parts, held_up_ms, tasks_at_once
from iqcar.rules.vocabulary import advice_kinds, rule_schema
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.causes.stragglers.test_straggler_blame import rows
from tests.conftest import REPO
from tests.support.advised_log import EVEN_MS, SKEWED_MS, advised_log, stage_of
from tests.support.command import iqcar
from tests.support.real_logs import LOGS, diagnosis_of_log

VALIDATOR = jsonschema.Draft202012Validator(json.loads(rule_schema()))
JAVA_FILE = REPO / "listener" / "src" / "test" / "resources" / "rules-with-advice.json"


def read(log: SyntheticLog, folder: Path):
    return package.read(log.write(folder / "app-1"))


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory):
    return diagnose(read(advised_log(), tmp_path_factory.mktemp("advised")))


def advice_of(diagnosis):
    return [rule for rule in diagnosis.rules if rule.is_advice]


def test_a_skewed_key_is_advised_with_its_evidence_and_settings(diagnosis) -> None:
    (rule,) = advice_of(diagnosis)
    assert (rule.id, rule.kind, rule.query_name) == ("ADVICE-1", "split-shuffle", "etl")
    delay = SKEWED_MS - (EVEN_MS + 4.5)
    assert rule.rule_value == delay
    assert rule.reason == (
        "1 straggler in 1 stage of etl took 10.0 s over the median, reading more shuffle data than "
        "their peers; stages ended about 10.0 s later for that, 50 % of the 20.0 s it ran."
    )
    settings = {one["name"]: one["value"] for one in rule.settings}
    assert settings["spark.sql.adaptive.skewJoin.enabled"] == "true"
    assert "spark.sql.adaptive.skewJoin.skewedPartitionFactor" in settings
    assert "spark.sql.adaptive.advisoryPartitionSizeInBytes" in settings
    # On by default from 3.2 on, and for RDDs only.
    assert not {"spark.sql.adaptive.enabled", "spark.default.parallelism"} & settings.keys()


def test_an_older_spark_is_told_of_no_setting_that_it_lacks(tmp_path: Path) -> None:
    named = {}
    for version in ("2.4.8", "3.1.1", "3.5.1"):
        (tmp_path / version).mkdir()
        (rule,) = advice_of(diagnose(read(advised_log(version), tmp_path / version)))
        named[version] = {one["name"] for one in rule.settings}
    assert not any("adaptive" in name for name in named["2.4.8"])
    assert "spark.sql.shuffle.partitions" in named["2.4.8"]
    assert "spark.sql.adaptive.enabled" in named["3.1.1"] - named["3.5.1"]


def even_log(lasts: list[int]) -> SyntheticLog:
    """One query of tasks one after the other, all of which read the same."""
    log = SyntheticLog("app-1").app("even", 1000).environment().executor("1", "host-a", 1, 1000)
    times = 1000 + np.concatenate([[0], np.cumsum(lasts)])
    tasks = [(float(a), float(b), 10_000) for a, b in pairwise(times)]
    stage_of(log, 0, "etl", 1000, tasks)
    return log.end(float(times[-1]) + 100)


@pytest.mark.parametrize(
    "lasts",
    [
        [2000] * 10,
        # Stragglers of a tenth of a second each: nobody notices.
        [100] * 20 + [180] * 10,
        # A second late, in a query of two minutes: 1 %.
        [2000] * 60 + [3100],
    ],
)
def test_a_healthy_application_gets_no_advice(lasts: list[int], tmp_path: Path) -> None:
    assert advice_of(diagnose(read(even_log(lasts), tmp_path))) == []


def test_rules_file_holds_advice_and_fits_its_schema(diagnosis) -> None:
    file = dump_compiled(diagnosis.tables, diagnosis.rules)
    VALIDATOR.validate(json.loads(file))
    again = parse_rules_file(file)
    assert again.rules == diagnosis.rules
    assert dump_rules(again.rules, again.plan, again.recorded) == file
    (rule,) = advice_of(diagnosis)
    schema = json.loads(rule_schema())["$defs"]["rule"]
    assert set(rule.to_dict()) == {*schema["required"], *ADVICE_FIELDS}


def broken(diagnosis, **changes) -> str:
    file = json.loads(dump_compiled(diagnosis.tables, diagnosis.rules))
    (rule,) = (rule for rule in file["rules"] if rule["rule-type"] == "ADVICE")
    rule.update(changes)
    return json.dumps(file)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"helps_pools": True}, "no pool acts on an ADVICE rule"),
        ({"expected": {"outlook": "helps"}}, "no pool acts on an ADVICE rule"),
        ({"query-type": "source"}, "an ADVICE rule is for a target"),
        ({"kind": ""}, "an ADVICE rule needs a kind"),
        ({"rule-type": "DYNP", "resource": "io"}, "only ADVICE rules have a kind"),
        ({"rule-type": "DYNP", "resource": ""}, "only advice can be about no resource"),
        ({"settings": [{"name": "spark.x"}]}, "value"),
        ({"id": "AGG-1"}, "repeats the id"),
    ],
)
def test_broken_advice_is_refused_by_reader_and_schema(diagnosis, changes, says: str) -> None:
    text = broken(diagnosis, **changes)
    with pytest.raises(IqcarError, match=says) as failed:
        parse_rules_file(text)
    assert "$.rules[" in str(failed.value)
    if "id" not in changes:
        assert not VALIDATOR.is_valid(json.loads(text))


def test_an_assignment_cannot_come_from_advice(diagnosis) -> None:
    file = json.loads(dump_compiled(diagnosis.tables, diagnosis.rules))
    file["assignments"][0]["rule_id"] = "ADVICE-1"
    with pytest.raises(IqcarError, match=r"ADVICE-1 is advice and makes no pool - at `\$.assign"):
        parse_rules_file(json.dumps(file))


def test_compiling_skips_advice(diagnosis) -> None:
    rules = diagnosis.rules
    assert {rule.rule_type for rule in rules} == set(RuleType) - {RuleType.CAP}
    assert compile_rules(rules, 2) == compile_rules(scheduler_rules(rules), 2)
    only = compile_rules(advice_of(diagnosis), 2)
    assert (only.pools, only.assignments, only.notes) == ((), (), ())


def test_what_was_recorded_is_looked_up_for_scheduler_rules_only(diagnosis) -> None:
    assert recorded_scheduler(diagnosis.tables, advice_of(diagnosis)) == Recorded()
    assert recorded_scheduler(diagnosis.tables, diagnosis.rules).slots == 2


def test_a_replay_skips_advice_and_expects_nothing_of_it(diagnosis) -> None:
    tables = diagnosis.tables
    graph = build_graph(tables, diagnosis.blame, targets=None)
    whole = predict(tables, graph, diagnosis.rules)
    without = predict(tables, graph, scheduler_rules(diagnosis.rules))
    assert whole.together == without.together
    assert [r.expected for r in whole.rules if r.is_advice] == [None]
    assert predict(tables, graph, advice_of(diagnosis)).together is None


def test_rules_check_skips_advice(diagnosis) -> None:
    file = parse_rules_file(dump_compiled(diagnosis.tables, diagnosis.rules))
    without = RulesFile(tuple(scheduler_rules(file.rules)), file.plan, file.recorded)
    checked = check_rules(file, diagnosis.tables, diagnosis.tables)
    assert checked == check_rules(without, diagnosis.tables, diagnosis.tables)
    assert [one.id for one in checked.rules] == ["AGG-1", "DYNP-1", "DYNP-2"]


@pytest.mark.slow
def test_rules_compile_writes_the_same_with_and_without_advice(diagnosis, tmp_path: Path) -> None:
    for name, rules in (("all", diagnosis.rules), ("pools", scheduler_rules(diagnosis.rules))):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "rules.json"
        path.write_bytes(dump_compiled(diagnosis.tables, rules))
        done = iqcar("rules", "compile", path)
        assert done.returncode == 0, done.stderr
    folders = [tmp_path / name / "rules-pools" for name in ("all", "pools")]
    for file in ("fairscheduler.xml", "pools.json"):
        assert (folders[0] / file).read_text() == (folders[1] / file).read_text()
    pages = [(folder / "HOW_TO.md").read_text() for folder in folders]
    assert pages[0].replace("/all/", "/pools/") == pages[1]


def test_the_file_given_to_the_plugins_tests_is_what_the_analyzer_writes(diagnosis) -> None:
    stored = load_rules_file(JAVA_FILE)
    again = parse_rules_file(dump_compiled(diagnosis.tables, diagnosis.rules))
    assert stored == again, f"write {JAVA_FILE.name} anew"


@pytest.mark.slow
def test_the_report_has_advice_of_its_own_and_says_what_it_is(tmp_path: Path) -> None:
    log = advised_log().write(tmp_path / "app-1")
    done = iqcar("analyze", log, "--full", "--json", tmp_path / "result.json")
    assert done.returncode == 0, done.stderr
    pools, _, advice = done.stdout.partition("\nAdvice\n")
    words = " ".join(advice.split())
    assert words.startswith("To people: no pool is made from it")
    assert "split skewed shuffle partitions" in words and "ADVICE" not in pools
    rules = json.loads((tmp_path / "result.json").read_text())["rules"]
    assert [rule["expected"] for rule in rules if rule["rule-type"] == "ADVICE"] == [None]


def parts_of(delays: list[float], causes: list[tuple[int, str, float]]) -> pd.DataFrame:
    counts = np.bincount([c[0] for c in causes], minlength=len(delays)) if causes else [0] * 99
    stragglers = rows(
        STRAGGLERS,
        *({"delay_ms": d, "causes": int(counts[n]), "task": n} for n, d in enumerate(delays)),
    )
    table = rows(
        STRAGGLER_CAUSES,
        *({"straggler": s, "cause": c, "explained": e} for s, c, e in causes),
    )
    none = pd.DataFrame()
    return cause_parts(
        Stragglers(
            stragglers, table, STRAGGLER_SOURCES.empty(), none, none, None, StragglerSettings(), ()
        )
    )


NAMES = st.sampled_from(["input-skew", "gc", "computation-skew", "host-cpu", *FOLLOWS])
CAUSE = st.tuples(st.integers(0, 3), NAMES, st.one_of(st.just(np.nan), st.floats(0, 2)))


@given(st.lists(st.floats(1, 1e6), min_size=4, max_size=4), st.lists(CAUSE, max_size=12))
def test_the_parts_of_a_straggler_are_its_delay_at_most(delays, causes) -> None:
    parts = parts_of(delays, causes)
    assert (parts["delay_ms"] >= 0).all()
    sums = parts.groupby("straggler")["delay_ms"].sum()
    for straggler, total in sums.items():
        assert total <= delays[straggler] * (1 + 1e-9)
        mine = [(cause, explained) for s, cause, explained in causes if s == straggler]
        names = {cause for cause, _ in mine}
        if any(np.isnan(e) and not names & {*FOLLOWS.get(c, ())} for c, e in mine):
            # What is not measured, and no effect of something else, shares all the rest.
            measured = sum(e for _, e in mine if not np.isnan(e))
            assert measured >= 1 or total == pytest.approx(delays[straggler])


def test_an_effect_has_no_part_beside_its_root() -> None:
    parts = parts_of(
        [900.0, 900.0],
        [(0, "input-skew", np.nan), (0, "output-skew", np.nan), (1, "output-skew", np.nan)],
    )
    assert parts["delay_ms"].tolist() == [900.0, 0.0, 900.0]


def test_stragglers_of_several_waves_hold_a_stage_up_one_after_the_other() -> None:
    parts = pd.DataFrame({"stage": [0, 0, 0, 1], "delay_ms": [100.0, 100.0, 100.0, 50.0]})
    assert held_up_ms(parts, np.array([2.0, 4.0])) == 150.0 + 50.0
    assert held_up_ms(parts, np.array([30.0, np.nan])) == 100.0 + 50.0


def test_tasks_at_once_are_the_mean_over_the_stage(diagnosis) -> None:
    # 9 tasks of 2 s and one of 12 s on two slots: 30 s of tasks in 20 s.
    assert tasks_at_once(diagnosis.tables)[0] == pytest.approx(30 / 20, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_advice_on_every_real_log_has_evidence_and_makes_no_pool(name: str) -> None:
    diagnosis = diagnosis_of_log(name)
    tables, found = diagnosis.tables, diagnosis.stragglers
    rules = advise(tables, found, top=100)
    assert [rule.rule_order for rule in rules] == list(range(1, len(rules) + 1))
    values = [rule.rule_value for rule in rules]
    assert values == sorted(values, reverse=True)
    assert all(value >= LEAST_DELAY_MS for value in values)
    file = dump_compiled(tables, rules)
    VALIDATOR.validate(json.loads(file))
    again = parse_rules_file(file)
    assert again.rules == rules and not again.plan.pools
    for rule in rules:
        assert rule.reason.endswith(" ran.")
        assert rule.expected is None and not rule.helps_pools
        assert rule.kind in advice_kinds()
    # Nobody is told more than there is: what stragglers explain is divided, never counted twice.
    slow = {key for key, kind in advice_kinds().items() if kind.causes}
    total = sum(rule.rule_value for rule in rules if rule.kind in slow)
    assert total <= found.stragglers["delay_ms"].sum() * (1 + 1e-9)


def test_without_stragglers_there_is_no_advice_about_them(tmp_path: Path) -> None:
    tables = read(even_log([100]), tmp_path)
    assert advise(tables, stragglers_of(tables), top=5) == ()
