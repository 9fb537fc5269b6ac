"""Which topics explain the stragglers of each query, or stage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.causes.topics.topic_counts import mixture_matrix, query_mixtures
from iqcar.causes.topics.topic_result import Topics
from iqcar.errors import UsageError
from iqcar.rules.vocabulary import topic_name
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.theme import stable_colours
from iqcar.tables.arrays import Floats

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
