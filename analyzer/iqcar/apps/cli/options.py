"""Declare the arguments and options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from iqcar.enums import ImpactModel, Kind, QueryBy, SourceUsage
from iqcar.errors import UsageError


def choices(kind: type[Kind]) -> str:
    """Return the values of a kind with their sentences, for the help of an option."""
    return "; ".join(f"{k.value}: {k.sentence[0].lower()}{k.sentence[1:-1]}" for k in kind)


def top(what: str, most: int = 1000) -> Any:
    """Make the option of how many things to show."""
    return typer.Option("--top", min=1, max=most, help=f"How many {what} to show.")


def many(name: str, metavar: str, text: str) -> Any:
    """Make an option that can be given several times."""
    return typer.Option(name, metavar=metavar, help=text)


def time(text: str, *names: str) -> Any:
    """Make an option that is a time, such as 90s."""
    return typer.Option(*names, metavar="TIME", help=text)


def size(text: str) -> Any:
    """Make an option that is a number of bytes, such as 256MB."""
    return typer.Option(metavar="SIZE", help=text)


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Event logs: files, folders (every application in them), globs, eventlog_v2_* "
        "folders, History Server zips, or URLs (s3a://, gs://, abfs://, hdfs://).",
        show_default=False,
    ),
]
PathsOrTrace = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH]...",
        help="Event logs of one or many applications, as for `iqcar analyze`. Can be left out if "
        "there is a --trace.",
        show_default=False,
    ),
]
Traces = Annotated[
    list[str] | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="A trace of another system: CSV (plain or .gz) or Parquet with a row per task and "
        "columns for job, task, latency and metrics. Can be given several times; each is analysed "
        "alone.",
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        metavar="KEY=COLUMN,…",
        help="Which columns of a trace are what, where their names do not tell: job, task, "
        "latency, host, start, end, metrics, times (parts of the latency), unit (us, ms, s). "
        "Several columns are joined by +, e.g. job=job_name+task_name,latency=runtime,unit=s.",
    ),
]
Queries = Annotated[
    QueryBy,
    typer.Option("--query-by", help=f"What counts as one query. {choices(QueryBy)}."),
]
Impact = Annotated[
    ImpactModel,
    typer.Option(help=f"How contributions are measured. {choices(ImpactModel)}."),
]
Usage = Annotated[
    SourceUsage,
    typer.Option(help=f"How a source's use of a resource is measured. {choices(SourceUsage)}."),
]
CriticalPath = Annotated[
    bool,
    typer.Option("--critical-path", help="Look only at stages on each query's critical path."),
]
Recurring = Annotated[
    bool,
    typer.Option(
        "--topics",
        help="Look for causes of stragglers that recur in many stages, too (`iqcar topics`).",
    ),
]
Advice = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Kinds of advice of your own, in the format of rules/advice_kinds.json.",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="QUERY",
        help="Query to analyse: its id, name or fingerprint (`iqcar queries` lists them). "
        "Can be given several times; by default the most slowed-down queries.",
    ),
]
Samples = Annotated[
    list[str] | None,
    typer.Option(
        "--samples",
        metavar="FILE",
        help="Samples of hosts outside Spark (`iqcar sample`), joined by host name and time. "
        "Can be given several times.",
    ),
]
JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE|-", help="Write the result as JSON (`iqcar schema` describes it)."
    ),
]
AllSources = Annotated[
    bool,
    typer.Option(
        "--all-sources",
        help="Name all sources of a query's lost time, not only the 20 largest: time, memory and "
        "result then grow with the square of the number of concurrent queries.",
    ),
]
AllRules = Annotated[
    bool,
    typer.Option(
        "--all-rules",
        help="Keep scheduler rules that are predicted to do more harm than good.",
    ),
]
Master = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Master to start an application on for --on-spark, as of spark-submit; by default "
        "that of Spark's own settings, else local[*].",
        show_default=False,
    ),
]
By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="user|pool|session|application|PROPERTY",
        help="Group victims and sources by whom queries belong to: the user, the scheduler pool, "
        "the session of Spark Connect or the SQL Thrift server, the name of the application, or "
        "any Spark property, such as spark.yarn.queue.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


@dataclass(frozen=True)
class Diagnosing:
    """How queries are diagnosed."""

    top: Annotated[int, top("targets, sources, paths and rules")] = 5
    impact: Impact = ImpactModel.TIME_LOST
    source_usage: Usage = SourceUsage.ACTIVE
    query_by: Queries = QueryBy.SQL
    critical_path: CriticalPath = False


def on_spark(text: str) -> Any:
    """Make the option that has Spark read the logs."""
    return typer.Option("--on-spark", help=text)


def check_master(master: str, spark: bool) -> None:
    """Raise :class:`~iqcar.errors.UsageError` if --master has no --on-spark."""
    if master and not spark:
        raise UsageError("goes with --on-spark only", "--master")


def need_logs_or_traces(paths: list[str] | None, traces: list[str] | None) -> None:
    """Raise :class:`~iqcar.errors.UsageError` if there is nothing to read."""
    if not paths and not traces:
        raise UsageError("neither an event log nor a trace", "", "give a PATH or --trace FILE")
