"""What a notebook shows of a comparison: sentences, the changes and the waterfall, no script."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import replace

from iqcar.base.formatting import short
from iqcar.base.limits import MOST_DOUBTS, MOST_DRAWN_CHANGES
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.comparison_sections import changes_section
from iqcar.comparison.comparison_sentences import differences_sentence, totals_sentence
from iqcar.say.section import cell_text
from iqcar.show.pictures.comparison_plots import ComparisonPlots

TEXT_WIDTH = 300
"""Characters of a name or sentence."""


def comparison_html(comparison: Comparison) -> str:
    """Write a comparison as HTML that stands alone: everything from logs escaped."""
    parts = [
        f"<p><b>iqcar: {_text(totals_sentence(comparison))}</b></p>",
        f"<p>Different: {_text(differences_sentence(comparison))}</p>",
    ]
    if comparison.changes.empty:
        parts.append("<p>Nothing changed.</p>")
    else:
        parts.append(_table(comparison))
        parts.append(ComparisonPlots(comparison).waterfall().svg)
    if comparison.doubts:
        doubts = "".join(f"<li>{_text(doubt)}</li>" for doubt in comparison.doubts[:MOST_DOUBTS])
        parts.append(f"<details><summary>What is doubtful</summary><ul>{doubts}</ul></details>")
    parts.append(
        "<p>Pictures: <code>comparison.plot.waterfall()</code>, <code>.runs(query)</code>, "
        "<code>.stages(query)</code>, <code>.parts(query)</code>, <code>.density(query)</code></p>"
    )
    return f'<div style="max-width:70em">{"".join(parts)}</div>'


def _table(comparison: Comparison) -> str:
    section = changes_section(comparison)
    queries = zip(section.rows, comparison.changes["parent"], strict=True)
    rows = tuple(row for row, parent in queries if parent < 0)
    shown = replace(section, rows=rows).first(MOST_DRAWN_CHANGES, "more in comparison.changes")
    head = _row("th", [column.title for column in shown.columns])
    body = "".join(
        _row(
            "td", [cell_text(one.holds, cell) for one, cell in zip(shown.columns, row, strict=True)]
        )
        for row in shown.rows
    )
    notes = "".join(f"<p>{_text(note)}</p>" for note in shown.notes)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{notes}"


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return f"\u2068{html.escape(short(text, TEXT_WIDTH))}\u2069"
