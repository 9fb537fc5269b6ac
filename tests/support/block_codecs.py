"""Small encoders of the block framings that iqcar decodes, written from the formats' descriptions:
the other half of a round trip."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import cramjam

LZF_LITERALS = 32
LZF_DISTANCE = 1 << 13
LZF_LENGTH = 264


def lz4_block(data: bytes, *, raw: bool = False, level: int = 5) -> bytes:
    """One block of lz4-java's LZ4BlockOutputStream."""
    stored = data if raw else bytes(cramjam.lz4.compress_block(data, store_size=False))
    token = (0x10 if raw else 0x20) | level
    return b"LZ4Block" + struct.pack("<Biii", token, len(stored), len(data), 0) + stored


LZ4_END = b"LZ4Block" + struct.pack("<Biii", 0x15, 0, 0, 0)


XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial_block(data: bytes) -> bytes:
    """One block of snappy-java's SnappyOutputStream."""
    stored = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">i", len(stored)) + stored


def lzf_block(data: bytes, *, raw: bool = False) -> bytes:
    """One block of compress-lzf's LZFOutputStream."""
    if raw:
        return b"ZV\x00" + struct.pack(">H", len(data)) + data
    stored = lzf_compress(data)
    return b"ZV\x01" + struct.pack(">HH", len(stored), len(data)) + stored


def lzf_compress(data: bytes) -> bytes:
    """Compress with LZF: literal runs, and copies of at least 3 bytes seen before."""
    out, literals, seen, at = bytearray(), bytearray(), {}, 0

    def flush() -> None:
        for start in range(0, len(literals), LZF_LITERALS):
            run = literals[start : start + LZF_LITERALS]
            out.append(len(run) - 1)
            out.extend(run)
        literals.clear()

    while at < len(data):
        start = seen.get(data[at : at + 3], -1)
        seen[data[at : at + 3]] = at
        distance = at - start - 1
        if start < 0 or distance >= LZF_DISTANCE or at + 3 > len(data):
            literals.append(data[at])
            at += 1
            continue
        length = 3
        while (
            length < LZF_LENGTH
            and at + length < len(data)
            and data[start + length] == data[at + length]
        ):
            length += 1
        flush()
        short = min(length - 2, 7)
        out.append(short << 5 | distance >> 8)
        if short == 7:
            out.append(length - 2 - 7)
        out.append(distance & 0xFF)
        at += length
    flush()
    return bytes(out)


def zstd_zeros(gigabytes: int) -> bytes:
    """A zstd frame of zeros, written by hand: 4 stored bytes for each 128 KiB."""
    block, blocks = 128 << 10, gigabytes << 13
    middle = (block << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (block << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    window = bytes([7 << 3])
    return b"\x28\xb5\x2f\xfd" + b"\0" + window + middle * (blocks - 1) + last


def lines_of(blocks: Iterable[bytes]) -> list[bytes]:
    """Lines without their newlines, blank ones left out; every block is whole lines."""
    found = []
    for block in blocks:
        assert block.endswith(b"\n")
        assert block.strip()
        found += [line.removesuffix(b"\r") for line in block.split(b"\n") if line.strip()]
    return found
