"""``diagnosis.plot``: every picture of a diagnosis by its name, in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.errors import UsageError
from iqcar.show.pictures.timeline import Timeline
from iqcar.tables import texts

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Plots:
    """Pictures of one diagnosis.

    :meth:`timeline` and :meth:`lanes` return a :class:`iqcar.show.pictures.timeline.Timeline`, all
    others a ``plotly.graph_objects.Figure``. A query is named by its id, its id's last part, its
    name or its fingerprint; without one, the query that lost most to others is taken. ``dark``
    chooses the dark look.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._of = diagnosis

    def sankey(self, query: str | None = None, *, dark: bool = False) -> go.Figure:
        """iQC-Graph of a query: who was in the way, of what, where."""
        from iqcar.show.pictures.sankey import sankey

        return sankey(self._of.graph, self._row(query), dark=dark)

    def heatmap(
        self,
        query: str | None = None,
        measure: str = "lost_ms",
        *,
        stage: str | None = None,
        resource: str | None = None,
        dark: bool = False,
    ) -> go.Figure:
        """Requests × hosts of a query.

        Parameters
        ----------
        measure : str
            ``lost_ms`` or ``ratp``.
        stage : str, optional
            Only this stage of the query, by its id (``14``) or id and attempt (``14.0``).
        resource : str, optional
            Only this resource: slots, executors, cpu, memory, network or io.
        """
        from iqcar.show.pictures.heatmap import heatmap

        d, row = self._of, self._row(query)
        return heatmap(
            d.graph, d.tables, d.waits, blame=d.blame, target=row, measure=measure,
            stage=None if stage is None else self._stage(row, str(stage)),
            resource=_resource(resource), dark=dark,
        )  # fmt: skip

    def matrix(
        self, measure: str = "lost_ms", *, resource: str | None = None, dark: bool = False
    ) -> go.Figure:
        """Who hurts whom: ``lost_ms``, ``share_of_duration`` or ``dor``."""
        from iqcar.show.pictures.matrix import matrix

        return matrix(self._of.graph, measure, resource=_resource(resource), dark=dark)

    def waits(self, query: str | None = None, *, dark: bool = False) -> go.Figure:
        """What a query's tasks waited for, stage by stage."""
        from iqcar.show.pictures.waits import waits

        return waits(self._of.tables, self._of.waits, self._row(query), dark=dark)

    def timeline(self, query: str | None = None, *, dark: bool = False) -> Timeline:
        """Queries over time, with a query's stages and its tasks that waited, and lanes of tasks.

        Parameters
        ----------
        query : str, optional
            The query that is chosen first.
        """
        from iqcar.show.pictures.timeline import timeline

        d = self._of
        chosen = self._row(query) if query is not None or d.targets else None
        return timeline(d.graph, d.tables, d.waits, chosen, marked=d.targets, dark=dark)

    def lanes(
        self, colour: str = "query", *, by_host: bool = False, dark: bool = False
    ) -> Timeline:
        """Tasks on each executor or host, by ``query`` or by ``wait``: what they waited for."""
        from iqcar.show.pictures.timeline import lanes

        d = self._of
        return lanes(d.tables, d.waits, colour, by_host=by_host, dark=dark, graph=d.graph)

    def hosts(self, *, dark: bool = False) -> go.Figure:
        """Slots in use, and processor, disks and network where they were sampled."""
        from iqcar.show.pictures.hosts import hosts

        return hosts(self._of.tables, dark=dark)

    def executors(self, *, dark: bool = False) -> go.Figure:
        """Who held the slots of a cluster that applications shared, running tasks or idle."""
        from iqcar.show.pictures.executors import executors

        return executors(self._of.tables, self._of.waits, dark=dark)

    def straggler_boxes(
        self, query: str | None = None, stage: str | None = None, *, dark: bool = False
    ) -> go.Figure:
        """Stragglers beside the other tasks of a stage; by default where they lost most time."""
        from iqcar.show.pictures.straggler_boxes import straggler_boxes, worst_stage

        d = self._of
        chosen: int | None = None
        if stage is not None:
            chosen = self._stage(self._row(query), str(stage))
        elif query is not None:
            chosen = worst_stage(d.stragglers, self._row(query))
        return straggler_boxes(d.features, d.stragglers, chosen, dark=dark)

    def mixtures(self, by: str = "query", *, dark: bool = False) -> go.Figure:
        """Which topics explain the stragglers of each ``query`` or ``stage``."""
        from iqcar.show.pictures.mixtures import mixtures

        return mixtures(self._of.topics, by, dark=dark)

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


def _resource(name: str | None) -> Resource | None:
    if name is None:
        return None
    try:
        return Resource(name)
    except ValueError:
        known = ", ".join(str(r) for r in Resource)
        raise UsageError(f"no resource is called {name!r}", "resource", f"take {known}") from None
