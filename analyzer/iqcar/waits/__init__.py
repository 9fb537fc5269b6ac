"""What every task waited for, with evidence, and an account of its whole life.

The account (iQCAR table 1 and fig. 2): from launch to finish a task computes, collects garbage,
deserialises, waits, serialises its result and has it fetched; what none of these explains is
``unattributed_ms``. The parts sum to the duration, so evidence that overlaps (scan time holds CPU
time, for one) is counted once: every part takes at most what the parts before it left.
"""

from iqcar.waits.columns import (
    ACCOUNT,
    ESTIMATED,
    IN_TASK_REQUESTS,
    MEASURED,
    MISSING,
    REPORTED,
    WAITS,
    evidence_column,
    requests_of,
    wait_column,
)
from iqcar.waits.measure import measure_waits

__all__ = [
    "ACCOUNT",
    "ESTIMATED",
    "IN_TASK_REQUESTS",
    "MEASURED",
    "MISSING",
    "REPORTED",
    "WAITS",
    "evidence_column",
    "measure_waits",
    "requests_of",
    "wait_column",
]
