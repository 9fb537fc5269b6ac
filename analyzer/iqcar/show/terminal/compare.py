"""Two sets of runs as text on a terminal: what ``iqcar compare`` prints."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iqcar.base.limits import MOST_CAUSES
from iqcar.base.units import duration, percent, printable, short, signed
from iqcar.comparison.comparison import Comparison, relative
from iqcar.comparison.comparison_sentences import (
    MOST_NAMED,
    counted,
    differences_sentence,
    totals_sentence,
)
from iqcar.comparison.stats.shrunken_t import MOST_RUNS_NEEDED
from iqcar.enums import Verdict
from iqcar.show.terminal.layout import (
    indented,
    plain_table,
    print_doubts,
    print_section,
    terminal,
)

MOST_STAGES = 3
"""Stages shown of each query that changed."""
LABEL_WIDTH = 40
"""Characters of a stage's label in the table."""


def print_comparison(comparison: Comparison, top: int, console: Console | None = None) -> None:
    """Print totals, what differs, the largest changes, the rest, and doubts."""
    console = console or terminal()
    console.print(Text(printable(totals_sentence(comparison))))
    console.print(Text(printable(f"Different: {differences_sentence(comparison)}")))
    if comparison.changes.empty:
        console.print(Text("Nothing changed.", style="bold"))
    else:
        print_section(console, "What changed", _changes(comparison, top))
        hidden = int(comparison.changes["rank"].max()) - top
        if hidden > 0:
            console.print(indented(f"and {hidden} more (--top)"))
    console.print()
    for line in _rest(comparison):
        console.print(Text(printable(line)))
    print_doubts((f"{doubt}." for doubt in comparison.doubts), console)


def _changes(comparison: Comparison, top: int) -> Table:
    table = plain_table("", "", ">before", ">after", ">change a run", "runs", "why")
    changes, causes = comparison.changes, comparison.causes
    sentences: dict[int, list[str]] = {}
    for change, sentence in zip(causes["change"].tolist(), causes["sentence"], strict=True):
        sentences.setdefault(change, []).append(sentence)
    shown: dict[int, int] = {}
    for number, row in enumerate(changes.to_dict("records")):
        if row["rank"] > top:
            break
        is_stage = row["parent"] >= 0
        shown[row["rank"]] = shown.get(row["rank"], -1) + 1
        if is_stage and shown[row["rank"]] > MOST_STAGES:
            continue
        instances = comparison.effects["instances"].iloc[row["category"]]
        times = f" ×{instances:g}" if instances > 1 and not is_stage else ""
        name = comparison.name(row["category"])
        why = ", ".join([f"{row['kind']}:", *sentences.get(number, [])[:MOST_CAUSES]])
        table.add_row(
            "" if is_stage else f"{row['rank']}.",
            f"  {short(name, LABEL_WIDTH)}" if is_stage else f"{short(name, LABEL_WIDTH)}{times}",
            duration(row["before_ms"]),
            duration(row["after_ms"]),
            _interval(row["contribution_ms"], row["low_ms"], row["high_ms"]),
            f"{row['runs_before']}/{row['runs_after']}",
            Text(printable(why.replace(":,", ":").rstrip(":"))),
        )
    return table


def _interval(ms: float, low: float, high: float) -> str:
    if not np.isfinite(low) or not np.isfinite(high):
        return signed(ms)
    return f"{signed(ms)} [{signed(low)}, {signed(high)}]"


def _rest(comparison: Comparison) -> list[str]:
    lines = []
    same = comparison.verdict_of(Verdict.SAME)
    if same:
        margin = percent(comparison.margin)
        lines.append(f"Unchanged within ±{margin}: {counted(len(same), 'query', 'queries')}.")
    unclear = comparison.verdict_of(Verdict.CANNOT_TELL)
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
