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
from typing import Any

import msgspec

from iqcar.base.units import read_size
from iqcar.logs.events import lenient
from iqcar.logs.events.lenient import BadNumbers
from iqcar.logs.events.structs import NOT_FITTING, Properties
from iqcar.logs.text.redact import redact_setting
from iqcar.tables import MOST_BYTES, MOST_CORES, MOST_TASKS

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

    Parameters
    ----------
    raw : ``Properties`` of the job's start; may be null or empty.
    settings : the application's, without secrets.
    bad : counts the numbers that were lost.

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
