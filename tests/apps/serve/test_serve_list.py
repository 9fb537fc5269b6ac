"""What `iqcar serve` knows of logs without reading them, and how it chooses, keeps and names."""

from __future__ import annotations

import gzip
import json
import random
import threading
import zipfile
from math import isnan, nan
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from iqcar.apps.serve import listing as listing_module
from iqcar.apps.serve.api import ENDPOINTS
from iqcar.apps.serve.applications import (
    Application,
    ListOrder,
    SortBy,
    Wanted,
    identity_of,
    key_of,
    neighbours_of,
    select,
)
from iqcar.apps.serve.cache import digest_of
from iqcar.apps.serve.endpoints import openapi
from iqcar.apps.serve.guard import is_loopback
from iqcar.apps.serve.listing import Listing, Places
from iqcar.apps.serve.pages import policy_with_bar, with_bar
from iqcar.apps.serve.worker import Task
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError
from iqcar.logs import read_logs
from iqcar.logs.find.layouts import LogPart
from iqcar.logs.find.locate import EventLog, locate
from iqcar.logs.log_summary import MAX_HEAD_BYTES, WHOLE_BYTES, Peek, peek
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.contended_log import contended_log
from tests.support.served import until


def only_log(*paths: Path) -> EventLog:
    (log,) = locate(paths)
    assert isinstance(log, EventLog)
    return log


def check_against_reading(log: EventLog, path: Path) -> None:
    """The first and last lines say what reading the whole log says."""
    seen = peek(log)
    tables = read_logs([path], processes=1)
    whole = tables.applications.iloc[0]
    assert seen.name == whole["name"]
    assert seen.application_id in (whole["application_id"], "")
    assert seen.user == whole["user"]
    assert seen.spark_version == whole["spark_version"]
    assert seen.start_ms == whole["start_ms"] or (isnan(seen.start_ms) and isnan(whole["start_ms"]))
    assert (seen.status is InputStatus.COMPLETE) == bool(whole["ended"])
    if whole["ended"]:
        unknown = isnan(seen.end_ms) and path.is_file() and path.stat().st_size > WHOLE_BYTES
        assert seen.end_ms == whole["end_ms"] or unknown
    assert seen.hosts <= set(tables.hosts["host"])
    assert seen.hosts or len(tables.tasks) == 0


def test_heads_and_tails_of_others_logs_say_what_reading_says(shared_logs: Path) -> None:
    logs = locate([shared_logs])
    assert len(logs) >= 17
    for log in logs:
        assert isinstance(log, EventLog)
        check_against_reading(log, Path(log.path))


@pytest.mark.parametrize("how", ["plain", "zstd", "gzip", "zip", "rolling"])
def test_every_way_of_storing_a_log_is_peeked_at(tmp_path: Path, how: str) -> None:
    name, text = "app-20240101000000-0001", contended_log().bytes()
    if how == "plain":
        (tmp_path / name).write_bytes(text)
    elif how == "zstd":
        (tmp_path / f"{name}.zstd").write_bytes(zstandard.compress(text))
    elif how == "gzip":
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text))
    elif how == "zip":
        with zipfile.ZipFile(tmp_path / "logs.zip", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(name, text)
    else:
        folder = tmp_path / f"eventlog_v2_{name}"
        folder.mkdir()
        (folder / f"appstatus_{name}").write_bytes(b"")
        lines = text.splitlines(keepends=True)
        (folder / f"events_1_{name}").write_bytes(b"".join(lines[:10]))
        (folder / f"events_2_{name}").write_bytes(b"".join(lines[10:]))
    check_against_reading(only_log(tmp_path), tmp_path)


def test_a_log_is_never_read_beyond_its_head_and_tail(tmp_path: Path) -> None:
    log = contended_log()
    filler = b'{"Event":"SparkListenerUnpersistRDD","RDD ID":1}\n' * 400_000
    first, last = log.lines[:-1], log.lines[-1]
    path = tmp_path / "app-1"
    path.write_bytes(b"\n".join(first) + b"\n" + filler + last + b"\n")
    found = only_log(path)
    before = _read_bytes()
    seen = peek(found)
    assert _read_bytes() - before < MAX_HEAD_BYTES + (2 << 20)
    assert path.stat().st_size > 3 * MAX_HEAD_BYTES
    assert (seen.name, seen.end_ms, seen.status) == ("contended", 12_000, InputStatus.COMPLETE)


def _read_bytes() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


def test_the_end_of_a_large_compressed_log_stays_unknown(tmp_path: Path) -> None:
    text = contended_log().bytes()
    noise = random.Random(1).randbytes(2 << 20).hex()
    event = json.dumps({"Event": "SparkListenerUnpersistRDD", "x": noise}).encode()
    lines = text.splitlines(keepends=True)
    whole = b"".join(lines[:-1]) + event + b"\n" + lines[-1]
    path = tmp_path / "app-1.zstd"
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(whole))
    assert path.stat().st_size > 1 << 20
    seen = peek(only_log(path))
    assert seen.name == "contended"
    assert isnan(seen.end_ms)
    assert seen.status is InputStatus.COMPLETE
    running = path.rename(tmp_path / "app-1.zstd.inprogress")
    assert peek(only_log(running)).status is InputStatus.IN_PROGRESS


@given(st.binary(max_size=3000), st.integers(0, 40))
def test_no_content_breaks_a_peek(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int
) -> None:
    lines = contended_log().lines
    path = tmp_path_factory.mktemp("junk") / "app-1"
    path.write_bytes(b"\n".join([*lines[:at], junk, *lines[at:]]))
    seen = peek(EventLog(str(path), (LogPart(str(path), str(path), path.stat().st_size),)))
    assert seen.status in InputStatus
    if at > 2 and b"SparkListenerApplicationStart" not in junk:
        assert seen.name == "contended"


@given(st.one_of(st.floats(), st.text(max_size=9), st.none(), st.just([1]), st.integers()))
def test_impossible_times_are_unknown(
    tmp_path_factory: pytest.TempPathFactory, time: object
) -> None:
    log = SyntheticLog().app(start=time).end(time)
    path = log.write(tmp_path_factory.mktemp("times") / "app-1")
    seen = peek(only_log(path))
    for shown in (seen.start_ms, seen.end_ms):
        assert isnan(shown) or (isinstance(time, (int, float, str)) and shown == float(time))


def application(number: int, **more: object) -> Application:
    seen = Peek(**{"name": f"n{number}", "start_ms": 1000.0 * number, **more})
    return Application(f"{number:024x}", f"/logs/{number}", None, peek=seen)


APPLICATIONS = st.lists(
    st.builds(
        application,
        st.integers(0, 99),
        name=st.sampled_from(["etl", "Report", "etl night", ""]),
        user=st.sampled_from(["ann", "Bob", ""]),
        spark_version=st.sampled_from(["3.9.1", "3.10.0", "4.0.0-x", ""]),
        start_ms=st.sampled_from([1.0, 5.0, nan]),
        end_ms=st.sampled_from([7.0, 9.0, nan]),
        status=st.sampled_from(InputStatus),
    ),
    max_size=30,
    unique_by=lambda one: one.key,
)


def told(one: Application) -> str:
    return " ".join(
        [one.name, one.peek.user, one.path.rpartition("/")[2], str(one.peek.status)]
    ).casefold()


@given(
    APPLICATIONS,
    st.sampled_from(SortBy),
    st.sampled_from(ListOrder),
    st.sampled_from(["", "etl", "ETL ann", "logs", "7"]),
    st.integers(1, 7),
)
def test_pages_are_a_partition_of_what_matches(
    applications: list[Application], sort: SortBy, order: ListOrder, q: str, size: int
) -> None:
    whole = select(applications, Wanted(q=q, sort=sort, order=order, size=500))
    words = q.casefold().split()
    matching = {one.key for one in applications if all(word in told(one) for word in words)}
    assert {one.key for one in whole.applications} == matching
    assert whole.chosen == len(matching)
    pages = [
        select(applications, Wanted(q=q, sort=sort, order=order, size=size, page=page + 1))
        for page in range(whole.chosen // size + 1)
    ]
    joined = {one.key: None for page in pages for one in page.applications}
    assert list(joined) == [one.key for one in whole.applications]


def test_versions_are_compared_by_their_numbers() -> None:
    rows = [application(n, spark_version=v) for n, v in enumerate(["3.9.1", "", "3.10.0"])]
    chosen = select(rows, Wanted(sort=SortBy.SPARK_VERSION, order=ListOrder.ASCENDING))
    assert [one.peek.spark_version for one in chosen.applications] == ["3.9.1", "3.10.0", ""]


def test_neighbours_shared_a_host_while_both_ran() -> None:
    def at(number: int, start: float, end: float, *hosts: str) -> Application:
        return application(number, start_ms=start, end_ms=end, hosts=frozenset(hosts))

    one = at(1, 100, 200, "a", "b")
    others = [
        at(2, 150, 400, "b", "c"),
        at(3, 0, 1000, "c"),  # at that time, elsewhere
        at(4, 200, 300, "a"),  # there, afterwards
        at(5, 50, 199, "a", "b"),
        at(6, nan, 300, "a"),  # nobody knows when
        one,
    ]
    found = neighbours_of(one, others)
    assert [(each.application.key[-1], each.overlap_ms, each.hosts) for each in found] == [
        ("5", 99, ("a", "b")),
        ("2", 50, ("b",)),
    ]


def test_a_result_belongs_to_logs_settings_and_their_state(tmp_path: Path) -> None:
    path = contended_log().write(tmp_path / "app-1")
    log = only_log(path)
    one = digest_of([("k", identity_of(log))], "s")
    assert one == digest_of([("k", identity_of(only_log(path)))], "s")
    assert one != digest_of([("k", identity_of(log))], "t")
    both = [("k", identity_of(log)), ("l", identity_of(log))]
    assert digest_of(both, "s") == digest_of(both[::-1], "s") != one
    path.write_bytes(path.read_bytes() + b"\n")
    assert one != digest_of([("k", identity_of(only_log(path)))], "s")
    # What was written between being found and being looked at is seen as a whole.
    assert identity_of(log) == identity_of(only_log(path))


def test_a_key_outlives_the_end_of_its_application() -> None:
    assert key_of("/logs/app-1.inprogress") == key_of("/logs/app-1") != key_of("/logs/app-2")
    assert key_of("/logs/app-1.zstd.inprogress") == key_of("/logs/app-1.zstd")


def test_a_task_for_a_process_survives_any_name(tmp_path: Path) -> None:
    part = LogPart("shown", b"/logs/\xff\xfe".decode("utf-8", "surrogateescape"), 5, "m")
    task = Task(("k",), (EventLog("p", (part,), True, "1", "q"),), {"top": 5}, str(tmp_path))
    line = task.to_line()
    assert line.count(b"\n") == 1
    assert Task.from_line(line) == task


def test_a_place_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IqcarError, match="it does not exist"):
        Places([str(tmp_path / "nothing")])
    Places([str(tmp_path / "*.zip"), "s3://bucket/logs", str(tmp_path)])


def test_only_what_lies_in_the_places_is_held(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "log").write_bytes(b"x")
    (inside / "link").symlink_to(outside / "log")
    (inside / "own").symlink_to(inside / "log")
    (tmp_path / "in-too").mkdir()
    (tmp_path / "in-too" / "log").write_bytes(b"x")
    places = Places([str(inside)])
    assert places.holds(str(inside / "log"))
    assert places.holds(str(inside / "own"))
    for out in (
        inside / "link",
        outside / "log",
        tmp_path / "in-too" / "log",
        inside / ".." / "out" / "log",
    ):
        assert not places.holds(str(out))
    pattern = Places([str(tmp_path / "i*" / "log")])
    assert pattern.holds(str(inside / "log"))


def test_a_log_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    path = contended_log().write(tmp_path / "app-20240101000000-0001")
    listing = Listing(Places([str(tmp_path)]), lambda key, identity: None)
    listing.scan()
    (one,) = listing.applications()
    listing.scan()
    (again,) = listing.applications()
    assert again.peek is one.peek
    path.write_bytes(SyntheticLog().app("another").bytes())
    listing.scan()
    assert listing.applications()[0].name == "another"


def test_a_folder_that_takes_long_to_look_through_is_looked_through_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, looks = [1000.0], [0]

    def slow(paths: object, within: object) -> list[EventLog]:
        now[0] += 60.0
        looks[0] += 1
        return []

    listing = Listing(Places([str(tmp_path)]), lambda key, identity: None)
    monkeypatch.setattr("iqcar.apps.serve.listing.time.monotonic", lambda: now[0])
    monkeypatch.setattr("iqcar.apps.serve.listing.locate", slow)
    looked = threading.Semaphore(0)
    listing.on_look = looked.release
    for later in (0, 590, 20):
        now[0] += later
        listing.look_again()
        assert later == 590 or looked.acquire(timeout=60)
    assert looks == [2]


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")),
        *((host, False) for host in ("0.0.0.0", "::", "192.168.1.1", "example.org", "")),  # noqa: S104
    ],
)
def test_loopback_is_what_only_this_machine_can_reach(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_the_bar_changes_the_head_of_a_report_and_nothing_from_logs() -> None:
    body = b'<p>&lt;meta name="referrer"&gt;<meta name="referrer" content="x"><body></p>'
    head = (
        b'<html><head><meta http-equiv="Content-Security-Policy" content="default-src">\n'
        b'<meta name="referrer" content="no-referrer">\n</head><body class="a">'
    )
    page = gzip.decompress(with_bar(gzip.compress(head + body), "<nav>bar</nav>"))
    assert page == b'<html><head></head><body class="a"><nav>bar</nav>' + body


def test_the_policy_of_a_report_is_only_widened_to_the_server_itself() -> None:
    from iqcar.show.html import page_policy

    before = dict(part.strip().partition(" ")[::2] for part in page_policy("/static/").split(";"))
    after = dict(
        part.strip().partition(" ")[::2]
        for part in policy_with_bar(page_policy("/static/")).split(";")
    )
    assert after["default-src"] == "'none'"
    assert after["frame-ancestors"] == "'none'"
    assert after["script-src"] == before["script-src"]
    assert "unsafe" not in after["script-src"]
    for name, values in after.items():
        added = set(values.split()) - set(before.get(name, "").split())
        assert added <= {"'self'", "'none'"}, name


def test_the_description_is_openapi() -> None:
    document = openapi(ENDPOINTS)
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(names) == len(set(names)) == len(ENDPOINTS)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            parameters = operation.get("parameters", ())
            described = {one["name"] for one in parameters if one["in"] == "path"}
            assert described == {part[1:-1] for part in path.split("/") if part.startswith("{")}
            for one in parameters:
                jsonschema.Draft202012Validator.check_schema(one["schema"])
            assert all(answer["description"] for answer in operation["responses"].values())


def test_a_server_waits_a_moment_only_for_the_first_look_through_its_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is; what is clear by then, such as a place that is no log, is said."""
    contended_log().write(tmp_path / "app-1")
    go_on, looking = threading.Event(), listing_module.locate

    def slow(*given: Any) -> Any:
        go_on.wait(60)
        return looking(*given)

    monkeypatch.setattr(listing_module, "locate", slow)
    monkeypatch.setattr(listing_module, "CHECK_S", 0.01)
    listing = Listing(Places([str(tmp_path)]), lambda *_: None)
    listing.check()
    assert (listing.looked, listing.unread, listing.applications()) == (False, 1, [])
    go_on.set()
    until(lambda: listing.looked and not listing.unread)
    assert len(listing.applications()) == 1
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04rubbish")
    monkeypatch.setattr(listing_module, "CHECK_S", 60.0)
    with pytest.raises(IqcarError, match="zip is damaged"):
        Listing(Places([str(tmp_path / "bad.zip")]), lambda *_: None).check()
