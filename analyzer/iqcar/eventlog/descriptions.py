"""What the description of a job or SQL execution says: did a user name it, or did Spark?"""

from __future__ import annotations

import re

from iqcar.eventlog.redact import redact_text

_CALL_SITE = re.compile(r"^\S+ at \S.*:-?\d+$")
"""Spark's own description: `count at App.scala:12`, `$anonfun$run$2 at Future.java:1768`."""

_STATEMENT = re.compile(
    r"(?is)^\s*(?:/\*.*?\*/\s*|--[^\n]*\n\s*|\()*(?:select|with|insert|merge|update|delete|create|drop"
    r"|alter|show|describe|explain|refresh|cache|analyze|truncate|use|set|from|values|optimize|vacuum)"
    r"\s"
)
"""The SQL Thrift server, spark-sql and notebooks describe a query by its text."""

_STREAM = re.compile(
    r"^(?P<name>.*?)(?:<br/>|\n)?id = [0-9a-f\-]{36}(?:<br/>|\n)runId = [0-9a-f\-]{36}(?:<br/>|\n)"
    r"batch = ",
    re.S,
)
"""Structured Streaming: the query's name if it has one, ids, and the number of the batch."""

_CONNECT = re.compile(
    r"SparkConnect_OperationTag_.*?_Operation_([0-9A-Fa-f\-]{36})"
    r"|User_.*?_Session_[0-9A-Fa-f\-]{36}_Request_([0-9A-Fa-f\-]{36})"
)
"""How Spark Connect ≥ 3.5 tags jobs, and the job group of 3.4."""


def clean_description(text: str | None) -> str:
    """Return a description without secrets, and of a stream's batch only the stream's name."""
    stream = _STREAM.match(text) if text else None
    if stream:
        return redact_text(stream["name"]) or "streaming query"
    return redact_text(text)


def is_user_named(text: str) -> bool:
    """Tell whether a description is a name that a user gave, which stays the same in every run.

    A call site is Spark's, and the text of a statement holds constants that change.
    """
    if not text or text == "streaming query":
        return False
    return not (_CALL_SITE.match(text) or _STATEMENT.match(text))


def connect_operation(group: str | None, tags: str | None) -> str:
    """Return the Spark Connect operation that a job's group or tags name; empty if none."""
    for text in (tags, group):
        match = _CONNECT.search(text) if text else None
        if match:
            return match.group(1) or match.group(2)
    return ""
