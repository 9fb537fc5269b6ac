"""Colours of everything that pictures show: one per resource, kind of blame, query and topic.

They follow Okabe and Ito's and Tol's palettes, which people with any common colour blindness can
tell apart; a test simulates three of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pandas as pd

from iqcar.enums import BlameKind, Resource
from iqcar.tables import texts

RESOURCE_COLOURS: dict[Resource, str] = {
    Resource.SLOTS: "#0072B2",
    Resource.EXECUTORS: "#7C4DDB",
    Resource.CPU: "#D55E00",
    Resource.MEMORY: "#CC79A7",
    Resource.NETWORK: "#009E73",
    Resource.IO: "#E69F00",
}
"""Okabe and Ito's, but for yellow and sky blue, which are too pale on white, and a violet."""

BLAME_COLOURS: dict[BlameKind, str] = {
    BlameKind.QUERY: "#B5345A",
    BlameKind.OWN: "#56B4E9",
    BlameKind.KNOWN: "#8F7A3A",
    BlameKind.UNATTRIBUTED: "#A3A8AE",
    BlameKind.REST: "#737980",
}
"""Other queries stand out; what nobody can be blamed for is grey."""

COMPUTING = "#7FA8C9"
"""Time in which a task was computing or waited for nothing worth telling."""
OTHERS = "#8A9099"
"""Everything folded into one row or part."""
MISSING = "#9AA0A6"
"""Hatching of what nobody recorded."""

PHASE_COLOURS = {
    "read": "#E69F00",
    "compute": COMPUTING,
    "fetch": "#009E73",
    "write": "#8C5A00",
    "spill": "#CC79A7",
    "wait": "#D55E00",
}
"""Phases of tasks, like the resources that dominate in them; writing is darker than reading."""

BEFORE, AFTER = "#6F7BB8", "#D07A1E"
"""The sides of a comparison."""
SLOWER, FASTER = "#C8443A", "#2A86C8"
"""What a change adds, and what it takes away."""
ADDED, GONE = "#35A873", "#858B92"
"""Stages and queries on one side only."""

_HUES = (
    "#CC6677", "#3D7CC9", "#B8A13A", "#2E8B57", "#AA4499", "#44AA99", "#E07B39", "#6A5ACD",
    "#88A943", "#C8322B", "#0E7C8C", "#8F4F3F",
)  # fmt: skip
"""Tol's muted palette and its neighbours, light enough for a dark page, dark enough for a white
one; hues far apart follow one another."""
_TINTS = (0.0, 0.38, -0.32)
"""When all hues are taken they come again lighter, then darker: parts of white, or of black."""


def mix(colour: str, part: float) -> str:
    """Mix a colour with a part of white, or of black where the part is negative."""
    towards = 255 if part > 0 else 0
    share = abs(part)
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (towards - c) * share):02x}" for c in channels)


def rgba(colour: str, alpha: float) -> str:
    """Write a colour with an opacity, as CSS has it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def stable_colours(keys: Sequence[str]) -> list[str]:
    """One colour per key: equal keys share one, and a key keeps its own in other inputs.

    The key's hash says where in the palette to look first; a key that finds its place taken gets
    the next free one, until all are taken.
    """
    places = [mix(hue, tint) for tint in _TINTS for hue in _HUES]
    taken: dict[int, str] = {}
    chosen: dict[str, str] = {}
    for key in keys:
        if key in chosen:
            continue
        at = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big")
        first = at % len(_HUES)
        # Pure hues first: two queries side by side should not differ by their lightness alone.
        order = [
            tint * len(_HUES) + (first + step) % len(_HUES)
            for tint in range(len(_TINTS))
            for step in range(len(_HUES))
        ]
        free = next((place for place in order if place not in taken), order[0])
        taken[free] = key
        chosen[key] = places[free]
    return [chosen[key] for key in keys]


def cause_colour(kind: BlameKind, resource: Resource | None = None) -> str:
    """Colour of a cause that is no query; known causes differ in tint by what was waited for."""
    tint = 0.3 if kind is BlameKind.KNOWN and resource is Resource.CPU else 0.0
    return mix(BLAME_COLOURS[kind], tint) if tint else BLAME_COLOURS[kind]


def query_colours(queries: pd.DataFrame) -> list[str]:
    """Colour of each query by row: runs of the same recurring query share one."""
    pairs = zip(texts(queries, "fingerprint"), texts(queries, "query_id"), strict=True)
    return stable_colours([fingerprint or query_id for fingerprint, query_id in pairs])
