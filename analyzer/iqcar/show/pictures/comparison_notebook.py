"""What a notebook shows of a comparison: sentences, the changes and the waterfall, no script."""

from __future__ import annotations

import html
from collections.abc import Iterable

from iqcar.base.limits import MOST_DOUBTS, MOST_DRAWN_CHANGES
from iqcar.base.units import duration, short, signed
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.comparison_sentences import differences_sentence, totals_sentence
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
    queries = comparison.changes[comparison.changes["parent"].to_numpy() < 0]
    rows = [
        _row(
            "td",
            [
                f"{row['rank']}.",
                comparison.name(row["category"]),
                duration(row["before_ms"]),
                duration(row["after_ms"]),
                signed(row["contribution_ms"]),
                row["kind"],
            ],
        )
        for row in queries.head(MOST_DRAWN_CHANGES).to_dict("records")
    ]
    left = len(queries) - len(rows)
    more = f"<p>{left} more in <code>comparison.changes</code></p>" if left > 0 else ""
    head = _row("th", ["", "query", "before", "after", "change a run", "kind"])
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{more}"


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return f"\u2068{html.escape(short(text, TEXT_WIDTH))}\u2069"
