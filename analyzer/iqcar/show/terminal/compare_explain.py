"""The tree that explains one change, as text on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from iqcar.base.units import duration, printable
from iqcar.show.terminal.layout import indented, terminal

if TYPE_CHECKING:
    from iqcar.comparison.comparison import Comparison
    from iqcar.comparison.explore import Explanation

MOST_ALIKE = 6
"""Parameters named that tell as much as the one asked for; the rest is counted."""


def print_explanation(
    comparison: Comparison, explained: Explanation, console: Console | None = None
) -> None:
    """Print what tells the runs after from those before, and what else would."""
    console = console or terminal()
    tree = explained.tree
    root = int(comparison.categories["query_category"].iloc[explained.category])
    name = comparison.name(explained.category)
    of = "" if root == explained.category else f" of {comparison.name(root)}"
    effect = comparison.effects.iloc[explained.category]
    times = f"{duration(effect['before_ms'])} → {duration(effect['after_ms'])}"
    console.print(Text(printable(f"{name}{of}: {times}"), style="bold"))
    paths = tree.explanations()
    if not paths:
        console.print("No parameter tells the runs after from those before.")
    for number, path in enumerate(paths, 1):
        console.print(indented(f"{number}. {'; and '.join(path)}"))
    if tree.equally_good:
        named = ", ".join(tree.equally_good[:MOST_ALIKE])
        more = len(tree.equally_good) - MOST_ALIKE
        console.print(
            Text(
                printable(
                    f"These tell as much: {named}{f' and {more} more' if more > 0 else ''}. "
                    f"--without {tree.parameter} asks for the next."
                )
            )
        )
