"""Draw the rooms of the package, and those of the plugin, in the order in which they may import.

Called by scripts/write_docs.py, which writes docs/rooms.svg and docs/listener_rooms.svg.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parent.parent
PACKAGE = REPO / "analyzer" / "iqcar"
PLUGIN = REPO / "listener/src/main/java/org/iqcar/spark"
COLUMNS = 4
BOX_W, BOX_H, GAP_X, GAP_Y = 224, 102, 18, 18
TITLE_H = 26
LINE_CHARS = 34
FOOT_CHARS = 52
MOST_LINES = 3


class Box(NamedTuple):
    """One room or module in a picture; `foot` names the rooms inside a room."""

    name: str
    sentence: str
    is_room: bool
    foot: str = ""


class Band(NamedTuple):
    """Boxes in their order under one title."""

    title: str
    boxes: tuple[Box, ...]


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


def draw_package(ground: Iterable[str], flow: str, inner: Mapping[str, str]) -> str:
    """The rooms of the Python package as SVG; `inner` names rooms inside rooms."""
    bands = {
        "Everybody may import these; each imports only from its left": ground,
        "The flow: a room imports only from its left and from the rows above": flow.split(" → "),
    }
    return draw(
        "The rooms of the package in the order of the flow",
        [Band(title, tuple(package_box(name, inner) for name in names))
         for title, names in bands.items()],
    )  # fmt: skip


def package_box(name: str, inner: Mapping[str, str]) -> Box:
    """The box of a room or module of the Python package."""
    sentence = first_sentence(docstring(home(name)))
    foot = inner.get(name, "").replace(" → ", " › ")
    return Box(name, sentence, (PACKAGE / name).is_dir(), foot)


def draw_plugin(flow: str) -> str:
    """The rooms of the Spark plugin as SVG; the last name is the package that holds the others."""
    names = flow.split(" → ")
    files = [PLUGIN / name.replace(".", "/") / "package-info.java" for name in names[:-1]]
    files.append(PLUGIN / "package-info.java")
    boxes = (
        Box(name, first_sentence(javadoc(file)), is_room=True)
        for name, file in zip(names, files, strict=True)
    )
    return draw("The rooms of the plugin in the order of the flow", [Band("", tuple(boxes))])


def draw(label: str, bands: Sequence[Band]) -> str:
    """Bands of boxes, each in its order, row by row, as SVG."""
    width = COLUMNS * (BOX_W + GAP_X) + GAP_X
    parts = []
    top = GAP_Y
    for band in bands:
        if band.title:
            parts.append(_text(GAP_X, top + 12, 12, escape(band.title), 'fill="#4a6fa5"'))
            top += TITLE_H
        for at, box in enumerate(band.boxes):
            row, column = divmod(at, COLUMNS)
            x, y = GAP_X + column * (BOX_W + GAP_X), top + row * (BOX_H + GAP_Y)
            parts += _drawn(box, x, y)
            if column < COLUMNS - 1 and at < len(band.boxes) - 1:
                parts.append(_text(x + BOX_W + 2, y + BOX_H / 2 + 4, 13, "→", 'fill="#4a6fa5"'))
        top += -(-len(band.boxes) // COLUMNS) * (BOX_H + GAP_Y)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" '
        f'width="{width}" height="{top}" font-family="sans-serif" role="img" '
        f'aria-label="{escape(label)}">',
        f'<rect width="{width}" height="{top}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _drawn(box: Box, x: int, y: int) -> list[str]:
    """One box with its name, its sentence and the rooms inside."""
    fill = "#e8f1fb" if box.is_room else "#f4f4f4"
    parts = [
        f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="6" fill="{fill}" '
        'stroke="#4a6fa5"/>',
        _text(x + 8, y + 19, 14, escape(box.name), 'font-weight="bold" fill="#1b2a41"'),
    ]
    foot = textwrap.wrap(box.foot, FOOT_CHARS)
    for row, line in enumerate(foot, 1 - len(foot)):
        parts.append(_text(x + 8, y + BOX_H - 7 + 10 * row, 7.5, escape(line), 'fill="#4a6fa5"'))
    for row, line in enumerate(wrapped(box.sentence)):
        parts.append(_text(x + 8, y + 38 + 14 * row, 11, escape(line), 'fill="#1b2a41"'))
    return parts


def _text(x: float, y: float, size: float, text: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" {style}>{text}</text>'
