"""The timeline: queries, stages and tasks over time, drawn on a canvas that can be moved through.

A page of its own, a notebook and the report show the same program with the same data.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from iqcar.base.files.json_text import shown
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.errors import UsageError
from iqcar.show.pictures.theme import FONT, FONT_SIZE, theme
from iqcar.show.pictures.timeline_payload import timeline_payload
from iqcar.tables import Tables, texts

COLOURS = ("query", "wait", "phase")
HEIGHT_PX = 760
"""Height in a notebook: a laptop's screen; what is beyond scrolls, and a corner resizes it."""

_FOLDER = Path(__file__).parent / "scripts"
_PARTS = (
    "timeline_data.js",
    "timeline_top.js",
    "timeline_lanes.js",
    "timeline_parts.js",
    "timeline.js",
)
_START = """
const place = document.getElementById('timeline');
const { payload, ...chosen } = JSON.parse(document.getElementById('data').textContent);
const onSelect = (id) => place.dispatchEvent(new CustomEvent('chosen', { detail: id }));
window.timeline = iqcarTimeline(place, payload, { ...chosen, onSelect });
"""


@cache
def timeline_program() -> str:
    """The program: defines ``words`` and ``iqcarTimeline(element, payload, options)``."""
    words, *parts = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("words.js", *_PARTS))
    body = "\n".join(parts)
    return f"{words}\nconst iqcarTimeline = (() => {{\n{body}\nreturn iqcarTimeline;\n}})();\n"


@cache
def timeline_style() -> str:
    """The style sheet of the timeline; its colours can be set by the page's variables."""
    return (_FOLDER / "timeline.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Timeline:
    """A timeline to be shown: the value of a notebook's cell, or a page of its own.

    payload: from :func:`iqcar.show.pictures.timeline_payload.timeline_payload`.
    selected: id of the query that is chosen first; none by default.
    mode: colours of tasks: ``query``, ``wait`` for what each waited for most, or ``phase`` for what
    it did when, where profiles were recorded.
    dark: whether it has the dark look.
    """

    payload: dict[str, Any]
    selected: str = ""
    mode: str = "query"
    dark: bool = False

    def to_json(self) -> str:
        """What is shown, as text: the payload, and what is chosen first."""
        return msgspec.json.encode(self._data()).decode()

    def _data(self) -> dict[str, Any]:
        return {"payload": self.payload, "selected": self.selected or None, "mode": self.mode}

    def to_html(self) -> str:
        """Write a page that holds everything it shows and asks the network for nothing.

        Names from logs are text in it, never markup or program.
        """
        program = f"'use strict';\n(() => {{\n{timeline_program()}{_START}}})();"
        style = _colours(self.dark) + timeline_style()
        policy = (
            f"default-src 'none'; script-src {source_hash(program)}; "
            f"style-src {source_hash(style)}; require-trusted-types-for 'script'"
        )
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            f"<title>iqcar timeline</title><style>{style}</style></head>"
            '<body><main id="timeline" aria-label="Timeline"></main>'
            f'<script type="application/json" id="data">{json_for_html(self._data())}'
            f"</script><script>{program}</script></body></html>"
        )

    def write_html(self, file: str | Path) -> None:
        """Write :meth:`to_html` to a file."""
        Path(file).write_text(self.to_html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Show it in a notebook: in a frame, so that neither can change the other."""
        return framed("Timeline", self.to_html())

    def __repr__(self) -> str:
        """Say what to do where nothing can be shown."""
        return "<Timeline: shown by notebooks; write_html(file) writes a page>"


def framed(title: str, page: str) -> str:
    """Put a page into a frame of a notebook; it reaches neither the notebook nor the network."""
    style = f"width:100%;height:{HEIGHT_PX}px;border:0;resize:vertical"
    return (
        f'<iframe title="{title}" sandbox="allow-scripts" style="{style}" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


def timeline(
    graph: IQCGraph,
    tables: Tables,
    task_waits: pd.DataFrame,
    target: int | None = None,
    *,
    marked: Sequence[int] = (),
    dark: bool = False,
) -> Timeline:
    """Show queries over time, a target's stages and waits, and what every slot ran.

    A stage's hatched part is the time until its first task was launched. When in its life a task
    waited is known for slots alone; its other waits are spread evenly over its life. Where the
    graph holds only stages on the critical path, only those are shown.

    target: row of the query that is chosen first.
    marked: rows of other queries that are marked and never left out.
    """
    targets = marked if target is None else (target, *marked)
    payload = timeline_payload(tables, task_waits, graph, targets)
    chosen = "" if target is None else texts(tables.queries, "query_id")[target]
    return Timeline(payload, selected=chosen, dark=dark)


def lanes(
    tables: Tables,
    task_waits: pd.DataFrame,
    colour: str = "query",
    *,
    by_host: bool = False,
    dark: bool = False,
    graph: IQCGraph | None = None,
) -> Timeline:
    """Show what ran in every slot of each executor or host.

    colour: ``query``, ``wait`` for what each task waited for most, or ``phase`` for what it did
    when.
    by_host: one lane per host even where there are few executors.
    graph: what queries lost; unknown without it.
    Raises UsageError if ``colour`` is none of these, or phases are asked for and none were
    recorded.
    """
    if colour not in COLOURS:
        raise UsageError(
            f"tasks have no colour by {colour!r}", "lanes", "take query, wait or phase"
        )
    payload = timeline_payload(tables, task_waits, graph, by_host=by_host)
    if colour == "phase" and "phases" not in payload:
        raise UsageError("no profiles of tasks were recorded", "lanes", "take query or wait")
    return Timeline(payload, mode=colour, dark=dark)


def _colours(dark: bool) -> str:
    """Variables of the style sheet, from the look of all pictures."""
    look = theme(dark)
    wash, chosen = ("#191f25", "#1f3a54") if dark else ("#f5f7f9", "#dcebf7")
    return (
        f":root{{color-scheme:{'dark' if dark else 'light'};--ink:{look.ink};--faint:{look.faint};"
        f"--line:{look.line};--paper:{look.paper};--wash:{wash};--chosen:{chosen}}}"
        f"body{{margin:8px;font:{FONT_SIZE}px {FONT};background:var(--paper);color:var(--ink)}}"
    )


def json_for_html(data: Any) -> str:
    r"""Encode data for ``<script type="application/json">``.

    In such an element only ``</script`` and ``<!--`` mean anything; without ``<`` there is
    neither. Unseen characters, U+2028 and U+2029 among them, become blanks.

    >>> json_for_html({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    return shown(msgspec.json.encode(data)).replace("<", "\\u003c")


def source_hash(text: str) -> str:
    """Hash of an inline script or style as a Content Security Policy names it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
