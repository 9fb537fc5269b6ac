"""Keeps results in a folder, and says each in short: what the list shows, what applications lost.

Results are compressed JSON and pages, named by their inputs and settings. Nothing in the folder is
ever executed or unpickled, and only its owner may write there: a page from it is sent to browsers.
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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd

from iqcar.base.files.derived import own_folder, read_own, write_derived
from iqcar.base.units import short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, FindingKind, Resource
from iqcar.errors import IqcarError
from iqcar.logs.text import family
from iqcar.say.findings import find_findings
from iqcar.say.sentences import OthersLosses, query_statuses
from iqcar.tables import texts
from iqcar.version import __version__

Identity = tuple[tuple[str, str, int, int], ...]
"""Source, member, stored size and time of change in ns of each part: what a result is valid for."""


class FirstFinding(msgspec.Struct, frozen=True):
    """What would save most time."""

    kind: Annotated[FindingKind, "Kind of finding."]
    subject: Annotated[str, "The recurring query, or the host."]
    saves_ms: Annotated[float, "What the action alone saves, in ms."]
    share: Annotated[float, "Of the duration of its runs."]
    sentence: Annotated[str, "What was found."]
    action: Annotated[str, "What to do."]


Label = tuple[str, str, str, str, str]
"""Application, victim, kind of blame, source and resource of time that was lost. Names are those of
families, without dates, times and numbers, so that runs of a recurring query are summed."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What an analysis found, in short; written as ``summary.json`` beside the result.

    A comparison and an answer are about no application alone: they have keys of none, and the list
    shows nothing of them. Their ``settings`` name what was asked, too.
    """

    keys: tuple[str, ...]
    """The applications that were analysed together, by their keys."""
    settings: str
    """The settings of the analysis, as text."""
    policy: str
    """Content Security Policy of the report's page."""
    iqcar_version: str = __version__
    """The version of iqcar that analysed them."""
    queries: int = 0
    """Queries found."""
    by_status: dict[str, int] = {}
    """How many of them ended in each way, by ``QueryStatus``."""
    query_ms: float = 0.0
    """Sum of their durations, in ms."""
    lost_ms: float = 0.0
    """Time that all queries lost, in ms; part of it may be to their own tasks or unattributed."""
    lost_to_others_ms: float = 0.0
    """Time that all queries lost to other queries, in ms."""
    worst_query_id: str | None = None
    """The query that lost most to other queries; null if none lost any time."""
    worst_name: str | None = None
    """Its name."""
    worst_lost_ms: float | None = None
    """What it lost, in ms."""
    worst_said: str = ""
    """What it lost to others, with its range, in words."""
    worst_low_ms: float | None = None
    worst_high_ms: float | None = None
    """Range of what it lost to others, in ms; null where no replay tells."""
    end_ms: float | None = None
    """When the last of the applications ended, or the time of its last event."""
    hosts: tuple[str, ...] = ()
    """Hosts of their executors."""
    first_finding: FirstFinding | None = None
    """What would save most time; null if nothing would."""
    losses: tuple[tuple[Label, float], ...] = ()
    """Who lost time to whom and for what, in ms."""
    of_applications: tuple[ApplicationLoss, ...] = ()
    """What each application lost, and to whom."""


def summarize(diagnosis: Diagnosis, keys: tuple[str, ...], settings: str, policy: str) -> Summary:
    """Take from a diagnosis what the list shows; the rest is kept as it is given."""
    tables = diagnosis.tables
    lost = diagnosis.lost_ms()
    worst = diagnosis.targets[0] if diagnosis.targets else None
    name = texts(tables.queries, "name")[worst][:MAX_TEXT] if worst is not None else None
    return Summary(
        keys=keys,
        settings=settings,
        policy=policy,
        queries=len(tables.queries),
        by_status=dict(Counter(map(str, query_statuses(tables)))),
        lost_ms=float(lost.sum()),
        lost_to_others_ms=float(diagnosis.lost_to_others_ms().sum()),
        worst_query_id=texts(tables.queries, "query_id")[worst] if worst is not None else None,
        worst_name=name,
        worst_lost_ms=float(lost[worst]) if worst is not None else None,
        **_others_of(diagnosis, worst),
        end_ms=max(_known(tables.applications, "end_ms"), default=None),
        hosts=tuple(texts(tables.hosts, "host")),
        first_finding=_first_finding(diagnosis),
        query_ms=float(np.nansum(tables.queries["duration_ms"].to_numpy(np.float64))),
        losses=tuple(bounded(losses_of(diagnosis), MOST_OF_RESULT).items()),
        of_applications=application_losses(diagnosis, keys),
    )


def _others_of(diagnosis: Diagnosis, query: int | None) -> dict[str, Any]:
    """What a query lost to others, and its range."""
    if query is None:
        return {}
    others = OthersLosses(diagnosis, diagnosis.lost_ms()).of([query])
    known = np.isfinite(others.low_ms)
    return {
        "worst_said": others.words[:MAX_TEXT],
        "worst_low_ms": others.low_ms if known else None,
        "worst_high_ms": others.high_ms if known else None,
    }


def _first_finding(diagnosis: Diagnosis) -> FirstFinding | None:
    for one in find_findings(diagnosis):
        subject, *said = (text[:MAX_TEXT] for text in (one.subject, one.sentence, one.action))
        return FirstFinding(one.kind, subject, one.saves_ms, one.share, *said)
    return None


def _known(frame: pd.DataFrame, column: str) -> list[float]:
    times = frame[column].to_numpy(np.float64)
    known: list[float] = times[np.isfinite(times)].tolist()
    return known


MAX_TEXT = 500
"""Characters kept of a name."""


class ApplicationLoss(msgspec.Struct, frozen=True):
    """What one application lost, as the result about most applications with it tells."""

    key: Annotated[str, "The application."]
    together: Annotated[int, "Applications that were analysed with it, with it."]
    lost_ms: Annotated[float, "Time that its queries lost, in ms."]
    executors_ms: Annotated[float, "Part of it lost waiting for executors of the cluster, in ms."]
    other_applications_ms: Annotated[
        float, "Part of it lost to named queries of other applications, in ms."
    ]
    most_to: Annotated[
        str | None,
        "The other application, or the other query of its own, that it lost most "
        "to; null if none is known.",
    ]
    most_to_ms: Annotated[float, "What it lost to that one, in ms."]


def application_losses(diagnosis: Diagnosis, keys: Sequence[str]) -> tuple[ApplicationLoss, ...]:
    """Sum the losses of each application.

    keys: of the applications, in the order of the logs that were read.
    """
    tables = diagnosis.tables
    if len(tables.inputs) != len(keys):
        return ()
    app_of = tables.queries["app"].tolist()
    hurts = diagnosis.graph.who_hurts_whom()
    executors = diagnosis.graph.who_hurts_whom(Resource.EXECUTORS)
    names, applications = texts(tables.queries, "name"), texts(tables.applications, "name")
    lost: dict[int, float] = defaultdict(float)
    to: dict[int, dict[tuple[int, str], float]] = defaultdict(lambda: defaultdict(float))
    columns = (hurts[name].tolist() for name in ("source_query", "target_query", "kind", "lost_ms"))
    for source, target, kind, ms in zip(*columns, strict=True):
        victim = app_of[target]
        lost[victim] += ms
        if kind == BlameKind.QUERY and source >= 0:
            other = app_of[source]
            to[victim][other, names[source] if other == victim else applications[other]] += ms
    waited: dict[int, float] = defaultdict(float)
    for target, ms in zip(executors["target_query"], executors["lost_ms"], strict=True):
        waited[app_of[target]] += ms
    found = []
    for key, app in zip(keys, tables.inputs["app"].tolist(), strict=True):
        most = max(to[app].items(), key=lambda item: item[1], default=None)
        found.append(
            ApplicationLoss(
                key=key,
                together=len(keys),
                lost_ms=lost[app],
                executors_ms=waited[app],
                other_applications_ms=sum(ms for (other, _), ms in to[app].items() if other != app),
                most_to=most[0][1][:MAX_TEXT] if most and most[1] > 0 else None,
                most_to_ms=most[1] if most else 0.0,
            )
        )
    return tuple(found)


OTHERS = "(others)"
NAMES = {
    BlameKind.OWN: "(itself)",
    BlameKind.KNOWN: "(known causes)",
    BlameKind.UNATTRIBUTED: "(unattributed)",
    BlameKind.REST: OTHERS,
}
"""What stands for the source where the time was not lost to a query that is named."""
MOST_OF_RESULT = 30
"""Losses of one result that are told apart (30): three times what a panel of a dashboard shows.
Some thousand results are held in memory, some KB of each, and summed at each scrape."""
LABEL_CHARACTERS = 100
"""Characters kept of a name: what a legend shows."""


def losses_of(diagnosis: Diagnosis) -> dict[Label, float]:
    """Sum the time that the queries lost, in ms; together all that they lost."""
    tables = diagnosis.tables
    queries = [short(name, LABEL_CHARACTERS) for name in texts(tables.queries, "family")]
    named = [short(family(name), LABEL_CHARACTERS) for name in texts(tables.applications, "name")]
    app_of = tables.queries["app"].tolist()
    found: dict[Label, float] = defaultdict(float)
    for resource in Resource:
        hurts = diagnosis.graph.who_hurts_whom(resource)
        columns = ("source_query", "kind", "target_query", "lost_ms")
        for source, kind, target, lost in zip(*(hurts[name] for name in columns), strict=True):
            if lost > 0:
                to = queries[source] if kind == BlameKind.QUERY else NAMES[BlameKind(kind)]
                label = named[app_of[target]], queries[target], kind, to, resource.value
                found[label] += float(lost)
    return found


def bounded(sums: Mapping[Label, float], most: int) -> dict[Label, float]:
    """Return the largest sums, and the rest by kind, resource and, of no query, source.

    Their total is the same. What :func:`bounded` returned can be summed and bounded again.
    """
    named = sorted(
        (label for label in sums if label[1] != OTHERS), key=lambda one: (-sums[one], one)
    )
    kept = defaultdict(float, {one: sums[one] for one in named[:most]})
    for label, lost in sums.items():
        if label not in kept or label[1] == OTHERS:
            _, _, kind, source, resource = label
            source = OTHERS if kind == BlameKind.QUERY else source
            kept["", OTHERS, kind, source, resource] += lost
    return dict(kept)


MAX_CACHE_BYTES = 1 << 30
"""Bytes kept by default (1 GiB): some hundred reports, each of one or two compressed megabytes."""

RESULT, PAGE, SUMMARY = "result.json.gz", "page.html.gz", "summary.json"
"""Files of an entry: what ``iqcar analyze --json`` writes, the report, and a few numbers of it."""

DIGEST_BYTES = 16
"""Bytes of an entry's name (16): SHA-256 cut to 128 bits."""

LEFT_BEHIND_S = 86_400.0
"""Age from which an unfinished entry is one that a server left behind (a day)."""

LAYOUT = "4"
"""Changes when the entries' files do, so that those of older versions are not read."""

_DIGEST = re.compile(rf"[0-9a-f]{{{2 * DIGEST_BYTES}}}\Z")
_UNFINISHED = "unfinished-"


def digest_of(logs: Sequence[tuple[str, Identity]], settings: str) -> str:
    """Name the result of analysing some states of logs together, in whatever order.

    logs: key and identity of each.
    settings: the settings of the analysis, as text.
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

    folder: made if it does not exist.
    max_bytes: bytes to keep at most; the newest entry is kept in any case.
    size_bytes: size of all entries when the last one came, those of other servers included.
    Raises IqcarError if the folder cannot be made, or others can write to it.
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

        Raises OSError or ValueError if the files are not there or cannot be read.
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
