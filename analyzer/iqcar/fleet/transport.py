"""Python objects as rows of a Spark DataFrame: packed, and cut into pieces that Arrow can carry."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pandas as pd
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def stepped(frame: Any, step: Callable[[Any], Any]) -> Any:
    """Run a step on each partition of a Spark DataFrame."""
    return frame.mapInPandas(step, SCHEMA)


def objects(frame: Any, kind: str = "") -> list[tuple[int, Any]]:
    """Bring objects of a kind, or all, to the driver: their numbers and they, in that order."""
    wanted = frame.where(frame["kind"] == kind) if kind else frame
    pieces: dict[int, list[tuple[int, bytes]]] = {}
    for number, part, content in wanted.select("log", "part", "content").collect():
        pieces.setdefault(number, []).append((part, bytes(content)))
    return [
        (number, unpack(b"".join(content for _, content in sorted(parts))))
        for number, parts in sorted(pieces.items())
    ]
