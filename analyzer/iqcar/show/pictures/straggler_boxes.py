"""Stragglers beside the other tasks of their stage, and which topics explain them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from iqcar.base.units import short
from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.analyse_job import Ranked
from iqcar.causes.topics.topic_counts import mixture_matrix, query_mixtures
from iqcar.causes.topics.topic_result import Topics
from iqcar.enums import BlameKind, FeatureKind
from iqcar.errors import UsageError
from iqcar.rules.vocabulary import topic_name
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.theme import BLAME_COLOURS, COMPUTING, stable_colours
from iqcar.tables.arrays import Floats, Ints

MOST_FEATURES = 8
"""Features with boxes: two rows of four."""
PER_ROW = 4
PANEL_PX = 210
GAP, GAP_BELOW = 0.07, 0.34
"""Shares of the picture between two columns, and between lines with their headings."""
LEAST_KNOWN = 0.5
"""Share of a stage's tasks that must have a feature for it to be compared."""
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ms": ((1.0, "ms"), (1e3, "s"), (6e4, "min")),
    "bytes": ((1.0, "bytes"), (1e3, "KB"), (1e6, "MB"), (1e9, "GB")),
    "bytes/s": ((1.0, "bytes/s"), (1e3, "KB/s"), (1e6, "MB/s"), (1e9, "GB/s")),
    "share": ((0.01, "%"),),
    "count": ((1.0, ""), (1e3, "thousand"), (1e6, "million")),
}
"""What a unit is divided by for people, and what it is called then; the largest that fits."""


class Compared(NamedTuple):
    """One feature of a stage's stragglers and of its other tasks.

    phrase, unit: what to call it, and its unit
    slow, normal: values of stragglers and of the others, in that unit
    p: two-sided p of the Wilcoxon rank-sum test
    difference: MQD in interquartile ranges of the stage; the standard deviation where that is 0
    """

    phrase: str
    unit: str
    slow: Floats
    normal: Floats
    p: float
    difference: float


def compare_stragglers(features: TaskFeatures, slow_tasks: Ints, stage: int) -> list[Compared]:
    """Compare a stage's stragglers with its other tasks in every feature that varies.

    slow_tasks: rows of stragglers
    stage: row of the stage.
    Returns the least likely to be chance first.
    """
    frame = features.frame
    mine = ((frame["stage"] == stage) & frame["compared"]).to_numpy(bool)
    slow = np.isin(frame["task"].to_numpy(np.int64)[mine], slow_tasks)
    if not slow.any() or slow.all():
        return []
    found = []
    for feature in features.features:
        values = features.column(feature.name)[mine]
        known = np.isfinite(values)
        if known.mean() < LEAST_KNOWN or not (known & slow).any() or not (known & ~slow).any():
            continue
        values, chosen = values[known], slow[known]
        if values.min() == values.max():
            continue
        p, difference = (float(one[0]) for one in Ranked.of(values[None], chosen).differences())
        phrase = feature.phrase
        if feature.kind is FeatureKind.WAIT:
            phrase = f"measured wait for {phrase}"
        slow_values, others = values[chosen], values[~chosen]
        found.append(
            Compared(phrase, feature.unit, slow_values, others, p=p, difference=difference)
        )
    return sorted(found, key=lambda one: (one.p, -abs(one.difference)))


def worst_stage(stragglers: Stragglers, query: int | None = None) -> int | None:
    """Row of the stage, of a query or of all, whose stragglers were delayed most; None if none."""
    rows = stragglers.stragglers
    if query is not None:
        rows = rows[(rows["query"] == query).to_numpy(bool)]
    if len(rows) == 0:
        return None
    return int(rows.groupby("stage")["delay_ms"].sum().idxmax())


def straggler_boxes(
    features: TaskFeatures,
    stragglers: Stragglers,
    stage: int | None = None,
    *,
    most: int = MOST_FEATURES,
    dark: bool = False,
) -> look.Figure:
    """Draw a stage's stragglers beside its other tasks, with p.

    stage: row of the stage; by default the one whose stragglers were delayed most.
    most: features at most, the least likely to differ by chance first.
    """
    chosen = worst_stage(stragglers) if stage is None else stage
    if chosen is None:
        return look.nothing("No task was a straggler.", dark=dark)
    name = features.labels.stage(chosen)
    rows = stragglers.stragglers
    slow = rows["task"].to_numpy(np.int64)[(rows["stage"] == chosen).to_numpy(bool)]
    if len(slow) == 0:
        return look.nothing(f"Stage {_shown(name)} has no straggler.", dark=dark)
    found = compare_stragglers(features, slow, chosen)
    if not found:
        sentence = f"Nothing that was recorded tells stage {_shown(name)}'s tasks apart."
        return look.nothing(sentence, dark=dark)
    return draw_boxes(found, name, len(slow), most=most, dark=dark)


def draw_boxes(
    found: Sequence[Compared], stage: str, n: int, *, most: int = MOST_FEATURES, dark: bool = False
) -> look.Figure:
    """Draw what :func:`compare_stragglers` found, at least one feature.

    stage: what the stage is called.
    n: number of its stragglers.
    most, dark: as of :func:`straggler_boxes`; without its template the figure is the same in both
    looks.
    """
    found = found[:most]
    columns = min(PER_ROW, len(found))
    lines = -(-len(found) // columns)
    widths, heights = look.domains(columns, GAP), look.domains(lines, GAP_BELOW / lines)[::-1]
    traces: list[Any] = []
    layout: dict[str, Any] = {"annotations": []}
    for number, one in enumerate(found):
        across, down = widths[number % columns], heights[number // columns]
        of = look.axes_of(number + 1)
        traces += _boxes(one, of)
        layout[f"xaxis{of}"] = {"anchor": f"y{of}", "domain": across, "showticklabels": False}
        layout[f"yaxis{of}"] = {
            "anchor": f"x{of}",
            "domain": down,
            "title": {"text": _unit(one)[1]},
            "rangemode": "tozero",
        }
        layout["annotations"].append(
            {
                "text": _heading(one), "font": {"size": 12}, "showarrow": False,
                "x": sum(across) / 2, "xanchor": "center", "xref": "paper",
                "y": down[1], "yanchor": "bottom", "yref": "paper",
            }
        )  # fmt: skip
    return look.figure(
        traces,
        f"{n} stragglers of stage {_shown(stage)} beside its other tasks",
        dark=dark,
        height=look.FRAME_PX + PANEL_PX * lines,
        legend={"orientation": "h", "y": -0.04, "yanchor": "top", "x": 0},
        boxmode="group",
        margin={"l": 8, "r": 16, "t": 104, "b": 40},
        **layout,
    )


def _shown(stage: str) -> str:
    return look.label(stage, 36)


def _heading(one: Compared) -> str:
    p = "p &lt; 0.001" if one.p < 0.001 else f"p = {one.p:.3f}"
    return f"{look.safe(short(one.phrase, 30))}<br>{p}"


def _unit(one: Compared) -> tuple[float, str]:
    most = float(max(one.slow.max(), one.normal.max()))
    steps = SCALES.get(one.unit, ((1.0, one.unit),))
    return next((step for step in reversed(steps) if most >= step[0]), steps[0])


def _boxes(one: Compared, axes: str) -> list[dict[str, Any]]:
    by, _ = _unit(one)
    traces = []
    for name, values, colour in (
        ("stragglers", one.slow, BLAME_COLOURS[BlameKind.QUERY]),
        ("other tasks", one.normal, COMPUTING),
    ):
        low, first, median, third, high = whiskers(values / by)
        traces.append(
            {
                "type": "box", "x": [name], "name": name, "q1": [first], "median": [median],
                "q3": [third], "lowerfence": [low], "upperfence": [high],
                "mean": [float(values.mean() / by)], "boxmean": False,
                "xaxis": f"x{axes}", "yaxis": f"y{axes}", "marker": {"color": colour},
                "line": {"width": 1.5}, "width": 0.5, "offsetgroup": name, "legendgroup": name,
                "showlegend": not axes, "hoveron": "boxes", "hoverlabel": {"namelength": -1},
                "xhoverformat": " ", "yhoverformat": ".3~g",
            }
        )  # fmt: skip
    return traces


def whiskers(values: Floats) -> tuple[float, float, float, float, float]:
    """Whiskers and quartiles: whiskers end at the last value within 1.5 interquartile ranges."""
    first, median, third = (float(q) for q in np.percentile(values, (25, 50, 75)))
    reach = 1.5 * (third - first)
    low = float(values[values >= first - reach].min())
    high = float(values[values <= third + reach].max())
    return min(low, first), first, median, third, max(high, third)


MOST_ROWS = 20
"""Queries or stages: those with most stragglers."""
BY = ("query", "stage")


class Mixtures(NamedTuple):
    """Mixtures before they are drawn.

    rows: rows of queries or stages, most stragglers first
    causes: names of topics, those of one name as one cause
    share: (rows, causes); each row sums to 1
    stragglers: (rows,) how many
    """

    rows: list[int]
    causes: list[str]
    share: Floats
    stragglers: list[int]


def topic_mixtures(topics: Topics, by: str = "query", names: str = "") -> Mixtures:
    """Sum mixtures by cause, for queries or for stages.

    Raises UsageError if ``by`` is neither query nor stage.
    """
    if by not in BY:
        raise UsageError(f"mixtures are not known by {by!r}", "mixtures", "take query or stage")
    named = [topic_name(topics.words_of(t), names).name for t in range(len(topics.topics))]
    causes = list(dict.fromkeys(named))
    of_topic = np.array([causes.index(name) for name in named], np.int64)
    if by == "stage":
        whole = mixture_matrix(topics)
        order = np.argsort(-topics.jobs["stragglers"].to_numpy(np.int64), kind="stable")
        kept = [int(job) for job in order if whole[job].any()]
        rows = topics.jobs["stage"].to_numpy(np.int64)[kept].tolist()
        stragglers = topics.jobs["stragglers"].to_numpy(np.int64)[kept].tolist()
        of_row = whole[kept]
    else:
        frame = query_mixtures(topics)
        rows = list(dict.fromkeys(frame["query"].tolist()))
        place = {row: i for i, row in enumerate(rows)}
        of_row = np.zeros((len(rows), len(named)))
        at = np.array([place[q] for q in frame["query"].tolist()], np.int64)
        of_row[at, frame["topic"].to_numpy(np.int64)] = frame["share"].to_numpy(np.float64)
        first = dict(zip(frame["query"].tolist(), frame["stragglers"].tolist(), strict=True))
        stragglers = [int(first[row]) for row in rows]
    share = np.zeros((len(rows), len(causes)))
    np.add.at(share.T, of_topic, of_row.T)
    return Mixtures(rows, causes, share, stragglers)


def mixtures(
    topics: Topics | None, by: str = "query", *, names: str = "", dark: bool = False
) -> look.Figure:
    """Draw which part of the stragglers of each query, or stage, each topic explains.

    topics: None where nobody asked for them.
    by: ``query`` or ``stage``.
    names: file with names of topics; ours by default.
    """
    if topics is None:
        return look.nothing(
            "Nobody asked for topics: iqcar.diagnose(tables, topics=True).", dark=dark
        )
    found = topic_mixtures(topics, by, names)
    if not found.rows:
        why = look.safe(topics.reason) or "No stage has stragglers that a topic explains."
        return look.nothing(why, dark=dark)
    rows, stragglers = found.rows[:MOST_ROWS], found.stragglers[:MOST_ROWS]
    labels = topics.labels
    if by == "query":
        called = look.distinct(
            [labels.query(r) for r in rows], [labels.query_id(r) for r in rows], 30
        )
    else:
        called = [look.label(f"stage {labels.stage(r)}", 34) for r in rows]
    ticks = [f"{name} ({n})" for name, n in zip(called, stragglers, strict=True)]
    colours = stable_colours(found.causes)
    traces = [
        {
            "type": "bar", "orientation": "h", "name": look.label(cause, 40),
            "marker": {"color": colours[c]}, "y": list(range(len(rows))),
            "x": (100 * found.share[: len(rows), c]).tolist(), "hoverinfo": "text",
            "hovertext": [
                f"{name}<br>{look.percent_text(found.share[i, c])} of its stragglers: "
                f"{look.label(cause, 60)}"
                for i, name in enumerate(called)
            ],
        }
        for c, cause in enumerate(found.causes)
        if found.share[: len(rows), c].any()
    ]  # fmt: skip
    left = len(found.rows) - len(rows)
    plural = {"query": "queries", "stage": "stages"}[by]
    more = f", {left} more {plural} left out" if left else ""
    return look.figure(
        traces,
        f"What made tasks of each {by} slow (stragglers in brackets{more})",
        dark=dark,
        height=look.FRAME_PX + 30 + look.ROW_PX * max(len(rows), 3),
        barmode="stack",
        bargap=0.3,
        showlegend=True,  # also where there is one topic only: its colour alone says nothing
        xaxis={"range": [0, 100], "ticksuffix": " %", "title": {"text": "of its stragglers"}},
        yaxis=look.names_axis(ticks, down=True),
        **look.legend_above([str(trace["name"]) for trace in traces]),
    )
