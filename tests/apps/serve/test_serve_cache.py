"""The folder of results that `iqcar serve` keeps: what is in it, how much, and for how long."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iqcar.apps.serve.applications import MS_PER_HOUR, Application, NextLogs
from iqcar.apps.serve.cache import PAGE, RESULT, Cache, Summary, write_entry
from iqcar.enums import InputStatus
from iqcar.logs.find.layouts import EventLog, LogPart
from iqcar.logs.log_summary import Peek


def summary(*keys: str, settings: str = "s") -> Summary:
    return Summary(keys=keys, settings=settings, policy="p", queries=1, query_ms=3.0)


def put(cache: Cache, digest: str, *keys: str, size: int = 10) -> None:
    folder = cache.begin()
    write_entry(folder, [b"{}"], os.urandom(size), summary(*keys))
    cache.finish(folder, digest)


def test_the_cache_gives_back_what_was_put_in_also_later(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    first, second = "a" * 32, "b" * 32
    put(cache, first, "k")
    put(cache, second, "k")
    for again in (cache, Cache(tmp_path / "cache")):
        assert gzip.decompress(again.read(first, RESULT)) == b"{}"
        assert again.summary(first) == summary("k")
        assert again.latest(["k"], "s") == second
        assert again.latest(["k"], "other settings") is None
        assert again.latest(["k", "l"], "s") is None
        assert again.read("c" * 32, RESULT) is None
        assert again.read("../cache/" + first, RESULT) is None


def test_the_cache_stays_below_its_bound_and_drops_what_was_not_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", max_bytes=10_000)
    digests = [f"{n:032x}" for n in range(8)]
    for number, digest in enumerate(digests):
        put(cache, digest, f"k{number}", size=2500)
        os.utime(cache.folder / digest, (number, number))
        cache.read(digests[0], PAGE)  # always in use
    left = [digest for digest in digests if cache.summary(digest)]
    assert left[0] == digests[0]
    assert left[-1] == digests[-1]
    assert len(left) < len(digests)
    files = sum(file.stat().st_size for file in cache.folder.rglob("*") if file.is_file())
    assert files <= 10_000
    assert cache.latest(["k1"], "s") is None


def test_what_is_not_whole_in_the_cache_is_cleared_away(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    unfinished, under_way = cache.begin(), cache.begin()
    os.utime(unfinished, (0, 0))
    broken = cache.folder / ("d" * 32)
    broken.mkdir()
    (broken / "summary.json").write_text("{")
    (cache.folder / "notes.txt").write_text("somebody's own")
    again = Cache(tmp_path / "cache")
    assert not unfinished.exists()
    assert under_way.exists(), "another server may be at work on it"
    assert not broken.exists()
    assert again.summary("d" * 32) is None
    assert (cache.folder / "notes.txt").exists()


def test_an_entry_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    cache, other = Cache(tmp_path / "cache"), Cache(tmp_path / "other")
    put(cache, "a" * 32, "k")
    put(other, "a" * 32, "k")
    for name in (RESULT, PAGE, "summary.json"):
        (other.folder / ("a" * 32) / name).write_bytes(b"planted")
    before = cache.read("a" * 32, PAGE)
    assert before not in (None, b"planted")
    page = cache.folder / ("a" * 32) / PAGE
    page.unlink()
    page.symlink_to(other.folder / ("a" * 32) / PAGE)
    assert cache.read("a" * 32, PAGE) is None
    put(cache, "a" * 32, "k")
    shutil.rmtree(cache.folder / ("a" * 32))
    (cache.folder / ("a" * 32)).symlink_to(other.folder / ("a" * 32))
    assert cache.read("a" * 32, PAGE) is None
    assert Cache(cache.folder).summary("a" * 32) is None


@pytest.mark.parametrize("what", ["link to a folder", "link to nothing", "file", "pipe", "folder"])
def test_a_result_takes_the_place_of_whatever_stands_there(tmp_path: Path, what: str) -> None:
    cache, mine = Cache(tmp_path / "cache"), tmp_path / "mine"
    mine.mkdir()
    (mine / "kept").write_text("kept")
    place = cache.folder / ("a" * 32)
    if what == "folder":
        (place / "deep").mkdir(parents=True)
    elif what == "file":
        place.write_text("x")
    elif what == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(mine if what == "link to a folder" else tmp_path / "nothing")
    put(cache, "a" * 32, "k")
    assert gzip.decompress(cache.read("a" * 32, RESULT)) == b"{}"
    assert [one.name for one in mine.iterdir()] == ["kept"]


def test_a_server_starts_while_another_one_keeps_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Cache(tmp_path / "cache")
    unfinished = other.begin()
    write_entry(unfinished, [b"{}"], b"page", summary("k"))
    scandir = os.scandir

    @contextlib.contextmanager
    def scandir_early(folder: Path) -> Iterator[list[os.DirEntry[str]]]:
        """List a folder before the other server has renamed its own."""
        with scandir(folder) as found:
            entries = list(found)
        monkeypatch.setattr(os, "scandir", scandir)
        other.finish(unfinished, "a" * 32)
        yield entries

    monkeypatch.setattr(os, "scandir", scandir_early)
    assert Cache(other.folder).results == 0
    assert os.scandir is scandir
    assert Cache(other.folder).results == 1


def test_a_result_that_two_servers_keep_at_once_is_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = Cache(tmp_path / "cache"), Cache(tmp_path / "cache")
    rename = Path.rename

    def rename_late(path: Path, place: Path) -> Path:
        """Rename a folder once the other server has kept its own."""
        monkeypatch.setattr(Path, "rename", rename)
        put(other, "a" * 32, "k")
        return rename(path, place)

    monkeypatch.setattr(Path, "rename", rename_late)
    put(mine, "a" * 32, "k")
    assert Path.rename is rename
    for cache in (mine, other):
        assert gzip.decompress(cache.read("a" * 32, RESULT)) == b"{}"
    assert [one.name for one in mine.folder.iterdir()] == ["a" * 32]


def test_an_entry_that_others_could_have_written_is_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    for digest in ("a" * 32, "b" * 32, "c" * 32):
        put(cache, digest, "k")
    (cache.folder / ("a" * 32)).chmod(0o777)
    (cache.folder / ("b" * 32)).chmod(0o755)
    (cache.folder / ("b" * 32) / PAGE).chmod(0o666)
    (cache.folder / ("c" * 32) / PAGE).chmod(0o664)  # a lax umask in a folder closed to others
    assert cache.read("a" * 32, PAGE) is None
    assert cache.read("b" * 32, PAGE) is None
    assert cache.read("c" * 32, PAGE) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", PAGE])
def test_an_entry_of_another_user_is_not_read(tmp_path: Path, name: str) -> None:
    cache = Cache(tmp_path / "cache")
    put(cache, "a" * 32, "k")
    os.chown(cache.folder / ("a" * 32) / name, 12345, 12345)
    assert cache.read("a" * 32, PAGE) is None


def test_what_a_link_in_the_cache_leads_to_is_neither_counted_nor_removed(tmp_path: Path) -> None:
    cache, mine = Cache(tmp_path / "cache", max_bytes=4000), tmp_path / "mine"
    mine.mkdir()
    (mine / "kept").write_bytes(bytes(100_000))
    put(cache, "a" * 32, "k")
    (cache.folder / ("0" * 32)).symlink_to(mine)
    (cache.folder / "unfinished-1").symlink_to(mine)
    put(cache, "b" * 32, "l")
    assert cache.summary("a" * 32) is not None
    Cache(cache.folder)
    assert (mine / "kept").exists()


NOW = 100 * MS_PER_HOUR
LOG = EventLog("log", ())


def ended(key: str, hours_ago: float, status: InputStatus = InputStatus.COMPLETE) -> Application:
    end = NOW - hours_ago * MS_PER_HOUR
    return Application(key, key, LOG, ((key, "", 1, 1),), Peek(status=status, end_ms=end))


def test_the_one_that_ended_last_comes_first_and_each_once() -> None:
    new = NextLogs(24, 0)
    listed = [ended("a", 3), ended("b", 1), ended("c", 2), ended("old", 25)]
    chosen = [new.choose(listed, NOW) for _ in range(4)]
    assert [one.key if one else None for one in chosen] == ["b", "c", "a", None]


def test_what_runs_or_cannot_be_read_or_has_a_result_is_left_alone() -> None:
    listed = [
        ended("runs", 0, InputStatus.IN_PROGRESS),
        ended("part", 0, InputStatus.TRUNCATED),
        ended("failed", 0, InputStatus.FAILED),
        replace(ended("unread", 0), peek=None),
        replace(ended("gone", 0), log=None),
        replace(ended("done", 0), summary_is_current=True),
    ]
    assert NextLogs(24, 0).choose(listed, NOW) is None


def test_a_log_that_changed_is_chosen_again() -> None:
    new = NextLogs(24, 0)
    first = ended("a", 1)
    assert new.choose([first], NOW) is first
    assert new.choose([first], NOW) is None
    changed = replace(first, identity=(("a", "", 2, 2),))
    assert new.choose([changed], NOW) is changed


def test_small_logs_and_those_asked_for_are_chosen_whenever_they_ended() -> None:
    small, large = ended("small", 99), ended("large", 98)
    part = replace(ended("part", 97, InputStatus.TRUNCATED), log=log_of(1))
    listed = [replace(small, log=log_of(1 << 20)), replace(large, log=log_of(2 << 20)), part]
    following = NextLogs(None, 1)
    assert following.choose(listed, NOW) == listed[0]
    assert following.choose(listed, NOW) is None
    following.asked.update(("small", "large", "part"))
    assert [following.choose(listed, NOW) for _ in range(3)] == [part, listed[1], None]
    assert following.asked == set()


def log_of(size: int) -> EventLog:
    return EventLog("log", (LogPart("log", "log", size),))
