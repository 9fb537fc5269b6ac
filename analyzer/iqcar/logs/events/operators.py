"""A plan's operators and sources, which of them a stage ran, and the plan's hash.

Spark lists the accumulators that a stage's tasks fed, but none that is still zero: a filter that
let no row pass, a sort of less than a millisecond. Operators that Spark compiled into one function
run together, so all of them count where one of them was fed.

The hash leaves out ids, literals, dates and run numbers: two runs of the same query with other
constants hash equal; different queries differ. Of an adaptive query the initial plan is hashed,
because the final one depends on what a run measured.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import count

import msgspec

from iqcar.logs.events.structs import PlanNode
from iqcar.logs.events.task_structs import NOT_FITTING
from iqcar.logs.text import (
    BLANK,
    END,
    START,
    STOP,
    WORD,
    Replacement,
    compiled,
    encoded,
    family,
    redact_text,
    replacement,
)

HASH_DIGITS = 32
"""Hex digits kept of SHA-256: 128 bits never collide by chance."""

MAX_LINE = 1_000_000
"""Characters kept of one line of a plan, so that a line needs no more than some seconds whatever it
holds: a list of 100,000 constants fits."""

_REMEMBERED, _SHORT = 4096, 300
"""So many lines of up to so many characters are remembered with what became of them: a plan names
the same few operators again and again. 5 MB at most."""

_PLANS = 4096
"""So many plans are remembered by the SHA-256 of what identifies them, with their hashes. 1 MB at
most."""

_ATTRIBUTE = re.compile("#[0-9]+")
_NUMBER = re.compile(r" [0-9]+(?=\))")
_PLAN_ID = re.compile(r"\[plan_id=[0-9]+(?=\])")
"""The number of an attribute, a whole number between a blank and a closing bracket, and the id of a
plan. Every rule treats them alike whatever they are, and they never reach a hash; where all are the
same, a query that comes again is remembered although Spark numbers anew and constants differ."""

_COMPARED = re.compile(r" (?<=[<>=] )[\w.:\-]+(?=\))")
_PUSHED = re.compile(r",(?:[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2})(?=\))")
"""Up to a closing bracket: a constant of one word behind a comparison, and a number or a date
behind a comma, as in filters that a source takes. No hash depends on them either."""

_OPERAND = r"[^#()\[\],]*?"
_COMPARISON = "<=>|<=|>=|=|<|>"
_DIGIT = r"\p{Nd}"

_LITERALS = (
    # A scan's filters, which its Filter repeats: Spark cuts them at 100 characters, ids and
    # constants included, so only the first column is the same in every run.
    replacement(
        "Filters: [",
        rf"{START}((DataFilters|PartitionFilters|PushedFilters): "
        rf"\[(\*?\(*[{WORD}]*\(*[{WORD}]+)[^\n]*?)(?:, [A-Z][{WORD}]*: |{END})",
        r"\2: [\3",
    ),
    # Where files lie: only the first path is kept, the number of paths differs from run to run.
    replacement(
        "Location: ",
        rf"(Location: ([{WORD}]+)[{BLANK}]*(?:\({_DIGIT}+ paths\))?[{BLANK}]*"
        r"\[([^,\]]*)[^\]]*\]?)",
        r"Location: \2[\3]",
    ),
    # Pushed filters name the column without an id, and the constant without quotes.
    replacement(
        "(",
        rf"{START}((EqualTo|EqualNullSafe|GreaterThan|GreaterThanOrEqual|LessThan|LessThanOrEqual"
        r"|StringStartsWith|StringEndsWith|StringContains)\(([^,()]+),[^()]*\))",
        r"\2(\3,?)",
        back=True,
    ),
    replacement(
        "In(",
        rf"{START}(In\(([^,()\[\]]+),[{BLANK}]*\[[^\]]*\]?\)?)",
        r"In(\2,?)",
        back=True,
    ),
    # A constant beside an operator: a column there would carry `#` and its id.
    replacement(
        " ",
        rf"(?:{_COMPARISON}|{START}(?:LIKE|RLIKE|THEN|ELSE)) ({_OPERAND})"
        rf"(?:\)|\]|,| AND | OR | WHEN | THEN | ELSE | END|{END})",
        "?",
    ),
    replacement("#", rf"(\({_OPERAND} ({_COMPARISON}) )[^ ]*#", r"(? \2 "),
    replacement("IN", rf"{START}((IN|INSET) \([^()#]*\))", r"\2 (?)", back=True),
    replacement("IN", rf"{START}(?:IN|INSET) ([^()#,\]]*)[)\],]", "?"),
    replacement(
        "(",
        rf"{START}((Contains|StartsWith|EndsWith|like|rlike)\(([{WORD}]+#{_DIGIT}+L?), "
        rf"{_OPERAND}\))",
        r"\2(\3, ?)",
        back=True,
    ),
    replacement("'", r"('(?:[^'\\]|\\[^\n]|'')*')", "?"),
    replacement('"', r'("(?:[^"\\]|\\[^\n])*")', "?"),
)
_HEX = r"[0-9a-fA-F]"
_DATE = rf"{_DIGIT}{{4}}-{_DIGIT}{{1,2}}-{_DIGIT}{{1,2}}"
_TIME = rf"[T ]{_DIGIT}{{1,2}}(?::{_DIGIT}{{1,2}}){{1,2}}(?:\.{_DIGIT}+)?Z?"
_IDS = (
    # Attributes: name#12, name#12L; plan ids: [plan_id=12], [id=#12]
    replacement("id=", rf"(,?[{BLANK}]*\[(?:plan_id|id)=#?{_DIGIT}+\])", ""),
    replacement("#", rf"(#x?{_DIGIT}+L?)", ""),
    replacement("-", rf"{START}({_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}){STOP}", "?"),
    replacement("Lambda", rf"(\$\$?Lambda[$/{WORD}.@]*)", "Lambda"),
    replacement("@", rf"(@[0-9a-f]{{4,}}){STOP}", "@?"),
    # Names made up anew for each run: letters and digits of hex, at least eight of them.
    Replacement(
        b"",
        compiled(r"(?:^|[^0-9A-Za-z])([0-9a-f]{8,})(?:\z|[^0-9A-Za-z])"),
        lambda match: b"?" if _is_made_up(match[1]) else match[1],
    ),
    # Dates and times, with or without separators
    replacement("-", rf"{START}({_DATE}(?:{_TIME})?)", "?"),
    # Numbers that are no part of a name
    replacement(
        "",
        rf"(?:^|[^{WORD}$])(-?{_DIGIT}+(?:\.{_DIGIT}+)?(?:[eE][+\-]?{_DIGIT}+)?(?:BD|[LDSBdf])?)"
        rf"{STOP}",
        "?",
    ),
    # Numbers at the end of a file's or folder's name: part-00012, year=2024
    replacement("", rf"[\-=/.]({_DIGIT}+)(?:[/\-.\]]|{END})", "?"),
    # Digits before a slash, but the first one where nothing stands before that belongs to a name
    replacement("/", rf"(?:[{WORD}\-])({_DIGIT}+)/", "?"),
    replacement("?", rf"(\?(?:[{BLANK}]*,[{BLANK}]*\?)+)", "?"),
)
_CODEGEN = replacement("(", rf"([{BLANK}]*\({_DIGIT}+\))\z", "")


def normalise(text: str) -> str:
    """Return a line of a plan without what differs from run to run.

    >>> normalise("Filter (isnotnull(d_year#12) AND (d_year#12 = 2001))")
    'Filter (isnotnull(d_year) AND (d_year = ?))'
    """
    if len(text) <= _SHORT:
        return _remembered(_with_same_numbers(text))
    return _normalised(text[:MAX_LINE])


def _shortened(text: str) -> str:
    """Normalise a text that has same numbers."""
    return _remembered(text) if len(text) <= _SHORT else _normalised(text)


def _with_same_numbers(text: str) -> str:
    """Return a text with other numbers and constants that is normalised to the same."""
    text = _PLAN_ID.sub("[plan_id=1", _NUMBER.sub(" 1", _ATTRIBUTE.sub("#1", text)))
    return _PUSHED.sub(",1", _COMPARED.sub(" 1", text))


def _normalised(text: str) -> str:
    line = encoded(text)
    for each in _LITERALS:
        line = each.apply(line)
    for each in _IDS:
        line = each.apply(line)
    return " ".join(line.decode("utf-8", "replace").split())


_remembered = lru_cache(_REMEMBERED)(_normalised)


def _is_made_up(name: bytes) -> bool:
    """Tell whether digits of hex are no number and no word."""
    return not name.isdigit() and not name.isalpha()


def nodes_of(plan: PlanNode) -> list[PlanNode]:
    """Return all nodes of a plan, the root first, and last children before first ones."""
    nodes: list[PlanNode] = []
    stack = [plan]
    while stack:
        node = stack.pop()
        nodes.append(node)
        if node.children:
            stack += node.children
    return nodes


def hash_plan(nodes: list[PlanNode]) -> str:
    """Hash a plan tree: each node's depth, name and text, in the order Spark prints them.

    nodes: list of PlanNode
        From :func:`nodes_of`. The same plan with other numbers is looked up, not normalised again.
    """
    text = _joined(nodes)
    key = _key(nodes, text)
    known = _hashes.get(key)
    if known is None:
        known = _hash(_lines(nodes, text))
        if key:
            if len(_hashes) >= _PLANS:
                _hashes.clear()
            _hashes[key] = known
    return known


_hashes: dict[bytes, str] = {}


def _joined(nodes: list[PlanNode]) -> str:
    """Return the texts and the names of nodes with same numbers; nothing if numbers matter."""
    parts = [node.text for node in nodes]
    parts += [node.name for node in nodes]
    text = "\0".join(parts)
    if text.count("\0") >= len(parts):
        return ""  # nobody can tell where a text ends
    if len(text) > MAX_LINE and max(map(len, parts)) > MAX_LINE:
        return ""  # numbers decide where a text is cut
    return _with_same_numbers(text)


def _key(nodes: list[PlanNode], text: str) -> bytes:
    """Return what only plans of the same hash share; nothing if that takes normalising."""
    if not text:
        return b""
    children = [len(node.children) for node in nodes]
    digest = hashlib.sha256(array("Q", [len(nodes), *children]))
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def hash_plan_text(text: str) -> str:
    """Hash a plan that is known only as text."""
    lines = (normalise(line) for line in text.splitlines())
    return _hash(f"{line}\n" for line in lines if line)


def _lines(nodes: list[PlanNode], text: str) -> Iterable[str]:
    """Return what is hashed of each node, given what :func:`_joined` returned."""
    if text:
        parts, shorten = text.split("\0"), _shortened
    else:
        parts, shorten = [*(node.text for node in nodes), *(node.name for node in nodes)], normalise
    texts, names = parts[: len(nodes)], parts[len(nodes) :]
    short_text = {one: shorten(one) for one in set(texts)}
    short_name = {one: shorten(without_number(one)) for one in set(names)}
    told = dict(zip(map(id, nodes), zip(names, texts, strict=True), strict=True))
    stack = [(0, nodes[0])]
    while stack:
        depth, node = stack.pop()
        name, said = told[id(node)]
        yield f"{depth} {short_name[name]}: {short_text[said]}\n"
        if node.children:
            stack += [(depth + 1, child) for child in reversed(node.children)]


def without_number(name: str) -> str:
    """Return a node's name without the number of its generated code."""
    return _CODEGEN.apply(encoded(name)).decode("utf-8") if name.endswith(")") else name


def _hash(lines: Iterable[str]) -> str:
    text = "".join(lines).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:HASH_DIGITS]


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

_SHORT_TEXT = 1000
"""Characters of a leaf's name and location up to which they are remembered: every plan is gone
through more than once, and most read what others read. 5 MB at most."""
_LOCATION = "Location: "
_ROWS = {"LocalTableScan": "local rows", "Range": "range", "OneRowRelation": "one row"}


def plan_name(nodes: Sequence[PlanNode]) -> str:
    """Return what a plan does and to which sources, such as ``join, aggregate of sales, items``.

    nodes: all nodes, as :func:`iqcar.logs.events.operators.nodes_of` returns them.
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
    name, by_path = _remembered_name(name) if len(name) <= _SHORT else _named(name)
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

        nodes: as :func:`~iqcar.logs.events.operators.nodes_of` returns them.
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
        names = (
            name
            for group in found
            for name in self._names[group - group % _MOST_GROUPS][group % _MOST_GROUPS]
        )
        return sorted(names)[:MOST_OPERATORS]

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

    scopes: operations that made its RDDs.
    operators: as :meth:`Operators.fed_by` returns them.

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
