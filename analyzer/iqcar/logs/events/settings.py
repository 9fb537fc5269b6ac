"""What settings, descriptions, groups and tags tell, without secrets: who named a query, and how.

Spark copies all local properties of the thread that starts a job into the job's start, and with
them every setting of a SQL session. Those of the session are left out here: ``conf`` has them by
SQL execution.

Spark Connect describes everything that it runs by the beginning of the request: ids of the session,
the user and the plan. They recur in other queries and differ in the next run of the same query.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from math import nan
from typing import Any

import msgspec

from iqcar.base.units import read_size
from iqcar.logs.events import lenient
from iqcar.logs.events.lenient import BadNumbers
from iqcar.logs.events.structs import Properties
from iqcar.logs.events.task_structs import NOT_FITTING
from iqcar.logs.text import (
    BLANK,
    END,
    Match,
    Replacement,
    compiled,
    encoded,
    redact_setting,
    redact_text,
)
from iqcar.tables import MOST_BYTES, MOST_CORES, MOST_TASKS

CONNECT = "Spark Connect"
"""What a stage is called that Spark Connect named after its request."""

_OWN = f"{CONNECT} - "

_UUID = r"[0-9A-Fa-f\-]{36}"
_OPERATION = compiled(
    rf"SparkConnect_OperationTag_[^\n]*?_Operation_({_UUID})"
    rf"|User_[^\n]*?_Session_{_UUID}_Request_({_UUID})"
)
"""How Spark Connect ≥ 3.5 tags jobs, and the job group of 3.4."""

_OWNER = compiled(rf"(?:SparkConnect_OperationTag_|\A)User_([^\n]*?)_Session_({_UUID})_")
"""The user and the session in both."""

_TAG = compiled(rf"SparkConnect_SessionTag_[^\n,]*?_Session_{_UUID}_Tag_([^\n,]+)")
"""How Spark Connect ≥ 3.5 passes on a tag that the client set with `SparkSession.addTag`."""

_SQL = compiled(r'(?:^|\n)[ ]*sql(?:_command)? \{\n[ ]*(?:query|sql): "((?:[^"\\\n]|\\[^\n])*)"')
"""A SQL statement within a request, in the text format of Protocol Buffers."""

_FIT = compiled(r'\bfit \{\n[ ]*estimator \{\n[ ]*name: "(?:[^"\n]*\.)?([^".\n]+)"')
"""The class of a model to be fitted, in a request."""

_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _letter(match: Match) -> bytes:
    """Return what an escape stands for: a byte by its octal number, or a letter."""
    letter: bytes = match[1][1:]
    return bytes([int(letter, 8) & 0xFF]) if match[2] else _ESCAPED.get(letter, letter)


_ESCAPE = Replacement(b"\\", compiled(r"(?s)(\\(?:([0-7]{1,3})|.))"), _letter)


def is_connects_own(text: str) -> bool:
    """Tell whether Spark Connect made this description or name of a stage."""
    return text.startswith(_OWN)


def connect_operation(group: str | None, tags: str | None) -> str:
    """Return the Spark Connect operation that a job's group or tags name; empty if none."""
    for text in (tags, group):
        match = _OPERATION.search(encoded(text)) if text else None
        if match:
            operation: bytes = match[1] or match[2]
            return operation.decode("ascii")
    return ""


def connect_owner(group: str | None, tags: str | None) -> tuple[str, str]:
    """Return the user and the session of the Spark Connect client that started a job.

    >>> session = "6d9a4f10-0000-4000-8000-000000000000"
    >>> connect_owner(f"User_ann_Session_{session}_Request_{session}", None)
    ('ann', '6d9a4f10-0000-4000-8000-000000000000')
    """
    for text in (tags, group):
        match = _OWNER.search(encoded(text)) if text else None
        if match:
            return redact_text(match[1].decode("utf-8")), match[2].decode("ascii")
    return "", ""


def connect_tags(tags: str | None) -> str:
    """Return the tags that a Spark Connect client gave a job, with commas; empty if none."""
    found = _TAG.findall(encoded(tags)) if tags else []
    return ", ".join(sorted({redact_text(tag.decode("utf-8")) for tag in found}))


def connect_request(request: str) -> str:
    r"""Return the first SQL statement of a request, else the model that it fits; empty if neither.

    >>> connect_request('common {\n  plan_id: 3\n}\nsql {\n  query: "SELECT \\"a\\""\n}\n')
    'SELECT "a"'
    >>> connect_request('ml_command {\n  fit {\n    estimator {\n      name: "a.b.KMeans"\n')
    'fit KMeans'
    """
    stored = encoded(request)
    sql = _SQL.search(stored)
    if sql:
        return redact_text(_ESCAPE.apply(sql[1]).decode("utf-8", "replace"))
    fit = _FIT.search(stored)
    return redact_text(f"fit {fit[1].decode('utf-8', 'replace')}") if fit else ""


_CALL_SITE = compiled(rf"^[^{BLANK}]+ at [^{BLANK}][^\n]*:-?\p{{Nd}}+{END}")
"""Spark's own description: `count at App.scala:12`, `$anonfun$run$2 at Future.java:1768`."""

_COMMENT = r"/\*(?:[^*]|\*+[^*/])*\*+/"
_STATEMENT = compiled(
    rf"(?i)^[{BLANK}]*(?:{_COMMENT}[{BLANK}]*|--[^\n]*\n[{BLANK}]*|\()*"
    r"(?:select|with|insert|merge|update|delete|create|drop"
    r"|alter|show|describe|explain|refresh|cache|analyze|truncate|use|set|from|values|optimize|vacuum)"
    rf"[{BLANK}]"
)
"""The SQL Thrift server, spark-sql and notebooks describe a query by its text."""

_IDS = r"[0-9a-f\-]{36}(?:<br/>|\n)"
_STREAM = compiled(rf"(?s)^(.*?)(?:<br/>|\n)?id = {_IDS}runId = {_IDS}batch = ")
"""Structured Streaming: the query's name if it has one, ids, and the number of the batch."""


def clean_description(text: str | None) -> str:
    """Return a description without secrets; empty if it is Spark Connect's own.

    Of a stream's batch only the stream's name is kept.
    """
    if text and is_connects_own(text):
        return ""
    stream = _STREAM.search(encoded(text)) if text and "runId = " in text else None
    if stream:
        return redact_text(stream[1].decode("utf-8")) or "streaming query"
    return redact_text(text)


def is_user_named(text: str) -> bool:
    """Tell whether a description is a name that a user gave, which stays the same in every run.

    A call site is Spark's, and the text of a statement holds constants that change.
    """
    if not text or text == "streaming query":
        return False
    stored = encoded(text)
    return not (_CALL_SITE.search(stored) or _STATEMENT.search(stored))


def is_statement(text: str) -> bool:
    """Tell whether a text is a SQL statement."""
    return _STATEMENT.search(encoded(text)) is not None


def is_broadcast(text: str) -> bool:
    """Tell whether Spark describes the job of a broadcast, whatever the user's description is."""
    return text.startswith("broadcast exchange (runId ")


_PLAN_MARKS = compiled(r"^[\s:+\-]*(?:\*\(\d+\) )?|#\d+L?|,? \[plan_id=\d+\]")
_NO_OPERATION = "AdaptiveSparkPlan"
_LONGEST_CACHED, _MOST_OF_PLAN = 80, 2000
"""Characters of a name, and of a plan that one is looked for in."""


def cached_name(name: str) -> str:
    r"""Return a cached RDD's name; of a plan, which Spark names it after, the first operation.

    >>> cached_name("In-memory table orders")
    'orders'
    >>> cached_name("AdaptiveSparkPlan isFinalPlan=false\n+- *(1) Project [id#0L, k#2]\n   +- ...")
    'Project [id, k]'
    """
    stored = [encoded(line) for line in name[:_MOST_OF_PLAN].splitlines()]
    lines = [_PLAN_MARKS.sub(b"", line).decode("utf-8", "replace").strip() for line in stored]
    told = [line for line in lines if line and not line.startswith(_NO_OPERATION)] or [""]
    shown = redact_text(told[0].removeprefix("In-memory table "), _LONGEST_CACHED)
    return shown.rstrip()


MAX_SETTING = 1_000
"""Characters kept of the name and of the value of a setting: options of a JVM have some hundred."""
MOST_SETTINGS = 5_000
"""Settings kept of one event; Databricks sets some 300."""

_REMEMBERED, _SHORT = 64, 20_000
"""So many settings of sessions of up to so many bytes are remembered with what became of them: each
query of a session repeats them. 3 MB at most."""


_SIZES = {
    "spark.executor.cores": MOST_CORES,
    "spark.task.cpus": MOST_CORES,
    "spark.driver.cores": MOST_CORES,
    "spark.yarn.am.cores": MOST_CORES,
    "spark.executor.instances": MOST_TASKS,
    "spark.dynamicAllocation.minExecutors": MOST_TASKS,
    "spark.dynamicAllocation.initialExecutors": MOST_TASKS,
    "spark.default.parallelism": MOST_TASKS,
    "spark.sql.shuffle.partitions": MOST_TASKS,
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": MOST_TASKS,
    "spark.sql.adaptive.coalescePartitions.minPartitionNum": MOST_TASKS,
    "spark.memory.fraction": 1.0,
    "spark.memory.offHeap.size": MOST_BYTES,
    **dict.fromkeys(
        (
            f"spark.{whose}.{what}"
            for whose in ("executor", "driver", "yarn.executor", "yarn.driver", "yarn.am")
            for what in ("memory", "memoryOverhead", "minMemoryOverhead", "pyspark.memory")
        ),
        MOST_BYTES,
    ),
}
"""What settings that size an application may be at most. Most executors, and most cores of an
application, are missing: to set them without end is usual."""


def settings_of(raw: msgspec.Raw, bad: BadNumbers) -> Mapping[str, str]:
    """Return the settings in an object of JSON by name.

    A value that is no text is left out, and so is a size that cannot be, which ``bad`` counts.
    """
    text = bytes(raw)
    if len(text) <= len(b"{}"):
        return {}
    found = _remembered(text) if len(text) <= _SHORT else _decoded(text)
    wrong = {name for name in _SIZES.keys() & found.keys() if _is_absurd(name, found[name])}
    for name in wrong:
        bad.add(name)
    return {name: found[name] for name in found if name not in wrong} if wrong else found


def _is_absurd(name: str, text: str) -> bool:
    """Tell whether a size cannot be; what is no number, such as a variable, is no size."""
    most = _SIZES[name]
    size = read_size(text, "" if name.endswith(".size") else "m") if most == MOST_BYTES else None
    try:
        number = float(text) if size is None else size
    except ValueError:
        return False
    return not 0 <= number <= most


def _decoded(text: bytes) -> Mapping[str, str]:
    found = _with_tags(lenient.parse_object(text))
    pairs = ((lenient.encodable(key), value) for key, value in found.items())
    kept = ((key, str(value)) for key, value in pairs if isinstance(value, (str, int, float)))
    return dict(
        redact_setting(key, lenient.encodable(value), MAX_SETTING)
        for key, value in islice(kept, MOST_SETTINGS)
    )


_remembered = lru_cache(_REMEMBERED)(_decoded)

CLUSTER_TAGS = "spark.databricks.clusterUsageTags.clusterAllTags"
"""The setting in which Databricks lists the tags of a cluster as JSON: key and value of each."""
MOST_TAGS, MAX_TAGS = 100, 100_000
"""Tags kept of a cluster, and characters of JSON read; clouds allow 50 tags of 256 characters."""


def _with_tags(found: dict[str, Any]) -> dict[str, Any]:
    """Put a setting of its own for each tag, such as ``….clusterAllTags.Team``, for their list.

    So the name of each tag decides, as that of any setting, whether its value is a secret. A list
    that cannot be read is left out: where it holds a secret cannot be told.
    """
    if CLUSTER_TAGS not in found:
        return found
    text = found[CLUSTER_TAGS]
    found = {key: value for key, value in found.items() if key != CLUSTER_TAGS}
    try:
        listed = _TAGS.decode(text) if isinstance(text, str) and len(text) <= MAX_TAGS else ()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return found
    return {**found, **{f"{CLUSTER_TAGS}.{tag.key}": tag.value for tag in listed[:MOST_TAGS]}}


class _Tag(msgspec.Struct, gc=False):
    """A tag of a cluster."""

    key: str
    value: str


_TAGS = msgspec.json.Decoder(tuple[_Tag, ...])


MAX_PROPERTY = 500
"""Characters kept of a property's name and value: more is no name of a team."""
MOST_PROPERTIES = 50
"""Properties kept of one job; programs set a handful."""
MOST_ID = 2**63
"""Bound of the numbers of SQL executions: they are 64-bit integers."""

_OF_SPARK = frozenset(
    (
        *(field.encode_name for field in msgspec.structs.fields(Properties)),
        *("spark.rdd.scope", "spark.rdd.scope.noOverride", "callSite.short", "callSite.long"),
        *("spark.job.interruptOnCancel", "__fetch_continuous_blocks_in_batch_enabled"),
        *("spark.driver.port", "spark.driver.host", "spark.app.id", "spark.app.startTime"),
    )
)
"""What Spark itself notes of each job, and of the driver once it runs."""
_OF_SESSIONS = ("spark.sql.", "spark.sparkContext.", "spark.repl.", "spark.databricks.execution.")
"""Beginnings of names: settings of SQL sessions, which ``conf`` has, and Spark's own notes."""


def job_properties(
    raw: msgspec.Raw, settings: Mapping[str, str], bad: BadNumbers
) -> tuple[Properties, dict[str, str]]:
    """Decode the properties of a job.

    raw: ``Properties`` of the job's start; may be null or empty.
    settings: the application's, without secrets.
    bad: counts the numbers that were lost.

    Returns what the job belongs to; and what it sets that its
    application does not set so, without secrets.
    """
    text = bytes(raw)
    found = _with_tags(lenient.parse_object(text)) if len(text) > len(b"{}") else {}
    if not found:
        return Properties(), {}
    try:
        known = msgspec.convert(found, Properties)
    except NOT_FITTING:
        known = lenient.fit(Properties, found, bad)
    unlike = (
        redact_setting(lenient.encodable(key), lenient.encodable(value), MAX_SETTING)
        for key, value in found.items()
        if settings.get(key) != value
        and isinstance(value, str)
        and value
        and key not in _OF_SPARK
        and not key.startswith(_OF_SESSIONS)
    )
    own = ((key, value) for key, value in unlike if settings.get(key) != value)
    return known, {_cut(key): _cut(value) for key, value in islice(own, MOST_PROPERTIES)}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_PROPERTY else text[: MAX_PROPERTY - 1] + "…"


def execution_number(text: str | None) -> float:
    """Parse the number of a SQL execution; NaN where it is none."""
    try:
        number = float(text) if text else nan
    except ValueError:
        return nan
    return number if 0 <= number < MOST_ID else nan
