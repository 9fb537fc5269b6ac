"""Opening what a log is stored in, and telling from its first bytes what it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from iqcar.base.files.opening import open_file
from iqcar.errors import IqcarError
from iqcar.logs.decode.codecs import decoded_pieces
from iqcar.logs.decode.streams import DamageError, StoredStream, why
from iqcar.logs.find import archive
from iqcar.logs.find.layouts import IN_PROGRESS
from iqcar.logs.find.log_parts import LogPart
from iqcar.logs.find.remote import forget_listings, is_url, open_url

SNIFF_BYTES = 64 << 10
"""Decoded bytes looked at to tell an event log from any other file (64 KiB)."""

SNIFF_LINES = 3
"""Lines of which one must be an event: a damaged first line is forgiven, while a text that quotes
an event somewhere is no log."""

_EVENT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{.{0,1000}?"Event"\s*:\s*"', re.DOTALL)


def open_source(source: str, within: Sequence[str] = ()) -> BinaryIO:
    """Open a local file (see :func:`~iqcar.base.files.opening.open_file`) or a URL for reading.

    A log whose application has ended since it was found is opened under its new name. Raises what
    the storage raises.
    """
    try:
        return open_url(source) if is_url(source) else open_file(source, within)
    except FileNotFoundError:
        if not source.endswith(IN_PROGRESS):
            raise
    return open_source(source.removesuffix(IN_PROGRESS), within)


def open_part(part: LogPart) -> StoredStream:
    """Open one part of a log.

    Raises DamageError if it cannot be opened. Raises IqcarError if what reads its kind of URL is
    not installed.
    """
    try:
        file = _open_front(part)
        return archive.open_member(file, part.member) if part.member else StoredStream(file)
    except (DamageError, IqcarError):
        raise
    except Exception as error:  # any backend's own error type
        raise DamageError(f"it cannot be opened: {why(error)}") from error


def _open_front(part: LogPart) -> BinaryIO:
    """Open a part to be read from its front.

    Remote stores open what was there when they listed it, and fail when it is read. So the first
    bytes of a running application's log are read at once, and kept.
    """
    file = open_source(part.source, part.within)
    if is_url(part.source) and part.source.endswith(IN_PROGRESS):
        try:
            file.read(1)
            file.seek(0)
        except Exception:  # any backend's own error type
            file.close()
            forget_listings(part.source)
            return open_source(part.source, part.within)
    return file


def zip_members(source: str, within: Sequence[str] = ()) -> list[tuple[str, int]] | None:
    """List name and stored size of the files in a zip; None if the file is no zip.

    Raises DamageError if it is a zip that cannot be read. Errors of the storage are raised as they
    are.
    """
    with open_source(source, within) as file:
        if file.read(len(archive.ZIP_MAGICS[0])) not in archive.ZIP_MAGICS:
            return None
    with open_source(source, within) as file:
        return archive.members(file)


def looks_like_log(part: LogPart) -> bool:
    """Tell whether the first decoded bytes of a file start with Spark events."""
    text = b""
    try:
        with open_part(part) as stream:
            for chunk in decoded_pieces(stream):
                text += chunk[:SNIFF_BYTES]
                if len(text) >= SNIFF_BYTES:
                    break
    except DamageError:
        pass
    lines = [line for line in text[:SNIFF_BYTES].split(b"\n") if line.strip()]
    return any(_EVENT.match(line) for line in lines[:SNIFF_LINES])
