"""Summarises a result: the few numbers that the list shows, and what each application lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd

from iqcar.base.units import short
from iqcar.diagnosis import Diagnosis
from iqcar.logs.text.name_family import family
from iqcar.say.findings import find_findings
from iqcar.say.others_words import OthersLosses
from iqcar.tables import texts
from iqcar.version import __version__

if TYPE_CHECKING:
    pass
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from iqcar.enums import BlameKind, FindingKind, Resource


class FirstFinding(msgspec.Struct, frozen=True):
    """What would save most time."""

    kind: Annotated[FindingKind, Meta(description="Kind of finding.")]
    subject: Annotated[str, Meta(description="The recurring query, or the host.")]
    saves_ms: Annotated[float, Meta(description="What the action alone saves, in ms.")]
    share: Annotated[float, Meta(description="Of the duration of its runs.")]
    sentence: Annotated[str, Meta(description="What was found.")]
    action: Annotated[str, Meta(description="What to do.")]


Label = tuple[str, str, str, str, str]
"""Application, victim, kind of blame, source and resource of time that was lost. Names are those of
families, without dates, times and numbers, so that runs of a recurring query are summed."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What an analysis found, in short; written as ``summary.json`` beside the result.

    A comparison and an answer are about no application alone: they have keys of none, and the list
    shows nothing of them. Their ``settings`` name what was asked, too.
    """

    keys: tuple[str, ...]
    """The applications that were analysed together, by their keys."""
    settings: str
    """The settings of the analysis, as text."""
    policy: str
    """Content Security Policy of the report's page."""
    iqcar_version: str = __version__
    """The version of iqcar that analysed them."""
    queries: int = 0
    """Queries found."""
    query_ms: float = 0.0
    """Sum of their durations, in ms."""
    lost_ms: float = 0.0
    """Time that all queries lost, in ms; part of it may be to their own tasks or unattributed."""
    lost_to_others_ms: float = 0.0
    """Time that all queries lost to other queries, in ms."""
    worst_query_id: str | None = None
    """The query that lost most to other queries; null if none lost any time."""
    worst_name: str | None = None
    """Its name."""
    worst_lost_ms: float | None = None
    """What it lost, in ms."""
    worst_said: str = ""
    """What it lost to others, with its range, in words."""
    worst_low_ms: float | None = None
    worst_high_ms: float | None = None
    """Range of what it lost to others, in ms; null where no replay tells."""
    end_ms: float | None = None
    """When the last of the applications ended, or the time of its last event."""
    hosts: tuple[str, ...] = ()
    """Hosts of their executors."""
    first_finding: FirstFinding | None = None
    """What would save most time; null if nothing would."""
    losses: tuple[tuple[Label, float], ...] = ()
    """Who lost time to whom and for what, in ms."""
    of_applications: tuple[ApplicationLoss, ...] = ()
    """What each application lost, and to whom."""


def summarize(diagnosis: Diagnosis, keys: tuple[str, ...], settings: str, policy: str) -> Summary:
    """Take from a diagnosis what the list shows; the rest is kept as it is given."""
    tables = diagnosis.tables
    lost = diagnosis.lost_ms()
    worst = diagnosis.targets[0] if diagnosis.targets else None
    name = texts(tables.queries, "name")[worst][:MAX_TEXT] if worst is not None else None
    return Summary(
        keys=keys,
        settings=settings,
        policy=policy,
        queries=len(tables.queries),
        lost_ms=float(lost.sum()),
        lost_to_others_ms=float(diagnosis.lost_to_others_ms().sum()),
        worst_query_id=texts(tables.queries, "query_id")[worst] if worst is not None else None,
        worst_name=name,
        worst_lost_ms=float(lost[worst]) if worst is not None else None,
        **_others_of(diagnosis, worst),
        end_ms=max(_known(tables.applications, "end_ms"), default=None),
        hosts=tuple(texts(tables.hosts, "host")),
        first_finding=_first_finding(diagnosis),
        query_ms=float(np.nansum(tables.queries["duration_ms"].to_numpy(np.float64))),
        losses=tuple(bounded(losses_of(diagnosis), MOST_OF_RESULT).items()),
        of_applications=application_losses(diagnosis, keys),
    )


def _others_of(diagnosis: Diagnosis, query: int | None) -> dict[str, Any]:
    """What a query lost to others, and its range."""
    if query is None:
        return {}
    others = OthersLosses(diagnosis, diagnosis.lost_ms()).of([query])
    known = np.isfinite(others.low_ms)
    return {
        "worst_said": others.words[:MAX_TEXT],
        "worst_low_ms": others.low_ms if known else None,
        "worst_high_ms": others.high_ms if known else None,
    }


def _first_finding(diagnosis: Diagnosis) -> FirstFinding | None:
    for one in find_findings(diagnosis):
        return FirstFinding(
            kind=one.kind,
            subject=one.subject[:MAX_TEXT],
            saves_ms=one.saves_ms,
            share=one.share,
            sentence=one.sentence[:MAX_TEXT],
            action=one.action[:MAX_TEXT],
        )
    return None


def _known(frame: pd.DataFrame, column: str) -> list[float]:
    times = frame[column].to_numpy(np.float64)
    known: list[float] = times[np.isfinite(times)].tolist()
    return known


MAX_TEXT = 500
"""Characters kept of a name."""


class ApplicationLoss(msgspec.Struct, frozen=True):
    """What one application lost, as the result about most applications with it tells."""

    key: Annotated[str, Meta(description="The application.")]
    together: Annotated[int, Meta(description="Applications that were analysed with it, with it.")]
    lost_ms: Annotated[float, Meta(description="Time that its queries lost, in ms.")]
    executors_ms: Annotated[
        float, Meta(description="Part of it lost waiting for executors of the cluster, in ms.")
    ]
    other_applications_ms: Annotated[
        float, Meta(description="Part of it lost to named queries of other applications, in ms.")
    ]
    most_to: Annotated[
        str | None,
        Meta(
            description="The other application, or the other query of its own, that it lost most "
            "to; null if none is known."
        ),
    ]
    most_to_ms: Annotated[float, Meta(description="What it lost to that one, in ms.")]


def application_losses(diagnosis: Diagnosis, keys: Sequence[str]) -> tuple[ApplicationLoss, ...]:
    """Sum the losses of each application.

    Parameters
    ----------
    diagnosis : Diagnosis
    keys : sequence of str
        Of the applications, in the order of the logs that were read.
    """
    tables = diagnosis.tables
    if len(tables.inputs) != len(keys):
        return ()
    app_of = tables.queries["app"].tolist()
    hurts = diagnosis.graph.who_hurts_whom()
    executors = diagnosis.graph.who_hurts_whom(Resource.EXECUTORS)
    names, applications = texts(tables.queries, "name"), texts(tables.applications, "name")
    lost: dict[int, float] = defaultdict(float)
    to: dict[int, dict[tuple[int, str], float]] = defaultdict(lambda: defaultdict(float))
    columns = (hurts[name].tolist() for name in ("source_query", "target_query", "kind", "lost_ms"))
    for source, target, kind, ms in zip(*columns, strict=True):
        victim = app_of[target]
        lost[victim] += ms
        if kind == BlameKind.QUERY and source >= 0:
            other = app_of[source]
            to[victim][other, names[source] if other == victim else applications[other]] += ms
    waited: dict[int, float] = defaultdict(float)
    for target, ms in zip(executors["target_query"], executors["lost_ms"], strict=True):
        waited[app_of[target]] += ms
    found = []
    for key, app in zip(keys, tables.inputs["app"].tolist(), strict=True):
        most = max(to[app].items(), key=lambda item: item[1], default=None)
        found.append(
            ApplicationLoss(
                key=key,
                together=len(keys),
                lost_ms=lost[app],
                executors_ms=waited[app],
                other_applications_ms=sum(ms for (other, _), ms in to[app].items() if other != app),
                most_to=most[0][1][:MAX_TEXT] if most and most[1] > 0 else None,
                most_to_ms=most[1] if most else 0.0,
            )
        )
    return tuple(found)


OTHERS = "(others)"
NAMES = {
    BlameKind.OWN: "(itself)",
    BlameKind.KNOWN: "(known causes)",
    BlameKind.UNATTRIBUTED: "(unattributed)",
    BlameKind.REST: OTHERS,
}
"""What stands for the source where the time was not lost to a query that is named."""
MOST_OF_RESULT = 30
"""Losses of one result that are told apart (30): three times what a panel of a dashboard shows.
Some thousand results are held in memory, some KB of each, and summed at each scrape."""
LABEL_CHARACTERS = 100
"""Characters kept of a name: what a legend shows."""


def losses_of(diagnosis: Diagnosis) -> dict[Label, float]:
    """Sum the time that the queries lost, in ms; together all that they lost."""
    tables = diagnosis.tables
    queries = [short(name, LABEL_CHARACTERS) for name in texts(tables.queries, "family")]
    named = [short(family(name), LABEL_CHARACTERS) for name in texts(tables.applications, "name")]
    app_of = tables.queries["app"].tolist()
    found: dict[Label, float] = defaultdict(float)
    for resource in Resource:
        hurts = diagnosis.graph.who_hurts_whom(resource)
        columns = ("source_query", "kind", "target_query", "lost_ms")
        for source, kind, target, lost in zip(*(hurts[name] for name in columns), strict=True):
            if lost > 0:
                to = queries[source] if kind == BlameKind.QUERY else NAMES[BlameKind(kind)]
                label = named[app_of[target]], queries[target], kind, to, resource.value
                found[label] += float(lost)
    return found


def bounded(sums: Mapping[Label, float], most: int) -> dict[Label, float]:
    """Return the largest sums, and the rest by kind, resource and, of no query, source.

    Their total is the same. What :func:`bounded` returned can be summed and bounded again.
    """
    named = sorted(
        (label for label in sums if label[1] != OTHERS), key=lambda one: (-sums[one], one)
    )
    kept = defaultdict(float, {one: sums[one] for one in named[:most]})
    for label, lost in sums.items():
        if label not in kept or label[1] == OTHERS:
            _, _, kind, source, resource = label
            source = OTHERS if kind == BlameKind.QUERY else source
            kept["", OTHERS, kind, source, resource] += lost
    return dict(kept)
