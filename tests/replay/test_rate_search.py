"""Which devices were short, and who bypassed the disk: by tasks' own times, and by samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.causes.blame.attribute import measure_demand
from iqcar.model.demand.host_samples import WAS_NOT, WAS_SHORT, Sampled
from iqcar.replay.alone import blame_run
from iqcar.replay.loop.fit_demands import fit_demands
from iqcar.replay.loop.task_demands import ASSUMED, COMPUTE, DISK, PROCESSOR, READ, task_demands
from iqcar_lab.clusters.quiet import Run, with_noise
from iqcar_lab.clusters.scores import by_blame, scene
from iqcar_lab.clusters.steady import twins


def _disks_were_short(run: Run, sampled: Sampled) -> bool:
    """Whether the disks were short, if samples say this."""
    demand = measure_demand(run.tables, run.waits)
    demands = task_demands(run.tables, run.waits, demand)
    told = replace(demands, sampled={DISK: sampled})
    fitted = fit_demands(run.tables, told, demand).check
    return bool((fitted.evidence[:, DISK] != ASSUMED).all())


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 9001])
@pytest.mark.parametrize("plain", [False, True])
def test_who_reads_from_the_page_cache_hides_no_contention_and_is_no_source(
    seed: int, plain: bool
) -> None:
    run = scene("page cache beside disk", seed, True).run(plain)
    blame, model = blame_run(run.tables, run.waits)
    assert model is not None
    true = twins("page cache beside disk", seed).loud[0].disk
    np.testing.assert_allclose(model.scenario.capacity[:, DISK], true, rtol=0.05)
    answer = by_blame(run)
    assert np.abs(answer.said - run.cost).max() < 0.06
    cached = run.tables.queries["name"].str.startswith("cached").to_numpy(bool)
    assert answer.lost[:, cached].max() < 1e-6
    stages = run.tables.stages["query"].to_numpy()[blame.cost.from_disk]
    assert not cached[stages].any()


def test_noise_on_a_quiet_cluster_is_neither_a_page_cache_nor_contention() -> None:
    for seed in (9000, 9003):
        quiet = with_noise(scene("steady fetches", seed, False).measured, 0.3, seed)
        assert by_blame(quiet).said.max() < 0.01


def test_samples_decide_where_noise_looks_like_contention() -> None:
    for seed in (9000, 9102):
        quiet = scene("steady, or as slow alone", seed, False)
        plain, measured = (
            by_blame(with_noise(run, 0.3, seed)).said.max() for run in (quiet.plain, quiet.measured)
        )
        assert measured < 0.01 < 0.05 < plain


def test_a_disk_that_was_full_is_short_and_one_that_was_not_is_not() -> None:
    """Here tasks' own times leave both open."""
    run = scene("steady, or as slow alone", 9002, False).plain
    noisy = with_noise(run, 0.3, 9002)
    assert _disks_were_short(noisy, Sampled(WAS_SHORT))
    assert not _disks_were_short(noisy, Sampled(WAS_NOT))


def test_samples_do_not_overrule_what_the_times_of_tasks_clearly_say() -> None:
    loud = scene("a writer, two applications", 0, True).plain
    assert _disks_were_short(loud, Sampled(WAS_NOT))


def test_rates_that_are_always_hidden_are_neither_the_capacity_nor_what_was_seen() -> None:
    """Two queries read beside a writer from their first moment to their last."""
    run = scene("a writer, two applications", 1, True).measured
    said = by_blame(run).said
    scans = run.tables.queries["name"].str.startswith("scan").to_numpy(bool)
    assert np.mean((said - np.array(run.cost))[scans]) < 0.12
    model = blame_run(run.tables, run.waits)[1]
    assert model is not None
    one = model.scenario
    reads = one.alone[:, READ] > 0
    assert (one.slow.alone[reads, READ] >= one.alone[reads, READ] - 1e-6).all()
    assert (one.fast.alone[reads, READ] <= one.alone[reads, READ] + 1e-6).all()


@pytest.mark.parametrize("seed", [1, 9001])
def test_who_computes_unseen_is_told_by_samples_and_so_is_what_that_costs(seed: int) -> None:
    run = scene("beside a processor hog", seed, True).measured
    assert np.abs(by_blame(run).said - run.cost).max() < 0.08
    demand = measure_demand(run.tables, run.waits)
    demands = task_demands(run.tables, run.waits, demand)
    assert demands.sampled[PROCESSOR].contended == WAS_SHORT
    udf = (run.tables.queries["name"] == "udf").to_numpy()[run.tables.tasks["query"].to_numpy()]
    plan = next(p for p in twins("beside a processor hog", seed).loud[1] if p.name == "udf")
    needed = plan.stages[0].python + plan.stages[0].cpu
    computed = (demands.alone * demands.use)[udf, COMPUTE]
    assert computed.mean() == pytest.approx(needed, rel=0.1)
