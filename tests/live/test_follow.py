"""What a growing log gives, in whatever pieces it comes, and whatever happens to it."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest
import zstandard

from iqcar.errors import IqcarError, UsageError
from iqcar.live.watch import MOST_MISSES, LogTail, News, find_log
from tests.support.block_codecs import XERIAL_HEADER, lz4_block, lzf_block, xerial_block
from tests.support.contended_log import contended_log

LOG = contended_log().bytes()
PIECES = [LOG[start : start + 1000] for start in range(0, len(LOG), 1000)]


def flushed_zstd() -> bytes:
    """One frame of several blocks, as Spark flushes it."""
    engine = zstandard.ZstdCompressor().compressobj()
    blocks = [
        engine.compress(one) + engine.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for one in PIECES
    ]
    return b"".join(blocks) + engine.flush()


STORED = {
    "plain": LOG,
    "zstd": flushed_zstd(),
    "zstd-frames": b"".join(map(zstandard.ZstdCompressor().compress, PIECES)),
    "gzip": gzip.compress(LOG),
    "bzip2": b"".join(map(bz2.compress, PIECES)),
    "lz4": b"".join(map(lz4_block, PIECES)),
    "snappy": XERIAL_HEADER + b"".join(map(xerial_block, PIECES)),
    "lzf": b"".join(map(lzf_block, PIECES)),
}


def tail_of(path: Path) -> LogTail:
    return LogTail(find_log(str(path)))


def lines(news: list[News]) -> bytes:
    return b"".join(one.text for one in news)


@pytest.mark.parametrize("step", [1, 777])
@pytest.mark.parametrize("codec", STORED)
def test_a_log_that_comes_in_pieces_gives_each_line_once(
    tmp_path: Path, codec: str, step: int
) -> None:
    stored = STORED[codec]
    log = tmp_path / "local-1.inprogress"
    log.write_bytes(stored[:20])
    tail, got = tail_of(log), []
    cuts = range(20, len(stored), max(step, len(stored) // 60))
    for start, end in zip(cuts, [*cuts[1:], len(stored)], strict=True):
        with log.open("ab") as file:
            file.write(stored[start:end])
        got += list(tail.poll())
        assert all(one.text.endswith(b"\n") and not one.note + one.restart for one in got)
    assert lines(got) == LOG
    assert tail.held_bytes == 0


def test_a_line_without_its_end_is_kept_back(tmp_path: Path) -> None:
    log = tmp_path / "local-1.inprogress"
    log.write_bytes(LOG[:-10])
    tail = tail_of(log)
    assert lines(list(tail.poll())) == LOG[: LOG.rindex(b"\n", 0, -10) + 1]
    assert tail.held_bytes > 0
    log.write_bytes(LOG)
    assert lines(list(tail.poll())) == LOG[LOG.rindex(b"\n", 0, -10) + 1 :]


def test_a_log_that_spark_renames_at_its_end_is_read_on(tmp_path: Path) -> None:
    log = tmp_path / "local-1.inprogress"
    log.write_bytes(LOG[:3000])
    tail = tail_of(log)
    before = lines(list(tail.poll()))
    log.rename(tmp_path / "local-1").write_bytes(LOG)
    assert before + lines(list(tail.poll())) == LOG
    assert not tail.gone


def test_a_log_that_shrank_or_was_replaced_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "local-1.inprogress"
    log.write_bytes(LOG)
    tail = tail_of(log)
    list(tail.poll())
    log.write_bytes(LOG[:3000])
    first, *others = tail.poll()
    assert "shrank" in first.restart
    assert LOG.startswith(lines(others))
    other = contended_log("app-2", 5000).bytes()
    log.write_bytes(other + other)
    first, *others = tail.poll()
    assert "replaced" in first.restart
    assert lines(others) == other + other


def test_a_log_that_was_removed_is_gone_after_some_looks(tmp_path: Path) -> None:
    log = tmp_path / "local-1.inprogress"
    log.write_bytes(LOG)
    tail = tail_of(log)
    list(tail.poll())
    log.unlink()
    notes = [one.note for _ in range(MOST_MISSES + 3) for one in tail.poll()]
    assert tail.gone
    assert len(notes) == 1 and "gone" in notes[0]


def test_damage_ends_the_reading_with_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "local-1.inprogress"
    log.write_bytes(lz4_block(LOG[:2000]) + b"LZ4Blook" + b"\0" * 300)
    tail = tail_of(log)
    *_, last = tail.poll()
    assert "damaged" in last.note and tail.problem
    assert list(tail.poll()) == []


def test_a_rolling_log_is_read_part_by_part(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "appstatus_local-1.inprogress").write_bytes(b"")
    (folder / "events_1_local-1").write_bytes(LOG[:1000])
    tail = tail_of(tmp_path)
    got = list(tail.poll())
    cut = LOG.index(b"\n", 4000) + 1
    (folder / "events_1_local-1").write_bytes(LOG[:cut])
    (folder / "events_2_local-1").write_bytes(LOG[cut : cut + 500])
    got += tail.poll()
    (folder / "events_2_local-1").write_bytes(LOG[cut:])
    got += tail.poll()
    assert lines(got) == LOG
    # What was read is compacted meanwhile: it is not read again.
    (folder / "events_1_local-1").rename(folder / "events_1_local-1.compact")
    (folder / "events_3_local-1").write_bytes(LOG[:cut])
    assert lines(list(tail.poll())) == LOG[:cut]


def test_a_remote_log_is_read_on_where_it_grew() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/live/local-1.inprogress", LOG[:3000])
    tail = LogTail(find_log("memory://live/local-1.inprogress"))
    got = list(tail.poll())
    memory.pipe("/live/local-1.inprogress", LOG)
    got += tail.poll()
    assert lines(got) == LOG


def test_the_one_application_that_runs_is_found(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_bytes(LOG)
    running = tmp_path / "local-2.inprogress"
    running.write_bytes(LOG)
    assert find_log(str(tmp_path)).path == str(running)
    assert find_log(str(tmp_path / "local-2")).path == str(running)
    (tmp_path / "local-3.inprogress").write_bytes(LOG)
    with pytest.raises(UsageError, match="2 applications run here; name one log"):
        find_log(str(tmp_path))
    with pytest.raises(IqcarError, match="does not exist"):
        find_log(str(tmp_path / "nothing"))
