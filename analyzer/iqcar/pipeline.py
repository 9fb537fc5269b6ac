"""The whole analysis, step by step: it reads like the picture in the documentation.

event logs → tables → waits → RATP and blame → iQC-Graph → rules → replay → Diagnosis
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.folding import MOST_SOURCES
from iqcar.causes.graph import build_graph, weighing
from iqcar.causes.stragglers import StragglerSettings, build_features, find_stragglers
from iqcar.causes.wasted import find_wasted_work
from iqcar.diagnosis import Diagnosis, Settings, find_query
from iqcar.enums import ImpactModel, QueryBy, SourceUsage
from iqcar.errors import IqcarError, explain_bug
from iqcar.logs import join_samples, read_logs
from iqcar.logs.leave_out import leave_out
from iqcar.model.doubts.diagnosis_doubts import find_doubts
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.model.queries.owners import checked_grouping
from iqcar.model.waits import measure_waits
from iqcar.model.waits.by_query import sum_query_waits
from iqcar.proposals import with_rules
from iqcar.rules.vocabulary.topics import topic_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iqcar.causes.blame.attribute import Blame
    from iqcar.causes.stragglers import Stragglers, TaskFeatures
    from iqcar.causes.topics import Topics, TopicSettings
    from iqcar.enums import Request
    from iqcar.logs import ReadProgress
    from iqcar.logs.find.log_parts import EventLog
    from iqcar.model.demand.device import Device
    from iqcar.rules import RulesFile
    from iqcar.tables import Tables

T = TypeVar("T")
Given = TypeVar("Given")


def read(
    paths: str | Path | Sequence[str | Path | EventLog],
    *,
    query_by: QueryBy | str = QueryBy.SQL,
    samples: str | Path | Sequence[str | Path] = (),
    processes: int | None = None,
    progress: Callable[[ReadProgress], None] | None = None,
) -> Tables:
    """Read Spark event logs into tables.

    Parameters
    ----------
    paths : path, or sequence of paths or EventLog
        Files, directories, globs, rolling directories, zips, or URLs; or logs that
        :func:`iqcar.logs.find.locate.locate` found before.
    query_by : QueryBy or str
        What counts as one query.
    samples : path, or sequence of paths
        Files of ``iqcar sample``, to be joined by host name and time.
    processes : int, optional
        Processes to read several logs with; chosen from their size by default.
    progress : callable, optional
        Called with a ReadProgress from time to time.

    Returns
    -------
    Tables
        One ``inputs`` row per log found says what became of it; a log that cannot be read raises
        nothing.

    Raises
    ------
    IqcarError
        If a file of samples cannot be read, or a URL needs a package that is not installed.
    """
    tables = read_logs(_several(paths), processes=processes, progress=progress)
    if sampled := _several(samples):
        tables = join_samples(tables, sampled)
    return without_faulty(tables, partial(_grouped, query_by=QueryBy(query_by)))


def _several(paths: str | Path | Sequence[Given]) -> list[str | Path | Given]:
    return [paths] if isinstance(paths, (str, Path)) else list(paths)


def stragglers_of(tables: Tables, settings: StragglerSettings | None = None) -> Stragglers:
    """Find the tasks that were slower than their stage, why, and who was in their way.

    Parameters
    ----------
    tables : Tables
        From :func:`read`.
    settings : StragglerSettings, optional
        Thresholds; see :class:`iqcar.causes.stragglers.StragglerSettings`.
    """
    chosen = settings or StragglerSettings()
    waits = measure_waits(tables)
    features = build_features(tables, waits, chosen.edge_ms)
    return find_stragglers(features, tables, attribute(tables, waits), chosen)


def topics_of(
    tables: Tables,
    settings: TopicSettings | None = None,
    *,
    names: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Topics:
    """Find what keeps making tasks slow across stages and queries, and who is blamed for it.

    Parameters
    ----------
    tables : Tables
        From :func:`read`; of one or many applications.
    settings : TopicSettings, optional
    names : str
        File with names of topics in the format of ``rules/topics.json``; ours by default.
    progress : callable, optional
        Called with the stages done and the stages in all, after each.
    """
    waits = measure_waits(tables)
    features = build_features(tables, waits, StragglerSettings().edge_ms)
    return _topics(features, tables, attribute(tables, waits), settings, names, progress)


def _topics(
    features: TaskFeatures,
    tables: Tables,
    blame: Blame,
    settings: TopicSettings | None = None,
    names: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Topics:
    # Only here: nobody waits for numba who has not asked for topics.
    from iqcar.causes.topics import TopicSettings, find_topics
    from iqcar.causes.topics.blame_of_topics import blamed_for
    from iqcar.causes.topics.topic_of_straggler import straggler_topics

    found = find_topics(features, settings or TopicSettings(), progress)
    named = [topic_name(found.words_of(topic), names) for topic in range(len(found.topics))]
    lacks = {topic: name.resource for topic, name in enumerate(named) if name.resource}
    found = replace(found, stragglers=straggler_topics(found, features))
    return replace(found, sources=blamed_for(found, lacks, tables, blame))


def diagnose(
    tables: Tables,
    *,
    targets: Sequence[str] = (),
    query_by: QueryBy | str | None = None,
    impact: ImpactModel | str = ImpactModel.TIME_LOST,
    source_usage: SourceUsage | str = SourceUsage.ACTIVE,
    critical_path: bool = False,
    top: int = 5,
    rules: bool = True,
    expected: bool = True,
    topics: bool = False,
    advice: str = "",
    all_sources: bool = False,
    all_rules: bool = False,
    previous: RulesFile | None = None,
    devices: dict[Request, Device] | None = None,
    by: str = "",
) -> Diagnosis:
    """Find out which queries made which wait, for what, where, and what to change.

    Parameters
    ----------
    tables : Tables
        From :func:`read`.
    targets : sequence of str
        Queries to analyse, by id, name or fingerprint; the most slowed-down ones by default.
    query_by : QueryBy or str, optional
        Group jobs into queries anew; by default as they were read.
    impact, source_usage, critical_path, top
        See :class:`iqcar.diagnosis.Settings`.
    rules : bool
        Whether to propose rules and advice; without, nothing is replayed either.
    expected : bool
        Whether to replay the run under the rules (:func:`iqcar.replay.predict`).
    topics : bool
        Whether to look for causes of stragglers that recur (:func:`topics_of`).
    advice : str
        File with kinds of advice in the format of ``rules/advice_kinds.json``; ours by default.
    all_sources : bool
        Whether each query names everybody who was in its way. By default the largest
        :data:`iqcar.causes.blame.folding.MOST_SOURCES` are named, and one row of the kind ``rest``
        holds the others: who hurts whom grows with the square of the queries that run at once.
    all_rules : bool
        Whether rules that are predicted to harm are kept among the rules. By default they are in
        ``rejected_rules``.
    previous : RulesFile, optional
        The rules that the run was recorded with (:func:`iqcar.rules.load_rules_file`). They stay
        unless nothing needs them any more, new ones are added to them, and none undoes them;
        ``earlier`` says what became of each.
    devices : dict of Request to Device, optional
        Devices of the hosts, if estimated from more than these tables
        (:mod:`iqcar.fleet.shared_hosts`).
    by : str
        What reports group victims and sources by: as for :meth:`iqcar.diagnosis.Diagnosis.by`.

    Returns
    -------
    Diagnosis
        Its tables are those given but for applications in which a bug was met: they are left out,
        and their inputs failed.

    Raises
    ------
    UsageError
        If a target names no query, or ``by`` is nothing to group by.
    """
    wanted = tables.query_by if query_by is None else QueryBy(query_by)
    settings = Settings(
        wanted or QueryBy.SQL,
        ImpactModel(impact),
        SourceUsage(source_usage),
        critical_path,
        top,
        checked_grouping(by) if by else "",
    )
    add_rules = partial(
        with_rules, expected=expected, advice=advice, all_rules=all_rules, previous=previous
    )
    work = partial(
        _diagnose,
        settings=settings,
        topics=topics,
        all_sources=all_sources,
        devices=devices,
        add_rules=add_rules if rules else None,
    )
    if wanted is not tables.query_by:
        tables = without_faulty(tables, partial(_grouped, query_by=settings.query_by))
    return without_faulty(tables, partial(work, targets=targets), partial(work, targets=()))


def without_faulty(
    tables: Tables, work: Callable[[Tables], T], alone: Callable[[Tables], T] | None = None
) -> T:
    """Do some work; where a bug is met, without the applications that it is met in alone.

    Parameters
    ----------
    tables : Tables
    work : callable
        Called with the tables.
    alone : callable, optional
        What to do with single applications instead.

    Returns
    -------
    any
        What the work returned. Whoever needs the tables that were left lets it return them, too.

    Raises
    ------
    Exception
        The bug, where it is met in no application alone, or in all of them.
    """
    try:
        return work(tables)
    except IqcarError:
        raise
    except Exception:
        reasons: dict[int, str] = {}
        apps = range(len(tables.applications))
        for app in apps:
            try:
                (alone or work)(leave_out(tables, {one: "" for one in apps if one != app}))
            except Exception as error:
                reasons[app] = f"analysing it {explain_bug(error)}"
        if len(reasons) in (0, len(apps)):
            raise
        return work(leave_out(tables, reasons))


def _grouped(tables: Tables, query_by: QueryBy) -> Tables:
    """Group jobs into queries, and find the critical path of each."""
    return add_critical_path(identify(tables, query_by))


def _diagnose(
    tables: Tables,
    *,
    targets: Sequence[str],
    settings: Settings,
    topics: bool,
    all_sources: bool,
    devices: dict[Request, Device] | None,
    add_rules: Callable[[Diagnosis], Diagnosis] | None,
) -> Diagnosis:
    """Go through all steps."""
    critical_path = settings.critical_path
    waits = measure_waits(tables)
    blame = attribute(
        tables,
        waits,
        settings.source_usage,
        devices,
        most_sources=None if all_sources else MOST_SOURCES,
        weigh=weighing(tables, settings.impact, critical_path),
    )
    graph = build_graph(
        tables, blame, targets=None, impact=settings.impact, critical_path=critical_path
    )
    if targets:
        rows = [row for wanted in targets for row in find_query(tables.queries, wanted)]
        chosen = tuple(dict.fromkeys(rows))
    else:
        # Who lost most to others comes first: that is what can be changed between queries.
        lost = graph.query_losses()
        worst = np.lexsort((-lost, -graph.lost_to_others_ms()))[: settings.top]
        chosen = tuple(int(row) for row in worst if lost[row] > 0)
    features = build_features(tables, waits, StragglerSettings().edge_ms)
    stragglers = find_stragglers(features, tables, blame)
    found = _topics(features, tables, blame) if topics else None
    # Some 600 bytes per task: only those that pictures compare are kept.
    features = features.of_stages(stragglers.stragglers["stage"].to_numpy(np.int64))
    diagnosis = Diagnosis(
        tables=tables,
        waits=waits,
        query_waits=sum_query_waits(tables, waits),
        blame=blame,
        graph=graph,
        wasted=find_wasted_work(tables),
        targets=chosen,
        stragglers=stragglers,
        features=features,
        topics=found,
        rules=(),
        rules_together=None,
        doubts=(*find_doubts(tables, waits), *blame.doubts),
        settings=settings,
    )
    return add_rules(diagnosis) if add_rules is not None else diagnosis
