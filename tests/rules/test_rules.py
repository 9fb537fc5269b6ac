"""Scheduler rules: who gets one, what it says, and the file they are written to."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.enums import BlameKind, Request, Resource
from iqcar.errors import IqcarError
from iqcar.rules.compile_pools import dump_rules, load_rules_file, parse_rules_file
from iqcar.rules.propose_rules import propose
from iqcar.rules.recorded_setup import most_at_once, recorded_priorities
from iqcar.rules.rule import ADVICE_FIELDS, CAP_FIELDS, QueryType, RuleType
from iqcar.rules.vocabulary import advice_for, cause_of, rule_schema, vocabulary
from tests.support.examples import examples
from tests.support.random_blame import UNATTRIBUTED, blame_of_rows, blamed_tables, named_tables
from tests.support.tiny_tables import tiny_tables

VALIDATOR = jsonschema.Draft202012Validator(json.loads(rule_schema()))


def rules_of(
    lost: dict[tuple[int, int], float],
    request: Request = Request.SLOT_WAIT,
    queries: list[dict] | None = None,
    **options,
):
    """Rules for queries of one stage each; ``lost[(target, source)]`` is elapsed ms."""
    count = len(queries) if queries else max(max(pair) for pair in lost) + 1
    tables = named_tables(list(range(count)), queries=queries)
    demands, stage_lost = [], np.zeros(count)
    for target in sorted({target for target, _ in lost}):
        sources = [(source, ms) for (hit, source), ms in lost.items() if hit == target]
        stage_lost[target] = sum(ms for _, ms in sources)
        demands.append((target, request, 0, stage_lost[target], sources))
    graph = build_graph(tables, blame_of_rows(tables, demands, stage_lost.tolist()))
    return propose(tables, graph, **options)


def brief(rules):
    return [(r.id, r.query_type.value, r.query_name, r.rule_value, r.rule_order) for r in rules]


def test_the_source_gets_its_own_pool_and_less_priority_the_victims_more():
    rules = rules_of({(0, 2): 30_000.0, (1, 2): 10_000.0})
    assert brief(rules) == [
        ("AGG-1", "source", "q2", 1 / 3, 1),
        ("DYNP-1", "source", "q2", 0.5, 1),
        ("DYNP-2", "target", "q0", 3.0, 2),
        ("DYNP-3", "target", "q1", 2.0, 3),
    ]
    assert all(rule.helps_pools and rule.advice == "" for rule in rules)
    assert {rule.resource for rule in rules} == {"slots"}
    assert {rule.expected for rule in rules} == {None}
    assert [rule.fingerprint for rule in rules] == ["name:q2", "name:q2", "name:q0", "name:q1"]


def test_the_reason_gives_the_evidence_with_numbers():
    agg, _, victim, *_ = rules_of({(0, 2): 30_000.0, (1, 2): 10_000.0, (0, 1): 2_000.0})
    assert agg.reason == (
        "2 other queries lost 40.0 s to q2, 40.0 s of it waiting for slots, most q0 (30.0 s); "
        "at most 3 queries of its application ran at once, so its share is 1/3."
    )
    assert victim.reason == (
        "q0 lost 32.0 s of 100.0 s (32 %) to other queries, 32.0 s of it waiting for slots, "
        "most to q2 (30.0 s)."
    )


def test_the_worst_source_is_lowered_most_and_top_limits_each_kind():
    lost = {(0, 1): 30_000.0, (0, 2): 20_000.0, (0, 3): 10_000.0}
    rules = rules_of(lost, top=2)
    assert brief(rules) == [
        ("AGG-1", "source", "q1", 1 / 4, 1),
        ("DYNP-1", "source", "q1", pytest.approx(1 / 3), 1),
        ("AGG-2", "source", "q2", 1 / 4, 2),
        ("DYNP-2", "source", "q2", 0.5, 2),
        ("DYNP-3", "target", "q0", 2.0, 3),
    ]
    assert rules_of(lost, top=0) == ()


def test_priorities_of_the_recorded_run_are_changed_from_what_they_were():
    priorities = {"name:q0": 5.0, "name:q1": 4.0}
    _, source, victim = rules_of({(0, 1): 30_000.0}, priorities=priorities)
    assert (victim.rule_value, source.rule_value) == (6.0, 2.0)


def test_a_query_that_is_both_counts_as_what_it_is_more_of():
    rules = rules_of({(0, 1): 30_000.0, (1, 0): 5_000.0})
    assert [(r.query_name, r.query_type) for r in rules] == [
        ("q1", QueryType.SOURCE),
        ("q1", QueryType.SOURCE),
        ("q0", QueryType.TARGET),
    ]
    assert "; others lost 5.0 s to it" in rules[2].reason
    assert "; it lost 5.0 s to others" in rules[0].reason


def test_queries_that_cost_each_other_the_same_get_no_rule():
    assert rules_of({(0, 1): 30_000.0, (1, 0): 30_000.0}) == ()


@pytest.mark.parametrize(
    ("lost_ms", "duration_ms"), [(99.0, 2_000.0), (900.0, 100_000.0), (0.0, 1_000.0)]
)
def test_no_rules_where_hardly_anything_was_lost(lost_ms, duration_ms):
    queries = [{"duration_ms": duration_ms}, {}]
    assert rules_of({(0, 1): lost_ms}, queries=queries) == ()


def test_time_lost_to_oneself_or_to_nobody_makes_no_rule():
    tables = named_tables([0, 0, 1])
    demands = [(0, Request.SLOT_WAIT, 0, 100.0, [(1, 60.0), (UNATTRIBUTED, 40.0)])]
    graph = build_graph(tables, blame_of_rows(tables, demands, [50_000.0, 0.0, 0.0]))
    assert propose(tables, graph) == ()


def test_runs_of_one_fingerprint_make_one_rule_and_say_so():
    queries = [{"fingerprint": "name:daily", "name": "daily"}] * 2 + [{}]
    rules = rules_of({(0, 2): 10_000.0, (1, 2): 20_000.0}, queries=queries)
    (victim,) = [rule for rule in rules if rule.query_type is QueryType.TARGET]
    assert victim.fingerprint == "name:daily"
    assert victim.query_id == "app-0/sql-1"
    assert victim.reason.startswith(
        "2 runs of daily (one rule for all) lost 30.0 s of 200.0 s (15 %)"
    )


def test_runs_of_one_fingerprint_are_no_victims_of_each_other():
    queries = [{"fingerprint": "name:daily"}] * 2
    assert rules_of({(0, 1): 50_000.0}, queries=queries) == ()


def test_a_query_without_fingerprint_gets_no_rule_but_its_partner_does():
    rules = rules_of({(0, 1): 30_000.0}, queries=[{}, {"fingerprint": ""}])
    assert [rule.query_name for rule in rules] == ["q0"]


@pytest.mark.parametrize(
    ("request_", "cause"),
    [
        (Request.RUN_QUEUE, "cpu"),
        (Request.EXECUTION_MEMORY, "memory"),
        (Request.SHUFFLE_FETCH, "network"),
        (Request.IO_WRITE, "io"),
    ],
)
def test_where_slots_are_not_waited_for_the_rule_says_what_helps(request_, cause):
    for rule in rules_of({(0, 1): 30_000.0}, request_):
        assert rule.resource == cause
        assert not rule.helps_pools
        assert rule.advice == advice_for(cause)


def test_a_source_in_another_application_is_out_of_reach_of_pools():
    queries = [{"app": 0}, {"app": 1}]
    rules = rules_of({(0, 1): 30_000.0}, Request.IO_READ, queries)
    assert all(r.advice.startswith(advice_for("other-application")) for r in rules)


@pytest.mark.parametrize("request_", [Request.RUN_QUEUE, Request.IO_READ])
def test_a_source_alone_in_its_application_gets_no_share_and_still_comes_first(request_):
    queries = [{"app": 0}, {"app": 1}, {"app": 0}]
    rules = rules_of({(0, 1): 30_000.0, (0, 2): 1_000.0}, request_, queries)
    assert brief(rules) == [
        ("DYNP-1", "source", "q1", pytest.approx(1 / 3), 1),
        ("AGG-1", "source", "q2", 1 / 2, 1),
        ("DYNP-2", "source", "q2", 1 / 2, 2),
        ("DYNP-3", "target", "q0", 2.0, 3),
    ]


def test_a_name_of_many_lines_is_one_short_line_in_the_reason():
    queries = [{"name": "import x\n\n" + "y = 1\n" * 50}, {}]
    for rule in rules_of({(0, 1): 30_000.0}, queries=queries):
        assert "import x y = 1" in rule.reason
        assert "\n" not in rule.reason
        assert len(rule.reason) < 250


def test_rules_are_the_same_whatever_the_order_of_equals():
    lost = {(2, 0): 10_000.0, (2, 1): 10_000.0}
    assert [r.query_name for r in rules_of(lost) if r.rule_type is RuleType.AGG] == ["q0", "q1"]


@pytest.mark.slow
@examples(40)
@given(blamed_tables(), st.integers(0, 4))
def test_proposed_rules_keep_the_schema_and_survive_the_file(blamed, top):
    tables, blame = blamed
    rules = propose(tables, build_graph(tables, blame), top=top)
    content = dump_rules(rules)
    VALIDATOR.validate(json.loads(content))
    assert parse_rules_file(content).rules == rules
    assert len({(r.rule_type, r.fingerprint) for r in rules}) == len(rules)
    assert len({r.id for r in rules}) == len(rules)
    for kind in RuleType:
        orders = [r.rule_order for r in rules if r.rule_type is kind]
        assert orders == list(range(1, len(orders) + 1))
    sides = {(r.fingerprint, r.query_type) for r in rules}
    assert len({fingerprint for fingerprint, _ in sides}) == len(sides)
    for rule in rules:
        if rule.rule_type is RuleType.DYNP:
            assert (rule.rule_value > 1) == (rule.query_type is QueryType.TARGET)


def test_most_at_once_counts_overlap_in_one_application_and_not_touching_ends():
    spans = [(0, 0, 10), (0, 10, 20), (0, 5, 15), (1, 0, 20), (0, 7, 7)]
    tables = tiny_tables(
        queries=[
            {"app": app, "start_ms": float(start), "end_ms": float(end)}
            for app, start, end in spans
        ]
    )
    assert most_at_once(tables, 0) == 2
    assert most_at_once(tables, 1) == 1
    assert most_at_once(tables, 2) == 1


def test_the_paper_tuple_is_spelled_with_hyphens():
    (first, *_) = json.loads(dump_rules(rules_of({(0, 1): 30_000.0})))["rules"]
    tuple_ = {"id", "rule-type", "query-id", "query-type", "rule-value", "rule-order"}
    assert tuple_ <= set(first)
    assert {name for name in first if "-" in name} == tuple_ - {"id"}


def test_rule_fields_and_schema_agree():
    schema = json.loads(rule_schema())["$defs"]["rule"]
    (rule, *_) = rules_of({(0, 1): 30_000.0})
    assert set(rule.to_dict()) == set(schema["required"])
    assert set(schema["properties"]) == {
        *schema["required"],
        *ADVICE_FIELDS,
        *CAP_FIELDS,
        "topics",
    }
    with pytest.raises(AttributeError):
        rule.rule_value = 2.0


def a_file() -> dict:
    return json.loads(dump_rules(rules_of({(0, 1): 30_000.0})))


def damaged(change) -> dict:
    file = a_file()
    change(file, file["rules"])
    return file


BROKEN_FILES = {
    "no rules": (lambda f, r: f.pop("rules"), r"missing required field `rules`"),
    "other version": (lambda f, r: f.update(schema_version="2"), r"\$\.schema_version"),
    "unknown field": (lambda f, r: r[0].update(weight=3), r"weight.*\$\.rules\[\]|\$\.rules"),
    "missing field": (lambda f, r: r[1].pop("reason"), r"reason"),
    "text for number": (lambda f, r: r[0].update({"rule-value": "3"}), r"rule-value|rule_value"),
    "zero priority": (lambda f, r: r[1].update({"rule-value": 0}), r"> 0"),
    "unknown type": (lambda f, r: r[0].update({"rule-type": "NICE"}), r"NICE"),
    "share above one": (
        lambda f, r: r[0].update({"rule-value": 1.5}),
        r"at most 1 - at `\$\.rules\[0\]`",
    ),
    "AGG target": (lambda f, r: r[0].update({"query-type": "target"}), r"for a source"),
    "empty fingerprint": (lambda f, r: r[0].update(fingerprint=""), r"length >= 1"),
}


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_a_broken_rules_file_is_refused_by_schema_and_reader_with_the_field(name):
    change, message = BROKEN_FILES[name]
    file = damaged(change)
    assert not VALIDATOR.is_valid(file)
    with pytest.raises(IqcarError, match=message):
        parse_rules_file(json.dumps(file), "my-rules.json")


def test_two_rules_of_one_type_for_one_fingerprint_are_refused():
    file = damaged(lambda f, r: r.append({**r[0], "id": "other"}))
    with pytest.raises(IqcarError, match="repeats the rule-type and fingerprint"):
        parse_rules_file(json.dumps(file))
    file = damaged(lambda f, r: r.append({**r[0], "fingerprint": "other"}))
    with pytest.raises(IqcarError, match="repeats the id"):
        parse_rules_file(json.dumps(file))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"not json", b"[]", b"\x00" * 100])
def test_what_is_no_rules_file_is_one_line_with_its_name(content, tmp_path):
    path = tmp_path / "rules.json"
    path.write_bytes(content)
    with pytest.raises(IqcarError, match=r"rules\.json: is not") as error:
        load_rules_file(path)
    assert "\n" not in str(error.value)


def test_a_missing_rules_file_is_one_line(tmp_path):
    with pytest.raises(IqcarError, match="cannot be read"):
        load_rules_file(tmp_path / "none.json")


def test_rules_written_to_a_file_are_read_back(tmp_path):
    rules = rules_of({(0, 2): 30_000.0, (1, 2): 10_000.0})
    path = tmp_path / "rules.json"
    path.write_bytes(dump_rules(rules))
    assert load_rules_file(path).rules == rules


def test_every_part_of_blame_has_a_cause_with_advice():
    for kind in BlameKind:
        for resource in Resource:
            words = vocabulary()[cause_of(kind, resource)]
            assert words.name and words.sentence.endswith(".") and words.advice.endswith(".")
    assert cause_of(BlameKind.KNOWN, Resource.CPU) == "gc"
    assert cause_of(BlameKind.KNOWN, Resource.SLOTS) == "executors-not-there"
    assert cause_of(BlameKind.OWN, Resource.IO) == "own-stage"


def pooled_tables(mode: str = "FAIR"):
    return tiny_tables(
        applications=[{"scheduler_mode": mode}, {"scheduler_mode": mode}],
        queries=[
            {"fingerprint": "name:a", "pool": "gold", "start_ms": 5.0},
            {"fingerprint": "name:a", "pool": "lead", "start_ms": 1.0},
            {"fingerprint": "name:b", "pool": ""},
            {"fingerprint": "name:c", "pool": "nobody knows it"},
            {"fingerprint": "", "pool": "gold"},
            {"fingerprint": "name:d", "pool": "gold", "app": 1},
        ],
        pools=[
            {"name": "gold", "weight": 3.0, "time_ms": 20.0},
            {"name": "gold", "weight": 2.0, "time_ms": 10.0},
            {"name": "lead", "weight": 0.5},
            {"name": "default", "weight": 1.0},
        ],
    )


def test_the_priority_of_a_recorded_query_is_the_weight_of_its_last_pool() -> None:
    assert recorded_priorities(pooled_tables()) == {"name:a": 3.0, "name:b": 1.0}


def test_weights_do_not_count_under_fifo_and_without_the_plugin_none_are_known() -> None:
    assert recorded_priorities(pooled_tables("FIFO")) == {}
    assert recorded_priorities(tiny_tables(queries=[{"fingerprint": "name:a"}])) == {}
