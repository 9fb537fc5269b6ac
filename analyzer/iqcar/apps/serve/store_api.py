"""Answers questions to a store of what happened over months, as JSON and as a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from iqcar.apps.serve.endpoints import HISTORY, endpoint
from iqcar.apps.serve.handling import read_query, service_of
from iqcar.apps.serve.responses import Problem, render
from iqcar.apps.serve.service import GoneError, Service
from iqcar.errors import IqcarError, UsageError
from iqcar.history.store_views import StoreView

MOST_ROWS = 200
"""Rows of an answer, as in the command's --top; programs that want all read the files."""

Day = Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="YYYY-MM-DD, UTC.")]
Name = Annotated[str, Meta(max_length=1000)]


class StoreQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What part of the store is asked about, and how it is grouped."""

    since: Day = ""
    until: Day = ""
    cluster: Name = ""
    period: Annotated[str, Meta(description="For `top`: day, week, month or all.")] = "week"
    by: Annotated[
        str, Meta(max_length=200, description="For `who`: query, user, pool or a Spark property.")
    ] = "query"
    query: Annotated[
        str, Meta(max_length=1000, description="For `trend` and `changes`: name or fingerprint.")
    ] = ""


def part_of(service: Service, wanted: StoreQuery) -> StoreView:
    """Return the part of the served store that is asked about; raises GoneError without one."""
    if not service.store:
        raise GoneError(
            "there is no store; start with --store STORE (`iqcar history add` makes one)"
        )
    from iqcar.history.store_views import view_of

    return view_of(service.store, wanted.since, wanted.until, wanted.cluster)


async def in_turn(service: Service, work: Callable[[], Any]) -> Any:
    """Ask DuckDB in a thread, some questions at once; what the store cannot is a UsageError."""

    def told() -> Any:
        try:
            return work()
        except UsageError:
            raise
        except IqcarError as error:
            raise UsageError(str(error)) from error

    async with service.store_turns:
        return await asyncio.to_thread(told)


def recently(days: int) -> str:
    """Return the day so many days ago."""
    return (datetime.now(timezone.utc) - timedelta(days=days)).strftime("%Y-%m-%d")


async def answered(service: Service, question: str, wanted: StoreQuery) -> bytes:
    """Answer as ``iqcar history QUESTION --json`` does.

    Raises GoneError if no store is served or there is no such question, UsageError if the store
    does not know what is asked about or cannot be read.
    """

    def work() -> bytes:
        from iqcar import history
        from iqcar.show.json import history as written

        about = part_of(service, wanted)
        if question == "top":
            return written.top_to_json(about, history.top(about, wanted.period), wanted.period)
        if question == "who":
            return written.who_to_json(
                about, wanted.by, history.who(about, wanted.by).head(MOST_ROWS)
            )
        if question == "trend":
            runs = history.trend(about, wanted.query).tail(MOST_ROWS)
            fingerprint = str(runs["fingerprint"].iloc[0])
            return written.trend_to_json(about, runs, history.changes(about, fingerprint))
        if question == "changes":
            return written.changes_to_json(about, history.changes(about, wanted.query))
        raise GoneError(f"a store is not asked {question!r}: ask top, who, trend or changes")

    content: bytes = await in_turn(service, work)
    return content


@endpoint(
    "GET /api/history/{question}",
    "ask_store",
    "What `iqcar history top|who|trend|changes --json` prints of the served store.",
    {
        200: ("The answer.", HISTORY),
        400: ("The question is wrong, or the store cannot be read.", Problem),
        404: ("No store is served, or there is no such question.", Problem),
    },
)
async def ask_store(request: Request, wanted: StoreQuery, question: str) -> Response:
    """Answer as ``iqcar history QUESTION --json`` does."""
    content = await answered(service_of(request), question, wanted)
    return Response(content, media_type="application/json")


SHOWN = 15
"""Rows of each table."""
RANGES = {"7 days": 7, "30 days": 30, "90 days": 90, "a year": 365}


async def store_page(request: Request) -> Response:
    """Show what a store knows of some time, or the runs of one query."""
    service = service_of(request)
    wanted = read_query(request, StoreQuery)

    def work() -> dict[str, Any]:
        from iqcar import history
        from iqcar.history.ask_store import told_duration
        from iqcar.show.json.history import top_to_dict
        from iqcar.show.pictures.history_pictures import losses_to_others, runs_over_time

        about = part_of(service, wanted)
        if wanted.query:
            runs = history.trend(about, wanted.query)
            fingerprint = str(runs["fingerprint"].iloc[0])
            changes = history.changes(about, fingerprint).changes
            return {
                "name": str(runs["name"].iloc[-1]),
                "picture": runs_over_time(runs, changes).svg,
                "runs": list(runs.tail(SHOWN).iloc[::-1].itertuples(index=False)),
                "told_duration": told_duration,
                "total": len(runs),
                "changes": changes,
                "set_aside": about.store.set_aside_lines(),
            }
        top = history.top(about, wanted.period, SHOWN)
        losses = history.who(about, wanted.by)
        found = history.changes(about)
        return {
            "periods": sorted({p for f in vars(top).values() for p in f["period"]}, reverse=True),
            "top": top_to_dict(top),
            "picture": losses_to_others(losses).svg if len(losses) else "",
            "losses": losses.head(SHOWN).to_dict("records"),
            "more_losses": max(0, len(losses) - SHOWN),
            "changes": found.changes[:SHOWN],
            "series": found.series,
            "set_aside": about.store.set_aside_lines(),
        }

    answer = await in_turn(service, work)
    ranges = {words: recently(days) for words, days in RANGES.items()}
    return HTMLResponse(
        render("history.html", wanted=wanted, store=service.store, ranges=ranges, **answer)
    )
