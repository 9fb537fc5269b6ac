"""The verdict on a diagnosis as data: what slowed each query, by how much, by whom, how surely."""

from iqcar.say.blamed import Blamed
from iqcar.say.finding import Finding
from iqcar.say.verdict import Target, Verdict, all_doubts, find_verdict, meanings

__all__ = ["Blamed", "Finding", "Target", "Verdict", "all_doubts", "find_verdict", "meanings"]
