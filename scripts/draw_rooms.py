"""Draw the rooms of the package as one picture, in the order in which they may import.

Called by scripts/write_docs.py, which writes docs/rooms.svg.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from html import escape
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "analyzer" / "iqcar"
COLUMNS = 4
BOX_W, BOX_H, GAP_X, GAP_Y = 224, 92, 18, 18
LINE_CHARS = 34
MOST_LINES = 3


def first_sentence(path: Path) -> str:
    """First sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


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


def draw(flow: str, inner: Mapping[str, str]) -> str:
    """The rooms in the order of the flow, row by row, as SVG; `inner` names rooms inside rooms."""
    names = flow.split(" → ")
    rows = -(-len(names) // COLUMNS)
    width = COLUMNS * (BOX_W + GAP_X) + GAP_X
    height = rows * (BOX_H + GAP_Y) + GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" role="img" '
        'aria-label="The rooms of the package in the order of the flow">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for at, name in enumerate(names):
        row, column = divmod(at, COLUMNS)
        x = GAP_X + column * (BOX_W + GAP_X)
        y = GAP_Y + row * (BOX_H + GAP_Y)
        is_room = (PACKAGE / name).is_dir()
        fill = "#e8f1fb" if is_room else "#f4f4f4"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="6" fill="{fill}" '
            'stroke="#4a6fa5"/>'
        )
        parts.append(
            f'<text x="{x + 8}" y="{y + 19}" font-size="14" font-weight="bold" fill="#1b2a41">'
            f"{escape(name)}</text>"
        )
        if name in inner:
            parts.append(
                f'<text x="{x + 8}" y="{y + BOX_H - 7}" font-size="7.5" fill="#4a6fa5">'
                f"{escape(inner[name].replace(' → ', ' › '))}</text>"
            )
        for row_of_text, line in enumerate(wrapped(first_sentence(home(name)))):
            parts.append(
                f'<text x="{x + 8}" y="{y + 38 + 14 * row_of_text}" font-size="11" '
                f'fill="#1b2a41">{escape(line)}</text>'
            )
        if column < COLUMNS - 1 and at < len(names) - 1:
            parts.append(
                f'<text x="{x + BOX_W + 2}" y="{y + BOX_H / 2 + 4}" font-size="13" '
                'fill="#4a6fa5">→</text>'
            )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
