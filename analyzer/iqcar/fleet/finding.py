"""From looks at jobs to topics: the part that has to see all jobs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.stragglers.features import TaskFeatures
from iqcar.stragglers.feature_list import FEATURE_LIST
from iqcar.topics.ensemble import TopicEnsemble
from iqcar.topics.find import _result
from iqcar.topics.jobs import Jobs
from iqcar.topics.learners import base_learners
from iqcar.topics.meta import TopicModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iqcar.fleet.looks import Looks
    from iqcar.fleet.steps import Tally
    from iqcar.stragglers.labels import Labels
    from iqcar.topics import Topics, TopicSettings


def topics_of_looks(looks, tallies, stages, labels, doubts, settings):
    looks = sorted(looks, key=lambda one: int(one.jobs.stage[0]))
    # bundles of one group are in order, but groups interleave
    jobs, profiles = _joined(looks, tallies, settings)
    models = {
        kind: TopicModel(
            least_topics=settings.least_topics,
            most_topics=settings.most_topics,
            coverage=settings.coverage,
            trim=settings.trim,
            words=settings.words,
        ).fit(profile)
        for kind, profile in profiles.items()
    }
    ensemble = TopicEnsemble(settings.trim, settings.balance).fit(list(models.values()))
    rows = stages.iloc[jobs.stage]
    frame = pd.DataFrame({"app": rows["app"].to_numpy(), "query": rows["query"].to_numpy()})
    features = TaskFeatures(frame, FEATURE_LIST, labels, doubts)
    return _result(features, jobs, settings, models, ensemble)


def _joined(looks, tallies, settings):
    names = tuple(sorted(f.name for f in FEATURE_LIST if f.name not in {"run_ms"}))
    kinds = base_learners(settings.learners, settings.seed)
    parts = []
    for one in looks:
        j = one.jobs
        for n in range(len(j)):
            part = slice(int(j.starts[n]), int(j.starts[n + 1]))
            parts.append((int(j.stage[n]), j.metrics[part], j.latency_ms[part], j.median_ms[n], {k: p[n] for k, p in one.profiles.items()}))
    parts.sort(key=lambda x: x[0])
    sizes = [len(p[2]) for p in parts]
    jobs = Jobs(
        names=names,
        metrics=np.concatenate([p[1] for p in parts]) if parts else np.zeros((0, len(names))),
        latency_ms=np.concatenate([p[2] for p in parts]) if parts else np.zeros(0),
        median_ms=np.array([p[3] for p in parts], np.float64),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        rows=np.repeat(np.arange(len(parts)), sizes),
        stage=np.array([p[0] for p in parts], np.int64),
        seen=sum(t.seen for t in tallies),
        small=sum(t.small for t in tallies),
        even=sum(t.even for t in tallies),
        threshold=settings.straggler,
    )
    profiles = {k: np.array([p[4][k] for p in parts]).reshape(len(parts), len(names)) for k in kinds}
    return jobs, profiles
