"""A job whose tasks wait until an executor is asked to leave. Usage: leaving_jobs.py FILE

The file appears once it has been asked. Prints ``BEGUN`` and the application's id, then ``RESULT``.
"""

import sys
import time
from pathlib import Path

from pyspark import SparkContext

LEFT = sys.argv[-1]
TASKS, EXECUTORS = 12, 2


def work(number: int) -> int:
    while not Path(LEFT).exists():
        time.sleep(0.05)
    time.sleep(0.2)
    return number


if __name__ == "__main__":
    sc = SparkContext()
    while sc._jsc.sc().getExecutorMemoryStatus().size() <= EXECUTORS:  # type: ignore[attr-defined]
        time.sleep(0.05)
    print("BEGUN", sc.applicationId, flush=True)
    sc.setJobGroup("many", "leaving")
    print("RESULT", sc.parallelize(range(TASKS), TASKS).map(work).sum(), flush=True)
    sc.stop()
