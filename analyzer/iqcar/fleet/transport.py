"""Pack Python objects into rows of a Spark DataFrame, in pieces that Arrow can carry."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pandas as pd
import zstandard

from iqcar.fleet.faults import FaultsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PIECE_BYTES = 8 << 20
"""Most bytes of one row (8 MiB): a batch of sixteen is then little beside a worker's memory."""
SCHEMA = "log long, kind string, part int, content binary"
"""Schema of our rows in Spark's words."""
FAULTS = "faults"
"""Kind of the rows that tell what bugs a step met, by the numbers of logs."""
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


def objects(frame: Any, kind: str) -> list[tuple[int, Any]]:
    """Bring the objects of a kind to the driver.

    Returns
    -------
    list of (int, object)
        Number of each object, and the object, in the order of numbers.

    Raises
    ------
    FaultsError
        If the step that made the rows met bugs.
    """
    return unpacked(frame.where(f"kind IN ('{kind}', '{FAULTS}')").collect())


def unpacked(rows: Iterable[tuple[int, str, int, bytes]]) -> list[tuple[int, Any]]:
    """Join the pieces of objects: rows as of :data:`SCHEMA`, in any order.

    Raises
    ------
    FaultsError
        If some rows tell of bugs.
    """
    pieces: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for number, kind, part, content in rows:
        pieces.setdefault((kind, number), []).append((part, bytes(content)))
    found = [
        (kind, number, unpack(b"".join(content for _, content in sorted(parts))))
        for (kind, number), parts in sorted(pieces.items())
    ]
    faults = {log: why for kind, _, met in found if kind == FAULTS for log, why in met.items()}
    if faults:
        raise FaultsError(faults)
    return [(number, content) for _, number, content in found]
