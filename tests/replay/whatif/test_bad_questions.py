"""Bad questions and poor logs: a sentence and exit code 2, or a refusal, never an empty number."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iqcar import Diagnosis, diagnose
from iqcar.errors import IqcarError, UsageError
from iqcar.logs import read_logs
from iqcar.replay.whatif.edit import MOST_TASKS, repartition
from iqcar.replay.whatif.question import Question, ask
from iqcar.replay.whatif.question_parts import CHANGES
from tests.support.command import iqcar
from tests.support.crowded_log import HOSTS, NAMES, crowded_log
from tests.support.long_chain import long_chain
from tests.support.small_log import read, small_log

EARLIER, LATER = NAMES[:2]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crowded_log().write(tmp_path_factory.mktemp("crowded") / "app-1")


@pytest.fixture(scope="module")
def crowded(log: Path) -> Diagnosis:
    return diagnose(read_logs([log], processes=1), expected=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"remove": "nobody"},
        {"start": {"nobody": "+1m"}},
        {"cap": {"nobody": 3}},
        {"host_loss": "host-nowhere"},
        {"host_loss": list(HOSTS)},
        {"remove": list(NAMES)},
        {"slots": -10_000},
        {"hosts": -1000},
    ],
    ids=str,
)
def test_what_is_not_there_is_named(crowded: Diagnosis, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        crowded.what_if(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"cap": {EARLIER: 0}},
        {"cap": {EARLIER: -3}},
        {"executors": 0},
        {"slots": 0},
        {"slots": "many"},
        {"disk": 0},
        {"disk": -2},
        {"disk": float("nan")},
        {"network": float("inf")},
        {"cpu": "1e9"},
        {"host_cores": 0},
        {"partitions": {EARLIER: 10**9}},
        {"scale": {EARLIER: -1}},
        {"pool": {EARLIER: 0}},
        {"mode": "LIFO"},
        {"start": {EARLIER: "soon"}},
        {"start": {EARLIER: float("nan")}},
        {"start": ["no-value"]},
        {"remove": EARLIER, "cap": {EARLIER: 3}},
        {"slots": 3, "executors": 2},
        {"cpu": 2, "host_cores": 8},
        {"hosts": -1, "host_loss": HOSTS[0]},
        {"mode": "FIFO", "pool": {EARLIER: 2}},
        {"start": [f"{EARLIER}=+1m", f"{EARLIER}=+2m"]},
    ],
    ids=str,
)
def test_absurd_values_and_contradictions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ask(**changes)


@pytest.mark.slow
def test_the_command_says_a_sentence_and_ends_with_2(log: Path) -> None:
    for words in (["--remove", "nobody"], ["--disk", "-2"], ["--host-loss", "host-nowhere"]):
        done = iqcar("whatif", log, *words)
        assert done.returncode == 2, done.stderr
        assert words[0] in done.stderr
        assert "Traceback" not in done.stderr


def numbers_rest_on_something(found: Diagnosis, **changes: Any) -> None:
    """Every query has a finite prediction within its range, or a reason why it has none."""
    said = found.what_if(**changes)
    for row in said.queries.to_dict("records"):
        number = [row["low_ms"], row["predicted_ms"], row["high_ms"]]
        assert np.isfinite(number).all() != bool(row["refused"])
        if not row["refused"]:
            assert 0 <= number[0] <= number[1] <= number[2]
    assert said.refused or not (said.queries["refused"] != "").any()


def test_a_truncated_log_is_answered_where_queries_ended(log: Path, tmp_path: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    for share in (0.4, 0.7, 0.95):
        short = tmp_path / f"app-{share}"
        short.write_bytes(b"".join(lines[: int(share * len(lines))]))
        found = diagnose(read_logs([short], processes=1), expected=False)
        try:
            numbers_rest_on_something(found, disk=2.0)
        except IqcarError as error:
            assert "nothing can be asked" in str(error)


def test_one_task_is_enough(tmp_path: Path) -> None:
    found = diagnose(read(small_log(1), tmp_path), expected=False)
    numbers_rest_on_something(found, disk=2.0)


def test_without_executors_nothing_can_be_asked(crowded: Diagnosis) -> None:
    tables = crowded.tables.with_(executors=crowded.tables.executors.iloc[:0])
    tables = tables.with_(tasks=tables.tasks.assign(executor=-1))
    try:
        numbers_rest_on_something(diagnose(tables, expected=False), disk=2.0)
    except IqcarError as error:
        assert "nothing can be asked" in str(error)


def test_hosts_that_are_not_known_give_no_false_number(crowded: Diagnosis) -> None:
    tasks = crowded.tables.tasks
    tables = crowded.tables.with_(tasks=tasks.assign(host=-1))
    try:
        numbers_rest_on_something(diagnose(tables, expected=False), disk=2.0)
    except IqcarError as error:
        assert "nothing can be asked" in str(error)


def test_more_tasks_than_can_be_replayed_are_refused_before_they_are_made(tmp_path: Path) -> None:
    path = long_chain(400).write(tmp_path / "app-1")
    done = iqcar("whatif", path, "--partitions", "q=100000")
    assert done.returncode == 2
    assert "40,000,000 tasks, in 400 stages; at most 1,000,000" in done.stderr
    most = int(re.search(r"up to ([\d,]+)", done.stderr)[1].replace(",", ""))
    scenario = diagnose(read_logs([path], processes=1), expected=False).what_if_model.scenario
    query = int(scenario.query_of_step.max())
    made = repartition(scenario, {query: most})
    assert MOST_TASKS - 400 < len(made.work.step) <= MOST_TASKS
    with pytest.raises(UsageError):
        repartition(scenario, {query: most + 1})


def test_every_field_of_a_question_can_be_asked() -> None:
    names = [each.name for each in fields(Question)]
    fields_of = {"slots_in_all", *(f"{each}_of" for each in ("slots", "slots_in_all", *CHANGES))}
    assert [*CHANGES] == [name for name in names if name not in fields_of]


def test_an_unknown_change_is_refused() -> None:
    with pytest.raises(TypeError, match="'slot'"):
        ask(slot=3)
