"""Splitting event logs into lines: what is dropped, what is kept, and what stops it."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs import ingest as reader
from iqcar.logs.decode.streams import CHUNK_BYTES
from iqcar.logs.find.layouts import EventLog, LogPart
from iqcar.logs.ingest import LineTally, read_blocks
from tests.support.block_codecs import lines_of, zstd_zeros

EVENT = (
    b'{"Event":"SparkListenerTaskEnd","Stage ID":0,"Stage Attempt ID":0,"Task Type":"ResultTask"}'
)


def log_of(*files: Path, in_progress: bool = False) -> EventLog:
    parts = tuple(LogPart(str(file), str(file), file.stat().st_size) for file in files)
    return EventLog(str(files[0]), parts, in_progress)


def read(*files: Path, in_progress: bool = False) -> tuple[list[bytes], LineTally]:
    tally = LineTally()
    blocks = list(read_blocks(log_of(*files, in_progress=in_progress), tally))
    return lines_of(blocks), tally


def stored(tmp_path: Path, content: bytes, name: str = "log") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "lines", "cut"),
    [
        (b"", [], False),
        (b"\n\n \t\n", [], False),
        (b"a\nb\n", [b"a", b"b"], False),
        (b"a\n\nb", [b"a", b"b"], True),
        (b"a\r\nb\r\n\r\n", [b"a", b"b"], False),
        (b"a\r\nb\r", [b"a", b"b"], True),
        (b"\xef\xbb\xbfa\nb\xef\xbb\xbf\n", [b"a", b"b\xef\xbb\xbf"], False),
        (b"\xef\xbb\xbf", [], False),
        (b"a\rb\n", [b"a\rb"], False),
    ],
)
def test_lines_end_at_newlines_and_blank_ones_are_dropped(
    tmp_path: Path, content: bytes, lines: list[bytes], cut: bool
) -> None:
    got, tally = read(stored(tmp_path, content))
    assert got == lines
    assert tally.last_line_cut is cut
    assert (tally.damage, tally.too_long) == ("", 0)
    assert tally.bytes_stored == tally.bytes_decoded == len(content)


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 7))
def test_lines_do_not_depend_on_where_chunks_end(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], chunk: int
) -> None:
    content = b"\n".join(pieces)
    path = stored(tmp_path_factory.mktemp("lines"), gzip.compress(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iqcar.logs.decode.streams.CHUNK_BYTES", chunk)
        got, tally = read(path)
    body = content.removeprefix(b"\xef\xbb\xbf")
    expected = [line.removesuffix(b"\r") for line in body.split(b"\n")]
    assert [line.rstrip() for line in got] == [
        line.rstrip() for line in expected if line and not line.isspace()
    ]
    assert tally.bytes_decoded == len(content)


def test_a_line_of_200_mb_is_skipped_and_counted_in_bounded_memory(tmp_path: Path) -> None:
    engine = zstandard.ZstdCompressor()
    path = tmp_path / "log"
    with path.open("wb") as file, engine.stream_writer(file) as writer:
        writer.write(EVENT + b"\n")
        for _ in range(200):
            writer.write(b"x" * 1_000_000)
        writer.write(b"\n" + EVENT + b"\n")
    tracemalloc.start()
    got, tally = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got == [EVENT, EVENT]
    assert (tally.too_long, tally.damage, tally.last_line_cut) == (1, "", False)
    assert peak < reader.MAX_LINE_BYTES + 32 * CHUNK_BYTES


def test_a_long_line_at_the_end_is_counted_and_is_no_cut_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 100)
    got, tally = read(stored(tmp_path, b"a\n" + b"x" * 101))
    assert (got, tally.too_long, tally.last_line_cut) == ([b"a"], 1, False)


def test_a_line_of_exactly_the_limit_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 100)
    got, tally = read(stored(tmp_path, b"x" * 100 + b"\nb\n"))
    assert (got, tally.too_long) == ([b"x" * 100, b"b"], 0)
    got, tally = read(stored(tmp_path, b"x" * 101 + b"\nb\n"))
    assert (got, tally.too_long) == ([b"b"], 1)


@given(st.lists(st.integers(1, 40), max_size=20), st.integers(1, 7), st.integers(1, 99))
def test_long_lines_are_left_out_wherever_pieces_and_blocks_end(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], piece: int, block: int
) -> None:
    lines = [b"%d" % (number % 10) * size for number, size in enumerate(sizes)]
    content = gzip.compress(b"\n".join([*lines, b""]))
    path = stored(tmp_path_factory.mktemp("lines"), content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iqcar.logs.decode.streams.CHUNK_BYTES", piece)
        patch.setattr(reader, "CHUNK_BYTES", block)
        patch.setattr(reader, "MAX_LINE_BYTES", 30)
        got, tally = read(path)
    assert got == [line for line in lines if len(line) <= 30]
    assert tally.too_long == len(lines) - len(got)


def test_each_part_starts_a_line(tmp_path: Path) -> None:
    parts = [stored(tmp_path, b"a\nb", "1"), stored(tmp_path, b"\xef\xbb\xbfc\n", "2")]
    got, tally = read(*parts)
    assert (got, tally.last_line_cut) == ([b"a", b"b", b"c"], False)


def test_a_damaged_part_does_not_hide_the_later_ones(tmp_path: Path) -> None:
    broken = gzip.compress(b"a\n" * 1000)[:-20]
    got, tally = read(stored(tmp_path, broken, "one.gz"), stored(tmp_path, b"z\n", "two"))
    assert got[-1] == b"z"
    assert tally.damage.startswith("one.gz: ")
    assert tally.last_line_cut is False


def test_a_part_that_is_gone_is_damage(tmp_path: Path) -> None:
    log = log_of(stored(tmp_path, b"a\n"))
    Path(log.path).unlink()
    tally = LineTally()
    assert list(read_blocks(log, tally)) == []
    assert tally.damage == "it cannot be opened: it does not exist"


@pytest.mark.parametrize("in_progress", [True, False])
def test_an_unfinished_end_is_damage_unless_the_log_is_in_progress(
    tmp_path: Path, in_progress: bool
) -> None:
    content = zstandard.ZstdCompressor().compress(EVENT * 4000 + b"\n")
    path = stored(tmp_path, content[: len(content) - 8])
    assert bool(read(path, in_progress=in_progress)[1].damage) is not in_progress


def test_progress_counts_stored_bytes_up_to_the_size(tmp_path: Path) -> None:
    raw = b"".join(EVENT + b"%d\n" % number for number in range(50_000))
    files = [stored(tmp_path, gzip.compress(raw), "1"), stored(tmp_path, raw, "2")]
    steps: list[int] = []
    list(read_blocks(log_of(*files), LineTally(), steps.append))
    assert steps == sorted(steps)
    assert len(steps) > 4
    assert steps[-1] == sum(file.stat().st_size for file in files)


def test_blocks_are_small(tmp_path: Path) -> None:
    path = stored(tmp_path, gzip.compress((EVENT + b"\n") * 100_000))
    for block in read_blocks(log_of(path), LineTally()):
        assert len(block) <= 2 * CHUNK_BYTES


def test_zeros_that_unpack_to_10_gb_stop_early(tmp_path: Path) -> None:
    bomb = stored(tmp_path, zstd_zeros(10))
    after = stored(tmp_path, b"a\n", "after")
    got, tally = read(bomb, after)
    assert "decompression bomb" in tally.damage
    assert tally.bytes_decoded < 1.1 * (1 << 30)
    assert (got, tally.too_long) == ([], 1)


@pytest.mark.long
def test_members_of_a_bomb_are_counted_together(tmp_path: Path) -> None:
    member = gzip.compress(EVENT + b"\n" + b" " * (16 << 20) + b"\n")
    got, tally = read(stored(tmp_path, member * 80))
    assert "decompression bomb" in tally.damage
    assert set(got) == {EVENT}
    assert 64 <= len(got) <= 66


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[1,2,3]\r\n"])
def test_countless_short_lines_stop_early(tmp_path: Path, line: bytes) -> None:
    content = gzip.compress(line * (64_000_000 // len(line)), 1)
    _, tally = read(stored(tmp_path, content))
    assert "not Spark events" in tally.damage
    assert tally.bytes_decoded < 10_000_000 + 2 * CHUNK_BYTES


def test_a_log_of_many_short_events_is_read_whole(tmp_path: Path) -> None:
    got, tally = read(stored(tmp_path, gzip.compress((EVENT + b"\n") * 1_100_000, 1)))
    assert (len(got), tally.damage) == (1_100_000, "")
