"""Two sets of runs as text on a terminal: what ``iqcar compare`` prints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.text import Text

from iqcar.base.units import duration, percent, printable, short
from iqcar.comparison.comparison import Comparison, relative
from iqcar.comparison.comparison_sections import (
    MOST_NAMED,
    changes_headline,
    changes_section,
    counted,
    differences_sentence,
    totals_sentence,
)
from iqcar.comparison.explore import Explanation
from iqcar.comparison.shrunken_t import MOST_RUNS_NEEDED
from iqcar.enums import ChangeVerdict
from iqcar.say.section import Section
from iqcar.show.terminal.layout import (
    WIDTH_WITHOUT_TERMINAL,
    indented,
    print_doubts,
    show_section,
    terminal,
)

MOST_STAGES = 3
"""Stages shown of each query that changed."""
LEFT_OUT = ("kind", "runs")
"""Columns that a narrow terminal has no room for."""
MOST_ALIKE = 6
"""Parameters named that tell as much as the one asked for; the rest is counted."""
LABEL_WIDTH = 40
"""Characters of a stage's label in the table."""


def print_comparison(comparison: Comparison, top: int, console: Console | None = None) -> None:
    """Print totals, what differs, the largest changes, the rest, and doubts."""
    console = console or terminal()
    console.print(Text(printable(changes_headline(comparison)), style="bold"))
    console.print(Text(printable(totals_sentence(comparison))))
    console.print(Text(printable(differences_sentence(comparison))))
    if not comparison.changes.empty:
        shown = _shown(comparison, top)
        narrow = console.width < WIDTH_WITHOUT_TERMINAL
        kept = [replace(c, wide=c.wide or (narrow and c.title in LEFT_OUT)) for c in shown.columns]
        show_section(console, replace(shown, columns=tuple(kept)))
    console.print()
    for line in _rest(comparison):
        console.print(Text(printable(line)))
    print_doubts((f"{doubt}." for doubt in comparison.doubts), console)


def _shown(comparison: Comparison, top: int) -> Section:
    """Keep the largest changes, each with a few of its stages."""
    section, rows, stages = changes_section(comparison), [], 0
    ranks, parents = comparison.changes["rank"], comparison.changes["parent"]
    for row, rank, parent in zip(section.rows, ranks, parents, strict=True):
        stages = stages + 1 if parent >= 0 else 0
        if rank <= top and stages <= MOST_STAGES:
            rows.append(row)
    hidden = int(ranks.max()) - top
    notes = (f"and {hidden} more (--top)",) if hidden > 0 else ()
    return replace(section, rows=tuple(rows), notes=notes)


def _rest(comparison: Comparison) -> list[str]:
    lines = []
    same = comparison.verdict_of(ChangeVerdict.SAME)
    if same:
        margin = percent(comparison.margin)
        lines.append(f"Unchanged within ±{margin}: {counted(len(same), 'query', 'queries')}.")
    unclear = comparison.verdict_of(ChangeVerdict.CANNOT_TELL)
    if unclear:
        sizes = -comparison.effects["contribution_ms"].abs().to_numpy()[unclear]
        worst = [unclear[place] for place in np.argsort(sizes, kind="stable")[:MOST_NAMED]]
        more = f" and {len(unclear) - MOST_NAMED} more" if len(unclear) > MOST_NAMED else ""
        named = ", ".join(_unclear(comparison, row) for row in worst)
        lines.append(f"Cannot tell: {named}{more}.")
    return lines


def _unclear(comparison: Comparison, row: int) -> str:
    effect = comparison.effects.iloc[row]
    low, high = (np.expm1(effect[name]) for name in ("log_low", "log_high"))
    change = relative(effect["before_ms"], effect["after_ms"])
    interval = f" [{low * 100:+.0f}, {high * 100:+.0f}]" if np.isfinite(low) else ""
    needed = int(effect["runs_needed"])
    more = " or more" if needed >= MOST_RUNS_NEEDED else ""
    needs = f", needs {needed}{more} runs a side" if needed else ""
    return f"{short(comparison.name(row), LABEL_WIDTH)} {change}{interval}{needs}"


def print_explanation(
    comparison: Comparison, explained: Explanation, console: Console | None = None
) -> None:
    """Print what tells the runs after from those before, and what else would."""
    console = console or terminal()
    root = int(comparison.categories["query_category"].iloc[explained.category])
    name = comparison.name(explained.category)
    of = "" if root == explained.category else f" of {comparison.name(root)}"
    effect = comparison.effects.iloc[explained.category]
    times = f"{duration(effect['before_ms'])} → {duration(effect['after_ms'])}"
    console.print(Text(printable(f"{name}{of}: {times}"), style="bold"))
    split = explained.split
    if split is None:
        console.print("No parameter tells the runs after from those before.")
        return
    console.print(indented(split.sentence))
    if split.equally_good:
        named = ", ".join(split.equally_good[:MOST_ALIKE])
        more = len(split.equally_good) - MOST_ALIKE
        said = f"These tell as much: {named}{f' and {more} more' if more > 0 else ''}. "
        said += f"--without {split.parameter} asks for the next."
        console.print(Text(printable(said)))
