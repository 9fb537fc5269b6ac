"""Applications that are hurt in every way Spark knows end as without the plugin, and keep records.

Each Spark that is started serves several faults; what is printed as OUTCOME is compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.free_port import free_port
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    DIES_AT_ONCE,
    JAR,
    PLUGIN,
    TEST_JAR,
    build_jar,
    command,
    environment,
    records_of,
    run,
    spark_params,
    start,
)

pytestmark = [pytest.mark.long, pytest.mark.spark]

JOBS = "org.iqcar.spark.FaultyJobs"
CLUSTER = "local-cluster[2,1,512]"
ONE_EXECUTOR = "local-cluster[1,2,512]"
HURT = (
    "hurt tiny:20,failing,killed,refetch,large:8:300000,lost,stop"
    " spark.executor.memory=512m spark.driver.maxResultSize=1m"
)
UNWRITABLE = "unwritable tiny:5 spark.master=local[2] spark.eventLog.dir=file:/proc/none"
"""Even root can write nothing there, so Spark itself does not start."""
SAMPLING = "a_round_of_the_sampler,reading_how_much_memory_tasks_hold,sampling_the_host"
NO_MEMORY = "nomemory tiny:20,large:8:100000000 spark.driver.maxResultSize=0"


@dataclass
class End:
    """The end of one task's attempt."""

    group: str
    kind: str
    records: int


def kind_of_end(event: dict[str, Any], stage_is_over: bool) -> str:
    """Spark's reason, and more where that does not tell whether Spark kept the accumulators."""
    reason = event["Task End Reason"]
    kind = str(reason["Reason"])
    if kind == "Success" and stage_is_over:
        return "success after its stage"
    if kind == "TaskKilled" and not event.get("Task Metrics"):
        # Tasks that still ran when the stage was aborted have the same reason, but metrics.
        too_large = "maxResultSize" in reason["Kill Reason"]
        return "result thrown away" if too_large else "killed before it ran"
    return kind


@dataclass
class Hurt:
    """What a driver and its applications left behind."""

    exit_code: int
    output: str
    errors: str
    log: Path

    @property
    def outcomes(self) -> list[str]:
        """How each job ended."""
        return [line for line in self.output.splitlines() if line.startswith("OUTCOME")]

    def ends(self) -> list[End]:
        """Task ends in the complete lines of all logs."""
        found = []
        for path in sorted(self.log.iterdir()):
            lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
            groups: dict[int, str] = {}
            over = set()
            for event in map(json.loads, lines):
                if event["Event"] == "SparkListenerJobStart":
                    group = event["Properties"]["spark.jobGroup.id"]
                    groups.update(dict.fromkeys(event["Stage IDs"], group))
                elif event["Event"] == "SparkListenerStageCompleted":
                    over.add(event["Stage Info"]["Stage ID"])
                elif event["Event"] == "SparkListenerTaskEnd":
                    stage = event["Stage ID"]
                    kind = kind_of_end(event, stage in over)
                    found.append(End(groups[stage], kind, len(records_of(event))))
        return found

    def doubts(self) -> str:
        """What the analyzer doubts about the logs."""
        words = [sys.executable, "-m", "iqcar", "analyze", str(self.log), "--json", "-"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=APP_TIMEOUT_S)
        assert done.returncode in (0, 3), done.stderr
        assert "Traceback" not in done.stderr
        return json.dumps(json.loads(done.stdout))


def hurt(home: Path, folder: Path, *applications: str, master: str, plugin: bool = True) -> Hurt:
    """Run the applications one after the other."""
    folder.mkdir()
    conf = PLUGIN if plugin else {}
    running = start(home, folder, [JOBS, *applications], master=master, conf=conf)
    code = running.wait(APP_TIMEOUT_S)
    return Hurt(code, running.output, running.errors, folder / "log")


@pytest.fixture(scope="module", params=spark_params())
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Hurt, Hurt]:
    """Jobs that fail, are killed, lose files, executors and results, and are stopped midway."""
    folder = tmp_path_factory.mktemp("hurt")
    plain, attached = (
        hurt(request.param, folder / name, UNWRITABLE, HURT, master=CLUSTER, plugin=name == "with")
        for name in ("without", "with")
    )
    return attached, plain


@pytest.mark.portable
def test_hurt_jobs_end_as_they_do_without_the_plugin(pair: tuple[Hurt, Hurt]) -> None:
    attached, plain = pair
    assert len(plain.outcomes) == 8, plain.errors[-3000:]
    assert attached.outcomes == plain.outcomes
    assert attached.exit_code == plain.exit_code == 0
    assert "LEFT {}" in attached.output
    assert "the job is not affected" not in attached.errors


@pytest.mark.portable
def test_each_end_has_its_record_where_spark_keeps_accumulators(pair: tuple[Hurt, Hurt]) -> None:
    counts: dict[str, Counter[int]] = {}
    for end in pair[0].ends():
        counts.setdefault(end.kind, Counter())[end.records] += 1
    always = ("Success", "Resubmitted", "ExceptionFailure", "TaskKilled")
    never = ("ExecutorLostFailure", "FetchFailed", "result thrown away", "killed before it ran")
    assert {*always, *never} - {"killed before it ran"} <= counts.keys()
    for kind in always:
        assert counts[kind].keys() == {1}, counts
    for kind in never:
        assert counts.get(kind, Counter()).keys() <= {0}, (kind, counts)


def test_the_analyzer_says_which_records_a_hurt_application_lacks(pair: tuple[Hurt, Hurt]) -> None:
    doubts = pair[0].doubts()
    assert "task ends have no record of the plugin (" in doubts
    assert "lost with their executor" in doubts
    assert "could not fetch their shuffle blocks" in doubts
    assert "where the plugin was missing or failed" not in doubts


RULES_PLACES = ("folder", "pipe", "huge", "rubbish", "deep", "absent")
"""What is in the place of the rules' file."""
MALFORMED = {
    "enabled": "maybe", "sample.period": "-5ms", "sample.depth": "x", "profile.bucket": "ten",
    "profile.buckets": "1e9", "profile.bytes": "", "contention.enabled": "2",
    "python.enabled": "~", "host.enabled": "ja", "host.period": "99999999999999999999s",
    "rules.strict": "yes",
}  # fmt: skip
NAMED = {"proc": "/nowhere", "host.python": "/nowhere/python", "rules": "~"}
"""Settings that are text: no value of theirs is malformed."""
SILLY = {
    "sample.period": "1us", "profile.bucket": "99999999min", "profile.buckets": "2147483647",
    "profile.bytes": "2147483647", "host.period": "99999999min",
}  # fmt: skip
"""What would stall or fill the JVM."""


def settings(values: dict[str, str]) -> str:
    return " ".join(f"spark.iqcar.{key}={value}" for key, value in values.items())


@pytest.fixture(scope="module", params=spark_params())
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Hurt:
    """One driver with an application for each kind of bad setting and of bad rules."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "huge").write_bytes(b" " * (9 << 20))
    (folder / "rubbish").write_bytes(bytes(range(255, 0, -1)) * 40)
    (folder / "deep").write_bytes(b"[" * 200_000)
    vanishing = folder / "vanishing"
    rules = {"schema_version": "1", "pools": [{"name": "gold", "weight": 2}], "assignments": []}
    vanishing.write_text(json.dumps(rules))
    chatter = folder / "chatter"
    chatter.write_text("#!/bin/sh\nwhile :; do echo rubbish; done\n")
    chatter.chmod(0o755)
    applications = [
        "stopped tiny:5,stop",
        f"malformed tiny:20 {settings({**MALFORMED, **NAMED})}",
        f"silly tiny:20,unsampled {settings({**SILLY, 'sample.depth': '2147483647'})}"
        f" spark.iqcar.host.python={chatter}",
        f"vanishing delete:{vanishing},tiny:5 spark.iqcar.rules={vanishing}",
        *(f"{name} tiny:5 spark.iqcar.rules={folder / name}" for name in RULES_PLACES),
    ]
    return hurt(request.param, folder / "run", *applications, master="local[2]")


def test_bad_settings_and_rules_cost_no_job_and_no_record(places: Hurt) -> None:
    assert places.exit_code == 0, places.errors[-3000:]
    expected = {
        "stopped tiny:5 5", "malformed tiny:20 20", "silly tiny:20 20", "silly unsampled true",
        "vanishing tiny:5 5",
        *(f"{name} tiny:5 5" for name in RULES_PLACES),
    }  # fmt: skip
    assert {f"OUTCOME {line}" for line in expected} <= set(places.outcomes)
    records = [end.records for end in places.ends() if end.group.startswith("tiny")]
    assert records == [1] * (20 + 20 + 5 * (2 + len(RULES_PLACES)))


def test_each_bad_setting_is_reported_once(places: Hurt) -> None:
    for key, value in [*MALFORMED.items(), *SILLY.items()]:
        text = f"spark.iqcar.{key} = {value.replace('~', ' ')} cannot be read"
        assert places.errors.count(text) == 1, text
    assert places.errors.count(" cannot be read (expected") >= len(SILLY)


def test_each_bad_rules_file_is_refused_in_one_line(places: Hurt) -> None:
    for name in RULES_PLACES:
        (line,) = (
            line
            for line in places.errors.splitlines()
            if "no rules are applied" in line and f"/{name}" in line
        )
        assert "WARN" in line
    assert places.errors.count("no rules are applied") == len(RULES_PLACES)


def test_a_sampler_that_is_none_is_ended(places: Hurt) -> None:
    assert "this host is no longer sampled" in places.errors
    assert ": rubbish" in places.errors


def test_no_thread_and_no_kernel_file_is_left_after_the_last_application(places: Hurt) -> None:
    assert "LEFT {}" in places.output, places.output


@pytest.mark.parametrize("places", [SAMPLING, "a_task_s_end", "starting_on_the_executor"])
@pytest.mark.parametrize("home", spark_params())
def test_an_executor_in_which_the_plugin_runs_out_of_memory_finishes_its_job(
    home: Path, places: str, tmp_path: Path
) -> None:
    option = f"spark.executor.extraJavaOptions=-Diqcar.test.memory={places}"
    few = "spark.executor.memory=512m spark.deploy.maxExecutorRetries=1"
    end = hurt(home, tmp_path / "run", f"full slow,tiny:20 {few} {option}", master=ONE_EXECUTOR)
    assert end.outcomes == ["OUTCOME full slow 8", "OUTCOME full tiny:20 20"], end.errors[-3000:]
    (log,) = (path.read_text() for path in end.log.iterdir())
    assert log.count('"SparkListenerExecutorAdded"') == 1
    assert '"SparkListenerExecutorRemoved"' not in log
    assert {one.kind for one in end.ends()} == {"Success"}
    if places == SAMPLING:  # the others leave no record
        assert log.count('\\"failures\\":') == len(end.ends()) == 30


@pytest.mark.parametrize("home", spark_params())
def test_a_part_that_fails_while_it_ends_leaves_the_others_to_end(
    home: Path, tmp_path: Path
) -> None:
    live = {"spark.iqcar.live": f"127.0.0.1:{free_port()}", "iqcar.test.fail": "ending_rules"}
    app = run(home, tmp_path, [JOBS, "ending tiny:5"], conf={**PLUGIN, **live})
    log = app.output + app.errors  # Spark 3.3 logs to one, later ones to the other
    assert "OUTCOME ending tiny:5 5" in log
    assert "iqcar: events are streamed at" in log
    assert log.count("ending rules failed; the job is not affected") == 1
    assert "LEFT {}" in log, log


@pytest.mark.parametrize("home", spark_params())
def test_a_driver_that_runs_out_of_memory_dies_as_it_does_without_the_plugin(
    home: Path, tmp_path: Path
) -> None:
    def one(plugin: bool) -> Hurt:
        folder = tmp_path / ("with" if plugin else "without")
        folder.mkdir()
        jars = ["--jars", str(JAR)] if plugin else []
        with tempfile.TemporaryDirectory() as left:  # who dies so removes no file
            java = f"--driver-java-options={DIES_AT_ONCE} -Djava.io.tmpdir={left}"
            words = command(
                home,
                folder,
                [str(TEST_JAR), NO_MEMORY],
                master="local[2]",
                conf=PLUGIN if plugin else {},
                options=[*jars, "--driver-memory", "512m", java, "--class", JOBS],
            )
            done = subprocess.run(
                words,
                env=environment(home),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=APP_TIMEOUT_S,
            )
        return Hurt(done.returncode, done.stdout, done.stderr, folder / "log")

    build_jar()
    with ThreadPoolExecutor(2) as both:
        attached, plain = both.map(one, (True, False))
    assert attached.outcomes == plain.outcomes == ["OUTCOME nomemory tiny:20 20"]
    assert attached.exit_code == plain.exit_code == 3
    records = [end.records for end in attached.ends()]
    assert len(records) >= 20
    assert records == [1] * len(records)
    attached.doubts()
