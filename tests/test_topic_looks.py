"""Looks at jobs: each job once, anywhere, in any order; what is kept of stragglers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hound_traces import Planted, features_from, plant
from iqcar.stragglers import TaskFeatures
from iqcar.topics import (
    JobLook,
    Jobs,
    Tally,
    TopicSettings,
    find_topics,
    look_at_job,
    share_kept,
    topics_from,
)
from iqcar.topics.look import MOST_TASKS, lot
from iqcar.topics.validate import mean_quartile_difference, rank_sum_p

SETTINGS = TopicSettings()
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant(30, 8, tasks=(10, 120))


def same(one, other) -> None:
    for name in ("topics", "words", "jobs", "mixtures", "validation"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))
    assert one.information == pytest.approx(other.information, nan_ok=True)
    assert one.doubts == other.doubts


def test_jobs_looked_at_one_by_one_elsewhere_and_in_any_order_give_the_same_topics(planted):
    """As on a cluster: stage by stage, sent as bytes, in no order."""
    features = planted.features
    looks: list[JobLook] = []
    tally = Tally(0, 0, 0)
    names: tuple[str, ...] = ()
    for stage in np.random.default_rng(0).permutation(30):
        frame = features.frame[features.frame["stage"] == stage]
        jobs = Jobs.of(TaskFeatures(frame, features.features, features.labels), SETTINGS)
        tally += jobs.tally
        names = jobs.names
        sent = [pickle.dumps(look_at_job(job, SETTINGS)) for job in jobs]
        looks += [pickle.loads(one) for one in sent]  # noqa: S301 (our own bytes)
    assert tally.seen == 30 and tally.small > 0
    same(topics_from(looks, names, SETTINGS, tally, features.labels), find_topics(features))


def test_a_look_counts_what_the_jobs_frame_holds(planted: Planted) -> None:
    frame = planted.features.frame
    for job in Jobs.of(planted.features, SETTINGS):
        look = look_at_job(job, SETTINGS)
        latency = frame.loc[frame["stage"] == look.stage, "duration_ms"].to_numpy()
        slow = latency > 1.5 * np.median(latency)
        assert look.tasks == len(latency) and look.stragglers == slow.sum()
        assert look.delay_ms == pytest.approx((latency - np.median(latency))[slow].sum())
        assert look.digest.slowness == pytest.approx(
            np.sort(latency[slow]) / np.median(latency), rel=1e-6
        )


def test_evidence_of_every_metric_equals_the_plain_statistics(planted: Planted) -> None:
    for job in Jobs.of(planted.features, SETTINGS):
        look = look_at_job(job, SETTINGS)
        metrics, _ = job.known()
        for j, values in enumerate(metrics.T):
            assert look.p_value[j] == pytest.approx(rank_sum_p(values, job.slow), rel=1e-9)
            low, high = np.percentile(values, (25, 75))
            size = (high - low) or values.std() or 1.0
            expected = mean_quartile_difference(values, job.slow) / size
            assert look.quartile_difference[j] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_rank_sum_test_is_scipys() -> None:
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(4)
    for levels in (3, 1000):
        values, slow = rng.integers(0, levels, 80).astype(float), rng.random(80) < 0.3
        theirs = mannwhitneyu(
            values[slow], values[~slow], use_continuity=False, method="asymptotic"
        )
        assert rank_sum_p(values, slow) == pytest.approx(theirs.pvalue)


@given(seed=seeds)
def test_a_digest_tells_how_far_stragglers_are_from_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(10, 2, (40, 3))
    values[:, 1] = 7.0
    values[:, 2] = 0.0
    latency = rng.uniform(900, 1100, 40)
    slow = rng.permutation(40)[:5]
    latency[slow] = rng.uniform(2000, 9000, 5)
    values[slow, 2] = 4.0
    values[slow[0], 0] = np.nan
    table = pd.DataFrame(
        {"stage": 0, "duration_ms": latency, **{f"m{j}": values[:, j] for j in range(3)}}
    )
    (job,) = Jobs.of(features_from(table), SETTINGS)
    digest = look_at_job(job, SETTINGS).digest
    order = slow[np.argsort(latency[slow])]
    others = np.delete(values, slow, 0)[:, 0]
    spread = 1.4826 * np.median(np.abs(others - np.median(others)))
    expected = np.nan_to_num((values[order, 0] - np.median(others)) / spread)
    assert digest.deviations[:, 0] == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert not digest.deviations[:, 1].any()  # a constant tells nothing
    # Only stragglers have it: in standard deviations of all tasks.
    assert digest.deviations[:, 2] == pytest.approx(4.0 / values[:, 2].std(), rel=1e-5)
    assert digest.deviations.dtype == np.float32


@given(jobs=st.integers(1, 100_000))
def test_tasks_are_kept_of_an_even_selection_of_bounded_size(jobs: int) -> None:
    lots = (np.arange(jobs) + 1) * lot(0) % 1.0
    kept = lots < share_kept(jobs)
    assert min(jobs, 300) <= kept.sum() <= 500
    # Evenly: no half of the jobs has much more of it than the other.
    assert abs(int(kept[: jobs // 2].sum()) - int(kept[jobs // 2 :].sum())) <= 10


def test_of_a_large_job_few_tasks_are_kept_and_of_others_none() -> None:
    rng = np.random.default_rng(0)
    latency = rng.lognormal(0, 0.5, 5000)
    table = pd.DataFrame({"stage": 3, "duration_ms": latency, "m": rng.random(5000)})
    (job,) = Jobs.of(features_from(table), SETTINGS)
    kept = look_at_job(job, SETTINGS).kept
    assert len(kept.latency_ms) == MOST_TASKS
    assert kept.latency_ms[[0, -1]].tolist() == [latency.min(), latency.max()]
    assert look_at_job(job, SETTINGS, lot(3)).kept is None
