"""``diagnosis.plot`` and ``answer.plot``: every picture by its name, in a notebook."""

from __future__ import annotations

from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.errors import UsageError
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.say.blamed import RecurringNames
from iqcar.show import pictures
from iqcar.show.pictures.drawing import Drawing
from iqcar.show.pictures.straggler_boxes import worst_stage
from iqcar.show.pictures.theme import Figure
from iqcar.show.pictures.timeline import Timeline
from iqcar.show.pictures.what_if import device_use, predicted_durations, waits_before_after
from iqcar.tables import texts


class Plots:
    """Pictures of one diagnosis.

    :meth:`timeline` and :meth:`lanes` return a :class:`iqcar.show.pictures.timeline.Timeline`, all
    others a ``plotly.graph_objects.Figure``. A query is named by its id, its id's last part, its
    name or its fingerprint; without one, the query that lost most to others is taken. ``dark``
    chooses the dark look.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._of = diagnosis

    def sankey(self, query: str | None = None, *, dark: bool = False) -> Figure:
        """iQC-Graph of a query: who was in the way, of what, where."""
        return pictures.sankey(self._of.graph, self._row(query), dark=dark)

    def heatmap(
        self,
        query: str | None = None,
        measure: str = "lost_ms",
        *,
        stage: str | None = None,
        resource: str | None = None,
        dark: bool = False,
    ) -> Figure:
        """Requests × hosts of a query.

        measure: ``lost_ms`` or ``ratp``.
        stage: only this stage of the query, by its id (``14``) or id and attempt (``14.0``).
        resource: only this resource: slots, executors, cpu, memory, network or io.
        """
        d, row = self._of, self._row(query)
        return pictures.heatmap(
            d.graph, d.tables, d.waits, d.blame, row, measure=measure,
            stage=None if stage is None else self._stage(row, str(stage)),
            resource=_resource(resource),
            dark=dark,
        )  # fmt: skip

    def matrix(
        self, measure: str = "lost_ms", *, resource: str | None = None, dark: bool = False
    ) -> Figure:
        """Who hurts whom, runs summed: ``lost_ms``, ``share_of_duration`` or ``dor``."""
        return pictures.matrix(
            self._of.graph, RecurringNames(self._of.tables), measure,
            resource=_resource(resource), dark=dark,
        )  # fmt: skip

    def waits(self, query: str | None = None, *, dark: bool = False) -> Figure:
        """What a query's tasks waited for, stage by stage."""
        return pictures.waits(self._of.tables, self._of.waits, self._row(query), dark=dark)

    def timeline(self, query: str | None = None, *, dark: bool = False) -> Timeline:
        """Queries over time, with a query's stages and its tasks that waited, and lanes of tasks.

        query: the query that is chosen first.
        """
        d = self._of
        chosen = self._row(query) if query is not None or d.targets else None
        return pictures.timeline(d.graph, d.tables, d.waits, chosen, marked=d.targets, dark=dark)

    def lanes(
        self, colour: str = "query", *, by_host: bool = False, dark: bool = False
    ) -> Timeline:
        """Tasks on each executor or host, by ``query`` or by ``wait``: what they waited for."""
        d = self._of
        return pictures.lanes(d.tables, d.waits, colour, by_host=by_host, dark=dark, graph=d.graph)

    def hosts(self, *, dark: bool = False) -> Figure:
        """Slots in use, and processor, disks and network where they were sampled."""
        return pictures.hosts(self._of.tables, dark=dark)

    def executors(self, *, dark: bool = False) -> Figure:
        """Who held the slots of a cluster that applications shared, running tasks or idle."""
        return pictures.executors(self._of.tables, self._of.waits, dark=dark)

    def straggler_boxes(
        self, query: str | None = None, stage: str | None = None, *, dark: bool = False
    ) -> Figure:
        """Stragglers beside the other tasks of a stage; by default where they lost most time."""
        d = self._of
        chosen: int | None = None
        if stage is not None:
            chosen = self._stage(self._row(query), str(stage))
        elif query is not None:
            chosen = worst_stage(d.stragglers, self._row(query))
        return pictures.straggler_boxes(d.features, d.stragglers, chosen, dark=dark)

    def mixtures(self, by: str = "query", *, dark: bool = False) -> Figure:
        """Which topics explain the stragglers of each ``query`` or ``stage``."""
        return pictures.mixtures(self._of.topics, by, dark=dark)

    def _row(self, query: str | None) -> int:
        if query is not None:
            return self._of.find_query(query)[0]
        if self._of.targets:
            return self._of.targets[0]
        if len(self._of.tables.queries) == 0:
            raise UsageError("there is no query to draw", "plot", "see `iqcar queries`")
        return 0

    def _stage(self, query: int, wanted: str) -> int:
        stages = self._of.tables.stages
        mine = (stages["query"] == query).to_numpy(bool).nonzero()[0].tolist()
        ids, attempts = stages["stage_id"].tolist(), stages["attempt"].tolist()
        for row in reversed(mine):
            if wanted in (str(ids[row]), f"{ids[row]}.{attempts[row]}"):
                return int(row)
        name = texts(self._of.tables.queries, "name")[query]
        known = ", ".join(f"{ids[row]}.{attempts[row]}" for row in mine[:12])
        raise UsageError(f"{name!r} has no stage {wanted}", "stage", f"it has {known or 'none'}")


class WhatIfPlots:
    """Pictures of one answer to a what-if question, as SVG."""

    def __init__(self, answer: WhatIf) -> None:
        self._of = answer

    def durations(self) -> Drawing:
        """Draw each query's recorded duration, the predicted one and its range (80 %)."""
        return predicted_durations(self._of)

    def waits(self) -> Drawing:
        """Draw what all queries waited for, recorded and predicted, by resource."""
        return waits_before_after(self._of)

    def devices(self) -> Drawing:
        """Draw how busy the busiest host's devices were, recorded and predicted."""
        return device_use(self._of)


def _resource(name: str | None) -> Resource | None:
    if name is None:
        return None
    try:
        return Resource(name)
    except ValueError:
        known = ", ".join(str(r) for r in Resource)
        raise UsageError(f"no resource is called {name!r}", "resource", f"take {known}") from None
