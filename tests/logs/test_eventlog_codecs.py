"""Decoding what Spark and others compress event logs with: round trips, damage, limits."""

from __future__ import annotations

import bz2
import gzip
import io
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.decode import streams
from iqcar.logs.decode.streams import (
    BombError,
    Codec,
    DamageError,
    StoredStream,
    UnfinishedError,
    check_ratio,
    decoded_pieces,
    detect,
)
from iqcar.logs.find.locate import EventLog, locate
from iqcar.logs.ingest import LineTally, read_blocks
from tests.support import block_codecs as enc
from tests.support.block_codecs import lines_of
from tests.support.independent_count import event_lines

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]

    from tests.support.spark_event_logs import SparkLogs

pytest_plugins = ["tests.support.spark_event_logs"]


def decode(stored: bytes) -> tuple[bytes, DamageError | None]:
    out = []
    with StoredStream(io.BytesIO(stored)) as stream:
        try:
            out.extend(decoded_pieces(stream))
        except DamageError as damage:
            return b"".join(out), damage
    return b"".join(out), None


def pieces(data: bytes, size: int = 30_000) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def zstd_of(data: bytes) -> bytes:
    # Level 19 and a content of unknown size, so that frames have several blocks.
    engine = zstandard.ZstdCompressor(level=1, write_checksum=True).compressobj()
    return b"".join(engine.compress(piece) for piece in pieces(data)) + engine.flush()


ENCODERS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.ZSTD: zstd_of,
    Codec.GZIP: gzip.compress,
    Codec.BZIP2: bz2.compress,
    Codec.LZ4_BLOCK: lambda data: b"".join(map(enc.lz4_block, pieces(data))) + enc.LZ4_END,
    Codec.SNAPPY_XERIAL: lambda data: (
        enc.XERIAL_HEADER + b"".join(map(enc.xerial_block, pieces(data)))
    ),
    Codec.LZF: lambda data: b"".join(map(enc.lzf_block, pieces(data))),
}
every_codec = pytest.mark.parametrize("codec", ENCODERS, ids=str)
texts = st.one_of(
    st.binary(min_size=1, max_size=300),
    st.builds(
        lambda words, count: b" ".join(words) * count,
        st.lists(st.sampled_from([b'{"Event":', b"SparkListenerTaskEnd", b"0", b"\n"]), min_size=1),
        st.integers(1, 2000),
    ),
)


def event_text(size: int = 200_000) -> bytes:
    """Text that compresses about as event logs do."""
    chance = random.Random(7)
    line = b'{"Event":"SparkListenerTaskEnd","Stage ID":%d,"Launch Time":%d,"Host":"h%d"}\n'
    lines = [
        line % (chance.randrange(9), chance.randrange(10**12), chance.randrange(9))
        for _ in range(size // 80)
    ]
    return b"".join(lines)


@every_codec
@given(data=texts)
def test_what_was_encoded_is_decoded(codec: Codec, data: bytes) -> None:
    stored = ENCODERS[codec](data)
    assert detect(stored[: streams.HEAD_BYTES]) is codec
    assert decode(stored) == (data, None)


@every_codec
def test_streams_may_follow_one_another(codec: Codec) -> None:
    first, second = event_text(), b"tail\n" * 9
    stored = ENCODERS[codec](first) + ENCODERS[codec](second)
    assert decode(stored) == (first + second, None)


@every_codec
def test_a_cut_stream_yields_what_comes_before_the_cut(codec: Codec) -> None:
    data = event_text(2_000_000 if codec is Codec.BZIP2 else 300_000)
    stored = ENCODERS[codec](data)
    got, damage = decode(stored[: len(stored) * 9 // 10])
    assert isinstance(damage, UnfinishedError)
    assert data.startswith(got)
    assert len(got) > len(data) // 3


@every_codec
@given(at=st.floats(0, 1), noise=st.binary(min_size=1, max_size=64))
def test_rubbish_in_a_stream_raises_nothing_but_damage(
    codec: Codec, at: float, noise: bytes
) -> None:
    stored = SMALL[codec]
    start = int(at * len(stored))
    decode(stored[:start] + noise + stored[start + len(noise) :])


@every_codec
def test_rubbish_in_the_middle_keeps_what_comes_before(codec: Codec) -> None:
    data = event_text(2_000_000 if codec is Codec.BZIP2 else 400_000)
    stored = bytearray(ENCODERS[codec](data))
    middle = len(stored) // 2
    stored[middle : middle + 3000] = b"\xff" * 3000
    got, damage = decode(bytes(stored))
    assert damage is not None
    assert "damaged" in str(damage)
    assert len(got) > len(data) // 4
    assert data.startswith(got[: len(data) // 4])


SMALL = {codec: encode(event_text(3000)) for codec, encode in ENCODERS.items()}


@every_codec
def test_a_stream_without_data_is_empty(codec: Codec) -> None:
    assert decode(ENCODERS[codec](b""))[0] == b""


def test_no_bytes_are_no_text() -> None:
    assert decode(b"") == (b"", None)


@pytest.mark.parametrize(
    "head",
    [b"", b"{", b'{"Event"', b"ZVX", b"BZh", b"PAR1", b"\x00" * 16, b"LZ4", b"\xef\xbb\xbf{"],
)
def test_everything_unknown_is_plain(head: bytes) -> None:
    assert detect(head) is Codec.PLAIN


def test_every_codec_has_a_sentence_and_a_round_trip() -> None:
    assert set(ENCODERS) | {Codec.PLAIN} == set(Codec)
    assert all(codec.sentence for codec in Codec)


def test_stored_blocks_are_passed_on() -> None:
    data = b"not compressed"
    assert decode(enc.lz4_block(data, raw=True)) == (data, None)
    assert decode(enc.lzf_block(data, raw=True)) == (data, None)


def test_frames_without_data_are_skipped() -> None:
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"index"
    data = event_text(1000)
    assert decode(skippable + zstd_of(data) + skippable + zstd_of(data)) == (data * 2, None)


@pytest.mark.parametrize(
    ("stored", "name"),
    [(cramjam.lz4.compress(b"text"), "lz4"), (cramjam.snappy.compress(b"text"), "Snappy")],
)
def test_what_other_tools_compress_is_named(stored: Buffer, name: str) -> None:
    got, damage = decode(bytes(stored))
    assert got == b""
    assert name in str(damage)
    assert "decompress it first" in str(damage)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP, Codec.BZIP2], ids=str)
def test_what_compresses_well_is_decoded_to_its_end(codec: Codec) -> None:
    data = b"0" * 5_000_001
    stored = ENCODERS[codec](data)
    assert decode(stored) == (data, None)
    assert decode(stored * 2) == (data * 2, None)


def test_a_padded_gzip_is_whole_and_one_with_rubbish_behind_is_not() -> None:
    stored = gzip.compress(b"text")
    assert decode(stored + bytes(512)) == (b"text", None)
    assert decode(stored + bytes(512) + stored) == (b"texttext", None)
    got, damage = decode(stored + b"rubbish")
    assert got == b"text"
    assert damage is not None


def test_a_zstd_stream_that_ends_between_two_blocks_is_not_damaged() -> None:
    engine = zstandard.ZstdCompressor().compressobj()
    data = event_text(1000)
    stored = engine.compress(data) + engine.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert decode(stored) == (data, None)


def test_an_lz4_stream_without_its_end_mark_is_not_damaged() -> None:
    assert decode(enc.lz4_block(b"text")) == (b"text", None)


@pytest.mark.parametrize("log", [27, 28, 31, 41])
def test_a_zstd_window_over_the_limit_is_refused(log: int) -> None:
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(log - 10) << 3]) + b"\x01\x00\x00"
    _, damage = decode(frame)
    assert (damage is not None and "window" in str(damage)) is (log > 27)


def test_a_zstd_frame_of_one_segment_over_the_limit_is_refused() -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + b"\x01\x00\x00"
    _, damage = decode(frame)
    assert damage is not None
    assert "window" in str(damage)


def test_data_that_needs_a_dictionary_is_refused() -> None:
    samples = [b"line %d of a log of events" % number * 20 for number in range(200)]
    dictionary = zstandard.train_dictionary(2000, samples)
    stored = zstandard.ZstdCompressor(dict_data=dictionary).compress(samples[0])
    _, damage = decode(stored)
    assert damage is not None
    assert "dictionary" in str(damage)


@pytest.mark.parametrize(
    "stored",
    [
        b"LZ4Block" + struct.pack("<Biii", 0x2F, 10, 0x7FFFFFFF, 0) + b"x" * 99,
        b"LZ4Block" + struct.pack("<Biii", 0x2F, 0x7FFFFFFF, 10, 0) + b"x" * 99,
        b"LZ4Block" + struct.pack("<Biii", 0x2F, -1, -1, 0) + b"x" * 99,
        b"LZ4Block" + struct.pack("<Biii", 0x20, 10, 1 << 20, 0) + b"x" * 99,
        b"LZ4Block" + struct.pack("<Biii", 0x35, 4, 4, 0) + b"x" * 99,
        b"LZ4Block" + struct.pack("<Biii", 0x15, 4, 5, 0) + b"x" * 99,
        enc.XERIAL_HEADER + struct.pack(">I", 0x7FFFFFFF) + b"x" * 99,
        enc.XERIAL_HEADER + struct.pack(">I", 9) + b"\xff\xff\xff\xff\x0f" + b"x" * 99,
        b"ZV\x01" + struct.pack(">HH", 3, 9) + b"\xff\xff\xff" + b"x" * 99,
        b"ZV\x01" + struct.pack(">HH", 2, 9) + b"\x1f\x00" + b"x" * 99,
        b"ZV\x00\x00\x01{ZV\x02\x00\x00" + b"x" * 99,
    ],
)
def test_lengths_that_cannot_be_are_refused(stored: bytes) -> None:
    got, damage = decode(stored)
    assert isinstance(damage, DamageError)
    assert not isinstance(damage, UnfinishedError)
    assert len(got) <= 1


def test_only_a_high_ratio_of_much_data_is_a_bomb() -> None:
    floor, ratio = streams.BOMB_FLOOR_BYTES, streams.MAX_RATIO
    check_ratio(floor, 1)
    check_ratio(2 * ratio * floor, 2 * floor)
    with pytest.raises(BombError):
        check_ratio(floor + 1, 1)
    with pytest.raises(BombError):
        check_ratio(2 * ratio * floor, 2 * floor - 1)


def lines_of_log(path: Path) -> tuple[list[bytes], LineTally, EventLog]:
    (log,) = locate([path])
    assert isinstance(log, EventLog)
    tally = LineTally()
    return lines_of(read_blocks(log, tally)), tally, log


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("plain", Codec.PLAIN),
        ("lz4", Codec.LZ4_BLOCK),
        ("snappy", Codec.SNAPPY_XERIAL),
        ("lzf", Codec.LZF),
        ("zstd", Codec.ZSTD),
    ],
)
def test_what_spark_writes_is_read_as_spark_reads_it(
    spark_logs: SparkLogs, name: str, codec: Codec
) -> None:
    path = spark_logs.log(name)
    assert detect(path.read_bytes()[: streams.HEAD_BYTES]) is codec
    got, tally, log = lines_of_log(path)
    assert got == spark_logs.expected(name)
    assert (tally.damage, tally.last_line_cut, log.in_progress_hint) == ("", False, False)
    assert b'"Event":"SparkListenerTaskEnd"' in b"".join(got)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["plain", "lz4", "snappy", "lzf", "zstd", "rolling"])
def test_a_log_that_spark_is_writing_is_read_as_far_as_it_is_written(
    spark_logs: SparkLogs, name: str
) -> None:
    got, tally, log = lines_of_log(spark_logs.running(name))
    assert log.in_progress_hint
    assert tally.damage == ""
    expected = spark_logs.expected(name)
    whole = got[:-1] if tally.last_line_cut else got
    assert len(whole) > 5
    assert whole == expected[: len(whole)]


@pytest.mark.spark
def test_a_log_that_spark_rolled_is_read_in_order(spark_logs: SparkLogs) -> None:
    got, _, log = lines_of_log(spark_logs.log("rolling"))
    assert len(log.parts) > 2
    assert got == spark_logs.expected("rolling")


@pytest.mark.spark
def test_a_log_that_spark_compacted_is_read_from_the_compact_file(spark_logs: SparkLogs) -> None:
    got, _, log = lines_of_log(spark_logs.log("compacted"))
    assert log.parts[0].path.endswith(".compact")
    assert log.problem == ""
    assert got == spark_logs.expected("compacted")
    assert len(got) < len(spark_logs.expected("rolling"))


def test_all_lines_of_other_peoples_logs_are_read(shared_logs: Path) -> None:
    logs = locate([shared_logs])
    assert len(logs) == len([path for path in shared_logs.iterdir() if path.name != "README.md"])
    for log in logs:
        assert isinstance(log, EventLog)
        tally = LineTally()
        count = len(lines_of(read_blocks(log, tally)))
        expected = sum(len(event_lines(Path(part.source))) for part in log.parts)
        assert count == expected, log.path
        assert tally.damage == ""
