"""Diagnoses many logs on Spark: applications that shared hosts at the same time together.

Each group of logs is diagnosed on an executor, which sends what a function makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from iqcar.enums import QueryBy
from iqcar.errors import UsageError
from iqcar.fleet import steps
from iqcar.fleet.logs_on_spark import AT_ONCE, at_one_place, keep, outlined, read_on_spark
from iqcar.fleet.packing import bundles_of_groups
from iqcar.fleet.send_code import Shipped, ship
from iqcar.fleet.session import watched, working_on
from iqcar.fleet.shared_hosts import (
    MOST_TASKS,
    Cut,
    Ran,
    SharedDevices,
    meeting_groups,
    shared_devices,
)
from iqcar.fleet.steps import Group, groups
from iqcar.fleet.transport import FaultsError, faults_of, objects, rows_of, run_step
from iqcar.logs.find.layouts import EventLog, Unreadable
from iqcar.logs.find.locate import locate
from iqcar.logs.merge import leave_out, without_faulty
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.pipeline import diagnose
from iqcar.tables import SPECS, Tables, texts

ANSWERS = "answers"
"""Kind of the rows that hold answers."""
OUTLINED = ("inputs", "applications", "hosts")
"""Tables whose rows the driver gets of each log."""
_HEAVY = tuple(spec.name for spec in SPECS if spec.name not in OUTLINED)


@dataclass(frozen=True)
class DiagnosisCall:
    """What is to be made of each diagnosis.

    Attributes
    ----------
    function : ``package.module:function``, called with the diagnosis, then with the arguments. It
        and what it imports have to be there on the executors; iqcar's own code is.
    options : further arguments of :func:`iqcar.pipeline.diagnose`.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def find(self) -> Callable[..., Any]:
        """Import the function.

        Raises UsageError if there is none of that name.
        """
        module, _, name = self.function.partition(":")
        try:
            found: Callable[..., Any] = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"no function is called so: {error}", self.function) from error
        return found


@dataclass(frozen=True)
class Answer:
    """What the function returned for one group.

    Attributes
    ----------
    logs : numbers of the group's logs, among the inputs
    value : what the function returned; None if no application of the group could be diagnosed
    faults : why applications were left out, by the number of the log
    """

    logs: tuple[int, ...]
    value: Any
    faults: dict[int, str]


@dataclass(frozen=True)
class FleetAnswers:
    """What a function made of the diagnosis of each bundle of groups of applications.

    Attributes
    ----------
    tables : with an ``inputs`` row per log found, applications and hosts; all else is empty.
    answers : one per bundle, in the order of the first log of each.
    groups : group of each log that could be read, by its row in ``inputs``.
    cuts : groups that were too large to be diagnosed together.
    """

    tables: Tables
    answers: tuple[Answer, ...]
    groups: dict[int, int]
    cuts: tuple[Cut, ...]


def diagnose_on_spark(
    spark: Any,
    paths: str | Path | Sequence[str | Path | EventLog],
    function: str,
    *arguments: Any,
    query_by: QueryBy | str = QueryBy.SQL,
    most_tasks: int = MOST_TASKS,
    bundle_tasks: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> FleetAnswers:
    """Diagnose many logs on executors, and return what a function makes of each diagnosis.

    Applications that shared a host at the same time, directly or through others, are diagnosed
    together, in the order of their logs. Devices are estimated from all logs, so that blame is what
    :func:`iqcar.pipeline.diagnose` finds in all logs at once, unless a group was cut.

    Parameters
    ----------
    spark : SparkSession; not of Spark Connect.
    paths : as :func:`iqcar.pipeline.read` takes them. They are looked for here and read on the
        executors: both have to reach them under the same name.
    function : ``package.module:function``, called on an executor with the diagnosis of each group,
        then with the arguments. What it returns has to be small and picklable: all of it comes
        here. Rows of applications follow the order of logs: ``diagnosis.tables.inputs["app"]``.
    *arguments : further arguments of the function; picklable.
    query_by : what counts as one query.
    most_tasks : tasks of a group at most; see :func:`iqcar.fleet.shared_hosts.meeting_groups`.
    bundle_tasks : groups are diagnosed at once up to so many tasks. What they lost does not change;
        a diagnosis takes some 0.2 s however small its group is. 0 diagnoses each group alone.
    progress : called from another thread with what is being done, the Spark tasks done, and those
        in all.
    **options : further arguments of :func:`iqcar.pipeline.diagnose`, such as ``rules=False``.

    Raises UsageError if there is no such function. Raises IqcarError if a URL needs a package that
    is not installed, or Spark fails. A bug that is met in some applications leaves out these, as
    :func:`iqcar.logs.merge.without_faulty` does.
    """
    asked = DiagnosisCall(function, arguments, options)
    asked.find()
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    found: list[EventLog | Unreadable] = [one for one in given if isinstance(one, EventLog)]
    found += locate([one for one in given if not isinstance(one, EventLog)])
    if not any(isinstance(place, EventLog) for place in found):
        return FleetAnswers(outlined(found, {}), (), {}, ())
    with working_on(spark, "iqcar analyze"), ExitStack() as held:
        doing = held.enter_context(watched(spark, progress))
        shipped = ship(spark)
        doing("reading logs")
        read = keep(read_on_spark(spark, found, shipped, _HEAVY, ()), held)
        outlines = dict(objects(read, steps.OUTLINE))
        tables = outlined(found, outlines)
        while len(tables.applications):
            app_of_log = tables.inputs["app"].tolist()
            kept = {log: outline for log, outline in outlines.items() if app_of_log[log] >= 0}
            ran = {log: Ran.from_columns(one.columns, one.tasks) for log, one in kept.items()}
            groups, cuts = meeting_groups(ran, most_tasks)
            tasks = {log: one.tasks for log, one in kept.items()}
            count = AT_ONCE * int(spark.sparkContext.defaultParallelism)
            bundles = bundles_of_groups(groups, tasks, bundle_tasks, count)
            placed = keep(at_one_place(spark, read, kept, bundles), held)
            try:
                answers = _answers(placed, shipped, asked, QueryBy(query_by), doing)
            except FaultsError as error:
                tables = error.leave_out_of(tables)
                continue
            faults = {log: why for answer in answers for log, why in answer.faults.items()}
            apps = {app_of_log[log]: why for log, why in faults.items()}
            tables = leave_out(tables, apps) if apps else tables
            return FleetAnswers(tables, answers, groups, cuts)
        return FleetAnswers(tables, (), {}, ())


def _answers(
    placed: Any,
    shipped: Shipped,
    asked: DiagnosisCall,
    query_by: QueryBy,
    doing: Callable[[str], None],
) -> tuple[Answer, ...]:
    """Estimate devices from all groups, then diagnose each group with them."""
    doing("measuring devices")
    measured = run_step(placed, shipped.step("fleet.steps.loads_step", query_by))
    known = shared_devices([loads for _, loads in objects(measured, steps.LOADS)])
    doing("diagnosing")
    step = shipped.step("fleet.fleet_diagnosis.diagnose_step", asked, known, query_by)
    return tuple(answer for _, answer in objects(run_step(placed, step), ANSWERS))


def diagnose_step(
    asked: DiagnosisCall, known: SharedDevices, query_by: QueryBy, batches: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Diagnose each group, with the devices that were estimated from all groups."""
    function = asked.find()

    def work(tables: Tables) -> tuple[Any, Tables]:
        devices = known.of_hosts(texts(tables.hosts, "host"))
        diagnosis = diagnose(add_critical_path(tables), devices=devices, **asked.options)
        return function(diagnosis, *asked.arguments), diagnosis.tables

    for group in groups(query_by, batches):
        yield from rows_of(group.number, ANSWERS, _answer(group, work))


def _answer(group: Group, work: Callable[[Tables], tuple[Any, Tables]]) -> Answer:
    """Do the work; leave out the applications in which a bug is met."""
    logs = tuple(group.logs.tolist())
    try:
        value, left = without_faulty(group.tables, work)
    except Exception:
        faults = faults_of(group.alone(), lambda alone: work(alone.tables))
        if len(faults) < len(logs):
            raise
        return Answer(logs, None, faults)
    apps, messages = left.inputs["app"].tolist(), texts(left.inputs, "message")
    faulty = {log: messages[row] for row, log in enumerate(logs) if apps[row] < 0}
    return Answer(logs, value, faulty)
