"""Finds causes of stragglers that recur across stages and queries: topics (Hound).

    features → jobs → looks (causality profiles) → topics per model → ensemble → mixtures

Each job (a stage with stragglers) is looked at by three kinds of base learners; what recurs in
many jobs is a topic, and stays one if several kinds of learners found it. P. Zheng, B. C. Lee,
Hound: Causal Learning for Datacenter-scale Straggler Diagnosis, SIGMETRICS 2018.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from iqcar.causes.topics.analyse_job import JobLook, look_at_job
    from iqcar.causes.topics.build_topics import topics_from
    from iqcar.causes.topics.causal import AdaBoostIPW, LogisticIPW
    from iqcar.causes.topics.dependence import PearsonCorrelation, SignedSchweizerWolff
    from iqcar.causes.topics.ensemble import TopicEnsemble
    from iqcar.causes.topics.jobs import Job, Jobs, Tally, metric_names
    from iqcar.causes.topics.keyword_evidence import share_kept
    from iqcar.causes.topics.meta import TopicModel
    from iqcar.causes.topics.predictive import BaggedElasticNet, LeastSquares
    from iqcar.causes.topics.topic_result import (
        MIXTURES,
        STRAGGLER_TOPICS,
        TOPIC_JOBS,
        TOPIC_SOURCES,
        TOPIC_WORDS,
        TOPICS,
        VALIDATION,
        Topics,
    )
    from iqcar.causes.topics.topic_search import find_topics
    from iqcar.causes.topics.topic_settings import TopicSettings

__all__ = [
    "MIXTURES",
    "STRAGGLER_TOPICS",
    "TOPICS",
    "TOPIC_JOBS",
    "TOPIC_SOURCES",
    "TOPIC_WORDS",
    "VALIDATION",
    "AdaBoostIPW",
    "BaggedElasticNet",
    "Job",
    "JobLook",
    "Jobs",
    "LeastSquares",
    "LogisticIPW",
    "PearsonCorrelation",
    "SignedSchweizerWolff",
    "Tally",
    "TopicEnsemble",
    "TopicModel",
    "TopicSettings",
    "Topics",
    "find_topics",
    "look_at_job",
    "metric_names",
    "share_kept",
    "topics_from",
]

__getattr__ = lazy_names(
    __name__,
    {
        "analyse_job": ("JobLook", "look_at_job"),
        "build_topics": ("topics_from",),
        "causal": ("AdaBoostIPW", "LogisticIPW"),
        "dependence": ("PearsonCorrelation", "SignedSchweizerWolff"),
        "ensemble": ("TopicEnsemble",),
        "topic_search": ("find_topics",),
        "jobs": ("Job", "Jobs", "Tally", "metric_names"),
        "keyword_evidence": ("share_kept",),
        "meta": ("TopicModel",),
        "predictive": ("BaggedElasticNet", "LeastSquares"),
        "topic_result": (
            "MIXTURES",
            "STRAGGLER_TOPICS",
            "TOPIC_JOBS",
            "TOPIC_SOURCES",
            "TOPIC_WORDS",
            "TOPICS",
            "VALIDATION",
            "Topics",
        ),
        "topic_settings": ("TopicSettings",),
    },
)
"""Not imported here: numba takes longer than a small analysis."""
