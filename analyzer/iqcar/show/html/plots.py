"""``diagnosis.plot`` and ``answer.plot``: every picture by its name, in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.errors import UsageError
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.show import pictures
from iqcar.show.html.page import render_picture
from iqcar.show.pictures.drawing import Drawing
from iqcar.show.pictures.question_bars import device_use, predicted_durations, waits_before_after
from iqcar.show.pictures.straggler_boxes import worst_stage
from iqcar.show.pictures.theme import Figure
from iqcar.show.pictures.timeline import Timeline, framed
from iqcar.tables import texts

RESOURCES = {str(one): str(one) for one in Resource}
MATRIX_MEASURES = {"lost_ms": "lost", "share_of_duration": "share"}
"""What the page's controls call the measures of the matrix."""


@dataclass(frozen=True)
class Framed:
    """A picture of the report: the value of a notebook's cell, or a page of its own."""

    html: str

    def to_html(self) -> str:
        """Return a page that holds everything it shows and asks the network for nothing."""
        return self.html

    def write_html(self, file: str | Path) -> None:
        """Write :meth:`to_html` to a file."""
        Path(file).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        """Show it in a notebook: in a frame, so that neither can change the other."""
        return framed("Picture", self.html)

    def __repr__(self) -> str:
        """Say what to do where nothing can be shown."""
        return "<Framed: shown by notebooks; write_html(file) writes a page>"


class Plots:
    """Pictures of one diagnosis.

    :meth:`sankey`, :meth:`heatmap`, :meth:`matrix` and :meth:`waits` return the report's own
    picture (:class:`Framed`), :meth:`timeline` and :meth:`lanes` a
    :class:`iqcar.show.pictures.timeline.Timeline`, all others a ``plotly.graph_objects.Figure``. A
    query is named by its id, its id's last part, its name or its fingerprint; without one, the
    query that lost most to others is taken. ``dark`` chooses the dark look.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._of = diagnosis

    def sankey(self, query: str | None = None, *, dark: bool = False) -> Framed:
        """iQC-Graph of a query: who was in the way, of what, where."""
        return Framed(render_picture(self._of, "sankey", [self._row(query)], dark=dark))

    def heatmap(
        self,
        query: str | None = None,
        measure: str = "lost_ms",
        *,
        stage: str | None = None,
        resource: str | None = None,
        dark: bool = False,
    ) -> Framed:
        """Requests × hosts of a query.

        measure: ``lost_ms`` or ``ratp``.
        stage: only this stage of the query, by its id (``14``) or id and attempt (``14.0``).
        resource: only this resource: slots, executors, cpu, memory, network or io.
        """
        row = self._row(query)
        chosen = {"measure": _of("measure", measure, {"lost_ms": "lost", "ratp": "ratp"})}
        if stage is not None:
            stages = self._of.tables.stages.iloc[self._stage(row, str(stage))]
            chosen["stage"] = f"{stages['stage_id']}.{stages['attempt']}"
        if resource is not None:
            chosen["resource"] = _of("resource", resource, RESOURCES)
        return Framed(render_picture(self._of, "heatmap", [row], dark=dark, **chosen))

    def matrix(
        self, measure: str = "lost_ms", *, resource: str | None = None, dark: bool = False
    ) -> Framed:
        """Who hurts whom, runs summed: ``lost_ms`` or ``share_of_duration``."""
        chosen = {"measure": _of("measure", measure, MATRIX_MEASURES)}
        if resource is not None:
            chosen["resource"] = _of("resource", resource, RESOURCES)
        return Framed(render_picture(self._of, "matrix", [], dark=dark, **chosen))

    def waits(self, query: str | None = None, *, dark: bool = False) -> Framed:
        """What a query's tasks waited for, stage by stage."""
        row = self._row(query)
        return Framed(render_picture(self._of, "waits", [row], dark=dark, measure="wait"))

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


def _of(what: str, name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise UsageError(f"no {what} is called {name!r}", what, f"take {', '.join(known)}")
    return known[name]
