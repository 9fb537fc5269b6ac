"""``iqcar rules``: what to do with a rules file; each command has a module of its own."""

from __future__ import annotations

import typer

from iqcar.cli.rules_check import check
from iqcar.cli.rules_compile import compile_

app = typer.Typer(no_args_is_help=True, help="Do something with the scheduler rules of a file.")
app.command("compile")(compile_)
app.command("check")(check)
