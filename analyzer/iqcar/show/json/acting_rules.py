"""Rules that acted in the recorded run, as JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

from iqcar.say.rules_acting import acting_rules, not_accepted
from iqcar.tables import Tables


def acting_rules_to_dict(tables: Tables) -> dict[str, Any]:
    """Lay out which rules acted when, and which files of rules were not accepted."""
    ids = tables.applications["application_id"].tolist()
    return {
        "acted": [
            {
                "application_id": ids[one.app],
                "rule": one.rule,
                "kind": one.kind,
                "name": one.name,
                "value": one.value,
                "from_ms": one.from_ms,
                "until_ms": one.until_ms if isfinite(one.until_ms) else None,
            }
            for one in acting_rules(tables)
        ],
        "not_accepted": [
            {"application_id": ids[app], "time_ms": time, "sentence": sentence}
            for app, time, sentence in not_accepted(tables)
        ],
    }
