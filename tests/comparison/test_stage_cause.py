"""The kind and cause of a stage's change follow from what differs, in the order of the evidence."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pytest

from iqcar.comparison.causes.blame_change import BLAME_CHANGES
from iqcar.comparison.causes.contention_chains import ContentionChains, Root
from iqcar.comparison.causes.differences import Symptom, setting_differences
from iqcar.comparison.causes.shared_cause import SharedCause
from iqcar.comparison.causes.stage_cause import CategoryMeasures, StageCause, stage_causes
from iqcar.enums import ChangeKind
from iqcar.model.waits.stage_parts import PART_NAMES

SAME = {
    "time_ms": 1000.0, "cpu_ms": 4000.0, "bytes": 1e8, "records": 1e6, "tasks": 8.0,
    "partitions": 8.0, "spill_bytes": 0.0, "bytes_max_over_mean": 1.5,
    **dict.fromkeys(PART_NAMES, 100.0),
}  # fmt: skip


def changed(evidence: str = "time", relabelled: bool = False, **after: float) -> CategoryMeasures:
    """A stage that takes twice as long, with some measures changed."""
    now = SAME | {"time_ms": 2000.0} | after
    return CategoryMeasures(
        0, dict(SAME), now, ("SortMergeJoin", "SortMergeJoin"), relabelled, evidence
    )


def blame(*rows: tuple[str, int, float, bool]) -> pd.DataFrame:
    """Growth of lost time by (resource, source, ms, named); source −1 is the query itself."""
    n = len(rows)
    return BLAME_CHANGES.frame(
        {
            "category": [0] * n,
            "resource": [resource for resource, *_ in rows],
            "kind": ["query" if source >= 0 else "own" for _, source, *_ in rows],
            "source": [source for _, source, *_ in rows],
            "before_ms": [0.0] * n,
            "after_ms": [ms for *_, ms, _ in rows],
            "change_ms": [ms for *_, ms, _ in rows],
            "work_growth": [float("inf")] * n,
            "presence_growth": [float("inf")] * n,
            "named": [named for *_, named in rows],
        }
    )


@pytest.mark.parametrize(
    ("after", "kind", "cause"),
    [
        ({"partitions": 80.0}, "structure", "partitions"),
        ({"partitions": 80.0, "bytes": 2e8, "spill_bytes": 9e8}, "structure", "partitions"),
        ({"bytes": 2e8}, "data", "data:input_bytes"),
        ({"records": 2e6}, "data", "data:input_bytes"),
        ({"records": 2e6, "partitions": 16.0}, "data", "data:input_bytes"),
        ({"bytes": 2e8, "partitions": 16.0}, "data", "data:input_bytes"),
        ({"bytes": 2e8, "bytes_max_over_mean": 5.0}, "data", "data:input_bytes"),
        ({"bytes_max_over_mean": 5.0, "spill_bytes": 1e8}, "skew", "skew:input_bytes"),
        ({"spill_bytes": 1e8, "io_write_ms": 900.0}, "memory", "metric:spill_bytes"),
        ({"cpu_ms": 8000.0, "compute_ms": 1100.0}, "rate", "metric:cpu_ms"),
        ({"bytes": 5e7, "cpu_ms": 8000.0, "compute_ms": 1100.0}, "rate", "metric:cpu_ms"),
        ({"io_read_ms": 1100.0}, "rate", "metric:io_read_ms"),
    ],
)
def test_the_first_rule_that_fits_names_the_cause(
    after: Mapping[str, float], kind: str, cause: str
) -> None:
    ((first, _), *_) = stage_causes(changed(**after), None, None)
    assert (first.kind, first.cause) == (ChangeKind(kind), cause)


def test_another_plan_comes_before_other_data() -> None:
    ((first, _),) = stage_causes(changed(relabelled=True, bytes=2e8), None, None)
    assert first.kind is ChangeKind.STRUCTURE
    assert first.cause.startswith("plan:")


def test_what_slows_all_stages_comes_before_a_stages_own_part() -> None:
    shared = SharedCause("host:h3", "io_read_ms", 2.5)
    slower = changed(io_read_ms=1100.0)
    assert stage_causes(slower, shared, None)[0][0].kind is ChangeKind.HOST
    faster = CategoryMeasures(0, slower.after, slower.before, slower.operators, False, "time")
    assert stage_causes(faster, shared, None)[0][0].kind is ChangeKind.RATE


def test_a_wait_that_all_stages_share_is_not_why_one_computes_longer() -> None:
    shared = SharedCause("environment:hosts", "run_queue_ms", 1.6)
    slower = changed("cpu", cpu_ms=8000.0, compute_ms=1100.0)
    assert stage_causes(slower, shared, None)[0][0].cause == "metric:cpu_ms"
    assert stage_causes(changed("time"), shared, None)[0][0].cause == "environment:hosts"


def test_shares_of_a_stages_causes_sum_to_one() -> None:
    grown = changed(io_read_ms=700.0, cpu_ms=8000.0, compute_ms=500.0)
    causes = stage_causes(grown, None, blame(("io", 7, 300.0, True), ("io", 8, 100.0, False)))
    assert sum(share for _, share in causes) == pytest.approx(1.0)
    contention = next(cause for cause, _ in causes if cause.kind is ChangeKind.CONTENTION)
    assert contention.sources == ((7, 1.0),)


def test_a_wait_behind_the_querys_own_tasks_is_no_contention() -> None:
    grown = changed(slots_ms=900.0, io_read_ms=300.0)
    own = blame(("slots", -1, 900.0, False), ("slots", 4, 50.0, False))
    causes = {cause.cause: share for cause, share in stage_causes(grown, None, own)}
    assert causes["metric:io_read_ms"] > causes["metric:slots_ms"]


def test_evidence_of_work_alone_names_the_work() -> None:
    """The stage waits for less, and computes longer: its time says nothing."""
    stage = changed("cpu", time_ms=800.0, slots_ms=0.0, cpu_ms=8000.0, compute_ms=200.0)
    ((first, share),) = stage_causes(stage, None, None)
    assert (first.cause, share) == ("metric:cpu_ms", 1.0)


def test_contention_is_handed_over_to_who_changed_by_itself() -> None:
    """0 waits for 1 and 2, which wait for each other, and 1 for 3, which computes longer."""

    def waits(*sources: tuple[int, float]) -> StageCause:
        return StageCause(ChangeKind.CONTENTION, "", "waits", None, sources)

    reasons = {
        1: [(waits((2, 0.5), (3, 0.5)), 1.0)],
        2: [(waits((1, 1.0)), 1.0)],
        3: [(StageCause(ChangeKind.RATE, "metric:cpu_ms", "computes"), 1.0)],
    }
    chains = ContentionChains(lambda query: reasons.get(query, []))
    sources = ((1, 0.6), (2, 0.4))
    ((root, part), *rest) = chains.roots_of(sources, 0)
    assert root == Root(3, None)
    assert part > 0.95
    assert part + sum(other for _, other in rest) == pytest.approx(1.0)
    assert chains.path(sources, root, 0) == [1, 3]


def test_only_settings_that_can_differ_between_equal_runs_are_left_out() -> None:
    before = {
        "spark.app.id": ("application_1_2",),
        "spark.executor.memory": ("12g",),
        "spark.yarn.queue": ("night",),
        "spark.hadoop.out": ("/data/2026-10-01/x",),
    }
    after = {
        "spark.app.id": ("application_1_3",),
        "spark.executor.memory": ("4g",),
        "spark.yarn.queue": ("night",),
        "spark.hadoop.out": ("/data/2026-10-02/x",),
        "spark.sql.shuffle.partitions": ("400",),
    }
    found = {one.key: one for one in setting_differences(before, after)}
    assert list(found) == ["spark.executor.memory", "spark.sql.shuffle.partitions"]
    memory, partitions = found.values()
    assert memory.fits([Symptom.MEMORY])
    assert not memory.fits([Symptom.PARTITIONS])
    assert partitions.fits([Symptom.PARTITIONS])
    assert str(partitions) == "spark.sql.shuffle.partitions not set → 400"
