"""Settings that a log holds, without secrets: of the application, of sessions, and of jobs.

Spark copies all local properties of the thread that starts a job into the job's start, and with
them every setting of a SQL session. Those of the session are left out here: ``conf`` has them by
SQL execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from math import nan

import msgspec

from iqcar.logs.events import lenient
from iqcar.logs.events.lenient import BadNumbers
from iqcar.logs.events.structs import NOT_FITTING, Properties
from iqcar.logs.text.redact import redact_setting

MAX_SETTING = 1_000
"""Characters kept of the name and of the value of a setting: options of a JVM have some hundred."""
MOST_SETTINGS = 5_000
"""Settings kept of one event; Databricks sets some 300."""

_REMEMBERED, _SHORT = 64, 20_000
"""So many settings of sessions of up to so many bytes are remembered with what became of them: each
query of a session repeats them. 3 MB at most."""


def settings_of(raw: msgspec.Raw) -> Mapping[str, str]:
    """Return the settings in an object of JSON by name; a value that is no text is left out."""
    text = bytes(raw)
    if len(text) <= len(b"{}"):
        return {}
    return _remembered(text) if len(text) <= _SHORT else _decoded(text)


def _decoded(text: bytes) -> Mapping[str, str]:
    found = lenient.parse_object(text)
    pairs = ((lenient.encodable(key), value) for key, value in found.items())
    kept = ((key, str(value)) for key, value in pairs if isinstance(value, (str, int, float)))
    return dict(
        redact_setting(key, lenient.encodable(value), MAX_SETTING)
        for key, value in islice(kept, MOST_SETTINGS)
    )


_remembered = lru_cache(_REMEMBERED)(_decoded)


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

    Parameters
    ----------
    raw : ``Properties`` of the job's start; may be null or empty.
    settings : the application's, without secrets.
    bad : counts the numbers that were lost.

    Returns what the job belongs to; and what it sets that its
    application does not set so, without secrets.
    """
    text = bytes(raw)
    found = lenient.parse_object(text) if len(text) > len(b"{}") else {}
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
