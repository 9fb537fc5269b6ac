"""Two sets of runs as JSON: versioned, described by ``compare_types``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.base.files.json_text import json_bytes
from iqcar.base.units import printable
from iqcar.comparison.comparison_sentences import changes_headline
from iqcar.comparison.explore import Explanation
from iqcar.comparison.gate import Gate
from iqcar.comparison.sides.side import SideFacts
from iqcar.enums import ChangeVerdict
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.show.json.compare_types import ComparisonResult
from iqcar.show.json.described import schema_text
from iqcar.show.json.plain import plain
from iqcar.tables import texts
from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.comparison.comparison import Comparison
    from iqcar.comparison.sides.side import Side

SCHEMA_VERSION = "1"
"""Changes when a reader of the JSON would have to change."""


def compare_schema() -> str:
    """Return the JSON Schema of what ``iqcar compare`` writes, as text."""
    return schema_text(
        ComparisonResult, title="iqcar compare", identity="https://iqcar.org/compare.schema.json"
    )


def compare_to_json(
    comparison: Comparison,
    gate: Gate | None = None,
    explained: Explanation | None = None,
    printed: pd.DataFrame | None = None,
) -> bytes:
    """Encode a comparison; numbers nobody knows become null.

    Parameters
    ----------
    comparison : Comparison
    gate : Gate, optional
        What :meth:`Comparison.gate` said.
    explained : Explanation, optional
        What :meth:`Comparison.explain` said.
    printed : DataFrame of PRINTED_FINDINGS, optional
    """
    fields = {
        **compare_to_dict(comparison, gate),
        "explanation": None if explained is None else _explanation(comparison, explained),
        "printed": None if printed is None else _printed(comparison, printed),
    }
    return json_bytes(fields, indent=1) + b"\n"


def compare_to_dict(comparison: Comparison, gate: Gate | None = None) -> dict[str, Any]:
    """Lay a comparison out as the JSON object."""
    different = comparison.different
    before, after = comparison.total_ms
    return {
        "schema_version": SCHEMA_VERSION,
        "iqcar_version": __version__,
        "before": _side(comparison.before),
        "after": _side(comparison.after),
        "margin": comparison.margin,
        "alpha": comparison.alpha,
        "total_ms": {"before": before, "after": after},
        "headline": printable(changes_headline(comparison)),
        "different": {
            "conf": [
                {"key": one.key, "before": list(one.before), "after": list(one.after)}
                for one in different.settings
            ],
            "hosts": {"before": list(different.hosts[0]), "after": list(different.hosts[1])},
            "spark_version": None
            if different.versions is None
            else {"before": list(different.versions[0]), "after": list(different.versions[1])},
        },
        "changes": _changes(comparison),
        "same": [
            _query_effect(comparison, row) for row in comparison.verdict_of(ChangeVerdict.SAME)
        ],
        "cannot_tell": [
            {
                **_query_effect(comparison, row),
                "runs_needed": int(comparison.effects["runs_needed"].iloc[row]),
            }
            for row in comparison.verdict_of(ChangeVerdict.CANNOT_TELL)
        ],
        "gate": None if gate is None else {"passed": gate.passed, "failures": list(gate.failures)},
        "doubts": list(comparison.doubts),
    }


def _explanation(comparison: Comparison, explained: Explanation) -> dict[str, Any]:
    root = int(comparison.categories["query_category"].iloc[explained.category])
    split = explained.split
    return {
        "query": _query(comparison, root),
        "stage": _Examples(comparison).stage(explained.category),
        "parameter": split.parameter if split else None,
        "value": plain(split.value) if split else None,
        "gain": plain(split.gain) if split else None,
        "equally_good": list(split.equally_good) if split else [],
        "sentence": split.sentence if split else None,
    }


def _printed(comparison: Comparison, printed: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "query": _query(comparison, row["category"]),
            "kind": row["kind"],
            "graph": row["graph"].split("\n"),
            "before_ms": plain(row["before_ms"]),
            "after_ms": plain(row["after_ms"]),
            "runs": [row["runs_before"], row["runs_after"]],
            "contribution_ms": plain(row["contribution_ms"]),
            "p": plain(row["p"]),
            "stages": [comparison.name(int(of)) for of in row["stages"].split(", ") if of],
            "precursors": [graph.split("\n") for graph in row["precursors"].split("\n\n") if graph],
        }
        for row in printed.to_dict("records")
    ]


def _side(facts: SideFacts) -> dict[str, Any]:
    return {
        "logs": list(facts.logs),
        "runs": facts.runs,
        "applications": list(facts.applications),
        "versions": list(facts.versions),
        "hosts": list(facts.hosts),
        "host_cores": facts.host_cores,
    }


def _query(comparison: Comparison, category: int) -> dict[str, Any]:
    row = comparison.categories.iloc[category]
    return {
        key: row[key] or None for key in ("name_before", "name_after", "fingerprint", "matched_by")
    }


def _query_effect(comparison: Comparison, category: int) -> dict[str, Any]:
    effect = comparison.effects.iloc[category]
    return {
        "query": _query(comparison, category),
        "before_ms": plain(effect["before_ms"]),
        "after_ms": plain(effect["after_ms"]),
        "contribution_ms": plain(effect["contribution_ms"]),
        "interval_ms": [plain(effect["low_ms"]), plain(effect["high_ms"])],
        "runs": [int(effect["runs_before"]), int(effect["runs_after"])],
    }


def _changes(comparison: Comparison) -> list[dict[str, Any]]:
    categories, causes = comparison.categories, comparison.causes
    roots = categories["query_category"].tolist()
    examples = _Examples(comparison)
    of_change: dict[int, list[dict[str, Any]]] = {}
    for change, cause, share, sentence in causes.itertuples(index=False):
        of_change.setdefault(change, []).append(
            {"cause": cause, "share_of_change": plain(share), "sentence": sentence}
        )
    values = _Values(comparison)
    found = []
    for number, row in enumerate(comparison.changes.to_dict("records")):
        category = row["category"]
        effect = comparison.effects.iloc[category]
        found.append(
            {
                "rank": row["rank"],
                "query": _query(comparison, roots[category]),
                "stage": examples.stage(category),
                "kind": row["kind"],
                "before_ms": plain(row["before_ms"]),
                "after_ms": plain(row["after_ms"]),
                "contribution_ms": plain(row["contribution_ms"]),
                "interval_ms": [plain(row["low_ms"]), plain(row["high_ms"])],
                "share": plain(row["share"]),
                "runs": [row["runs_before"], row["runs_after"]],
                "runs_ms": [values.of(category, side) for side in (0, 1)],
                "q_value": plain(row["q_value"]),
                "evidence": [word for word in row["evidence"].split(", ") if word],
                "parts_ms": {
                    name.removesuffix("_ms"): plain(effect[f"{name.removesuffix('_ms')}_change_ms"])
                    for name in PART_NAMES
                },
                "causes": of_change.get(number, []),
                "parent": None if row["parent"] < 0 else row["parent"],
            }
        )
    return found


class _Values:
    """Time of a category in each run."""

    def __init__(self, comparison: Comparison) -> None:
        runs = comparison.category_runs
        self._found: dict[tuple[int, int], list[float]] = {}
        for category, side, time in zip(
            runs["category"].tolist(), runs["side"].tolist(), runs["time_ms"].tolist(), strict=True
        ):
            self._found.setdefault((category, side), []).append(time)

    def of(self, category: int, side: int) -> list[float]:
        return self._found.get((category, side), [])


class _Examples:
    """Stages of the logs that stand for a category."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        categories = comparison.categories
        self._kind = texts(categories, "kind")
        self._of = [_first_rows(side) for side in comparison.sides]
        self._nodes = [_first_nodes(comparison, number) for number in (0, 1)]

    def stage(self, category: int) -> dict[str, Any] | None:
        """Return a stage, or the driver, as JSON; None for a query."""
        if self._kind[category] == "query":
            return None
        row = self._comparison.categories.iloc[category]
        driver = self._kind[category] == "driver"
        return {
            "label": "driver" if driver else row["label"],
            "number": int(row["ordinal"]) + 1,
            "operators": row["operators"].split("; ") if row["operators"] else [],
            "before": self._example(category, 0),
            "after": self._example(category, 1),
        }

    def _example(self, category: int, side: int) -> dict[str, Any] | None:
        tables = self._comparison.sides[side].tables
        row = self._of[side].get(self._nodes[side].get(category, -1))
        if tables is None or row is None:
            return None
        app = int(tables.stages["app"].iloc[row])
        return {
            "application_id": tables.applications["application_id"].iloc[app],
            "stage_id": int(tables.stages["stage_id"].iloc[row]),
        }


def _first_rows(side: Side) -> dict[int, int]:
    if side.rows is None:
        return {}
    nodes, first = np.unique(side.rows.stage_node, return_index=True)
    return dict(zip(nodes.tolist(), first.tolist(), strict=True))


def _first_nodes(comparison: Comparison, side: int) -> dict[int, int]:
    categories, first = np.unique(comparison.category_of[side], return_index=True)
    return dict(zip(categories.tolist(), first.tolist(), strict=True))
