"""Packs Python objects into rows of a Spark DataFrame, in pieces that Arrow can carry."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import pandas as pd
from cramjam import lz4

from iqcar.errors import IqcarError, explain_bug
from iqcar.logs.leave_out import leave_out
from iqcar.tables import Tables

PIECE_BYTES = 8 << 20
"""Bytes of an object that one row holds (8 MiB), before they are compressed: a batch of sixteen is
then little beside a worker's memory. LZ4 takes a third of zstd's time and leaves 1.6 times as
much."""
SCHEMA = "log long, kind string, part int, content binary"
"""Schema of our rows in Spark's words."""
FAULTS = "faults"
"""Kind of the rows that tell what bugs a step met, by the numbers of logs."""


def pack(what: object) -> list[bytes]:
    """Pack an object of ours in pieces; it is only ever unpacked by the same application."""
    pickled = memoryview(pickle.dumps(what, protocol=5))
    return [
        bytes(lz4.compress_block(pickled[start : start + PIECE_BYTES]))
        for start in range(0, len(pickled), PIECE_BYTES)
    ]


def unpack(pieces: Iterable[bytes]) -> Any:
    """Unpack what :func:`pack` packed."""
    return pickle.loads(b"".join(map(lz4.decompress_block, pieces)))  # noqa: S301


def rows_of(number: int, kind: str, what: object) -> Iterator[pd.DataFrame]:
    """Make an object's rows: one frame per piece, so that no batch is larger than a piece."""
    for part, content in enumerate(pack(what)):
        yield _row(number, kind, part, content)


def pack_row(number: int, kind: str, what: object) -> pd.DataFrame:
    """Make an object's one row, where it has to stay whole on its way between executors."""
    return _row(number, kind, 0, pickle.dumps(pack(what), protocol=5))


def unpack_row(content: bytes) -> Any:
    """Unpack what :func:`pack_row` packed."""
    return unpack(pickle.loads(content))  # noqa: S301


def _row(number: int, kind: str, part: int, content: bytes) -> pd.DataFrame:
    return pd.DataFrame({"log": [number], "kind": [kind], "part": [part], "content": [content]})


def run_step(frame: Any, step: Callable[[Any], Any]) -> Any:
    """Run a step on each partition of a Spark DataFrame."""
    return frame.mapInPandas(step, SCHEMA)


def objects(frame: Any, kind: str) -> list[tuple[int, Any]]:
    """Bring the objects of a kind to the driver.

    Raises FaultsError if the step that made the rows met bugs.

    Returns the number of each object, and the object, in the order of numbers.
    """
    return unpacked(frame.where(f"kind IN ('{kind}', '{FAULTS}')").collect())


def unpacked(rows: Iterable[tuple[int, str, int, bytes]]) -> list[tuple[int, Any]]:
    """Join the pieces of objects: rows as of :data:`SCHEMA`, in any order.

    Raises FaultsError if some rows tell of bugs.
    """
    pieces: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for number, kind, part, content in rows:
        pieces.setdefault((kind, number), []).append((part, bytes(content)))
    found = [
        (kind, number, unpack(content for _, content in sorted(parts)))
        for (kind, number), parts in sorted(pieces.items())
    ]
    faults = {log: why for kind, _, met in found if kind == FAULTS for log, why in met.items()}
    if faults:
        raise FaultsError(faults)
    return [(number, content) for _, number, content in found]


Part = TypeVar("Part")


class FaultsError(IqcarError):
    """A step met bugs in some applications.

    A step that meets a bug looks at each application of its group alone, and sends what it met
    instead of a result. The driver leaves these applications out and starts again from the tables.

    Attributes
    ----------
    reasons : what was met, by the number of the application's log.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        first = next(iter(reasons.values()))
        super().__init__(f"a step failed on an executor: {first}", "--on-spark")
        self.reasons = reasons

    def leave_out_of(self, tables: Tables) -> Tables:
        """Leave the faulty applications out of the tables; raise this where none would be left."""
        apps = tables.inputs["app"].tolist()
        faulty = {apps[log]: reason for log, reason in self.reasons.items()}
        if len(faulty) == len(tables.applications):
            raise self
        return leave_out(tables, faulty)


def faults_of(parts: Iterable[tuple[int, Part]], work: Callable[[Part], object]) -> dict[int, str]:
    """Do some work on each part alone; return what was met, by the number of the part's log."""
    faults = {}
    for log, part in parts:
        try:
            work(part)
        except Exception as error:
            faults[log] = f"analysing it {explain_bug(error)}"
    return faults
