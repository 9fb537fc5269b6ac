"""The page of commands: arguments, options and exit codes."""

from __future__ import annotations

from typing import Any

from iqcar.errors import DEBUG, ExitCode
from scripts.printed_pages.page_parts import PRINTED, Item, listed, once

EXIT_CODES = {
    ExitCode.OK: "everything was analysed",
    ExitCode.NOTHING: "nothing could be analysed",
    ExitCode.USAGE: "the command line was wrong",
    ExitCode.PARTIAL: "analysed, but some input failed or was truncated",
    ExitCode.GATE: "`iqcar compare`: a query got slower than `--fail-on` allows",
}
BUGS = f"""\
One log that cannot be read never stops the others: its status says why, and the exit code is 3. A
bug of iqcar ends in one line, too. `iqcar --debug COMMAND`, or `{DEBUG}=1` in the environment,
prints its traceback, also that of a process which reads logs or analyses them for `iqcar serve`."""
FILES = """
A file that a command writes is made new beside its target and then takes the target's name, so it
is whole or not there. `--force` replaces what stands there: of a link the link, never the file that
it leads to. Written into are `/dev/stdout` and other open descriptors (`/dev/fd/3`, `>(program)`),
`/dev/null`, terminals by `/dev/tty`, and named pipes of your own; they need no `--force`. The log
of `iqcar-lab inject` is appended to, and refused where it is a link.
"""
"""How commands write files."""


def commands_page() -> str:
    """Every command of both packages with its arguments and options."""
    from typer.main import get_command

    from iqcar.apps.cli.main import app
    from iqcar_lab.commands.main import app as laboratory

    commands = {}
    for each in (app, laboratory):
        for name, command in get_command(each).commands.items():  # type: ignore[attr-defined]
            words = f"{each.info.name} {name}"
            parts = getattr(command, "commands", {})
            commands[words] = command
            commands |= {f"{words} {part}": of_group for part, of_group in parts.items()}
    options = {name: _options(command) for name, command in commands.items()}
    told = once(options.values())
    lines = ["# Commands", PRINTED.rstrip(), "", "Exit codes of every command:", ""]
    lines += [f"- {code.value}: {sentence}" for code, sentence in EXIT_CODES.items()]
    lines += ["", FILES.strip(), "", *BUGS.splitlines()]
    lines += ["", "## Options of several commands", "", "In brackets the default.", ""]
    lines += listed(told)
    for name, command in commands.items():
        lines += ["", f"## {name}", "", command.help or "", "", *listed(options[name], told)]
    return "\n".join(lines).rstrip() + "\n"


def _options(command: Any) -> list[Item]:
    """Arguments and options: how they are written, their defaults, and their help."""
    items = []
    for param in command.params:
        name = "`, `".join(o for o in param.opts if o.startswith("-"))
        if not name:
            name = param.metavar or param.name
            name = name if param.required or "[" in name else f"[{name}]"
        default = "" if param.default in (None, False) else str(param.default)
        items.append((name, default, getattr(param, "help", "") or ""))
    return items
