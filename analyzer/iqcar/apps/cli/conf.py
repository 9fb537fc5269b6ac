"""``iqcar conf``: print the Spark settings that load the plugin and write an event log."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from iqcar.apps.cli.command import command


@command("What to tell Spark to attach the plugin.", writes=())
def conf(
    *,
    pyspark: bool = False,
    shell: bool = False,
    properties: bool = False,
    log_dir: str = "",
    jar: str = "",
    listener: bool = True,
    apply_rules: str = "",
    with_jars: str = "",
    with_plugins: str = "",
    with_listeners: str = "",
) -> None:
    """Print what to tell Spark: the plugin, its jar, and an event log; on a terminal, how large.

    Without an option it prints flags on one line, for spark-submit, spark-shell and pyspark.

    Example: spark-submit $(iqcar conf) job.py

    Parameters
    ----------
    pyspark
        Print Python code that builds a SparkSession.
    shell
        Print a line for eval that sets PYSPARK_SUBMIT_ARGS, for `python job.py`.
    properties
        Print lines for spark-defaults.conf.
    log_dir : PATH
        Folder or URL for event logs (spark.eventLog.dir). A folder must exist here; write file:///…
        for one elsewhere. Default: what Spark is configured for.
    jar : PATH
        Path or URL of the jar where Spark runs, if it is not this machine's: hdfs:///…, s3a://…,
        local:///…. Default: the jar that iqcar carries.
    listener
        Name the listener too. Without it the plugin registers it itself. The listener alone
        (spark.extraListeners without spark.plugins) records pools and slots; it measures no waits
        of executors, except in local mode.
    apply_rules : FILE
        Path or URL of compiled rules that the plugin is to apply (spark.iqcar.rules).
    with_jars : LIST
        The job's own --jars: Spark takes that option once.
    with_plugins : LIST
        The job's own spark.plugins: Spark takes one list.
    with_listeners : LIST
        The job's own spark.extraListeners: Spark takes one list.
    """
    from iqcar.errors import UsageError
    from iqcar.logs.attach.spark_conf import EXPECTED_BYTES, SparkConf, is_url, listener_jar

    if pyspark + shell + properties > 1:
        raise UsageError("only one of --pyspark, --shell and --properties can be given")
    if jar and not is_url(jar) and not Path(jar).is_file():
        raise UsageError("no such file", jar, "write local:/… for a path on every Spark host")
    if apply_rules and not is_url(apply_rules) and not Path(apply_rules).is_file():
        raise UsageError("no such file", apply_rules, "write rules with iqcar rules compile")
    if log_dir and not is_url(log_dir) and not Path(log_dir).is_dir():
        raise UsageError(
            "no such folder, and Spark does not create it",
            log_dir,
            "create it, or write file:///… for a folder where Spark runs",
        )
    settings = SparkConf(
        jar=jar or str(listener_jar()),
        log_dir=log_dir,
        listener=listener,
        rules=apply_rules,
        jars=_split(with_jars),
        plugins=_split(with_plugins),
        listeners=_split(with_listeners),
    )
    if pyspark:
        typer.echo(settings.pyspark())
    elif shell:
        typer.echo(settings.shell())
    elif properties:
        typer.echo(settings.properties())
    else:
        typer.echo(settings.flags())
    if sys.stderr.isatty():
        typer.echo(f"iqcar: {EXPECTED_BYTES}", err=True)
    if not log_dir:
        _warn_of_a_missing_log_dir()


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _warn_of_a_missing_log_dir() -> None:
    """Warn if Spark's folder for event logs is missing, because Spark would refuse to start."""
    from iqcar.logs.attach.spark_conf import DEFAULT_LOG_DIR, configured_log_dir

    if not Path(DEFAULT_LOG_DIR).is_dir() and configured_log_dir() is None:
        typer.echo(
            f"iqcar: Spark's default folder for event logs, {DEFAULT_LOG_DIR}, does not exist "
            "here and Spark does not create it; name one with --log-dir or spark.eventLog.dir",
            err=True,
        )
