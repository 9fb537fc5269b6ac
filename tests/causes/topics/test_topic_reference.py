"""Topics beside algorithms 3 and 4 as printed on scikit-learn's base learners, on one trace.

The reference's profiles are kept (scripts/experiments/topic_reference.py writes them): they take
four minutes of a core.
"""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.causes.topics.build_topics import find_topics
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar_lab.printed.hound import ensemble, meta_learn, vocabulary
from tests.support import reference_hound
from tests.support.hound_traces import Planted, cause_of_words, plant
from tests.support.topic_truth import Nearness, known, nearness, nearness_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant(reference_hound.JOBS, reference_hound.SEED)


@pytest.fixture(scope="module")
def jobs(planted: Planted) -> Jobs:
    return Jobs.from_tasks(planted.features, TopicSettings())


@pytest.fixture(scope="module")
def kept(jobs: Jobs) -> np.ndarray:
    """The reference's profiles: (kinds, jobs, metrics)."""
    with np.load(reference_hound.KEPT) as file:
        assert file["stage"].tolist() == jobs.stage.tolist()
        return file["profiles"].astype(np.float64)


def test_the_kept_profiles_are_what_the_reference_says(jobs: Jobs, kept: np.ndarray) -> None:
    # Stumps that are equally good, and the versions of scikit-learn, leave some room.
    for job in np.argsort(np.diff(jobs.starts))[:2]:
        again = reference_hound.profiles(*known(jobs[int(job)]))
        for kind in range(3):
            assert np.corrcoef(again[kind], kept[kind, job])[0, 1] > 0.98


@pytest.fixture(scope="module")
def reference(planted: Planted, jobs: Jobs, kept: np.ndarray) -> Nearness:
    """Of algorithms 3 and 4 as printed on the reference's profiles: the mean of four draws."""
    words = vocabulary(jobs.names)
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        drawn = ensemble([meta_learn(profiles, rng) for profiles in kept])
        causes = [
            cause_of_words({words[i]: w for i, w in enumerate(row) if w > 0})
            for row in drawn.topics
        ]
        found.append(nearness_of(planted, causes, drawn.mixtures, jobs.stage))
    return Nearness(*np.mean(found, axis=0))


def test_what_is_recommended_is_nearer_than_the_reference(planted, reference) -> None:
    mine = nearness(planted, find_topics(planted.features))
    assert mine.variation < reference.variation - 0.1
    assert mine.f1 > reference.f1 + 0.1
    assert mine.dominant > reference.dominant
