"""A new command is a module of its own, what it writes and says, and at most two lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from iqcar.apps.cli import options
from iqcar.apps.cli.main import app
from iqcar_lab.commands.main import app as laboratory
from scripts.printed_pages.page_parts import PRINTED
from tests.conftest import REPO

COMMANDS = get_command(app).commands
MOST_PLACES = 4
LEAST_LISTED = 3
"""Commands in one collection from which on it is a list of commands, if most in it are."""


def written_by_hand() -> Iterator[Path]:
    """Sources and pages, without tests, printed pages, and the list of changes."""
    sources = (REPO / room for room in ("analyzer", "scripts", "docs"))
    found = [path for room in sources for path in room.rglob("*") if path.suffix in (".py", ".md")]
    for path in [*found, *REPO.glob("*.md")]:
        if path.name != "CHANGELOG.md" and PRINTED.strip() not in path.read_text("utf-8"):
            yield path


def named_in_code(text: str) -> set[str]:
    """Commands in collections that are lists of commands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            each = node.keys
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            each = node.elts
        else:
            continue
        words = [one.value for one in each if isinstance(one, ast.Constant)]
        listed = {word for word in words if word in COMMANDS}
        if len(listed) >= LEAST_LISTED and 2 * len(listed) > len(each):
            found |= listed
    return found


def named_in_page(text: str) -> set[str]:
    """Commands with a row of a table, or a line in a block that lists commands."""
    rows = re.findall(r"^\| *`iqcar ([a-z]+)", text, re.MULTILINE)
    found = set(rows) & COMMANDS.keys()
    for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE):
        listed = set(re.findall(r"^    .*?\biqcar ([a-z]+)", block, re.MULTILINE)) & COMMANDS.keys()
        if len(listed) >= LEAST_LISTED:
            found |= listed
    return found


def places() -> dict[str, set[str]]:
    """The files that name each command, its own module among them."""
    found: dict[str, set[str]] = {name: set() for name in COMMANDS}
    for path in written_by_hand():
        text = path.read_text("utf-8")
        for name in named_in_code(text) if path.suffix == ".py" else named_in_page(text):
            found[name].add(str(path.relative_to(REPO)))
    for name, files in found.items():
        files.add(f"analyzer/iqcar/apps/cli/{name}.py")
    return found


PLACES = places()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_named_in_few_files(command: str) -> None:
    assert len(PLACES[command]) <= MOST_PLACES, PLACES[command]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_a_module_of_its_own(command: str) -> None:
    assert (REPO / f"analyzer/iqcar/apps/cli/{command}.py").is_file()


def test_every_option_says_what_it_is_for() -> None:
    every = [*COMMANDS.values(), *get_command(laboratory).commands.values()]
    parts = [part for one in every for part in getattr(one, "commands", {"": one}).values()]
    silent = [f"{part.name} {one.name}" for part in parts for one in part.params if not one.help]
    assert not silent


def test_how_an_option_is_written_stands_after_its_name() -> None:
    def sampled(path: str, *, most: int = 3, for_: str = "", dry_run: bool = False) -> None:
        """Sample.

        Parameters
        ----------
        path : PATH
            Where.
        most : --top 1..9
            How many,
            at most.
        for_ : TIME $FOR
            How long.
        dry_run
            Only tell.
        """

    made = {one.name: one.annotation.__metadata__[0]
            for each in options.options_of(sampled).values() for one in each.options}  # fmt: skip
    assert (made["path"].metavar, made["path"].help) == ("PATH", "Where.")
    assert made["most"].default == "--top"
    assert (made["most"].min, made["most"].max) == (1, 9)
    assert made["most"].help == "How many, at most."
    assert (made["for_"].default, made["for_"].envvar) == ("--for", "FOR")
    assert made["dry_run"].default == "--dry-run"
    assert options.split_doc(sampled.__doc__)[0] == "Sample."
