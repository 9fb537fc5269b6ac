"""Keep results in a folder: compressed JSON and pages, named by their inputs and settings.

Nothing in it is ever executed or unpickled, and only the owner of the folder may write there: a
page from it is sent to browsers.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from iqcar.apps.serve.applications import Identity
from iqcar.apps.serve.result_summary import ApplicationLoss, Summary
from iqcar.base.files.derived import write_derived
from iqcar.base.files.opening import own_folder, read_own
from iqcar.errors import IqcarError
from iqcar.version import __version__

MAX_CACHE_BYTES = 1 << 30
"""Bytes kept by default (1 GiB): some hundred reports, each of one or two compressed megabytes."""

RESULT, PAGE, SUMMARY = "result.json.gz", "page.html.gz", "summary.json"
"""Files of an entry: what ``iqcar analyze --json`` writes, the report, and a few numbers of it."""

DIGEST_BYTES = 16
"""Bytes of an entry's name (16): SHA-256 cut to 128 bits."""

LEFT_BEHIND_S = 86_400.0
"""Age from which an unfinished entry is one that a server left behind (a day)."""

LAYOUT = "3"
"""Changes when the entries' files do, so that those of older versions are not read."""

_DIGEST = re.compile(rf"[0-9a-f]{{{2 * DIGEST_BYTES}}}\Z")
_UNFINISHED = "unfinished-"


def digest_of(logs: Sequence[tuple[str, Identity]], settings: str) -> str:
    """Name the result of analysing some states of logs together, in whatever order.

    Parameters
    ----------
    logs : sequence of (str, Identity)
        Key and identity of each.
    settings : str
        The settings of the analysis, as text.
    """
    what = json.dumps([LAYOUT, __version__, settings, sorted(logs)])
    return hashlib.sha256(what.encode()).hexdigest()[: 2 * DIGEST_BYTES]


def cache_folder(given: str | None) -> Path:
    """Return the folder that a user gave, or else the usual one for caches."""
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "iqcar"


class Cache:
    """A folder of results, bounded in size; those not used for longest go first.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    max_bytes : int
        Bytes to keep at most; the newest entry is kept in any case.

    Attributes
    ----------
    size_bytes : int
        Size of all entries when the last one came, those of other servers included.

    Raises
    ------
    IqcarError
        If the folder cannot be made, or others can write to it.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._lock = threading.Lock()
        self._summaries: dict[str, Summary] = {}
        self._latest: dict[tuple[str, ...], str] = {}
        self._losses: dict[tuple[str, str], tuple[str, ApplicationLoss]] = {}
        self._prepare()

    @property
    def results(self) -> int:
        """How many results can be asked for."""
        return len(self._summaries)

    def begin(self) -> Path:
        """Make a folder for the files of an entry; :meth:`finish` or :meth:`discard` it."""
        return Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.folder))

    def discard(self, unfinished: Path) -> None:
        """Remove what became no entry."""
        _remove(unfinished)

    def finish(self, unfinished: Path, digest: str) -> Summary:
        """Make the files an entry; the same entry made twice is kept once.

        Raises
        ------
        OSError, ValueError
            If the files are not there or cannot be read.
        """
        summary = _read_summary(unfinished)
        with self._lock:
            place = self.folder / digest
            _remove(place)
            try:
                unfinished.rename(place)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self.discard(unfinished)  # another server made the same entry meanwhile
            self._remember(digest, summary)
            self._make_room(digest)
        return summary

    def summary(self, digest: str) -> Summary | None:
        """Return what an entry says in short; None if there is no such entry."""
        return self._summaries.get(digest)

    def latest(self, keys: Sequence[str], settings: str) -> str | None:
        """Return the newest entry about exactly these applications, of whatever state of theirs."""
        return self._latest.get((settings, *sorted(keys)))

    def loss(self, key: str, settings: str) -> ApplicationLoss | None:
        """Return what an application lost, by the newest entry about most applications with it."""
        found = self._losses.get((settings, key))
        return found[1] if found else None

    def read(self, digest: str, name: str) -> bytes | None:
        """Return a file of an entry as it is stored; None if it is not there any more."""
        if not _DIGEST.match(digest) or digest not in self._summaries:
            return None
        try:
            content = _read(self.folder / digest, name)
            os.utime(self.folder / digest, follow_symlinks=False)
        except OSError:
            self._forget(digest)
            return None
        return content

    def _prepare(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = self.folder.stat()
            entries = self._entries()
        except OSError as error:
            raise IqcarError(
                f"no results can be kept there: {(error.strerror or 'unknown').lower()}",
                str(self.folder),
                "give another folder with --cache",
            ) from error
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or status.st_uid != os.getuid():
            raise IqcarError(
                "others can write to this folder, and what is in it is shown as reports",
                str(self.folder),
                "give a folder of your own with --cache (chmod 700)",
            )
        for changed_s, entry in entries:
            if entry.name.startswith(_UNFINISHED):
                # Another server may be at work on one that is new.
                if time.time() - changed_s > LEFT_BEHIND_S:
                    self.discard(entry)
            elif _DIGEST.match(entry.name):
                try:
                    summary = _read_summary(entry)
                except (OSError, ValueError):
                    self.discard(entry)
                    continue
                if summary.iqcar_version == __version__:
                    self._remember(entry.name, summary)
        self._make_room("")

    def _entries(self) -> list[tuple[float, Path]]:
        """List when each folder in the folder was changed, the oldest first; a link is none.

        Other servers rename and remove them meanwhile: one that is gone is left out.
        """
        entries = []
        with os.scandir(self.folder) as found:
            for one in found:
                with contextlib.suppress(FileNotFoundError):
                    if one.is_dir(follow_symlinks=False):
                        changed_s = one.stat(follow_symlinks=False).st_mtime
                        entries.append((changed_s, self.folder / one.name))
        return sorted(entries)

    def _remember(self, digest: str, summary: Summary) -> None:
        self._summaries[digest] = summary
        self._latest[_subject(summary)] = digest
        for loss in summary.of_applications:
            known = self._losses.get((summary.settings, loss.key))
            if known is None or known[1].together <= loss.together:
                self._losses[summary.settings, loss.key] = digest, loss

    def _forget(self, digest: str) -> None:
        summary = self._summaries.pop(digest, None)
        if summary and self._latest.get(_subject(summary)) == digest:
            del self._latest[_subject(summary)]
        for subject, (known, _) in list(self._losses.items()):
            if known == digest:
                del self._losses[subject]

    def _make_room(self, newest: str) -> None:
        sizes = {}
        for _, entry in self._entries():
            if _DIGEST.match(entry.name):
                with contextlib.suppress(OSError):
                    sizes[entry] = sum(file.lstat().st_size for file in entry.iterdir())
        total = sum(sizes.values())
        for entry, size in sizes.items():
            if total <= self.max_bytes:
                break
            if entry.name != newest:
                total -= size
                self.discard(entry)
                self._forget(entry.name)
        self.size_bytes = total


def _subject(summary: Summary) -> tuple[str, ...]:
    return (summary.settings, *sorted(summary.keys))


def write_entry(folder: Path, result: Iterable[bytes], page: bytes, summary: Summary) -> None:
    """Write the files of an entry; called in the process that analysed."""
    write_derived(folder / RESULT, _gzipped(result))
    write_derived(folder / PAGE, gzip.compress(page, 6, mtime=0))
    write_derived(folder / SUMMARY, msgspec.json.encode(summary))


def _gzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(6, wbits=31)  # 31: with the header and trailer of gzip
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()


def _read_summary(folder: Path) -> Summary:
    return msgspec.json.decode(_read(folder, SUMMARY), type=Summary)


def _read(folder: Path, name: str) -> bytes:
    """Read a file of an entry that nobody else can have written, and that is no link."""
    entry = own_folder(folder)
    try:
        return read_own(entry, name)
    finally:
        os.close(entry)


def _remove(place: Path) -> None:
    """Remove what stands at a place; of a link only the link."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        place.unlink()
