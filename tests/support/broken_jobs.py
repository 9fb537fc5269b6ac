"""One application with Python tasks of 2 s and rules that change.

Arguments: the rules file, and its next text. It ends when the pools are those of the next text and
a job has run after that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext

RULES, NEXT = Path(sys.argv[1]), sys.argv[2]
sc = SparkContext(appName="broken")
scheduler: Any = sc._jsc.sc().taskScheduler()


def sleep(rows: Iterator[int]) -> Iterator[int]:
    time.sleep(2)
    return iter([len(list(rows))])


def weights() -> dict[str, int]:
    """The weight of each pool that the scheduler has now."""
    queue = scheduler.rootPool().schedulableQueue().toArray()
    return {pool.name(): int(pool.weight()) for pool in queue}


sc.setJobGroup("doze", "doze")
print("SUM", sum(sc.parallelize(range(4), 2).mapPartitions(sleep).collect()), flush=True)
beside = RULES.with_name("beside")
beside.write_text(NEXT, encoding="utf-8")
beside.replace(RULES)
while weights().get("first") != 7:
    time.sleep(0.05)
sc.setJobGroup("many", "many")
print("SUM", sum(sc.parallelize(range(4), 4).collect()), flush=True)
sc.stop()
