"""One HTML file that shows a comparison and needs nothing else: no network, no other file.

Every picture is an SVG in the page and every number is written, so that it can be read without
its program, which only chooses the look.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, short
from iqcar.comparison.comparison import Comparison, relative
from iqcar.comparison.comparison_sections import (
    changes_headline,
    changes_section,
    differences_sentence,
    interval_words,
    settings_section,
    steps_section,
    totals_sentence,
    unchanged_section,
    variation_section,
)
from iqcar.enums import ChangeKind, ChangeVerdict
from iqcar.logs.text import redact_text
from iqcar.show.html import files
from iqcar.show.html.files import escaping_environment
from iqcar.show.json.compare import compare_to_dict
from iqcar.show.pictures.comparison_plots import ComparisonPlots
from iqcar.show.pictures.theme import ADDED, AFTER, BEFORE, GONE, SLOWER
from iqcar.show.pictures.timeline import source_hash
from iqcar.version import __version__


def render_comparison(comparison: Comparison, *, title: str = "", home: str = "") -> str:
    """Render a comparison as one HTML page.

    title: heading; "Compare" by default.
    home: URL of a list of applications to lead back to; none by default.
    Names from logs are text in it, never markup or program.
    """
    result = compare_to_dict(comparison)
    changes = changes_section(comparison)
    drawn, queries = _drawn(comparison)
    variation = variation_section(comparison)
    plots = ComparisonPlots(comparison)
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
            headline=printable(changes_headline(comparison)),
            totals=totals_sentence(comparison),
            different=differences_sentence(comparison),
            sides_read=[_side(result[word], word) for word in ("before", "after")],
            colours={"before": BEFORE, "after": AFTER, "added": ADDED, "gone": GONE,
                     "changed": SLOWER},
            changes=changes.first(limits.MOST_CHANGE_ROWS),
            queries=queries,
            meanings={str(kind): kind.sentence for kind in ChangeKind
                      if (comparison.changes["kind"] == str(kind)).any()},
            waterfall=plots.waterfall().svg,
            drawn=drawn,
            settings=settings_section(comparison).first(limits.MOST_SETTINGS),
            same=unchanged_section(comparison, ChangeVerdict.SAME).first(limits.MOST_UNCHANGED),
            same_count=len(result["same"]),
            unclear=unchanged_section(comparison, ChangeVerdict.CANNOT_TELL).first(
                limits.MOST_UNCHANGED
            ),
            unclear_count=len(result["cannot_tell"]),
            margin=percent(comparison.margin),
            browsed=variation.first(limits.MOST_BROWSED, "more: comparison.variation() has all"),
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


def _drawn(comparison: Comparison) -> tuple[list[dict[str, Any]], int]:
    """Lay out the pictures of the first queries that changed; and count the queries."""
    plot, changes = ComparisonPlots(comparison), comparison.changes
    queries = changes[(changes["parent"] < 0).to_numpy()]
    found = []
    for row in queries.head(limits.MOST_DRAWN_CHANGES).to_dict("records"):
        category = int(row["category"])
        query = comparison.categories.iloc[category]
        both = query["name_before"] and query["name_after"]
        renamed = both and query["name_before"] != query["name_after"]
        found.append(
            {
                "rank": row["rank"],
                "name": _name(comparison, category),
                "kind": row["kind"],
                "before": duration(row["before_ms"]),
                "after": duration(row["after_ms"]),
                "relative": relative(row["before_ms"], row["after_ms"]),
                "contribution": interval_words(
                    row["contribution_ms"], row["low_ms"], row["high_ms"]
                ),
                "renamed": _short(query["name_before"]) if renamed else "",
                "matched_by": query["matched_by"],
                "graph_changed": category in comparison.new_graphs,
                "stages": plot.stages_of(category).svg,
                "runs_drawn": plot.runs_of(category).svg,
                "steps": plot.steps_of(category).svg,
                "parts": plot.parts_of(category).svg,
                "blame": plot.blame_of(category).svg if plot.blamed(category) else "",
                "numbers": steps_section(comparison, category).first(limits.MOST_STAGES),
            }
        )
    return found, len(queries)


def _name(comparison: Comparison, category: int) -> str:
    return _short(comparison.name(category))


def _short(name: str) -> str:
    return short(name, limits.NAME_CHARACTERS)


@cache
def _environment() -> Environment:
    return escaping_environment("iqcar.show.html")
