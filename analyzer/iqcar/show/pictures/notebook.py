"""What a notebook shows of a diagnosis: its verdict as sentences and bars, without scripts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from iqcar.base.limits import MOST_DOUBTS, MOST_WASTED
from iqcar.base.units import duration, percent, short
from iqcar.diagnosis import Diagnosis
from iqcar.say import Finding, find_verdict, meanings
from iqcar.say.sentences import amount, counts
from iqcar.show.pictures.blame_bar import Segment, blame_bar
from iqcar.show.pictures.palette import query_colours

TEXT_WIDTH = 600
"""Characters of a sentence: three names and the words between them."""

_CELL = "padding:4px 10px;text-align:left;vertical-align:top"
_NUMBER = "padding:4px 10px;text-align:right;white-space:nowrap;vertical-align:top"
_FAINT = "opacity:.75"


def notebook_html(diagnosis: Diagnosis) -> str:
    """Write the verdict as HTML that stands alone: inline styles, everything from logs escaped."""
    verdict = find_verdict(diagnosis)
    colours = query_colours(diagnosis.tables.queries)
    bars = [blame_bar(finding, colours) for finding in verdict.findings]
    parts = [f"<p><b>iqcar: {', '.join(counts(diagnosis.tables))}</b></p>"]
    if verdict.do_not_apply:
        parts.insert(0, f"<p><b>{_text(verdict.do_not_apply)}</b></p>")
    parts.append(f"<p>{_text(verdict.headline)}</p>")
    if verdict.findings:
        parts.append(_list(_finding(finding) for finding in verdict.findings))
        parts.append(_table(verdict.findings, bars))
        parts.append(_key(bars))
        words = [f"<b>{name}</b>: {text}" for name, text in meanings(verdict).items()]
        parts.append(_folded("What these words mean", words))
    if named := [line for line in verdict.wasted if line.delayed]:
        said = [f"{_text(line.sentence)} <small>{_text(line.advice)}</small>" for line in named]
        shown, left = said[:MOST_WASTED], len(said) - MOST_WASTED
        more = [f"{left} more in <code>diagnosis.wasted.by_query</code>"] if left > 0 else []
        parts.append(_folded("Wasted work", [*shown, *more]))
    if verdict.doubts:
        shown = [_text(doubt) for doubt in verdict.doubts[:MOST_DOUBTS]]
        left = len(verdict.doubts) - len(shown)
        more = [f"{left} more in <code>diagnosis.doubts</code>"] if left else []
        parts.append(_folded("What is doubtful", [*shown, *more]))
    parts.append(
        f'<p style="{_FAINT}">Pictures: <code>diagnosis.plot.sankey()</code>, '
        "<code>.waits()</code>, <code>.heatmap()</code>, <code>.timeline()</code>, "
        "<code>.matrix()</code>, <code>.lanes()</code>, <code>.hosts()</code>, "
        "<code>.executors()</code></p>"
    )
    return f'<div style="max-width:70em">{"".join(parts)}</div>'


def _finding(finding: Finding) -> str:
    advice = f'<br><small style="{_FAINT}">{_text(finding.advice)}</small>'
    said = f"<b>{finding.severity.words}</b>: {_text(finding.sentence)}"
    return said + (advice if finding.advice and finding.blamed else "")


def _table(findings: Sequence[Finding], bars: Sequence[Sequence[Segment]]) -> str:
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


def _folded(title: str, items: Iterable[str]) -> str:
    return f"<details><summary>{title}</summary>{_list(items)}</details>"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _text(text: str) -> str:
    """Escape and shorten a text that may hold names from logs, kept from reordering its place."""
    return f"\u2068{html.escape(short(text, TEXT_WIDTH))}\u2069"
