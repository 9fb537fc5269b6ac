"""Compare the durations of the demo's runs, as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from iqcar.apps.demo.what_if_check import Foretold, WhatIfCheck
from iqcar.base.formatting import duration, printable
from iqcar.say.what_if_sentences import check_sentence
from iqcar.show.terminal.layout import plain_table, terminal
from iqcar.show.terminal.rules_check import print_check

if TYPE_CHECKING:
    from iqcar.apps.demo.record_and_compare import Story


def print_story(story: Story, console: Console | None = None) -> None:
    """Print what the rules changed, the gain of the most-hurt query, and one what-if, measured."""
    console = console or terminal()
    console.print()
    console.print("What the rules changed", style="bold")
    print_check(story.check, console)
    most = story.most_hurt
    if most and not story.disturbed:
        gain = story.before.duration_s[most] / max(story.after.duration_s[most], 1e-3)
        how = f"took {gain:.1f} times as long without the rules" if gain > 1 else "gained nothing"
        console.print(f"{most}, which lost most to other queries, {how}.")
    _print_what_if(story.what_if, console)


def _print_what_if(check: WhatIfCheck, console: Console) -> None:
    """Print one row per query: recorded, predicted, and measured in the pools of the rules."""
    console.print()
    console.print("What if each query had run in the pool of its rule", style="bold")
    console.print(Text(printable(f"{check_sentence(check.self_check)}.")))
    table = plain_table("query", ">recorded", ">predicted", "(80 %)", ">measured", "")
    for query in check.queries:
        table.add_row(
            query.name,
            duration(1e3 * query.recorded_s),
            *_predicted(query),
            duration(1e3 * query.measured_s),
            {True: "in the range", False: "not in the range", None: ""}[query.holds],
        )
    console.print(table)
    console.print(
        "Predicted from the first run before the second, with devices that tasks share; a range is "
        "for that run, and another run has luck of its own."
    )


def _predicted(query: Foretold) -> tuple[str, str]:
    if query.predicted_s is None or query.low_s is None or query.high_s is None:
        return "refused", ""
    low, high = duration(1e3 * query.low_s), duration(1e3 * query.high_s)
    return duration(1e3 * query.predicted_s), f"({low} … {high})"


def story_json(story: Story) -> bytes:
    """Return the runs as JSON: seconds by query, their sum, and the checks of rules and what-if."""
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
        "logs": {
            "before": str(before.log),
            "after": str(after.log),
        },
        "rules": str(story.rules),
        "check": story.check.to_dict(),
        "what_if": story.what_if.to_dict(),
    }
    return json.dumps(content, indent=1).encode()
