"""Diagnose many logs on Spark: applications that shared hosts at the same time together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iqcar.enums import QueryBy
from iqcar.fleet import steps
from iqcar.fleet.diagnosis_steps import ANSWERS, OUTLINED, Answer, Asked
from iqcar.fleet.faults import FaultsError
from iqcar.fleet.logs_on_spark import keep, outlined, read_on_spark
from iqcar.fleet.packing import bundles_of_groups
from iqcar.fleet.send_code import ship
from iqcar.fleet.session import working_on
from iqcar.fleet.shared_hosts import shared_devices
from iqcar.fleet.shared_times import MOST_TASKS, Cut, Ran, meeting_groups
from iqcar.fleet.shuffle import AT_ONCE, at_one_place
from iqcar.fleet.spark_progress import watched
from iqcar.fleet.transport import objects, stepped
from iqcar.logs.find.locate import EventLog, Unreadable, locate
from iqcar.logs.leave_out import leave_out
from iqcar.tables import SPECS, Tables

if TYPE_CHECKING:
    from iqcar.fleet.send_code import Shipped

_HEAVY = tuple(spec.name for spec in SPECS if spec.name not in OUTLINED)


@dataclass(frozen=True)
class FleetAnswers:
    """What a function made of the diagnosis of each bundle of groups of applications.

    Attributes
    ----------
    tables : Tables
        With an ``inputs`` row per log found, applications and hosts; all else is empty.
    answers : tuple of Answer
        One per bundle, in the order of the first log of each.
    groups : dict of int to int
        Group of each log that could be read, by its row in ``inputs``.
    cuts : tuple of Cut
        Groups that were too large to be diagnosed together.
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
    spark : SparkSession
        Not of Spark Connect.
    paths : path, or sequence of paths or EventLog
        As :func:`iqcar.pipeline.read` takes them. They are looked for here and read on the
        executors: both have to reach them under the same name.
    function : str
        ``package.module:function``, called on an executor with the diagnosis of each group, then
        with the arguments. What it returns has to be small and picklable: all of it comes here.
        Rows of applications follow the order of logs: ``diagnosis.tables.inputs["app"]``.
    *arguments
        Further arguments of the function; picklable.
    query_by : QueryBy or str
        What counts as one query.
    most_tasks : int
        Tasks of a group at most; see :func:`iqcar.fleet.shared_times.meeting_groups`.
    bundle_tasks : int
        Groups are diagnosed at once up to so many tasks. What they lost does not change; a
        diagnosis takes some 0.2 s however small its group is. 0 diagnoses each group alone.
    progress : callable, optional
        Called from another thread with what is being done, the Spark tasks done, and those in all.
    **options
        Further arguments of :func:`iqcar.pipeline.diagnose`, such as ``rules=False``.

    Raises
    ------
    UsageError
        If there is no such function.
    IqcarError
        If a URL needs a package that is not installed, or Spark fails. A bug that is met in some
        applications leaves out these, as :func:`iqcar.logs.leave_out.without_faulty` does.
    """
    asked = Asked(function, arguments, options)
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
    asked: Asked,
    query_by: QueryBy,
    doing: Callable[[str], None],
) -> tuple[Answer, ...]:
    """Estimate devices from all groups, then diagnose each group with them."""
    doing("measuring devices")
    measured = stepped(placed, shipped.step("fleet.steps.loads_step", query_by))
    known = shared_devices([loads for _, loads in objects(measured, steps.LOADS)])
    doing("diagnosing")
    step = shipped.step("fleet.diagnosis_steps.diagnose_step", asked, known, query_by)
    return tuple(answer for _, answer in objects(stepped(placed, step), ANSWERS))
