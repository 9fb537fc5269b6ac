"""LZF blocks, decoded by a compiled loop. Imported only when a log needs it: numba is slow to load.

A control byte below 32 starts a run of that many + 1 literals; otherwise its upper 3 bits (and a
further byte, where they are 7) give a length − 2, and its lower 5 bits and the next byte a
distance − 1 to copy from.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


def decode_lzf(data: bytes, size: int) -> memoryview | None:
    """Decode one block.

    Parameters
    ----------
    data : the compressed block without its header.
    size : declared size of the decoded block.

    Returns the decoded block; None if the data is damaged.
    """
    out = np.empty(size, np.uint8)
    return out.data if _decode(np.frombuffer(data, np.uint8), out) else None


@numba.njit("boolean(Array(uint8, 1, 'C', readonly=True), uint8[::1])", cache=True)
def _decode(data: NDArray[np.uint8], out: NDArray[np.uint8]) -> bool:
    """Decode `data` into `out`; tell whether it filled `out` exactly, reading all of `data`."""
    at, to = 0, 0
    while at < data.size:
        control = np.int64(data[at])
        at += 1
        if control < 32:
            run = control + 1
            if at + run > data.size or to + run > out.size:
                return False
            for step in range(run):
                out[to + step] = data[at + step]
            at += run
            to += run
            continue
        length = control >> 5
        if length == 7:
            if at >= data.size:
                return False
            length += np.int64(data[at])
            at += 1
        if at >= data.size:
            return False
        start = to - ((control & 31) << 8) - np.int64(data[at]) - 1
        at += 1
        length += 2
        if start < 0 or to + length > out.size:
            return False
        for step in range(length):
            out[to + step] = out[start + step]
        to += length
    return to == out.size
