"""Applications that met on hosts are grouped; groups that are too large are cut."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.fleet import groups
from iqcar.fleet.groups import Ran, meeting_groups, ran_of
from iqcar.logs.find.locate import EventLog, locate
from iqcar.pipeline import read
from iqcar.tables import texts
from tests.conftest import shared_logs_folder
from tests.support.fleet_logs import fleet_log, write_fleet

MINUTE_MS = 60_000


def ran(hosts: str, start: float, end: float, tasks: int = 10) -> Ran:
    return Ran(frozenset(hosts), start, end, tasks)


def naive_groups(applications: dict[int, Ran]) -> set[frozenset[int]]:
    """Groups by joining pairs until nothing changes."""
    group = {log: log for log in applications}
    for _ in applications:
        for one, first in applications.items():
            for other, second in applications.items():
                meet = first.start_ms < second.end_ms and second.start_ms < first.end_ms
                if first.hosts & second.hosts and meet:
                    group[one] = group[other] = min(group[one], group[other])
    return {
        frozenset(log for log in group if group[log] == number) for number in set(group.values())
    }


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from("abc"), max_size=2), st.integers(0, 20), st.integers(1, 8)
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
    found, cuts = meeting_groups(applications)
    assert cuts == 0 and sum(map(len, found)) == len(applications)
    assert {frozenset(group) for group in found} == naive_groups(applications)


def test_an_application_without_times_meets_everybody_on_its_hosts() -> None:
    applications = {0: ran("a", 0, 1), 1: ran("a", -math.inf, math.inf), 2: ran("a", 5, 6)}
    assert meeting_groups(applications) == ([[0, 1, 2]], 0)


def test_a_group_that_is_too_large_is_cut_in_the_order_of_starts_but_no_application() -> None:
    applications = {log: ran("a", 10.0 * log, 1000.0) for log in range(5)}
    assert meeting_groups(applications, most_tasks=20) == ([[0, 1], [2, 3], [4]], 2)
    assert meeting_groups({0: ran("a", 0, 9, tasks=1000)}, most_tasks=10) == ([[0]], 0)
    assert meeting_groups({0: ran("a", 0, 1), 1: ran("b", 0, 1, tasks=11)}) == ([[1], [0]], 0)


def same_as_read(log: EventLog) -> None:
    tables, found = read([log]), ran_of(log)
    assert set(texts(tables.hosts, "host")) <= found.hosts
    if len(tables.applications):
        (start,), (end,) = (tables.applications[name] for name in ("start_ms", "end_ms"))
        assert found.start_ms == (start if math.isfinite(start) else -math.inf)
        # A log that is cut says more or less after its last task.
        assert not math.isfinite(end) or 0 <= found.end_ms - end < MINUTE_MS
        assert found.tasks >= len(tables.tasks)


def test_hosts_times_and_tasks_of_a_log_are_those_that_are_read(tmp_path: Path) -> None:
    write_fleet(tmp_path / "logs")
    logs = [one for one in locate([tmp_path / "logs"]) if isinstance(one, EventLog)]
    for log in logs:
        same_as_read(log)
    by_name = {Path(log.path).name: ran_of(log) for log in logs}
    assert by_name["app-a"].hosts == {"shared", "only-a"} and by_name["app-a"].tasks == 6 * 24
    assert by_name["local-123"] == Ran(frozenset(), -math.inf, math.inf, 0)


def test_words_across_pieces_are_found_once_and_a_large_compressed_log_tells_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = fleet_log("app-a", 1, ("one", "two")).write(tmp_path / "app-a")
    packed = tmp_path / "app-a.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    monkeypatch.setattr("iqcar.logs.log_summary.WHOLE_BYTES", 0)
    content = plain.read_bytes()
    pieces = [content[at : at + 700] for at in range(0, len(content), 700)]
    monkeypatch.setattr(groups, "decoded_pieces", lambda _: iter(pieces))
    (log,) = locate([packed])
    assert isinstance(log, EventLog)
    same_as_read(log)
    assert ran_of(log).tasks == 6 * 24 and ran_of(log).hosts == {"one", "two"}


@pytest.mark.skipif(not shared_logs_folder().is_dir(), reason="needs other people's event logs")
def test_real_logs_tell_their_hosts_without_being_read(shared_logs: Path) -> None:
    for log in locate([shared_logs]):
        if isinstance(log, EventLog):
            same_as_read(log)


def test_no_secret_in_a_hosts_name_is_kept(tmp_path: Path) -> None:
    log = fleet_log("app-a", 1, ("password=hunter2-and-more",)).write(tmp_path / "app-a")
    (found,) = locate([log])
    assert isinstance(found, EventLog)
    assert not any("hunter2" in host for host in ran_of(found).hosts)
