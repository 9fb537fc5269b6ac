"""Lists who is blamed for a query's lost time, and names queries as every report does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from iqcar.base.limits import MOST_BLAMED, fold
from iqcar.base.units import run_numbers, short, size
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.enums import BlameKind, Resource
from iqcar.rules.vocabulary import cause_of, vocabulary
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Floats, Ints

if TYPE_CHECKING:
    from iqcar.causes.blame.held_blame import CachedData
    from iqcar.diagnosis import Diagnosis


NAME_WIDTH = 60
"""Characters of a name in a sentence."""
NUMBER_WIDTH = 24
"""Characters of what tells two queries of one name apart; ids of job groups can be long."""


class QueryNames:
    """Looks up names and ids of queries by row; every name is one printable line.

    queries: DataFrame of :data:`iqcar.tables.QUERIES`
    applications: DataFrame of :data:`iqcar.tables.APPLICATIONS`, optional, for the names of their
    applications.
    """

    def __init__(self, queries: pd.DataFrame, applications: pd.DataFrame | None = None) -> None:
        self._application = [""] * len(queries)
        if applications is not None:
            of_app = texts(applications, "name")
            self._application = [of_app[app] for app in queries["app"].tolist()]
        self.ids = texts(queries, "query_id")
        self.full = texts(queries, "name")
        self._start = queries["start_ms"].tolist()
        self._fingerprint = texts(queries, "fingerprint")

    def name(self, row: int, width: int = NAME_WIDTH) -> str:
        """Name of a query; its number where it has none."""
        return short(self.full[row], width) or self.number(row)

    def number(self, row: int) -> str:
        """What tells runs of one query apart; see :func:`iqcar.base.units.run_numbers`."""
        return short(self._numbers[row], NUMBER_WIDTH)

    def called(self, row: int, width: int = NAME_WIDTH) -> str:
        """Name of a query; with its application, or which it is, where others are called so."""
        told = self._told_apart[row]
        return f"{self.name(row, width)} ({told})" if told else self.name(row, width)

    def of_application(self, row: int) -> str:
        """`` of nightly``: the name of a query's application; empty where it has none."""
        name = self._application[row] if row >= 0 else ""
        return f" of {short(name, NUMBER_WIDTH)}" if name else ""

    def row_of(self, query_id: str) -> int:
        """Row of a query by its id."""
        return self._rows[query_id]

    @cached_property
    def _numbers(self) -> list[str]:
        return run_numbers(self.ids, self.full)

    @cached_property
    def _told_apart(self) -> list[str]:
        return self._tell_apart(
            range(len(self.full)), [short(name, NAME_WIDTH) for name in self.full]
        )

    def _tell_apart(self, rows: Sequence[int], shown: Sequence[str]) -> list[str]:
        """What tells queries apart that are shown alike: their application's name, else which."""
        alike: dict[str, dict[str, list[int]]] = {}
        for at, (row, name) in enumerate(zip(rows, shown, strict=True)):
            alike.setdefault(name, {}).setdefault(self._application[row], []).append(at)
        told = [""] * len(shown)
        for of_app in alike.values():
            for app, places in of_app.items():
                owner = [short(app, NUMBER_WIDTH)] if app and len(of_app) > 1 else []
                run = " run" if len({self._fingerprint[rows[at]] for at in places}) == 1 else ""
                places.sort(key=lambda at: self._start[rows[at]])
                for number, at in enumerate(places, 1):
                    which = [f"{ordinal(number)}{run}"] if len(places) > 1 else []
                    told[at] = ", ".join(owner + which)
        return told

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {query_id: row for row, query_id in enumerate(self.ids)}


def ordinal(number: int) -> str:
    """Write which one of several something is: ``2nd``."""
    teen = number % 100 in (11, 12, 13)
    return f"{number:,}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def words_in_common(names: Iterable[str]) -> str:
    """Words that all names begin with, without a last one that leads to more; may be empty."""
    words = [name.split() for name in names]
    same = len(list(takewhile(lambda one: len(set(one)) == 1, zip(*words, strict=False))))
    return " ".join(words[0][:same]).removesuffix(" of").removesuffix(" at").rstrip(":,")


class RecurringNames(QueryNames):
    """Names of recurring queries, each by the row of any of its runs.

    first: row of the first run of each query's recurring query.
    runs: how many runs each query's recurring query has.
    ran_ms: (n_queries,) how long all runs of each query's recurring query took together, as far as
    known.
    """

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables.queries, tables.applications)
        _, first, of, runs = np.unique(
            recurring_queries(tables), return_index=True, return_inverse=True, return_counts=True
        )
        self.first: list[int] = first[of].tolist()
        self.runs: list[int] = runs[of].tolist()
        duration = np.nan_to_num(tables.queries["duration_ms"].to_numpy(np.float64))
        self.ran_ms: Floats = np.bincount(of, duration, len(first)).astype(np.float64)[of]
        self._names: dict[int, set[str]] = {}
        for row, name in zip(self.first, self.full, strict=True):
            self._names.setdefault(row, set()).add(name)

    def called(self, row: int, width: int = NAME_WIDTH) -> str:
        """Name of a recurring query, with the number of its runs."""
        runs, names = self.runs[row], self._names[self.first[row]]
        if runs == 1:
            return super().called(row, width)
        if name := words_in_common(names):
            return f"{short(name, width)} ({runs} runs)"
        return f"{self.name(row, width)} and {runs - 1} like it"

    def first_runs(self, rows: Ints) -> Ints:
        """Rows of the first runs of the recurring queries of some; negative rows stay."""
        return np.where(rows >= 0, np.array(self.first, np.int64)[np.maximum(rows, 0)], rows)

    def labels(self, rows: Sequence[int], width: int) -> list[str]:
        """Label recurring queries with few letters and the number of runs; no two are equal."""
        lines = [
            self.name(row, width) + (f" ({self.runs[row]} runs)" if self.runs[row] > 1 else "")
            for row in rows
        ]
        told = self._tell_apart(rows, lines)
        return [f"{line} {one}".rstrip() for line, one in zip(lines, told, strict=True)]

    def runs_of(self, queries: Sequence[int]) -> list[list[int]]:
        """All runs of the recurring queries of some queries, those named first."""
        runs: dict[int, list[int]] = {self.first[query]: [] for query in queries}
        for query in dict.fromkeys([*queries, *range(len(self.first))]):
            if self.first[query] in runs:
                runs[self.first[query]].append(query)
        return list(runs.values())


Key = TypeVar("Key")

BLAMED_WIDTH = 32
"""Characters of a name among others in one line."""
OTHER_QUERIES = "other queries"
"""Name of queries that are summed because each took little."""


LEAST_PART = 1e-9
"""Less of the known causes is rounding."""


@dataclass(frozen=True)
class Blamed:
    """One line of whom a query's lost time is attributed to.

    query: row of the query that is blamed; −1 for everything else.
    queries: how many queries the line stands for; 0 for causes, and where nobody knows.
    name: what a reader sees: the query's name, or that of the cause.
    number: what tells runs of one query apart, such as ``sql-14``; empty for causes.
    meaning: what a cause means, in a sentence; empty for queries.
    lost_ms, share, share_of_run: elapsed time, as a share of the query's loss, and of its run (0
    where that is unknown).
    by_resource, by_host: the same time in ms by what was waited for and by host, the largest first.
    idle_ms: the part of the time in which executors that it held had no tasks.
    limited: whether it is the part in which a CPU limit stopped its tasks.
    cached: cached data of the query that filled the storage memory that was waited for, such as
    ``1.2 GB of cached `orders```; empty where none is known.
    """

    kind: BlameKind
    query: int
    queries: int
    name: str
    number: str
    meaning: str
    lost_ms: float
    share: float
    share_of_run: float
    by_resource: Mapping[Resource, float]
    by_host: Mapping[str, float]
    idle_ms: float = 0.0
    cached: str = ""
    limited: bool = False


def with_cached(
    blamed: Sequence[Blamed], diagnosis: Diagnosis, targets: Sequence[int], shown: Sequence[int]
) -> tuple[Blamed, ...]:
    """Say which cached data of queries some targets waited for.

    targets: rows of queries.
    shown: the row that stands for each query in these lines.
    """
    found: dict[int, Sequence[CachedData]] = {}
    for target, source in diagnosis.held_from:
        data = diagnosis.cached.get(source, ())
        if target in targets and _bytes(data) > _bytes(found.get(shown[source], ())):
            found[shown[source]] = data
    return tuple(
        replace(one, cached=_cached_words(found[one.query])) if one.query in found else one
        for one in blamed
    )


def _bytes(data: Sequence[CachedData]) -> float:
    return sum(one.bytes for one in data)


def _cached_words(data: Sequence[CachedData]) -> str:
    name = short(data[0].name, BLAMED_WIDTH)
    more = f" and {len(data) - 1} more" if len(data) > 1 else ""
    return f"{size(_bytes(data))} of cached " + (f"`{name}`{more}" if name else f"data{more}")


def cause_name(
    kind: BlameKind | str, resource: Resource | str | None = None, limited: bool = False
) -> str:
    """Name whom time is attributed to where it is no query that can be named.

    kind: not ``query``.
    resource: what was waited for: it tells known causes apart. Without it their sum is named.
    limited: whether it was a CPU limit.
    """
    kind = BlameKind(kind)
    if kind is BlameKind.REST:
        return OTHER_QUERIES
    causes = vocabulary()
    if kind is BlameKind.KNOWN and resource is None:
        first, other = (cause_of(kind, one) for one in (Resource.CPU, Resource.SLOTS))
        return f"{causes[first].name} or {causes[other].name.removesuffix(' yet')}"
    return causes[cause_of(kind, resource or Resource.CPU, limited)].name


def cause_meaning(
    kind: BlameKind | str, resource: Resource | str | None = None, limited: bool = False
) -> str:
    """Say what a cause means in a sentence; empty for other queries."""
    kind = BlameKind(kind)
    if kind in (BlameKind.QUERY, BlameKind.REST):
        return ""
    if kind is BlameKind.KNOWN and resource is None:
        return kind.sentence
    return vocabulary()[cause_of(kind, resource or Resource.CPU, limited)].sentence


def blamed_name(kind: BlameKind | str, query_name: str, width: int = BLAMED_WIDTH) -> str:
    """Name whom something is attributed to, in one short line: a query by its name, or a cause."""
    if BlameKind(kind) is BlameKind.QUERY:
        return short(query_name or "a stage", width)
    return cause_name(kind)


def find_blamed(graph: IQCGraph, query: int, names: QueryNames) -> tuple[Blamed, ...]:
    """Split what one query lost by whom it is attributed to.

    query: row of a target of the graph.
    Returns the largest first; empty where nothing was lost. Known causes have a line each, because
    they have nothing in common but that nobody is to blame. Lost times sum to the query's.
    """
    parts: list[Blamed] = []
    for row in graph.blame_rows(query):
        if row["lost_ms"] > 0:
            parts += _lines(row, graph, query, names)
    return tuple(sorted(parts, key=lambda one: -one.lost_ms))


def _lines(row: dict[str, Any], graph: IQCGraph, query: int, names: QueryNames) -> Iterator[Blamed]:
    """One row of the graph's blame as one line, or as one line per known cause."""
    kind = BlameKind(row["kind"])
    whole = Blamed(
        kind=kind,
        query=-1,
        queries=0,
        name="",
        number="",
        meaning="",
        lost_ms=float(row["lost_ms"]),
        share=float(row["share"]),
        share_of_run=float(row["share_of_duration"]),
        by_resource={Resource(key): float(ms) for key, ms in row["by_resource"].items()},
        by_host=row["by_host"],
        idle_ms=float(row["idle_ms"]),
    )
    if kind is BlameKind.QUERY:
        source = names.row_of(row["source_query_id"])
        yield replace(
            whole, query=source, queries=1, name=names.name(source), number=names.number(source)
        )
    elif kind is BlameKind.REST:
        folded = graph.folded["sources"]
        hidden = int(folded.iloc[query]) if len(folded) else 0
        yield replace(whole, queries=hidden, name=_counted(hidden))
    elif kind is BlameKind.KNOWN:
        known = [(resource, False, ms) for resource, ms in whole.by_resource.items()]
        stopped = float(row["limited_ms"])
        if stopped > 0:
            known = [(r, lim, ms - stopped if r is Resource.CPU else ms) for r, lim, ms in known]
            known.append((Resource.CPU, True, stopped))
        for resource, limited, ms in known:
            if ms > LEAST_PART * whole.lost_ms:
                yield replace(
                    _part(whole, ms / whole.lost_ms),
                    name=cause_name(kind, resource, limited),
                    meaning=cause_meaning(kind, resource, limited),
                    by_resource={resource: ms},
                    limited=limited,
                )
    else:
        yield replace(whole, name=cause_name(kind), meaning=cause_meaning(kind))


def _part(whole: Blamed, share: float) -> Blamed:
    return replace(
        whole,
        lost_ms=whole.lost_ms * share,
        share=whole.share * share,
        share_of_run=whole.share_of_run * share,
        by_host={host: ms * share for host, ms in whole.by_host.items()},
    )


def fold_blamed(blamed: Sequence[Blamed], most: int = MOST_BLAMED) -> tuple[Blamed, ...]:
    """Sum the smallest queries in one line, so that at most so many lines are queries.

    Causes that are no query keep their lines. The largest line stays first.
    """
    queries = [one for one in blamed if one.kind is BlameKind.QUERY]
    hidden = [one for one in blamed if one.kind is BlameKind.REST]
    kept, rest = fold([one.lost_ms for one in queries], most)
    if hidden and len(kept) >= most:
        kept, rest = kept[:-1], kept[-1:]
    folded = [*(queries[at] for at in rest), *hidden]
    if not folded:
        return tuple(blamed)
    line = _other_queries(folded)
    shown = {id(queries[at]) for at in kept}
    others = [one for one in blamed if one.queries == 0 or id(one) in shown]
    others = [one for one in others if one.kind is not BlameKind.REST]
    return tuple(sorted([*others, line], key=lambda one: -one.lost_ms))


def sum_blamed(
    runs: Iterable[Sequence[Blamed]], recurring: Sequence[int], ran_ms: float
) -> tuple[Blamed, ...]:
    """Sum what several runs of one query lost, by the recurring query in the way, or the cause.

    runs: those of each run, by :func:`find_blamed`.
    recurring: the row that stands for each query's recurring query.
    ran_ms: how long all runs took; NaN if unknown.
    Returns the largest first.
    """
    groups: dict[tuple[BlameKind, int, str], list[Blamed]] = {}
    for one in (one for run in runs for one in run):
        query = recurring[one.query] if one.query >= 0 else -1
        cause = one.name if one.queries == 0 and one.kind is not BlameKind.REST else ""
        groups.setdefault((one.kind, query, cause), []).append(one)
    lost = sum(one.lost_ms for parts in groups.values() for one in parts)
    summed = []
    for (kind, query, _), parts in groups.items():
        rest = kind is BlameKind.REST
        line = _other_queries(parts) if rest else _sum(parts, replace(parts[0], number=""))
        of_run = line.lost_ms / ran_ms if ran_ms > 0 else 0.0
        line = replace(line, query=query, share=line.lost_ms / lost, share_of_run=of_run)
        summed.append(line)
    return tuple(sorted(summed, key=lambda one: -one.lost_ms))


def _other_queries(parts: Sequence[Blamed]) -> Blamed:
    count = sum(one.queries for one in parts)
    name = _counted(count if all(one.queries for one in parts) else 0)
    other = replace(parts[0], kind=BlameKind.REST, query=-1, queries=count, name=name, number="")
    return _sum(parts, other)


def _sum(parts: Sequence[Blamed], line: Blamed) -> Blamed:
    """Give a line the times of several."""
    return replace(
        line,
        lost_ms=sum(one.lost_ms for one in parts),
        share=sum(one.share for one in parts),
        share_of_run=sum(one.share_of_run for one in parts),
        by_resource=_summed(one.by_resource for one in parts),
        by_host=_summed(one.by_host for one in parts),
        idle_ms=sum(one.idle_ms for one in parts),
    )


def _counted(queries: int) -> str:
    """Name of several queries that are summed; 0 where nobody knows how many there are."""
    if queries == 1:
        return "1 other query"
    return f"{queries:,} {OTHER_QUERIES}" if queries else OTHER_QUERIES


def _summed(parts: Iterable[Mapping[Key, float]]) -> dict[Key, float]:
    total: dict[Key, float] = {}
    for part in parts:
        for key, ms in part.items():
            total[key] = total.get(key, 0.0) + ms
    return dict(sorted(total.items(), key=lambda item: -item[1]))
