"""Draw the rooms of the package, and those of the plugin, in the order in which they may import.

Called by scripts/write_docs.py, which writes docs/rooms.svg and docs/listener_rooms.svg.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parent.parent
PACKAGE = REPO / "analyzer" / "iqcar"
PLUGIN = REPO / "listener/src/main/java/org/iqcar/spark"
COLUMNS = 4
BOX_W, BOX_H, GAP_X, GAP_Y = 224, 102, 18, 18
LINE_CHARS = 34
FOOT_CHARS = 52
MOST_LINES = 3


class Box(NamedTuple):
    """One room or module in a picture; `foot` names the rooms inside a room."""

    name: str
    sentence: str
    is_room: bool
    foot: str = ""


def first_sentence(text: str) -> str:
    """First sentence of a docstring, on one line."""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def docstring(module: Path) -> str:
    """A module's docstring."""
    return ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""


def javadoc(source: Path) -> str:
    """The Javadoc of a package, without the comment's signs."""
    comment = source.read_text(encoding="utf-8").split("*/")[0]
    return re.sub(r"^ ?(/\*)?\*? ?", "", comment, flags=re.MULTILINE).strip()


def home(name: str) -> Path:
    """The file that says what a name of the flow is."""
    package = PACKAGE / name / "__init__.py"
    return package if package.is_file() else PACKAGE / f"{name}.py"


def wrapped(text: str) -> list[str]:
    """A sentence in the lines of a box; what does not fit ends in an ellipsis."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > LINE_CHARS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines) > MOST_LINES:
        lines = lines[:MOST_LINES]
        lines[-1] = lines[-1][: LINE_CHARS - 1].rstrip(" ,;:") + "…"
    return lines


def draw_package(flow: str, inner: Mapping[str, str]) -> str:
    """The rooms of the Python package as SVG; `inner` names rooms inside rooms."""
    return draw(
        "The rooms of the package in the order of the flow",
        (
            Box(
                name,
                first_sentence(docstring(home(name))),
                (PACKAGE / name).is_dir(),
                inner.get(name, "").replace(" → ", " › "),
            )
            for name in flow.split(" → ")
        ),
    )


def draw_plugin(flow: str) -> str:
    """The rooms of the Spark plugin as SVG; the last name is the package that holds the others."""
    names = flow.split(" → ")
    files = [PLUGIN / name / "package-info.java" for name in names[:-1]]
    files.append(PLUGIN / "package-info.java")
    return draw(
        "The rooms of the plugin in the order of the flow",
        (
            Box(name, first_sentence(javadoc(file)), is_room=True)
            for name, file in zip(names, files, strict=True)
        ),
    )


def draw(label: str, boxes: Iterable[Box]) -> str:
    """Boxes in their order, row by row, as SVG."""
    boxes = list(boxes)
    rows = -(-len(boxes) // COLUMNS)
    width = COLUMNS * (BOX_W + GAP_X) + GAP_X
    height = rows * (BOX_H + GAP_Y) + GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" role="img" '
        f'aria-label="{escape(label)}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for at, box in enumerate(boxes):
        row, column = divmod(at, COLUMNS)
        x = GAP_X + column * (BOX_W + GAP_X)
        y = GAP_Y + row * (BOX_H + GAP_Y)
        fill = "#e8f1fb" if box.is_room else "#f4f4f4"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="6" fill="{fill}" '
            'stroke="#4a6fa5"/>'
        )
        parts.append(
            f'<text x="{x + 8}" y="{y + 19}" font-size="14" font-weight="bold" fill="#1b2a41">'
            f"{escape(box.name)}</text>"
        )
        foot = textwrap.wrap(box.foot, FOOT_CHARS)
        for row_of_text, line in enumerate(foot, 1 - len(foot)):
            parts.append(
                f'<text x="{x + 8}" y="{y + BOX_H - 7 + 10 * row_of_text}" font-size="7.5" '
                f'fill="#4a6fa5">{escape(line)}</text>'
            )
        for row_of_text, line in enumerate(wrapped(box.sentence)):
            parts.append(
                f'<text x="{x + 8}" y="{y + 38 + 14 * row_of_text}" font-size="11" '
                f'fill="#1b2a41">{escape(line)}</text>'
            )
        if column < COLUMNS - 1 and at < len(boxes) - 1:
            parts.append(
                f'<text x="{x + BOX_W + 2}" y="{y + BOX_H / 2 + 4}" font-size="13" '
                'fill="#4a6fa5">→</text>'
            )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
