"""The folder of results that `iqcar serve` keeps: what is in it, how much, and for how long."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from iqcar.serve.cache import PAGE, RESULT, Cache, write_entry
from iqcar.serve.summary import Summary
from iqcar.version import __version__


def summary(*keys: str, settings: str = "s") -> Summary:
    return Summary(
        keys, _version(), settings, "p", 1, 2.0, 1.0, None, None, None, None, None, (), ()
    )


def _version() -> str:

    return __version__


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
