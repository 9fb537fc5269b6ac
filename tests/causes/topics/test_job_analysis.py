"""Looks at jobs: each job once, anywhere, in any order; what is kept of stragglers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.topics.analyse_job import MOST_TASKS, JobAnalysis, analyse_job, lot
from iqcar.causes.topics.build_topics import find_topics, topics_from
from iqcar.causes.topics.jobs import Jobs, Tally
from iqcar.causes.topics.kernels.ranks import Ranks
from iqcar.causes.topics.keyword_evidence import share_kept
from iqcar.causes.topics.mixture_by_straggler import deviations_of_job
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.causes.topics.validate import differences
from tests.support import naive_hound
from tests.support.hound_traces import Planted, features_from, plant
from tests.support.topic_truth import known

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
    analyses: list[JobAnalysis] = []
    tally = Tally(0, 0, 0)
    names: tuple[str, ...] = ()
    for stage in np.random.default_rng(0).permutation(30):
        frame = features.frame[features.frame["stage"] == stage]
        jobs = Jobs.from_tasks(TaskFeatures(frame, features.features, features.labels), SETTINGS)
        tally += jobs.tally
        names = jobs.names
        sent = [pickle.dumps(analyse_job(job, SETTINGS)) for job in jobs]
        analyses += [pickle.loads(one) for one in sent]  # noqa: S301 (our own bytes)
    assert tally.seen == 30 and tally.small > 0
    same(topics_from(analyses, names, SETTINGS, tally, features.labels), find_topics(features))


def test_a_look_counts_what_the_jobs_frame_holds(planted: Planted) -> None:
    frame = planted.features.frame
    for job in Jobs.from_tasks(planted.features, SETTINGS):
        analysis = analyse_job(job, SETTINGS)
        latency = frame.loc[frame["stage"] == analysis.stage, "duration_ms"].to_numpy()
        slow = latency > 1.5 * np.median(latency)
        assert analysis.tasks == len(latency) and analysis.stragglers == slow.sum()
        assert analysis.delay_ms == pytest.approx((latency - np.median(latency))[slow].sum())


def test_evidence_of_every_metric_equals_the_plain_statistics(planted: Planted) -> None:
    for job in Jobs.from_tasks(planted.features, SETTINGS):
        analysis = analyse_job(job, SETTINGS)
        metrics, _ = known(job)
        for j, values in enumerate(metrics.T):
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
        ranks = Ranks.from_metrics(values[:, None])
        found = differences(ranks.order, ranks.ordered, slow)
        assert found[0] == pytest.approx(theirs.pvalue)


def test_stragglers_are_kept_where_topics_are_shared_out_by_straggler(planted: Planted) -> None:
    for job in Jobs.from_tasks(planted.features, SETTINGS):
        deviations = analyse_job(job, SETTINGS).deviations
        expected = deviations_of_job(*known(job), SETTINGS)
        assert deviations is not None
        assert np.array_equal(deviations.stragglers, expected.stragglers)
        assert len(deviations.stragglers) == job.slow.sum()


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
    (job,) = Jobs.from_tasks(features_from(table), SETTINGS)
    kept = analyse_job(job, SETTINGS).kept
    assert len(kept.latency_ms) == MOST_TASKS
    assert kept.latency_ms[[0, -1]].tolist() == [latency.min(), latency.max()]
    assert analyse_job(job, SETTINGS, lot(3)).kept is None
