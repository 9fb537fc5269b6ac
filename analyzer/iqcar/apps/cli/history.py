"""``iqcar history``: the group of commands on a store of what happened over weeks and months."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import HISTORY, Result, command
from iqcar.errors import ExitCode, IqcarError

if TYPE_CHECKING:
    from iqcar.history.store_views import StoreView

history = typer.Typer(
    name="history",
    no_args_is_help=True,
    help="Keep kilobytes of each application for months, and ask who hurt whom, which query "
    "became slower when, which node is slow.",
    short_help="Who hurt whom over months.",
)


@dataclass(frozen=True)
class Within:
    """Which applications of a store are asked about.

    Attributes
    ----------
    since : DAY
        Only applications from this day on (2026-11-01, UTC).
    until : DAY
        Only applications up to this day.
    cluster : NAME
        Only applications of this cluster.
    """

    since: str = ""
    until: str = ""
    cluster: str = ""

    @contextmanager
    def of(self, store: str) -> Iterator[StoreView]:
        """Look at a store, and say at the end which of its files were not read."""
        from iqcar.history.store_views import view_of
        from iqcar.show.terminal.history import print_set_aside

        about = view_of(store, self.since, self.until, self.cluster)
        try:
            yield about
        finally:
            print_set_aside(about.store.set_aside_lines())


@history.command("add")
@command(needs=HISTORY)
def add_(
    store: str,
    paths: list[str],
    *,
    cluster: str = "",
    again: bool = False,
    processes: int | None = None,
    on_spark: bool = False,
    master: str = "",
) -> Result:
    """Add the applications of some logs; those that the store knows are passed over.

    Applications that ran at once are diagnosed together, so that blame across them is found. The
    store is made where there is none. An addition that was stopped goes on where it was.

    Example: iqcar history add s3a://metrics/iqcar-store s3a://logs/spark-events

    Parameters
    ----------
    cluster : NAME
        Cluster that they ran on; by default from spark.master of each application.
    again
        Diagnose also what the store knows already.
    processes : 1..
        Groups of logs diagnosed at once; all cores by default.
    on_spark
        Read and diagnose the logs on Spark: on the active session or the application of
        spark-submit, else on --master. Together are those that shared hosts at the same time.
        Needs iqcar[spark].
    """
    options.check_master(master, on_spark)
    where = master if on_spark else None
    return added_to(store, paths, where, cluster=cluster, again=again, processes=processes)


def added_to(
    store: str, paths: list[str], master: str | None, most: int = 0, **chosen: Any
) -> Result:
    """Add the applications of some logs to a store.

    Parameters
    ----------
    master : of the cluster whose Spark reads and diagnoses, as of
        :func:`iqcar.fleet.spark_session`; None to do it here.
    most : rows of each ranking of the whole store that are shown then; none by default.
    chosen : further arguments of :func:`iqcar.history.add`.
    """
    from iqcar.apps.cli.reading import counting
    from iqcar.fleet import spark_session
    from iqcar.history import add, top
    from iqcar.show.json.history import added_to_json
    from iqcar.show.terminal.history import print_added, print_set_aside, print_top

    with ExitStack() as held:
        spark = None if master is None else held.enter_context(spark_session(master))
        progress = held.enter_context(counting("diagnosing logs"))
        added = add(store, paths, progress=progress, spark=spark, **chosen)
    if added.failed and not added.added and not added.known:
        path, message = added.failed[0]
        raise IqcarError(message.rstrip("."), path)
    print_set_aside(added.set_aside)
    ends = ExitCode.PARTIAL if added.failed or added.partial else ExitCode.OK

    def show() -> None:
        print_added(store, added)
        if most:
            with Within().of(store) as about:
                print_top(top(about, "all", most), "all")

    return Result(show, partial(added_to_json, store, added), ends=ends)


@history.command("top")
@command(needs=HISTORY)
def top_(store: str, *, within: Within, period: str = "week", most: int = 10) -> Result:
    """Rank aggressive queries, slow nodes, hot resources and causes of stragglers by period.

    Example: iqcar history top store/ --period month --since 2026-10-01

    Parameters
    ----------
    period
        day, week, month, or all.
    """
    from iqcar.history import top
    from iqcar.show.json.history import top_to_json
    from iqcar.show.terminal.history import print_top

    with within.of(store) as about:
        found = top(about, period, most)
    return Result(partial(print_top, found, period), partial(top_to_json, about, found, period))


@history.command("who")
@command(needs=HISTORY)
def who_(store: str, *, within: Within, by: str = "query", most: int = 20) -> Result:
    """Sum who lost how much elapsed time to whom, and for which resource.

    Example: iqcar history who store/ --by user --since 2026-11-01

    Parameters
    ----------
    by : query|user|pool|session|application|cluster|PROPERTY
        What victims and sources are grouped by; or a Spark property that names a team, such as
        spark.yarn.queue.
    """
    from iqcar.history import who
    from iqcar.show.json.history import who_to_json
    from iqcar.show.terminal.history import print_who

    with within.of(store) as about:
        losses = who(about, by)
    return Result(partial(print_who, losses, by, most), partial(who_to_json, about, by, losses))


@history.command("trend")
@command(needs=HISTORY)
def trend_(store: str, query: str, *, within: Within, most: int = 20) -> Result:
    """List the runs of one recurring query, with its waits and culprits, and when it changed.

    Example: iqcar history trend store/ nightly-etl

    Parameters
    ----------
    query : QUERY
        Name or fingerprint of a recurring query.
    """
    from iqcar.history import changes, trend
    from iqcar.show.json.history import trend_to_json
    from iqcar.show.terminal.history import print_trend

    with within.of(store) as about:
        runs = trend(about, query)
        found = changes(about, str(runs["fingerprint"].iloc[0]))
    return Result(
        partial(print_trend, runs, found, most), partial(trend_to_json, about, runs, found)
    )


@history.command("changes")
@command(needs=HISTORY)
def changes_(
    store: str,
    *,
    within: Within,
    query: str = "",
    compare: bool = False,
    margin: str = "10%",
    most: int = 20,
) -> Result:
    """Find when recurring queries became slower or faster for good, and what else changed then.

    Change points are found by E-divisive: the runs before and after are distributed differently.

    Example: iqcar history changes store/ --compare

    Parameters
    ----------
    query : NAME
        Only this query, by name or fingerprint.
    compare
        Also compare the logs of the runs around each change, where they still are.
    margin : SHARE
        Change of duration that is none: 10% or 0.1.
    """
    from iqcar.apps.cli.reading import counting
    from iqcar.base.units import parse_share
    from iqcar.history import changes
    from iqcar.show.json.history import changes_to_json
    from iqcar.show.terminal.history import print_changes

    with within.of(store) as about, counting("looking at recurring queries") as progress:
        found = changes(
            about, query, explain=compare, margin=parse_share(margin, "--margin"), progress=progress
        )
    return Result(partial(print_changes, found, most), partial(changes_to_json, about, found))
