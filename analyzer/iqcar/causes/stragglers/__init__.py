"""Finds stragglers and their causes (BigRoots), from features of every task.

    tables → features → peers → marks (BigRoots, measured waits) → causes → blamed queries

A straggler takes more than 1.5 times its stage's median. Each of its features is compared with
those of its peers; what stands out is a cause.
"""

from iqcar.causes.stragglers.features import build_features
from iqcar.causes.stragglers.find_stragglers import explain

__all__ = ["build_features", "explain"]
