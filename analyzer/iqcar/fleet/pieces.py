"""Python objects as rows of a Spark DataFrame: packed, and cut into pieces that Arrow can carry."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pandas as pd
import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PIECE_BYTES = 8 << 20
"""Most bytes of one row (8 MiB): a batch of sixteen is then little beside a worker's memory."""
SCHEMA = "log long, kind string, part int, content binary"
"""Schema of our rows in Spark's words."""
_FAST = 1
"""Level of zstd: tables shrink to a fifth, many times as fast as they were parsed."""


def pack(what: object) -> bytes:
    """Pack an object of ours; it is only ever unpacked by the same application."""
    return zstandard.ZstdCompressor(level=_FAST).compress(pickle.dumps(what, protocol=5))


def unpack(content: bytes) -> Any:
    """Unpack what :func:`pack` packed."""
    return pickle.loads(zstandard.ZstdDecompressor().decompress(content))  # noqa: S301


def rows_of(number: int, kind: str, what: object) -> Iterator[pd.DataFrame]:
    """Make an object's rows: one frame per piece, so that no batch is larger than a piece."""
    content = pack(what)
    for part, start in enumerate(range(0, max(len(content), 1), PIECE_BYTES)):
        yield pd.DataFrame(
            {
                "log": [number],
                "kind": [kind],
                "part": [part],
                "content": [content[start : start + PIECE_BYTES]],
            }
        )


def one_row(number: int, kind: str, what: object) -> pd.DataFrame:
    """Make an object's one row, where it has to stay whole on its way between executors."""
    return pd.DataFrame({"log": [number], "kind": [kind], "part": [0], "content": [pack(what)]})


def rejoined(rows: Iterable[tuple[int, str, int, bytes]]) -> list[tuple[int, str, Any]]:
    """Put objects together from their rows, which come in any order; sorted by number and kind."""
    pieces: dict[tuple[int, str], list[tuple[int, bytes]]] = {}
    for number, kind, part, content in rows:
        pieces.setdefault((int(number), str(kind)), []).append((int(part), bytes(content)))
    return [
        (number, kind, unpack(b"".join(content for _, content in sorted(parts))))
        for (number, kind), parts in sorted(pieces.items())
    ]
