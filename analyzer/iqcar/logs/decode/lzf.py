"""Decodes LZF blocks.

A control byte below 32 starts a run of that many + 1 literals; otherwise its upper 3 bits (and a
further byte, where they are 7) give a length − 2, and its lower 5 bits and the next byte a
distance − 1 to copy from.
"""

from __future__ import annotations

import numpy as np

from iqcar.base.kernels import compiled
from iqcar.tables.arrays import Bytes


def decode_lzf(data: bytes, size: int) -> memoryview | None:
    """Decode one block.

    data: the compressed block without its header.
    size: declared size of the decoded block.

    Returns the decoded block; None if the data is damaged.
    """
    out = np.empty(size, np.uint8)
    whole = compiled(fill_block)(np.frombuffer(data, np.uint8), len(data), out, size)
    return out.data if whole else None


def fill_block(data: Bytes, stored: int, out: Bytes, size: int) -> bool:
    """Decode `data` into `out`; tell whether it filled `out` exactly, reading all of `data`."""
    at, to = 0, 0
    while at < stored:
        control = int(data[at])
        at += 1
        if control < 32:
            run = control + 1
            if at + run > stored or to + run > size:
                return False
            for step in range(run):
                out[to + step] = data[at + step]
            at += run
            to += run
            continue
        length = control >> 5
        if length == 7:
            if at >= stored:
                return False
            length += int(data[at])
            at += 1
        if at >= stored:
            return False
        start = to - ((control & 31) << 8) - int(data[at]) - 1
        at += 1
        length += 2
        if start < 0 or to + length > size:
            return False
        for step in range(length):
            out[to + step] = out[start + step]
        to += length
    return to == size
