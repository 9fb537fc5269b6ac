"""Which process of a distributed test run takes which files, and in which order.

A file's tests run in one process, so that what its fixtures record is recorded once; so do the
files that share a cluster or a recording. Long files come first: a long one at the end would keep
one process busy while the others have nothing to do. Tests of Spark and browsers wait most of their
time: all processes but one begin with them, and that one with the other tests, so that the
processor is busy all the time and no more than the first processes measure at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

CLUSTER, KNOWN_WAITS, REAL_LOGS = "a cluster", "known waits", "real logs"
SHARED = {
    "tests/spark/test_caps_faults.py": CLUSTER,
    "tests/spark/test_executors_shared.py": CLUSTER,
    "tests/spark/test_fleet.py": CLUSTER,
    "tests/spark/test_listener_cluster.py": CLUSTER,
    "tests/spark/test_wasted_live.py": CLUSTER,
    "tests/logs/test_eventlog_codecs.py": KNOWN_WAITS,
    "tests/spark/test_listener_diagnosis.py": KNOWN_WAITS,
    "tests/spark/test_listener_history.py": KNOWN_WAITS,
    "tests/spark/test_listener_waits.py": KNOWN_WAITS,
    "tests/browser/test_report_page_logs.py": REAL_LOGS,
    "tests/logs/test_shared_logs.py": REAL_LOGS,
    "tests/show/pictures/test_plots.py": REAL_LOGS,
    "tests/show/pictures/test_timeline.py": REAL_LOGS,
    "tests/rules/test_rules_advice.py": REAL_LOGS,
    "tests/causes/stragglers/test_stragglers_cli.py": REAL_LOGS,
    "tests/causes/topics/test_topics_cli.py": REAL_LOGS,
}
"""What lives as long as a process and serves several files."""
WAITING = (CLUSTER, KNOWN_WAITS, "tests/spark/", "tests/browser/")
LONGEST = (
    "tests/apps/serve/test_serve_live.py",
    CLUSTER,
    KNOWN_WAITS,
    "tests/spark/test_yarn.py",
    "tests/spark/test_yarn_queues.py",
    "tests/spark/test_demo.py",
    "tests/spark/test_attach.py",
    "tests/spark/test_plugin_under_faults.py",
    "tests/spark/test_listener_life.py",
    REAL_LOGS,
    "tests/comparison/test_compare_cli.py",
    "tests/apps/serve/test_serve_faults.py",
    "tests/causes/blame/test_blame.py",
    "tests/rules/test_rules_fingerprints.py",
    "tests/base/files/test_derived_files.py",
    "tests/comparison/test_compare_pairs.py",
    "tests/causes/topics/test_topic_truth.py",
)
"""What takes longest, in this order; the others take about as long as each other."""


class FilesInTurn(LoadScopeScheduling):
    """Hands out files, those that take longest first."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SHARED.get(file, file)

    def _reschedule(self, node: WorkerController) -> None:
        # What a process that crashed had done already is queued again, and who got it would wait.
        for unit in [unit for unit, tests in self.workqueue.items() if all(tests.values())]:
            del self.workqueue[unit]
        super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = node is not self.nodes[-1]
        chosen = min(self.workqueue, key=lambda unit: turn(unit, waits))
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def turn(unit: str, waits: bool) -> tuple[bool, int]:
    """What a process takes first sorts first."""
    rank = LONGEST.index(unit) if unit in LONGEST else len(LONGEST)
    return unit.startswith(WAITING) != waits, rank
