"""Help of commands that have many options: in groups, the ones that most need first."""

from __future__ import annotations

from typing import Any

import typer.core

from iqcar.apps.cli.options import GROUPS

MANY = 9
"""Options from which they are shown in groups: as many can be looked through at once."""


class Grouped(typer.core.TyperCommand):
    """A command whose help shows its options under the titles of ``GROUPS``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, the untitled ones first."""
        groups: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is None:
                continue
            titled = getattr(one, "rich_help_panel", None) if len(self.params) >= MANY else None
            kind = "Arguments" if one.param_type_name == "argument" else titled or "Options"
            groups.setdefault(kind, []).append(record)
        for title in ("Arguments", "Options", *GROUPS):
            if groups.get(title):
                with formatter.section(title):
                    formatter.write_dl(groups[title])
