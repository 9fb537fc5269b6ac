"""The summary of many applications as JSON, described by ``fleet_types``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import pandas as pd

from iqcar.base.files.json_text import json_bytes
from iqcar.base.limits import MOST_DOUBTS, MOST_INPUTS
from iqcar.diagnosis import Settings
from iqcar.enums import InputStatus
from iqcar.fleet.fleet_summary import MOST, FleetFound
from iqcar.show.json.described import METHOD, plain, schema_text
from iqcar.show.json.fleet_types import FleetSummary
from iqcar.tables import texts
from iqcar.version import __version__

SCHEMA_VERSION = "1"
"""Changes when a reader of the JSON would have to change."""
_LISTS = ("resources", "hosts", "applications", "queries", "sources", "pairs", "causes")


def fleet_schema() -> str:
    """Return the JSON Schema of what ``iqcar analyze --on-spark`` writes, as text."""
    return schema_text(
        FleetSummary,
        title="iqcar analyze --on-spark",
        identity="https://iqcar.org/fleet.schema.json",
    )


def fleet_to_json(found: FleetFound, settings: Settings) -> bytes:
    """Encode the summary; its size does not grow with the number of logs."""
    laid_out = fleet_to_dict(found, settings)
    return json_bytes(laid_out, indent=2) + b"\n"


def fleet_to_dict(found: FleetFound, settings: Settings) -> dict[str, Any]:
    """Lay the summary out as a JSON object; every list has at most some hundred rows."""
    inputs, summary = found.tables.inputs, found.summary
    status = texts(inputs, "status")
    bad = (inputs["status"] != InputStatus.COMPLETE).to_numpy(bool)
    sizes = [len(group) for group in found.groups]
    return {
        "schema_version": SCHEMA_VERSION,
        "iqcar_version": __version__,
        "settings": {
            "query_by": str(settings.query_by),
            **METHOD,
            "critical_path": settings.critical_path,
        },
        "inputs": {
            "found": len(inputs),
            "by_status": dict(Counter(status)),
            "not_complete": _records(inputs.loc[bad, ["path", "status", "message"]], MOST_INPUTS),
        },
        "groups": {
            "count": len(sizes),
            "alone": sizes.count(1),
            "largest": max(sizes, default=0),
            "diagnoses": found.bundles,
            "cut": [
                {name: plain(value) for name, value in asdict(cut).items()}
                for cut in found.cuts[:MOST]
            ],
        },
        "totals": None
        if summary is None
        else {
            name: value if name.endswith("_ms") else int(value)
            for name, value in summary.totals.items()
        },
        **{name: _records(getattr(summary, name, None), MOST) for name in _LISTS},
        "doubts": []
        if summary is None
        else [
            {"doubt": doubt, "diagnoses": count}
            for doubt, count in list(summary.doubts.items())[:MOST_DOUBTS]
        ],
    }


def _records(frame: pd.DataFrame | None, most: int) -> list[dict[str, Any]]:
    rows = [] if frame is None else frame.head(most).to_dict("records")
    return [{str(name): plain(value) for name, value in row.items()} for row in rows]
