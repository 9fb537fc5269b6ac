"""One HTML file that shows a comparison and needs nothing else: no network, no other file.

Every picture is an SVG in the page and every number is written, so that it can be read without
its program, which only chooses the look.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, short, signed
from iqcar.comparison.comparison import Comparison, relative
from iqcar.comparison.comparison_sentences import differences_sentence, totals_sentence
from iqcar.comparison.explore import find_variation
from iqcar.enums import ChangeKind
from iqcar.logs.text.redact import redact_text
from iqcar.show.html import files
from iqcar.show.html.environment import escaping_environment
from iqcar.show.json.compare import compare_to_dict
from iqcar.show.pictures.comparison_plots import ComparisonPlots
from iqcar.show.pictures.embed import source_hash
from iqcar.show.pictures.palette import ADDED, AFTER, BEFORE, GONE, SLOWER
from iqcar.version import __version__

KIND_SENTENCES = {str(kind): kind.sentence for kind in ChangeKind}


def render_comparison(comparison: Comparison, *, title: str = "", home: str = "") -> str:
    """Render a comparison as one HTML page.

    Parameters
    ----------
    comparison : Comparison
    title : str
        Heading; "Compare" by default.
    home : str
        URL of a list of applications to lead back to; none by default.

    Returns
    -------
    str
        Names from logs are text in it, never markup or program.
    """
    result = compare_to_dict(comparison)
    rows = _change_rows(comparison, result)
    return (
        _environment()
        .get_template("compare.html.j2")
        .render(
            title=printable(title) or "Compare",
            home=home,
            policy=comparison_policy(),
            style=files.style(),
            program=files.compare_program(),
            version=__version__,
            totals=totals_sentence(comparison),
            different=differences_sentence(comparison),
            sides_read=[_side(result[word], word) for word in ("before", "after")],
            colours={"before": BEFORE, "after": AFTER, "added": ADDED, "gone": GONE,
                     "changed": SLOWER},
            rows=rows[: limits.MOST_CHANGE_ROWS],
            rows_left=max(0, len(rows) - limits.MOST_CHANGE_ROWS),
            meanings={kind: KIND_SENTENCES[kind] for kind in KIND_SENTENCES
                      if any(row["kind"] == kind for row in rows)},
            waterfall=ComparisonPlots(comparison).waterfall().svg,
            drawn=_drawn(comparison, rows),
            settings=_settings(result["different"]["conf"]),
            settings_left=max(0, len(result["different"]["conf"]) - limits.MOST_SETTINGS),
            same=_effects(result["same"]),
            same_count=len(result["same"]),
            unclear=_effects(result["cannot_tell"]),
            unclear_count=len(result["cannot_tell"]),
            margin=percent(comparison.margin),
            browsed=_browsed(comparison),
            doubts=[str(doubt) for doubt in comparison.doubts[: limits.MOST_DOUBTS]],
            doubts_left=max(0, len(comparison.doubts) - limits.MOST_DOUBTS),
        )
    )  # fmt: skip


def comparison_policy() -> str:
    """Content Security Policy of the page: nothing but what stands in it, by hash."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {source_hash(files.compare_program())}",
            f"style-src {source_hash(files.style())}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _side(side: dict[str, Any], word: str) -> dict[str, Any]:
    logs = [short(redact_text(path), limits.NAME_CHARACTERS) for path in side["logs"]]
    return {
        "word": word,
        "runs": side["runs"],
        "applications": len(side["applications"]),
        "versions": ", ".join(side["versions"]) or "not recorded",
        "hosts": len(side["hosts"]),
        "logs": logs[: limits.MOST_INPUTS],
        "left_out": max(0, len(logs) - limits.MOST_INPUTS),
    }


def _change_rows(comparison: Comparison, result: dict[str, Any]) -> list[dict[str, Any]]:
    """Lay out the changes of the JSON, in its order."""
    categories = comparison.changes["category"].tolist()
    rows = []
    for category, change in zip(categories, result["changes"], strict=True):
        is_stage = change["stage"] is not None
        rows.append(
            {
                "category": category,
                "rank": change["rank"],
                "is_stage": is_stage,
                "name": _name(comparison, category),
                "kind": change["kind"],
                "before": duration(change["before_ms"]),
                "after": duration(change["after_ms"]),
                "relative": relative(change["before_ms"], change["after_ms"]),
                "contribution": signed(change["contribution_ms"]),
                "interval": _interval(change["interval_ms"]),
                "share": "" if is_stage else percent(change["share"] or 0.0),
                "runs": "/".join(str(count) for count in change["runs"]),
                "evidence": ", ".join(change["evidence"]) or "one side only",
                "q": _q(change["q_value"]),
                "causes": [cause["sentence"] for cause in change["causes"]][: limits.MOST_CAUSES],
            }
        )
    return rows


def _drawn(comparison: Comparison, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lay out the pictures of the first changes: queries, each with its stages that changed."""
    plot = ComparisonPlots(comparison)
    found: list[dict[str, Any]] = []
    for row in rows:
        if row["is_stage"]:
            continue
        if len(found) == limits.MOST_DRAWN_CHANGES:
            break
        category = row["category"]
        query = comparison.categories.iloc[category]
        both = query["name_before"] and query["name_after"]
        renamed = both and query["name_before"] != query["name_after"]
        found.append(
            {
                **row,
                "renamed": short(str(query["name_before"]), limits.NAME_CHARACTERS)
                if renamed
                else "",
                "matched_by": query["matched_by"],
                "graph_changed": category in comparison.new_graphs,
                "stages": plot.stages_of(category).svg,
                "runs_drawn": plot.runs_of(category).svg,
                "steps": plot.steps_of(category).svg,
                "parts": plot.parts_of(category).svg,
                "blame": plot.blame_of(category).svg if plot.blamed(category) else "",
                "steps_rows": _steps(comparison, category),
            }
        )
    return found


def _steps(comparison: Comparison, category: int) -> list[dict[str, str]]:
    parts = comparison.parts(category)
    size = parts["contribution_ms"].abs().to_numpy(np.float64)
    order = np.argsort(-size, kind="stable")[: limits.MOST_STAGES]
    return [
        {
            "name": short(str(row["name"]), limits.NAME_CHARACTERS),
            "before": duration(row["before_ms"]),
            "after": duration(row["after_ms"]),
            "contribution": signed(row["contribution_ms"]),
        }
        for row in parts.iloc[order].to_dict("records")
    ]


def _settings(conf: list[dict[str, Any]]) -> list[dict[str, str]]:
    def words(values: list[str]) -> str:
        return short(" or ".join(values), limits.NAME_CHARACTERS) or "not set"

    return [
        {
            "key": short(one["key"], limits.NAME_CHARACTERS),
            "before": words(one["before"]),
            "after": words(one["after"]),
        }
        for one in conf[: limits.MOST_SETTINGS]
    ]


def _effects(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lay out queries without a change, the largest difference first."""
    order = sorted(found, key=lambda one: -abs(one["contribution_ms"] or 0.0))
    return [
        {
            "name": short(
                one["query"]["name_after"] or one["query"]["name_before"] or "",
                limits.NAME_CHARACTERS,
            ),
            "before": duration(one["before_ms"]),
            "after": duration(one["after_ms"]),
            "relative": relative(one["before_ms"], one["after_ms"]),
            "interval": _interval(one["interval_ms"]),
            "runs": "/".join(str(count) for count in one["runs"]),
            "needed": one.get("runs_needed") or "",
        }
        for one in order[: limits.MOST_UNCHANGED]
    ]


def _browsed(comparison: Comparison) -> dict[str, Any]:
    """Lay out the variation of the queries and stages that took longest, and some densities."""
    variation, effects = find_variation(comparison), comparison.effects
    kinds = comparison.categories["kind"].to_numpy()
    longest = effects[["before_ms", "after_ms"]].max(axis=1).to_numpy(np.float64)
    shown = np.flatnonzero((kinds != "driver") & (longest > 0))
    order = shown[np.argsort(-longest[shown], kind="stable")]
    rows = []
    for place, category in enumerate(order[: limits.MOST_BROWSED].tolist()):
        row = variation.iloc[category]
        is_query = kinds[category] == "query"
        root = int(comparison.categories["query_category"].iloc[category])
        rows.append(
            {
                "name": _name(comparison, category),
                "query": "" if is_query else _name(comparison, root),
                **{
                    name: _c2(row[name])
                    for name in ("runs_c2_before", "runs_c2_after", "tasks_c2_before",
                                 "tasks_c2_after")
                },
                "density": ComparisonPlots(comparison).density_of(category).svg
                if place < limits.MOST_DENSITIES
                else "",
            }
        )  # fmt: skip
    return {"rows": rows, "left_out": max(0, len(order) - limits.MOST_BROWSED)}


def _c2(value: float) -> str:
    return f"{value:.2g}" if np.isfinite(value) else "unknown"


def _q(value: float | None) -> str:
    if value is None:
        return "untested"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _interval(ends: list[float | None]) -> str:
    low, high = ends
    return "untested" if low is None or high is None else f"{signed(low)} to {signed(high)}"


def _name(comparison: Comparison, category: int) -> str:
    return short(comparison.name(category), limits.NAME_CHARACTERS)


@cache
def _environment() -> Environment:
    return escaping_environment("iqcar.show.html")
