"""What figures hold, for tests: every text a reader can see, and every text under the mouse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import iqcar
from iqcar import Diagnosis
from tests.support.random_tables import RandomInput

HOSTILE = (
    "<script>alert(1)</script>",
    "<b>bold</b><br>line<a href='javascript:alert(1)'>x</a>",
    """say "it's" & run; %{x} $\\sum_x$ {{7*7}}""",
    "تقرير المبيعات \u202e الشهرية",
    "\u0000\u001b[31mred\u2028",
    "SELECT " + ", ".join(f"c{i} AS `x<{i}>`" for i in range(700)),
    "",
    "🔥" * 400,
)
"""Names as a log may hold them."""

SHOWN_KEYS = ("text", "hovertext", "ticktext", "label", "customdata", "name", "title")
OUR_MARKUP = ("<b>", "</b>", "<br>")


def diagnosis_of(made: RandomInput, critical_path: bool = False) -> Diagnosis:
    """Diagnose random tables whose waits are random, too."""
    from iqcar.causes.blame.attribute import attribute
    from iqcar.causes.graph.iqc_graph import build_graph
    from iqcar.causes.stragglers.features import build_features
    from iqcar.causes.stragglers.find_stragglers import find_stragglers
    from iqcar.causes.stragglers.straggler_result import StragglerSettings
    from iqcar.causes.wasted.wasted_work import find_wasted_work
    from iqcar.diagnosis import Settings
    from iqcar.model.waits.measure import sum_query_waits

    tables, waits = made.tables, made.waits
    blame = attribute(tables, waits)
    graph = build_graph(tables, blame, critical_path=critical_path)
    features = build_features(tables, waits, StragglerSettings().edge_ms)
    return Diagnosis(
        tables=tables,
        waits=waits,
        query_waits=sum_query_waits(tables, waits),
        blame=blame,
        graph=graph,
        wasted=find_wasted_work(tables),
        targets=tuple(range(len(tables.queries))),
        stragglers=find_stragglers(features, tables, blame),
        features=features,
        topics=None,
        rules=(),
        rules_together=None,
        doubts=(),
        settings=Settings(critical_path=critical_path),
    )


def nothing_read() -> Diagnosis:
    """The diagnosis of an input without a single application."""
    return iqcar.diagnose(iqcar.Tables.empty())


def texts_of(figure: Any) -> list[str]:
    """Every string that Plotly renders as text, from the figure's own JSON."""
    return list(_texts(json.loads(figure.to_json()), shown=False))


def _texts(part: Any, shown: bool) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield from _texts(value, key in SHOWN_KEYS or (shown and key == "text"))
    elif isinstance(part, list):
        for value in part:
            yield from _texts(value, shown)
    elif isinstance(part, str) and shown:
        yield part


def without_our_markup(text: str) -> str:
    """The text less the tags that figures put in by themselves."""
    for tag in OUR_MARKUP:
        text = text.replace(tag, "")
    return text


def assert_only_text(figure: Any) -> None:
    """Nothing that Plotly would take for markup or a formula is left of any name."""
    for text in texts_of(figure):
        rest = without_our_markup(text)
        assert "<" not in rest and ">" not in rest, text[:200]
        assert "$" not in rest, text[:200]
        assert len(text) < 2_000, f"{len(text)} characters in one label"
