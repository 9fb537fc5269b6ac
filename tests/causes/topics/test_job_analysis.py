"""Looks at jobs: each job once, anywhere, in any order; what each metric tells of stragglers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.topics.analyse_job import (
    PENALTIES,
    JobAnalysis,
    Ranked,
    analyse_job,
    known_values,
    regression,
)
from iqcar.causes.topics.build_topics import find_topics, topics_from
from iqcar.causes.topics.jobs import Jobs, Tally, TopicJob
from iqcar.causes.topics.topic_result import TopicSettings
from tests.support import naive_hound
from tests.support.hound_traces import Planted, plant

SETTINGS = TopicSettings()
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant(30, 8, tasks=(10, 120))


def same(one, other) -> None:
    for name in ("topics", "words", "jobs", "mixtures", "validation"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))
    assert one.doubts == other.doubts


def test_jobs_looked_at_one_by_one_elsewhere_and_in_any_order_give_the_same_topics(planted):
    """As on a cluster: stage by stage, sent as bytes, in no order."""
    features = planted.features
    analyses: list[JobAnalysis] = []
    tally = Tally(0, 0, 0)
    names: tuple[str, ...] = ()
    for stage in np.random.default_rng(0).permutation(30):
        frame = features.frame[features.frame["stage"] == stage]
        jobs = Jobs.from_tasks(TaskFeatures(frame, features.features, features.labels), SETTINGS)
        tally += jobs.tally
        names = jobs.names
        sent = [pickle.dumps(analyse_job(job)) for job in jobs]
        analyses += [pickle.loads(one) for one in sent]  # noqa: S301 (our own bytes)
    assert tally.seen == 30 and tally.small > 0
    same(topics_from(analyses, names, SETTINGS, tally, features.labels), find_topics(features))


def test_a_look_counts_what_the_jobs_frame_holds(planted: Planted) -> None:
    frame = planted.features.frame
    for job in Jobs.from_tasks(planted.features, SETTINGS):
        analysis = analyse_job(job)
        latency = frame.loc[frame["stage"] == analysis.stage, "duration_ms"].to_numpy()
        slow = latency > 1.5 * np.median(latency)
        assert analysis.tasks == len(latency) and analysis.stragglers == slow.sum()
        assert analysis.delay_ms == pytest.approx((latency - np.median(latency))[slow].sum())


def test_evidence_of_every_metric_equals_the_plain_statistics(planted: Planted) -> None:
    for job in Jobs.from_tasks(planted.features, SETTINGS):
        analysis = analyse_job(job)
        for j, values in enumerate(known_values(job.metrics)):
            p = naive_hound.rank_sum_p(values, job.slow)
            assert analysis.p_value[j] == pytest.approx(p, rel=1e-9)
            expected = naive_hound.mean_quartile_difference(values, job.slow)
            assert analysis.quartile_difference[j] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_rank_sum_test_is_scipys() -> None:
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(4)
    for levels in (3, 1000):
        values, slow = rng.integers(0, levels, 80).astype(float), rng.random(80) < 0.3
        theirs = mannwhitneyu(
            values[slow], values[~slow], use_continuity=False, method="asymptotic"
        )
        p_value, _ = Ranked.of(values[None], slow).differences()
        assert p_value == pytest.approx(theirs.pvalue)


def job_of(x: np.ndarray, y: np.ndarray) -> TopicJob:
    """A job of metrics x, (tasks, metrics), and latencies y."""
    order, median = np.argsort(y, kind="stable"), float(np.median(y))
    return TopicJob(0, 0, 0, x[order], y[order], y[order] > 1.5 * median, median)


def job(seed: int, tasks: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Latency grows with metric 0, falls with 1, and has 2 beside 0; 3 is counts, 4 is noise."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(size=(tasks, 5))
    x[:, 2] = x[:, 0] * rng.lognormal(0, 0.1, tasks)
    x[:, 3] = rng.poisson(0.3, tasks)
    y = 1000 * np.exp(0.8 * np.log(x[:, 0]) - 0.5 * np.log(x[:, 1]) + 0.2 * rng.normal(size=tasks))
    return x, y


def profiles(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return analyse_job(job_of(x, y)).profiles


@given(seed=seeds)
def test_both_profiles_find_what_latency_follows_and_sum_to_one(seed: int) -> None:
    x, y = job(seed, tasks=300)
    x[:, 3] = 1e12
    found = profiles(x, y)
    # Of two metrics that are nearly the same the regression may take one.
    assert (found[:, [0, 2]].max(axis=1) > 0.1).all() and (found[:, 1] < -0.05).all()
    assert np.abs(found).sum(axis=1) == pytest.approx(1)
    assert not found[:, 3].any()


@given(seed=seeds)
def test_neither_order_nor_units_matter(seed: int) -> None:
    x, y = job(seed)
    rng = np.random.default_rng(seed)
    found, tasks, metrics = profiles(x, y), rng.permutation(len(x)), rng.permutation(x.shape[1])
    assert profiles(x[tasks], y[tasks]) == pytest.approx(found, abs=1e-6)
    assert profiles(x[:, metrics], y) == pytest.approx(found[:, metrics], abs=1e-6)
    assert profiles(x * np.array([1e-6, 1e9, 1, 4, 1e3]), y * 7) == pytest.approx(found, abs=1e-4)


def test_the_regression_is_a_ridge_whose_error_is_known() -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(4)
    x = rng.normal(size=(3, 400))
    x[2] = x[0] + 0.1 * rng.normal(size=400)
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    y = x[0] + rng.normal(size=400)
    effect, error = regression(x, 7 * y + 3)
    alike = [
        np.abs(Ridge(penalty * 400).fit(x.T, (y - y.mean()) / y.std()).coef_ - effect).max()
        for penalty in PENALTIES
    ]
    assert min(alike) < 1e-9
    assert effect[0] + effect[2] == pytest.approx(1 / y.std(), abs=0.1)
    assert abs(effect[1]) < 3 * error[1] and error[1] == pytest.approx(0.05 / y.std(), rel=0.2)


def test_what_only_follows_a_cause_has_less_than_it() -> None:
    # `waits` grows with latency, whatever its cause is; the cause tells of latency by itself.
    rng = np.random.default_rng(5)
    cause = (rng.random(400) < 0.1) * rng.uniform(1, 3, 400)
    y = (1 + cause) * rng.lognormal(0, 0.05, 400)
    x = np.stack([cause + rng.normal(0, 0.02, 400), y * rng.lognormal(0, 0.5, 400)], axis=1)
    of_cause, of_waits = np.abs(profiles(x, y)[0])
    assert of_cause > 4 * of_waits


def test_metrics_that_tell_nothing_mostly_have_no_weight() -> None:
    rng = np.random.default_rng(0)
    y = rng.lognormal(0, 0.5, 257)
    # By chance one in twenty is beyond two standard errors, and the median is not known for sure.
    assert (profiles(rng.normal(size=(257, 400)), y) != 0).mean(axis=1).max() < 0.1


def test_one_wrong_reading_moves_no_profile_far() -> None:
    for seed in range(10):
        x, y = job(seed, tasks=300)
        x[:, 2] = 1.0  # of two metrics that are nearly the same either may be taken
        clean = profiles(x, y)
        x[np.random.default_rng(seed).integers(300), :2] *= 1000
        assert np.abs(profiles(x, y) - clean).sum(axis=1).max() / 2 < 0.1


def test_no_metrics_equal_latencies_but_one_and_huge_numbers_are_no_trouble() -> None:
    x, y = job(1)
    assert profiles(x[:, :0], y).shape == (2, 0)
    same = np.full(len(x), 7.0)
    same[3] = 70.0
    assert np.isfinite(profiles(x, same)).all()
    assert np.abs(profiles(x * 1e290, y * 1e290)).sum(axis=1) == pytest.approx(1)


def test_a_sample_of_a_large_job_keeps_its_slowest_task() -> None:
    x, y = job(2, tasks=1000)
    found = analyse_job(job_of(x, y), most_tasks=50)
    assert found.tasks == 1000 and 0 < len(found.deviations.stragglers) < 50
    assert (np.sign(found.profiles[:, :2]) == [1, -1]).all()
