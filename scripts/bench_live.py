"""Measure what an event costs at the end of a long log that is followed, and what memory it takes.

    scripts/bench live           200,000 tasks in 20,000 queries
    scripts/bench live --full    a day of 5,000,000 tasks

The log is made while it is read, as Spark would write it: 58 tasks a second, ten of a query. Shown
is the processor time of the last tenth of the events against that of the second one (the first one
fills the window), with a window diagnosed every five minutes of the log (every ten in the full
run), and the growth of memory from the second tenth to the end.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

from iqcar.diagnosis import Settings
from iqcar.live.growing_log import GrowingLog
from iqcar.live.window import window_of
from iqcar.logs.find.layouts import EventLog, LogPart
from iqcar.logs.ingest import LineTally
from iqcar_lab.clusters.event_log import TASK_MS, StreamedLog, stage_info
from iqcar_lab.clusters.large_logs import START, start_query, with_cluster
from scripts.benchmarks import Goals, parser_of, sized

MOST_RATIO = 1.3
"""Goal: processor time of the last tenth over that of the second; noise is 1.2."""
MOST_GROWTH = 1.2
"""Goal: memory at the end over that after the second tenth."""
TASKS = 10
"""Of a query."""
BETWEEN_MS = 172
"""Between two queries: 5 million tasks in a day."""
BLOCK_LINES = 2_000
WINDOW_MS = 60_000.0


def blocks(tasks: int) -> Iterator[bytes]:
    """Make the lines of a log, a block at a time."""
    log = StreamedLog(Path("/dev/null"), "app-live")
    log.app("live", start=START).environment(spark_task_cpus="1")
    where = with_cluster(log, 16)
    for query in range(tasks // TASKS):
        begin = START + 1000 + query * BETWEEN_MS
        info = stage_info(query, submission=begin, **{"Number of Tasks": TASKS})
        log.stage(info, start_query(log, query, [info], begin))
        for task in range(TASKS):
            log.run_task(query, begin + 10, where[(query * TASKS + task) % len(where)])
        end = begin + 10 + TASK_MS
        log.stage_end(info, end).job_end(query, end).sql_end(query, end)
        if len(log.lines) > BLOCK_LINES // 2:
            yield log.bytes()
            log.lines.clear()


def memory_mb() -> float:
    """Return the memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> int:
    options = parser_of(__doc__, full="a day of 5,000,000 tasks").parse_args()
    tasks, look_ms = sized(
        options, quick=(5_000, 30_000.0), usual=(200_000, 300_000.0), full=(5_000_000, 600_000.0)
    )
    log = EventLog("app-live", (LogPart("app-live", "app-live", 0),), in_progress_hint=True)
    growing, tally = GrowingLog(WINDOW_MS), LineTally()
    spent, memory, looked = [0.0] * 10, [0.0] * 10, 0.0
    for text in blocks(tasks):
        began = time.process_time()
        growing.take(text)
        if growing.newest_ms - looked >= look_ms:
            looked = growing.newest_ms
            window_of(growing, log, tally, Settings())
        done = growing.forgotten.tasks + growing.log.tasks.rows
        tenth = min(10 * done // tasks, 9)
        spent[tenth] += time.process_time() - began
        memory[tenth] = max(memory[tenth], memory_mb())
    for tenth in range(10):
        each = spent[tenth] / (tasks / 10) * 1e6
        print(f"tenth {tenth + 1:>2}: {each:6.1f} µs a task, {memory[tenth]:7.0f} MB")
    goals = Goals()
    goals.most("time of the last tenth over that of the second", spent[-1] / spent[1], MOST_RATIO)
    goals.most("memory after the last tenth over the second", memory[-1] / memory[1], MOST_GROWTH)
    return goals.end()


if __name__ == "__main__":
    raise SystemExit(main())
