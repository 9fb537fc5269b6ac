"""What reads texts from logs needs time in proportion to their length, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iqcar.fleet import on_spark
from iqcar.logs import log_summary
from iqcar.logs import text as redacting
from iqcar.logs.events import lenient, operators, settings, sql_collect, wait_metrics
from iqcar.logs.find import storage
from iqcar.logs.tasks import task_lines
from iqcar.model.queries import identify
from iqcar.rules import rule
from tests.support.hostile_texts import hostile, least_cost

PACKAGE = Path(__file__).resolve().parents[2] / "analyzer" / "iqcar"

BACKTRACKING = {
    "logs/attach/spark_conf.py": "paths that the user gave",
    "apps/demo/workload.py": "our own SQL",
    "logs/events/operators.py": "one class of letters, behind a start that is not in it",
    "logs/events/wait_metrics.py": "anchored, or fixed words",
    "logs/events/lenient.py": "two letters; every start of a token is one",
    "logs/find/locate.py": "names of files, which are short",
    "logs/find/layouts.py": "names of files, which are short",
    "logs/find/storage.py": "paths that the user gave, and at most 1,000 places",
    "logs/tasks/task_lines.py": "anchored, and nothing repeated overlaps",
    "base/files/derived.py": "paths that the user gave",
    "base/files/xml_text.py": "anchored, and each class ends where the next begins",
    "base/files/json_text.py": "a few bytes at each place",
    "fleet/groups.py": "with bounded counts",
    "fleet/on_spark.py": "20,000 characters, one start a line",
    "history/store_views.py": "anchored, with fixed counts",
    "history/stored_files.py": "anchored; names of our own files",
    "base/units.py": "anchored, with bounded counts",
    "apps/cli/options.py": "our own docstrings",
    "model/queries/identify.py": "36 characters at each place",
    "rules/advice_rules.py": "anchored, and nothing repeated overlaps",
    "rules/rule.py": "one class of letters",
    "show/html/files.py": "paths that the user gave; one blank after a digit",
    "rules/vocabulary.py": "anchored, with bounded counts",
    "apps/serve/cache.py": "names of our own files",
    "apps/serve/endpoints.py": "our own schema",
    "logs/find/history_server.py": "what the user typed; one class of letters",
    "logs/find/resource_manager.py": "what the user typed, and whole ids with bounded counts",
    "rules/queue_files.py": "with bounded counts, and blanks between two words",
    "logs/log_summary.py": "500 bytes",
    "model/waits/shared_cluster.py": "anchored, and nothing repeated overlaps",
    "replay/whatif/question.py": "what the user typed",
    "logs/events/sql_collect.py": "from one literal to a word of a list: no place is tried twice",
    "apps/serve/pages.py": "our own page",
    "show/terminal/analyze.py": "one class of letters, or a few fixed ones",
    "say/finding.py": "with bounded counts, and fixed words",
    "causes/savings.py": "anchored, fixed words",
    "rules/actions.py": "fixed words",
}
"""Modules that may use Python's `re`, and why it costs no more there than the text's length."""

SLACK = 10
"""A text of four times the length may cost so many times as much: its square is 16 times, and what
is in proportion 4 times, give or take the neighbours on the machine."""

SHORT, LONG = 4_000, 16_000
"""Characters; redacting looks at 10,000, so its own shorter one is 2,500."""


def test_no_other_module_matches_with_backtracking() -> None:
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if re.search(r"^\s*(?:import re\b|from re import)", file.read_text("utf-8"), re.MULTILINE)
    }
    assert found == set(BACKTRACKING)


def finds(pattern: re.Pattern[Any]) -> Callable[[str], object]:
    """Everything a pattern finds."""
    as_bytes = isinstance(pattern.pattern, bytes)
    return lambda text: sum(1 for _ in pattern.finditer(text.encode() if as_bytes else text))


MATCHERS: dict[str, Callable[[str], object]] = {
    "redact": lambda text: redacting._redacted(text[: redacting.MAX_TEXT]),
    "normalise": operators._normalised,
    "same numbers": operators._with_same_numbers,
    "plan text": operators.hash_plan_text,
    "codegen": lambda text: operators.without_number(text + ")"),
    "clean": settings.clean_description,
    "user named": settings.is_user_named,
    "connect": lambda text: settings.connect_operation(text, None),
    "connect tags": settings.connect_tags,
    "connect SQL": lambda text: settings.connect_request('sql {\n query: "' + text + '"'),
    "metric": lambda text: sql_collect.wait_name.__wrapped__("scan time " + text),
    "uuid": finds(identify._UUID),
    "token": finds(lenient._TOKEN),
    "event": lambda text: storage._EVENT.match(("{" + text).encode()),
    "update": lambda text: task_lines._UPDATE.match(('"Name":"' + text).encode()),
    "waits": lambda text: wait_metrics.find_waits(text.encode(), [(0, 0.0, 0.0, 0, len(text))]),
    "wait": lambda text: wait_metrics.value_of(text.encode()),
    "id": lambda text: wait_metrics._TOLD.match(('"ID":1,"Name":"' + text).encode()),
    "digits": lambda text: task_lines._DIGITS.match(text.encode()),
    "wanted": lambda text: log_summary._WANTED.search(text.encode(), 0, log_summary.MAX_NAME),
    "others": finds(rule._OTHERS),
    "error": lambda text: on_spark._PYTHON_ERROR.findall(text[: on_spark._READ]),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MATCHERS)
def test_four_times_the_text_costs_about_four_times_as_much(name: str) -> None:
    work = MATCHERS[name]
    short, long = (2_500, 10_000) if name == "redact" else (SHORT, LONG)
    plain = least_cost(lambda text: text.encode().hex(), "x" * long) * SLACK
    slow = []
    for one in hostile(200):
        few, many = (least_cost(work, one.text(n), 1) for n in (short, long))
        if many > SLACK * few + plain:  # look again before saying so
            few, many = (least_cost(work, one.text(n)) for n in (short, long))
            if many > SLACK * few + plain:
                slow.append((one, few, many))
    assert slow == []


def test_a_text_that_hung_is_told_at_once() -> None:
    assert settings.is_user_named("/* a */ " * 1000 + "CALL p()")
    assert redacting.redact_text("password" * 1200).startswith("password")
