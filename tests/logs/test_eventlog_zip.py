"""Event logs in zips, and zips that mean harm."""

from __future__ import annotations

import copy
import io
import os
import zipfile
from pathlib import Path

import pytest
import zstandard

from iqcar.logs.find import storage
from iqcar.logs.find.locate import EventLog
from iqcar.logs.ingest import LineTally, read_blocks
from tests.support.block_codecs import lines_of
from tests.support.log_places import APP, LOG, logs, text, unreadable, zipped


def test_the_history_servers_zip_holds_attempts_and_rolling_folders(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / f"eventLogs-{APP}.zip",
        {
            f"{APP}_1.zstd": zstandard.ZstdCompressor().compress(LOG * 9),
            f"eventlog_v2_{APP}_2/": b"",
            f"eventlog_v2_{APP}_2/appstatus_{APP}_2.inprogress": b"",
            f"eventlog_v2_{APP}_2/events_10_{APP}_2": LOG + b'{"n":10}\n',
            f"eventlog_v2_{APP}_2/events_9_{APP}_2": LOG,
        },
    )
    for given_path in (path, tmp_path):
        first, second = logs([given_path])
        assert first.path == f"{path}::{APP}_1.zstd"
        assert (first.attempt_id, second.attempt_id) == ("1", "2")
        assert second.path == f"{path}::eventlog_v2_{APP}_2"
        assert second.in_progress_hint
        assert "events_1, events_2" in second.problem
        assert text(first) == LOG * 9
        assert text(second) == LOG + LOG + b'{"n":10}\n'


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_any_method_of_compression_in_a_zip_is_read(tmp_path: Path, method: int) -> None:
    (log,) = logs([zipped(tmp_path / "a.zip", {"x/y/whatever.txt": LOG * 99}, method)])
    assert text(log) == LOG * 99


def test_a_zip_is_told_by_its_content_and_other_members_are_passed_over(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "download",
        {"README.md": b"no log", ".x": LOG, "../../etc/log": LOG, "/abs": LOG},
    )
    found = sorted(log.path for log in logs([path, tmp_path]))
    assert found == [f"{path}::../../etc/log", f"{path}::abs"]


def test_a_zip_without_logs_is_unreadable(tmp_path: Path) -> None:
    assert "no event log" in unreadable([zipped(tmp_path / "a.zip", {"README.md": b"no log"})])
    assert "no event log" in unreadable([zipped(tmp_path / "b.zip", {})])


def test_a_cut_zip_is_unreadable(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"log": LOG * 99})
    path.write_bytes(path.read_bytes()[:-30])
    assert "zip is damaged" in unreadable([path])


def test_a_zip_with_too_many_members_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zipped(tmp_path / "a.zip", {f"log-{number}": LOG for number in range(4)})
    monkeypatch.setattr(storage, "MAX_MEMBERS", 3)
    assert "4 members" in unreadable([path])
    monkeypatch.setattr(storage, "MAX_DIRECTORY_BYTES", 100)
    assert "directory is larger" in unreadable([path])


def damage_of(log: EventLog) -> tuple[int, LineTally]:
    tally = LineTally()
    return len(lines_of(read_blocks(log, tally))), tally


def test_a_damaged_member_is_read_as_far_as_possible(tmp_path: Path) -> None:
    content = b"".join(LOG[:-1] + os.urandom(20).hex().encode() + b"\n" for _ in range(50_000))
    path = zipped(tmp_path / "a.zip", {"local-1": content})
    stored = bytearray(path.read_bytes())
    middle = len(stored) * 2 // 3
    stored[middle : middle + 99] = b"\xff" * 99
    path.write_bytes(stored)
    (log,) = logs([path])
    count, tally = damage_of(log)
    assert count > 10_000
    assert tally.damage.startswith("reading stopped: ")


def test_an_encrypted_or_vanished_member_is_damage(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"local-1": LOG})
    stored = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        stored[stored.index(mark) + offset] |= 1
    path.write_bytes(stored)
    (log,) = logs([path])
    assert "encrypted" in damage_of(log)[1].damage
    zipped(path, {"other": LOG})
    assert "damaged" in damage_of(log)[1].damage


def test_a_bomb_in_a_zip_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("local-1", "w", force_zip64=True) as member,
    ):
        engine = zstandard.ZstdCompressor().compressobj()
        for _ in range(1100):
            member.write(engine.compress(bytes(1 << 20)))
        member.write(engine.flush())
    (log,) = logs([path])
    assert "bomb" in damage_of(log)[1].damage


def test_a_zip_from_a_server_that_cannot_seek_is_copied(tmp_path: Path) -> None:
    stored = zipped(tmp_path / "a.zip", {"log": LOG}).read_bytes()

    class Streamed(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError("cannot seek")

    assert storage.members(Streamed(stored))[0][0] == "log"
    with storage.open_member(Streamed(stored), "log") as stream:
        assert stream.read(1000) == LOG


def test_a_zip_whose_members_overlap_is_refused(tmp_path: Path) -> None:
    """Thousands of members over the same bytes would each be read in full."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("local-1", LOG * 99)
        (entry,) = file.infolist()
        for number in range(2, 50):
            again = copy.copy(entry)
            again.filename = f"local-{number}"
            file.filelist.append(again)
    assert "overlap" in unreadable([path])
    with zipfile.ZipFile(path, "w") as file:  # one inside another
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as inside:
            inside.writestr("local-2", LOG)
        file.writestr("local-1", inner.getvalue() + LOG * 99)
        quoted = copy.copy(inside.infolist()[0])
        quoted.header_offset = zipfile.sizeFileHeader + len("local-1")
        file.filelist.append(quoted)
    assert "overlap" in unreadable([path])


def test_the_directory_of_a_zip_is_read_once_whatever_the_number_of_its_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    reading = storage._read_directory
    monkeypatch.setattr(storage, "_read_directory", lambda file: read.append(file) or reading(file))
    path = zipped(tmp_path / "a.zip", {f"log of {number}": LOG for number in range(50)})
    found = logs([path])
    assert [text(log) for log in found] == [LOG] * 50
    assert len(read) == 1
    zipped(path, {"other": LOG * 2})
    (other,) = logs([path])
    assert text(other) == LOG * 2
