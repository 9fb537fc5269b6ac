"""Run the commands that docs/tour.md and the README show, and print them with what they say."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest.mock import patch

from iqcar.apps.cli.main import main as iqcar

REPO = Path(__file__).resolve().parent.parent
PAGE = REPO / "docs" / "tour.md"
BLOCK = re.compile(
    r"(?P<head><!-- run(?: from (?P<start>.+?))?(?:, (?P<shown>\d+) lines)? -->\n\n"
    r"    \$ (?P<command>iqcar .*)\n)"
    r"(?:    .*\n|\n(?=    ))*"
)
"""A command and, after it, its output: from a line on, or a number of lines, where not all."""


def said(command: str) -> list[str]:
    """Run a command here and now; return the lines that it prints on either stream."""
    out = io.StringIO()
    typed = patch.object(sys, "argv", shlex.split(command))
    with typed, redirect_stdout(out), redirect_stderr(out), suppress(SystemExit):
        iqcar()
    text = out.getvalue().replace(Path.cwd().as_uri(), "file:///home/ann")
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def with_output(page: str) -> str:
    """Print a page again, with the output of all its commands, run one after another."""

    def again(block: re.Match[str]) -> str:
        lines = said(block["command"])
        if block["start"]:
            lines = ["…", *lines[lines.index(block["start"]) :]]
        if block["shown"] and len(lines) > int(block["shown"]):
            lines = [*lines[: int(block["shown"])], "…"]
        return block["head"] + "".join(f"    {line}".rstrip() + "\n" for line in lines)

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(REPO / "examples", Path(folder, "examples"))
        with chdir(folder):
            return BLOCK.sub(again, page)


if __name__ == "__main__":
    PAGE.write_text(with_output(PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"Wrote {PAGE.relative_to(REPO)}\n")
