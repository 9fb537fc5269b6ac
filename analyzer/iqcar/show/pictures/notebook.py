"""What a notebook shows of a diagnosis, a comparison and an answer: sentences and bars, no scripts.

All of it is HTML that stands alone: inline styles, everything from logs escaped.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from iqcar.base.limits import MOST_DOUBTS, MOST_DRAWN_CHANGES, MOST_WASTED
from iqcar.base.units import duration, percent, short
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.comparison_sections import changes_section
from iqcar.comparison.comparison_sentences import (
    changes_headline,
    differences_sentence,
    totals_sentence,
)
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.say import Blamed, Finding, Target, find_verdict, meanings
from iqcar.say.sentences import amount, counts
from iqcar.say.what_if_sentences import check_sentence, total_lines
from iqcar.show.pictures.comparison_plots import ComparisonPlots
from iqcar.show.pictures.palette import cause_colour, query_colours
from iqcar.show.pictures.what_if import predicted_durations

TEXT_WIDTH = 600
"""Characters of a sentence: three names and the words between them."""
MOST_SAVINGS = 5

_CELL = "padding:4px 10px;text-align:left;vertical-align:top"
_NUMBER = "padding:4px 10px;text-align:right;white-space:nowrap;vertical-align:top"
_FAINT = "opacity:.75"
_ORDER = (
    BlameKind.QUERY, BlameKind.REST, BlameKind.OWN, BlameKind.KNOWN, BlameKind.UNATTRIBUTED,
)  # fmt: skip


def notebook_html(diagnosis: Diagnosis) -> str:
    """Write the verdict of a diagnosis."""
    verdict = find_verdict(diagnosis)
    colours = query_colours(diagnosis.tables.queries)
    bars = [blame_bar(target, colours) for target in verdict.recurring]
    parts = [f"<p><b>iqcar: {', '.join(counts(diagnosis.tables))}</b></p>"]
    if verdict.do_not_apply:
        parts.insert(0, f"<p><b>{_text(verdict.do_not_apply)}</b></p>")
    parts.append(f"<p>{_text(verdict.headline)}</p>")
    if verdict.findings:
        parts.append(_list(_saving(one) for one in verdict.findings[:MOST_SAVINGS]))
    if verdict.recurring:
        parts.append(_list(_target(target) for target in verdict.recurring))
        parts.append(_table(verdict.recurring, bars))
        parts.append(_key(bars))
        words = [f"<b>{name}</b>: {text}" for name, text in meanings(verdict).items()]
        parts.append(_folded("What these words mean", words))
    if named := [line for line in verdict.wasted if line.delayed]:
        said = [f"{_text(line.sentence)} <small>{_text(line.advice)}</small>" for line in named]
        shown, left = said[:MOST_WASTED], len(said) - MOST_WASTED
        more = [f"{left} more in <code>diagnosis.wasted.by_query</code>"] if left > 0 else []
        parts.append(_folded("Wasted work", [*shown, *more]))
    parts.append(_doubts(verdict.doubts, "diagnosis.doubts"))
    parts.append(
        f'<p style="{_FAINT}">Pictures: <code>diagnosis.plot.sankey()</code>, '
        "<code>.waits()</code>, <code>.heatmap()</code>, <code>.timeline()</code>, "
        "<code>.matrix()</code>, <code>.lanes()</code>, <code>.hosts()</code>, "
        "<code>.executors()</code></p>"
    )
    return _shown(parts)


def comparison_html(comparison: Comparison) -> str:
    """Write what differs between two sides, the changes and the waterfall."""
    parts = [
        f"<p><b>iqcar: {_text(changes_headline(comparison))}</b></p>",
        f"<p>{_text(totals_sentence(comparison))}</p>",
        f"<p>{_text(differences_sentence(comparison))}</p>",
    ]
    if not comparison.changes.empty:
        parts += [_changes(comparison), ComparisonPlots(comparison).waterfall().svg]
    parts.append(_doubts(comparison.doubts, "comparison.doubts"))
    parts.append(
        "<p>Pictures: <code>comparison.plot.waterfall()</code>, <code>.runs(query)</code>, "
        "<code>.stages(query)</code>, <code>.parts(query)</code></p>"
    )
    return _shown(parts)


def what_if_html(answer: WhatIf) -> str:
    """Write what an answer comes to, how far it can be trusted, and the durations."""
    answered = answer.total["change_percent"] is not None
    said = [*(total_lines(answer) if answered else ()), *answer.refused]
    doubtful = [check_sentence(answer.self_check), f"assumed: {'; '.join(answer.assumptions)}"]
    return _shown(
        [
            f"<p><b>{_text(answer.question.sentence())}</b></p>",
            *(f"<p>{_text(line)}</p>" for line in said),
            predicted_durations(answer).svg if answered else "",
            *(f'<p style="{_FAINT}">{_text(line)}</p>' for line in doubtful),
        ]
    )


def _saving(one: Finding) -> str:
    action = f'<br><small style="{_FAINT}">{_text(one.action)}</small>'
    return f"<b>{one.kind.words}</b>: {one.saving}. {_text(one.sentence)}{action}"


def _target(target: Target) -> str:
    return f"<b>{target.severity.words}</b>: {_text(target.sentence)}"


def _table(findings: Sequence[Target], bars: Sequence[Sequence[Segment]]) -> str:
    """Targets, each with a bar as long as the share of its run that was lost."""
    headings = ("query", "ran", "lost", "lost to whom, as a part of its run")
    styles = (_CELL, _NUMBER, _NUMBER, _CELL)
    head = "".join(
        f'<th scope="col" style="{style}">{text}</th>'
        for text, style in zip(headings, styles, strict=True)
    )
    rows = [
        f'<tr><td style="{_CELL}">{_text(finding.name)}<br>'
        f'<small style="{_FAINT}">{_text(finding.query_id)}</small></td>'
        f'<td style="{_NUMBER}">{duration(finding.ran_ms)}</td>'
        f'<td style="{_NUMBER}">{html.escape(amount(finding.lost_ms, finding.ran_ms))}</td>'
        f'<td style="{_CELL}">{_bar(bar)}</td></tr>'
        for finding, bar in zip(findings, bars, strict=True)
    ]
    return (
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _bar(segments: Sequence[Segment]) -> str:
    """A bar of blame; its words stand in its label for who cannot see it."""
    said = [f"{_text(one.name)} {html.escape(percent(one.width))}" for one in segments]
    pieces = [
        f'<span title="{_text(one.label)}" style="display:inline-block;height:14px;'
        f'width:{100 * one.width:.2f}%;background:{one.colour}"></span>'
        for one in segments
    ]
    return (
        f'<div role="img" aria-label="{", ".join(said) or "nothing"}" style="width:320px;'
        "height:14px;font-size:0;white-space:nowrap;overflow:hidden;"
        f'background:rgba(128,128,128,.18)">{"".join(pieces)}</div>'
    )


def _key(bars: Iterable[Iterable[Segment]]) -> str:
    """Names of the colours, each once."""
    marks = {_text(one.name): one for bar in bars for one in bar}
    items = "".join(
        f'<span style="margin-right:1.2em;white-space:nowrap" title="{_text(one.label)}">'
        f'<span style="display:inline-block;width:.8em;height:.8em;background:{one.colour}"></span>'
        f" {words}</span>"
        for words, one in marks.items()
    )
    return f"<p>{items}</p>"


def _changes(comparison: Comparison) -> str:
    """The largest changes as a table."""
    section = changes_section(comparison)
    rows = zip(section.rows, comparison.changes["parent"], strict=True)
    queries = replace(section, rows=tuple(row for row, parent in rows if parent < 0))
    shown = queries.first(MOST_DRAWN_CHANGES, "more in comparison.changes")
    head = _row("th", (column.title for column in shown.columns))
    body = "".join(_row("td", cells) for cells in shown.written())
    notes = "".join(f"<p>{_text(note)}</p>" for note in shown.notes)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{notes}"


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _doubts(doubts: Sequence[str], whole: str) -> str:
    """The first doubts, and where the others are."""
    if not doubts:
        return ""
    left = len(doubts) - MOST_DOUBTS
    more = [f"{left} more in <code>{whole}</code>"] if left > 0 else []
    return _folded("What is doubtful", [*map(_text, doubts[:MOST_DOUBTS]), *more])


def _shown(parts: Iterable[str]) -> str:
    return f'<div style="max-width:70em">{"".join(parts)}</div>'


def _folded(title: str, items: Iterable[str]) -> str:
    return f"<details><summary>{title}</summary>{_list(items)}</details>"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _text(text: str) -> str:
    """Escape and shorten a text that may hold names from logs, kept from reordering its place."""
    return f"\u2068{html.escape(short(text, TEXT_WIDTH))}\u2069"


class Segment(NamedTuple):
    """A part of a bar.

    start, width: as shares of the bar, 0 to 1.
    name: who is blamed.
    label: the same with its time and share of the loss, and what a cause means.
    share: of its run.
    """

    start: float
    width: float
    colour: str
    name: str
    label: str
    share: float


def blame_bar(finding: Target, colours: Sequence[str]) -> list[Segment]:
    """Lay out the bar of a finding; its whole width is the query's run.

    colours: colour of each query by row.
    Returns queries first, the largest first, then causes; empty where nothing was lost. Where the
    run is not known, the loss is the whole width.
    """
    lost = sum(one.lost_ms for one in finding.blamed)
    whole = max(finding.ran_ms, lost) if np.isfinite(finding.ran_ms) else lost
    if not whole > 0:
        return []
    segments: list[Segment] = []
    start = 0.0
    times = Counter(one.name for one in finding.blamed)
    for one in sorted(finding.blamed, key=lambda one: _ORDER.index(one.kind)):
        width = one.lost_ms / whole
        label = f"{one.name}: {duration(one.lost_ms)}, {percent(width)} of its run"
        segments.append(
            Segment(
                start,
                width,
                colour=blamed_colour(one, colours),
                name=f"{one.name} {one.number}".rstrip() if times[one.name] > 1 else one.name,
                label=f"{label}. {one.meaning}" if one.meaning else label,
                share=width,
            )
        )
        start += width
    return segments


def blamed_colour(blamed: Blamed, colours: Sequence[str]) -> str:
    """Colour of a query that is blamed, or of the kind of cause."""
    if blamed.query >= 0:
        return colours[blamed.query]
    return cause_colour(blamed.kind, next(iter(blamed.by_resource), None))
