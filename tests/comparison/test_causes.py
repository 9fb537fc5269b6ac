"""What counts as a change, and as chance, follows from the work of the queries involved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from iqcar.comparison.causes.blame_change import BLAME_CHANGES
from iqcar.comparison.causes.query_causes import CauseInputs, Explained, explain_changes
from iqcar.comparison.effects.effects import effects, rank_changes
from iqcar.comparison.match.compared_rows import side_means
from iqcar.comparison.sides.comparison_tables import CATEGORIES, CATEGORY_RUNS, CHANGES, MEASURES

WAITS, STAGE_OF_WAITS, WORKS, STAGE_OF_WORKS = range(4)
"""A query that waits for another one, each with one stage."""


def categories(*query: int) -> pd.DataFrame:
    """Categories by the query of each; a query is its own."""
    is_query = [row == of for row, of in enumerate(query)]
    n = len(query)
    return CATEGORIES.frame(
        {
            "kind": ["query" if yes else "stage" for yes in is_query],
            "query_category": list(query),
            "name_before": [f"q{row}" if yes else "" for row, yes in enumerate(is_query)],
            "name_after": [f"q{row}" if yes else "" for row, yes in enumerate(is_query)],
            "fingerprint": [""] * n,
            "matched_by": ["label"] * n,
            "label": ["" if yes else f"stage {row}" for row, yes in enumerate(is_query)],
            "ordinal": [0] * n,
            "operators": [""] * n,
            "parent": [-1 if yes else of for yes, of in zip(is_query, query, strict=True)],
        }
    )


def runs_of(of: list[dict[str, tuple[float, float]]], runs: int) -> pd.DataFrame:
    """Runs a side of each category, from its measures before and after, with little noise."""
    draw, rows = np.random.default_rng(1), []
    for category, given in enumerate(of):
        for side in (0, 1):
            for run in range(runs):
                measures = {
                    name: given.get(name, (0.0, 0.0))[side] * np.exp(draw.normal(0, 0.02))
                    for name, *_ in MEASURES
                }
                key = {"category": category, "side": side, "run": run, "instances": 1}
                rows.append({**key, **measures, "bytes_max_over_mean": np.nan})
    frame = pd.DataFrame(rows)
    return CATEGORY_RUNS.frame({name: frame[name] for name in CATEGORY_RUNS.column_names()})


@pytest.mark.parametrize(("after_ms", "found"), [(8000.0, True), (4200.0, False)])
def test_processor_time_of_a_stage_beside_the_chain_counts(after_ms: float, found: bool) -> None:
    """A scan computes beside a longer one, which then waits for the slots that it takes."""
    same = dict.fromkeys(("cpu_ms", "compute_ms"), (4000.0, 4000.0)) | {"bytes": (1e8, 1e8)}
    beside = {"cpu_ms": (4000.0, after_ms), "bytes": (1e8, 1e8)}
    whole = {
        "time_ms": (5000.0, 5400.0),
        "cpu_ms": (8000.0, 4000.0 + after_ms),
        "compute_ms": (1000.0, 1000.0),
        "bytes": (2e8, 2e8),
    }
    on_chain = same | {"time_ms": (5000.0, 5400.0), "compute_ms": (1000.0, 1000.0)}
    named = categories(0, 0, 0)
    effect = effects(runs_of([whole, on_chain, beside], 2), named, margin=0.05, alpha=0.05)
    changes = rank_changes(named, effect)
    assert changes["category"].tolist() == ([0, 2] if found else [])
    if found:
        assert set(changes["evidence"]) == {"cpu"}
        sides = tuple(side_means(runs_of([whole, on_chain, beside], 2), named, s) for s in (0, 1))
        told = explain_changes(changes, CauseInputs(named, (sides[0], sides[1]), [("", "")] * 3))
        assert set(told.causes["cause"]) == {"metric:cpu_ms"}
        assert not told.by_chance.any()


def explained(runs: int, evidence: str, *, source_changed: str) -> Explained:
    """Causes of a query that waited longer for slots of another one."""
    waits = {"time_ms": (4000.0, 5000.0), "slots_ms": (1000.0, 2000.0), "cpu_ms": (1e4, 1e4)}
    works = {"time_ms": (9000.0, 9000.0), "compute_ms": (9000.0, 9000.0), "cpu_ms": (2e4, 2e4)}
    waits["tasks"] = works["tasks"] = (8.0, 8.0)
    named = categories(WAITS, WAITS, WORKS, WORKS)
    table = runs_of([waits, waits, works, works], runs)
    sides = side_means(table, named, 0), side_means(table, named, 1)
    listed = [(WAITS, -1, evidence), (STAGE_OF_WAITS, 0, evidence)]
    if source_changed:
        listed += [(WORKS, -1, ""), (STAGE_OF_WORKS, 2, source_changed)]
    before, after = (side.measure["time_ms"] for side in sides)
    rows = [category for category, *_ in listed]
    changes = CHANGES.frame(
        {
            **{name: [0] * len(rows) for name in CHANGES.column_names()},
            "category": rows,
            "kind": [""] * len(rows),
            "before_ms": before[rows],
            "after_ms": after[rows],
            "runs_before": [runs] * len(rows),
            "runs_after": [runs] * len(rows),
            "evidence": [by for *_, by in listed],
            "parent": [parent for _, parent, _ in listed],
        }
    )
    blame = BLAME_CHANGES.frame(
        {
            "category": [WAITS], "resource": ["slots"], "kind": ["query"], "source": [WORKS],
            "before_ms": [100.0], "after_ms": [1100.0], "change_ms": [1000.0],
            "work_growth": [1.0], "presence_growth": [1.0 if source_changed else 1.3],
            "named": [not source_changed],
        }
    )  # fmt: skip
    return explain_changes(changes, CauseInputs(named, sides, [("", "")] * 4, blame=blame))


def test_a_longer_wait_for_a_query_that_is_the_same_is_chance_in_few_runs() -> None:
    assert explained(3, "time", source_changed="").by_chance.tolist() == [True, True]
    assert not explained(5, "time", source_changed="").by_chance.any()
    assert not explained(3, "time, cpu", source_changed="").by_chance.any()


def test_a_wait_for_a_query_with_other_work_is_none_though_that_does_not_take_more() -> None:
    """Another plan does as much work at other times."""
    told = explained(3, "time", source_changed="cpu")
    assert not told.by_chance[:2].any()
    of_wait = told.causes[told.causes["change"] == 0]
    assert of_wait["cause"].iloc[0] == f"query:q{WORKS}"
    assert told.kind[0] == "contention"
