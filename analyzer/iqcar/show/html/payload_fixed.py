"""Figures that the page shows as they are: hosts, mixtures of topics, stragglers in boxes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from iqcar.base import limits
from iqcar.base.formatting import duration, percent, short
from iqcar.diagnosis import Diagnosis
from iqcar.show.pictures import compare_stragglers, executors, hosts, mixtures
from iqcar.show.pictures.executors import shared_clusters
from iqcar.show.pictures.straggler_boxes import draw_boxes

DIGITS = 5
"""Significant digits of a number in a picture: a screen has some thousand pixels."""
LARGE = 1e9
"""Numbers from here on are times since the epoch and keep all digits before the point."""
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def fixed_figures(diagnosis: Diagnosis) -> dict[str, Any]:
    """Draw what needs no redrawing, in both looks.

    Returns
    -------
    dict
        hosts, executors (None where no two applications share a cluster), and mixtures (None
        without topics): a figure per look; boxes: one entry per stage
        with stragglers, the most delayed first, with one figure for both looks and the rows of a
        table that says the same.
    """
    topics = diagnosis.topics
    return {
        "hosts": _both(lambda dark: hosts(diagnosis.tables, dark=dark)),
        "executors": (
            _both(lambda dark: executors(diagnosis.tables, diagnosis.waits, dark=dark))
            if shared_clusters(diagnosis.tables)
            else None
        ),
        "mixtures": (
            _both(lambda dark: mixtures(topics, _mixtures_by(topics), dark=dark))
            if topics is not None and len(topics.topics)
            else None
        ),
        "boxes": _boxes(diagnosis),
    }


def _mixtures_by(topics: Any) -> str:
    return "query" if (topics.jobs["query"] >= 0).any() else "stage"


def _boxes(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    found = diagnosis.stragglers
    rows = found.stragglers
    if not len(rows):
        return []
    delay = rows.groupby("stage")["delay_ms"].sum().sort_values(ascending=False, kind="stable")
    features = diagnosis.features
    boxes = []
    for stage in [int(row) for row in delay.index[: limits.MOST_BOXES]]:
        slow = rows["task"].to_numpy(np.int64)[(rows["stage"] == stage).to_numpy(bool)]
        compared = compare_stragglers(features, slow, stage)
        if not compared:
            continue
        boxes.append(
            {
                "stage": short(found.labels.stage(stage), limits.NAME_CHARACTERS),
                "stragglers": len(slow),
                "figure": _page_json(draw_boxes(compared, found.labels.stage(stage), len(slow))),
                "rows": [
                    {
                        "feature": one.phrase,
                        "slow": _written(float(np.median(one.slow)), one.unit),
                        "normal": _written(float(np.median(one.normal)), one.unit),
                        "p": float(f"{one.p:.3g}"),
                        "mqd": float(f"{one.difference:.3g}"),
                    }
                    for one in compared
                ],
            }
        )
    return boxes


def _written(value: float, unit: str) -> str:
    if unit == "ms":
        return duration(value)
    if unit == "share":
        return percent(value)
    if unit.startswith("bytes"):
        by, name = next((step for step in _BYTES if abs(value) >= step[0]), (1.0, "bytes"))
        return f"{value / by:.3g} {name}{unit.removeprefix('bytes')}"
    return f"{value:,.3g}" if abs(value) < 1e3 else f"{value:,.0f}"


def _both(draw: Callable[[bool], Any]) -> dict[str, Any]:
    return {"light": _page_json(draw(False)), "dark": _page_json(draw(True))}


def _page_json(figure: Any) -> dict[str, Any]:
    """Traces and layout as JSON has them; the page knows the template already."""
    figure.layout.template = None
    # Plotly's own encoder knows numpy and what is not a number.
    whole = json.loads(figure.to_json(engine="json"))
    shortened: dict[str, Any] = _shortened({"data": whole["data"], "layout": whole["layout"]})
    shortened["layout"].pop("template", None)
    return shortened


def _shortened(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return round(value) if abs(value) >= LARGE else float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return [_shortened(one) for one in value] if isinstance(value, list) else value
