"""Topics of a trace in Parquet on Spark, with the numbers of the local engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iqcar.topics import Topics


def trace_topics_on_spark(spark: Any) -> Topics:
    raise NotImplementedError
