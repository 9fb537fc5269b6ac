"""Names plans, their operators and sources, and tells which operators a stage ran.

A plan's node declares accumulators, and a completed stage lists those that its tasks fed. Spark
does not list an accumulator that is still zero: a filter that let no row pass, a sort of less than
a millisecond. Operators that Spark compiled into one function run together, so all of them count
where one of them was fed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from iqcar.logs.events.fingerprint import normalise, without_number
from iqcar.logs.events.structs import NOT_FITTING, PlanNode
from iqcar.logs.text.name_family import family
from iqcar.logs.text.redact import redact_text

if TYPE_CHECKING:
    from iqcar.logs.events.structs import PlanNode

MAX_SOURCES = 3
"""Sources that a name lists; a query over more of them is told from others by its id."""

MAX_SOURCE = 60
"""Characters kept of the name of a source."""

_WORDS = (
    ("write", ("Insert", "Overwrite", "AppendData", "AsSelect", "WriteFiles", "WriteToDataSource")),
    ("join", ("Join", "CartesianProduct", "NestedLoop")),
    ("aggregate", ("Aggregate", "GroupingAgg")),
    ("window", ("Window",)),
    ("sort", ("TakeOrdered",)),
    ("explode", ("Generate",)),
    ("python", ("Python", "Pandas", "InArrow")),
    ("union", ("Union",)),
)
"""Words for what a plan does, in the order in which a name says them, and parts of the names of the
nodes that do it, Photon's and RAPIDS' too."""

_REMEMBERED, _SHORT_NAME = 4096, 300
"""So many names of up to so many characters are remembered with what they tell. 5 MB at most."""
_SHORT_TEXT = 1000
"""Characters of a leaf's name and location up to which they are remembered: every plan is gone
through more than once, and most read what others read. 5 MB at most."""
_LOCATION = "Location: "
_ROWS = {"LocalTableScan": "local rows", "Range": "range", "OneRowRelation": "one row"}


def plan_name(nodes: Sequence[PlanNode]) -> str:
    """Return what a plan does and to which sources, such as ``join, aggregate of sales, items``.

    Parameters
    ----------
    nodes : all nodes, as :func:`iqcar.logs.events.fingerprint.nodes_of` returns them.
    """
    names = "\n".join({nodes[0].name, *(node.name for node in nodes if node.children)})
    leaves = [source(node) for node in reversed(nodes) if not node.children]
    return named_plan(names, list(dict.fromkeys(name for name in leaves if name)))


def named_plan(names: str, sources: Sequence[str]) -> str:
    """Return the words for what operators of these names do, and the first of the sources.

    >>> named_plan("HashAggregate; Scan csv trips", ["trips"])
    'aggregate of trips'
    """
    done = [word for word, parts in _WORDS if any(part in names for part in parts)]
    listed = ", ".join(sources[:MAX_SOURCES]) + (", …" if len(sources) > MAX_SOURCES else "")
    return " of ".join(part for part in (", ".join(done) or "read", listed) if part)


def source(node: PlanNode) -> str:
    """Return what a leaf of a plan reads: a table, else the last part of a path, else its kind."""
    name, text = node.name, node.text
    location = location_in(text)
    is_short = len(name) + len(location) <= _SHORT_TEXT
    return _remembered_source(name, location) if is_short else _source_at(name, location)


def location_in(text: str) -> str:
    """Return the paths that a scan's text names; empty if it names none.

    >>> location_in("FileScan parquet [a#1] Location: InMemoryFileIndex [file:/t, file:/u], b")
    'file:/t, file:/u'
    """
    location = text.find(_LOCATION)
    start = text.find("[", location + len(_LOCATION)) + 1 if location >= 0 else 0
    if not start:
        return ""
    end = text.find("]", start)
    return text[start : end if end >= 0 else len(text)]


def _source_at(name: str, location: str) -> str:
    name, by_path = _remembered_name(name) if len(name) <= _SHORT_NAME else _named(name)
    return redact_text((by_path and _folder_of(location)) or name, MAX_SOURCE)


_remembered_source = lru_cache(_REMEMBERED)(_source_at)


def _named(name: str) -> tuple[str, bool]:
    """Return the source that a leaf's name tells, and whether a path in its text tells more."""
    name = _ROWS.get(name, name.removeprefix("Gpu").removeprefix("Photon"))
    words = name.split()
    if len(words) < 2 or "Scan" not in words[0]:
        return name, False
    if len(words) > 2 or words[0] != "Scan":
        return words[-1], False
    return words[1], True


_remembered_name = lru_cache(_REMEMBERED)(_named)


def _folder_of(location: str) -> str:
    """Return the last part of the first path of a scan's location; empty if there is none."""
    path = location.partition(",")[0]
    words = path.split(maxsplit=1)
    if not words or not path.startswith(words[0]):
        return ""
    return words[0].rstrip("/").rpartition("/")[2]


MAX_OPERATOR = 200
"""Characters kept of an operator's name."""
MOST_OPERATORS = 500
"""Operators kept of a plan, of a compiled function and of a stage; TPC-DS's largest have 300."""

_MOST_GROUPS = 1 << 32
"""More groups than any plan has operators: a line has fewer bytes."""

SEPARATOR = "; "
"""What stands between operators, tables and scopes in a table's text."""

_COMPILED = "WholeStageCodegen"
_INTERNAL = ("Internal", "BroadcastExchange")
"""Ends of scopes that some versions of Spark give to stages, and others do not."""
_AROUND = (_COMPILED, "InputAdapter", "Subquery", "ReusedSubquery", "AdaptiveSparkPlan")
"""How the names of nodes begin that start a compiled function, and of those that end it."""
NO_OPERATORS = (
    _COMPILED, "InputAdapter", "AdaptiveSparkPlan", "ShuffleQueryStage", "BroadcastQueryStage",
    "TableCacheQueryStage", "ResultQueryStage", "AQEShuffleRead", "CustomShuffleReader",
)  # fmt: skip
"""How the names of nodes begin that wrap others, or that depend on what a run measured."""
_CATALOG = "spark_catalog."
_CUT = "..."
"""Ends a path longer than `spark.sql.maxMetadataStringLength`: its last part may be a folder."""

_PYTHON = (
    "PythonRDD", "PairwiseRDD", "PythonUDF", "EvalPython", "InPandas", "InArrow", "PythonMap",
    "PythonDataSource",
)  # fmt: skip
"""In the name or scope of an RDD whose tasks run Python workers."""


class _Scope(msgspec.Struct, gc=False):
    """``Scope`` of an RDD, which is JSON in a text: the operation that made it."""

    name: str = ""


_decode_scope = msgspec.json.Decoder(_Scope).decode


class Operators:
    """Operators of all plans of one log, by the accumulators that they feed."""

    def __init__(self) -> None:
        self._group: dict[float, int] = {}
        """The group of the operator that declares an accumulator."""
        self._names: dict[int, list[list[str]]] = {}
        """The operators of each group, which run together; by the number of the first group."""
        self._next = count(0, _MOST_GROUPS)

    def add(self, nodes: Sequence[PlanNode]) -> None:
        """Take in a plan; nodes that an earlier plan had are not looked at again.

        Parameters
        ----------
        nodes : as :func:`~iqcar.logs.events.fingerprint.nodes_of` returns them.
        """
        known = self._group
        first, groups = next(self._next), list[list[str]]()
        functions: list[int | None] = [None]
        """The compiled function around each of the next nodes, the last one first."""
        for node in nodes:
            compiled = functions.pop()
            children, metrics = node.children, node.metrics
            is_new = metrics and metrics[0].id not in known
            if not (children or is_new):
                continue
            name, may_tell_more, around = _name(node.name[:MAX_OPERATOR])
            if around:
                compiled = None
                if around == _COMPILED:
                    compiled = len(groups)
                    groups.append([])
            if children:
                functions += [compiled] * len(children)
            if is_new:
                if may_tell_more and not children:
                    name = _with_source(name, node)
                group = compiled
                if group is None:
                    group = len(groups)
                    groups.append([])
                if name and len(groups[group]) < MOST_OPERATORS:
                    groups[group].append(name)
                for metric in metrics:
                    known.setdefault(metric.id, first + group)
        if groups:
            self._names[first] = groups

    def fed_by(self, accumulators: Iterable[float]) -> list[str]:
        """Return the operators that feed these accumulators, and those that run with them.

        Returns sorted; an operator stands there as often as the stage runs it.
        """
        found = {group for key in accumulators if (group := self._group.get(key)) is not None}
        return sorted(name for group in found for name in self._of(group))[:MOST_OPERATORS]

    def _of(self, group: int) -> list[str]:
        place = group % _MOST_GROUPS
        return self._names[group - place][place]

    def run_together(self, accumulators: Iterable[int]) -> tuple[list[list[str]], list[int]]:
        """Return the groups of a plan's operators, and in which of them each accumulator is."""
        places: dict[int, int] = {}
        found = [places.setdefault(self._group[one], len(places)) for one in accumulators]
        return list(map(self._of, places)), found

    def add_alike(
        self, accumulators: Iterable[int], groups: list[list[str]], places: Iterable[int]
    ) -> None:
        """Take in a plan of new accumulators, like one of which :meth:`run_together` told."""
        first = next(self._next)
        self._names[first] = groups
        self._group.update(zip(accumulators, map(first.__add__, places), strict=True))

    def knows_all(self, accumulators: Iterable[float]) -> bool:
        """Tell whether plans have declared all of these accumulators."""
        return all(map(self._group.__contains__, accumulators))

    def forget(self, accumulators: Container[float]) -> None:
        """Drop what some accumulators tell."""
        self._group = {one: group for one, group in self._group.items() if one not in accumulators}
        kept = {group - group % _MOST_GROUPS for group in self._group.values()}
        self._names = {first: self._names[first] for first in kept}


def operator_name(node: PlanNode) -> str:
    """Return a node's name without numbers, and the source it scans; empty for one that wraps."""
    name, may_tell_more, _ = _name(node.name[:MAX_OPERATOR])
    return _with_source(name, node) if may_tell_more and not node.children else name


def _with_source(name: str, node: PlanNode) -> str:
    read = _source(node)
    return name if not read or name.endswith(f" {read}") else f"{name} {read}"


def _source(node: PlanNode) -> str:
    """Return what a leaf of a plan reads, without the date in its name; empty if Spark cut it."""
    return _without_date(source(node))


@lru_cache(4096)
def _without_date(read: str) -> str:
    return "" if read.endswith(_CUT) else family(read).replace(_CATALOG, "")


@lru_cache(4096)
def _name(name: str) -> tuple[str, bool, str]:
    """Return what the name of a node tells.

    Returns the name of its operator, empty for one that wraps; whether it is a scan that does not
    name its source; and which of :data:`_AROUND` it is; empty if it is none.
    """
    around = next((one for one in _AROUND if name.startswith(one)), "")
    if name.startswith(NO_OPERATORS):
        return "", False, around
    name = normalise(without_number(redact_text(name))).replace(_CATALOG, "")
    return name, name.startswith("Scan ") and len(name.split()) == 2, around


def operators_of(nodes: Sequence[PlanNode]) -> str:
    """Return the operators of a plan as a table holds them: sorted, and as often as it has them."""
    names = sorted(filter(None, map(operator_name, nodes[:MOST_OPERATORS])))
    return SEPARATOR.join(names)


def sources_of(nodes: Sequence[PlanNode]) -> str:
    """Return what a plan reads as a table holds it: each source once, sorted."""
    leaves = [node for node in nodes if not node.children][:MOST_OPERATORS]
    return SEPARATOR.join(sorted(set(map(_source, leaves)) - {""}))


def scope_name(scope: str) -> str:
    """Return the operation that made an RDD; empty if its scope does not say.

    >>> scope_name('{"id":"24","name":"WholeStageCodegen (2)"}')
    'WholeStageCodegen'
    """
    try:
        name = _decode_scope(scope).name if scope else ""
    except NOT_FITTING:
        return ""
    return _operation(name.strip()[: MAX_OPERATOR + 1])


@lru_cache(4096)
def _operation(name: str) -> str:
    return normalise(without_number(redact_text(name, MAX_OPERATOR))).replace(_CATALOG, "")


@lru_cache(1024)
def runs_python(name: str, scope: str) -> bool:
    """Tell by the name and scope of an RDD whether its tasks run Python workers."""
    return any(word in name or word in scope for word in _PYTHON)


def stage_label(scopes: Iterable[str], operators: Iterable[str]) -> str:
    """Return what a stage does in words that are the same in every run.

    Parameters
    ----------
    scopes : operations that made its RDDs.
    operators : as :meth:`Operators.fed_by` returns them.

    >>> stage_label(["Exchange", "mapPartitions"], ["Exchange", "HashAggregate", "HashAggregate"])
    'Exchange; HashAggregate ×2; mapPartitions'
    """
    return _label(tuple(scopes), tuple(operators))


@lru_cache(1024)
def _label(scopes: tuple[str, ...], operators: tuple[str, ...]) -> str:
    counts = Counter(operators)
    more = set(scopes) - set(counts)
    plain = {
        name
        for name in more
        if not name.startswith(NO_OPERATORS)
        and not name.endswith(_INTERNAL)
        and not any(scan.startswith(f"{name} ") for scan in counts)
    }
    if plain or counts:
        more = plain
    names = [*more, *(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())]
    return SEPARATOR.join(sorted(names))
