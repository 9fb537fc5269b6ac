"""Sum what each application of a result lost, and find whom it lost most to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, Resource
from iqcar.tables import texts

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
