"""``iqcar rules``: the group of commands on rules files; each has a module of its own."""

from __future__ import annotations

import typer

from iqcar.apps.cli.rules_check import check
from iqcar.apps.cli.rules_compile import compile_

app = typer.Typer(
    no_args_is_help=True, help="Compile the scheduler rules of a file, or check their effect."
)
app.command("compile")(compile_)
app.command("check")(check)
