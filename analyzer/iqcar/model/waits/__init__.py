"""Waits of every task for each request, with evidence, and an account of the task's duration.

The account (iQCAR table 1 and fig. 2) divides the time from launch to finish into computing,
garbage collection, deserialisation, waits, serialisation and fetching of the result; the rest is
``unattributed_ms``. The parts sum to the duration. Metrics that overlap (scan time includes CPU
time, for example) are counted once: each part takes at most what the parts before it left.
"""
