"""The data of the page's program, as one JSON object.

Figures that never change are drawn here. The browser narrows and redraws the others: it takes how
they look from the template that notebooks use, and puts in the numbers left after each choice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.base import limits
from iqcar.base.limits import MOST_BLAMED, MOST_NODES, MOST_WITH_TEXT
from iqcar.base.units import REQUEST_NAMES, RESOURCE_NAMES, duration, percent, short
from iqcar.causes.blame.demand_weights import BLAME_KINDS, QUERY, REST
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, BlameKind, Request, Resource
from iqcar.say.blamed import RecurringNames, cause_meaning, cause_name
from iqcar.show.html.explored import (
    FOLDED,
    RESOURCE_OF_REQUEST,
    RESOURCES,
    PageNames,
    code_names,
    explore_payload,
    explored_queries,
    largest,
    sums_by,
)
from iqcar.show.pictures import (
    compare_stragglers,
    executors,
    hosts,
    mixtures,
)
from iqcar.show.pictures.executors import shared_clusters
from iqcar.show.pictures.straggler_boxes import draw_boxes
from iqcar.show.pictures.theme import (
    BLAME_COLOURS,
    FRAME_PX,
    OTHERS,
    RESOURCE_COLOURS,
    ROW_PX,
    cause_colour,
    template,
)
from iqcar.show.pictures.timeline_payload import timeline_payload

if TYPE_CHECKING:
    from iqcar.show.html.explored import BlameRows, PageNames


NODE_PX = 44
"""Height per node of the fullest column of the Sankey diagram."""
LINK_OPACITY = 0.38
COLUMNS = (
    *("queries in the way", "their stages", "what for, and where"),
    *("resource", "stages that waited", "the target"),
)
"""What stands above the columns of the Sankey diagram, from left to right."""
LABEL_LETTERS = 22
"""Letters of a name beside the matrix, without the number of runs."""


def matrix_payload(
    blame_rows: BlameRows, names: PageNames, recurring: RecurringNames
) -> dict[str, Any]:
    """Sum lost time by source, kind, target and resource, over the runs of recurring queries.

    Returns sources and targets: labels of recurring queries, those that took or lost most first (−2
    for all others together); ran: how long each target ran, ms, 0 if unknown; cells: columns source
    (position in ``sources``, or −1), kind (code), target (position in ``targets``), lost (one
    number in ms per resource, and one for CPU limits), and from and to: positions of the runs of
    which the second lost most to the first; left_out: sources and targets that were folded.
    """
    frame = blame_rows.frame
    lost = frame["lost_ms"].to_numpy(np.float64)
    kind = frame["kind"].to_numpy(np.int64)
    by_query = kind == QUERY
    run, by = frame["target"].to_numpy(np.int64), frame["source"].to_numpy(np.int64)
    by = np.where(by_query, by, -1)
    source, target = recurring.first_runs(by), recurring.first_runs(run)
    request = frame["request"].to_numpy(np.int64)
    limited = request == REQUESTS.index(Request.THROTTLED)
    resource = np.where(limited, len(RESOURCES), RESOURCE_OF_REQUEST[request])
    taken = np.where(by_query, lost, 0.0)
    sources = largest(source, taken, limits.MOST_IN_MATRIX)
    # Those that lost most to others first; where nobody did, those that lost most.
    targets = largest(target, taken * 1e6 + lost, limits.MOST_IN_MATRIX)
    cells: dict[tuple[int, ...], list[float]] = {}
    row = _position(source, sources)
    column = _position(target, targets)
    keys, sums, _ = sums_by((row, kind, column, resource), lost)
    for (at, code, towards, of), ms in zip(keys, sums.tolist(), strict=True):
        if ms > 0:
            cell = cells.setdefault((at, code, towards), [0.0] * (len(RESOURCES) + 1))
            cell[of] = round(ms, 3)
    worst: dict[tuple[int, ...], tuple[float, int, int]] = {}
    keys, sums, _ = sums_by((row, kind, column, by, run), lost)
    for (*cell_key, culprit, victim), ms in zip(keys, sums.tolist(), strict=True):
        key = tuple(cell_key)
        worst[key] = max(worst.get(key, (0.0, -1, -1)), (ms, culprit, victim))
    return {
        "sources": recurring.labels(sources.tolist(), LABEL_LETTERS),
        "targets": recurring.labels(targets.tolist(), LABEL_LETTERS),
        "ran": [round(float(recurring.ran_ms[one]), 3) for one in targets.tolist()],
        "cells": {
            "source": [key[0] for key in cells],
            "kind": [key[1] for key in cells],
            "target": [key[2] for key in cells],
            "lost": list(cells.values()),
            "from": [names.query(worst[key][1]) for key in cells],
            "to": [names.query(worst[key][2]) for key in cells],
        },
        "left_out": {
            "sources": len(np.unique(source[source >= 0])) - len(sources),
            "targets": len(np.unique(target)) - len(targets),
        },
    }


def _position(rows: np.ndarray[Any, Any], kept: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Position of each row among those kept; −2 for the others, −1 stays."""
    if len(kept) == 0:
        return np.where(rows >= 0, FOLDED, rows)
    order = np.argsort(kept)
    at = np.minimum(np.searchsorted(kept[order], rows), len(kept) - 1)
    found = kept[order][at] == rows
    return np.where(found, order[at], np.where(rows >= 0, FOLDED, rows))


DIGITS = 5
"""Significant digits of a number in a picture: a screen has some thousand pixels."""
LARGE = 1e9
"""Numbers from here on are times since the epoch and keep all digits before the point."""
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def fixed_figures(diagnosis: Diagnosis) -> dict[str, Any]:
    """Draw what needs no redrawing; the page adds the template of its look.

    Returns hosts, executors (None where no two applications share a cluster), and mixtures (None
    without topics): a figure each; boxes: one entry per stage with stragglers, the most delayed
    first, with a figure and the rows of a table that says the same.
    """
    topics, tables = diagnosis.topics, diagnosis.tables
    some = topics is not None and len(topics.topics)
    shared = shared_clusters(tables)
    return {
        "hosts": _page_json(hosts(tables)),
        "executors": _page_json(executors(tables, diagnosis.waits)) if shared else None,
        "mixtures": _page_json(mixtures(topics, _mixtures_by(topics))) if some else None,
        "boxes": _boxes(diagnosis),
    }


def _mixtures_by(topics: Any) -> str:
    return "query" if (topics.jobs["query"] >= 0).any() else "stage"


def _boxes(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    found = diagnosis.stragglers
    rows = found.stragglers
    if not len(rows):
        return []
    delay = rows.groupby("stage")["delay_ms"].sum().sort_values(ascending=False, kind="stable")
    features = diagnosis.features
    boxes = []
    for stage in [int(row) for row in delay.index[: limits.MOST_BOXES]]:
        slow = rows["task"].to_numpy(np.int64)[(rows["stage"] == stage).to_numpy(bool)]
        compared = compare_stragglers(features, slow, stage)
        if not compared:
            continue
        boxes.append(
            {
                "stage": short(found.labels.stage(stage), limits.NAME_CHARACTERS),
                "stragglers": len(slow),
                "figure": _page_json(draw_boxes(compared, found.labels.stage(stage), len(slow))),
                "rows": [
                    {
                        "feature": one.phrase,
                        "slow": _written(float(np.median(one.slow)), one.unit),
                        "normal": _written(float(np.median(one.normal)), one.unit),
                        "p": float(f"{one.p:.3g}"),
                        "mqd": float(f"{one.difference:.3g}"),
                    }
                    for one in compared
                ],
            }
        )
    return boxes


def _written(value: float, unit: str) -> str:
    if unit == "ms":
        return duration(value)
    if unit == "share":
        return percent(value)
    if unit.startswith("bytes"):
        by, name = next((step for step in _BYTES if abs(value) >= step[0]), (1.0, "bytes"))
        return f"{value / by:.3g} {name}{unit.removeprefix('bytes')}"
    return f"{value:,.3g}" if abs(value) < 1e3 else f"{value:,.0f}"


def _page_json(figure: Any) -> dict[str, Any]:
    """Traces and layout as JSON has them; the page knows the template already."""
    figure.layout.template = None
    # Plotly's own encoder knows numpy and what is not a number.
    whole = json.loads(figure.to_json(engine="json"))
    shortened: dict[str, Any] = _shortened({"data": whole["data"], "layout": whole["layout"]})
    shortened["layout"].pop("template", None)
    return shortened


def _shortened(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return round(value) if abs(value) >= LARGE else float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return [_shortened(one) for one in value] if isinstance(value, list) else value


def headings() -> list[dict[str, Any]]:
    """Write what each column of the Sankey diagram is above it."""
    last = len(COLUMNS) - 1
    return [
        {
            "text": heading, "font": {"size": 12}, "opacity": 0.75, "showarrow": False,
            "x": number / last, "y": 1.0, "xref": "paper", "yref": "paper", "yshift": 14,
            "yanchor": "bottom",
            "xanchor": "left" if number == 0 else "right" if number == last else "center",
        }
        for number, heading in enumerate(COLUMNS)
    ]  # fmt: skip


def figures_payload() -> dict[str, Any]:
    """What figures have in common: the template of each look, headings and sizes."""
    return {
        "looks": {
            "light": template(False).to_plotly_json(),
            "dark": template(True).to_plotly_json(),
        },
        "headings": headings(),
        "nodes": MOST_NODES,
        "blamed": MOST_BLAMED,
        "withText": MOST_WITH_TEXT,
        "linkOpacity": LINK_OPACITY,
        "px": {"node": NODE_PX, "row": ROW_PX, "frame": FRAME_PX},
    }


def page_payload(diagnosis: Diagnosis, blame_rows: BlameRows) -> dict[str, Any]:
    """Lay out the data of every picture; its size depends on what is shown, not on the tasks."""
    return {
        **explored_payload(diagnosis, blame_rows, explored_queries(diagnosis)),
        "fixed": fixed_figures(diagnosis),
        "timeline": timeline_payload(
            diagnosis.tables, diagnosis.waits, diagnosis.graph, diagnosis.targets
        ),
    }


def explored_payload(
    diagnosis: Diagnosis, blame_rows: BlameRows, explored: Sequence[int]
) -> dict[str, Any]:
    """Lay out the data of the matrix and of exploring some queries, which the browser draws."""
    names = PageNames(diagnosis)
    codes = code_names()
    for one, request in zip(codes["requests"], REQUESTS, strict=True):
        one["name"] = REQUEST_NAMES[request]
    explore = explore_payload(diagnosis, blame_rows, names, explored)
    matrix = matrix_payload(blame_rows, names, RecurringNames(diagnosis.tables))
    return {
        **codes,
        "resources": [
            {
                "key": str(one),
                "name": RESOURCE_NAMES[one],
                "colour": RESOURCE_COLOURS[one],
                "sentence": one.sentence,
            }
            for one in Resource
        ],
        "kinds": [
            {"key": str(one), "colour": BLAME_COLOURS[one], "sentence": one.sentence}
            for one in BLAME_KINDS[:REST]  # blame_rows show a rest as other queries
        ],
        "causes": _causes(),
        "othersColour": OTHERS,
        "explore": explore,
        "matrix": matrix,
        "figures": figures_payload(),
        "people": names.to_dict(),
    }


def _causes() -> dict[str, dict[str, str]]:
    """Describe each cause that is no query; known causes by what was waited for."""
    keys: list[tuple[str, BlameKind, Resource | None, bool]] = [
        (str(BlameKind.OWN), BlameKind.OWN, None, False),
        *((f"known-{one}", BlameKind.KNOWN, one, False) for one in Resource),
        (f"known-{Request.THROTTLED}", BlameKind.KNOWN, Resource.CPU, True),
        (str(BlameKind.UNATTRIBUTED), BlameKind.UNATTRIBUTED, None, False),
    ]
    return {
        key: {
            "name": cause_name(kind, one, limited),
            "colour": cause_colour(kind, one),
            "sentence": cause_meaning(kind, one, limited),
        }
        for key, kind, one, limited in keys
    }
