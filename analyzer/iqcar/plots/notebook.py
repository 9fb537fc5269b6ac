"""What a notebook shows of a diagnosis: sentences, bars of blame and doubts, without scripts."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from iqcar.enums import BlameKind
from iqcar.formatting import breakdown, duration, percent, resource_name, short
from iqcar.plots.palette import BLAME_COLOURS, OTHERS, query_colours
from iqcar.tables import texts

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.plots.accessor import Diagnosed

MOST_SOURCES = 4
"""Queries named in a sentence and told apart in a bar."""
LEAST_SHARE = 0.01
"""Share of a loss from which somebody is named."""
MOST_PIECES = 14
"""Pieces of a bar; the rest is one more."""
MOST_DOUBTS = 6
NAME = 60

_CELL = "padding:4px 10px;text-align:left;vertical-align:top"
_NUMBER = "padding:4px 10px;text-align:right;white-space:nowrap;vertical-align:top"
_FAINT = "opacity:.75"


def notebook_html(diagnosis: Diagnosed) -> str:
    """Write the verdict as HTML that stands alone: inline styles, everything from logs escaped."""
    queries = diagnosis.tables.queries
    count = f"{len(queries):,} {'query' if len(queries) == 1 else 'queries'}"
    parts = [f"<p><b>iqcar: {count}, {len(diagnosis.tables.tasks):,} tasks</b></p>"]
    if diagnosis.targets:
        parts.append(_list([_sentence(diagnosis, target) for target in diagnosis.targets]))
        parts.append(_table(diagnosis))
        parts.append(_key(diagnosis))
    else:
        parts.append("<p>No query lost time to contention that could be measured.</p>")
    if diagnosis.doubts:
        shown = [_text(doubt, 400) for doubt in diagnosis.doubts[:MOST_DOUBTS]]
        left = len(diagnosis.doubts) - len(shown)
        more = [f"{left} more in <code>diagnosis.doubts</code>"] if left else []
        parts.append(
            f"<details><summary>What is doubtful</summary>{_list([*shown, *more])}</details>"
        )
    parts.append(
        f'<p style="{_FAINT}">Pictures: <code>diagnosis.plot.sankey()</code>, '
        "<code>.waits()</code>, <code>.heatmap()</code>, <code>.timeline()</code>, "
        "<code>.matrix()</code>, <code>.lanes()</code>, <code>.hosts()</code></p>"
    )
    return f'<div style="max-width:70em">{"".join(parts)}</div>'


def _sentence(diagnosis: Diagnosed, target: int) -> str:
    """One target: what it lost, and to whom."""
    queries = diagnosis.tables.queries
    ran, lost = float(queries["duration_ms"].iloc[target]), diagnosis.graph.lost_ms(target)
    name = f"<b>{_name(texts(queries, 'name')[target])}</b>"
    if lost <= 0:
        return f"{name} ran {duration(ran)} and lost no time that could be measured."
    parts = []
    for row in _rows(diagnosis.graph.blame_of(target))[:MOST_SOURCES]:
        if row["share"] < LEAST_SHARE:
            continue
        share = html.escape(percent(row["share"]))
        names = {key: resource_name(key) for key in row["by_resource"]}
        waiting = html.escape(breakdown(row["by_resource"], names))
        parts.append(
            {
                BlameKind.QUERY: f"{share} to <b>{_name(row['source_name'])}</b> ({waiting})",
                BlameKind.OWN: f"{share} to its own tasks",
                BlameKind.KNOWN: f"{share} to known causes",
                BlameKind.UNATTRIBUTED: f"{share} unattributed",
                BlameKind.REST: f"{share} to {_name(row['source_name'])}",
            }[BlameKind(row["kind"])]
        )
    of_run = f" of its {duration(ran)}" if ran > 0 else ""
    return f"{name} lost {duration(lost)}{of_run}: {', '.join(parts)}."


def _table(diagnosis: Diagnosed) -> str:
    """Targets, each with a bar as long as the share of its run that was lost."""
    queries = diagnosis.tables.queries
    names, ids = texts(queries, "name"), texts(queries, "query_id")
    headings = ("query", "ran", "lost", "lost to whom, as a part of its run")
    styles = (_CELL, _NUMBER, _NUMBER, _CELL)
    head = "".join(
        f'<th scope="col" style="{style}">{text}</th>'
        for text, style in zip(headings, styles, strict=True)
    )
    rows = []
    for target in diagnosis.targets:
        ran, lost = float(queries["duration_ms"].iloc[target]), diagnosis.graph.lost_ms(target)
        share = f" ({html.escape(percent(lost / ran))})" if ran > 0 else ""
        rows.append(
            f'<tr><td style="{_CELL}">{_name(names[target])}<br>'
            f'<small style="{_FAINT}">{_name(ids[target])}</small></td>'
            f'<td style="{_NUMBER}">{duration(ran)}</td>'
            f'<td style="{_NUMBER}">{duration(lost)}{share}</td>'
            f'<td style="{_CELL}">{_bar(diagnosis, target, ran)}</td></tr>'
        )
    return (
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _bar(diagnosis: Diagnosed, target: int, ran: float) -> str:
    """A bar of blame; its words stand in its label for who cannot see it."""
    colours = query_colours(diagnosis.tables.queries)
    at = {query_id: row for row, query_id in enumerate(texts(diagnosis.tables.queries, "query_id"))}
    pieces: list[str] = []
    said: list[str] = []
    rest, others = 1.0, 0.0
    for row in _rows(diagnosis.graph.blame_of(target)):
        share = min(float(row["lost_ms"]) / ran if ran > 0 else float(row["share"]), rest)
        if share <= 0 or row["lost_ms"] <= 0:
            continue
        rest -= share
        if len(pieces) >= MOST_PIECES:
            others += share
            continue
        kind = BlameKind(row["kind"])
        query = at.get(row["source_query_id"], -1) if kind is BlameKind.QUERY else -1
        colour = colours[query] if query >= 0 else BLAME_COLOURS[kind]
        said.append(f"{_name(row['source_name'])} {html.escape(percent(share))}")
        pieces.append(_piece(said[-1], share, colour))
    if others > 0:
        pieces.append(_piece(f"others {html.escape(percent(others))}", others, OTHERS))
    label = ", ".join(said[:8]) or "nothing"
    return (
        f'<div role="img" aria-label="{label}" style="width:320px;height:14px;font-size:0;'
        f'white-space:nowrap;overflow:hidden;background:rgba(128,128,128,.18)">'
        f"{''.join(pieces)}</div>"
    )


def _piece(words: str, share: float, colour: str) -> str:
    return (
        f'<span title="{words}" style="display:inline-block;height:14px;'
        f'width:{100 * share:.2f}%;background:{colour}"></span>'
    )


def _key(diagnosis: Diagnosed) -> str:
    """Colours of the queries named, and of the other kinds of blame."""
    queries = diagnosis.tables.queries
    colours, names = query_colours(queries), texts(queries, "name")
    at = {query_id: row for row, query_id in enumerate(texts(queries, "query_id"))}
    marks: dict[str, str] = {}
    for target in diagnosis.targets:
        for row in _rows(diagnosis.graph.blame_of(target))[:MOST_SOURCES]:
            query = at.get(row["source_query_id"], -1)
            if row["kind"] == BlameKind.QUERY.value and query >= 0:
                marks[_name(names[query])] = colours[query]
    for kind, words in (
        (BlameKind.OWN, "itself"),
        (BlameKind.KNOWN, "known causes"),
        (BlameKind.UNATTRIBUTED, "unattributed"),
    ):
        marks[words] = BLAME_COLOURS[kind]
    items = "".join(
        f'<span style="margin-right:1.2em;white-space:nowrap"><span style="display:inline-block;'
        f'width:.8em;height:.8em;background:{colour}"></span> {words}</span>'
        for words, colour in marks.items()
    )
    return f"<p>{items}</p>"


def _rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    rows: list[dict[Any, Any]] = frame.to_dict("records")
    return rows


def _list(items: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _text(text: str, width: int) -> str:
    return html.escape(short(text, width))


def _name(name: str) -> str:
    """A name from a log, escaped, shortened, and kept from reordering what follows it."""
    return f"\u2068{_text(name, NAME) or '(no name)'}\u2069"
