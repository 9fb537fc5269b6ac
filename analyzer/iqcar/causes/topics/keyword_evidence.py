"""Measures per job whether stragglers differ in a topic's keywords and these tell of latency.

Mutual information is measured in an even selection of the jobs: its figures are means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from iqcar.causes.topics.analyse_job import JobAnalysis, lot
from iqcar.causes.topics.topic_result import VALIDATION
from iqcar.causes.topics.validate import SIGNIFICANT, Binned, in_bins, mutual_information

MOST_JOBS = 200
"""Jobs whose mutual information is measured at most: its mean is known to some percent by then."""
TO_CHOOSE_FROM = 2.0
"""Tasks are kept of so many times as many jobs: not all jobs will have topics."""
MOST_METRICS = 12
"""Metrics of a job outside its topics that are measured at most."""


def share_kept(jobs: int) -> float:
    """Share of the jobs whose tasks are to be kept (`kept` of `analyse_job`), of so many jobs."""
    return min(TO_CHOOSE_FROM * MOST_JOBS / max(jobs, 1), 1.0)


def check_words(
    analyses: Sequence[JobAnalysis],
    names: Sequence[str],
    mixtures: pd.DataFrame,
    words: pd.DataFrame,
) -> pd.DataFrame:
    """Compare stragglers with other tasks in every keyword of a job's topics (§5.2).

    Frame of `VALIDATION`.
    """
    if not len(mixtures):
        return VALIDATION.empty()
    column = {name: j for j, name in enumerate(names)}
    pairs = mixtures[["job", "topic"]].merge(words[["topic", "feature", "sign"]], on="topic")
    # A merge keeps the order of the left side; keywords come in the order of their weight.
    job = pairs["job"].to_numpy(np.int64)
    metric = np.array([column[str(name)] for name in pairs["feature"].tolist()], np.int64)
    p = np.stack([analysis.p_value for analysis in analyses])[job, metric]
    difference = np.stack([analysis.quartile_difference for analysis in analyses])[job, metric]
    agrees = (p < SIGNIFICANT) & (difference * pairs["sign"].to_numpy(np.float64) > 0)
    return VALIDATION.frame(
        {
            "job": job, "topic": pairs["topic"].to_numpy(), "feature": pairs["feature"].tolist(),
            "p_value": p, "quartile_difference": difference, "agrees": agrees,
        }
    )  # fmt: skip


def information_of(
    analyses: Sequence[JobAnalysis],
    names: Sequence[str],
    mixtures: pd.DataFrame,
    words: pd.DataFrame,
) -> dict[str, float]:
    """Mean mutual information in nats (appendix E), over an even selection of jobs.

    `metrics_latency` (I_ML) and `others_latency` (I_UL): keywords of the job's topics, and metrics
    of none, with latency; `metrics_metrics` (I_MM) and `metrics_others` (I_MU): keywords of one
    topic with each other, and with metrics of none. NaN where there is none.
    """
    column = {name: j for j, name in enumerate(names)}
    keywords = _keywords(words)
    topics_of = _topics_of(mixtures)
    jobs = [job for job in topics_of if analyses[job].kept is not None]
    jobs = sorted(sorted(jobs, key=lambda job: lot(analyses[job].stage))[:MOST_JOBS])
    found: dict[str, list[float]] = {
        "metrics_latency": [], "others_latency": [], "metrics_metrics": [], "metrics_others": [],
    }  # fmt: skip
    for job in jobs:
        kept = analyses[job].kept
        if kept is None:
            continue
        metrics, latency = kept.metrics, kept.latency_ms
        inside = [[column[f] for f in keywords.get(topic, ())] for topic in topics_of[job]]
        named = {j for group in inside for j in group}
        varies = [j for j in range(metrics.shape[1]) if metrics[:, j].min() < metrics[:, j].max()]
        outside = [j for j in varies if j not in named][:MOST_METRICS]
        of_latency = in_bins(latency)
        binned = {j: in_bins(metrics[:, j]) for j in (*named, *outside)}
        _mean(found["metrics_latency"], [(binned[j], of_latency) for j in named])
        _mean(found["others_latency"], [(binned[j], of_latency) for j in outside])
        pairs = [(a, b) for group in inside for i, a in enumerate(group) for b in group[:i]]
        _mean(found["metrics_metrics"], [(binned[a], binned[b]) for a, b in pairs])
        across = [(a, b) for a in named for b in outside]
        _mean(found["metrics_others"], [(binned[a], binned[b]) for a, b in across])
    return {name: float(np.mean(v)) if v else float("nan") for name, v in found.items()}


def _mean(into: list[float], pairs: list[tuple[Binned, Binned]]) -> None:
    if pairs:
        into.append(float(np.mean([mutual_information(a, b) for a, b in pairs])))


def _keywords(words: pd.DataFrame) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for topic, feature in zip(words["topic"], words["feature"], strict=True):
        found.setdefault(int(topic), []).append(str(feature))
    return found


def _topics_of(mixtures: pd.DataFrame) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for job, topic in zip(mixtures["job"].tolist(), mixtures["topic"].tolist(), strict=True):
        found.setdefault(job, []).append(topic)
    return found
