"""What others cost a query is one amount with a range, the same that what-if questions answer."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.diagnosis import WhatIfs
from iqcar.enums import Resource
from iqcar.pipeline import diagnose
from iqcar.replay.alone import blame_run
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import answer
from iqcar_lab.clusters.quiet import Run, said
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.scores import EVERY, NEAR, by_blame
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import costs_of_others

MOST_APART = 0.02


def simulated(family: str, seed: int, *, plain: bool = True, loud: bool = True) -> Run:
    build = EVERY[family].loud if loud else EVERY[family].quiet
    run = Simulation(*build(seed), seed)
    return Run(family, *replayable(run, plain=plain, sampled=not plain), costs_of_others(run))


@pytest.mark.long
@pytest.mark.parametrize("family", ["disk, reader", "slots, fifo", "processor"])
def test_without_all_others_a_query_takes_as_much_less_as_it_lost_to_them(family: str) -> None:
    run = simulated(family, 1)
    blame, model = blame_run(run.tables, run.waits)
    names = run.tables.queries["query_id"].tolist()
    lost = said(blame, run.tables)
    assert lost.max() > 0.1
    for row, name in enumerate(names):
        others = tuple(one for one in names if one != name)
        found = answer(model, Question(remove=others), lambda one, _: (names.index(one),))
        change = found.queries.loc[row, "change_percent"] / 100.0
        assert lost[row] == pytest.approx(-change, abs=MOST_APART)


@pytest.mark.long
def test_ranges_of_what_page_cache_readers_hide_hold_the_truth_and_disks_would_tell() -> None:
    run = simulated("page cache beside disk", 0)
    found = by_blame(run)
    hit = np.array(run.cost) > 0.1
    assert hit.any()
    assert ((found.low - NEAR <= run.cost) & (run.cost <= found.high + NEAR)).all()
    blame, _ = blame_run(run.tables, run.waits)
    assert {blame.cost.decided_by[row] for row in np.flatnonzero(hit)} == {Resource.IO}


def test_ranges_of_a_quiet_cluster_are_narrow() -> None:
    found = by_blame(simulated("formats (varies)", 0, loud=False))
    assert found.said.max() < 0.01
    assert (found.high - found.low).max() < 0.05


def test_a_diagnosis_has_the_range_beside_the_amount() -> None:
    run = simulated("disk, reader", 1)
    found = diagnose(run.tables, rules=False)
    queries = found.queries
    low, lost, high = (queries[f"lost_{name}_ms"] for name in ("low", "to_others", "high"))
    assert (low <= lost).all()
    assert (lost <= high).all()
    assert (high <= queries["duration_ms"]).all()
    assert WhatIfs(found).model is not None
