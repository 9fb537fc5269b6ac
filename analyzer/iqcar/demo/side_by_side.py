"""Compare the durations of the demo's two runs, as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from iqcar.report.terminal.layout import terminal
from iqcar.report.terminal.rules_check import print_check

if TYPE_CHECKING:
    from rich.console import Console

    from iqcar.demo.record_and_compare import Story


def print_story(story: Story, console: Console | None = None) -> None:
    """Print measured and predicted effect of the rules, and the gain of the most-hurt query."""
    console = console or terminal()
    console.print()
    console.print("What the rules changed", style="bold")
    print_check(story.check, console)
    most = story.most_hurt
    if most and not story.disturbed:
        gain = story.before.duration_s[most] / max(story.after.duration_s[most], 1e-3)
        how = f"took {gain:.1f} times as long without the rules" if gain > 1 else "gained nothing"
        console.print(f"{most}, which lost most to other queries, {how}.")


def story_json(story: Story) -> bytes:
    """Return both runs as JSON: seconds by query, their sum, and the check of the rules."""
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
        "check": story.check.to_dict(),
    }
    return json.dumps(content, indent=1).encode()
