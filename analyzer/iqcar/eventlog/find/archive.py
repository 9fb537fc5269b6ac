"""Zip files, such as the History Server's ``/logs`` download. Nothing is extracted to disk."""

from __future__ import annotations

import tempfile
import zipfile
from contextlib import ExitStack
from typing import BinaryIO, cast

from iqcar.eventlog.decode.streams import CHUNK_BYTES, DamageError, StoredStream

ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
"""How a zip starts; the second is one without members."""

MAX_DIRECTORY_BYTES = 64 << 20
"""Largest directory of a zip that is read (64 MiB, about half a million members)."""

MAX_MEMBERS = 100_000
"""Most members of a zip. The History Server packs one application: a few attempts, each of a few
hundred rolling files at most."""

MAX_COPY_BYTES = 4 << 30
"""Largest zip that is copied to a temporary file because its server cannot seek (4 GiB)."""


def members(file: BinaryIO) -> list[tuple[str, int]]:
    """List the files in a zip.

    Parameters
    ----------
    file : binary file
        The zip; it stays open.

    Returns
    -------
    list of (str, int)
        Name and stored size in bytes.

    Raises
    ------
    DamageError
        If it is no readable zip, or has more than :data:`MAX_MEMBERS` members.
    """
    with ExitStack() as stack:
        archive = _opened(file, stack)
        files = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(files) > MAX_MEMBERS:
        raise DamageError(f"the zip has {len(files):,} members; at most {MAX_MEMBERS:,} are read")
    return [(entry.filename, entry.compress_size) for entry in files]


def open_member(file: BinaryIO, member: str) -> StoredStream:
    """Open a member of a zip; closing it closes `file`, and so does failing to open it.

    Raises
    ------
    DamageError
        If the zip or the member cannot be read.
    """
    with ExitStack() as stack:
        stack.callback(file.close)
        archive = _opened(file, stack)
        try:
            entry = archive.getinfo(member)
            content = stack.enter_context(archive.open(entry))
        except (KeyError, NotImplementedError, zipfile.BadZipFile) as error:
            raise DamageError(f"the zip is damaged or of an unknown kind ({error})") from error
        except RuntimeError as error:
            raise DamageError("the zip is encrypted; unpack it first") from error
        share = entry.compress_size / max(1, entry.file_size)
        return StoredStream(_Member(content, stack.pop_all()), share)
    raise AssertionError("unreachable")


class _Member:
    """The content of a zip's member, with all that has to be closed after it."""

    def __init__(self, content: zipfile.ZipExtFile | object, stack: ExitStack) -> None:
        self._stack = stack
        self.read = content.read  # type: ignore[union-attr]

    def close(self) -> None:
        """Close the member, the zip and its file."""
        self._stack.close()


class _Limited:
    """A file that refuses to read a huge piece at once, as a huge zip directory would be."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def seekable(self) -> bool:
        """Tell that it can be sought in."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes."""
        if size > MAX_DIRECTORY_BYTES:
            raise DamageError(f"the zip's directory is larger than {MAX_DIRECTORY_BYTES >> 20} MiB")
        return self._file.read(size)

    def close(self) -> None:
        """Leave the file to its owner."""


def _opened(file: BinaryIO, stack: ExitStack) -> zipfile.ZipFile:
    if not file.seekable():
        file = stack.enter_context(_copy(file))
    try:
        return stack.enter_context(zipfile.ZipFile(cast("BinaryIO", _Limited(file))))
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DamageError(f"the zip is damaged or cut off ({error})") from error


def _copy(file: BinaryIO) -> BinaryIO:
    """Copy a stream to a temporary file, for a server that sends a zip as it makes it."""
    copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    size = 0
    while chunk := file.read(CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_COPY_BYTES:
            copy.close()
            raise DamageError(
                f"the zip is larger than {MAX_COPY_BYTES >> 30} GiB; download it first"
            )
        copy.write(chunk)
    copy.seek(0)
    return copy
