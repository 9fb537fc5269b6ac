"""Rules that acted in the recorded run, in the report of ``iqcar analyze``."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from iqcar.base import limits
from iqcar.base.formatting import printable
from iqcar.say.rules_acting import acting_rules, not_accepted, since_start
from iqcar.show.terminal.layout import plain_table
from iqcar.tables import Tables


def acting_rules_section(tables: Tables) -> RenderableType | None:
    """Show what each rule did from when to when; nothing where the plugin had no rules file."""
    acting, refused = acting_rules(tables), not_accepted(tables)
    if not acting and not refused:
        return None
    table = plain_table("rule", ">from", ">until", "what it did")
    for one in acting[: limits.MOST_ACTED]:
        table.add_row(
            printable(one.rule),
            since_start(tables, one.app, one.from_ms),
            since_start(tables, one.app, one.until_ms),
            one.sentence,
        )
    lines: list[RenderableType] = [table] if acting else []
    if left := len(acting) - limits.MOST_ACTED:
        lines += [Text(f"{left:,} more in the result of --json.")] if left > 0 else []
    lines += [
        Text(f"{since_start(tables, app, time)}: {sentence}")
        for app, time, sentence in refused[: limits.MOST_ACTED]
    ]
    return Group(*lines)
