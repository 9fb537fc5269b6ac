"""Renders the pages: the list, an application before and after its analysis, and the API."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.api import (
    ENDPOINTS,
    Apps,
    AskedChanges,
    Changes,
    StoreQuery,
    asked_live,
    in_turn,
    part_of,
    recently,
)
from iqcar.apps.serve.applications import (
    Application,
    ListOrder,
    SortBy,
    Wanted,
    neighbours_of,
    select,
)
from iqcar.apps.serve.cache import PAGE
from iqcar.apps.serve.endpoints import (
    ComparedSets,
    Together,
    comparison_progress,
    parameters_of,
    progress_of,
    question_progress,
)
from iqcar.apps.serve.listing import MAX_LOGS
from iqcar.apps.serve.responses import (
    TITLES,
    Handler,
    answering,
    compressed,
    error_page,
    looked_again,
    problem,
    read_query,
    render,
    service_of,
)
from iqcar.apps.serve.service import MAX_TOGETHER, Service
from iqcar.base.units import printable
from iqcar.enums import InputStatus
from iqcar.errors import UsageError
from iqcar.logs.text import redact_text
from iqcar.replay.whatif.question_parts import PARTS, SEVERAL, PartKind, option_of
from iqcar.show.html.files import plotly

STATIC = {
    "serve.css": "text/css",
    "standing.css": "text/css",
    "serve.js": "text/javascript",
    "live.js": "text/javascript",
    "plotly.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""Files that pages load, with their media types; there are no others."""

COLUMNS = (
    (
        (SortBy.NAME, "Application", ListOrder.ASCENDING),
        (SortBy.APPLICATION_ID, "id", ListOrder.ASCENDING),
    ),
    ((SortBy.SAVES, "Saves most", ListOrder.DESCENDING),),
    ((SortBy.LOST, "Lost", ListOrder.DESCENDING),),
    ((SortBy.WORST, "Worst victim", ListOrder.ASCENDING),),
    ((SortBy.MOST_TO, "Lost most to", ListOrder.DESCENDING),),
    ((SortBy.USER, "User", ListOrder.ASCENDING),),
    ((SortBy.SPARK_VERSION, "Spark", ListOrder.DESCENDING),),
    ((SortBy.START, "Started (UTC)", ListOrder.DESCENDING),),
    ((SortBy.DURATION, "Ran", ListOrder.DESCENDING),),
    ((SortBy.STATUS, "Log", ListOrder.ASCENDING),),
    ((SortBy.SIZE, "Size", ListOrder.DESCENDING),),
)
"""Columns of the list: what each shows and sorts by, with heading and order of the first click."""

STATUS_WORDS = {
    InputStatus.COMPLETE: "complete",
    InputStatus.IN_PROGRESS: "no end yet",
    InputStatus.TRUNCATED: "truncated",
    InputStatus.FAILED: "unreadable",
}
"""How the list names the state of a log."""

SIDES = ("before", "after")
"""What forms say of each application that is compared."""

MAX_NEIGHBOURS = 20
"""Neighbours named on a page, the longest beside it first."""


def failure(status: int, message: str) -> Response:
    """Answer with a page that says what is wrong."""
    return HTMLResponse(error_page(TITLES.get(status, "Error"), message), status)


def page(handle: Handler) -> Handler:
    """Turn a handler's errors into pages."""
    return answering(handle, failure)


@page
async def listed(request: Request) -> Response:
    """Show the list."""
    service = service_of(request)
    service.listing.look_again()
    wanted = read_query(request, Wanted)
    chosen = select(service.listing.applications(), wanted)

    def address(**changed: object) -> str:
        """Return where the list is with some parameters changed; defaults are left out."""
        values = {
            "q": wanted.q,
            "status": str(wanted.status) if isinstance(wanted.status, InputStatus) else "",
            "sort": str(wanted.sort),
            "order": wanted.order.value,
            "size": wanted.size,
            "page": 1,
            **changed,
        }
        plain = {"q": "", "status": "", "sort": "start_ms", "order": "desc", "size": 50, "page": 1}
        rest = {name: value for name, value in values.items() if value != plain[name]}
        return "/" + (f"?{urlencode(rest)}" if rest else "")

    def sort_address(column: SortBy, first: ListOrder) -> str:
        if wanted.sort is not column:
            return address(sort=str(column), order=first.value)
        other = (
            ListOrder.ASCENDING if wanted.order is ListOrder.DESCENDING else ListOrder.DESCENDING
        )
        return address(sort=str(column), order=other.value)

    columns = [
        {
            "key": str(parts[0][0]),
            "sorted": _ARIA[wanted.order] if wanted.sort in [part[0] for part in parts] else None,
            "parts": [
                {
                    "heading": heading,
                    "address": sort_address(column, first),
                    "sorted": wanted.sort is column,
                }
                for column, heading, first in parts
            ],
        }
        for parts in COLUMNS
    ]
    body = render(
        "list.html",
        listing=service.listing,
        page=chosen,
        wanted=wanted,
        columns=columns,
        address=address,
        statuses=STATUS_WORDS,
        analyses=service.analyses.alone(),
        open=len(_not_analysed(service, wanted)),
        asked=service.asked_all(),
        max_together=MAX_TOGETHER,
        store=service.store,
        paths=[printable(redact_text(path)) for path in service.paths],
    )
    return HTMLResponse(body)


def _not_analysed(service: Service, wanted: Wanted) -> list[str]:
    """Keys of what matches, on all pages, can be read and has no result."""
    every = select(service.listing.applications(), replace(wanted, page=1, size=MAX_LOGS))
    return [one.key for one in every.applications if one.is_readable and one.summary is None]


@page
async def start_all(request: Request) -> Response:
    """Have all that match a search analysed, and go back to the list."""
    service, wanted = service_of(request), read_query(request, Wanted)
    service.analyse_all(_not_analysed(service, wanted))
    return RedirectResponse(f"/?{request.url.query}", 303)


_ARIA = {ListOrder.ASCENDING: "ascending", ListOrder.DESCENDING: "descending"}


@page
async def one(request: Request) -> Response:
    """Show the report about one application, or how far its analysis is."""
    return await _about(request, [request.path_params["key"]])


@page
async def together(request: Request) -> Response:
    """Show the report about several applications together, or how far their analysis is."""
    keys = list(dict.fromkeys(read_query(request, Together).app))
    if len(keys) == 1:
        return RedirectResponse(service_of(request).standing(keys).address, 303)
    return await _about(request, keys)


async def _about(request: Request, keys: list[str]) -> Response:
    service = service_of(request)
    service.listing.look_again()
    standing = service.standing(keys)
    everybody = service.listing.applications()
    beside = {
        each.application.key: each
        for application in standing.applications
        for each in neighbours_of(application, everybody)
        if each.application.key not in standing.keys
    }
    known = {
        "standing": standing,
        "progress": progress_of(standing, service),
        "neighbours": list(beside.values())[:MAX_NEIGHBOURS],
        "more_neighbours": max(0, len(beside) - MAX_NEIGHBOURS),
        "statuses": STATUS_WORDS,
        "title": _title(standing.applications),
    }
    barred = await _barred(service, standing.result, "bar.html", known)
    if barred is None:
        return HTMLResponse(render("application.html", **known))
    return await compressed(request, *barred)


async def _barred(
    service: Service, result: str | None, bar: str, known: dict[str, object]
) -> tuple[bytes, str, dict[str, str]] | None:
    """Return a report with a bar above it, its media type and headers; None if there is none."""
    summary = service.cache.summary(result) if result else None
    if result is None or summary is None:
        return None
    content = await asyncio.to_thread(service.cache.read, result, PAGE)
    if content is None:
        return None
    barred = await asyncio.to_thread(with_bar, content, render(bar, **known))
    return barred, "text/html", {"Content-Security-Policy": policy_with_bar(summary.policy)}


_BODY = re.compile(rb'<body[^>]*>(\s*<a class="skip"[^>]*>[^<]*</a>)?')
"""The bar stands after the link that skips what is above the report."""
_POLICIES = re.compile(rb'<meta (?:http-equiv="Content-Security-Policy"|name="referrer")[^>]*>\n?')
"""What a report from a disk says of itself; from here headers say it. Under its ``no-referrer``
browsers would send the bar's forms without their origin, and they would be refused."""


def with_bar(page: bytes, bar: str) -> bytes:
    """Put the bar at the top of a report, and take out the policies that the bar breaks.

    page: as it is stored: compressed.
    bar: escaped HTML.
    Returns compressed again; has to be sent with :func:`policy_with_bar`.
    """
    whole = gzip.decompress(page)
    match = _BODY.search(whole)
    at = match.end() if match else 0
    # Only the head: what comes from logs stands in the body.
    head = _POLICIES.sub(b"", whole[:at])
    return gzip.compress(head + bar.encode() + whole[at:], 1, mtime=0)


def policy_with_bar(policy: str) -> str:
    """Extend a report's policy by what the bar needs: our style and program, questions, forms."""
    parts = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    for name in ("style-src", "script-src", "img-src"):
        own = [value for value in parts.get(name, "").split() if value != "'self'"]
        parts[name] = " ".join(["'self'", *own])
    parts |= {"connect-src": "'self'", "form-action": "'self'", "frame-ancestors": "'none'"}
    return "; ".join(f"{name} {values}" for name, values in parts.items())


def _title(applications: tuple[Application, ...]) -> str:
    first = applications[0].name
    return first if len(applications) == 1 else f"{first} and {len(applications) - 1} more"


@page
async def choose_sides(request: Request) -> Response:
    """Ask which of the chosen applications are before; the older half at first."""
    service = service_of(request)
    service.listing.look_again()
    chosen = service.standing(read_query(request, Together).app, waiting=False).applications
    ordered = sorted(chosen, key=lambda each: (each.start_ms is None, each.start_ms or 0.0))
    return HTMLResponse(
        render("compare.html", applications=ordered, before=(len(ordered) + 1) // 2)
    )


@page
async def start_comparison(request: Request) -> Response:
    """Start the comparison that a form asks for, and go on to its page."""
    before, after = await _sides(request)
    return RedirectResponse(service_of(request).compare(before, after).address, 303)


@page
async def stop_comparison(request: Request) -> Response:
    """Stop the comparison that a form names, and go back to its page."""
    service, sides = service_of(request), await _sides(request)
    found = service.compared(*sides)
    service.analyses.cancel(found.digest)
    return RedirectResponse(found.address, 303)


async def _sides(request: Request) -> tuple[list[str], list[str]]:
    given = await _form(request)
    before, after = ([key for key, side in given if side == word] for word in SIDES)
    return before, after


async def _form(request: Request) -> list[tuple[str, str]]:
    """Names and values that a form sent."""
    return parse_qsl((await request.body()).decode("utf-8", "replace"))


async def _applications(request: Request) -> list[str]:
    """Keys of the applications that a form names."""
    return [value for name, value in await _form(request) if name == "app"]


@page
async def compared(request: Request) -> Response:
    """Show a comparison, or how far it is."""
    service = service_of(request)
    service.listing.look_again()
    sets = read_query(request, ComparedSets)
    found = service.compared(sets.before, sets.after)
    known = {"compared": found, "progress": comparison_progress(found, service)}
    barred = await _barred(service, found.result, "compared_bar.html", known)
    if barred is None:
        return HTMLResponse(render("compared.html", **known))
    return await compressed(request, *barred)


@page
async def start(request: Request) -> Response:
    """Start an analysis that a form asks for, and go on to its page."""
    keys = await _applications(request)
    return RedirectResponse(service_of(request).analyse(keys).address, 303)


@page
async def stop(request: Request) -> Response:
    """Stop an analysis that a form names, and go back to its page."""
    service = service_of(request)
    standing = service.standing(await _applications(request))
    service.analyses.cancel(standing.digest)
    return RedirectResponse(standing.address, 303)


@page
async def live_page(request: Request) -> Response:
    """Show what a running application does now."""
    service = looked_again(request)
    (one,) = service.standing([request.path_params["key"]], waiting=False).applications
    return HTMLResponse(render("live.html", one=one))


FORM_S = 1.5
"""Seconds that a sent question waits for its answer before a page shows how far it is."""


class AskedWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A what-if question in an address: about which applications, in the words of the command."""

    app: Apps
    words: Annotated[str, Meta(max_length=2000)] = ""


def changes_of(words: str) -> Changes:
    """Read what stands behind the paths in a command line of ``iqcar whatif``.

    Raises UsageError if it is not what the command takes.
    """
    try:
        left = shlex.split(words)
    except ValueError as error:
        raise UsageError(f"is not closed: {error}", words, "close the quotation") from error
    found: dict[str, Any] = {}
    while left:
        option, equals, value = left.pop(0).partition("=")
        name = option.removeprefix("--").replace("-", "_")
        part = PARTS.get(name)
        if part is None or option != option_of(name):
            advice = "give options of iqcar whatif, such as --remove QUERY --slots +8"
            raise UsageError("is no change", option, advice)
        if part.kind is PartKind.FLAG:
            found[name] = True
            continue
        if not equals and not left:
            raise UsageError("has no value", option, f"give {option} {part.metavar}")
        value = value if equals else left.pop(0)
        found[name] = [*found.get(name, ()), value] if part.kind in SEVERAL else value
    return AskedChanges(**found)


@page
async def what_if(request: Request) -> Response:
    """Show the answer to the question in the address, or how far it is, and ask for another."""
    service = service_of(request)
    service.listing.look_again()
    return _asked_page(service, read_query(request, AskedWords))


@page
async def ask_what_if(request: Request) -> Response:
    """Ask what a form says, and go on to the question's page."""
    service, asked = service_of(request), await _sent_question(request)
    try:
        await asked_live(service, asked.app, changes_of(asked.words), FORM_S)
    except UsageError as error:
        return _asked_page(service, asked, str(error))
    return RedirectResponse(_question_address(asked), 303)


@page
async def stop_what_if(request: Request) -> Response:
    """Stop the question that a form names, and go back to its page."""
    service, asked = service_of(request), await _sent_question(request)
    service.analyses.cancel(service.asked(asked.app, changes_of(asked.words).given()).digest)
    return RedirectResponse(_question_address(asked), 303)


async def _sent_question(request: Request) -> AskedWords:
    words = dict(await _form(request)).get("words", "")
    fields = {"app": await _applications(request), "words": words}
    try:
        return msgspec.convert(fields, AskedWords)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from error


def _question_address(asked: AskedWords) -> str:
    return "/whatif?" + urlencode({"app": asked.app, "words": asked.words}, doseq=True)


def _asked_page(service: Service, asked: AskedWords, problem: str = "") -> Response:
    standing = service.standing(asked.app, waiting=False)
    progress, ask, work = None, "", None
    if asked.words and not problem:
        try:
            changes = changes_of(asked.words).given()
            work = service.asked(asked.app, changes)
        except UsageError as error:
            problem = str(error)
        else:
            progress = question_progress(work, service, _question_address(asked))
            ask = "/api/whatif?" + urlencode({"app": asked.app, **changes}, doseq=True)
            ask = ask.replace("=True", "=true")
            if work.state is State.FAILED:
                problem = progress.message
    wrong = bool(problem) and (work is None or bool(work.analysis and work.analysis.wrong))
    content = service.cache.read(work.result, PAGE) if work and work.result else None
    body = render(
        "whatif.html",
        standing=standing,
        title=standing.applications[0].name,
        words=asked.words,
        problem=problem,
        progress=progress,
        ask=ask,
        answer=gzip.decompress(content).decode() if content else "",
        options=[
            (f"{option_of(name)} {part.in_help}".rstrip(), part.help)
            for name, part in PARTS.items()
        ],
    )
    return HTMLResponse(body, 400 if wrong else 200)


SHOWN = 15
"""Rows of each table."""
RANGES = {"7 days": 7, "30 days": 30, "90 days": 90, "a year": 365}


@page
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


async def interface(request: Request) -> Response:
    """Show the API's documentation."""
    return HTMLResponse(
        render("api.html", endpoints=[(each, parameters_of(each)) for each in ENDPOINTS])
    )


async def static(request: Request) -> Response:
    """Answer with a file that pages load."""
    name = request.path_params["name"]
    if name not in STATIC:
        return failure(404, "there is no such file")
    content, mark = await asyncio.to_thread(_file, name)
    headers = {"Cache-Control": "private, no-cache", "ETag": mark}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    return await compressed(request, content, STATIC[name], headers)


async def icon(request: Request) -> Response:
    """Answer with the icon, which browsers ask for at this address by themselves."""
    content, mark = await asyncio.to_thread(_file, "icon.svg")
    headers = {"Cache-Control": "private, max-age=3600", "ETag": mark}
    return await compressed(request, content, STATIC["icon.svg"], headers)


@cache
def _file(name: str) -> tuple[bytes, str]:
    """Return a file, compressed, and a mark that changes when it does."""
    if name == "plotly.js":
        content = plotly().encode()
    else:
        content = (Path(__file__).parent / "static" / name).read_bytes()
    mark = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return gzip.compress(content, 6, mtime=0), mark


async def not_found(request: Request, error: Exception) -> Response:
    """Answer for what no route leads to, or leads to with another method."""
    status = getattr(error, "status_code", 500)
    said = {
        404: "there is no such page",
        405: "this cannot be done here",
    }.get(status, "the request could not be answered")
    if request.url.path.startswith("/api/"):
        answer = problem(status, said)
    else:
        answer = failure(status, said)
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


def routes() -> list[Route]:
    """Return the routes of the pages."""
    return [
        Route("/", listed),
        Route("/applications/{key}", one),
        Route("/live/{key}", live_page),
        Route("/history", store_page),
        Route("/together", together),
        Route("/compare", choose_sides),
        Route("/compare", start_comparison, methods=["POST"]),
        Route("/compare/stop", stop_comparison, methods=["POST"]),
        Route("/compared", compared),
        Route("/whatif", what_if),
        Route("/whatif", ask_what_if, methods=["POST"]),
        Route("/whatif/stop", stop_what_if, methods=["POST"]),
        Route("/analyse", start, methods=["POST"]),
        Route("/analyse-all", start_all, methods=["POST"]),
        Route("/stop", stop, methods=["POST"]),
        Route("/api", interface),
        Route("/static/{name}", static),
        Route("/favicon.ico", icon),
    ]
