"""The part of the page of metrics about what the plugin gives to Spark's own metrics."""

from __future__ import annotations

METRICS = (
    (
        "`application.tasks`",
        "`executor.tasks`",
        "Tasks with a record: of all executors, as their results came; of this one.",
    ),
    (
        "`application.tasks_without_record`",
        "`executor.tasks_without_record`",
        "Tasks for which the plugin failed.",
    ),
    (
        "`application.task_seconds`",
        "`executor.task_seconds`",
        "`wall_ns` of the records, summed.",
    ),
    (
        "`application.cpu_seconds`",
        "`executor.cpu_seconds`",
        "`cpu_ns`, summed.",
    ),
    (
        "`application.off_cpu_seconds`",
        "`executor.off_cpu_seconds`",
        "`off_cpu_ns`, summed.",
    ),
    (
        "`application.covered_seconds`",
        "`executor.covered_seconds`",
        "The part of that for which looks were taken: divided by it, the coverage of looks.",
    ),
    (
        "`application.waited_seconds.CLASS`",
        "`executor.waited_seconds.CLASS`",
        "`waits_ns` by [class](listener.md#classes-of-waiting), summed, and `run_queue` and "
        "`throttled`, which are not a number (NaN) where no record knows them. Stops by a CPU "
        "limit are in `throttled` alone: `run_queue` and `python_run_queue` are without them.",
    ),
    (
        "",
        "`executor.sampler.cpu_seconds`",
        "CPU of the sampler's threads.",
    ),
    (
        "",
        "`executor.sampler.stopped_seconds`",
        "For how long reading stacks stopped the JVM, at most.",
    ),
    (
        "",
        "`executor.sampler.elapsed_seconds`",
        "How long the sampler has run.",
    ),
    (
        "",
        "`executor.sampler.budget_used`",
        "The part spent of what [the budget](listener.md#the-budget) allows for that time.",
    ),
    (
        "",
        "`executor.sampler.period_seconds`",
        "Time between two looks now.",
    ),
    (
        "",
        "`executor.host_samples_dropped`",
        "Samples of the host that the driver was too slow to take.",
    ),
    (
        "`driver.failures`",
        "`executor.failures`",
        "Failures of the plugin's own code in this JVM.",
    ),
    (
        "`driver.failures_at.PLACE`",
        "`executor.failures_at.PLACE`",
        "The same by place, from the first one on.",
    ),
    (
        "`driver.rules.pools`, `driver.rules.assignments`, `driver.rules.caps`",
        "",
        "Pools, assignments and capped pools of the rules that act now. With "
        "`spark.iqcar.rules` only, like the next two.",
    ),
    (
        "`driver.rules.placed`, `driver.rules.moved`",
        "",
        "Task sets that a rule put into a pool when they came, and that were moved to "
        "another one later.",
    ),
)
"""Names on the driver, names on an executor, and what they are."""

BEFORE = """\
The [plugin](listener.md) gives what it counts to Spark's own metrics, on the driver and on every
executor, and the sinks of `metrics.properties` (JMX, Prometheus, Graphite, files) read it there.
Sinks call it `plugin.org.iqcar.spark.IqcarPlugin` and a name of this table. All are gauges that
begin at 0 with the application; only those of `rules` and `sampler.period_seconds` go down. An
application whose settings switch the plugin off has none, nor has one with the listener alone.
"""
SINK = "spark.metrics.conf.driver.sink.prometheusServlet"
AFTER = f"""\
In local mode both columns are in one JVM, and the executor has no `failures`. Otherwise a driver's
names are enough for Prometheus, because results bring the records of all executors. With

    {SINK}.class=org.apache.spark.metrics.sink.PrometheusServlet
    {SINK}.path=/metrics/prometheus
    spark.metrics.namespace=${{spark.app.name}}

the driver serves them at the address of Spark's own UI, and this makes labels of what Spark puts
into names, as the dashboard wants them:

      - job_name: spark
        metrics_path: /metrics/prometheus/
        static_configs:
          - targets: ["driver-host:4040"]
        metric_relabel_configs:
          - {{source_labels: [__name__], target_label: application,
             regex: "metrics_(.+)_driver_plugin_org_iqcar_spark_IqcarPlugin_.+"}}
          - {{source_labels: [__name__], target_label: wait,
             regex: ".+_IqcarPlugin_.+_waited_seconds_(.+)_Value"}}
          - {{source_labels: [__name__], target_label: place,
             regex: ".+_IqcarPlugin_.+_failures_at_(.+)_Value"}}
          - {{source_labels: [__name__], target_label: __name__, replacement: "iqcar_spark_$1",
             regex: ".+_IqcarPlugin_(.+_waited_seconds|.+_failures_at)_.+_Value"}}
          - {{source_labels: [__name__], target_label: __name__, replacement: "iqcar_spark_$1",
             regex: ".+_IqcarPlugin_(.+)_Value"}}
"""


def plugin_metrics() -> str:
    """The section of the page."""
    table = [("on the driver", "on an executor", "what it is"), ("---",) * 3, *METRICS]
    lines = (f"| {' | '.join(row)} |" for row in table)
    return "\n".join(["## Of the plugin", "", BEFORE, *lines, "", AFTER])
