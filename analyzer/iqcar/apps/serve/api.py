"""Declares the JSON API: every endpoint with its answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar, cast

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from iqcar.apps.serve.analyses import Look, State
from iqcar.apps.serve.applications import Wanted, select
from iqcar.apps.serve.cache import RESULT as RESULT_FILE
from iqcar.apps.serve.endpoints import (
    COMPARISON,
    GONE,
    GROWN,
    HISTORY,
    LIVE,
    OPENAPI,
    REFUSED,
    RESULT,
    RESULT_HEADERS,
    WHAT_IF,
    AnalysisId,
    ApplicationAbout,
    ApplicationList,
    ComparedSets,
    ComparisonProgress,
    HowFar,
    Key,
    Progress,
    Together,
    Wish,
    about,
    comparison_progress,
    endpoint,
    list_of,
    openapi,
    progress_of,
    question_progress,
)
from iqcar.apps.serve.responses import (
    JSONResponse,
    Problem,
    compressed,
    looked_again,
    problem,
    service_of,
)
from iqcar.apps.serve.service import AnalysisWork, GoneError, Service, Work
from iqcar.errors import IqcarError, UsageError
from iqcar.history.store_views import StoreView
from iqcar.replay.whatif.question import parse_request
from iqcar.replay.whatif.question_parts import PARTS, SEVERAL, Part, PartKind

_NOT_ANALYSED = "not analysed yet: POST its key to /api/analyses, then ask for the progress"
_NOT_COMPARED = "not compared yet: POST the sets to /api/comparisons, then ask again"


@endpoint(
    "GET /api/applications",
    "listApplications",
    "List applications: search, sort, page by page.",
    {200: ("One page of the list.", ApplicationList)},
)
async def applications(request: Request, wanted: Wanted) -> ApplicationList:
    """Answer with one page of the list."""
    service = looked_again(request)
    return list_of(select(service.listing.applications(), wanted), service)


@endpoint(
    "GET /api/applications/{key}",
    "getResult",
    "The newest result of analysing one application alone, as `iqcar analyze --json` writes it.",
    {200: ("The result.", RESULT), 404: GONE, 409: ("It was not analysed yet.", Problem)},
    headers=RESULT_HEADERS,
)
async def application(request: Request, key: Key) -> Response:
    """Answer with the result of analysing one application."""
    return await _result(request, looked_again(request).standing([key], waiting=False))


@endpoint(
    "GET /api/applications/{key}/about",
    "getApplication",
    "One application: its row of the list, its analysis, and what ran beside it.",
    {200: ("What is known about it.", ApplicationAbout), 404: GONE},
)
async def application_about(request: Request, key: Key) -> ApplicationAbout:
    """Answer with what is known about one application."""
    service = looked_again(request)
    one = service.standing([key]).applications[0]
    return about(one, service, service.listing.applications())


@endpoint(
    "GET /api/together",
    "getStanding",
    "How the analysis of one or several applications together stands, for their logs as they "
    "are now.",
    {200: ("How far it is; its state is null if nobody asked for it.", Progress), 404: GONE},
)
async def together(request: Request, wanted: Together) -> Progress:
    """Answer with how applications stand together."""
    service = looked_again(request)
    return progress_of(service.standing(wanted.app), service)


@endpoint(
    "POST /api/analyses",
    "startAnalysis",
    "Analyse applications, several of them together; joins an analysis that is under way. "
    "One that nobody asks about for 2 minutes is stopped.",
    {
        202: ("It waits or runs.", Progress),
        200: ("It was done before; its result is there.", Progress),
        **REFUSED,
    },
)
async def start(request: Request, wanted: Wish) -> Response:
    """Ask for an analysis."""
    service = service_of(request)
    begun = progress_of(service.analyse(wanted.applications), service)
    return JSONResponse(begun, 200 if begun.state is State.DONE else 202)


@endpoint(
    "GET /api/analyses/{id}",
    "getProgress",
    "How far an analysis is.",
    {200: ("How far it is.", Progress), 404: GONE},
)
async def analysis(request: Request, id: AnalysisId) -> Progress:
    """Answer with how far an analysis is."""
    service = looked_again(request)
    return progress_of(_standing(service, id), service)


@endpoint(
    "GET /api/analyses/{id}/result",
    "getAnalysisResult",
    "The result of an analysis, as `iqcar analyze --json` writes it.",
    {200: ("The result.", RESULT), 404: GONE, 409: ("It is not done.", Problem)},
    headers=RESULT_HEADERS,
)
async def analysis_result(request: Request, id: AnalysisId) -> Response:
    """Answer with the result of an analysis."""
    return await _result(request, _standing(service_of(request), id))


@endpoint(
    "POST /api/analyses/{id}/cancel",
    "cancelAnalysis",
    "Stop an analysis that waits or runs; does nothing to one that has ended.",
    {
        202: ("It is being stopped.", Progress),
        403: ("The request comes from a page of another site.", Problem),
        404: GONE,
    },
)
async def cancel(request: Request, id: AnalysisId) -> Response:
    """Stop an analysis."""
    service = service_of(request)
    standing = _standing(service, id)
    service.analyses.cancel(standing.digest)
    return JSONResponse(progress_of(standing, service), 202)


@endpoint(
    "GET /api/comparisons",
    "getComparison",
    "How the comparison of two sets of applications stands, for their logs as they are now.",
    {200: ("How far it is.", ComparisonProgress), 404: GONE},
)
async def comparison(request: Request, sets: ComparedSets) -> ComparisonProgress:
    """Answer with how far a comparison is."""
    service = looked_again(request)
    return comparison_progress(service.compared(sets.before, sets.after), service)


@endpoint(
    "POST /api/comparisons",
    "startComparison",
    "Compare two sets of applications; joins a comparison that is under way. One that nobody "
    "asks about for 2 minutes is stopped.",
    {
        202: ("It waits or runs.", ComparisonProgress),
        200: ("It was done before; its result is there.", ComparisonProgress),
        **REFUSED,
    },
)
async def start_comparison(request: Request, sets: ComparedSets) -> Response:
    """Ask for a comparison."""
    service = service_of(request)
    begun = comparison_progress(service.compare(sets.before, sets.after), service)
    return JSONResponse(begun, 200 if begun.state is State.DONE else 202)


@endpoint(
    "POST /api/comparisons/cancel",
    "cancelComparison",
    "Stop a comparison that waits or runs; does nothing to one that has ended.",
    {
        202: ("It is being stopped.", ComparisonProgress),
        403: ("The request comes from a page of another site.", Problem),
        404: GONE,
        413: ("The body is too large.", Problem),
    },
)
async def cancel_comparison(request: Request, sets: ComparedSets) -> Response:
    """Stop a comparison."""
    service = service_of(request)
    compared = service.compared(sets.before, sets.after)
    service.analyses.cancel(compared.digest)
    return JSONResponse(comparison_progress(compared, service), 202)


@endpoint(
    "GET /api/comparisons/result",
    "getComparisonResult",
    "The newest result of a comparison, as `iqcar compare --json` writes it.",
    {200: ("The result.", COMPARISON), 404: GONE, 409: ("It is not done.", Problem)},
    headers=RESULT_HEADERS,
)
async def comparison_result(request: Request, sets: ComparedSets) -> Response:
    """Answer with the newest result of a comparison."""
    compared = looked_again(request).compared(sets.before, sets.after)
    return await _result(request, compared, _NOT_COMPARED)


ANSWER_S = 20.0
"""Seconds that a request waits for its answer; a model of 10,000 tasks is made in less."""

LOOK_S = 0.05
"""Seconds between two looks whether a question is answered."""

NAMES = tuple(PARTS)
Apps = Annotated[
    list[Key],
    Meta(min_length=1, max_length=32, description="Applications that are replayed together."),
]


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is asked, as the options of `iqcar whatif` say it; several are one joint change."""

    def given(self) -> dict[str, Any]:
        """What is asked, as :func:`iqcar.replay.whatif.question.parse_request` takes it."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name)}

    def check(self) -> None:
        """Check the values; raises UsageError as the command does."""
        if not self.given():
            raise UsageError("nothing to change", "", "give remove, slots or another change")
        parse_request(**self.given())


class ChangesOfApps(Changes, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question in an address."""

    app: Apps


class ChangesOfLogs(Changes, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question about applications, whose logs are replayed together."""

    SAYS: ClassVar[str] = "what to change"

    applications: Apps


def _field(name: str, part: Part) -> tuple[str, Any, Any]:
    """Lay out a part of a question as a field: its name, type and default."""
    how = f"`{part.in_help}`: {part.help}" if part.metavar else part.help
    meta = Meta(description=how)
    if part.kind is PartKind.BY_APPLICATION:
        return name, Annotated[str | list[str], meta], ""
    if part.kind in SEVERAL:
        return name, Annotated[list[str], meta], msgspec.field(default_factory=list)
    if part.kind is PartKind.FLAG:
        return name, Annotated[bool, meta], False
    return name, Annotated[str, meta], ""


C = TypeVar("C", bound=Changes)


def _with_parts(name: str, base: type[C]) -> type[C]:
    """Make a struct that has a field for each part of a question."""
    made = msgspec.defstruct(
        name,
        [_field(*row) for row in PARTS.items()],
        bases=(base,),
        namespace={"__doc__": base.__doc__},
        module=__name__,
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    return cast("type[C]", made)


AskedChanges = _with_parts("Changes", Changes)
WhatIfForm = _with_parts("WhatIfForm", ChangesOfApps)
WhatIfWish = _with_parts("WhatIfWish", ChangesOfLogs)


@endpoint(
    "GET /api/whatif",
    "getWhatIf",
    "How far the answer to a what-if question is.",
    {200: ("How far it is.", HowFar), 404: GONE},
    given=WhatIfForm,
)
async def progress(request: Request, form: ChangesOfApps) -> HowFar:
    """Answer with how far a question is."""
    service = service_of(request)
    return question_progress(service.asked(form.app, form.given()), service)


@endpoint(
    "POST /api/whatif",
    "askWhatIf",
    "Predict how long queries would have taken if something had been different. The first "
    "question about a log takes as long as analysing it; ask again until it is answered. One "
    "that nobody asks about for 2 minutes is stopped.",
    {
        200: ("The answer, as `iqcar whatif --json` writes it.", WHAT_IF),
        202: ("It is being worked on: ask again.", HowFar),
        409: ("There is no answer; the detail says why.", Problem),
        **REFUSED,
    },
    given=WhatIfWish,
)
async def ask_live(request: Request, wish: ChangesOfLogs) -> Response:
    """Ask a question, and wait a while for its answer."""
    service = service_of(request)
    asked = await asked_live(service, wish.applications, wish, ANSWER_S)
    if asked.state in (State.QUEUED, State.RUNNING):
        return JSONResponse(question_progress(asked, service), 202)
    if asked.state is State.DONE:
        return await _result(request, asked)
    failed = asked.analysis
    said = failed.message if failed else ""
    return problem(400 if failed and failed.wrong else 409, said or "the question was stopped")


async def asked_live(service: Service, keys: list[str], changes: Changes, wait_s: float) -> Work:
    """Ask, and wait some time for the answer; raises UsageError with what is wrong."""
    changes.check()
    until = time.monotonic() + wait_s
    asked = service.ask(keys, changes.given())
    while asked.state in (State.QUEUED, State.RUNNING) and time.monotonic() < until:
        await asyncio.sleep(LOOK_S)
        asked = service.asked(keys, changes.given())
    return asked


BEAT = b": looking\n\n"
"""Sent first, so that a browser knows that the stream is open."""


@endpoint(
    "GET /api/live/{key}",
    "follow",
    "Windows of a running application as server-sent events: each as `iqcar live --json` "
    "prints it, or an object with a `problem`; `event: over` at the end.",
    {
        200: ("A stream of windows, one every two seconds, until the application ends.", LIVE),
        404: GONE,
        503: ("Too many look already; ask again later.", Problem),
    },
)
async def live_stream(request: Request, key: Key) -> Response:
    """Answer with windows of a running application as server-sent events."""
    service = looked_again(request)
    look = service.followers.look(key, service.follow(key))

    async def events() -> AsyncIterator[bytes]:
        yield BEAT
        async for line in look.windows():
            yield b"data: " + line + b"\n\n"
        yield b"event: over\ndata: {}\n\n"

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return _Stream(look, events(), media_type="text/event-stream", headers=headers)


class _Stream(StreamingResponse):
    """A stream whose place is given back however it ends, also before its first byte."""

    def __init__(self, look: Look, events: AsyncIterator[bytes], **more: Any) -> None:
        super().__init__(events, **more)
        self._look = look

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send windows until the client has gone or the application has ended."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._look.close()


MOST_ROWS = 200
"""Rows of an answer, as in the command's --top; programs that want all read the files."""

Day = Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="YYYY-MM-DD, UTC.")]
Name = Annotated[str, Meta(max_length=1000)]


class StoreQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What part of the store is asked about, and how it is grouped."""

    since: Day = ""
    until: Day = ""
    cluster: Name = ""
    period: Annotated[str, "For `top`: day, week, month or all."] = "week"
    by: Annotated[
        str, Meta(max_length=200), "For `who`: query, user, pool or a Spark property."
    ] = "query"
    query: Annotated[
        str, Meta(max_length=1000), "For `trend` and `changes`: name or fingerprint."
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


@endpoint(
    "GET /api/openapi.json",
    "getDescription",
    "This description.",
    {200: ("An OpenAPI document.", OPENAPI)},
)
async def document(request: Request) -> Response:
    """Answer with the OpenAPI document."""
    return JSONResponse(openapi(ENDPOINTS))


def _standing(service: Service, digest: str) -> AnalysisWork:
    """Look up an analysis that was asked for, or whose result is kept."""
    analysis = service.analyses.get(digest)
    summary = service.cache.summary(digest)
    keys = analysis.keys if analysis else summary.keys if summary else ()
    if not keys:  # a comparison has none: it is asked for by its sets
        raise GoneError("there is no such analysis (any more)")
    asked = partial(
        AnalysisWork,
        keys=keys,
        digest=digest,
        result=digest if summary else None,
        analysis=analysis,
    )
    try:
        now = service.standing(keys)
    except GoneError:
        return asked(applications=(), outdated=True)
    # What was asked about is this state of the logs, also if they have grown since.
    return asked(applications=now.applications, outdated=now.digest != digest)


async def _result(request: Request, work: Work, none_yet: str = _NOT_ANALYSED) -> Response:
    """Answer with the newest result of an analysis or a comparison, if one is kept."""
    cache = service_of(request).cache
    content = None
    if work.result is not None:
        content = await asyncio.to_thread(cache.read, work.result, RESULT_FILE)
    if content is None:
        return problem(409, none_yet)
    headers = {GROWN: "true" if work.grown else "false"}
    return await compressed(request, content, "application/json", headers)


ENDPOINTS = (
    applications,
    application,
    application_about,
    together,
    start,
    analysis,
    analysis_result,
    cancel,
    comparison,
    start_comparison,
    cancel_comparison,
    comparison_result,
    progress,
    ask_live,
    live_stream,
    ask_store,
    document,
)
"""The whole API; routes and documentation are made from it."""
