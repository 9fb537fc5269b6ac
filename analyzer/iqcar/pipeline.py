"""Runs the whole analysis, step by step: it reads like the picture in the documentation.

event logs → tables → waits → RATP and blame → iQC-Graph → rules → replay → Diagnosis
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from iqcar.causes.blame.attribute import Blame, attribute
from iqcar.causes.blame.blame_sources import MOST_SOURCES
from iqcar.causes.graph.iqc_graph import IQCGraph, build_graph
from iqcar.causes.stragglers.features import TaskFeatures, build_features
from iqcar.causes.stragglers.find_stragglers import find_stragglers
from iqcar.causes.stragglers.straggler_result import Stragglers, StragglerSettings
from iqcar.causes.topics.jobs import enough_for_topics
from iqcar.causes.topics.topic_result import FEW_JOBS, Topics, TopicSettings
from iqcar.causes.wasted.wasted_work import find_wasted_work
from iqcar.diagnosis import Diagnosis, Settings, find_query
from iqcar.enums import QueryBy
from iqcar.logs import ReadProgress, join_samples, read_logs
from iqcar.logs.find.layouts import EventLog
from iqcar.logs.find.resource_manager import YarnTold
from iqcar.logs.merge import without_faulty
from iqcar.model.demand.estimate import CONTRADICTED, Known, Recalled
from iqcar.model.doubts import find_doubts
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import checked_grouping, identify
from iqcar.model.waits.measure import measure_waits, sum_query_waits
from iqcar.model.waits.pending import pending_waits
from iqcar.replay.alone import blame_run
from iqcar.replay.proposals import Proposals, WantedRules, propose_and_predict
from iqcar.replay.whatif.curve_rates import known_of_curves
from iqcar.replay.whatif.curves import MeasuredCurves
from iqcar.rules.compile_pools import RulesFile
from iqcar.rules.vocabulary import topic_name
from iqcar.tables import Tables

Given = TypeVar("Given")

MOST_TOPIC_TASKS = 10_000
"""Tasks that topics are found from where nobody asked for them: a third of a second, a tenth of
what the analysis of such a log takes."""


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
        Thresholds; see :class:`iqcar.causes.stragglers.straggler_result.StragglerSettings`.
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
    return _topics(
        features, tables, attribute(tables, waits), settings=settings, names=names,
        progress=progress,
    )  # fmt: skip


def _topics(
    features: TaskFeatures,
    tables: Tables,
    blame: Blame,
    settings: TopicSettings | None = None,
    names: str = "",
    progress: Callable[[int, int], None] | None = None,
    most_tasks: int | None = None,
) -> Topics:
    from iqcar.causes.topics.build_topics import find_topics
    from iqcar.causes.topics.topic_of_straggler import blamed_for, straggler_topics
    from iqcar.causes.topics.topic_result import TopicSettings

    found = find_topics(features, settings or TopicSettings(), progress, most_tasks)
    named = [topic_name(found.words_of(topic), names) for topic in range(len(found.topics))]
    lacks = {topic: name.resource for topic, name in enumerate(named) if name.resource}
    found = replace(found, stragglers=straggler_topics(found, features))
    return replace(found, sources=blamed_for(found, lacks, tables, blame))


def diagnose(
    tables: Tables,
    *,
    targets: Sequence[str] = (),
    query_by: QueryBy | str | None = None,
    critical_path: bool = False,
    top: int = 5,
    rules: bool = True,
    expected: bool = True,
    topics: bool | None = None,
    advice: str = "",
    all_sources: bool = False,
    all_rules: bool = False,
    previous: RulesFile | None = None,
    by: str = "",
    recalled: Recalled | None = None,
    curves: MeasuredCurves | None = None,
    yarn: YarnTold | None = None,
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
    critical_path, top
        See :class:`iqcar.diagnosis.Settings`.
    rules : bool
        Whether to propose rules and advice; without, nothing is replayed either.
    expected : bool
        Whether to replay the run under the rules (:func:`iqcar.replay.rule_effect.effect.predict`).
    topics : bool, optional
        Whether to look for causes of stragglers that recur (:func:`topics_of`). By default where
        rules are proposed and :data:`iqcar.causes.topics.topic_result.FEW_JOBS` stages have
        stragglers; then of :data:`MOST_TOPIC_TASKS` at most.
    advice : str
        File with kinds of advice in the format of ``rules/advice_kinds.json``; ours by default.
    all_sources : bool
        Whether each query names everybody who was in its way. By default the largest
        :data:`iqcar.causes.blame.blame_sources.MOST_SOURCES` are named, and one row of the kind
        ``rest`` holds the others: who hurts whom grows with the square of the queries that run at
        once.
    all_rules : bool
        Whether rules that are predicted to harm are kept among the rules. By default they are in
        ``rejected_rules``.
    previous : RulesFile, optional
        The rules that the run was recorded with
        (:func:`iqcar.rules.compile_pools.load_rules_file`). They stay unless nothing needs them any
        more, new ones are added to them, and none undoes them; ``earlier`` says what became of
        each.
    by : str
        What reports group victims and sources by: as for
        :func:`iqcar.say.sections.losses_by_owner`.
    recalled : Recalled, optional
        What earlier runs told of these queries and hosts
        (:func:`iqcar.history.known_demand`): likely before the data of this run.
    curves : MeasuredCurves, optional
        What ``iqcar-lab experiment`` measured of these stages and hosts
        (:func:`iqcar.replay.whatif.curves.read_curves`): the same, and surer than earlier runs.
    yarn : YarnTold, optional
        What a resource manager told:
        :func:`iqcar.logs.find.resource_manager.ask_resource_manager`.

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
    asked = _DiagnosisOptions(
        settings=Settings(
            wanted or QueryBy.SQL,
            critical_path,
            top,
            checked_grouping(by) if by else "",
        ),
        targets=tuple(targets),
        topics=topics,
        most_sources=None if all_sources else MOST_SOURCES,
        recalled=recalled,
        curves=curves,
        yarn=yarn,
        rules=WantedRules(expected, advice, all_rules, previous) if rules else None,
    )
    if wanted is not tables.query_by:
        tables = without_faulty(tables, partial(_grouped, query_by=asked.settings.query_by))
    alone = replace(asked, targets=())
    return without_faulty(tables, partial(_diagnose, asked), partial(_diagnose, alone))


def _grouped(tables: Tables, query_by: QueryBy) -> Tables:
    """Group jobs into queries, and find the critical path of each."""
    return add_critical_path(identify(tables, query_by))


@dataclass(frozen=True)
class _DiagnosisOptions:
    """Parameters of :func:`diagnose`."""

    settings: Settings
    targets: tuple[str, ...]
    topics: bool | None
    most_sources: int | None
    recalled: Recalled | None
    curves: MeasuredCurves | None
    yarn: YarnTold | None
    rules: WantedRules | None


def _diagnose(asked: _DiagnosisOptions, tables: Tables) -> Diagnosis:
    """Go through all steps."""
    settings = asked.settings
    waits = measure_waits(tables)
    known = Known() if asked.recalled is None else asked.recalled.of(tables)
    doubts: tuple[str, ...] = () if asked.recalled is None else asked.recalled.doubts
    if asked.curves is not None:
        known, of_curves = known_of_curves(asked.curves, tables, known)
        doubts += of_curves
    blame, model = blame_run(
        tables,
        waits,
        most_sources=asked.most_sources,
        critical_path=settings.critical_path,
        known=known,
    )
    graph = build_graph(tables, blame, critical_path=settings.critical_path)
    targets = _targets(asked, tables, graph)
    features = build_features(tables, waits, StragglerSettings().edge_ms)
    stragglers = find_stragglers(features, tables, blame)
    topics, by_itself = None, asked.topics is None and asked.rules is not None
    if asked.topics or (by_itself and enough_for_topics(tables, FEW_JOBS)):
        most = MOST_TOPIC_TASKS if by_itself else None
        topics = _topics(features, tables, blame, most_tasks=most)
    found = Proposals()
    if asked.rules is not None:
        found = propose_and_predict(
            asked.rules, tables, waits, blame=blame, graph=graph, stragglers=stragglers,
            topics=topics, top=settings.top,
        )  # fmt: skip
    return Diagnosis(
        tables=tables,
        waits=waits,
        query_waits=sum_query_waits(tables, waits),
        blame=blame,
        graph=graph,
        wasted=find_wasted_work(tables),
        targets=targets,
        stragglers=stragglers,
        # Some 600 bytes per task: only those that pictures compare are kept.
        features=features.of_stages(stragglers.stragglers["stage"].to_numpy(np.int64)),
        topics=topics,
        rules=found.rules,
        rules_together=found.rules_together,
        doubts=(
            *find_doubts(tables, waits),
            *blame.doubts,
            *doubts,
            *_contradicted(known, blame),
            *found.doubts,
        ),
        settings=settings,
        rejected_rules=found.rejected_rules,
        earlier=found.earlier,
        fitted=found.fitted or model,
        yarn=None if asked.yarn is None else pending_waits(tables, asked.yarn),
    )


def _contradicted(known: Known, blame: Blame) -> tuple[str, ...]:
    if not blame.demand.learned.refused:
        return ()
    return (CONTRADICTED.format("curves" if len(known.measured_rates) else "store"),)


def _targets(asked: _DiagnosisOptions, tables: Tables, graph: IQCGraph) -> tuple[int, ...]:
    """Rows of the queries that were named, or else of those that lost most to others.

    Who lost most to others comes first: that is what can be changed between queries.
    """
    if asked.targets:
        rows = [row for wanted in asked.targets for row in find_query(tables.queries, wanted)]
        return tuple(dict.fromkeys(rows))
    lost = graph.query_losses()
    worst = np.lexsort((-lost, -graph.lost_to_others_ms()))[: asked.settings.top]
    return tuple(int(row) for row in worst if lost[row] > 0)
