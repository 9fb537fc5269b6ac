"""``iqcar history``: the group of commands on a store of what happened over weeks and months."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from iqcar.apps.cli import options

if TYPE_CHECKING:
    from iqcar.history.store_views import StoreView

app = typer.Typer(
    no_args_is_help=True,
    help="Keep kilobytes of each application for months, and ask who hurt whom, which query "
    "became slower when, which node is slow.",
)

StoreUrl = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="A folder, or a URL (s3a://, gs://, abfs://, hdfs://), that holds the store.",
        show_default=False,
    ),
]
Since = Annotated[
    str, typer.Option(metavar="DAY", help="Only applications from this day on (2026-11-01, UTC).")
]
Until = Annotated[str, typer.Option(metavar="DAY", help="Only applications up to this day.")]
Cluster = Annotated[str, typer.Option(metavar="NAME", help="Only applications of this cluster.")]
Most = Annotated[int, typer.Option("--top", min=1, max=100_000, help="How many rows to show.")]


@app.command("add")
def add_(
    store: StoreUrl,
    paths: options.Paths,
    cluster: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Cluster that they ran on; by default from spark.master of each application.",
        ),
    ] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Diagnose also what the store knows already.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Groups of logs diagnosed at once; all cores by default."),
    ] = None,
    on_spark: Annotated[
        bool,
        typer.Option(
            "--on-spark",
            help="Read and diagnose the logs on Spark: on the active session or the application of "
            "spark-submit, else on --master. Needs iqcar[spark].",
        ),
    ] = False,
    master: options.Master = "",
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Add the applications of some logs; those that the store knows are passed over.

    Applications that ran at once are diagnosed together, so that blame across them is found. The
    store is made where there is none. An addition that was stopped goes on where it was.

    Example: iqcar history add s3a://metrics/iqcar-store s3a://logs/spark-events
    """
    from iqcar.apps.cli.reading import counting
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.errors import ExitCode, IqcarError, UsageError
    from iqcar.show.json.history import added_to_json
    from iqcar.show.terminal.history import print_added, print_set_aside

    _need()
    from iqcar.fleet.session import spark_session
    from iqcar.history import add

    check_writable(json, force)
    if master and not on_spark:
        raise UsageError("goes with --on-spark only", "--master")
    with ExitStack() as held:
        session = held.enter_context(spark_session(master)) if on_spark else None
        progress = held.enter_context(counting("diagnosing logs"))
        added = add(
            store, paths, cluster=cluster, again=again, processes=processes, progress=progress,
            spark=session,
        )  # fmt: skip
    if added.failed and not added.added and not added.known:
        path, message = added.failed[0]
        raise IqcarError(message.rstrip("."), path)
    print_set_aside(added.set_aside)
    if json != "-":
        print_added(store, added)
    if json is not None:
        write_result(json, added_to_json(store, added))
    raise typer.Exit(ExitCode.PARTIAL if added.failed or added.partial else ExitCode.OK)


@app.command("top")
def top_(
    store: StoreUrl,
    period: Annotated[str, typer.Option(help="day, week, month, or all.")] = "week",
    since: Since = "",
    until: Until = "",
    cluster: Cluster = "",
    most: Most = 10,
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Rank aggressive queries, slow nodes, hot resources and causes of stragglers by period.

    Example: iqcar history top store/ --period month --since 2026-10-01
    """
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.show.json.history import top_to_json
    from iqcar.show.terminal.history import print_top

    _need()
    from iqcar.history import top
    from iqcar.history.store_views import view_of

    check_writable(json, force)
    about = view_of(store, since, until, cluster)
    with _telling_aside(about):
        found = top(about, period, most)
    if json != "-":
        print_top(found, period)
    if json is not None:
        write_result(json, top_to_json(about, found))


@app.command("who")
def who_(
    store: StoreUrl,
    by: Annotated[
        str,
        typer.Option(
            metavar="query|user|pool|session|application|cluster|PROPERTY",
            help="What victims and sources are grouped by; or a Spark property that names a team, "
            "such as spark.yarn.queue.",
        ),
    ] = "query",
    since: Since = "",
    until: Until = "",
    cluster: Cluster = "",
    most: Most = 20,
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Sum who lost how much elapsed time to whom, and for which resource.

    Example: iqcar history who store/ --by user --since 2026-11-01
    """
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.show.json.history import who_to_json
    from iqcar.show.terminal.history import print_who

    _need()
    from iqcar.history import who
    from iqcar.history.store_views import view_of

    check_writable(json, force)
    about = view_of(store, since, until, cluster)
    with _telling_aside(about):
        losses = who(about, by)
    if json != "-":
        print_who(losses, by, most)
    if json is not None:
        write_result(json, who_to_json(about, by, losses))


@app.command("trend")
def trend_(
    store: StoreUrl,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Name or fingerprint of a recurring query.")
    ],
    since: Since = "",
    until: Until = "",
    cluster: Cluster = "",
    most: Most = 20,
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """List the runs of one recurring query, with its waits and culprits, and when it changed.

    Example: iqcar history trend store/ nightly-etl
    """
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.show.json.history import trend_to_json
    from iqcar.show.terminal.history import print_trend

    _need()
    from iqcar.history import changes, trend
    from iqcar.history.store_views import view_of

    check_writable(json, force)
    about = view_of(store, since, until, cluster)
    with _telling_aside(about):
        runs = trend(about, query)
        found = changes(about, str(runs["fingerprint"].iloc[0]))
    if json != "-":
        print_trend(runs, found, most)
    if json is not None:
        write_result(json, trend_to_json(about, runs, found))


@app.command("changes")
def changes_(
    store: StoreUrl,
    query: Annotated[
        str, typer.Option(metavar="NAME", help="Only this query, by name or fingerprint.")
    ] = "",
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Also compare the logs of the runs around each change, where they still are.",
        ),
    ] = False,
    margin: Annotated[
        str, typer.Option(metavar="SHARE", help="Change of duration that is none: 10% or 0.1.")
    ] = "10%",
    since: Since = "",
    until: Until = "",
    cluster: Cluster = "",
    most: Most = 20,
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Find when recurring queries became slower or faster for good, and what else changed then.

    Change points are found by E-divisive: the runs before and after are distributed differently.

    Example: iqcar history changes store/ --compare
    """
    from iqcar.apps.cli.reading import counting
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.show.json.history import changes_to_json
    from iqcar.show.terminal.history import print_changes

    _need()
    from iqcar.history import changes
    from iqcar.history.store_views import view_of

    check_writable(json, force)
    about = view_of(store, since, until, cluster)
    with _telling_aside(about), counting("looking at recurring queries") as progress:
        found = changes(
            about, query, explain=compare, margin=options.share(margin), progress=progress
        )
    if json != "-":
        print_changes(found, most)
    if json is not None:
        write_result(json, changes_to_json(about, found))


@contextmanager
def _telling_aside(about: StoreView) -> Iterator[None]:
    """Say at the end which files of a store were not read."""
    from iqcar.show.terminal.history import print_set_aside

    try:
        yield
    finally:
        print_set_aside(about.store.set_aside_lines())


def _need() -> None:
    from iqcar.apps.cli.extras import need

    need("history", "duckdb", "fsspec", "pyarrow")
