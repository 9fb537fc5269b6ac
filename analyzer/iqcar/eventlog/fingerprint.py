"""Hashes that recognise a recurring query: its plan without ids, literals, dates and run numbers.

Two runs of the same query with other constants hash equal; different queries differ. Of an
adaptive query the initial plan is hashed, because the final one depends on what a run measured.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iqcar.eventlog.events import PlanNode

HASH_DIGITS = 32
"""Hex digits kept of SHA-256: 128 bits never collide by chance."""

_OPERAND = r"[^#()\[\],]*?"
_LITERALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        # A scan's filters, which its Filter repeats: Spark cuts them at 100 characters, ids and
        # constants included, so only the first column is the same in every run.
        (
            r"\b(DataFilters|PartitionFilters|PushedFilters): \[(\*?\(*\w*\(*\w+)"
            r".*?(?=, [A-Z]\w*: |$)",
            r"\1: [\2",
        ),
        # Where files lie: only the first path is kept, the number of paths differs from run to run.
        (r"Location: (\w+)\s*(?:\(\d+ paths\))?\s*\[([^,\]]*)[^\]]*\]?", r"Location: \1[\2]"),
        # Pushed filters name the column without an id, and the constant without quotes.
        (
            r"\b(EqualTo|EqualNullSafe|GreaterThan|GreaterThanOrEqual|LessThan|LessThanOrEqual"
            r"|StringStartsWith|StringEndsWith|StringContains)\(([^,()]+),[^()]*\)",
            r"\1(\2,?)",
        ),
        (r"\bIn\(([^,()\[\]]+),\s*\[[^\]]*\]?\)?", r"In(\1,?)"),
        # A constant beside an operator: a column there would carry `#` and its id.
        (
            rf"(<=>|<=|>=|=|<|>|\b(?:LIKE|RLIKE|THEN|ELSE)\b) {_OPERAND}"
            r"(?=\)|\]|,| AND | OR | WHEN | THEN | ELSE | END|$)",
            r"\1 ?",
        ),
        (rf"\(({_OPERAND}) (<=>|<=|>=|=|<|>) (?=[^ ]*#)", r"(? \2 "),
        (r"\b(IN|INSET) \([^()#]*\)", r"\1 (?)"),
        (r"\b(IN|INSET) [^()#,\]]*(?=\)|\]|,)", r"\1 ?"),
        (
            rf"\b(Contains|StartsWith|EndsWith|like|rlike)\((\w+#\d+L?), {_OPERAND}\)",
            r"\1(\2, ?)",
        ),
        (r"'(?:[^'\\]|\\.|'')*'", "?"),
        (r'"(?:[^"\\]|\\.)*"', "?"),
    )
)
_IDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        # Attributes: name#12, name#12L; plan ids: [plan_id=12], [id=#12]
        (r",?\s*\[(?:plan_id|id)=#?\d+\]", ""),
        (r"#x?\d+L?", ""),
        (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "?"),
        (r"\$\$?Lambda[$/\w.@]*", "Lambda"),
        (r"@[0-9a-f]{4,}\b", "@?"),
        # Names made up anew for each run: letters and digits of hex, at least eight of them.
        (r"(?<![0-9A-Za-z])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?![0-9A-Za-z])", "?"),
        # Dates and times, with or without separators
        (r"\b\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}(?::\d{1,2}){1,2}(?:\.\d+)?Z?)?", "?"),
        # Numbers that are no part of a name
        (r"(?<![\w$])-?\d+(?:\.\d+)?(?:[eE][+\-]?\d+)?(?:BD|[LDSBdf])?(?![\w])", "?"),
        # Numbers at the end of a file's or folder's name: part-00012, year=2024
        (r"(?<=[\-=/.])\d+(?=[/\-.\]]|$)", "?"),
        (r"(?<=[\w\-])\d+(?=/)", "?"),
        (r"\?(?:\s*,\s*\?)+", "?"),
        (r"\s+", " "),
    )
)
_CODEGEN = re.compile(r"\s*\(\d+\)$")


def normalise(text: str) -> str:
    """Return a line of a plan without what differs from run to run.

    >>> normalise("Filter (isnotnull(d_year#12) AND (d_year#12 = 2001))")
    'Filter (isnotnull(d_year) AND (d_year = ?))'
    """
    for pattern, instead in _LITERALS:
        text = pattern.sub(instead, text)
    for pattern, instead in _IDS:
        text = pattern.sub(instead, text)
    return text.strip()


def hash_plan(plan: PlanNode) -> str:
    """Hash a plan tree: each node's depth, name and text, in the order Spark prints them."""
    return _hash(_lines(plan))


def hash_plan_text(text: str) -> str:
    """Hash a plan that is known only as text."""
    lines = (normalise(line) for line in text.splitlines())
    return _hash(line for line in lines if line)


def _lines(plan: PlanNode) -> Iterable[str]:
    stack = [(0, plan)]
    while stack:
        depth, node = stack.pop()
        name = normalise(_CODEGEN.sub("", node.name))
        yield f"{depth} {name}: {normalise(node.text)}"
        stack.extend((depth + 1, child) for child in reversed(node.children))


def _hash(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "replace") + b"\n")
    return digest.hexdigest()[:HASH_DIGITS]
