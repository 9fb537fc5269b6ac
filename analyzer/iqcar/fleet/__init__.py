"""Runs work on many event logs on Spark: logs of applications that met on hosts are one group.

logs → hosts and times of each (executors) → groups (driver) → work on each group (executors)
"""

from iqcar.fleet.on_spark import grouped_on_spark, spark_session

__all__ = ["grouped_on_spark", "spark_session"]
