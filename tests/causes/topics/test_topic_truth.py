"""Topics of traces with planted causes: are they found, and how well."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.topics.analyse_job import known_values
from iqcar.causes.topics.build_topics import find_topics
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.topic_counts import mixture_matrix
from iqcar.causes.topics.topic_result import Topics, TopicSettings
from tests.support.hound_traces import CAUSES, NOISE, Planted, features_from, plant
from tests.support.topic_truth import causes_found, nearness

pytestmark = pytest.mark.slow

JOBS = 240
SEED = 11
UNSEEN = (SEED, 12)
"""Thresholds, and the constants of `shares`, were chosen on other seeds (101 to 106); those of
docs/topics.md (201 and on) were not used for it either."""


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant(JOBS, SEED)


@pytest.fixture(scope="module")
def found(planted: Planted) -> Topics:
    return find_topics(planted.features)


def test_every_planted_cause_is_a_topic(found: Topics) -> None:
    assert set(causes_found(found)) - {None} == set(CAUSES)


def test_what_is_no_cause_weighs_next_to_nothing(found: Topics) -> None:
    unknown = [cause is None for cause in causes_found(found)]
    assert found.topics["mean_share"].to_numpy()[unknown].sum() < 0.08
    noise = found.words["feature"].isin(NOISE)
    heavy = found.topics["mean_share"].to_numpy()[found.words["topic"]] > 0.05
    assert not (noise & heavy).any()


@pytest.mark.parametrize(
    ("kind", "variation", "f1"),
    [
        ({}, 0.12, 0.90),
        ({"tail_only": 1.0}, 0.14, 0.88),
        ({"outliers": 0.02, "missing": 0.15}, 0.20, 0.82),
        pytest.param({"tasks": (20, 60)}, 0.21, 0.80, marks=pytest.mark.long),
        pytest.param({"skewed": 0.0, "shift": 0.8}, 0.21, 0.81, marks=pytest.mark.long),
        pytest.param({"entangled": 0.6}, 0.30, 0.74, marks=pytest.mark.long),
    ],
)
def test_mixtures_are_near_to_what_was_planted(kind: dict, variation: float, f1: float) -> None:
    near = [nearness(trace, find_topics(trace.features)) for trace in unseen(kind)]
    assert np.mean([one.variation for one in near]) < variation
    assert np.mean([one.f1 for one in near]) > f1


def unseen(kind: dict) -> list[Planted]:
    return [plant(150, seed, **kind) for seed in UNSEEN]


def test_larger_jobs_are_nearer(planted: Planted, found: Topics) -> None:
    truth = planted.mixtures[found.jobs["stage"].to_numpy()]
    mixtures = mixture_matrix(found)
    estimate = np.zeros_like(truth)
    for topic, cause in enumerate(causes_found(found)):
        if cause is not None:
            estimate[:, planted.causes.index(cause)] += mixtures[:, topic]
    wrong = np.abs(truth - estimate).sum(axis=1) / 2
    tasks = found.jobs["tasks"].to_numpy()
    assert wrong[tasks >= 300].mean() < 0.8 * wrong[tasks < 40].mean()


def test_shares_and_weights_sum_to_one(found: Topics) -> None:
    assert found.mixtures.groupby("job")["share"].sum().to_numpy() == pytest.approx(1)
    assert found.words.groupby("topic")["weight"].sum().to_numpy() == pytest.approx(1)
    assert (found.topics["dominant_coverage"] <= found.topics["coverage"]).all()
    assert (found.mixtures["share"] >= 0.1 - 1e-9).all()


def test_keywords_are_borne_out_by_the_tasks(found: Topics) -> None:
    """§5.2: in most jobs with enough tasks stragglers differ from others as the keyword says."""
    large = found.jobs["tasks"].to_numpy()[found.validation["job"]] >= 100
    assert found.validation[large]["agrees"].mean() > 0.5


def small() -> Planted:
    return plant(40, 3, tasks=(20, 120))


def test_the_same_tasks_give_the_same_topics() -> None:
    first, again = (find_topics(small().features) for _ in range(2))
    for name in ("topics", "words", "jobs", "mixtures", "validation"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(again, name))


def test_the_order_of_tasks_metrics_and_jobs_changes_nothing_but_order() -> None:
    features = small().features
    rng = np.random.default_rng(0)
    frame = features.frame.iloc[rng.permutation(len(features.frame))].reset_index(drop=True)
    relabelled = rng.permutation(40)
    frame = frame.assign(stage=relabelled[frame["stage"]].astype(np.int32))
    shuffled = TaskFeatures(frame, features.features[::-1], features.labels)
    first, other = find_topics(features), find_topics(shuffled)
    assert other.words["word"].tolist() == first.words["word"].tolist()
    assert other.words["weight"].to_numpy() == pytest.approx(first.words["weight"].to_numpy())
    mine, theirs = mixture_matrix(first), mixture_matrix(other)
    place = {int(stage): job for job, stage in enumerate(other.jobs["stage"])}
    rows = [place[int(relabelled[stage])] for stage in first.jobs["stage"]]
    assert theirs[rows] == pytest.approx(mine, abs=1e-6)


def table(stages: int, tasks: int, *, slow: float = 5.0, **metrics: np.ndarray) -> TaskFeatures:
    rng = np.random.default_rng(0)
    n = stages * tasks
    latency = rng.lognormal(0, 0.05, n) * 1000
    latency[:: max(tasks, 1)] *= slow
    columns = {"stage": np.repeat(np.arange(stages), tasks), "duration_ms": latency}
    return features_from(pd.DataFrame({**columns, **metrics}))


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        (table(0, 0, m=np.zeros(0)), "No task has a known duration."),
        (table(3, 10, m=np.arange(30.0)), "3 have too few tasks"),
        (table(3, 30, slow=1.0, m=np.arange(90.0)), "3 have no stragglers"),
        (table(3, 30), "No metric"),
        (table(3, 30, m=np.ones(90), n=np.full(90, np.nan)), "do not agree"),
    ],
)
def test_nothing_to_find_is_said_with_its_reason(features: TaskFeatures, reason: str) -> None:
    found = find_topics(features)
    assert reason in found.reason
    assert not len(found.topics) and not len(found.mixtures)


def test_one_job_has_a_topic_and_a_doubt() -> None:
    features = table(1, 100, m=np.where(np.arange(100) == 0, 9.0, np.arange(100) % 7 / 7))
    latency = features.frame["m"].to_numpy() * 1000 + 1000
    found = find_topics(TaskFeatures(features.frame.assign(duration_ms=latency), features.features,
                                     features.labels))  # fmt: skip
    assert found.words["word"].tolist() == ["m(+)"]
    assert found.mixtures["share"].tolist() == [1.0]
    assert any("nothing is known to recur" in doubt for doubt in found.doubts)


def test_thousands_of_identical_jobs_have_one_mixture() -> None:
    rng = np.random.default_rng(0)
    slow = np.arange(20) < 3
    job = pd.DataFrame(
        {
            "duration_ms": np.where(slow, 3000.0, 1000.0) * rng.uniform(0.95, 1.05, 20),
            "m": np.where(slow, 9.0, 1.0) * rng.uniform(0.9, 1.1, 20), "n": rng.random(20),
        }
    )  # fmt: skip
    trace = pd.concat([job] * 2000, ignore_index=True)
    trace["stage"] = np.repeat(np.arange(2000), 20)
    found = find_topics(features_from(trace))
    mixtures = mixture_matrix(found)
    assert len(mixtures) == 2000 and (mixtures == mixtures[0]).all()
    assert mixtures[0].sum() == pytest.approx(1)
    assert found.words_of(int(mixtures[0].argmax()))["m(+)"] > 0.5


def test_bad_latencies_and_metrics_are_left_out() -> None:
    features = small().features
    frame = features.frame.copy()
    expected = find_topics(features).words
    rows = pd.DataFrame([frame.iloc[0]] * 4).assign(
        duration_ms=[np.nan, np.inf, -1.0, 0.0], stage=np.int32(0)
    )
    bad = pd.concat([frame, rows], ignore_index=True)
    bad.loc[5:7, "CPI"] = np.inf
    frame.loc[5:7, "CPI"] = np.nan
    whole = find_topics(TaskFeatures(bad, features.features, features.labels))
    clean = find_topics(TaskFeatures(frame, features.features, features.labels))
    pd.testing.assert_frame_equal(whole.words, clean.words)
    assert set(expected["word"]) & set(clean.words["word"])


def test_unknown_readings_take_the_median_and_unknown_metrics_are_none() -> None:
    values = np.arange(60.0)
    values[:30] = np.nan
    values[3] = 100.0
    features = table(2, 30, m=values, slow=9.0)
    jobs = Jobs.from_tasks(features, TopicSettings())
    assert not known_values(jobs[0].metrics).any()  # one of 30 is known
    assert not np.isnan(known_values(jobs[1].metrics)).any()
    values[40] = np.nan
    jobs = Jobs.from_tasks(table(2, 30, m=values, slow=9.0), TopicSettings())
    assert (
        np.isin(45.0, known_values(jobs[1].metrics))
        and len(np.unique(known_values(jobs[1].metrics))) == 29
    )
