"""Applications that met are grouped; groups that are too large are cut by hours, and it is told."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from iqcar.fleet.shared_hosts import HOUR_MS, Ran, meeting_groups


def ran(hosts: str, start: float, end: float, tasks: int = 10) -> Ran:
    return Ran(tuple(hosts), start, end, tasks)


def naive_groups(applications: dict[int, Ran]) -> dict[int, int]:
    """Groups by joining pairs until nothing changes."""
    group = {log: log for log in applications}
    for _ in applications:
        for one, first in applications.items():
            for other, second in applications.items():
                meet = first.start_ms < second.end_ms and second.start_ms < first.end_ms
                if set(first.hosts) & set(second.hosts) and meet:
                    group[one] = group[other] = min(group[one], group[other])
    names: dict[int, int] = {}
    return {log: names.setdefault(group[log], len(names)) for log in sorted(applications)}


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from("abc"), min_size=1, max_size=2),
            st.integers(0, 20),
            st.integers(1, 8),
        ),
        max_size=8,
    )
)
def test_applications_are_together_if_they_met_on_a_host_directly_or_through_others(
    drawn: list[tuple[set[str], int, int]],
) -> None:
    applications = {
        log: ran("".join(sorted(hosts)), start, start + length)
        for log, (hosts, start, length) in enumerate(drawn)
    }
    assert meeting_groups(applications) == (naive_groups(applications), ())


def test_an_application_without_times_meets_everybody_on_its_hosts() -> None:
    applications = {0: ran("a", 0, 1), 1: ran("a", -math.inf, math.inf), 2: ran("a", 5, 6)}
    groups, _ = meeting_groups(applications)
    assert groups == {0: 0, 1: 0, 2: 0}


def test_a_group_that_is_too_large_is_cut_at_full_hours_and_says_who_was_parted() -> None:
    applications = {
        log: ran("a", log * HOUR_MS / 2 + 1, (log + 1) * HOUR_MS / 2 + 2) for log in range(6)
    }
    groups, (cut,) = meeting_groups(applications, most_tasks=45)
    assert groups == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1}
    assert (cut.applications, cut.hosts, cut.tasks, cut.parts) == (6, 1, 60, 2)
    assert cut.apart == 2, "applications 3 and 4 overlap"
    assert (cut.start_ms, cut.end_ms) == (1.0, 3 * HOUR_MS + 2)


def test_an_hour_that_is_too_large_is_cut_between_applications() -> None:
    applications = {log: ran("a", 10.0 * log, 1000.0) for log in range(5)}
    groups, (cut,) = meeting_groups(applications, most_tasks=20)
    assert groups == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2}
    assert (cut.parts, cut.apart) == (3, 5)


def test_one_application_is_never_cut() -> None:
    assert meeting_groups({0: ran("a", 0, 9, tasks=1000)}, most_tasks=10) == ({0: 0}, ())
