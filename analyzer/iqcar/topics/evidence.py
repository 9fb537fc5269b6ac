"""Evidence for topics, job by job: do stragglers differ in the keywords, do these tell of latency.

Mutual information is measured in an even selection of the jobs: its figures are means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.topics.result import VALIDATION
from iqcar.topics.validate import (
    SIGNIFICANT,
    mean_quartile_difference,
    mutual_information,
    rank_sum_p,
)

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.topics.jobs import Jobs

MOST_JOBS = 200
"""Jobs whose mutual information is measured at most: its mean is known to some percent by then."""
MOST_METRICS = 12
"""Metrics of a job outside its topics that are measured at most."""


def check_words(jobs: Jobs, mixtures: pd.DataFrame, words: pd.DataFrame) -> pd.DataFrame:
    """Compare stragglers with other tasks in every keyword of a job's topics (§5.2).

    Returns
    -------
    DataFrame of :data:`iqcar.topics.result.VALIDATION`
    """
    column = {name: j for j, name in enumerate(jobs.names)}
    keywords = _keywords(words)
    rows: list[tuple[int, int, str, float, float, bool]] = []
    for job, topics in _topics_of(mixtures).items():
        metrics, _ = jobs.known(job)
        slow = jobs.straggling(job)
        for topic in topics:
            for feature, sign in keywords.get(topic, ()):
                values = metrics[:, column[feature]]
                p = rank_sum_p(values, slow)
                quartile = np.percentile(values, (25, 75))
                width = float(quartile[1] - quartile[0]) or float(values.std()) or 1.0
                difference = mean_quartile_difference(values, slow) / width
                agrees = p < SIGNIFICANT and difference * sign > 0
                rows.append((job, topic, feature, p, difference, agrees))
    if not rows:
        return VALIDATION.empty()
    columns = zip(*rows, strict=True)
    return VALIDATION.frame(dict(zip(VALIDATION.column_names(), columns, strict=True)))


def information_of(jobs: Jobs, mixtures: pd.DataFrame, words: pd.DataFrame) -> dict[str, float]:
    """Mean mutual information in nats (appendix E), over an even selection of jobs.

    Returns
    -------
    dict
        `metrics_latency` (I_ML) and `others_latency` (I_UL): keywords of the job's topics, and
        metrics of none, with latency; `metrics_metrics` (I_MM) and `metrics_others` (I_MU):
        keywords of one topic with each other, and with metrics of none. NaN where there is none.
    """
    column = {name: j for j, name in enumerate(jobs.names)}
    keywords = _keywords(words)
    of = list(_topics_of(mixtures).items())
    step = -(-len(of) // MOST_JOBS) or 1
    found: dict[str, list[float]] = {
        "metrics_latency": [], "others_latency": [], "metrics_metrics": [], "metrics_others": [],
    }  # fmt: skip
    for job, topics in of[::step]:
        metrics, latency = jobs.known(job)
        inside = [[column[f] for f, _ in keywords.get(topic, ())] for topic in topics]
        named = {j for one in inside for j in one}
        varies = [j for j in range(metrics.shape[1]) if metrics[:, j].min() < metrics[:, j].max()]
        outside = [j for j in varies if j not in named][:MOST_METRICS]
        _mean(found["metrics_latency"], [(metrics[:, j], latency) for j in named])
        _mean(found["others_latency"], [(metrics[:, j], latency) for j in outside])
        pairs = [(a, b) for one in inside for i, a in enumerate(one) for b in one[:i]]
        _mean(found["metrics_metrics"], [(metrics[:, a], metrics[:, b]) for a, b in pairs])
        across = [(a, b) for a in named for b in outside]
        _mean(found["metrics_others"], [(metrics[:, a], metrics[:, b]) for a, b in across])
    return {name: float(np.mean(v)) if v else float("nan") for name, v in found.items()}


def _mean(into: list[float], pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    if pairs:
        into.append(float(np.mean([mutual_information(a, b) for a, b in pairs])))


def _keywords(words: pd.DataFrame) -> dict[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = {}
    for topic, feature, sign in zip(words["topic"], words["feature"], words["sign"], strict=True):
        found.setdefault(int(topic), []).append((str(feature), int(sign)))
    return found


def _topics_of(mixtures: pd.DataFrame) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for job, topic in zip(mixtures["job"].tolist(), mixtures["topic"].tolist(), strict=True):
        found.setdefault(job, []).append(topic)
    return found
