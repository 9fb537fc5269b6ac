"""The verdict on a diagnosis as data: what slowed each query, by how much, by whom, how surely."""

from iqcar.say.blamed import Blamed
from iqcar.say.findings import Finding, MainFinding, all_doubts, find_verdict, meanings

__all__ = ["Blamed", "Finding", "MainFinding", "all_doubts", "find_verdict", "meanings"]
