"""Hashes that recognise a recurring query: its plan without ids, literals, dates and run numbers.

Two runs of the same query with other constants hash equal; different queries differ. Of an
adaptive query the initial plan is hashed, because the final one depends on what a run measured.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from iqcar.logs.text.linear import (
    BLANK,
    END,
    START,
    STOP,
    WORD,
    Replacement,
    compiled,
    encoded,
    replacement,
)

if TYPE_CHECKING:
    from iqcar.logs.events.structs import PlanNode

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


def has_such_numbers(text: str) -> bool:
    """Tell whether a text holds numbers that :func:`hash_plan` treats alike whatever they are."""
    return any(one.search(text) for one in (_ATTRIBUTE, _NUMBER, _PLAN_ID))


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

    Parameters
    ----------
    nodes : list of PlanNode
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
