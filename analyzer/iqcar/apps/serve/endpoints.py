"""Declares the API: its objects, and its endpoints with routes, checks and documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.applications import Page, neighbours_of
from iqcar.apps.serve.cache import ApplicationLoss, FirstFinding
from iqcar.apps.serve.responses import (
    Handler,
    JSONResponse,
    Problem,
    answering,
    read_body,
    read_query,
)
from iqcar.enums import InputStatus
from iqcar.show.json.analyze import result_schema
from iqcar.show.json.compare import compare_schema
from iqcar.show.json.described import laid_out, schema_components
from iqcar.show.json.history import history_schema
from iqcar.show.json.live import live_schema
from iqcar.show.json.whatif import whatif_schema
from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.apps.serve.applications import Application
    from iqcar.apps.serve.service import AnalysisWork, ComparisonWork, Service, Work


Key = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{24}$",
        description="Key of an application; made from the place of its log, it stays the same when "
        "the log grows and when Spark takes `.inprogress` off its name.",
    ),
]
AnalysisId = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{32}$",
        description="Names an analysis of certain applications with their logs as they were.",
    ),
]
Ms = Annotated[float | None, Meta(description="In ms; null is unknown, never zero.")]
Moment = Annotated[float | None, Meta(description="In ms since the epoch; null is unknown.")]


class Found(msgspec.Struct, frozen=True):
    """What the last analysis of an application found, in short."""

    grown: Annotated[bool, "Whether the log has grown since, so that this may be out of date."]
    queries: Annotated[int, "Queries found."]
    lost_ms: Annotated[float, "Time that its queries lost, in ms."]
    lost_to_others_ms: Annotated[float, "Time that its queries lost to other queries, in ms."]
    worst_query_id: Annotated[
        str | None, "The query that lost most to others; null if none lost any."
    ]
    worst_name: Annotated[str | None, "Its name."]
    worst_lost_ms: Annotated[float | None, "What it lost, in ms."]
    worst_low_ms: Annotated[
        float | None,
        "Lower end of the range of what it lost to others, in ms; null where no replay tells.",
    ]
    worst_high_ms: Annotated[float | None, "Upper end of that range, in ms."]
    first_finding: Annotated[
        FirstFinding | None, "What would save most time; null if nothing would."
    ]


class ApplicationRow(msgspec.Struct, frozen=True):
    """An application as the list shows it, known from the first and last lines of its log."""

    key: Key
    name: Annotated[str, "Its name; the log's where it gives none."]
    application_id: Annotated[str, "As Spark wrote it; empty if not recorded."]
    attempt_id: Annotated[str, "Attempt; empty if it has only one."]
    user: Annotated[str, "User that ran it; empty if not recorded."]
    spark_version: Annotated[str, "Empty if not recorded."]
    path: Annotated[str, "Where its log is."]
    status: Annotated[
        InputStatus | None, "State of the log; null while its first lines were not read yet."
    ]
    message: Annotated[str, "Why it cannot be read, or what is doubtful; empty if nothing."]
    size_bytes: Annotated[int, "Stored size of the log; 0 if not known."]
    start_ms: Moment
    end_ms: Moment
    duration_ms: Ms
    found: Annotated[Found | None, "What analysing it alone found; null before that."]
    lost: Annotated[
        ApplicationLoss | None,
        "What it lost and to whom, as the newest result about most applications "
        "with it tells; null before any.",
    ]


class ApplicationList(msgspec.Struct, frozen=True):
    """One page of the list."""

    applications: list[ApplicationRow]
    page: Annotated[int, "Number of this page, from 1."]
    pages: Annotated[int, "Number of pages, at least 1."]
    chosen: Annotated[int, "Applications that match, on all pages."]
    total: Annotated[int, "Applications in all."]
    unread: Annotated[
        int,
        "Applications whose first lines are still to be read; at least 1 until the "
        "places were looked through once.",
    ]
    left_out: Annotated[int, "Logs that are not listed: there are too many."]
    unanswered: Annotated[
        list[str], "Places that have not answered yet: what they have is old, or missing."
    ]


class NeighbourRow(msgspec.Struct, frozen=True):
    """An application that ran at the same time on some of the same hosts."""

    key: Key
    name: str
    overlap_ms: Annotated[float, "Time that both ran, in ms."]
    hosts: Annotated[list[str], "Hosts known to have run both."]


class HowFar(msgspec.Struct, frozen=True, kw_only=True):
    """How far an analysis or a comparison is."""

    state: Annotated[
        State | None, "Null: not asked for. " + " ".join(f"{s}: {s.sentence}" for s in State)
    ]
    waiting_before: Annotated[int, "Analyses that wait before it."]
    phase: Annotated[str, "What is being done: reading, analysing or writing; or empty."]
    share: Annotated[float, Meta(ge=0, le=1), "How far the phase is; of a comparison, of one set."]
    running_ms: Annotated[float, "Time since it began, in ms."]
    message: Annotated[str, "Why it failed; empty if it did not."]
    grown: Annotated[
        bool,
        "Whether there is a result, but of an earlier state of a log: "
        "it has grown since, ask again.",
    ]
    address: Annotated[str, "Path of its page."]


class Progress(HowFar, frozen=True, kw_only=True):
    """How far an analysis is."""

    id: AnalysisId
    applications: Annotated[list[Key], "Analysed together."]


class ComparisonProgress(HowFar, frozen=True, kw_only=True):
    """How far a comparison is."""

    before: Annotated[list[Key], "Applications before."]
    after: Annotated[list[Key], "Applications after."]


class ApplicationAbout(msgspec.Struct, frozen=True):
    """An application, how far its analysis is, and what ran beside it."""

    application: ApplicationRow
    progress: Progress
    neighbours: Annotated[
        list[NeighbourRow], "The longest beside it first; complete only once all are analysed."
    ]


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be analysed together."""

    SAYS: ClassVar[str] = "what to analyse"

    applications: Annotated[list[Key], Meta(min_length=1, max_length=32)]


class Together(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which applications a request is about: its query parameters."""

    app: Annotated[
        list[Key], Meta(min_length=1, max_length=32), "Key of an application, once for each."
    ]


class ComparedSets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which applications are compared: those before with those after."""

    SAYS: ClassVar[str] = "what to compare"

    before: Annotated[
        list[Key], Meta(min_length=1, max_length=32), "Key of an application before, each once."
    ]
    after: Annotated[
        list[Key], Meta(min_length=1, max_length=32), "Key of an application after, each once."
    ]


def comparison_progress(compared: ComparisonWork, service: Service) -> ComparisonProgress:
    """Lay out how far a comparison is."""
    return ComparisonProgress(
        before=[one.key for one in compared.before],
        after=[one.key for one in compared.after],
        address=compared.address,
        **_how_far(compared, service),
    )


def question_progress(asked: Work, service: Service, address: str = "/whatif") -> HowFar:
    """Lay out how far the answer to a question is."""
    return HowFar(address=address, **_how_far(asked, service))


def _how_far(work: Work, service: Service) -> dict[str, Any]:
    analysis = work.analysis
    return {
        "state": work.state,
        "waiting_before": service.analyses.place(work.digest),
        "phase": analysis.phase if analysis else "",
        "share": analysis.share if analysis else 0.0,
        "running_ms": analysis.running_ms if analysis else 0.0,
        "message": analysis.message if analysis else "",
        "grown": work.grown,
    }


def row_of(one: Application) -> ApplicationRow:
    """Lay an application out as a row."""
    peek, summary = one.peek, one.summary
    return ApplicationRow(
        key=one.key,
        name=one.name,
        application_id=one.application_id,
        attempt_id=peek.attempt_id if peek else "",
        user=peek.user if peek else "",
        spark_version=peek.spark_version if peek else "",
        path=one.path,
        status=peek.status if peek else None,
        message=peek.message if peek else "",
        size_bytes=one.size_bytes,
        start_ms=one.start_ms,
        end_ms=one.end_ms,
        duration_ms=one.duration_ms,
        found=Found(**laid_out(Found, summary, grown=not one.summary_is_current))
        if summary
        else None,
        lost=one.loss,
    )


def list_of(page: Page, service: Service) -> ApplicationList:
    """Lay a page of the list out."""
    listing = service.listing
    return ApplicationList(
        applications=[row_of(one) for one in page.applications], page=page.number, pages=page.pages,
        chosen=page.chosen, total=page.total, unread=listing.unread, left_out=listing.left_out,
        unanswered=listing.unanswered,
    )  # fmt: skip


def progress_of(standing: AnalysisWork, service: Service) -> Progress:
    """Lay out how far an analysis is."""
    return Progress(
        id=standing.digest,
        applications=list(standing.keys),
        address=standing.address,
        **_how_far(standing, service),
    )


def about(one: Application, service: Service, others: Iterable[Application]) -> ApplicationAbout:
    """Lay out what is known about one application."""
    neighbours = [
        NeighbourRow(each.application.key, each.application.name, each.overlap_ms, list(each.hosts))
        for each in neighbours_of(one, others)
    ]
    return ApplicationAbout(
        row_of(one), progress_of(service.standing([one.key]), service), neighbours
    )


RESULT, COMPARISON, WHAT_IF, LIVE, HISTORY = "Result", "Comparison", "WhatIf", "Live", "History"
"""Names of the schemas of what ``iqcar analyze``, ``compare``, ``whatif``, ``live`` (a stream) and
``history`` write with ``--json``."""

WRITTEN = {
    RESULT: result_schema,
    COMPARISON: compare_schema,
    WHAT_IF: whatif_schema,
    LIVE: live_schema,
    HISTORY: history_schema,
}
"""What returns each of these schemas."""

OPENAPI = "openapi"
"""Stands for an OpenAPI document."""

GROWN = "Iqcar-Log-Grown"
"""Header of a result: whether a log has grown since it was made."""

RESULT_HEADERS = {GROWN: "`true` if a log has grown since, so that this is out of date."}
GONE: tuple[str, Any] = ("There is none of that key, or not any more.", Problem)
REFUSED: dict[int, tuple[str, Any]] = {
    403: ("The request comes from a page of another site.", Problem),
    404: GONE,
    413: ("The body is too large.", Problem),
    503: ("Too many analyses wait already; ask again later.", Problem),
}
"""Answers to who asks for work that is not begun."""


@dataclass(frozen=True)
class Endpoint:
    """One thing that can be asked of the API; made by :func:`endpoint` from its handler."""

    method: str
    path: str
    """Its variables in braces."""
    name: str
    summary: str
    """What it does, in one sentence."""
    handle: Handler
    answers: dict[int, tuple[str, Any]]
    """Status → what it means, and the struct or the name of the schema of the answer."""
    variables: dict[str, Any]
    """Types of the path's variables."""
    query: type[msgspec.Struct] | None
    body: type[msgspec.Struct] | None
    headers: dict[str, str]
    """Headers of its first answer, with what they say."""

    @property
    def route(self) -> Route:
        """The route to its handler."""
        return Route(self.path, self.handle, methods=[self.method], name=self.name)


def endpoint(
    asked: str,
    name: str,
    summary: str,
    answers: dict[int, tuple[str, Any]],
    *,
    given: type[msgspec.Struct] | None = None,
    headers: dict[str, str] | None = None,
) -> Callable[[Callable[..., Awaitable[Any]]], Endpoint]:
    """Declare the endpoint that the decorated function answers.

    `asked` is method and path. The function takes the request, the path's variables by name, and
    at most one struct: the query of a GET, the body of a POST; its type is that of the annotation,
    or `given`. It returns a response, or a struct that is the answer with status 200. Its errors
    become the documented answers.
    """
    method, path = asked.split()
    names = re.findall(r"{(\w+)}", path)

    def declare(handle: Callable[..., Awaitable[Any]]) -> Endpoint:
        hints = get_type_hints(handle, include_extras=True)
        parameters = [one for one in hints if one not in (*names, "request", "return")]
        kind = given or next((hints[one] for one in parameters), None)
        query, body = (kind, None) if method == "GET" else (None, kind)

        @answering
        async def answer(request: Request) -> Response:
            values = dict(request.path_params)
            if query:
                values[parameters[0]] = read_query(request, query)
            if body:
                values[parameters[0]] = await read_body(request, body)
            found = await handle(request, **values)
            return found if isinstance(found, Response) else JSONResponse(found)

        variables = {one: hints[one] for one in names}
        return Endpoint(
            method=method, path=path, name=name, summary=summary, handle=answer, answers=answers,
            variables=variables, query=query, body=body, headers=headers or {},
        )  # fmt: skip

    return declare


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Describe endpoints as an OpenAPI 3.1 document."""
    structs: dict[Any, None] = {Problem: None}
    for each in endpoints:
        structs |= {kind: None for _, kind in each.answers.values() if not isinstance(kind, str)}
        structs |= {kind: None for kind in (each.body,) if kind}
    components = schema_components(structs, "#/components/schemas/{name}")
    components |= {name: _written(name, schema()) for name, schema in WRITTEN.items()}
    paths: dict[str, Any] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "iqcar serve",
            "version": __version__,
            "summary": "Who made which Spark query wait, over folders of event logs.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Only where the server asks for a token.",
                }
            },
        },
        "security": [{}, {"bearer": []}],
    }


def parameters_of(each: Endpoint) -> list[dict[str, str]]:
    """List what an endpoint is given, for people: its path's variables, query and body."""
    operation = _operation(each)
    rows = [
        {
            "name": one["name"],
            "holds": _holds(one["schema"]),
            "meaning": one.get("description") or one["schema"].get("description", ""),
        }
        for one in operation.get("parameters", ())
    ]
    if each.body:
        parts = schema_components([each.body], "{name}")
        rows += [
            {"name": f"body: {name}", "holds": _holds(schema), "meaning": each.body.__doc__ or ""}
            for name, schema in parts[each.body.__name__]["properties"].items()
        ]
    return rows


def _holds(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        words = ", ".join(str(value) for value in schema["enum"])
    elif schema.get("type") == "array":
        most = schema.get("maxItems", "any number of")
        words = f"array of {schema.get('minItems', 0)} to {most} {schema['items'].get('type')}s"
    else:
        words = str(schema.get("type", ""))
    if "minimum" in schema and "maximum" in schema:
        words += f", {schema['minimum']} to {schema['maximum']}"
    default = schema.get("default")
    return words + (f"; by default {default}" if default not in (None, "") else "")


def _operation(each: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "responses": {str(code): _answer(code, each) for code in each.answers},
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(kind)}
        for name, kind in each.variables.items()
    ]
    if each.query:
        parameters += _query(each.query)
    if parameters:
        operation["parameters"] = parameters
    if each.body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _reference(each.body)}},
        }
    for code, meaning in _ALWAYS.items():
        operation["responses"].setdefault(
            code,
            {
                "description": meaning,
                "content": {"application/problem+json": {"schema": _reference(Problem)}},
            },
        )
    return operation


_ALWAYS = {
    "400": "The request makes no sense; the detail says why.",
    "401": "The server asks for a token.",
}


def _answer(code: int, each: Endpoint) -> dict[str, Any]:
    meaning, kind = each.answers[code]
    media = "application/problem+json" if kind is Problem else "application/json"
    media = "text/event-stream" if kind == LIVE else media
    answer: dict[str, Any] = {
        "description": meaning,
        "content": {media: {"schema": _reference(kind)}},
    }
    if each.headers and code == next(iter(each.answers)):
        answer["headers"] = {
            name: {"description": says, "schema": {"type": "string"}}
            for name, says in each.headers.items()
        }
    return answer


def _reference(kind: Any) -> dict[str, Any]:
    if kind == OPENAPI:
        return {"type": "object", "description": "An OpenAPI 3.1 document."}
    name = kind if kind in WRITTEN else kind.__name__
    return {"$ref": f"#/components/schemas/{name}"}


def _query(kind: type[msgspec.Struct]) -> list[dict[str, Any]]:
    parts = schema_components([kind], "{name}")
    fields = parts[kind.__name__]["properties"]
    needed = parts[kind.__name__].get("required", ())
    described = []
    for name, schema in fields.items():
        inlined = _inlined(schema, parts)
        described.append(
            {
                "name": name,
                "in": "query",
                "required": name in needed,
                "description": inlined.pop("description", ""),
                "schema": inlined,
            }
        )
    return described


def _inlined(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Put in the place of references what they refer to: enums; null is not sent in a query."""
    schema = dict(schema)
    if "anyOf" in schema:
        schema |= next(part for part in schema.pop("anyOf") if part.get("type") != "null")
        schema.pop("default", None)
    if "$ref" in schema:
        schema = {**parts[schema.pop("$ref")], **schema}
        schema.pop("title", None)
    return schema


def _written(name: str, schema_text: str) -> dict[str, Any]:
    """Return the schema of a result, its own references pointing to where it now stands."""
    text = re.sub(r'"#/\$defs/', f'"#/components/schemas/{name}/$defs/', schema_text)
    schema: dict[str, Any] = json.loads(text)
    schema.pop("$schema", None)
    schema.pop("$id", None)
    return schema
