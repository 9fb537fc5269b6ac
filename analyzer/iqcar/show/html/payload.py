"""The data of the page's program, as one JSON object.

Figures that never change are drawn here. The browser narrows and redraws the others: it takes how
they look from the template that notebooks use, and puts in the numbers left after each choice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base import limits
from iqcar.base.limits import MOST_BLAMED, MOST_NODES, MOST_WITH_TEXT
from iqcar.base.units import REQUEST_NAMES, RESOURCE_NAMES, duration, percent, printable, short
from iqcar.causes.blame.demand_weights import BLAME_KINDS, QUERY, REST, UNATTRIBUTED
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, REQUESTS, BlameKind, Request, Resource
from iqcar.rules.vocabulary import query_status
from iqcar.say.blamed import QueryNames, RecurringNames, cause_meaning, cause_name
from iqcar.say.sentences import OthersLosses, outcome_words, run_words, wait_words
from iqcar.show.pictures import (
    compare_stragglers,
    executors,
    hosts,
    mixtures,
)
from iqcar.show.pictures.hosts import shared_clusters
from iqcar.show.pictures.straggler_boxes import draw_boxes
from iqcar.show.pictures.theme import (
    BLAME_COLOURS,
    FRAME_PX,
    OTHERS,
    RESOURCE_COLOURS,
    ROW_PX,
    cause_colour,
    query_colours,
    template,
)
from iqcar.show.pictures.timeline_payload import timeline_payload
from iqcar.tables import NONE, texts
from iqcar.tables.arrays import Floats, Ints

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
    by = "query" if topics is not None and (topics.jobs["query"] >= 0).any() else "stage"
    shared = shared_clusters(tables)
    return {
        "hosts": _page_json(hosts(tables)),
        "executors": _page_json(executors(tables, diagnosis.waits)) if shared else None,
        "mixtures": _page_json(mixtures(topics, by)) if some else None,
        "boxes": _boxes(diagnosis),
    }


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


class PageNames:
    """Looks up names by row, and remembers which rows the page has to know."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._diagnosis = diagnosis
        self._names = QueryNames(diagnosis.tables.queries)
        self._queries = _Index()
        self._stages = _Index()
        self._hosts = _Index()
        self._text_left = limits.TEXT_CHARACTERS

    def query(self, row: int) -> int:
        """Position on the page of a query; negative rows stay what they are."""
        return self._queries.of(row)

    def stage(self, row: int) -> int:
        """Position on the page of a stage."""
        return self._stages.of(row)

    def host(self, row: int) -> int:
        """Position on the page of a host."""
        return self._hosts.of(row)

    def to_dict(self) -> dict[str, Any]:
        """Lay out everything that was asked for, in order of position."""
        return {
            "queries": [self._query(row) for row in self._queries.rows],
            "stages": [self._stage(row) for row in self._stages.rows],
            "hosts": [printable(self._host_names[row]) for row in self._hosts.rows],
        }

    def _query(self, row: int) -> dict[str, Any]:
        queries = self._diagnosis.tables.queries
        duration = float(queries["duration_ms"].iloc[row])
        known = bool(np.isfinite(duration))
        lost = float(self._lost[row])
        # Rounding of summed times can lift the loss over the duration by a hair.
        lost = min(lost, duration) if duration > 0 else lost
        to_others = float(self._others.lost[row])
        became = queries.iloc[row][["ended", "failed", "error"]].tolist()
        outcome = outcome_words(status := query_status(*became), became[-1])
        ran = run_words(lost, self._others.of([row]), outcome)
        one = {
            "id": printable(self._names.ids[row]),
            "name": self._names.name(row, limits.NAME_CHARACTERS),
            "number": self._names.number(row),
            "colour": self._colours[row],
            "ran": round(duration, 3) if known else None,
            "lost": round(lost, 3),
            "toOthers": round(to_others, 3),
            "status": str(status),
            "said": f" ({self._names.number(row)}) {ran}. Its tasks waited: "
            f"{wait_words(self._diagnosis, row)}.",
        }
        text = "".join(c if c == "\n" else printable(c) for c in self._names.full[row])
        if text != one["name"] and len(text) <= self._text_left:
            self._text_left -= len(text)
            one["text"] = text
        return one

    def _stage(self, row: int) -> dict[str, Any]:
        stages = self._diagnosis.tables.stages
        query = int(stages["query"].iloc[row])
        return {
            "id": f"{stages['stage_id'].iloc[row]}.{stages['attempt'].iloc[row]}",
            "name": short(str(stages["name"].iloc[row]), limits.NAME_CHARACTERS),
            "query": self._queries.known(query),
            "critical": bool(stages["critical"].iloc[row]),
        }

    @cached_property
    def _host_names(self) -> list[str]:
        return texts(self._diagnosis.tables.hosts, "host")

    @cached_property
    def _colours(self) -> list[str]:
        return query_colours(self._diagnosis.tables.queries)

    @cached_property
    def _lost(self) -> Floats:
        return self._diagnosis.lost_ms()

    @cached_property
    def _others(self) -> OthersLosses:
        ran = self._diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
        return OthersLosses(
            self._diagnosis, np.where(ran > 0, np.fmin(self._lost, ran), self._lost)
        )


class _Index:
    """Numbers rows in the order in which they are asked for."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._at: dict[int, int] = {}

    def of(self, row: int) -> int:
        if row < 0:
            return row
        if row not in self._at:
            self._at[row] = len(self.rows)
            self.rows.append(row)
        return self._at[row]

    def known(self, row: int) -> int:
        return self._at.get(row, -1)


FOLDED = -2
"""Row number of everything that was folded into one: other stages, hosts, sources."""
RESOURCES: tuple[Resource, ...] = tuple(Resource)
RESOURCE_OF_REQUEST = np.array([RESOURCES.index(r.resource) for r in REQUESTS], np.int64)
"""Position in ``RESOURCES`` of each request's resource."""
KEYS = ("stage", "request", "host", "kind", "source_stage", "source")
"""What tells two rows of one target apart."""


@dataclass(frozen=True)
class BlameRows:
    """Blame explanations of all targets, in the order of the targets.

    frame: target, stage, request (code), host, kind (code), source_stage, source (query): rows and
    codes, −1 for none, −2 for the other queries of a rest; lost_ms (elapsed), dor.
    begin: (queries + 1,) where each query's rows begin, by query row.
    """

    frame: pd.DataFrame
    begin: Ints

    def of(self, query: int) -> pd.DataFrame:
        """Rows of one target."""
        return self.frame.iloc[self.begin[query] : self.begin[query + 1]]


def lay_out_blame(graph: IQCGraph, queries: int) -> BlameRows:
    """Lay the blame explanations of a graph out as columns.

    queries: how many queries there are.
    """
    s = graph.structure
    demand = s.towards[4]
    of_resource = s.towards[3][demand]
    stage = s.stage[s.towards[2][of_resource]] if len(demand) else demand
    source = s.source_query[graph.query_of_explanation] if len(demand) else demand
    source_stage = s.source_stage[s.source] if len(demand) else demand
    # A source stage of no known query is nobody that could be named (as in blame_of).
    nameless = (s.kind == QUERY) & (source < 0)
    rest = s.kind == REST
    frame = pd.DataFrame(
        {
            "target": s.targets[s.target[4]] if len(demand) else demand,
            "stage": stage,
            "request": s.request[demand],
            "host": s.host[demand],
            "kind": np.where(nameless, UNATTRIBUTED, np.where(rest, QUERY, s.kind)),
            "source_stage": np.where(nameless, NONE, np.where(rest, FOLDED, source_stage)),
            "source": np.where(rest, FOLDED, source),
            "lost_ms": graph.lost.amount[4],
            "dor": graph.dor.amount[4],
        }
    )
    by_target, _ = graph.explanations_of_target
    frame = frame.iloc[by_target[np.argsort(frame["target"].to_numpy()[by_target], kind="stable")]]
    counts = np.bincount(frame["target"].to_numpy(np.int64), minlength=queries)
    return BlameRows(frame.reset_index(drop=True), np.concatenate([[0], np.cumsum(counts)]))


def demands_of(graph: IQCGraph, demands: pd.DataFrame) -> pd.DataFrame:
    """Say what the tasks of each target stage waited, by request and host.

    Returns target, stage, request, host (rows and codes), tasks, wait_ms (task time), evidence
    (code), ratp, slowdown, over_attribution, and lost_ms (elapsed).
    """
    s = graph.structure
    names = ["tasks", "wait_ms", "evidence", "ratp", "slowdown", "over_attribution"]
    columns = {name: demands[name].to_numpy()[s.demand] for name in names}
    stage = s.stage[s.towards[2][s.towards[3]]] if len(s.demand) else s.demand
    target = s.targets[s.target[3]] if len(s.demand) else s.demand
    return pd.DataFrame(
        {
            "target": target,
            "stage": stage,
            "request": s.request,
            "host": s.host,
            **columns,
            "lost_ms": graph.lost.amount[3],
        }
    )


def sums_by(columns: Sequence[Ints], lost_ms: Floats) -> tuple[list[tuple[int, ...]], Floats, Ints]:
    """Add up lost time by the values of several columns.

    columns: (n,) each, of small whole numbers, −2 being the least
    lost_ms: (n,)
    Returns the combinations that occur, in order; the sum of each; and the position of each row's
    combination.
    """
    key = np.zeros(len(lost_ms), np.int64)
    sizes = [int(column.max(initial=FOLDED)) - FOLDED + 1 for column in columns]
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + (column - FOLDED)
    # One whole number per combination: sorting those is far cheaper than sorting rows.
    distinct, member = np.unique(key, return_inverse=True)
    sums = np.bincount(member, lost_ms, minlength=len(distinct)).astype(np.float64)
    values: list[Ints] = []
    for size in reversed(sizes):
        values.append(distinct % size + FOLDED)
        distinct = distinct // size
    combinations = list(zip(*(one.tolist() for one in reversed(values)), strict=True))
    return combinations, sums, member


def largest(rows: Ints, lost_ms: Floats, most: int) -> Ints:
    """Return the distinct rows (≥ 0) with a line of their own, those that lost most first."""
    known = rows >= 0
    names, member = np.unique(rows[known], return_inverse=True)
    total = np.bincount(member, lost_ms[known], minlength=len(names)).astype(np.float64)
    chosen: Ints = names[limits.fold(total, most)[0]]
    return chosen


def keep(frame: pd.DataFrame, column: str, kept: Ints) -> pd.DataFrame:
    """Replace rows that are not kept by :data:`FOLDED`; what is negative stays."""
    values = frame[column].to_numpy(np.int64)
    beyond = (values >= 0) & ~np.isin(values, kept)
    return frame.assign(**{column: np.where(beyond, FOLDED, values)})


def joined(frame: pd.DataFrame) -> pd.DataFrame:
    """Sum rows that agree in all of :data:`KEYS`; the largest loss first."""
    sums = frame.groupby(list(KEYS), sort=False, as_index=False)[["lost_ms", "dor"]].sum()
    whole: pd.DataFrame = sums.sort_values("lost_ms", ascending=False, kind="stable")
    return whole.reset_index(drop=True)


def bounded(rows: pd.DataFrame, most: int, hosts: Ints) -> tuple[pd.DataFrame, bool]:
    """Fold the rows of one target until there are at most so many; no sum changes.

    First what is beyond a number per axis; then the smallest rows lose what they say in detail:
    their source stage, their host, their stage, at last their source.

    rows: DataFrame of one target, as in :class:`BlameRows`
    most: rows at most, give or take the requests: they are never folded.
    Returns the rows by :data:`KEYS`, and whether anything was folded.
    """
    lost = rows["lost_ms"].to_numpy(np.float64)
    axes = {
        "stage": largest(rows["stage"].to_numpy(np.int64), lost, limits.MOST_STAGES),
        "host": hosts,
        "source": largest(rows["source"].to_numpy(np.int64), lost, limits.MOST_SOURCES),
        "source_stage": largest(
            rows["source_stage"].to_numpy(np.int64), lost, limits.MOST_SOURCE_STAGES
        ),
    }
    for column, kept in axes.items():
        rows = keep(rows, column, kept)
    # A stage of a source that was folded says nothing by itself.
    lone = (rows["source"] == FOLDED).to_numpy()
    rows = rows.assign(source_stage=np.where(lone, FOLDED, rows["source_stage"]))
    folded = any((rows[column] == FOLDED).any() for column in axes)
    rows = joined(rows)
    nobody = np.zeros(0, np.int64)
    for column in ("source_stage", "host", "stage", "source"):
        if len(rows) <= most:
            break
        # Half of the room stays for the largest rows as they are.
        large, small = rows.iloc[: most // 2], rows.iloc[most // 2 :]
        rows = joined(pd.concat([large, keep(small, column, nobody)]))
        folded = True
    return rows, folded


def explored_queries(diagnosis: Diagnosis) -> list[int]:
    """Rows of the queries that can be explored: the targets, then those that lost most."""
    lost, to_others = diagnosis.lost_ms(), diagnosis.lost_to_others_ms()
    order = [int(row) for row in np.lexsort((-lost, -to_others)) if lost[row] > 0]
    chosen = list(dict.fromkeys([*diagnosis.targets, *order]))
    return chosen[: max(limits.MOST_EXPLORED, len(diagnosis.targets))]


def explore_payload(
    diagnosis: Diagnosis, blame_rows: BlameRows, names: PageNames, chosen: Sequence[int]
) -> dict[str, Any]:
    """Lay out what can be explored of chosen queries, sums unchanged and large parts folded.

    Returns targets: one entry per query, each with columns; left_out: queries that lost time and
    are not here; folded: whether small parts were joined.
    """
    rows = blame_rows.frame
    hosts = largest(
        rows["host"].to_numpy(np.int64), rows["lost_ms"].to_numpy(np.float64), limits.MOST_HOSTS
    )
    demands = demands_of(diagnosis.graph, diagnosis.blame.demands)
    demands = demands[demands["target"].isin(chosen).to_numpy()]
    by_target = dict(iter(demands.groupby("target", sort=False)))
    any_folded = False
    targets = []
    for query, most in zip(chosen, rows_of_each(len(chosen)), strict=True):
        mine, folded = bounded(blame_rows.of(query), most, hosts)
        any_folded |= folded
        one: dict[str, Any] = {"query": names.query(query), "rows": _rows(mine, names)}
        if query in by_target:
            stages = np.unique(mine["stage"].to_numpy(np.int64))
            one["demands"] = _demands(by_target[query], stages, hosts, names)
        targets.append(one)
    with_loss = int((diagnosis.lost_ms() > 0).sum())
    explored = sum(diagnosis.lost_ms()[query] > 0 for query in chosen)
    return {
        "targets": targets,
        "left_out": with_loss - int(explored),
        "folded": any_folded,
    }


def rows_of_each(queries: int) -> list[int]:
    """How many rows of blame each query gets, the worst hit first."""
    first = min(queries, limits.FIRST)
    most = limits.MOST_ROWS_OF_QUERY
    left = limits.MOST_ROWS - first * most
    room = left // max(queries - first, 1)
    others = min(max(room, limits.LEAST_ROWS_OF_QUERY), most)
    return [most] * first + [others] * (queries - first)


def _rows(rows: pd.DataFrame, names: PageNames) -> dict[str, list[Any]]:
    return {
        "stage": [names.stage(row) for row in rows["stage"].tolist()],
        "request": rows["request"].tolist(),
        "host": [names.host(row) for row in rows["host"].tolist()],
        "kind": rows["kind"].tolist(),
        "sourceStage": [names.stage(row) for row in rows["source_stage"].tolist()],
        "source": [names.query(row) for row in rows["source"].tolist()],
        "lost": [float(f"{ms:.6g}") for ms in rows["lost_ms"].tolist()],
        "dor": [float(f"{dor:.5g}") for dor in rows["dor"].tolist()],
    }


def _demands(
    demands: pd.DataFrame, stages: Ints, hosts: Ints, names: PageNames
) -> dict[str, list[Any]]:
    """Sum demands over what was folded: waits and RATP add up; the slowdown is weighted by wait."""
    frame = keep(keep(demands, "stage", stages), "host", hosts)
    wait = np.nan_to_num(frame["wait_ms"].to_numpy(np.float64))
    frame = frame.assign(
        wait_ms=wait,
        slowed=np.nan_to_num(frame["slowdown"].to_numpy(np.float64)) * wait,
        ratp=np.nan_to_num(frame["ratp"].to_numpy(np.float64), posinf=0.0),
    )
    sums = frame.groupby(["stage", "request", "host"], sort=False, as_index=False).agg(
        tasks=("tasks", "sum"),
        wait_ms=("wait_ms", "sum"),
        slowed=("slowed", "sum"),
        ratp=("ratp", "sum"),
        evidence=("evidence", "min"),
        over_attribution=("over_attribution", "max"),
        lost_ms=("lost_ms", "sum"),
    )
    slowdown = sums["slowed"] / sums["wait_ms"].where(sums["wait_ms"] > 0, 1.0)
    return {
        "stage": [names.stage(row) for row in sums["stage"].tolist()],
        "request": sums["request"].tolist(),
        "host": [names.host(row) for row in sums["host"].tolist()],
        "tasks": sums["tasks"].tolist(),
        "wait": sums["wait_ms"].round(3).tolist(),
        "ratp": [_significant(value) for value in sums["ratp"].tolist()],
        "slowdown": [_significant(value) for value in slowdown.tolist()],
        "evidence": sums["evidence"].tolist(),
        "lost": sums["lost_ms"].round(3).tolist(),
    }


def _significant(value: float) -> float:
    return float(f"{value:.4g}")


def code_names() -> dict[str, Any]:
    """What the codes in the columns stand for."""
    return {
        "requests": [
            {"key": str(one), "resource": str(one.resource), "sentence": one.sentence}
            for one in REQUESTS
        ],
        "evidences": [str(one) for one in EVIDENCES],
    }
