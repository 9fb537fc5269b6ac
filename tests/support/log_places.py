"""Places with event logs, for the tests that look for logs in them."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

from iqcar.logs.find.locate import EventLog, Unreadable, locate
from iqcar.logs.ingest import LineTally, read_blocks
from tests.support.block_codecs import lines_of

LOG = b'{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}\n'
APP = "application_1713000000000_0001"


def write(folder: Path, *names: str, content: bytes = LOG) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def logs(paths: Sequence[str | Path]) -> list[EventLog]:
    found = locate(paths)
    for one in found:
        assert isinstance(one, EventLog), one
    return [one for one in found if isinstance(one, EventLog)]


def names(paths: Sequence[str | Path]) -> list[str]:
    return [Path(log.path).name for log in logs(paths)]


def parts(log: EventLog) -> list[str]:
    return [part.path.replace(os.sep, "/").rpartition("/")[2] for part in log.parts]


def unreadable(paths: Sequence[str | Path]) -> str:
    (only,) = locate(paths)
    assert isinstance(only, Unreadable)
    return only.message


def text(log: EventLog) -> bytes:
    tally = LineTally()
    lines = lines_of(read_blocks(log, tally))
    assert tally.damage == ""
    return b"".join(line + b"\n" for line in lines)


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path
