"""What the demo's two runs took, side by side: as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from iqcar.report.text import terminal
from iqcar.report.words import duration

if TYPE_CHECKING:
    from rich.console import Console

    from iqcar.demo.story import Story


def print_story(story: Story, console: Console | None = None) -> None:
    """Print each query's duration without and with the rules, and the sum."""
    console = console or terminal()
    before, after = story.before.duration_s, story.after.duration_s
    console.print()
    console.print("What the rules changed", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("query")
    for name in ("without rules", "with rules", "change"):
        table.add_column(name, justify="right")
    for name in before:
        table.add_row(name, *_pair(before[name], after[name]))
    table.add_row("all queries", *_pair(story.before.total_s, story.after.total_s))
    console.print(Padding(table, (0, 0, 0, 3)))
    most = story.most_hurt
    if most:
        gain = before[most] / max(after[most], 1e-3)
        console.print(
            f"{most} lost most to other queries; with the rules it was "
            f"{f'{gain:.1f} times as fast' if gain >= 1 else 'no faster'}."
        )


def _pair(before_s: float, after_s: float) -> tuple[str, str, str]:
    change = after_s / max(before_s, 1e-3) - 1
    return duration(before_s * 1e3), duration(after_s * 1e3), f"{change:+.0%}"


def story_json(story: Story) -> bytes:
    """Both runs as JSON: seconds by query, and their sum."""
    before, after = story.before, story.after
    content = {
        "spark": before.spark,
        "slots": before.slots,
        "most_hurt": story.most_hurt,
        "queries": [
            {"name": name, "before_s": before.duration_s[name], "after_s": after.duration_s[name]}
            for name in before.duration_s
        ],
        "total": {"before_s": before.total_s, "after_s": after.total_s},
        "logs": {"before": str(before.log), "after": str(after.log)},
        "rules": str(story.rules),
    }
    return json.dumps(content, indent=1).encode()
