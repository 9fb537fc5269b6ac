"""Topics of a real Spark are found unasked, stand in its rules, and are known again in a check."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from iqcar.comparison.check_rules import check_rules
from iqcar.diagnosis import Diagnosis
from iqcar.rules.compile_pools import dump_compiled, parse_rules_file
from tests.support import SUPPORT
from tests.support.listener_spark import PLUGIN, run_alone, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.long]

JOB = SUPPORT / "recurring_jobs.py"


@pytest.fixture(scope="module", params=spark_params())
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """What is said of many skewed short queries beside an intruder."""
    folder = tmp_path_factory.mktemp("recurring")
    done = run_alone(request.param, folder, [str(JOB)], master="local[8]", conf=PLUGIN)
    assert done.exit_code == 0, done.errors[-3000:]
    return iqcar.diagnose(iqcar.read([Path(done.log)], query_by="job-group"))


def test_topics_are_found_unasked(found: Diagnosis) -> None:
    assert found.topics is not None
    assert len(found.topics.jobs) >= 20 and len(found.topics.topics) > 0


def test_rules_for_queries_with_stragglers_carry_their_topics(found: Diagnosis) -> None:
    assert found.topics is not None
    stragglers = found.topics.stragglers["job"].tolist()
    queries = {int(found.topics.jobs["query"].iloc[job]) for job in stragglers}
    prints = found.tables.queries["fingerprint"].astype(str)
    slow = {prints.iloc[query] for query in queries}
    own = [r for r in found.rules if r.query_type.value == "target" and r.fingerprint in slow]
    assert all(rule.topics for rule in own if not rule.is_advice)
    assert all(0 < topic.weight <= 1 for rule in found.rules for topic in rule.topics)
    assert any(rule.topics for rule in found.rules)


def test_a_check_knows_the_topics_again(found: Diagnosis) -> None:
    file = parse_rules_file(dump_compiled(found.tables, found.rules))
    checked = check_rules(file, found.tables, found.tables)
    topics = [topic for rule in checked.rules for topic in rule.topics]
    assert {topic.change for topic in topics} <= {"as-before", "unknown"}
