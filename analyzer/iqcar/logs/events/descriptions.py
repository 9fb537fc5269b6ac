"""What the description of a job or SQL execution says: did a user name it, or did Spark?"""

from __future__ import annotations

from iqcar.logs.events.connect_requests import is_connects_own
from iqcar.logs.text.linear import BLANK, END, compiled, encoded
from iqcar.logs.text.redact import redact_text

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


def is_broadcast(text: str) -> bool:
    """Tell whether Spark describes the job of a broadcast, whatever the user's description is."""
    return text.startswith("broadcast exchange (runId ")
