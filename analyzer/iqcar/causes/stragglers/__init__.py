"""Finds stragglers and their causes (BigRoots), from features of every task.

    tables → features → peers → marks (BigRoots, measured waits) → causes → blamed queries

A straggler takes more than 1.5 times its stage's median. Each of its features is compared with
those of its peers; what stands out is a cause. Features come from event logs
(:func:`build_features`) or from a trace of another system
(:mod:`iqcar.lab.traces.trace_features`).
"""

from iqcar.causes.stragglers.feature_list import FEATURE_LIST, FEATURES, PAPER_FEATURES, Feature
from iqcar.causes.stragglers.features import TaskFeatures, build_features
from iqcar.causes.stragglers.find_stragglers import explain, find_stragglers
from iqcar.causes.stragglers.straggler_result import (
    STRAGGLER_CAUSES,
    STRAGGLER_SOURCES,
    STRAGGLERS,
    Stragglers,
)
from iqcar.causes.stragglers.straggler_settings import StragglerSettings

__all__ = [
    "FEATURES",
    "FEATURE_LIST",
    "PAPER_FEATURES",
    "STRAGGLERS",
    "STRAGGLER_CAUSES",
    "STRAGGLER_SOURCES",
    "Feature",
    "StragglerSettings",
    "Stragglers",
    "TaskFeatures",
    "build_features",
    "explain",
    "find_stragglers",
]
