"""Tells what descriptions, groups and tags of jobs say: who named a query, and what it asks for.

Spark Connect describes everything that it runs by the beginning of the request: ids of the session,
the user and the plan. They recur in other queries and differ in the next run of the same query.
"""

from __future__ import annotations

from iqcar.logs.text.linear import BLANK, END, Match, Replacement, compiled, encoded
from iqcar.logs.text.redact import redact_text

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
