"""``iqcar topics``: what it prints and writes, on logs, and on rubbish; names, links."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import iqcar as package
from iqcar.causes.stragglers.features import FEATURE_LIST
from iqcar.causes.topics.jobs import PARTS_OF_LATENCY
from iqcar.causes.topics.topic_result import Topics, TopicSettings
from iqcar.errors import IqcarError
from iqcar.pipeline import diagnose, topics_of
from iqcar.rules.compile_pools import load_rules_file
from iqcar.rules.vocabulary import topic_name, topic_vocabulary
from iqcar.show.json.analyze import result_schema, to_json, topics_to_json
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.conftest import REPO
from tests.support.command import iqcar
from tests.support.hound_traces import CAUSES, words_of_cause
from tests.support.real_logs import LOGS, diagnosis_of_log
from tests.support.straggler_truth import simulate

STAGES, TASKS = 24, 24


def recurring_log(skewed: str = "skewed") -> SyntheticLog:
    """Two queries; in the stages of `skewed` large tasks straggle, in those of `full` GC does."""
    rng = np.random.default_rng(0)
    log = SyntheticLog("app-1").app("recurring", 1000).environment()
    log.executor("1", "host-a", 4, 1000)
    for query, name in enumerate((skewed, "full")):
        properties = {"spark.sql.execution.id": str(query), "spark.job.description": name}
        stages = [
            stage_info(n, submission=1000, **{"Number of Tasks": TASKS})
            for n in range(query * STAGES // 2, (query + 1) * STAGES // 2)
        ]
        log.sql(query, description=name, time=1000).job(query, stages, 1000, properties)
        for stage in stages:
            number = stage["Stage ID"]
            log.stage(stage, properties)
            for task in range(TASKS):
                factor = float(rng.choice([1, 3], p=[0.85, 0.15])) if task else 4.0
                run = int(1000 * factor * rng.uniform(0.97, 1.03))
                large, collects = (factor, 0) if query == 0 else (1.0, run - 950)
                read = int(1e8 * large * rng.uniform(0.97, 1.03))
                metrics = task_metrics(
                    # Decompressing takes hardly longer for more: no skew of computation.
                    Executor_Run_Time=run, Executor_CPU_Time=950_000_000,
                    Input_Metrics={"Bytes Read": read, "Records Read": read // 100},
                    Shuffle_Read_Metrics={}, Shuffle_Write_Metrics={}, JVM_GC_Time=collects,
                )  # fmt: skip
                log.task(
                    number * TASKS + task, stage=number, metrics=metrics, launch=1000,
                    finish=1100 + run, host="host-a", index=task,
                )  # fmt: skip
            log.stage_end(stage, 6000)
        log.job_end(query, 6000).sql_end(query, 6000)
    return log.end(6100)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recurring_log().write(tmp_path_factory.mktemp("topics") / "app-1")


@pytest.mark.slow
def test_each_query_has_its_recurring_cause_with_name_and_advice(log: Path) -> None:
    done = iqcar("topics", log)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "explain 24 of 24 stages with stragglers" in words
    assert re.search(r"skewed sql-0 \d+ data skew: input (100|9\d) %", words)
    assert re.search(r"full sql-1 \d+ garbage collection (100|9\d) %", words)
    assert "spark.sql.files.maxPartitionBytes" in words
    assert "no pool is made from it" in words


@pytest.mark.long
def test_the_json_says_the_same_fits_its_schema_and_repeats(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "topics.json"
    done = iqcar("topics", log, "--json", out)
    assert done.returncode == 0, done.stderr
    assert f"Wrote {out}" in done.stderr
    (found,) = json.loads(out.read_text())["topics"]
    fits_schema(found)
    assert found["jobs"] == STAGES
    assert {t["name"] for t in found["topics"]} == {"data skew: input", "garbage collection"}
    for stage in found["stages"]:
        assert sum(m["share"] for m in stage["mixture"]) == pytest.approx(1)
    assert found["causes_per_job"][0]["causes"] == 1
    assert found["causes_per_job"][0]["share"] > 0.9
    assert found["evidence"]["agree"] > 0.8
    assert {a["kind"] for a in found["advice"]} == {"advice"}
    again = iqcar("topics", log, "--json", "-")
    assert again.stdout == out.read_text()
    assert iqcar("topics", log, "--json", out).returncode == 2


@pytest.mark.long
def test_analyze_looks_for_topics_by_itself_where_there_are_enough_stages(log: Path) -> None:
    tables = package.read(log)
    without, with_topics = diagnose(tables, topics=False), diagnose(tables)
    assert without.topics is None
    assert diagnose(tables, rules=False).topics is None
    assert len(with_topics.topics.topics) == 2
    for diagnosis in (without, with_topics):
        jsonschema.validate(json.loads(to_json(diagnosis)), json.loads(result_schema()))
    done = iqcar("analyze", log, "--topics")
    assert "garbage collection" in done.stdout.partition("Topics")[2]
    target = " ".join(done.stdout.partition("Hot resources")[0].split())
    says = r"stragglers: \d+, \S+ s over the median: garbage collection \d+ \(topic garbage coll"
    assert re.search(says, target)
    level = iqcar("blame", log, "--target", "full", "--topics")
    assert re.search(says.replace("s", "S", 1), " ".join(level.stdout.split()))
    assert "Topics" not in iqcar("analyze", log).stdout
    assert "Topics" not in iqcar("analyze", log, "--no-topics", "--full").stdout
    assert "Topics" in iqcar("analyze", log, "--full").stdout


@pytest.mark.long
def test_topics_never_become_pools(log: Path, tmp_path: Path) -> None:
    rules = [tmp_path / "plain.json", tmp_path / "topics.json"]
    assert iqcar("analyze", log, "--no-topics", "--rules", rules[0]).returncode == 0
    assert iqcar("analyze", log, "--topics", "--rules", rules[1]).returncode == 0
    files = [load_rules_file(path) for path in rules]
    assert files[0].plan == files[1].plan
    assert {rule.id for rule in files[0].rules} == {rule.id for rule in files[1].rules}
    # Here nobody was in anybody's way: all rules are advice.
    assert all(rule.is_advice for rule in files[1].rules) and not files[1].plan.pools


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["LOG", "--settings", "trim=7"], "trim"),
        (["LOG", "--settings", "nonsense"], "is no setting"),
        (["LOG", "--settings", "words=x"], "is not a whole number"),
        (["nowhere"], "nowhere"),
        (["LOG", "--names", "missing.json"], "missing.json"),
        (["LOG", "--json", "no/such/folder.json"], "folder does not exist"),
    ],
)
def test_wrong_use_is_one_clear_line(log: Path, arguments: list[str], says: str) -> None:
    done = iqcar("topics", *[log if a == "LOG" else a for a in arguments])
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert done.stderr.startswith("iqcar: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", LOGS)
def test_every_real_log_gives_a_whole_result(name: str) -> None:
    diagnosis = diagnosis_of_log(name)
    found = diagnosis.topics
    assert found is not None
    whole(found)
    (as_json,) = json.loads(topics_to_json(diagnosis.tables, [found]))["topics"]
    fits_schema(as_json)


def whole(found: Topics) -> None:
    assert bool(found.reason) == (not len(found.topics))
    for frame, group, part in (
        (found.words, ["topic"], "weight"),
        (found.mixtures, ["job"], "share"),
        (found.sources, ["job", "topic"], "share"),
    ):
        assert frame.groupby(group)[part].sum().to_numpy() == pytest.approx(1)
    assert (found.jobs["tasks"] >= found.settings.least_tasks).all()
    assert (found.jobs["stragglers"] > 0).all()


@pytest.mark.slow
def test_hostile_names_cannot_drive_the_terminal(tmp_path: Path) -> None:
    hostile = "q\x1b[31m\x07\u202e[bold]x"
    done = iqcar("topics", recurring_log(hostile).write(tmp_path / "app-1"))
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)
    assert "[bold]x" in done.stdout


def test_a_lack_of_processor_names_who_is_blamed_for_it() -> None:
    found = topics_of(simulate(3, stages=24).tables)
    whole(found)
    assert len(found.sources)
    assert set(found.sources["resource"]) <= {"cpu", "io", "network", "memory", "slots"}
    lacking = {t for t in range(len(found.topics)) if topic_name(found.words_of(t)).resource}
    assert set(found.sources["topic"]) <= lacking


def test_the_vocabulary_fits_its_schema_and_is_advice() -> None:
    data = json.loads((REPO / "rules" / "topics.json").read_text(encoding="utf-8"))
    schema = json.loads((REPO / "rules" / "topics.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    assert data["acts_on"] == "advice"


def test_every_feature_that_can_delay_a_task_has_a_name() -> None:
    for feature in FEATURE_LIST:
        if feature.name not in PARTS_OF_LATENCY:
            assert topic_name({f"{feature.name}(+)": 1.0}).key, feature.name


@pytest.mark.parametrize("cause", CAUSES)
def test_the_papers_causes_have_the_papers_names(cause: str) -> None:
    """Table 4; its data skew is ours of memory, its eviction delay is called eviction."""
    words = {word: 1 / len(words_of_cause(cause)) for word in words_of_cause(cause)}
    papers = {
        "page cache": "data skew", "disk space": "data skew", "queueing delay": "queueing",
    }  # fmt: skip
    assert topic_name(words).name.startswith(papers.get(cause, cause))


@pytest.mark.parametrize(
    ("words", "key", "name"),
    [
        ({"gc_ms(+)": 0.6, "input_bytes(+)": 0.4}, "gc", "garbage collection"),
        ({"GC_TIME(+)": 1.0}, "gc", "garbage collection"),
        ({"gc_ms(+)": 0.4, "x(+)": 0.3, "cpi(+)": 0.3}, "", "garbage collection and cache"),
        ({"x(+)": 0.7, "gc_ms(-)": 0.3}, "", "x(+), gc_ms(-)"),
        ({}, "", ""),
    ],
)
def test_a_topic_is_called_after_most_of_its_weight(words, key: str, name: str) -> None:
    found = topic_name(words)
    assert found.key == key
    assert found.name.startswith(name)
    assert bool(found.advice) == (" and " in name or bool(key))


@pytest.mark.slow
def test_users_give_their_own_names(log: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    ours = {
        "name": "too much trash", "sentence": "Trash.", "advice": "Produce less of it, please.",
        "keywords": ["gc_ms(+)"],
    }  # fmt: skip
    vocabulary = {"schema_version": "1", "acts_on": "advice", "topics": {"trash": ours}}
    names.write_text(json.dumps(vocabulary))
    done = iqcar("topics", log, "--names", names)
    assert done.returncode == 0, done.stderr
    assert "too much trash" in done.stdout
    assert "input_bytes(+)" in done.stdout
    for number, broken in enumerate(
        ("", "{", '{"acts_on": "pools"}', json.dumps({**vocabulary, "topics": {}}))
    ):
        file = tmp_path / f"broken{number}.json"
        file.write_text(broken)
        with pytest.raises(IqcarError, match="is no vocabulary of topics"):
            topic_vocabulary(str(file))


def test_every_setting_is_documented_with_its_default() -> None:
    page = (REPO / "docs" / "topics.md").read_text(encoding="utf-8")
    settings = page.partition("## Settings")[2]
    listed = {}
    for names, values in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", settings, re.MULTILINE):
        listed |= dict(zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True))
    plain = TopicSettings().to_dict()
    assert listed.keys() == plain.keys()
    for name, value in listed.items():
        number = float(value.split("/")[0]) / float((value + "/1").split("/")[1])
        assert number == pytest.approx(plain[name]), name


def fits_schema(found: dict) -> None:
    schema = json.loads(result_schema())
    part = {"$defs": schema["$defs"], "$ref": "#/$defs/ResultTopics"}
    jsonschema.Draft202012Validator(part).validate(found)
