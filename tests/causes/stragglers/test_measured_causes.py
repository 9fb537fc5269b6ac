"""Measured waits as evidence: enough of the delay, less what more work explains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.stragglers.features import Feature, after, before
from iqcar.causes.stragglers.find_stragglers import explain
from iqcar.causes.stragglers.straggler_result import StragglerSettings
from iqcar.enums import CauseEvidence, FeatureKind
from tests.support.random_features import made

READ = Feature("wait_io_read_ms", FeatureKind.WAIT, "host-disk", "ms", "reads", "")
WRITE = Feature("wait_io_write_ms", FeatureKind.WAIT, "host-disk", "ms", "writes", "")
DISK = Feature(
    "host_disk", FeatureKind.RESOURCE, "host-disk", "share", "host disk", "", True, "host-disk"
)
BYTES = Feature("input_bytes", FeatureKind.NUMERICAL, "", "bytes", "input", "")
RECORDS = Feature("input_records", FeatureKind.NUMERICAL, "", "count", "input records", "")
LISTED = (READ, WRITE, DISK, BYTES, RECORDS)
NAN = float("nan")


def stage(
    durations, read, write=None, disk=None, data=None, records=None, measured=True, evidence="auto"
):
    n = len(durations)
    some = lambda values: np.array(values if values is not None else [NAN] * n, float)  # noqa: E731
    features = made(
        {
            "task": np.arange(n), "task_id": np.arange(n), "app": np.zeros(n, int),
            "stage": np.zeros(n, int), "query": np.full(n, -1), "host": np.arange(n) % 2,
            "launch_ms": np.zeros(n), "duration_ms": np.array(durations, float),
            "compared": np.ones(n, bool), "measured": np.full(n, measured),
            "wait_io_read_ms": some(read), "wait_io_write_ms": some(write),
            "host_disk": some(disk), before(DISK): some(disk), after(DISK): some(disk),
            "input_bytes": some(data), "input_records": some(records),
        },
        LISTED,
    )  # fmt: skip
    settings = replace(StragglerSettings(), slow_hosts=False, evidence=CauseEvidence(evidence))
    return explain(features, settings).causes


PLAIN = [1000.0] * 5
HOT = [0.1] * 5 + [0.9]


def test_a_wait_that_explains_the_delay_is_a_cause_and_says_how_much() -> None:
    causes = stage([*PLAIN, 3000], [*[50] * 5, 1200], [*[0] * 5, 500])
    assert causes["cause"].tolist() == ["host-disk"]
    assert causes["explained"].iloc[0] == (1700 - 50) / 2000
    assert causes["evidence"].tolist() == ["measured"]
    assert causes["sentence"].iloc[0] == (
        "waited 1.7 s for reads where 50 ms were to be expected: 82 % of its 2.0 s over the "
        "stage's median"
    )


def test_a_busy_host_that_delayed_nobody_is_a_cause_only_for_the_paper() -> None:
    of = ([*PLAIN, 3000], [50] * 6, None, HOT)
    assert stage(*of).empty
    assert stage(*of, evidence="measured").empty
    assert stage(*of, evidence="paper")["cause"].tolist() == ["host-disk"]


def test_peers_that_are_equally_loaded_hide_nothing_that_was_measured() -> None:
    of = ([*PLAIN, 3000], [*[50] * 5, 1500], None, [0.9] * 6)
    assert stage(*of, evidence="paper").empty
    assert stage(*of)["cause"].tolist() == ["host-disk"]


def test_who_reads_more_may_wait_longer() -> None:
    more = [*[1e6] * 5, 30e6]
    assert stage([*PLAIN, 3000], [*[50] * 5, 1500], data=more).empty
    assert len(stage([*PLAIN, 3000], [*[50] * 5, 1500], data=[1e6] * 6)) == 1


def test_records_tell_of_more_reading_where_spark_missed_the_bytes() -> None:
    of = ([*PLAIN, 3000], [*[50] * 5, 1500])
    assert stage(*of, data=[1732] * 6, records=[*[100] * 5, 3000]).empty
    assert len(stage(*of, data=[1732] * 6, records=[100] * 6)) == 1


def test_without_a_record_the_host_decides_or_nobody() -> None:
    of = ([*PLAIN, 3000], None, None, HOT)
    assert stage(*of, measured=False)["evidence"].tolist() == ["paper"]
    assert stage(*of, measured=False, evidence="measured").empty
    # A record whose sampler was off knows no waits: the host is better evidence than nothing.
    assert stage(*of, measured=True)["evidence"].tolist() == ["paper"]


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.integers(0, 5)), max_size=12),
    st.floats(0.05, 1.0),
)
def test_what_is_explained_is_a_share_and_above_the_bound(rows, bound) -> None:
    n = len(rows)
    durations, waits, work = ([row[i] for row in rows] for i in range(3))
    features = made(
        {
            "task": np.arange(n), "task_id": np.arange(n), "app": np.zeros(n, int),
            "stage": np.zeros(n, int), "query": np.full(n, -1), "host": np.zeros(n, int),
            "launch_ms": np.zeros(n), "duration_ms": np.array(durations, float),
            "compared": np.ones(n, bool), "measured": np.ones(n, bool),
            "wait_io_read_ms": np.array(waits, float), "wait_io_write_ms": np.full(n, NAN),
            "host_disk": np.full(n, NAN), "input_bytes": np.array(work, float),
            "input_records": np.full(n, NAN),
        },
        LISTED,
    )  # fmt: skip
    found = explain(features, replace(StragglerSettings(), explains=bound, slow_hosts=False))
    assert (found.causes["explained"] >= bound).all()
    assert (found.causes["explained"] <= 1).all()
    # A wait of nothing explains nothing.
    waited = np.array(waits, float)[found.stragglers["task"].to_numpy()]
    assert (waited[found.causes["straggler"].to_numpy()] > 0).all()


EXTREMES = st.sampled_from([NAN, 0.0, 5e-324, 1e-308, 1e-7, 0.5, 1.0, 7.0, 1e18, 1e300])


@given(
    st.lists(EXTREMES, min_size=6, max_size=6),
    st.lists(EXTREMES, min_size=6, max_size=6),
    st.sampled_from(["auto", "paper", "measured"]),
)
def test_no_amount_is_too_small_or_too_large_to_compare(
    data: list[float], records: list[float], evidence: str
) -> None:
    causes = stage([*PLAIN, 3000], [*[50] * 5, 1200], None, HOT, data, records, True, evidence)
    explained = causes["explained"].dropna()
    assert ((explained >= 0) & (explained <= 1)).all()


def test_less_than_can_be_counted_is_no_work_to_compare_with() -> None:
    waits = [*[50] * 5, 1200]
    none, hardly = (stage([*PLAIN, 3000], waits, data=[*[x] * 5, 9.0]) for x in (0.0, 5e-324))
    assert hardly["explained"].tolist() == none["explained"].tolist()
