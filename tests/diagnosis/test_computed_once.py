"""A run computes each intermediate result once, however many parts of the output read it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.apps.cli.main import main
from iqcar.causes.blame.attribute import attribute
from iqcar.causes.graph import views
from iqcar.causes.stragglers.features import build_features
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.model.waits.measure import measure_waits
from tests.support.crowded_log import crowded_log

pytestmark = pytest.mark.slow

ONCE = (
    identify, add_critical_path, measure_waits, attribute, build_features, views.lost,
    views.lost_to_others,
)  # fmt: skip


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Number of calls of each function, whichever module imported it."""
    import iqcar.pipeline
    import iqcar.show.html  # noqa: F401 (it must be imported before its names are replaced)

    counts: Counter[str] = Counter()

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            counts[function.__name__] += 1
            return function(*given, **named)

        return call

    modules = [module for name, module in sys.modules.items() if name.startswith("iqcar.")]
    for function in ONCE:
        wrapper = counted(function)
        for module in modules:
            for name, value in list(vars(module).items()):
                if value is function:
                    monkeypatch.setattr(module, name, wrapper)
    return counts


@pytest.mark.parametrize(
    "command",
    [
        ["analyze", "--topics", "--html", "page.html", "--json", "all.json"],
        ["report", "--topics", "--out", "page.html"],
    ],
)
def test_a_command_computes_each_step_once(
    calls: Counter[str], command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = crowded_log().write(tmp_path / "app-1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["iqcar", *command, str(log)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert calls == {function.__name__: 1 for function in ONCE}


@pytest.mark.long
@pytest.mark.parametrize(
    "command", [["stragglers"], ["topics"], ["queries"], ["blame", "--target", "report"]]
)
def test_no_command_computes_a_step_twice(
    calls: Counter[str], command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = crowded_log().write(tmp_path / "app-1")
    monkeypatch.setattr(sys, "argv", ["iqcar", *command, str(log)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert {name: count for name, count in calls.items() if count != 1} == {}


def test_a_diagnosis_in_a_notebook_computes_what_is_read_from_it_once(
    calls: Counter[str], tmp_path: Path
) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(crowded_log().write(tmp_path / "app-1")))
    assert diagnosis.queries is diagnosis.queries
    assert diagnosis.lost_ms() is diagnosis.lost_ms()
    assert not diagnosis.lost_ms().flags.writeable
    assert not diagnosis.lost_to_others_ms().flags.writeable
    for _ in range(2):
        repr(diagnosis)
        diagnosis._repr_html_()
        diagnosis.plot.straggler_boxes()
    assert calls == {function.__name__: 1 for function in ONCE}


def test_queries_are_grouped_anew_only_for_another_meaning_of_query(
    calls: Counter[str], tmp_path: Path
) -> None:
    tables = iqcar.read(crowded_log().write(tmp_path / "app-1"))
    iqcar.diagnose(tables, query_by="sql", expected=False)
    assert calls["identify"] == 1
    assert iqcar.diagnose(tables, query_by="job", expected=False).settings.query_by == "job"
    assert calls["identify"] == 2
