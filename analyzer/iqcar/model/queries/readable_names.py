"""Names of queries for people: what a description or a call site says, else what the query does.

Only what is shown: fingerprints and families are of the names as they were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iqcar.logs.events.operators import MAX_SOURCES, SEPARATOR, named_plan
from iqcar.logs.events.settings import is_statement
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Ints

_PLACES = (
    "NativeMethodAccessorImpl.java:", "DirectMethodHandleAccessor.java:", "<stdin>:", "<console>:",
    "threading.py:", "ThreadPoolExecutor.java:", "CompletableFuture.java:", "Future.java:",
)  # fmt: skip
"""Files of call sites that are the same whatever the query is."""
_THREADS = _PLACES[4:]
"""Those in which the call says nothing, either."""
_CALLS = {"showString": "show", "collectToPython": "collect", "toPandas": "toPandas"}
_NO_TABLES = ("Scan", "ExistingRDD")
"""What a plan is said to read where it names no table."""
_CODE = ("import ", "package ", "//", "#", "--", "%")


def readable_name(told: str, does: str) -> str:
    r"""Return a name that tells a query from others.

    told: its description or call site, as recorded.
    does: what its plan or its stages do; empty if unknown.

    >>> readable_name("parquet at NativeMethodAccessorImpl.java:0", "write of trips")
    'parquet: write of trips'
    >>> readable_name("import tempfile\nfile = tempfile.Named...", "join of trips, zones")
    'join of trips, zones'
    >>> readable_name("-- by day\n\nSELECT day FROM trips", "read of trips")
    'SELECT day FROM trips'
    """
    if (call := _call_that_says_nothing(told)) is not None:
        return f"{call}: {does}" if call and does else does or told
    lines = [line.strip() for line in _without_comment(told).splitlines()]
    left = [line for line in lines if line and not _is_import_or_comment(line)]
    is_code = len(lines) > 1 or told.startswith(("import ", "from ")) or told.endswith("...")
    if not is_code or (left and left == [line for line in told.splitlines() if line.strip()]):
        return told
    text = " ".join(left)
    if is_statement(text):
        return text
    return does or text or told


def _call_that_says_nothing(told: str) -> str | None:
    """Return the call of a call site whose file says nothing; None for any other text."""
    call, at, place = told.rpartition(" at ")
    if not at or " " in call or "\n" in told or " " in place:
        return None
    place = place.rpartition("/")[2]
    if call.startswith("$anonfun$") or place.startswith(_THREADS):
        return ""
    return _CALLS.get(call, call) if place.startswith(_PLACES) else None


def _without_comment(told: str) -> str:
    text = told.strip()
    while text.startswith("/*") and "*/" in text:
        text = text.partition("*/")[2].strip()
    return text


def _is_import_or_comment(line: str) -> bool:
    return line.startswith(_CODE) or (line.startswith("from ") and " import " in line)


def what_queries_do(tables: Tables, execution: Ints) -> list[str]:
    """Return what each query does, by its plan, else by its stages; empty where unknown.

    execution: (n_queries,) row of each query's SQL execution, −1 for none.
    """
    sql, stages = tables.sql_executions, tables.stages
    operators, sources = texts(sql, "operators"), texts(sql, "tables")
    names, labels = texts(stages, "name"), texts(stages, "label")
    query = stages["query"].to_numpy(np.int64)
    order = np.lexsort((stages["stage_id"].to_numpy(), query))
    of_query: dict[int, list[int]] = {}
    for row in order.tolist():
        of_query.setdefault(int(query[row]), []).append(row)
    does = []
    for number, row in enumerate(execution.tolist()):
        if row >= 0 and operators[row]:
            read = [one for one in sources[row].split(SEPARATOR) if one and one not in _NO_TABLES]
            does.append(named_plan(operators[row], read))
        else:
            rows = of_query.get(number, [])
            does.append(_of_stages([names[at] for at in rows], [labels[at] for at in rows]))
    return does


def _of_stages(names: Sequence[str], labels: Sequence[str]) -> str:
    """Return the last call site that says something, else what the last stage ran."""
    for name in reversed(names):
        if name and _call_that_says_nothing(name) is None:
            return name
    parts = labels[-1].split(SEPARATOR) if labels else []
    return ", ".join(parts[:MAX_SOURCES])
