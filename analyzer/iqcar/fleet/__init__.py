"""Diagnoses many logs, and finds their topics, on Spark: executors read logs and look at stages.

    logs → tables per application → tables per group of hosts and hours → diagnosis → summary
                                  → tables per group of hosts → jobs → looks → topics

Everything that can be done apart is: each log is read by one task, logs that share a host are put
together by one, and base learners look at jobs by the bundle. Only what has to see all jobs at
once, the meta learner and the ensemble, runs on the driver (Hound §5, which did the same).
"""

from iqcar.fleet.fleet_diagnosis import diagnose_on_spark
from iqcar.fleet.fleet_topics import topics_on_spark

__all__ = ["diagnose_on_spark", "topics_on_spark"]
