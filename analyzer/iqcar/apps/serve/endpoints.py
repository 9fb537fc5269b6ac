"""Declares the API's endpoints: routes, checks and documentation from one place."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from iqcar.apps.serve.handling import Handler, answering, read_body, read_query
from iqcar.apps.serve.responses import JSONResponse, Problem
from iqcar.show.json.analyze import result_schema
from iqcar.show.json.compare import compare_schema
from iqcar.show.json.history import history_schema
from iqcar.show.json.live import live_schema
from iqcar.show.json.whatif import whatif_schema
from iqcar.version import __version__

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
    _, components = msgspec.json.schema_components(
        list(structs), ref_template="#/components/schemas/{name}"
    )
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
        _, parts = msgspec.json.schema_components([each.body], ref_template="{name}")
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
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
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
